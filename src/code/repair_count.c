// SPDX-License-Identifier: Apache-2.0
#include "code/repair_count.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "base/base.h"
#include "base/rng.h"

#define OVERLAP_SAMPLES 2000
#define OVERLAP_SEED 1

void repair_counts_init(const struct layout *l, double *count)
{
	for (uint32_t j = 1; j <= l->rows; j++)
		count[j] = 0;
	count[0] = (double)l->stripes * l->columns / l->pools;
}

void repair_counts_fail(const struct layout *l, uint32_t alive, double *count)
{
	assert(alive >= 1 && alive <= l->pool_disks);
	for (uint32_t j = l->rows; j-- > 0;) {
		double hit = count[j] * (l->rows - j) / alive;
		/* a stripe with more members than working disks is always hit */
		if (hit > count[j])
			hit = count[j];
		count[j] -= hit;
		count[j + 1] += hit;
	}
}

int repair_counts_expected(const struct layout *l, uint32_t failed, double *count)
{
	if (l->spec.lrc)
		return -EOPNOTSUPP;
	if (failed > l->pool_disks)
		return -ERANGE;
	repair_counts_init(l, count);
	for (uint32_t i = 0; i < failed; i++)
		repair_counts_fail(l, l->pool_disks - i, count);
	return 0;
}

static double lost_of(const struct layout *l, const double *count)
{
	double lost = 0;
	for (uint32_t j = (uint32_t)l->spec.local.p + 1; j <= l->rows; j++)
		lost += count[j];
	return lost;
}

/*
 * Conditions on the pool being catastrophic, for n independent stripes, each lost with probability
 * q: some stripe is lost with probability 1 - (1-q)^n. Given a stripe that is not lost, one of the
 * other n - 1 must be.
 */
static void condition_independent(const struct layout *l, double n, double *probability,
				  double *count)
{
	assert(n > 0);
	double q = lost_of(l, count) / n;
	double any = q < 1 ? -expm1(n * log1p(-q)) : 1;
	double other = q < 1 ? -expm1((n > 1 ? n - 1 : 0) * log1p(-q)) : 1;
	for (uint32_t j = 0; j <= l->rows; j++)
		count[j] *= (j > (uint32_t)l->spec.local.p ? 1 : other) / any;
	*probability = any;
}

/* Moves `want` random members of set[0..n) to its front. */
static void draw(struct rng *rng, uint32_t *set, uint32_t n, uint32_t want)
{
	assert(want <= n);
	for (uint32_t i = 0; i < want; i++) {
		uint32_t other = i + (uint32_t)rng_below(rng, n - i);
		uint32_t t = set[i];
		set[i] = set[other];
		set[other] = t;
	}
}

/* Draws how many members of a lost stripe set failed, from the distribution of the counts. */
static uint32_t draw_hits(const struct layout *l, struct rng *rng, const double *count, double lost)
{
	double at = rng_unit(rng) * lost;
	uint32_t last = 0;
	for (uint32_t j = (uint32_t)l->spec.local.p + 1; j <= l->rows; j++) {
		if (count[j] <= 0)
			continue;
		last = j;
		if (at < count[j])
			break;
		at -= count[j];
	}
	return last;
}

/*
 * Adds n failed disks to hits[s], the number of failed disks in the translate of the base set by
 * s.
 */
static void add_hits(const struct layout *l, const uint32_t *disks, uint32_t n, uint16_t *hits)
{
	const struct baseset *base = &l->local.base;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t m = 0; m < base->width; m++)
			hits[(disks[i] + l->pool_disks - base->domain[m]) % l->pool_disks]++;
}

/* Lists the pool's disks, those of the base set first. */
static void base_first(const struct layout *l, uint32_t *disks)
{
	uint16_t hits[LAYOUT_POOL_DISKS_MAX] = {0};
	uint32_t n = l->rows;
	for (uint32_t m = 0; m < l->rows; m++) {
		disks[m] = l->local.base.domain[m];
		hits[disks[m]] = 1;
	}
	for (uint32_t d = 0; d < l->pool_disks; d++)
		if (hits[d] == 0)
			disks[n++] = d;
}

