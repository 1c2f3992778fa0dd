// SPDX-License-Identifier: Apache-2.0
#include "analysis/burst_pool.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/stats.h"
#include "base/base.h"
#include "base/rng.h"

#define NODES_MAX 400000.0 /* most layouts that are counted one by one; more are sampled */
#define TASKS 64
#define TASK_SAMPLES 8000

bool burst_pool_overlap_broken(const struct layout *l, uint32_t tolerance, const uint32_t *failed,
			       uint32_t n, uint32_t *lost_sets)
{
	assert(l->spec.local_place == PLACE_OVERLAP);
	const struct baseset *base = &l->local.base;
	uint16_t hits[LAYOUT_POOL_DISKS_MAX] = {0};
	uint32_t lost = 0;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t m = 0; m < base->width; m++) {
			uint32_t set =
				(failed[i] + l->pool_disks - base->domain[m]) % l->pool_disks;
			lost += ++hits[set] == tolerance + 1;
		}
	if (lost_sets != NULL)
		*lost_sets = lost;
	return lost > 0;
}

/* ---- counting ---- */

struct counter {
	const struct layout *l;
	uint32_t tolerance, failed;
	uint16_t hits[LAYOUT_POOL_DISKS_MAX];
	double broken; /* number of layouts with disk 0 failed that break the pool */
};

static uint32_t turn(uint32_t a, uint32_t b, uint32_t n)
{
	return a + b >= n ? a + b - n : a + b;
}

/*
 * Returns how many disks after `last` break the pool when they fail next, given that the pool
 * is not broken yet.
 */
static double count_last(const struct counter *c, uint32_t last)
{
	const struct baseset *base = &c->l->local.base;
	uint32_t disks = c->l->pool_disks, n = 0;
	bool breaks[LAYOUT_POOL_DISKS_MAX];
	memset(breaks, 0, disks * sizeof(breaks[0]));
	for (uint32_t s = 0; s < disks; s++)
		for (uint32_t m = 0; c->hits[s] == c->tolerance && m < base->width; m++)
			breaks[turn(s, base->domain[m], disks)] = true;
	for (uint32_t d = last + 1; d < disks; d++)
		n += breaks[d];
	return n;
}

static bool add_disk(struct counter *c, uint32_t d, int by)
{
	const struct baseset *base = &c->l->local.base;
	uint32_t disks = c->l->pool_disks;
	bool broken = false;
	for (uint32_t m = 0; m < base->width; m++) {
		uint16_t *hits = &c->hits[turn(d, disks - base->domain[m], disks)];
		*hits = (uint16_t)(*hits + by);
		broken |= *hits > c->tolerance;
	}
	return broken;
}

/*
 * Counts the layouts that begin with the n failed disks 0 < ... < last, which do not break the
 * pool.
 */
static void count_from(struct counter *c, uint32_t last, uint32_t n)
{
	uint32_t disks = c->l->pool_disks;
	if (n + 1 == c->failed) {
		c->broken += count_last(c, last);
		return;
	}
	for (uint32_t d = last + 1; d < disks; d++) {
		if (add_disk(c, d, 1)) /* the pool is broken, whichever other disks fail */
			c->broken += exp(stats_log_choose(disks - 1 - d, c->failed - n - 1));
		else
			count_from(c, d, n + 1);
		add_disk(c, d, -1);
	}
}

/*
 * Returns the share of layouts of `failed` disks that break the pool. It counts only layouts
 * that contain disk 0: by symmetry their share is that of all.
 */
static double count_broken(const struct layout *l, uint32_t tolerance, uint32_t failed)
{
	struct counter c = {.l = l, .tolerance = tolerance, .failed = failed};
	if (failed <= tolerance)
		return 0;
	bool broken = add_disk(&c, 0, 1);
	if (failed == 1 || broken)
		return broken;
	count_from(&c, 0, 1);
	return c.broken / exp(stats_log_choose(l->pool_disks - 1, failed - 1));
}

/* ---- sampling ---- */

