// SPDX-License-Identifier: Apache-2.0
/*
 * Bursts by Monte Carlo. A trial draws a layout of failures uniformly: which racks, how many disks
 * in each (in proportion to the number of layouts), which disks. Then it applies the loss condition
 * of the model. Except for that condition, sampling shares no code with the counting in
 * burst_count.c and burst_stripes.c, so each checks the other.
 *
 * For BURST_STRIPES a trial gives the probability of loss given the failures, since stripes are
 * placed independently: a column is lost with the share q of its pool's local stripes that are
 * lost; a network stripe is lost when more than pn of its columns are.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/burst.h"
#include "analysis/burst_pool.h"
#include "analysis/burst_stripes.h"
#include "analysis/lrc_loss.h"
#include "base/base.h"
#include "base/rng.h"
#include "code/failure.h"

#define TASK_TRIALS 500
#define LAYOUT_CHUNKS_MAX 2000000.0 /* largest number of failed chunks that one trial visits */

struct sampler {
	const struct system *sys;
	enum burst_model model;
	uint32_t failed, racks, rack_disks;
	uint32_t tolerance, net_tolerance;
	uint64_t trials;
	double *ways; /* [x * (failed + 1) + f]: ln of layouts of f failures that hit all x racks */
	struct lrc_loss loss;
	struct task_sum {
		struct stats_sum loss;
		double most;
	} * sums; /* results of each task */
};

/* The working memory of a task. */
struct trial {
	uint32_t *rack_order; /* all racks, in random order */
	uint32_t *failed;     /* numbers of the failed disks, rack by rack */
	double *share;        /* by pool: share of lost local stripes */
	uint32_t *set;        /* single-overlap network (s/-): stripe sets of the failed disks */
	uint8_t *taken;       /* by disk of a rack: whether the disk was drawn */
	uint32_t *in_pool;    /* failed disks of one pool, numbered in the pool */
	double *rack_share;   /* shares of lost local stripes of the racks that lost any */
};

static double log_sum(double a, double b)
{
	if (a < b)
		return b + log1p(exp(a - b));
	return isinf(b) ? a : a + log1p(exp(b - a));
}

static void fill_ways(struct sampler *s)
{
	size_t n = (size_t)s->failed + 1;
	for (uint32_t f = 0; f <= s->failed; f++)
		s->ways[f] = f == 0 ? 0 : -INFINITY;
	for (uint32_t x = 1; x <= s->racks; x++)
		for (uint32_t f = 0; f <= s->failed; f++) {
			double sum = -INFINITY;
			for (uint32_t i = 1; i <= f && i <= s->rack_disks; i++) {
				double rest = s->ways[(x - 1) * n + f - i];
				if (!isinf(rest))
					sum = log_sum(sum,
						      rest + stats_log_choose(s->rack_disks, i));
			}
			s->ways[x * n + f] = sum;
		}
}

/* Draws how many of the `left` remaining failures the next of the x remaining racks has. */
static uint32_t draw_count(const struct sampler *s, struct rng *rng, uint32_t x, uint32_t left)
{
	size_t n = (size_t)s->failed + 1;
	double at = rng_unit(rng), all = s->ways[x * n + left];
	uint32_t last = 1;
	for (uint32_t i = 1; i <= left && i <= s->rack_disks; i++) {
		double rest = s->ways[(x - 1) * n + left - i];
		if (isinf(rest))
			continue;
		double p = exp(rest + stats_log_choose(s->rack_disks, i) - all);
		last = i;
		if (at < p)
			return i;
		at -= p;
	}
	return last;
}