/*
 * Conditions on the pool being catastrophic, by sampling. All stripe sets are translates of each
 * other, so the function samples cases in which the base set itself is lost. A case that loses L
 * sets would be drawn L times in this way, once for each set, so it gets the weight 1/L.
 */
static void condition_overlap(const struct layout *l, uint32_t failed, double n,
			      double *probability, double *count)
{
	uint32_t sets = l->pool_disks;
	uint32_t disks[LAYOUT_POOL_DISKS_MAX];
	double lost = lost_of(l, count), weights = 0;
	double sum[ENCODING_STRIPE_MAX + 1] = {0};
	struct rng rng;
	rng_init(&rng, OVERLAP_SEED);
	base_first(l, disks);
	for (int sample = 0; sample < OVERLAP_SAMPLES; sample++) {
		uint16_t hits[LAYOUT_POOL_DISKS_MAX] = {0};
		uint32_t lost_sets = 0, inside = draw_hits(l, &rng, count, lost);
		draw(&rng, disks, l->rows, inside);
		draw(&rng, disks + l->rows, sets - l->rows, failed - inside);
		add_hits(l, disks, inside, hits);
		add_hits(l, disks + l->rows, failed - inside, hits);
		for (uint32_t s = 0; s < sets; s++)
			lost_sets += hits[s] > l->spec.local.p;
		assert(lost_sets > 0); /* the base set is lost in every sample */
		for (uint32_t s = 0; s < sets; s++)
			sum[hits[s]] += 1.0 / lost_sets;
		weights += 1.0 / lost_sets;
	}
	*probability = lost / n * sets * weights / OVERLAP_SAMPLES;
	for (uint32_t j = 0; j <= l->rows; j++)
		count[j] = sum[j] / weights * n / sets;
}

int repair_counts_catastrophic(const struct layout *l, uint32_t failed, double *probability,
			       double *count)
{
	int rc = repair_counts_expected(l, failed, count);
	*probability = 0;
	if (rc != 0)
		return rc;
	double n = 0;
	for (uint32_t j = 0; j <= l->rows; j++)
		n += count[j];
	if (lost_of(l, count) <= 0)
		for (uint32_t j = 0; j <= l->rows; j++)
			count[j] = 0;
	else if (l->spec.local_place == PLACE_OVERLAP)
		condition_overlap(l, failed, n, probability, count);
	else
		condition_independent(l, n, probability, count);
	return 0;
}

/* Returns how many chunks of a local stripe with j failed chunks go over the network. With
 * parity_inside the result is an average over which j chunks failed. */
static double over_network(const struct layout *l, const struct repair_policy *policy, uint32_t j)
{
	uint32_t p = (uint32_t)l->spec.local.p;
	assert(j <= l->rows);
	double part = policy->parity_inside ? (double)l->spec.local.k / l->rows : 1;
	switch (policy->method) {
	case REPAIR_ALL:
		return policy->parity_inside ? l->rows - p : l->rows;
	case REPAIR_FCO:
		return j * part;
	case REPAIR_HYB:
		return j > p ? j * part : 0;
	case REPAIR_MIN:
		return j > p ? j - p : 0;
	}
	return 0;
}

void repair_counts_cost(const struct layout *l, const struct repair_policy *policy,
			const double *count, struct repair_estimate *out)
{
	uint32_t p = (uint32_t)l->spec.local.p;
	double net_k = l->spec.net.k;
	*out = (struct repair_estimate){0};
	out->lost_local = lost_of(l, count);
	bool catastrophic = out->lost_local > 0;
	if (l->spec.net.p == 0) {
		out->lost_stripes = out->lost_local;
		catastrophic = false;
	}
	bool whole = catastrophic && policy->method == REPAIR_ALL;
	for (uint32_t j = whole ? 0 : 1; j <= l->rows; j++) {
		if (j > p && out->lost_stripes > 0)
			break;
		double net = catastrophic ? over_network(l, policy, j) : 0;
		double inside = (whole ? l->rows : j) - net;
		out->net_writes += count[j] * net;
		out->local_writes += count[j] * inside;
		if (inside > 0)
			out->local_reads += count[j] * l->spec.local.k;
	}
	out->net_reads = out->net_writes * net_k;
	out->cross_reads = out->net_reads;
	out->cross_writes = policy->site == REPAIR_AT_SERVER ? out->net_writes : 0;
}
