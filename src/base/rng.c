// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

#define GOLDEN 0x9e3779b97f4a7c15ULL /* 2^64 / phi: splitmix64's step */

void rng_init(struct rng *r, uint64_t seed)
{
	for (size_t i = 0; i < ARRAY_LEN(r->s); i++) {
		seed += GOLDEN;
		r->s[i] = mix_u64(seed);
	}
}

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t rng_u64(struct rng *r)
{
	uint64_t *s = r->s;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

/* Scales a random 64-bit number to [0, n) by multiplication and shift, after rejecting the few
 * values that would bias the result towards small numbers. */
uint64_t rng_below(struct rng *r, uint64_t n)
{
	assert(n > 0);
	unsigned __int128 m = (unsigned __int128)rng_u64(r) * n;
	if ((uint64_t)m < n) {
		uint64_t floor = -n % n;
		while ((uint64_t)m < floor)
			m = (unsigned __int128)rng_u64(r) * n;
	}
	return (uint64_t)(m >> 64);
}

double rng_unit(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1.0p-53;
}

bool rng_chance(struct rng *r, double p)
{
	return p > 0 && rng_unit(r) < p;
}

double rng_exponential(struct rng *r, double mean)
{
	return -log1p(-rng_unit(r)) * mean;
}

void rng_fill(struct rng *r, void *buf, size_t len)
{
	uint8_t *p = buf;
	while (len > 0) {
		uint64_t v = rng_u64(r);
		size_t n = len < sizeof(v) ? len : sizeof(v);
		memcpy(p, &v, n);
		p += n;
		len -= n;
	}
}
