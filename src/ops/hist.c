// SPDX-License-Identifier: Apache-2.0
#include "ops/hist.h"

#include <assert.h>
#include <inttypes.h>

#include "base/base.h"
#include "base/strbuf.h"

static uint32_t bucket_of(uint64_t ns)
{
	if (ns < HIST_MIN_NS)
		return 0;
	uint32_t log2 = 63 - (uint32_t)__builtin_clzll(ns);
	uint32_t doubling = log2 - HIST_MIN_LOG2;
	if (doubling >= HIST_DOUBLINGS)
		return HIST_BUCKETS - 1;
	uint64_t step = (ns - (1ULL << log2)) * HIST_STEPS >> log2;
	assert(step < HIST_STEPS);
	return 1 + doubling * HIST_STEPS + (uint32_t)step;
}

/* Returns the start of a bucket, which is the end of the bucket before it, in ns. */
static uint64_t bucket_start_ns(uint32_t bucket)
{
	assert(bucket < HIST_BUCKETS);
	if (bucket == 0)
		return 0;
	uint32_t log2 = HIST_MIN_LOG2 + (bucket - 1) / HIST_STEPS;
	uint64_t base = 1ULL << log2;
	return base + base / HIST_STEPS * ((bucket - 1) % HIST_STEPS);
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->count++;
	h->sum_ns += ns;
	h->max_ns = max_u64(h->max_ns, ns);
	h->bucket[bucket_of(ns)]++;
}

void hist_merge(struct hist *h, const struct hist *other)
{
	h->count += other->count;
	h->sum_ns += other->sum_ns;
	h->max_ns = max_u64(h->max_ns, other->max_ns);
	for (uint32_t i = 0; i < HIST_BUCKETS; i++)
		h->bucket[i] += other->bucket[i];
}

uint64_t hist_quantile_ns(const struct hist *h, double q)
{
	assert(q >= 0 && q <= 1);
	double rank = q * (double)h->count;
	double below = 0;

	if (h->count == 0)
		return 0;
	for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
		double here = (double)h->bucket[i];
		if (here > 0 && below + here >= rank) {
			uint64_t start = bucket_start_ns(i);
			uint64_t end = i == HIST_BUCKETS - 1 ? h->max_ns : bucket_start_ns(i + 1);
			assert(end >= start);
			double within = rank > below ? (rank - below) / here : 0;
			uint64_t ns = start + (uint64_t)((double)(end - start) * within);
			return min_u64(ns, h->max_ns);
		}
		below += here;
	}
	return h->max_ns;
}

int hist_prometheus(const struct hist *h, const char *name, const char *labels, struct strbuf *out)
{
	assert(name[0] != '\0');
	const char *comma = labels[0] != '\0' ? "," : "";
	const char *open = labels[0] != '\0' ? "{" : "", *close = labels[0] != '\0' ? "}" : "";
	uint64_t below = h->bucket[0];
	int rc = 0;

	for (uint32_t d = 0; rc == 0 && d <= HIST_DOUBLINGS; d++) {
		if (d % 2 == 0)
			rc = strbuf_printf(out, "%s_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", name,
					   labels, comma,
					   (double)(HIST_MIN_NS << d) / (double)NS_PER_S, below);
		for (uint32_t i = 0; d < HIST_DOUBLINGS && i < HIST_STEPS; i++)
			below += h->bucket[1 + d * HIST_STEPS + i];
	}
	assert(rc != 0 || below + h->bucket[HIST_BUCKETS - 1] == h->count);
	if (rc == 0)
		rc = strbuf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels,
				   comma, h->count);
	if (rc == 0)
		rc = strbuf_printf(out, "%s_sum%s%s%s %.9f\n", name, open, labels, close,
				   (double)h->sum_ns / (double)NS_PER_S);
	if (rc == 0)
		rc = strbuf_printf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close,
				   h->count);
	return rc;
}
