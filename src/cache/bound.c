// SPDX-License-Identifier: Apache-2.0
#include "cache/bound.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

int bound_init(struct bound *b, uint64_t requests, uint64_t capacity)
{
	*b = (struct bound){.capacity = capacity};
	if (requests >= BOUND_NEVER)
		return -E2BIG;
	b->requests = (uint32_t)requests;
	uint64_t words = requests;
	do {
		words = words / 64 + 1;
		b->level[b->levels] = calloc(words, sizeof(uint64_t));
		if (b->level[b->levels++] == NULL) {
			bound_fini(b);
			return -ENOMEM;
		}
	} while (words > 1);
	return 0;
}

void bound_fini(struct bound *b)
{
	for (uint32_t k = 0; k < BOUND_LEVELS; k++)
		free(b->level[k]);
	*b = (struct bound){0};
}

static void set_bit(struct bound *b, uint32_t i)
{
	for (uint32_t k = 0; k < b->levels; k++, i /= 64) {
		uint64_t before = b->level[k][i / 64];
		b->level[k][i / 64] = before | 1ULL << i % 64;
		if (before != 0)
			return;
	}
}

static void clear_bit(struct bound *b, uint32_t i)
{
	for (uint32_t k = 0; k < b->levels; k++, i /= 64)
		if ((b->level[k][i / 64] &= ~(1ULL << i % 64)) != 0)
			return;
}

static uint32_t farthest(const struct bound *b)
{
	uint32_t at = 0;
	for (uint32_t k = b->levels; k-- > 0;) {
		assert(b->level[k][at] != 0);
		at = at * 64 + 63 - (uint32_t)__builtin_clzll(b->level[k][at]);
	}
	return at;
}

bool bound_request(struct bound *b, uint32_t i, uint32_t next)
{
	assert(i < b->requests && (next == BOUND_NEVER || (next > i && next < b->requests)));
	bool hit = (b->level[0][i / 64] >> i % 64 & 1) != 0;
	if (hit) {
		clear_bit(b, i);
		b->held--;
	}
	if (next == BOUND_NEVER || b->capacity == 0)
		return hit;
	if (b->held == b->capacity) {
		uint32_t out = farthest(b);
		if (out < next)
			return hit;
		clear_bit(b, out);
		b->held--;
	}
	set_bit(b, next);
	b->held++;
	return hit;
}
