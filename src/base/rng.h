// SPDX-License-Identifier: Apache-2.0
/*
 * Seeded random numbers: a seed gives the same sequence on every machine and in every version,
 * because seeds identify layouts and simulations. xoshiro256** (Blackman and Vigna), seeded through
 * splitmix64. Not for secrets.
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

/* Returns a number uniform in [0, n), without bias; n > 0. */
uint64_t rng_below(struct rng *r, uint64_t n);

/* Returns a number uniform in [0, 1). */
double rng_unit(struct rng *r);

/* Returns true with probability p. p <= 0 draws no number, so that a disabled fault does not
 * change the sequence. */
bool rng_chance(struct rng *r, double p);

/* Returns an exponentially distributed number with the given mean. */
double rng_exponential(struct rng *r, double mean);

void rng_fill(struct rng *r, void *buf, size_t len);

/* Returns the finalizer of splitmix64: a fixed bijection in which every input bit affects all
 * bits of the result. */
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
