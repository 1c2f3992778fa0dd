// SPDX-License-Identifier: Apache-2.0
/*
 * A bump allocator for one message: it hands out memory until its limit and gives all of it back at
 * once. Bodies are unpacked into it (rpc/body.h), so that no body from the wire, however made, can take
 * more than the limit, and a message needs no freeing field by field.
 *
 * The first ARENA_INLINE bytes are inside the struct: a small message needs no malloc. An arena must
 * not move while it is in use.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_INLINE 768
#define ARENA_CHUNK 4096

struct arena_chunk;

struct arena {
	uint8_t *next;
	uint8_t *end;
	struct arena_chunk *chunks; /* malloc'ed ones, newest first */
	size_t limit_bytes;
	size_t used_bytes; /* of the limit; the inline part counts by what was handed out */
	bool refused;      /* the limit was met */
	_Alignas(8) uint8_t first[ARENA_INLINE];
};

void arena_init(struct arena *a, size_t limit_bytes);
void arena_fini(struct arena *a);
/* Everything handed out is gone; a new limit holds. */
void arena_reset(struct arena *a, size_t limit_bytes);

/* Aligned to 8, which is enough for any field of a message. NULL beyond the limit (then a->refused is set) or without memory. */
void *arena_alloc(struct arena *a, size_t len);
char *arena_strdup(struct arena *a, const char *s);

#endif
