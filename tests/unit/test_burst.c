// SPDX-License-Identifier: Apache-2.0
/*
 * Data loss under bursts: against every layout of failures on tiny systems, against closed forms,
 * against Monte Carlo, and against the findings of the study.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/burst.h"
#include "analysis/burst_pool.h"
#include "analysis/lrc_loss.h"
#include "base/base.h"
#include "code/failure.h"
#include "code/health.h"

static const struct work one_thread = {.seed = 5, .threads = 1};

static void near(double got, double want, double relative)
{
	if (!(fabs(got - want) <= relative * fabs(want)))
		fail_msg("got %.17g, want %.17g", got, want);
}

/* options: "name value name value ..." */
static void make(struct system *sys, const char *options)
{
	struct system_spec spec;
	char why[SYSTEM_WHY_MAX] = "", text[256];
	char *save, *name, *value;
	system_spec_default(&spec);
	snprintf(text, sizeof(text), "%s", options);
	for (name = strtok_r(text, " ", &save); name != NULL; name = strtok_r(NULL, " ", &save)) {
		value = strtok_r(NULL, " ", &save);
		if (system_spec_set(&spec, name, value, why, sizeof(why)) != 0)
			fail_msg("%s", why);
	}
	if (system_init(sys, &spec, why, sizeof(why)) != 0)
		fail_msg("%s: %s", options, why);
}

