// SPDX-License-Identifier: Apache-2.0
/*
 * Linear probing without tombstones: a removal shifts the entries behind it back, so the table
 * never decays and lookups stop at the first free slot.
 *
 * Invariant: between an entry's home slot and the slot it sits in, no slot is free.
 */
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define MAP_CAP_MIN 16

void map_init(struct map *m, size_t max_entries)
{
	*m = (struct map){.max_entries = max_entries};
}

void map_fini(struct map *m)
{
	free(m->slots);
	*m = (struct map){0};
}

void map_clear(struct map *m)
{
	if (m->count > 0)
		memset(m->slots, 0, m->cap * sizeof(*m->slots));
	m->count = 0;
}

static size_t map_home(const struct map *m, uint64_t key)
{
	assert((m->cap & (m->cap - 1)) == 0 && m->count < m->cap);
	return (size_t)mix_u64(key) & (m->cap - 1);
}

/* Returns the slot of the key, or the free slot for it. The table is never full, so the loop
 * ends. */
static size_t map_probe(const struct map *m, uint64_t key)
{
	size_t i = map_home(m, key);
	while (m->slots[i].value != NULL && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return i;
}

static int map_grow(struct map *m)
{
	if (m->cap > SIZE_MAX / 2)
		return -ENOMEM;
	struct map bigger = *m;
	bigger.cap = m->cap == 0 ? MAP_CAP_MIN : m->cap * 2;
	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (bigger.slots == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].value != NULL)
			bigger.slots[map_probe(&bigger, m->slots[i].key)] = m->slots[i];
	free(m->slots);
	*m = bigger;
	return 0;
}

int map_put(struct map *m, uint64_t key, void *value)
{
	assert(value != NULL);
	if (map_get(m, key) != NULL)
		return -EEXIST;
	if (m->count >= m->max_entries)
		return -ENOSPC;
	if (m->count + 1 > m->cap / 4 * 3) {
		int rc = map_grow(m);
		if (rc < 0)
			return rc;
	}
	m->slots[map_probe(m, key)] = (struct map_slot){.key = key, .value = value};
	m->count++;
	return 0;
}

void *map_get(const struct map *m, uint64_t key)
{
	return m->count > 0 ? m->slots[map_probe(m, key)].value : NULL;
}

void *map_remove(struct map *m, uint64_t key)
{
	if (m->count == 0)
		return NULL;
	size_t mask = m->cap - 1;
	size_t hole = map_probe(m, key);
	void *value = m->slots[hole].value;
	if (value == NULL)
		return NULL;
	for (size_t i = (hole + 1) & mask; m->slots[i].value != NULL; i = (i + 1) & mask) {
		/* An entry may move back to the hole unless its home lies behind the hole. */
		size_t from_home = (i - map_home(m, m->slots[i].key)) & mask;
		if (from_home >= ((i - hole) & mask)) {
			m->slots[hole] = m->slots[i];
			hole = i;
		}
	}
	assert(m->slots[hole].value != NULL);
	m->slots[hole].value = NULL;
	m->count--;
	return value;
}

bool map_next(const struct map *m, struct map_iter *it)
{
	while (it->next < m->cap) {
		const struct map_slot *s = &m->slots[it->next++];
		if (s->value != NULL) {
			it->key = s->key;
			it->value = s->value;
			return true;
		}
	}
	return false;
}