static void draw_layout(const struct sampler *s, struct trial *t, struct rng *rng)
{
	uint32_t left = s->failed, n = 0, all = s->sys->layout.spec.racks;
	for (uint32_t x = 0; x < s->racks; x++) {
		uint32_t other = x + (uint32_t)rng_below(rng, all - x);
		uint32_t rack = t->rack_order[other];
		t->rack_order[other] = t->rack_order[x];
		t->rack_order[x] = rack;
		uint32_t count = draw_count(s, rng, s->racks - x, left);
		left -= count;
		uint32_t first = n;
		while (n < first + count) {
			uint32_t d = (uint32_t)rng_below(rng, s->rack_disks);
			if (t->taken[d])
				continue;
			t->taken[d] = 1;
			t->failed[n++] = rack * s->rack_disks + d;
		}
		for (uint32_t i = first; i < n; i++)
			t->taken[t->failed[i] % s->rack_disks] = 0;
	}
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Computes t->share[pool], the share of lost local stripes, for each pool that has failures. */
static void pool_shares(const struct sampler *s, struct trial *t)
{
	const struct layout *l = &s->sys->layout;
	qsort(t->failed, s->failed, sizeof(*t->failed), compare_u32);
	for (uint32_t i = 0, end; i < s->failed; i = end) {
		uint32_t pool = t->failed[i] / l->pool_disks, n = 0;
		for (end = i; end < s->failed && t->failed[end] / l->pool_disks == pool; end++)
			t->in_pool[n++] = t->failed[end] % l->pool_disks;
		double share = n > s->tolerance;
		if (n > s->tolerance && l->spec.local_place == PLACE_OVERLAP) {
			uint32_t lost;
			burst_pool_overlap_broken(l, s->tolerance, t->in_pool, n, &lost);
			share = (double)lost / l->pool_disks;
		} else if (n > s->tolerance && l->spec.local_place == PLACE_DECLUSTERED &&
			   s->model == BURST_STRIPES) {
			share = stats_hypergeometric_above(l->pool_disks, n, l->rows, s->tolerance);
		}
		t->share[pool] = share;
	}
}

static void clear_shares(const struct sampler *s, struct trial *t)
{
	for (uint32_t i = 0; i < s->failed; i++)
		t->share[t->failed[i] / s->sys->layout.pool_disks] = 0;
}

/* Returns whether more than net_tolerance broken pools could share a network stripe. */
static bool pools_lose(const struct sampler *s, const struct trial *t)
{
	const struct layout *l = &s->sys->layout;
	bool clustered = l->spec.net_place == PLACE_CLUSTERED;
	uint32_t racks_broken = 0;
	for (uint32_t i = 0; i < s->racks; i++) {
		uint32_t rack = t->rack_order[i];
		bool broken = false;
		for (uint32_t p = 0; p < l->rack_pools; p++) {
			if (t->share[rack * l->rack_pools + p] <= 0)
				continue;
			broken = true;
			if (!clustered)
				break;
			uint32_t first = rack / l->columns * l->columns, together = 0;
			for (uint32_t c = 0; c < l->columns; c++)
				together += t->share[(first + c) * l->rack_pools + p] > 0;
			if (together > s->net_tolerance)
				return true;
		}
		racks_broken += broken;
	}
	return !clustered && racks_broken > s->net_tolerance;
}

/*
 * Returns whether, in a single-overlap network (s/-), some stripe set has more failed disks than a
 * stripe survives.
 */
static bool sets_lose(const struct sampler *s, struct trial *t)
{
	const struct layout *l = &s->sys->layout;
	const struct baseset *b = &l->net.base;
	uint32_t n = 0, same = 0;
	for (uint32_t i = 0; i < s->failed; i++) {
		uint32_t rack = t->failed[i] / s->rack_disks, unit = t->failed[i] % s->rack_disks;
		for (uint32_t m = 0; m < b->width; m++) {
			uint32_t r = (rack + b->domains - b->domain[m]) % b->domains;
			uint32_t u = (unit + b->units - b->unit[m]) % b->units;
			t->set[n++] = r * b->units + u;
		}
	}
	qsort(t->set, n, sizeof(*t->set), compare_u32);
	for (uint32_t i = 0; i < n; i++) {
		same = i > 0 && t->set[i] == t->set[i - 1] ? same + 1 : 1;
		if (same > s->net_tolerance)
			return true;
	}
	return false;
}

/* Returns ln of the probability that no stripe of one network pool is lost. */
static double pool_survives(const struct sampler *s, const struct trial *t, uint32_t first,
			    uint32_t p)
{
	const struct layout *l = &s->sys->layout;
	/* probabilities by number of lost columns, up to net_tolerance + 1 */
	double state[ENCODING_STRIPE_MAX + 2] = {1};
	uint32_t top = s->net_tolerance + 1;
	for (uint32_t c = 0; c < l->columns; c++) {
		double q = t->share[(first + c) * l->rack_pools + p];
		if (q <= 0)
			continue;
		state[top] += state[top - 1] * q;
		for (uint32_t j = top - 1; j > 0; j--)
			state[j] = state[j] * (1 - q) + state[j - 1] * q;
		state[0] *= 1 - q;
	}
	double stripes = (double)l->stripes / l->rack_pools / ((double)l->spec.racks / l->columns);
	return stripes * log1p(-fmin(state[top], 1));
}

static double clustered_loss(const struct sampler *s, const struct trial *t)
{
	const struct layout *l = &s->sys->layout;
	double survives = 0;
	for (uint32_t first = 0; first < l->spec.racks; first += l->columns)
		for (uint32_t p = 0; p < l->rack_pools; p++) {
			uint32_t broken = 0;
			for (uint32_t c = 0; c < l->columns; c++)
				broken += t->share[(first + c) * l->rack_pools + p] > 0;
			if (broken > s->net_tolerance)
				survives += pool_survives(s, t, first, p);
		}
	return -expm1(survives);
}

static int declustered_loss(const struct sampler *s, const struct trial *t, double *loss)
{
	const struct layout *l = &s->sys->layout;
	struct burst_stripes b = {
		.racks = l->spec.racks,
		.rack_disks = s->rack_disks,
		.width = l->columns,
		.loss = s->loss.share,
	};
	double *share = t->rack_share, q;
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->racks; i++) {
		const double *pools = &t->share[(size_t)t->rack_order[i] * l->rack_pools];
		double sum = 0;
		for (uint32_t p = 0; p < l->rack_pools; p++)
			sum += pools[p];
		if (sum > 0)
			share[n++] = sum / l->rack_pools;
	}
	*loss = 0;
	if (n <= s->net_tolerance)
		return 0;
	int rc = burst_stripe_loss(&b, share, n, &q);
	if (rc == 0)
		*loss = stats_any(q, (double)l->stripes);
	return rc;
}

