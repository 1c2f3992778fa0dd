// SPDX-License-Identifier: Apache-2.0
#include "emu/hist.h"

#include <assert.h>
#include <stddef.h>

#include "base/base.h"

/* Values below EMU_HIST_STEPS have a bucket each; above, each doubling has EMU_HIST_STEPS buckets. */
static size_t bucket_of(uint64_t ns)
{
	if (ns < EMU_HIST_STEPS)
		return (size_t)ns;
	unsigned doubling = 63u - (unsigned)__builtin_clzll(ns); /* at least 5 */
	size_t in = (size_t)(ns >> (doubling - 5)) - EMU_HIST_STEPS;
	size_t at = (doubling - 4) * EMU_HIST_STEPS + in;
	return at < EMU_HIST_BUCKETS ? at : EMU_HIST_BUCKETS - 1;
}

/* Returns the middle of a bucket. */
static uint64_t middle_of(size_t bucket)
{
	if (bucket < EMU_HIST_STEPS)
		return bucket;
	unsigned shift = (unsigned)(bucket / EMU_HIST_STEPS) - 1;
	uint64_t low = (EMU_HIST_STEPS + bucket % EMU_HIST_STEPS) << shift;
	return low + ((1ULL << shift) >> 1);
}

void emu_hist_add(struct emu_hist *h, uint64_t ns)
{
	h->count++;
	h->sum_ns += ns;
	h->max_ns = max_u64(h->max_ns, ns);
	h->bucket[bucket_of(ns)]++;
}

void emu_hist_merge(struct emu_hist *h, const struct emu_hist *other)
{
	h->count += other->count;
	h->sum_ns += other->sum_ns;
	h->max_ns = max_u64(h->max_ns, other->max_ns);
	for (size_t i = 0; i < EMU_HIST_BUCKETS; i++)
		h->bucket[i] += other->bucket[i];
}

uint64_t emu_hist_quantile_ns(const struct emu_hist *h, double q)
{
	assert(q >= 0 && q <= 1);
	uint64_t rank = (uint64_t)(q * (double)h->count), seen = 0;
	for (size_t i = 0; i < EMU_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen > rank)
			return min_u64(middle_of(i), h->max_ns);
	}
	return h->max_ns;
}
