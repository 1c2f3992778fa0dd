// SPDX-License-Identifier: Apache-2.0
#include "dataset/order.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#include "base/base.h"
#include "base/rng.h"

#define ROUNDS 6u
#define GOLDEN 0x9e3779b97f4a7c15ULL

/* --- permutations ------------------------------------------------------------------------------- */

/* Half the bits of the smallest power of four that is at least n. */
static uint32_t half_bits_of(uint64_t n)
{
	uint32_t half = 1;
	while (1ULL << (2 * half) < n)
		half++;
	return half;
}

/* A Feistel network over 4^half numbers, forwards or backwards. */
static uint64_t feistel(uint64_t x, uint32_t half, uint64_t key, bool forwards)
{
	uint64_t mask = (1ULL << half) - 1, left = x >> half, right = x & mask;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t round = forwards ? i : ROUNDS - 1 - i;
		uint64_t salt = key + GOLDEN * (round + 1);
		if (forwards) {
			uint64_t next = left ^ (mix_u64(right ^ salt) & mask);
			left = right;
			right = next;
		} else {
			uint64_t last = right ^ (mix_u64(left ^ salt) & mask);
			right = left;
			left = last;
		}
	}
	return left << half | right;
}

/* Walks the network until it hits a number below n: at most four times on average. */
static uint64_t walk(uint64_t n, uint64_t key, uint64_t x, bool forwards)
{
	assert(n > 0 && n <= ORDER_SAMPLES_MAX && x < n);
	uint32_t half = half_bits_of(n);
	do
		x = feistel(x, half, key, forwards);
	while (x >= n);
	return x;
}

uint64_t order_permute(uint64_t n, uint64_t key, uint64_t x)
{
	return walk(n, key, x, true);
}

uint64_t order_unpermute(uint64_t n, uint64_t key, uint64_t x)
{
	return walk(n, key, x, false);
}

/* --- the order of an epoch ---------------------------------------------------------------------- */

int order_init(struct order *o, enum order_kind kind, uint64_t samples, uint64_t window,
	       uint64_t seed, uint64_t epoch)
{
	if (kind != ORDER_SEQUENTIAL && kind != ORDER_WINDOW && kind != ORDER_GLOBAL)
		return -EINVAL;
	if (window == 0)
		window = ORDER_WINDOW_DEFAULT;
	if (samples == 0 || samples > ORDER_SAMPLES_MAX || window % ORDER_UNIT != 0 ||
	    window > ORDER_SAMPLES_MAX)
		return -EINVAL;
	*o = (struct order){.kind = kind,
			    .samples = samples,
			    .window = window,
			    .key = mix_u64(mix_u64(seed + GOLDEN) ^ (epoch + 1) * GOLDEN)};
	return 0;
}

/* The units in their permuted order. The last unit may be shorter: it stands at slot `odd`. */
struct units {
	uint64_t count, odd, odd_len;
};

static struct units units_of(const struct order *o)
{
	struct units u = {.count = (o->samples + ORDER_UNIT - 1) / ORDER_UNIT};
	u.odd_len = o->samples - (u.count - 1) * ORDER_UNIT;
	u.odd = order_unpermute(u.count, o->key, u.count - 1);
	return u;
}

/* The key of the permutation of a window. */
static uint64_t window_key(const struct order *o, uint64_t window)
{
	return mix_u64(o->key ^ (window + 1) * GOLDEN);
}

static uint64_t window_len(const struct order *o, uint64_t window)
{
	return min_u64(o->window, o->samples - window * o->window);
}

/* The sample at a place of the concatenated units. */
static uint64_t unit_sample(const struct order *o, const struct units *u, uint64_t at)
{
	uint64_t slot, in, odd_at = u->odd * ORDER_UNIT;
	if (at < odd_at) {
		slot = at / ORDER_UNIT;
		in = at % ORDER_UNIT;
	} else if (at < odd_at + u->odd_len) {
		slot = u->odd;
		in = at - odd_at;
	} else {
		slot = u->odd + 1 + (at - odd_at - u->odd_len) / ORDER_UNIT;
		in = (at - odd_at - u->odd_len) % ORDER_UNIT;
	}
	assert(slot < u->count);
	return order_permute(u->count, o->key, slot) * ORDER_UNIT + in;
}

static uint64_t unit_place(const struct order *o, const struct units *u, uint64_t sample)
{
	uint64_t slot = order_unpermute(u->count, o->key, sample / ORDER_UNIT);
	uint64_t at = slot * ORDER_UNIT + sample % ORDER_UNIT;
	return slot > u->odd ? at - ORDER_UNIT + u->odd_len : at;
}

static uint64_t window_sample(const struct order *o, const struct units *u, uint64_t position)
{
	uint64_t w = position / o->window, base = w * o->window;
	uint64_t at = order_permute(window_len(o, w), window_key(o, w), position - base);
	return unit_sample(o, u, base + at);
}

uint64_t order_sample(const struct order *o, uint64_t position)
{
	uint64_t out;
	order_samples(o, position, 1, &out);
	return out;
}

void order_samples(const struct order *o, uint64_t position, uint64_t count, uint64_t *out)
{
	assert(position <= o->samples && count <= o->samples - position);
	struct units u = {0};
	if (o->kind == ORDER_WINDOW)
		u = units_of(o);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t p = position + i;
		out[i] = o->kind == ORDER_WINDOW   ? window_sample(o, &u, p)
			 : o->kind == ORDER_GLOBAL ? order_permute(o->samples, o->key, p)
						   : p;
		assert(out[i] < o->samples);
	}
}

uint64_t order_position(const struct order *o, uint64_t sample)
{
	assert(sample < o->samples);
	if (o->kind == ORDER_SEQUENTIAL)
		return sample;
	if (o->kind == ORDER_GLOBAL)
		return order_unpermute(o->samples, o->key, sample);
	struct units u = units_of(o);
	uint64_t at = unit_place(o, &u, sample), w = at / o->window, base = w * o->window;
	return base + order_unpermute(window_len(o, w), window_key(o, w), at - base);
}

/* --- ranks -------------------------------------------------------------------------------------- */

struct order_share order_step(uint64_t samples, uint64_t from, uint64_t step,
			      const struct order_reader *reader)
{
	assert(reader->world > 0 && reader->world <= ORDER_WORLD_MAX &&
	       reader->rank < reader->world);
	assert(reader->batch > 0 && reader->batch <= ORDER_BATCH_MAX);
	assert(from <= samples && samples <= ORDER_SAMPLES_MAX);
	uint64_t full = reader->world * reader->batch;
	if (step > (samples - from) / full || step * full >= samples - from)
		return (struct order_share){.first = samples};
	uint64_t at = step * full;
	uint64_t left = samples - from - at;
	if (left >= full)
		return (struct order_share){.first = from + at + reader->rank * reader->batch,
					    .count = reader->batch};
	uint64_t each = left / reader->world, more = left % reader->world;
	return (struct order_share){.first = from + at + reader->rank * each +
					     min_u64(reader->rank, more),
				    .count = each + (reader->rank < more)};
}
