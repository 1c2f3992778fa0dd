// SPDX-License-Identifier: Apache-2.0
/*
 * The index of a cache: from the key of a segment to the number of its entry.
 *
 * Linear probing over 4-byte slots, twice as many as entries, so with its entry (24 bytes) a segment costs 32 bytes.
 * Keys of neighbouring segments differ in their low bits alone (cache_key) and have neighbouring homes: looking up a
 * request of several segments reads one or two cache lines. The keys themselves stand in the entries.
 */
#ifndef CACHE_INDEX_H
#define CACHE_INDEX_H

#include <stdint.h>

#include "cache/policy.h"

struct cache_index {
	const struct cache_entry *entries; /* borrowed: the key of number i is entries[i].key */
	uint32_t *slots;                   /* number + 1; 0: empty */
	uint64_t slots_n;
	uint32_t count, capacity;
};

/* -ENOMEM */
int cache_index_init(struct cache_index *x, const struct cache_entry *entries, uint32_t capacity);
void cache_index_fini(struct cache_index *x);

/* Returns the number of the entry with this key, or CACHE_NONE. */
uint32_t cache_index_find(const struct cache_index *x, uint64_t key);
/* Adds the entry, whose key is not in the index. */
void cache_index_add(struct cache_index *x, uint32_t number);
/* The entry `from` has moved to `to`; both still have the key. */
void cache_index_move(struct cache_index *x, uint32_t from, uint32_t to);
void cache_index_remove(struct cache_index *x, uint32_t number);

#endif