static int layout_loss(const struct sampler *s, const struct trial *t, double *loss)
{
	struct failure f;
	struct failure_totals totals;
	int rc = failure_init(&f, &s->sys->layout, t->failed, s->failed);
	if (rc != 0)
		return rc;
	failure_count(&f, &totals);
	failure_fini(&f);
	*loss = totals.lost_net > 0;
	return 0;
}

/*
 * Sets *loss to the probability of loss given the drawn layout: 0 or 1, except for
 * BURST_STRIPES.
 */
static int trial_loss(const struct sampler *s, struct trial *t, double *loss)
{
	const struct layout *l = &s->sys->layout;
	int rc = 0;
	if (s->model == BURST_LAYOUT)
		return layout_loss(s, t, loss);
	if (l->rows == 1 && l->spec.net_place == PLACE_OVERLAP) {
		*loss = sets_lose(s, t);
		return 0;
	}
	pool_shares(s, t);
	if (s->model == BURST_POOLS)
		*loss = pools_lose(s, t);
	else if (l->spec.net_place == PLACE_CLUSTERED)
		*loss = clustered_loss(s, t);
	else
		rc = declustered_loss(s, t, loss);
	clear_shares(s, t);
	return rc;
}

static int trial_init(struct trial *t, const struct sampler *s)
{
	const struct layout *l = &s->sys->layout;
	*t = (struct trial){
		.rack_order = calloc(l->spec.racks, sizeof(uint32_t)),
		.failed = calloc(s->failed, sizeof(uint32_t)),
		.share = calloc(l->pools, sizeof(double)),
		.set = calloc((size_t)s->failed * l->columns, sizeof(uint32_t)),
		.taken = calloc(s->rack_disks, 1),
		.in_pool = calloc(l->pool_disks, sizeof(uint32_t)),
		.rack_share = calloc(l->spec.racks, sizeof(double)),
	};
	if (t->rack_order == NULL || t->failed == NULL || t->share == NULL || t->set == NULL ||
	    t->taken == NULL || t->in_pool == NULL || t->rack_share == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->spec.racks; i++)
		t->rack_order[i] = i;
	return 0;
}

static void trial_fini(struct trial *t)
{
	free(t->rack_order);
	free(t->failed);
	free(t->share);
	free(t->set);
	free(t->taken);
	free(t->in_pool);
	free(t->rack_share);
}

static int sample_task(void *arg, uint64_t task, struct rng *rng)
{
	struct sampler *s = arg;
	struct trial t;
	int rc = trial_init(&t, s);
	uint64_t n = min_u64(TASK_TRIALS, s->trials - task * TASK_TRIALS);
	for (uint64_t i = 0; i < n && rc == 0; i++) {
		double loss = 0;
		draw_layout(s, &t, rng);
		rc = trial_loss(s, &t, &loss);
		if (rc == 0)
			stats_add(&s->sums[task].loss, loss);
		if (rc == 0 && loss > s->sums[task].most)
			s->sums[task].most = loss;
	}
	trial_fini(&t);
	return rc;
}

