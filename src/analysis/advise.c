// SPDX-License-Identifier: Apache-2.0
#include "analysis/advise.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/burst.h"
#include "base/base.h"

#define NEAR_SPEED 0.9 /* throughputs of at least this part of the fastest one count as equal */
/* probabilities of loss up to this multiple of the smallest one are acceptable */
#define NEAR_PDL 10.0

static void set_bursts(struct advise *a, const struct system_spec *s)
{
	uint32_t disks = s->enclosures * s->disks;
	a->bursts[0] = (struct advise_burst){(uint32_t)min_u64(30, disks), 1};
	a->bursts[1] = (struct advise_burst){60, (uint32_t)min_u64(5, s->racks)};
	a->bursts[2] = (struct advise_burst){60, (uint32_t)min_u64(30, s->racks)};
	for (int i = 1; i < ADVISE_BURSTS; i++)
		a->bursts[i].failed = (uint32_t)min_u64(60, (uint64_t)disks * a->bursts[i].racks);
}

static int burst_pdl(const struct advise *a, const struct compare_point *p,
		     const struct system_spec *base, const struct work *w, double *pdl)
{
	struct system_spec spec;
	char why[SYSTEM_WHY_MAX];
	AUTO_FREE struct system *sys = calloc(1, sizeof(*sys));
	if (sys == NULL)
		return -ENOMEM;
	compare_point_spec(p, base, &spec);
	int rc = system_init(sys, &spec, why, sizeof(why));
	for (int i = 0; i < ADVISE_BURSTS; i++) {
		const struct advise_burst *b = &a->bursts[i];
		struct burst_map map;
		pdl[i] = NAN;
		if (rc == 0 &&
		    burst_exact_one(sys,
				    &(struct burst_ask){.model = burst_model_default(sys),
							.failed = b->failed,
							.racks = b->racks},
				    w, &map, why, sizeof(why)) == 0) {
			pdl[i] = burst_map_at(&map, b->failed, b->racks);
			burst_map_fini(&map);
		}
	}
	return rc == -ENOMEM ? rc : 0;
}

/*
 * Returns the largest probability of loss over the bursts, at least 1e-15: smaller ones do not
 * matter. If a burst could not be counted, the result is infinite.
 */
static double worst_pdl(const struct advise_choice *c)
{
	double pdl = 1e-15;
	for (int i = 0; i < ADVISE_BURSTS; i++)
		pdl = isnan(c->pdl[i]) ? INFINITY : fmax(pdl, c->pdl[i]);
	return pdl;
}

bool advise_fits(const struct compare_point *p, const struct advise_wants *w)
{
	return p->nines.interval.low >= w->nines && p->racks_survived >= w->racks_lost &&
	       p->repair_cross_per_year <= w->traffic_per_day * SYSTEM_YEAR_S / 86400;
}

static int faster(const void *a, const void *b)
{
	const struct advise_choice *x = a, *y = b;
	double dx = x->point->encode.bytes_per_s, dy = y->point->encode.bytes_per_s;
	if (dx != dy)
		return dx > dy ? -1 : 1;
	return x->point < y->point ? -1 : x->point > y->point;
}

/*
 * Moves the best codes of `all` to a->best, best first. Each step takes, among the remaining codes
 * that are about as fast as the fastest one, the code with the most nines: throughput is measured,
 * so differences of a tenth are ignored.
 */
static void pick_best(struct advise *a, struct advise_choice *all, size_t n)
{
	if (n > 0)
		qsort(all, n, sizeof(*all), faster);
	while (a->n < ADVISE_BEST && n > 0) {
		double near = all[0].point->encode.bytes_per_s * NEAR_SPEED;
		size_t best = 0;
		for (size_t i = 1; i < n && all[i].point->encode.bytes_per_s >= near; i++)
			if (all[i].point->nines.value > all[best].point->nines.value)
				best = i;
		assert(best < n);
		a->best[a->n++] = all[best];
		memmove(&all[best], &all[best + 1], (--n - best) * sizeof(*all));
	}
}

static void count_enough(struct advise *a, const struct compare *c,
			 const struct advise_wants *wants)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct compare_point *p = &c->points[i];
		a->enough += p->nines.interval.low >= wants->nines;
		if (a->most == NULL || p->nines.value > a->most_nines) {
			a->most = p;
			a->most_nines = p->nines.value;
		}
	}
}

int advise_choose(struct advise *a, const struct compare *c, const struct system_spec *base,
		  const struct advise_wants *wants, const struct work *w)
{
	*a = (struct advise){0};
	set_bursts(a, base);
	count_enough(a, c, wants);
	AUTO_FREE struct advise_choice *all = calloc(c->n + 1, sizeof(*all));
	if (all == NULL)
		return -ENOMEM;
	size_t n = 0;
	double least = 1;
	for (size_t i = 0; i < c->n; i++) {
		if (!advise_fits(&c->points[i], wants))
			continue;
		assert(n < c->n);
		all[n].point = &c->points[i];
		int rc = burst_pdl(a, all[n].point, base, w, all[n].pdl);
		if (rc != 0)
			return rc;
		least = fmin(least, worst_pdl(&all[n++]));
	}
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (!wants->bursts_frequent || worst_pdl(&all[i]) <= NEAR_PDL * least)
			all[kept++] = all[i];
	pick_best(a, all, kept);
	return 0;
}
