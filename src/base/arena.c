// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct arena_chunk {
	struct arena_chunk *next;
	_Alignas(8) uint8_t bytes[];
};

void arena_init(struct arena *a, size_t limit_bytes)
{
	a->next = a->first;
	a->end = a->first + sizeof(a->first);
	a->chunks = NULL;
	a->limit_bytes = limit_bytes;
	a->used_bytes = 0;
	a->refused = false;
}

void arena_fini(struct arena *a)
{
	while (a->chunks != NULL) {
		struct arena_chunk *c = a->chunks;
		a->chunks = c->next;
		free(c);
	}
}

void arena_reset(struct arena *a, size_t limit_bytes)
{
	arena_fini(a);
	arena_init(a, limit_bytes);
}

static uint8_t *arena_add_chunk(struct arena *a, size_t size)
{
	assert(size % 8 == 0);
	struct arena_chunk *c = malloc(sizeof(*c) + size);
	if (c == NULL)
		return NULL;
	c->next = a->chunks;
	a->chunks = c;
	return c->bytes;
}

/*
 * Allocates what does not fit into the current chunk. An allocation above a quarter of a chunk gets
 * a chunk of its own. So a chunk is abandoned only when less than a quarter of it is free, and the
 * arena takes from malloc at most a third more than its limit, plus one chunk.
 */
static void *arena_alloc_slow(struct arena *a, size_t len)
{
	if (len > ARENA_CHUNK / 4)
		return arena_add_chunk(a, len);
	uint8_t *bytes = arena_add_chunk(a, ARENA_CHUNK);
	if (bytes == NULL)
		return NULL;
	a->next = bytes + len;
	a->end = bytes + ARENA_CHUNK;
	return bytes;
}

void *arena_alloc(struct arena *a, size_t len)
{
	assert(a->used_bytes <= a->limit_bytes && a->next <= a->end);
	if (len > a->limit_bytes - a->used_bytes) {
		a->refused = true;
		return NULL;
	}
	size_t rounded = len == 0 ? 8 : (len + 7) & ~(size_t)7;
	void *p = a->next;
	if (rounded <= (size_t)(a->end - a->next))
		a->next += rounded;
	else
		p = arena_alloc_slow(a, rounded);
	if (p != NULL)
		a->used_bytes += min_u64(rounded, a->limit_bytes - a->used_bytes);
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	size_t len = strlen(s) + 1;
	char *copy = arena_alloc(a, len);
	if (copy != NULL)
		memcpy(copy, s, len);
	return copy;
}
