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
 *   buckets 0..3, 3 of 4 split:   0 1 2 3 | 4 5      next to be split: 2, into 2 and 6
 *   hash ...101 goes to bucket 5, hash ...110 to bucket 2, for there is no 6 yet
 *
 * Which row goes. A row that was asked for is marked, and loses its mark instead of its place when a hand
 * that walks over the buckets comes by (CLOCK), or a row for its full bucket. A row that is put here has no
 * mark: what is read once goes before what is read again.
 *
 * Memory. Rows and buckets together stay below bytes_max, counted as malloc hands them out. A value of more
 * than ROW_CACHE_VALUE_MAX is not kept. Best effort throughout: without memory nothing is put.
 *
 * Not for several threads.
 */
#ifndef KV_ROW_CACHE_H
#define KV_ROW_CACHE_H

#include "kv/kv.h"

#define ROW_CACHE_WAYS 6
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

uint64_t row_cache_bytes(const struct row_cache *c);
uint64_t row_cache_count(const struct row_cache *c);

#endif
