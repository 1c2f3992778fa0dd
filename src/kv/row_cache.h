// SPDX-License-Identifier: Apache-2.0
/*
 * The row cache of the embedded engine: rows by partition and key, including the fact that a key does not exist.
 *
 * A lookup in RocksDB's tables takes longer the more rows there are: filters, indexes, the block, the position in
 * the block. A lookup here visits one bucket of a hash table, at ten thousand rows as at ten million.
 *
 * The table consists of buckets of ROW_CACHE_WAYS slots. A bucket is one line of the processor's cache: a miss
 * of the row cache costs one miss of the processor's cache, a hit two or three. The table grows by linear
 * hashing, one bucket at a time, so that no single call pays for the growth:
 *
 *   buckets 0 to 3, of which 0 and 1 have been split:   0 1 2 3 | 4 5     next: 2, into 2 and 6
 *   a hash that ends in 101 belongs in bucket 5; one that ends in 110 in bucket 2, as bucket 6 does not exist yet
 *
 * The rows lie one after the other in a ring. New rows go to its head; to make room, its tail advances:
 *
 *   | e f g . . . . a b c d |     head behind g, tail at a; b was dropped and is a gap until the tail passes it
 *
 * Eviction. A lookup marks the row that it finds. When the tail reaches a marked row, the row moves to the head
 * and loses its mark; an unmarked row is evicted. A new row has no mark, so rows that are read once are evicted
 * before rows that are read again. A full bucket evicts one of its unmarked rows. The ring starts small and
 * grows once rows fill half of it.
 *
 * Memory. Ring and buckets together take at most bytes_max, in large pages where available: with random access
 * over a gigabyte, the address translation is half of the cost of a read. Values of more than
 * ROW_CACHE_VALUE_MAX bytes are not cached.
 *
 * One thread uses a row cache.
 */
#ifndef KV_ROW_CACHE_H
#define KV_ROW_CACHE_H

#include "kv/kv.h"

#define ROW_CACHE_WAYS 10
#define ROW_CACHE_VALUE_MAX 4096 /* bytes; longer values are not cached */

struct row_cache;

/* Opens an empty cache of at most bytes_max bytes. -ENOMEM. */
int row_cache_open(struct row_cache **out, uint64_t bytes_max);
/* Closes and frees a cache. NULL is allowed. */
void row_cache_close(struct row_cache *c);

/*
 * Looks up a key and returns whether the cache has an answer. If it has, *found is set to whether the key
 * exists, and if the key exists, *value to its value, valid until the next put or drop.
 */
bool row_cache_get(struct row_cache *c, uint64_t partition, struct kv_bytes key, bool *found,
		   struct kv_bytes *value);

/*
 * Stores a row, or replaces it. value NULL: the key does not exist. If the row is over the limits, only
 * removes the key's old row.
 */
void row_cache_put(struct row_cache *c, uint64_t partition, struct kv_bytes key,
		   const struct kv_bytes *value);

/* Removes the row of a key from the cache. */
void row_cache_drop(struct row_cache *c, uint64_t partition, struct kv_bytes key);

/* Returns the bytes of memory that the cache has used so far. */
uint64_t row_cache_bytes(const struct row_cache *c);
/* Returns the number of rows in the cache. */
uint64_t row_cache_count(const struct row_cache *c);

#endif
