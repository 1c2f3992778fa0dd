// SPDX-License-Identifier: Apache-2.0
/*
 * Seeded random numbers: the same seed gives the same sequence on every machine, for ever, because
 * layouts and simulations are named by their seed. xoshiro256** (Blackman and Vigna), seeded
 * through splitmix64. Not for secrets.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t s[4];
};

void rng_init(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);

/* Uniform in [0, n), without bias; n > 0. */
uint64_t rng_below(struct rng *r, uint64_t n);

/* Uniform in [0, 1). */
double rng_unit(struct rng *r);

/* True with probability p; p <= 0 never draws a number, so that a fault switched off costs nothing.
 */
bool rng_chance(struct rng *r, double p);

/* Exponentially distributed with the given mean. */
double rng_exponential(struct rng *r, double mean);

void rng_fill(struct rng *r, void *buf, size_t len);

/* splitmix64's finaliser: a fixed bijection that spreads every input bit over the result. */
static inline uint64_t mix_u64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	x ^= x >> 31;
	return x;
}

#endif