static double exact_at(const struct system *sys, enum burst_model model, uint32_t failed,
		       uint32_t racks)
{
	struct burst_map map;
	char why[SYSTEM_WHY_MAX] = "";
	if (burst_exact_one(sys,
			    &(struct burst_ask){.model = model, .failed = failed, .racks = racks},
			    &one_thread, &map, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	double pdl = burst_map_at(&map, failed, racks);
	burst_map_fini(&map);
	return pdl;
}

/* ---- every layout ---- */

#define DISKS_MAX 16

/* Returns the probability that a set of failed disks loses data. */
typedef double loss_fn(const struct system *sys, const uint32_t *disks, uint32_t n);

/* sum[failed][racks]: of the losses, and of the layouts */
struct every {
	double lost[DISKS_MAX + 1][DISKS_MAX + 1], all[DISKS_MAX + 1][DISKS_MAX + 1];
};

static void look_at_every_layout(const struct system *sys, loss_fn *loss, struct every *e)
{
	const struct layout *l = &sys->layout;
	assert_true(l->disks <= DISKS_MAX);
	memset(e, 0, sizeof(*e));
	for (uint32_t mask = 1; mask < 1u << l->disks; mask++) {
		uint32_t disks[DISKS_MAX], n = 0, racks = 0;
		for (uint32_t d = 0; d < l->disks; d++)
			if (mask >> d & 1) {
				disks[n++] = d;
				racks |= 1u << layout_disk_rack(l, d);
			}
		uint32_t hit = (uint32_t)__builtin_popcount(racks);
		e->all[n][hit]++;
		e->lost[n][hit] += loss(sys, disks, n);
	}
}

static void check_every(const char *options, enum burst_model model, loss_fn *loss,
			double tolerance)
{
	struct system sys;
	static struct every e;
	struct burst_map map;
	char why[SYSTEM_WHY_MAX] = "";
	make(&sys, options);
	uint32_t racks = sys.spec.racks, disks = sys.layout.disks;
	look_at_every_layout(&sys, loss, &e);
	if (burst_exact(&sys, &(struct burst_ask){.model = model, .failed = disks, .racks = racks},
			&one_thread, &map, why, sizeof(why)) != 0)
		fail_msg("%s: %s", options, why);
	for (uint32_t y = 1; y <= disks; y++)
		for (uint32_t x = 1; x <= racks; x++) {
			double pdl = burst_map_at(&map, y, x);
			if (e.all[y][x] == 0) {
				assert_true(isnan(pdl));
				continue;
			}
			double want = e.lost[y][x] / e.all[y][x];
			if (!(fabs(pdl - want) <= tolerance * want + 1e-15))
				fail_msg("%s: %u disks in %u racks: got %.15g, want %.15g", options,
					 y, x, pdl, want);
			if ((y + x) % 3 == 0)
				near(exact_at(&sys, model, y, x), pdl, 1e-12);
		}
	burst_map_fini(&map);
}

/* Returns whether the layout code of src/code loses data when these disks fail. */
static double layout_loses(const struct system *sys, const uint32_t *disks, uint32_t n)
{
	struct failure f;
	struct failure_totals totals;
	assert_int_equal(failure_init(&f, &sys->layout, disks, n), 0);
	failure_count(&f, &totals);
	failure_fini(&f);
	return totals.lost_net > 0;
}

static bool pool_breaks(const struct layout *l, const bool *failed, uint32_t pool)
{
	uint32_t n = 0, tolerance = (uint32_t)l->spec.local.p;
	for (uint32_t d = 0; d < l->pool_disks; d++)
		n += failed[pool * l->pool_disks + d];
	if (l->spec.local_place != PLACE_OVERLAP)
		return n > tolerance;
	for (uint32_t s = 0; s < l->pool_disks; s++) {
		n = 0;
		for (uint32_t m = 0; m < l->rows; m++)
			n += failed[pool * l->pool_disks +
				    (s + l->local.base.domain[m]) % l->pool_disks];
		if (n > tolerance)
			return true;
	}
	return false;
}

/* The study's table of failure modes, implemented literally. */
static double pools_lose(const struct system *sys, const uint32_t *disks, uint32_t n)
{
	const struct layout *l = &sys->layout;
	bool failed[DISKS_MAX] = {0};
	uint32_t racks = 0;
	for (uint32_t i = 0; i < n; i++)
		failed[disks[i]] = true;
	for (uint32_t r = 0; r < l->spec.racks; r++) {
		bool any = false;
		for (uint32_t p = 0; p < l->rack_pools; p++)
			any |= pool_breaks(l, failed, r * l->rack_pools + p);
		racks += any;
	}
	if (l->spec.net_place == PLACE_DECLUSTERED)
		return racks > (uint32_t)l->spec.net.p;
	for (uint32_t g = 0; g < l->spec.racks; g += l->columns)
		for (uint32_t p = 0; p < l->rack_pools; p++) {
			uint32_t broken = 0;
			for (uint32_t c = 0; c < l->columns; c++)
				broken += pool_breaks(l, failed, (g + c) * l->rack_pools + p);
			if (broken > (uint32_t)l->spec.net.p)
				return 1;
		}
	return 0;
}

static void counting_equals_enumeration_with_the_production_layout(void **state)
{
	/* Enough chunks that every combination of disks shares a stripe. */
	check_every("code mlec:1+1/1+1 scheme c/c racks 4 enclosures 1 disks 2 disk-size 8 "
		    "chunk-size 1",
		    BURST_POOLS, layout_loses, 1e-12);
	check_every("code mlec:1+1/1+1 scheme c/c racks 2 enclosures 2 disks 2 disk-size 8 "
		    "chunk-size 1",
		    BURST_POOLS, layout_loses, 1e-12);
	check_every("code mlec:1+1/1+1 scheme c/d racks 4 enclosures 1 disks 3 disk-size 64 "
		    "chunk-size 1",
		    BURST_POOLS, layout_loses, 1e-12);
	check_every("code mlec:1+1/1+1 scheme d/c racks 3 enclosures 1 disks 4 disk-size 64 "
		    "chunk-size 1",
		    BURST_POOLS, layout_loses, 1e-12);
	check_every("code mlec:1+1/1+1 scheme d/d racks 3 enclosures 1 disks 3 disk-size 96 "
		    "chunk-size 1",
		    BURST_POOLS, layout_loses, 1e-12);
	check_every("code rs:2+1 scheme -/c racks 2 enclosures 1 disks 6 disk-size 4 chunk-size 1",
		    BURST_POOLS, layout_loses, 1e-12);
	check_every("code rs:2+1 scheme c/- racks 6 enclosures 1 disks 2 disk-size 4 chunk-size 1",
		    BURST_POOLS, layout_loses, 1e-12);
	check_every("code r2 scheme d/- racks 4 enclosures 1 disks 3 disk-size 200 chunk-size 1",
		    BURST_POOLS, layout_loses, 1e-12);
}

static void counting_equals_enumeration_with_the_table(void **state)
{
	static const char *const systems[] = {
		"code mlec:2+1/1+1 scheme c/c racks 3 enclosures 1 disks 4",
		"code mlec:1+2/1+1 scheme c/d racks 3 enclosures 1 disks 5",
		"code mlec:1+1/2+1 scheme c/s racks 2 enclosures 1 disks 7",
		"code mlec:1+1/2+1 scheme d/s racks 2 enclosures 1 disks 7",
		"code mlec:1+1/1+1 scheme d/d racks 4 enclosures 2 disks 2",
		"code mlec:1+1/1+2 scheme d/c racks 4 enclosures 1 disks 3",
		"code mlec:1+1/1+1 scheme c/d racks 2 enclosures 1 disks 8 pool-disks 4",
		"code rs:2+1 scheme -/s racks 2 enclosures 1 disks 7",
		"code rs:2+1 scheme -/d racks 2 enclosures 1 disks 8 pool-disks 4",
		"code r2 scheme c/- racks 4 enclosures 2 disks 2",
	};
	for (size_t i = 0; i < ARRAY_LEN(systems); i++)
		check_every(systems[i], BURST_POOLS, pools_lose, 1e-12);
}

/*
 * d/-: a stripe is a random ordered choice of racks, one disk in each; chunk i is in the i-th
 * rack.
 */
struct places {
	const struct system *sys;
	const bool *failed;
	const double *lost; /* probability of data loss by the set of lost chunks (a bit mask) */
	double sum, n;
};

static void each_place(struct places *p, uint32_t chunk, uint32_t used, uint32_t mask)
{
	const struct layout *l = &p->sys->layout;
	uint32_t rack_disks = l->rack_pools;
	if (chunk == l->columns) {
		p->sum += p->lost[mask];
		p->n++;
		return;
	}
	for (uint32_t r = 0; r < l->spec.racks; r++)
		for (uint32_t d = 0; d < rack_disks && (used >> r & 1) == 0; d++)
			each_place(p, chunk + 1, used | 1u << r,
				   mask | (uint32_t)p->failed[r * rack_disks + d] << chunk);
}

static double stripes_lose(const struct system *sys, const uint32_t *disks, uint32_t n)
{
	static double lost[256];
	static char code[ENCODING_TEXT_MAX];
	const struct layout *l = &sys->layout;
	bool failed[DISKS_MAX] = {0};
	if (strcmp(code, sys->code) != 0) { /* ask the codec once for each pattern */
		struct codec *c;
		assert_int_equal(codec_open(&sys->spec.encoding, &c), 0);
		for (uint32_t mask = 0; mask < 1u << l->columns; mask++) {
			struct code_health h;
			int chunk[8], k = 0;
			for (uint32_t i = 0; i < l->columns; i++)
				if (mask >> i & 1)
					chunk[k++] = (int)i;
			assert_int_equal(code_health(c, chunk, k, &h), 0);
			lost[mask] = !h.tolerated;
		}
		codec_close(c);
		snprintf(code, sizeof(code), "%s", sys->code);
	}
	for (uint32_t i = 0; i < n; i++)
		failed[disks[i]] = true;
	struct places p = {sys, failed, lost, 0, 0};
	each_place(&p, 0, 0, 0);
	return 1 - pow(1 - p.sum / p.n, (double)l->stripes);
}

static void stripes_equal_enumeration_of_failures_and_places(void **state)
{
	check_every("code rs:2+1 scheme d/- racks 4 enclosures 1 disks 2 disk-size 5 chunk-size 1",
		    BURST_STRIPES, stripes_lose, 1e-9);
	check_every(
		"code lrc:2+1+1 scheme d/- racks 5 enclosures 1 disks 2 disk-size 3 chunk-size 1",
		BURST_STRIPES, stripes_lose, 1e-9);
	check_every("code r3 scheme d/- racks 3 enclosures 1 disks 4 disk-size 2 chunk-size 1",
		    BURST_STRIPES, stripes_lose, 1e-9);
}

static double sets_lose(const struct system *sys, const uint32_t *disks, uint32_t n)
{
	const struct layout *l = &sys->layout;
	const struct baseset *b = &l->net.base;
	for (uint32_t s = 0; s < l->disks; s++) {
		int hits = 0;
		for (uint32_t m = 0; m < b->width; m++) {
			uint32_t r = (s / b->units + b->domain[m]) % b->domains;
			uint32_t u = (s % b->units + b->unit[m]) % b->units;
			for (uint32_t i = 0; i < n; i++)
				hits += disks[i] == r * b->units + u;
		}
		if (hits > l->spec.net.p)
			return 1;
	}
	return 0;
}

static void stripe_sets_over_racks_are_bounded_from_above(void **state)
{
	struct system sys;
	static struct every e;
	make(&sys, "code rs:2+1 scheme s/- racks 7 enclosures 1 disks 2");
	look_at_every_layout(&sys, sets_lose, &e);
	for (uint32_t y = 1; y <= 8; y++)
		for (uint32_t x = (y + 1) / 2; x <= y && x <= 7; x++) {
			double want = e.lost[y][x] / e.all[y][x];
			double bound = exact_at(&sys, BURST_STRIPES, y, x);
			assert_true(bound >= want - 1e-12);
			if (y == 2) /* two disks are in one set at most */
				near(bound, want, 1e-12);
			struct burst_estimate m;
			char why[SYSTEM_WHY_MAX];
			assert_int_equal(burst_sample(&sys,
						      &(struct burst_ask){.model = BURST_STRIPES,
									  .failed = y,
									  .racks = x,
									  .trials = 2000},
						      &one_thread, &m, why, sizeof(why)),
					 0);
			assert_true(fabs(m.pdl - want) <=
				    5 * sqrt(want * (1 - want) / 2000) + 1e-9);
		}
}

/* ---- closed forms ---- */

static double choose(double n, double k)
{
	return exp(stats_log_choose(n, k));
}

static void small_bursts_match_closed_forms(void **state)
{
	struct system sys;
	/* Four disks of a rack in one of its 96 pools of ten. */
	make(&sys, "code rs:7+3 scheme -/c");
	near(exact_at(&sys, BURST_POOLS, 4, 1), 96 * choose(10, 4) / choose(960, 4), 1e-9);
	near(exact_at(&sys, BURST_POOLS, 5, 1),
	     96 * (choose(10, 4) * 950 + choose(10, 5)) / choose(960, 5), 1e-9);
	/* Two racks: three and one never do, four and one must be in one pool. */
	near(exact_at(&sys, BURST_POOLS, 5, 2),
	     2 * 96 * choose(10, 4) * 960 / (choose(1920, 5) - 2 * choose(960, 5)), 1e-9);
	/* Four disks in four racks of one group at the same place. */
	make(&sys, "code rs:7+3 scheme c/-");
	near(exact_at(&sys, BURST_POOLS, 4, 4),
	     6 * choose(10, 4) * 960 / (choose(60, 4) * pow(960, 4)), 1e-9);
	/* MLEC: four disks each in one pool of three racks. */
	double all = choose(2880, 12) - 3 * choose(1920, 12) + 3 * choose(960, 12);
	make(&sys, "scheme c/c");
	near(exact_at(&sys, BURST_POOLS, 12, 3),
	     5 * choose(12, 3) / choose(60, 3) * 48 * pow(choose(20, 4), 3) / all, 1e-9);
	make(&sys, "scheme d/d");
	near(exact_at(&sys, BURST_POOLS, 12, 3), pow(8 * choose(120, 4), 3) / all, 1e-9);
}

static void probabilities_stay_exact_below_1e_30(void **state)
{
	struct system sys;
	/* 48 places, six pools of twelve racks broken by seven disks each. */
	make(&sys, "code mlec:7+5/14+6 scheme c/c");
	double pdl = exact_at(&sys, BURST_POOLS, 42, 6);
	double all = 0;
	for (int i = 0; i <= 6; i++)
		all += (i % 2 == 0 ? 1 : -1) * choose(6, i) * choose((6 - i) * 960.0, 42);
	assert_true(pdl > 0 && pdl < 1e-60);
	near(pdl, 5 * choose(12, 6) / choose(60, 6) * 48 * pow(choose(20, 7), 6) / all, 1e-8);
}

static void stripe_sets_of_a_pool_are_counted(void **state)
{
	struct system sys;
	struct burst_pool p;
	/* Fano plane, 2+1: any two disks are in a set, so two always break it. */
	make(&sys, "code rs:2+1 scheme -/s racks 1 enclosures 1 disks 7");
	assert_int_equal(burst_pool_init(&p, &sys.layout, 1, 7, &one_thread), 0);
	assert_true(p.exact);
	near(p.broken[2], 1, 1e-12);
	burst_pool_fini(&p);
	/* 1+2: three disks break it when they are one of 7 lines of 35 triples. */
	assert_int_equal(burst_pool_init(&p, &sys.layout, 2, 7, &one_thread), 0);
	near(p.broken[3], 7.0 / 35, 1e-12);
	near(p.broken[4], 28.0 / 35, 1e-12); /* all but the 7 complements of lines */
	near(p.broken[5], 1, 1e-12);
	burst_pool_fini(&p);
	/* The paper's pool, sampled beyond five: consistent with what was counted. */
	make(&sys, "scheme c/s");
	assert_int_equal(burst_pool_init(&p, &sys.layout, 3, 30, &one_thread), 0);
	assert_false(p.exact);
	for (uint32_t f = 4; f <= 30; f++)
		assert_true(p.broken[f] >= p.broken[f - 1] && p.low[f] <= p.high[f]);
	assert_true(p.broken[30] > 0.999);
	burst_pool_fini(&p);
}

/* ---- what the study says ---- */

static void no_data_is_lost_where_the_study_states_none(void **state)
{
	static const char *const schemes[] = {"c/c", "c/d", "c/s", "d/c", "d/d", "d/s"};
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		struct system sys;
		struct burst_map map;
		char options[32], why[SYSTEM_WHY_MAX];
		snprintf(options, sizeof(options), "scheme %s", schemes[i]);
		make(&sys, options);
		assert_int_equal(burst_exact(&sys,
					     &(struct burst_ask){.model = BURST_POOLS,
								 .failed = 40,
								 .racks = 40},
					     &one_thread, &map, why, sizeof(why)),
				 0);
		for (uint32_t y = 1; y <= 40; y++)
			for (uint32_t x = 1; x <= y; x++) {
				double pdl = burst_map_at(&map, y, x);
				bool none = x <= 2 || y <= x + 8; /* finding 3 */
				assert_true(none ? pdl == 0 : pdl > 0 && pdl < 1);
				if (y > x && x > 2) /* finding 1 */
					assert_true(pdl >= burst_map_at(&map, y - 1, x));
				if (x > 3) /* findings 2 and 4 */
					assert_true(pdl <=
						    burst_map_at(&map, y, x - 1) * (1 + 1e-12));
			}
		burst_map_fini(&map);
	}
}

static double of_scheme(const char *scheme, uint32_t failed, uint32_t racks)
{
	struct system sys;
	char options[32];
	snprintf(options, sizeof(options), "scheme %s", scheme);
	make(&sys, options);
	return exact_at(&sys, BURST_POOLS, failed, racks);
}

static void schemes_rank_as_in_the_study(void **state)
{
	uint32_t bursts[][2] = {{60, 3}, {30, 10}};
	for (size_t i = 0; i < ARRAY_LEN(bursts); i++) {
		uint32_t y = bursts[i][0], x = bursts[i][1];
		double cc = of_scheme("c/c", y, x), cd = of_scheme("c/d", y, x);
		double cs = of_scheme("c/s", y, x), dc = of_scheme("d/c", y, x);
		double dd = of_scheme("d/d", y, x), ds = of_scheme("d/s", y, x);
		assert_true(cc < cd && cc < dc);                       /* findings 5 and 6 */
		assert_true(dd > cd && dd > dc && dd > ds);            /* finding 7 */
		assert_true(cc < cs && cs < cd && dc < ds && ds < dd); /* finding 8 */
	}
}

static void codes_on_one_level_lose_data_where_the_study_states(void **state)
{
	struct system sys;
	make(&sys, "code rs:7+3 scheme -/c");
	/* The study states x + p, but then one rack may have p + 1 failures. */
	assert_true(exact_at(&sys, BURST_POOLS, 12, 10) == 0);
	assert_true(exact_at(&sys, BURST_POOLS, 13, 10) > 0);
	make(&sys, "code rs:7+3 scheme c/-");
	assert_true(exact_at(&sys, BURST_POOLS, 60, 3) == 0); /* no loss in up to p racks */
	assert_true(exact_at(&sys, BURST_POOLS, 60, 4) > 0);
	make(&sys, "code rs:7+3 scheme d/-");
	assert_true(exact_at(&sys, BURST_STRIPES, 60, 3) == 0);
	assert_true(exact_at(&sys, BURST_STRIPES, 40, 40) > 0.99);
	make(&sys, "code lrc:14+2+4 scheme d/-");
	assert_true(exact_at(&sys, BURST_STRIPES, 30, 5) == 0); /* no loss of any r + 1 disks */
	assert_true(exact_at(&sys, BURST_STRIPES, 30, 6) > 0);
	assert_true(exact_at(&sys, BURST_STRIPES, 30, 30) > exact_at(&sys, BURST_STRIPES, 30, 10));
}

static void an_lrc_survives_what_its_codec_decodes(void **state)
{
	struct encoding e = {.kind = ENCODING_LRC, .lrc = {6, 2, 2}};
	struct lrc_loss loss;
	const double *share = loss.share;
	assert_int_equal(lrc_loss_find(&loss, &e), 0);
	assert_true(loss.exact && share[3] == 0 && share[5] == 1 && share[10] == 1);
	/*
	 * Four losses are fatal when they take a group of four, or three of one and a global, or
	 * two of one and both globals: 2 * (1 + 4 * 2 + 6 * 1) minus nothing, if the code is as
	 * good as can be. A group can make good one loss, the globals two: fatal when the rest
	 * is more than two.
	 */
	double fatal = 0;
	for (int a = 0; a <= 4; a++)
		for (int b = 0; b <= 4 - a; b++) {
			int g = 4 - a - b;
			int rest = (a > 0 ? a - 1 : 0) + (b > 0 ? b - 1 : 0) + g;
			if (g <= 2 && rest > 2)
				fatal += choose(4, a) * choose(4, b) * choose(2, g);
		}
	near(share[4], fatal / choose(10, 4), 1e-12);
	e = (struct encoding){.kind = ENCODING_RS, .rs = {7, 3}};
	assert_int_equal(lrc_loss_find(&loss, &e), 0);
	assert_true(loss.exact && share[3] == 0 && share[4] == 1);
}

/* Too many patterns to enumerate: counted, or sampled with an interval. */
static void an_lrc_with_many_parities_is_counted_or_has_an_interval(void **state)
{
	struct system sys;
	struct burst_map map;
	char why[SYSTEM_WHY_MAX];
	struct lrc_loss loss;
	make(&sys, "code lrc:30+3+8 scheme d/-");
	assert_int_equal(lrc_loss_find(&loss, &sys.spec.encoding), 0);
	bool counted = loss.exact;
	for (int j = 0; j <= 41; j++)
		assert_true(loss.low[j] <= loss.share[j] && loss.share[j] <= loss.high[j] &&
			    (counted || j <= 9 || j > 11 || loss.low[j] < loss.high[j]));
	assert_int_equal(burst_exact_one(&sys,
					 &(struct burst_ask){
						 .model = BURST_STRIPES, .failed = 40, .racks = 30},
					 &one_thread, &map, why, sizeof(why)),
			 0);
	size_t at = 40 * 30 - 1;
	assert_int_equal(map.exact, counted);
	if (counted)
		assert_true(map.low[at] == map.pdl[at] && map.pdl[at] == map.high[at]);
	else
		assert_true(map.low[at] < map.pdl[at] && map.pdl[at] < map.high[at]);
	burst_map_fini(&map);
}

/* Losses of layouts are between 0 and 1 and most are 0: a normal interval would be too narrow. */
static void intervals_of_sampled_stripes_contain_the_exact_value(void **state)
{
	enum { SEEDS = 100 };
	struct burst_estimate at[SEEDS];
	struct system sys;
	char why[SYSTEM_WHY_MAX];
	double mean = 0;
	int above = 0, below = 0;
	make(&sys, "scheme c/d");
	for (int i = 0; i < SEEDS; i++) {
		struct work w = {.seed = (uint64_t)i + 1, .threads = 1};
		assert_int_equal(burst_sample(&sys,
					      &(struct burst_ask){.model = BURST_STRIPES,
								  .failed = 60,
								  .racks = 3,
								  .trials = 1000},
					      &w, &at[i], why, sizeof(why)),
				 0);
		mean += at[i].pdl / SEEDS;
	}
	for (int i = 0; i < SEEDS; i++) {
		above += at[i].interval.high < mean;
		below += at[i].interval.low > mean;
	}
	print_message("PDL %g: %d intervals below it, %d above\n", mean, above, below);
	assert_true(above <= 5 && below <= 5);
}

static void any_number_of_failures_can_be_sampled(void **state)
{
	struct burst_estimate m;
	struct system sys;
	char why[SYSTEM_WHY_MAX];
	make(&sys, "scheme c/d racks 12");
	for (enum burst_model model = BURST_POOLS; model <= BURST_STRIPES; model++) {
		assert_int_equal(burst_sample(&sys,
					      &(struct burst_ask){.model = model,
								  .failed = 2500,
								  .racks = 3,
								  .trials = 5},
					      &one_thread, &m, why, sizeof(why)),
				 0);
		assert_true(m.pdl > 0.999); /* most disks of three racks have failed */
	}
}

/* ---- Monte Carlo ---- */

static void monte_carlo_agrees_with_counting(void **state)
{
	static const struct {
		const char *options;
		enum burst_model model;
		uint32_t failed, racks;
	} cases[] = {
		{"scheme d/d", BURST_POOLS, 60, 3},
		{"scheme c/d racks 12", BURST_POOLS, 90, 4},
		{"scheme d/s", BURST_POOLS, 80, 3},
		{"scheme c/c racks 12 enclosures 1", BURST_POOLS, 90, 5},
		{"scheme d/c racks 20 enclosures 1", BURST_POOLS, 80, 6},
		{"code rs:7+3 scheme -/s", BURST_POOLS, 60, 2},
		{"code rs:7+3 scheme c/- racks 10 enclosures 1 disks 20", BURST_POOLS, 40, 9},
		{"code rs:7+3 scheme d/-", BURST_STRIPES, 25, 8},
		{"code lrc:14+2+4 scheme d/-", BURST_STRIPES, 40, 20},
		{"code lrc:14+2+4 scheme -/d", BURST_POOLS, 60, 3},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct system sys;
		struct burst_estimate m;
		char why[SYSTEM_WHY_MAX] = "";
		make(&sys, cases[i].options);
		double pdl = exact_at(&sys, cases[i].model, cases[i].failed, cases[i].racks);
		if (burst_sample(&sys,
				 &(struct burst_ask){.model = cases[i].model,
						     .failed = cases[i].failed,
						     .racks = cases[i].racks,
						     .trials = 3000},
				 &one_thread, &m, why, sizeof(why)) != 0)
			fail_msg("%s", why);
		/*
		 * Ten intervals of 95%: widened so that a correct program fails once in 10,000
		 * runs.
		 */
		double half = (m.interval.high - m.interval.low) / 2 * 2.2;
		if (!(fabs(pdl - m.pdl) <= half) || m.pdl <= 0)
			fail_msg("%s: counted %g, sampled %g (%g to %g)", cases[i].options, pdl,
				 m.pdl, m.interval.low, m.interval.high);
	}
}

static void the_model_of_stripes_loses_less_than_that_of_pools(void **state)
{
	struct system sys;
	struct burst_estimate pools, stripes, layout;
	char why[SYSTEM_WHY_MAX] = "";
	make(&sys, "code mlec:2+1/2+1 scheme d/d racks 4 enclosures 1 disks 6 disk-size 30 "
		   "chunk-size 1");
	assert_int_equal(
		burst_sample(&sys,
			     &(struct burst_ask){
				     .model = BURST_POOLS, .failed = 6, .racks = 3, .trials = 4000},
			     &one_thread, &pools, why, sizeof(why)),
		0);
	assert_int_equal(burst_sample(&sys,
				      &(struct burst_ask){.model = BURST_STRIPES,
							  .failed = 6,
							  .racks = 3,
							  .trials = 4000},
				      &one_thread, &stripes, why, sizeof(why)),
			 0);
	assert_int_equal(burst_sample(&sys,
				      &(struct burst_ask){.model = BURST_LAYOUT,
							  .failed = 6,
							  .racks = 3,
							  .trials = 4000},
				      &one_thread, &layout, why, sizeof(why)),
			 0);
	assert_true(stripes.pdl < pools.pdl && layout.pdl <= pools.pdl);
	near(stripes.pdl, layout.pdl,
	     0.15); /* stripes placed at random, and placed by the layout */
	near(pools.pdl, exact_at(&sys, BURST_POOLS, 6, 3), 0.1);
}

static void threads_do_not_change_the_result(void **state)
{
	static const char *const systems[] = {"code rs:7+3 scheme d/-", "scheme d/s"};
	struct work w[2] = {{.seed = 9, .threads = 1}, {.seed = 9, .threads = 2}};
	for (size_t i = 0; i < ARRAY_LEN(systems); i++) {
		struct system sys;
		struct burst_map map[2];
		struct burst_estimate m[2];
		char why[SYSTEM_WHY_MAX];
		make(&sys, systems[i]);
		enum burst_model model = burst_model_default(&sys);
		for (int t = 0; t < 2; t++) {
			assert_int_equal(burst_exact(&sys,
						     &(struct burst_ask){.model = model,
									 .failed = 25,
									 .racks = 12},
						     &w[t], &map[t], why, sizeof(why)),
					 0);
			assert_int_equal(burst_sample(&sys,
						      &(struct burst_ask){.model = BURST_STRIPES,
									  .failed = 25,
									  .racks = 5,
									  .trials = 1500},
						      &w[t], &m[t], why, sizeof(why)),
					 0);
		}
		size_t n = (size_t)25 * 12;
		for (size_t f = 0; f < n; f++)
			assert_true(map[0].pdl[f] == map[1].pdl[f] ||
				    (isnan(map[0].pdl[f]) && isnan(map[1].pdl[f])));
		assert_true(m[0].pdl == m[1].pdl && m[0].interval.low == m[1].interval.low);
		burst_map_fini(&map[0]);
		burst_map_fini(&map[1]);
	}
}

static void impossible_bursts_are_refused(void **state)
{
	struct system sys;
	struct burst_map map;
	struct burst_estimate m;
	char why[SYSTEM_WHY_MAX] = "";
	make(&sys, "scheme c/d");
	assert_int_equal(burst_check(&sys, 12, 61, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "--affected-racks 61"));
	assert_int_equal(burst_check(&sys, 3, 4, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "--failed 3"));
	assert_int_equal(burst_check(&sys, 961, 1, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "960"));
	assert_int_equal(burst_check(&sys, 0, 0, why, sizeof(why)), -EINVAL);
	assert_int_equal(burst_check(&sys, 960, 1, why, sizeof(why)), 0);
	assert_int_equal(
		burst_exact(&sys,
			    &(struct burst_ask){.model = BURST_LAYOUT, .failed = 9, .racks = 3},
			    &one_thread, &map, why, sizeof(why)),
		-EOPNOTSUPP);
	assert_int_equal(
		burst_exact(&sys,
			    &(struct burst_ask){.model = BURST_STRIPES, .failed = 9, .racks = 3},
			    &one_thread, &map, why, sizeof(why)),
		-EOPNOTSUPP);
	assert_int_equal(
		burst_sample(&sys,
			     &(struct burst_ask){
				     .model = BURST_LAYOUT, .failed = 9, .racks = 3, .trials = 10},
			     &one_thread, &m, why, sizeof(why)),
		-E2BIG);
	make(&sys, "code rs:7+3 scheme d/-");
	assert_int_equal(
		burst_exact(&sys,
			    &(struct burst_ask){.model = BURST_STRIPES, .failed = 81, .racks = 9},
			    &one_thread, &map, why, sizeof(why)),
		-E2BIG);
	assert_non_null(strstr(why, "--failed 81"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counting_equals_enumeration_with_the_production_layout),
		cmocka_unit_test(counting_equals_enumeration_with_the_table),
		cmocka_unit_test(stripes_equal_enumeration_of_failures_and_places),
		cmocka_unit_test(stripe_sets_over_racks_are_bounded_from_above),
		cmocka_unit_test(small_bursts_match_closed_forms),
		cmocka_unit_test(probabilities_stay_exact_below_1e_30),
		cmocka_unit_test(stripe_sets_of_a_pool_are_counted),
		cmocka_unit_test(no_data_is_lost_where_the_study_states_none),
		cmocka_unit_test(schemes_rank_as_in_the_study),
		cmocka_unit_test(codes_on_one_level_lose_data_where_the_study_states),
		cmocka_unit_test(an_lrc_survives_what_its_codec_decodes),
		cmocka_unit_test(an_lrc_with_many_parities_is_counted_or_has_an_interval),
		cmocka_unit_test(intervals_of_sampled_stripes_contain_the_exact_value),
		cmocka_unit_test(any_number_of_failures_can_be_sampled),
		cmocka_unit_test(monte_carlo_agrees_with_counting),
		cmocka_unit_test(the_model_of_stripes_loses_less_than_that_of_pools),
		cmocka_unit_test(threads_do_not_change_the_result),
		cmocka_unit_test(impossible_bursts_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