static int check_sample(const struct system *sys, enum burst_model model, uint32_t failed,
			char *why, size_t why_size)
{
	const struct layout *l = &sys->layout;
	bool local = l->columns == 1;
	if (model == BURST_STRIPES && local)
		return system_refuse(why, why_size, -EOPNOTSUPP,
				     "--model stripes: does not apply to codes inside a rack; use "
				     "--model pools");
	if (model == BURST_LAYOUT && l->spec.lrc)
		return system_refuse(
			why, why_size, -EOPNOTSUPP,
			"--model layout: does not apply to an LRC; use --model stripes");
	if (model == BURST_LAYOUT && (double)l->spec.slots * failed > LAYOUT_CHUNKS_MAX)
		return system_refuse(
			why, why_size, -E2BIG,
			"--model layout: %u failed disks of %llu chunks are too many to "
			"visit; make --disk-size smaller",
			failed, (unsigned long long)l->spec.slots);
	if (l->spec.net_place == PLACE_OVERLAP && l->rows == 1 && failed > BURST_FAILED_MAX)
		return system_refuse(why, why_size, -E2BIG, "--failed %u: at most %u under s/-",
				     failed, BURST_FAILED_MAX);
	return 0;
}

static void summarise(const struct sampler *s, uint64_t tasks, struct burst_estimate *out)
{
	struct stats_sum all = {0};
	double most = 0;
	for (uint64_t t = 0; t < tasks; t++) {
		stats_merge(&all, &s->sums[t].loss);
		most = fmax(most, s->sums[t].most);
	}
	*out = (struct burst_estimate){.pdl = all.mean, .trials = s->trials};
	bool counts = s->model != BURST_STRIPES || s->sys->layout.spec.net_place == PLACE_OVERLAP;
	if (counts) {
		uint64_t hits = (uint64_t)llround(all.mean * (double)s->trials);
		out->interval = stats_clopper_pearson(hits, s->trials, STATS_CONFIDENCE);
		return;
	}
	/*
	 * Most layouts lose no data, a few lose data almost surely. The trials may have missed rare
	 * layouts with a larger loss, so the interval assumes values up to 1.
	 */
	out->interval =
		stats_bounded_mean(all.mean, most > 0 ? most : 1, s->trials, STATS_CONFIDENCE);
}

int burst_sample(const struct system *sys, const struct burst_ask *ask, const struct work *w,
		 struct burst_estimate *out, char *why, size_t why_size)
{
	uint32_t failed = ask->failed, racks = ask->racks;
	uint64_t trials = ask->trials;
	const struct layout *l = &sys->layout;
	int rc = check_sample(sys, ask->model, failed, why, why_size);
	if (rc != 0)
		return rc;
	uint64_t tasks = (trials + TASK_TRIALS - 1) / TASK_TRIALS;
	uint32_t any = (uint32_t)encoding_tolerance(&sys->spec.encoding);
	struct sampler s = {
		.sys = sys,
		.model = ask->model,
		.failed = failed,
		.racks = racks,
		.rack_disks = l->rack_pools * l->pool_disks,
		.tolerance = l->spec.lrc && l->columns == 1 ? any : (uint32_t)l->spec.local.p,
		.net_tolerance = l->spec.lrc && l->columns > 1 ? any : (uint32_t)l->spec.net.p,
		.trials = trials,
	};
	AUTO_FREE double *ways = calloc(((size_t)racks + 1) * (failed + 1), sizeof(*ways));
	AUTO_FREE struct task_sum *sums = calloc(tasks, sizeof(*sums));
	if (ways == NULL || sums == NULL)
		return -ENOMEM;
	s.ways = ways;
	s.sums = sums;
	fill_ways(&s);
	if (l->rows == 1) {
		rc = lrc_loss_find(&s.loss, &sys->spec.encoding);
	} else {
		for (uint32_t j = 0; j <= l->columns; j++)
			s.loss.share[j] = j > s.net_tolerance;
	}
	if (rc == 0)
		rc = work_run(w, tasks, sample_task, &s);
	if (rc == 0)
		summarise(&s, tasks, out);
	return rc;
}
