// SPDX-License-Identifier: Apache-2.0
#include "cache/order.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "base/base.h"
#include "base/rng.h"

#define FEISTEL_ROUNDS 4u

int cache_order_init(struct cache_order *o, struct cache_range *ranges)
{
	uint64_t before = 0, units = 0;
	if (o->kind == CACHE_WINDOW && o->windows == 0)
		return -EINVAL;
	if (o->bytes == 0 || o->file_bytes == 0 || o->unit_bytes == 0 || o->readers == 0)
		return -EINVAL;
	if (o->ranges_n == 0 || o->ranges_n > CACHE_RANGES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < o->ranges_n; i++) {
		struct cache_range *r = &ranges[i];
		if (r->from < before || r->from >= r->to || r->to > o->file_bytes)
			return -EINVAL;
		r->first_unit = units;
		units += (r->to - r->from + o->unit_bytes - 1) / o->unit_bytes;
		before = r->to;
	}
	uint64_t files = o->bytes / o->file_bytes + (o->bytes % o->file_bytes != 0);
	if (units > CACHE_UNITS_MAX / files)
		return -E2BIG;
	o->ranges = ranges;
	o->file_units = units;
	o->units = files * units;
	return 0;
}

/* Applies the network to x < 4^half_bits, forwards or backwards. */
static uint64_t feistel(uint64_t x, uint32_t half_bits, uint64_t seed, bool forwards)
{
	uint64_t mask = (1ULL << half_bits) - 1, left = x >> half_bits, right = x & mask;
	for (uint32_t i = 0; i < FEISTEL_ROUNDS; i++) {
		uint64_t round = forwards ? i : FEISTEL_ROUNDS - 1 - i;
		uint64_t key = seed + 0x9e3779b97f4a7c15ULL * (round + 1);
		if (forwards) {
			uint64_t next = left ^ (mix_u64(right ^ key) & mask);
			left = right;
			right = next;
		} else {
			uint64_t last = right ^ (mix_u64(left ^ key) & mask);
			right = left;
			left = last;
		}
	}
	return left << half_bits | right;
}

static uint64_t permute(uint64_t n, uint64_t seed, uint64_t x, bool forwards)
{
	uint32_t half_bits = 1;
	assert(x < n);
	while (1ULL << (2 * half_bits) < n)
		half_bits++;
	do
		x = feistel(x, half_bits, seed, forwards);
	while (x >= n);
	return x;
}

/* Permutes within the window of x. Windows have the same number of units, the last one fewer. */
static uint64_t permute_window(const struct cache_order *o, uint64_t x, bool forwards)
{
	uint64_t len = (o->units + o->windows - 1) / o->windows, window = x / len;
	uint64_t n = min_u64(len, o->units - window * len);
	uint64_t seed = mix_u64(o->seed ^ mix_u64(window + 1));
	return window * len + permute(n, seed, x % len, forwards);
}

static uint64_t shuffle(const struct cache_order *o, uint64_t x, bool forwards)
{
	return o->kind == CACHE_WINDOW ? permute_window(o, x, forwards)
				       : permute(o->units, o->seed, x, forwards);
}

uint64_t cache_order_unit(const struct cache_order *o, uint64_t rank)
{
	assert(rank < o->units);
	if (o->kind != CACHE_SCAN)
		return shuffle(o, rank, true);
	uint64_t set = o->file_units * o->readers, first = rank - rank % set, in = rank % set;
	/* The last files may be fewer than the readers. */
	uint64_t files = min_u64(o->readers, (o->units - first) / o->file_units);
	return first + in % files * o->file_units + in / files;
}

uint64_t cache_order_rank(const struct cache_order *o, uint64_t unit)
{
	assert(unit < o->units);
	if (o->kind != CACHE_SCAN)
		return shuffle(o, unit, false);
	uint64_t set = o->file_units * o->readers, first = unit - unit % set, in = unit % set;
	uint64_t files = min_u64(o->readers, (o->units - first) / o->file_units);
	return first + in % o->file_units * files + in / o->file_units;
}

struct cache_unit cache_order_bytes(const struct cache_order *o, uint64_t unit)
{
	uint64_t file = unit / o->file_units * o->file_bytes, in = unit % o->file_units;
	uint32_t i = o->ranges_n - 1;
	while (i > 0 && o->ranges[i].first_unit > in)
		i--;
	uint64_t from = file + o->ranges[i].from + (in - o->ranges[i].first_unit) * o->unit_bytes;
	uint64_t to = min_u64(from + o->unit_bytes, file + o->ranges[i].to);
	from = min_u64(from, o->bytes);
	return (struct cache_unit){.from = from, .to = min_u64(to, o->bytes)};
}

bool cache_order_find(const struct cache_order *o, uint64_t from, uint64_t to, uint64_t *unit)
{
	uint64_t file = from / o->file_bytes, in = from % o->file_bytes;
	if (from >= o->bytes || from >= to)
		return false;
	uint64_t end = in + (min_u64(to, o->bytes) - from);
	for (uint32_t i = 0; i < o->ranges_n; i++) {
		const struct cache_range *r = &o->ranges[i];
		if (in < r->to && end > r->from) {
			uint64_t at = in > r->from ? (in - r->from) / o->unit_bytes : 0;
			*unit = file * o->file_units + r->first_unit + at;
			return true;
		}
	}
	if (end <= o->file_bytes || end - o->file_bytes <= o->ranges[0].from)
		return false;
	*unit = (file + 1) * o->file_units; /* the segment reaches into the next file */
	return *unit < o->units;
}

uint64_t cache_order_total(const struct cache_order *o)
{
	uint64_t total = 0, whole = o->bytes / o->file_bytes, rest = o->bytes % o->file_bytes;
	for (uint32_t i = 0; i < o->ranges_n; i++) {
		const struct cache_range *r = &o->ranges[i];
		total += whole * (r->to - r->from);
		if (rest > r->from)
			total += min_u64(rest, r->to) - r->from;
	}
	return total;
}
