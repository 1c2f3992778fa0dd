// SPDX-License-Identifier: Apache-2.0
#include "cache/index.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int cache_index_init(struct cache_index *x, const struct cache_entry *entries, uint32_t capacity)
{
	uint64_t slots_n = 2ULL * capacity + 2ULL * CACHE_KEY_NEIGHBOURS;
	assert(capacity > 0 && capacity < UINT32_MAX);
	*x = (struct cache_index){.entries = entries, .slots_n = slots_n, .capacity = capacity};
	x->slots = calloc(slots_n, sizeof(*x->slots));
	return x->slots != NULL ? 0 : -ENOMEM;
}

void cache_index_fini(struct cache_index *x)
{
	free(x->slots);
	x->slots = NULL;
}

static uint64_t home_of(const struct cache_index *x, uint64_t key)
{
	uint64_t low = CACHE_KEY_NEIGHBOURS - 1;
	uint64_t group = (uint64_t)((unsigned __int128)(key & ~low) * x->slots_n >> 64);
	uint64_t home = group + (key & low);
	return home < x->slots_n ? home : home - x->slots_n;
}

static uint64_t after(const struct cache_index *x, uint64_t slot)
{
	return slot + 1 < x->slots_n ? slot + 1 : 0;
}

uint32_t cache_index_find(const struct cache_index *x, uint64_t key)
{
	for (uint64_t at = home_of(x, key); x->slots[at] != 0; at = after(x, at))
		if (x->entries[x->slots[at] - 1].key == key)
			return x->slots[at] - 1;
	return CACHE_NONE;
}

void cache_index_add(struct cache_index *x, uint32_t number)
{
	uint64_t at = home_of(x, x->entries[number].key);
	assert(x->count < x->capacity);
	while (x->slots[at] != 0)
		at = after(x, at);
	x->slots[at] = number + 1;
	x->count++;
}

static uint64_t slot_of(const struct cache_index *x, uint32_t number)
{
	uint64_t at = home_of(x, x->entries[number].key);
	while (x->slots[at] != number + 1) {
		assert(x->slots[at] != 0);
		at = after(x, at);
	}
	return at;
}

void cache_index_move(struct cache_index *x, uint32_t from, uint32_t to)
{
	assert(x->entries[from].key == x->entries[to].key);
	x->slots[slot_of(x, from)] = to + 1;
}

void cache_index_remove(struct cache_index *x, uint32_t number)
{
	uint64_t hole = slot_of(x, number), at = hole;
	assert(x->count > 0);
	x->slots[hole] = 0;
	x->count--;
	/* Move back what would no longer be found behind the hole. */
	for (;;) {
		at = after(x, at);
		if (x->slots[at] == 0)
			return;
		uint64_t home = home_of(x, x->entries[x->slots[at] - 1].key);
		uint64_t from_home = at >= home ? at - home : at + x->slots_n - home;
		uint64_t from_hole = at >= hole ? at - hole : at + x->slots_n - hole;
		if (from_home >= from_hole) {
			x->slots[hole] = x->slots[at];
			x->slots[at] = 0;
			hole = at;
		}
	}
}
