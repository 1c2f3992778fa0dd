// SPDX-License-Identifier: Apache-2.0
#include "code/perm.h"

#include <assert.h>

#define SHUFFLE_MAX 32
#define ROUND_PAIRS 4

void perm_init(struct perm *p, uint32_t n)
{
	assert(n >= 1);
	uint32_t a = 1;
	while ((uint64_t)a * a < n)
		a++;
	if (a > 1 && (uint64_t)(a - 1) * a >= n)
		a--;
	*p = (struct perm){.n = n, .a = a, .b = (n + a - 1) / a};
	assert((uint64_t)p->a * p->b >= n);
}

/* Returns a number below `range`, hashed from the key, the round and the other half. */
static inline uint32_t draw(uint64_t key, uint32_t round, uint32_t half, uint32_t range)
{
	uint64_t h = key + ((uint64_t)half << 8 | round) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	h ^= h >> 29;
	h *= 0xd6e8feb86659fd93ULL;
	return (uint32_t)(((h >> 32) * range) >> 32);
}

static inline uint32_t swapped(uint64_t key, uint32_t i, uint32_t x)
{
	uint32_t j = draw(key, 0, i, i + 1);
	if (x == i)
		return j;
	return x == j ? i : x;
}

static uint32_t shuffle_at(uint32_t n, uint64_t key, uint32_t x)
{
	for (uint32_t i = n; i-- > 1;)
		x = swapped(key, i, x);
	return x;
}

static uint32_t shuffle_inverse(uint32_t n, uint64_t key, uint32_t x)
{
	for (uint32_t i = 1; i < n; i++)
		x = swapped(key, i, x);
	return x;
}

static inline uint32_t add_mod(uint32_t x, uint32_t y, uint32_t n)
{
	uint64_t sum = (uint64_t)x + y;
	return (uint32_t)(sum >= n ? sum - n : sum);
}

static inline uint32_t sub_mod(uint32_t x, uint32_t y, uint32_t n)
{
	return x >= y ? x - y : x + (n - y);
}

uint32_t perm_at(const struct perm *p, uint64_t key, uint32_t x)
{
	assert(x < p->n);
	if (p->n <= SHUFFLE_MAX)
		return shuffle_at(p->n, key, x);
	do {
		uint32_t left = x / p->b;
		uint32_t right = x % p->b;
		for (uint32_t r = 0; r < ROUND_PAIRS; r++) {
			right = add_mod(right, draw(key, 2 * r, left, p->b), p->b);
			left = add_mod(left, draw(key, 2 * r + 1, right, p->a), p->a);
		}
		x = left * p->b + right;
	} while (x >= p->n);
	return x;
}

uint32_t perm_inverse(const struct perm *p, uint64_t key, uint32_t x)
{
	assert(x < p->n);
	if (p->n <= SHUFFLE_MAX)
		return shuffle_inverse(p->n, key, x);
	do {
		uint32_t left = x / p->b;
		uint32_t right = x % p->b;
		for (uint32_t r = ROUND_PAIRS; r-- > 0;) {
			left = sub_mod(left, draw(key, 2 * r + 1, right, p->a), p->a);
			right = sub_mod(right, draw(key, 2 * r, left, p->b), p->b);
		}
		x = left * p->b + right;
	} while (x >= p->n);
	return x;
}
