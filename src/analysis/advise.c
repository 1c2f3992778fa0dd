// SPDX-License-Identifier: Apache-2.0
#include "analysis/advise.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "analysis/burst.h"
#include "base/base.h"

#define NEAR_SPEED 0.9 /* throughputs this near count as equal */
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
	struct system_spec spec = *base;
	char why[SYSTEM_WHY_MAX];
	AUTO_FREE struct system *sys = calloc(1, sizeof(*sys));
	if (sys == NULL)
		return -ENOMEM;
	spec.encoding = p->encoding;
	snprintf(spec.scheme, sizeof(spec.scheme), "%s", compare_family_scheme(p->family));
	int rc = system_init(sys, &spec, why, sizeof(why));
	for (int i = 0; i < ADVISE_BURSTS; i++) {
		const struct advise_burst *b = &a->bursts[i];
		struct burst_map map;
		pdl[i] = NAN;
		if (rc == 0 && burst_exact_one(sys, burst_model_default(sys), w, b->failed,
					       b->racks, &map, why, sizeof(why)) == 0) {
			pdl[i] = burst_map_at(&map, b->failed, b->racks);
			burst_map_fini(&map);
		}
	}
	return rc == -ENOMEM ? rc : 0;
}

/* The worst of the bursts; below 1e-15 all are as good as none. */
static double worst(const struct advise_choice *c)
{
	double pdl = 1e-15;
	for (int i = 0; i < ADVISE_BURSTS; i++)
		pdl = c->pdl[i] > pdl ? c->pdl[i] : pdl;
	return pdl;
}

static bool fits(const struct compare_point *p, const struct advise_wants *w)
{
	return p->nines.interval.low >= w->nines && p->racks_survived >= w->racks_lost &&
	       p->repair_cross_per_year <= w->traffic_per_day * SYSTEM_YEAR_S / 86400;
}

/* Whether a is the better choice. */
static bool better(const struct compare_point *a, const struct compare_point *b)
{
	double fast = a->encode.bytes_per_s, other = b->encode.bytes_per_s;
	if (fast < other * NEAR_SPEED)
		return false;
	if (other < fast * NEAR_SPEED)
		return true;
	return a->nines.value > b->nines.value;
}

/* Keeps the best, best first. */
static void insert(struct advise *a, const struct advise_choice *c)
{
	size_t at = a->n;
	while (at > 0 && better(c->point, a->best[at - 1].point))
		at--;
	if (at >= ADVISE_BEST)
		return;
	if (a->n < ADVISE_BEST)
		a->n++;
	for (size_t i = a->n - 1; i > at; i--)
		a->best[i] = a->best[i - 1];
	a->best[at] = *c;
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
		if (!fits(&c->points[i], wants))
			continue;
		all[n].point = &c->points[i];
		int rc = burst_pdl(a, all[n].point, base, w, all[n].pdl);
		if (rc != 0)
			return rc;
		least = fmin(least, worst(&all[n++]));
	}
	for (size_t i = 0; i < n; i++)
		if (!wants->bursts_frequent || worst(&all[i]) <= NEAR_PDL * least)
			insert(a, &all[i]);
	return 0;
}