struct sampler {
	const struct layout *l;
	uint32_t tolerance, most;
	/* died[t * (most + 2) + f]: number of pools of task t that broke at failure f */
	uint32_t *died;
};

static int sample_task(void *arg, uint64_t task, struct rng *rng)
{
	struct sampler *s = arg;
	uint32_t *died = &s->died[task * (s->most + 2)];
	uint32_t disks = s->l->pool_disks;
	struct counter c = {.l = s->l, .tolerance = s->tolerance};
	uint32_t order[LAYOUT_POOL_DISKS_MAX] = {0};
	for (uint32_t i = 0; i < disks; i++)
		order[i] = i;
	for (int n = 0; n < TASK_SAMPLES; n++) {
		uint32_t f = 0;
		bool broken = false;
		memset(c.hits, 0, disks * sizeof(c.hits[0]));
		while (f < s->most && !broken) {
			uint32_t other = f + (uint32_t)rng_below(rng, disks - f);
			uint32_t d = order[other];
			order[other] = order[f];
			order[f++] = d;
			broken = add_disk(&c, d, 1);
		}
		died[broken ? f : s->most + 1]++;
	}
	return 0;
}

static int sample_broken(struct burst_pool *p, const struct layout *l, uint32_t tolerance,
			 uint32_t from, const struct work *w)
{
	const uint64_t trials = (uint64_t)TASKS * TASK_SAMPLES;
	AUTO_FREE uint32_t *died = calloc(TASKS * ((size_t)p->most + 2), sizeof(*died));
	struct sampler s = {l, tolerance, p->most, died};
	struct work quiet = {.seed = w->seed, .threads = w->threads};
	if (died == NULL)
		return -ENOMEM;
	int rc = work_run(&quiet, TASKS, sample_task, &s);
	if (rc != 0)
		return rc;
	uint64_t broken = 0;
	for (uint32_t f = 0; f <= p->most; f++) {
		for (uint32_t t = 0; t < TASKS; t++)
			broken += died[t * (p->most + 2) + f];
		if (f < from)
			continue;
		struct interval i = stats_wilson(broken, trials, STATS_CONFIDENCE);
		p->broken[f] = (double)broken / (double)trials;
		p->intact[f] = (double)(trials - broken) / (double)trials;
		p->low[f] = i.low;
		p->high[f] = i.high;
	}
	return 0;
}

/* ---- */

static int init_overlap(struct burst_pool *p, const struct layout *l, uint32_t tolerance,
			const struct work *w)
{
	uint32_t f = 0;
	for (; f <= p->most; f++) {
		if (f > tolerance + 1 && exp(stats_log_choose(p->disks - 1, f - 2)) > NODES_MAX)
			break;
		double share = count_broken(l, tolerance, f);
		p->broken[f] = p->low[f] = p->high[f] = share;
		p->intact[f] = 1 - share;
	}
	p->exact = f > p->most;
	return p->exact ? 0 : sample_broken(p, l, tolerance, f, w);
}

int burst_pool_init(struct burst_pool *p, const struct layout *l, uint32_t tolerance, uint32_t most,
		    const struct work *w)
{
	*p = (struct burst_pool){.disks = l->pool_disks, .exact = true};
	p->most = (uint32_t)min_u64(most, l->pool_disks);
	p->broken = calloc(4 * ((size_t)p->most + 1), sizeof(double));
	if (p->broken == NULL)
		return -ENOMEM;
	p->intact = p->broken + p->most + 1;
	p->low = p->intact + p->most + 1;
	p->high = p->low + p->most + 1;
	if (l->spec.local_place == PLACE_OVERLAP)
		return init_overlap(p, l, tolerance, w);
	for (uint32_t f = 0; f <= p->most; f++) {
		p->broken[f] = p->low[f] = p->high[f] = f > tolerance;
		p->intact[f] = f <= tolerance;
	}
	return 0;
}

void burst_pool_fini(struct burst_pool *p)
{
	free(p->broken);
	p->broken = NULL;
}
