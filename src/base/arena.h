// SPDX-License-Identifier: Apache-2.0
/*
 * A bump allocator for one message. It allocates up to a limit and frees everything together.
 * Bodies are unpacked into it (rpc/body.h), so that a hostile body cannot take more memory than the
 * limit, and the fields of a message need not be freed one by one.
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
	struct arena_chunk *chunks; /* from malloc, newest first */
	size_t limit_bytes;
	/* charged to the limit: the sum of the allocations, each rounded up to 8 */
	size_t used_bytes;
	bool refused; /* an allocation failed at the limit */
	_Alignas(8) uint8_t first[ARENA_INLINE];
};

void arena_init(struct arena *a, size_t limit_bytes);
void arena_fini(struct arena *a);
/* A local declared AUTO_ARENA is freed when its scope ends; arena_init must have initialized it. */
#define AUTO_ARENA __attribute__((cleanup(arena_fini)))
/* Frees all allocations of the arena and sets a new limit. */
void arena_reset(struct arena *a, size_t limit_bytes);

/* Returns memory aligned to 8, which suits every field of a message. NULL beyond the limit, with
 * a->refused set, or when malloc fails. */
void *arena_alloc(struct arena *a, size_t len);
char *arena_strdup(struct arena *a, const char *s);

#endif
