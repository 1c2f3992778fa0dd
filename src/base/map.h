// SPDX-License-Identifier: Apache-2.0
/*
 * Hash map from a 64-bit key to a pointer, bounded by a number of entries. Open addressing with
 * linear probing; the order of iteration depends only on the history of calls, never on addresses
 * or a random salt, so that simulations repeat. Keys chosen by an adversary could collide: use it
 * for ids that we hand out ourselves.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
	uint64_t key;
	void *value; /* NULL: the slot is free */
};

struct map {
	struct map_slot *slots;
	size_t cap; /* 0 or a power of two */
	size_t count;
	size_t max_entries;
};

struct map_iter {
	size_t next;
	uint64_t key;
	void *value;
};

/* Allocates nothing until the first put. */
void map_init(struct map *m, size_t max_entries);

/* Frees the table; values belong to the caller. */
void map_fini(struct map *m);

/* Adds a value, not NULL. -EEXIST, -ENOSPC at max_entries, -ENOMEM; on error nothing changed. */
int map_put(struct map *m, uint64_t key, void *value);

/* The value, or NULL; remove also takes it out. */
void *map_get(const struct map *m, uint64_t key);
void *map_remove(struct map *m, uint64_t key);

static inline size_t map_count(const struct map *m)
{
	return m->count;
}

/* Steps a zeroed iterator; false at the end. Between steps the map must not be put to or removed
 * from: to empty a map, walk it and then map_clear it. */
bool map_next(const struct map *m, struct map_iter *it);

#define map_for_each(map, it) for (struct map_iter it = {0}; map_next((map), &(it));)

/* Forgets every entry and keeps the table. */
void map_clear(struct map *m);

#endif
