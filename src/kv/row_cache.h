// SPDX-License-Identifier: Apache-2.0
/*
 * Rows in memory, by partition and key: what the embedded engine found there, also that it found nothing.
 *
 * Finding a row in RocksDB's tables takes longer the more of them there are: filters, indexes, the block,
 * the place in the block. Here it is one place in a hash table, at ten thousand rows as at ten million.
 *
 * The table is made of buckets of ROW_CACHE_WAYS places, each bucket one line of the processor's cache: a
 * row that is not here costs one miss, one that is here two or three. It grows by linear hashing, a bucket
 * at a time, so that no single call pays for it:
 *
 *   buckets 0 to 3, of which 0 and 1 have been split:   0 1 2 3 | 4 5     next: 2, into 2 and 6
 *   a hash that ends in 101 goes to bucket 5, one in 110 to bucket 2, for there is no 6 yet
 *
 * The rows lie in a ring, one behind the other. New ones go to its head; for room the tail moves on:
 *
 *   | e f g . . . . a b c d |     head behind g, tail at a; b was dropped, and is a gap until the tail is there
 *
 * Which row goes. A row that was asked for is marked; when the tail comes to it, it moves to the head instead,
 * and loses its mark. A row that is put here has none: what is read once goes before what is read again. Of a
 * bucket that is full one without a mark goes. The ring begins small, and grows when half of it is rows.
 *
 * Memory. Ring and buckets together are bytes_max at most, in large pages where there are some: at random
 * over a gigabyte, looking up the page is half of the cost of a read. A value of more than
 * ROW_CACHE_VALUE_MAX is not kept.
 *
 * Not for several threads.
 */
#ifndef KV_ROW_CACHE_H
#define KV_ROW_CACHE_H

#include "kv/kv.h"

#define ROW_CACHE_WAYS 10
#define ROW_CACHE_VALUE_MAX 4096

struct row_cache;

/* -ENOMEM. */
int row_cache_open(struct row_cache **out, uint64_t bytes_max);
/* NULL is fine. */
void row_cache_close(struct row_cache *c);

/*
 * True: it is known whether the key is there, and *found says so; value is then its value, and lives until
 * the next call that changes the cache.
 */
bool row_cache_get(struct row_cache *c, uint64_t partition, struct kv_bytes key, bool *found,
		   struct kv_bytes *value);

/* value NULL: there is no such key. Replaces what was known. */
void row_cache_put(struct row_cache *c, uint64_t partition, struct kv_bytes key,
		   const struct kv_bytes *value);

/* Forgets. */
void row_cache_drop(struct row_cache *c, uint64_t partition, struct kv_bytes key);

/* Memory that has been used, and how many rows there are. */
uint64_t row_cache_bytes(const struct row_cache *c);
uint64_t row_cache_count(const struct row_cache *c);

#endif
