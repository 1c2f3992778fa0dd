// SPDX-License-Identifier: Apache-2.0
#include "training/order.h"

#include <assert.h>

#include "base/base.h"
#include "base/rng.h"

static void shuffle(uint32_t *at, uint32_t n, struct rng *rng)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)rng_below(rng, i), moved = at[i - 1];
		at[i - 1] = at[k];
		at[k] = moved;
	}
}

/* Puts the samples of the windows behind each other, in the order of the windows that the generator draws. */
static void windows(uint32_t *out, uint32_t n, uint32_t window, struct rng *rng)
{
	uint32_t count = n / window + (n % window != 0), at = 0;
	/* Window w is drawn by stepping through all of them with a stride that has no divisor in common with their number. */
	uint64_t stride = 1 + rng_below(rng, count), first = rng_below(rng, count);
	for (uint64_t a = stride, b = count; b != 0;) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
		if (b == 0 && a != 1) { /* a is the greatest common divisor */
			a = ++stride;
			b = count;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t w = (uint32_t)((first + i * stride) % count);
		uint32_t len = (uint32_t)min_u64(window, n - (uint64_t)w * window);
		for (uint32_t k = 0; k < len; k++)
			out[at + k] = w * window + k;
		shuffle(out + at, len, rng);
		at += len;
	}
	assert(at == n);
}

void train_order(uint32_t *out, uint32_t n, enum train_order order, uint32_t window, uint64_t seed,
		 uint64_t epoch)
{
	assert(n > 0 && window > 0);
	struct rng rng;
	rng_init(&rng, mix_u64(seed ^ mix_u64(epoch + 1)));
	if (order == TRAIN_WINDOW && window < n) {
		windows(out, n, window, &rng);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		out[i] = i;
	if (order != TRAIN_STORED)
		shuffle(out, n, &rng);
}
