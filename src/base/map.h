// SPDX-License-Identifier: Apache-2.0
/*
 * Hash map from a 64-bit key to a pointer, bounded by a number of entries. Open addressing with
 * linear probing; the order of iteration depends only on the history of calls, never on addresses
 * or a random salt, so that simulations repeat. Use it only for ids that Terrane generates: an
 * adversary could choose keys that collide.
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
	size_t cap; /* number of slots: 0 or a power of two */
	size_t count;
	size_t max_entries;
};

struct map_iter {
	size_t next;
	uint64_t key;
	void *value;
};

/* Initializes an empty map. Allocates nothing; the first map_put allocates the table. */
void map_init(struct map *m, size_t max_entries);

/* Frees the map's table. The values belong to the caller. */
void map_fini(struct map *m);

/* Adds an entry; value must not be NULL. -EEXIST: the key has a value; -ENOSPC: the map has
 * max_entries entries; -ENOMEM. An error changes nothing. */
int map_put(struct map *m, uint64_t key, void *value);

/* Return the value of the key, or NULL. map_remove also removes the entry. */
void *map_get(const struct map *m, uint64_t key);
void *map_remove(struct map *m, uint64_t key);

static inline size_t map_count(const struct map *m)
{
	return m->count;
}

/* Advances an iterator, which starts as zero; false at the end. Between steps the map must not
 * change: to empty a map, walk it and then call map_clear. */
bool map_next(const struct map *m, struct map_iter *it);

#define map_for_each(map, it) for (struct map_iter it = {0}; map_next((map), &(it));)

/* Removes all entries and keeps the table. */
void map_clear(struct map *m);

#endif
