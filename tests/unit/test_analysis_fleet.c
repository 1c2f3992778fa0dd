// SPDX-License-Identifier: Apache-2.0
/* The simulator: its states against real layouts, its losses against splitting, and traces. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/fleet.h"
#include "analysis/nines.h"
#include "analysis/split.h"
#include "base/base.h"
#include "base/rng.h"
#include "code/failure.h"
#include "code/repair_count.h"

#define HOUR 3600.0

/* 12 racks x 2 enclosures x 30 disks: small enough to lose data now and then. */
static void make(struct system *sys, const char *code, const char *scheme, double afr,
		 enum repair_method method)
{
	struct system_spec spec;
	char why[SYSTEM_WHY_MAX] = "";
	system_spec_default(&spec);
	assert_int_equal(encoding_parse(code, &spec.encoding, why, sizeof(why)), 0);
	snprintf(spec.scheme, sizeof(spec.scheme), "%s", scheme);
	spec.racks = 12;
	spec.enclosures = 2;
	spec.disks = 30;
	spec.afr = afr;
	spec.method = method;
	if (system_init(sys, &spec, why, sizeof(why)) != 0)
		fail_msg("%s", why);
}

static void estimate(const struct system *sys, enum nines_by by, bool as_paper,
		     struct nines_answer *out)
{
	struct nines_options o;
	char why[SYSTEM_WHY_MAX] = "";
	nines_options_default(&o);
	o.by = by;
	o.precision = 0.2;
	o.states = 100;
	o.missions = 4000;
	o.as_paper = as_paper;
	if (nines_estimate(sys, &o, out, why, sizeof(why)) != 0)
		fail_msg("%s", why);
}

/* The example of damage.h: 2+1, repair takes 10 h, nothing to detect. */
static void the_example_of_the_header_holds(void **state)
{
	(void)state;
	struct level level = {.members = 3,
			      .width = 3,
			      .k = 2,
			      .max_losses = 1,
			      .stripes = 1000,
			      .clustered = true,
			      .fail_rate = 1e-9};
	level.fatal[2] = 1;
	level.rate[1] = level.rate[2] = 1000 / (10 * HOUR);
	struct damage_hit whole = {1, 1};
	AUTO_FREE struct damage *d = malloc(damage_bytes(&level) * 4);
	assert_non_null(d);
	damage_init(d, &level);
	assert_true(damage_fail(d, 0, &whole) == 0);
	damage_advance(d, 4 * HOUR);
	assert_true(fabs(damage_missing(d) - 600) < 1e-6);
	assert_true(fabs(damage_fail(d, 1, &whole) - 600) < 1e-6);

	level.max_losses = 2;
	level.fatal[2] = 0;
	level.fatal[3] = 1;
	damage_init(d, &level);
	damage_fail(d, 0, &whole);
	damage_advance(d, 4 * HOUR);
	assert_true(damage_fail(d, 1, &whole) == 0);
	damage_advance(d, 9.99 * HOUR);
	assert_int_equal(damage_top(d), 2);
	damage_advance(d, 10.01 * HOUR);
	assert_int_equal(damage_top(d), 1);
	assert_int_equal(damage_alive(d), 2);
	damage_advance(d, 13.99 * HOUR);
	assert_false(damage_idle(d));
	damage_advance(d, 14.01 * HOUR);
	assert_true(damage_idle(d) && damage_missing(d) == 0);
}

static void nothing_is_repaired_before_it_is_detected(void **state)
{
	(void)state;
	struct system sys;
	struct level level;
	make(&sys, "rs:4+2", "-/d", 0.01, REPAIR_MIN);
	assert_int_equal(level_of_disks(&level, &sys), 0);
	AUTO_FREE struct damage *d = malloc(damage_bytes(&level));
	assert_non_null(d);
	damage_init(d, &level);
	damage_fail(d, 0, &(struct damage_hit){1, 1});
	double missing = damage_missing(d);
	damage_advance(d, 1799);
	assert_true(damage_missing(d) == missing);
	damage_advance(d, 1801);
	assert_true(damage_missing(d) < missing);
}

/* When disks fail at once, the table equals the expected counts of the layout. */
static void a_declustered_table_is_the_expected_count(void **state)
{
	(void)state;
	struct system sys;
	struct level level;
	double count[ENCODING_STRIPE_MAX + 1];
	make(&sys, "rs:10+5", "-/d", 0.01, REPAIR_MIN);
	assert_int_equal(level_of_disks(&level, &sys), 0);
	AUTO_FREE struct damage *d = malloc(damage_bytes(&level));
	assert_non_null(d);
	damage_init(d, &level);
	for (uint32_t failed = 1; failed <= 6; failed++) {
		double lost = damage_fail(d, 0, &(struct damage_hit){1, 1}), missing = 0;
		assert_int_equal(repair_counts_expected(&sys.layout, failed, count), 0);
		for (uint32_t j = 1; j <= 5; j++)
			missing += j * count[j];
		assert_true(fabs(damage_missing(d) / missing - 1) < 1e-9);
		if (failed == 6)
			assert_true(fabs(lost / count[6] - 1) < 1e-9);
	}
}

/* All sets of four disks of a small pool against the stripes of the real layout, one by one. */
static void single_overlap_loses_what_the_layout_loses(void **state)
{
	(void)state;
	struct layout_spec spec = {.net = {1, 0},
				   .local = {3, 2},
				   .local_place = PLACE_OVERLAP,
				   .racks = 1,
				   .enclosures = 1,
				   .disks = 12,
				   .slots = 50};
	struct system sys = {.spec = {.chunk_bytes = 1}, .disk_rate_s = 1e-9};
	struct level level;
	uint64_t catastrophic = 0;
	assert_int_equal(layout_init(&sys.layout, &spec, NULL, 0), 0);
	sys.bandwidth = (struct repair_bandwidth){1, 1};
	sys.detect_s = 10;
	assert_int_equal(level_of_disks(&level, &sys), 0);
	AUTO_FREE struct damage *d = malloc(damage_bytes(&level));
	assert_non_null(d);
	for (uint32_t mask = 0; mask < 1u << 12; mask++) {
		uint32_t disks[12], n = 0;
		double lost = 0;
		struct failure f;
		struct failure_totals totals;
		if (__builtin_popcount(mask) != 4)
			continue;
		damage_init(d, &level);
		for (uint32_t i = 0; i < 12; i++)
			if (mask & (1u << i)) {
				disks[n++] = i;
				lost += damage_fail(d, i, &(struct damage_hit){1, 1});
			}
		assert_int_equal(failure_init(&f, &sys.layout, disks, n), 0);
		failure_count(&f, &totals);
		assert_true(fabs(lost - (double)totals.lost_local) < 1e-9);
		catastrophic += totals.lost_local > 0;
		failure_fini(&f);
	}
	assert_true(catastrophic > 0 && catastrophic < 495);
}

/*
 * A reference implementation of one pool: a layout, each stripe with its missing disks, repaired
 * one after the other, most known losses first. The table must equal its mean.
 */
#define PLAIN_DISKS 15
#define PLAIN_STRIPES_MAX 2000

struct plain {
	const struct layout *l;
	const struct level *level;
	double now, fail_at[PLAIN_DISKS], progress;
	uint32_t failed; /* bit d: disk d has failed */
	/* of each stripe; bit d: its chunk on disk d is missing; ~0: the stripe is lost */
	uint32_t missing[PLAIN_STRIPES_MAX];
};

static uint32_t plain_known(const struct plain *p)
{
	uint32_t known = 0;
	for (uint32_t d = 0; d < PLAIN_DISKS; d++)
		if ((p->failed & (1u << d)) && p->fail_at[d] + p->level->detect_s <= p->now)
			known |= 1u << d;
	return known;
}

static void plain_step(struct plain *p, double dt)
{
	uint32_t known = plain_known(p), most = 0, left = 0;
	for (uint64_t s = 0; s < p->l->local.stripes; s++) {
		uint32_t n = (uint32_t)__builtin_popcount(p->missing[s] & known);
		if (p->missing[s] != UINT32_MAX && n > most)
			most = n;
	}
	p->now += dt;
	if (most == 0)
		p->progress = 0;
	else
		p->progress +=
			dt * level_rate(p->level, most, (uint32_t)__builtin_popcount(known),
					PLAIN_DISKS - (uint32_t)__builtin_popcount(p->failed));
	for (uint64_t s = 0; s < p->l->local.stripes; s++) {
		bool lost = p->missing[s] == UINT32_MAX;
		if (lost || p->progress < 1 || most == 0 ||
		    (uint32_t)__builtin_popcount(p->missing[s] & known) != most)
			continue;
		p->missing[s] &= ~known;
		p->progress -= 1;
	}
	for (uint64_t s = 0; s < p->l->local.stripes; s++)
		left |= p->missing[s] != UINT32_MAX ? p->missing[s] : 0;
	if ((left & known) == 0)
		p->failed &= ~known;
}

static uint32_t plain_fail(struct plain *p, uint32_t disk)
{
	uint32_t lost = 0;
	p->failed |= 1u << disk;
	p->fail_at[disk] = p->now;
	for (uint64_t s = 0; s < p->l->local.stripes; s++) {
		if (p->missing[s] == UINT32_MAX || layout_row_of(p->l, 0, s, disk) < 0)
			continue;
		p->missing[s] |= 1u << disk;
		if ((uint32_t)__builtin_popcount(p->missing[s]) > p->level->max_losses) {
			p->missing[s] = UINT32_MAX;
			lost++;
		}
	}
	return lost;
}

static void the_table_is_the_mean_of_stripes_followed_one_by_one(void **state)
{
	(void)state;
	static const enum place_kind kinds[] = {PLACE_CLUSTERED, PLACE_DECLUSTERED, PLACE_OVERLAP};
	static const double times[] = {0, 300, 550, 900};
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct layout_spec spec = {.net = {1, 0},
					   .local = {3, 2},
					   .local_place = kinds[k],
					   .racks = 1,
					   .enclosures = 1,
					   .disks = PLAIN_DISKS,
					   .slots = 200};
		struct system sys = {.spec = {.chunk_bytes = 1}, .disk_rate_s = 1e-9};
		struct level level;
		struct rng rng;
		double expected = 0, counted = 0;
		assert_int_equal(layout_init(&sys.layout, &spec, NULL, 0), 0);
		assert_true(sys.layout.local.stripes <= PLAIN_STRIPES_MAX);
		sys.bandwidth = (struct repair_bandwidth){k == 0 ? 0.3 : 0.08, 1};
		sys.detect_s = 100;
		assert_int_equal(level_of_disks(&level, &sys), 0);
		/* both simulations repair at the same pace */
		if (kinds[k] == PLACE_OVERLAP)
			level.pace = LEVEL_PACE_SPREAD;
		AUTO_FREE struct damage *d = malloc(damage_bytes(&level));
		AUTO_FREE struct plain *p = malloc(sizeof(*p));
		assert_non_null(d);
		assert_non_null(p);
		rng_init(&rng, 21);
		for (int round = 0; round < 150; round++) {
			*p = (struct plain){.l = &sys.layout, .level = &level};
			damage_init(d, &level);
			for (size_t t = 0; t < ARRAY_LEN(times); t++) {
				while (p->now < times[t])
					plain_step(p, 2);
				damage_advance(d, times[t]);
				uint32_t disk,
					first = level.members < PLAIN_DISKS ? 5 : PLAIN_DISKS;
				do
					disk = (uint32_t)rng_below(&rng, first);
				while (p->failed & (1u << disk) || damage_is_out(d, disk));
				counted += plain_fail(p, disk);
				expected += damage_fail(d, disk, &(struct damage_hit){1, 1});
			}
		}
		print_message("%s: %.1f stripes lost on average, %.1f expected\n",
			      place_ops_of(kinds[k])->name, counted / 150, expected / 150);
		assert_true(counted > 0 && fabs(expected / counted - 1) < 0.1);
	}
}

static void simulation_and_splitting_agree(void **state)
{
	(void)state;
	static const struct {
		const char *code, *scheme;
		double afr;
		enum repair_method method;
		bool as_paper;
	} cases[] = {
		{"mlec:2+1/4+1", "c/d", 0.3, REPAIR_ALL, false},
		{"mlec:2+1/4+1", "c/d", 0.5, REPAIR_FCO, true},
		{"mlec:2+1/4+1", "d/c", 0.2, REPAIR_FCO, false},
		{"mlec:2+1/4+1", "d/d", 0.4, REPAIR_FCO, true},
		{"mlec:2+1/4+1", "d/d", 0.6, REPAIR_MIN, false},
		{"mlec:2+1/4+1", "d/s", 0.4, REPAIR_HYB, false},
		{"mlec:2+1/4+1", "c/c", 0.7, REPAIR_HYB, false},
		{"rs:4+2", "-/c", 0.4, REPAIR_MIN, false},
		{"rs:4+2", "-/d", 0.5, REPAIR_MIN, false},
		{"rs:4+2", "-/s", 0.5, REPAIR_MIN, false},
		{"rs:4+2", "d/-", 0.3, REPAIR_MIN, false},
		{"rs:4+2", "c/-", 0.4, REPAIR_MIN, false},
		{"lrc:4+2+1", "d/-", 0.3, REPAIR_MIN, false},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct system sys;
		struct nines_answer simulated, split;
		make(&sys, cases[i].code, cases[i].scheme, cases[i].afr, cases[i].method);
		estimate(&sys, NINES_SIMULATE, cases[i].as_paper, &simulated);
		estimate(&sys, NINES_SPLIT, cases[i].as_paper, &split);
		print_message("%s %s %s: simulated %.4f (%.4f to %.4f), split %.4f\n",
			      cases[i].code, cases[i].scheme, repair_method_name(cases[i].method),
			      simulated.loss.value, simulated.loss.interval.low,
			      simulated.loss.interval.high, split.loss.value);
		assert_true(simulated.lossy_runs >= 60);
		/* Thirteen cases: three standard errors of both, and no more. */
		double error = hypot(simulated.error, split.error) * simulated.loss.value;
		assert_true(fabs(split.loss.value - simulated.loss.value) < 3 * error);
	}
}

/* A rack with a failed member is not more likely to be hit by the next failure. */
static void members_that_are_out_are_not_drawn(void **state)
{
	(void)state;
	struct system sys;
	struct level pools;
	struct rng rng;
	uint32_t drawn[24] = {0};
	make(&sys, "mlec:2+1/4+1", "d/d", 0.01, REPAIR_ALL);
	assert_int_equal(level_of_pools(&pools, &sys, false, 1e-9), 0);
	assert_int_equal(pools.members, 24);
	AUTO_FREE struct damage *d = malloc(damage_bytes(&pools));
	assert_non_null(d);
	damage_init(d, &pools);
	damage_fail(d, 4, &(struct damage_hit){1, 1e6});
	/* of the four failed disks some are detected, others are not yet */
	damage_advance(d, sys.detect_s + 1);
	damage_fail(d, 9, &(struct damage_hit){1, 1e6});
	rng_init(&rng, 3);
	for (int i = 0; i < 2400; i++)
		drawn[damage_draw(d, &rng)]++;
	for (uint32_t m = 0; m < 24; m++)
		assert_true(m == 4 || m == 9 ? drawn[m] == 0 : drawn[m] > 60);
}

static double split_rate(const struct level *level, bool stays)
{
	struct split_spec spec = {.level = level, .states = 200, .survives_loss = stays};
	double sum = 0;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct rng rng;
		struct split_result r;
		rng_init(&rng, seed);
		assert_int_equal(split_run(&spec, &rng, &r), 0);
		sum += r.rate;
		split_fini(&r);
	}
	return sum / 20;
}

/* Under R_MIN a catastrophic pool keeps its other damage, so the next loss follows sooner. */
static void a_pool_that_keeps_damage_loses_again_as_often_as_simulated(void **state)
{
	(void)state;
	struct system sys;
	struct level disks;
	struct fleet *fleet;
	struct rng rng;
	double seconds = 0, catastrophes = 0;
	make(&sys, "mlec:2+1/4+1", "c/d", 0.6, REPAIR_MIN);
	rng_init(&rng, 9);
	assert_int_equal(fleet_open(&fleet, &sys, false, NULL, 10 * SYSTEM_YEAR_S), 0);
	for (int i = 0; i < 100; i++) {
		struct fleet_mission m;
		assert_int_equal(fleet_run(fleet, &rng, &m), 0);
		seconds += m.lost ? m.lost_at_s : 10 * SYSTEM_YEAR_S;
		catastrophes += (double)m.catastrophes;
	}
	fleet_close(fleet);
	assert_int_equal(level_of_disks(&disks, &sys), 0);
	double simulated = catastrophes / seconds / sys.layout.pools;
	double stays = split_rate(&disks, true), ends = split_rate(&disks, false);
	print_message("catastrophes of a pool a year: simulated %.4f, split %.4f; first ones of a "
		      "cycle %.4f\n",
		      simulated * SYSTEM_YEAR_S, stays * SYSTEM_YEAR_S, ends * SYSTEM_YEAR_S);
	assert_true(fabs(stays / simulated - 1) < 0.03);
	assert_true(ends < simulated * 0.96);
}

/*
 * Network pools of the same racks share the repair bandwidth: two at once take twice as long, and a
 * failure at a time when one alone would have been repaired loses data.
 */
static void network_pools_of_the_same_racks_share_their_bandwidth(void **state)
{
	(void)state;
	/* Racks 0 to 2 and enclosure 0 are a network pool, with enclosure 1 another. */
	static const struct {
		uint32_t rack, enclosure;
		bool lost;
	} others[] = {{1, 1, true}, {0, 1, true}, {3, 0, false}, {3, 1, false}};
	struct system sys;
	struct level disks, pools;
	make(&sys, "mlec:2+1/4+1", "c/d", 0.01, REPAIR_ALL);
	assert_int_equal(level_of_disks(&disks, &sys), 0);
	assert_int_equal(level_of_pools(&pools, &sys, false, 1e-9), 0);
	double bytes = disks.stripes * sys.layout.rows * (double)sys.spec.chunk_bytes;
	double alone_s = sys.detect_s + bytes / pools.rate[1];
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		uint32_t other = others[i].rack * 60 + others[i].enclosure * 30;
		struct trace_event events[] = {
			{0, 0, TRACE_FAIL},
			{0, other, TRACE_FAIL},
			{1, 1, TRACE_FAIL},
			{1, other + 1, TRACE_FAIL},
			{1.5 * alone_s, 120, TRACE_FAIL},
			{1.5 * alone_s + 1, 121, TRACE_FAIL},
		};
		struct trace t = {.events = events, .n = ARRAY_LEN(events)};
		struct fleet_failures failures = {.trace = &t};
		struct fleet *fleet;
		struct fleet_mission m;
		struct rng rng;
		rng_init(&rng, 5);
		assert_int_equal(fleet_open(&fleet, &sys, false, &failures, 10 * SYSTEM_YEAR_S), 0);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(fleet_run(fleet, &rng, &m), 0);
			assert_int_equal(m.catastrophes, 3);
			assert_int_equal(m.lost, others[i].lost);
		}
		fleet_close(fleet);
	}
}

static void simulation_and_chain_agree_for_clustered_disks(void **state)
{
	(void)state;
	struct system sys;
	struct nines_answer simulated, markov;
	make(&sys, "rs:4+2", "-/c", 0.5, REPAIR_MIN);
	estimate(&sys, NINES_SIMULATE, false, &simulated);
	estimate(&sys, NINES_MARKOV, false, &markov);
	assert_true(markov.loss.value > simulated.loss.interval.low);
	assert_true(markov.loss.value < simulated.loss.interval.high);
}

static void the_simulation_does_not_depend_on_the_number_of_threads(void **state)
{
	(void)state;
	struct system sys;
	struct nines_answer one, three;
	struct nines_options o;
	make(&sys, "rs:4+2", "d/-", 0.3, REPAIR_MIN);
	nines_options_default(&o);
	o.by = NINES_SIMULATE;
	o.missions = 300;
	o.work.threads = 1;
	assert_int_equal(nines_estimate(&sys, &o, &one, NULL, 0), 0);
	o.work.threads = 3;
	assert_int_equal(nines_estimate(&sys, &o, &three, NULL, 0), 0);
	assert_int_equal(one.lossy_runs, three.lossy_runs);
	assert_true(one.lossy_runs > 0);
}

static uint64_t failures_of(const struct system *sys, double shape, double years)
{
	struct fleet *fleet;
	struct fleet_failures failures = {.shape = shape};
	struct fleet_mission m;
	struct rng rng;
	uint64_t n = 0;
	rng_init(&rng, 7);
	assert_int_equal(fleet_open(&fleet, sys, false, &failures, years * SYSTEM_YEAR_S), 0);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(fleet_run(fleet, &rng, &m), 0);
		n += m.failures;
	}
	fleet_close(fleet);
	return n;
}

/*
 * 720 disks, 5%: 36 a year whatever the shape; with wear the rate rises over the years, with
 * infant mortality it falls.
 */
static void weibull_lifetimes_meet_the_afr_in_the_first_year(void **state)
{
	(void)state;
	struct system sys;
	make(&sys, "rs:4+2", "-/d", 0.05, REPAIR_MIN);
	double year = 200 * 36.0;
	static const double shapes[] = {0.5, 1, 2};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		assert_true(fabs((double)failures_of(&sys, shapes[i], 1) / year - 1) < 0.06);
	assert_true((double)failures_of(&sys, 1, 4) / year > 3.7);
	assert_true((double)failures_of(&sys, 2, 4) / year > 10);
	assert_true((double)failures_of(&sys, 0.5, 4) / year < 2.5);
}

static int parse(struct trace *t, const char *text, char *why)
{
	return trace_parse(t, text, strlen(text), 720, why, TRACE_WHY_MAX);
}

static void losses_follow_from_the_trace(void **state)
{
	(void)state;
	/* 4+2 clustered: disks 0 to 5 are a pool. */
	static const struct {
		const char *text;
		bool lost;
	} cases[] = {
		{"time_s,disk,event\n0,0,fail\n10,1,fail\n20,2,fail\n", true},
		{"time_s,disk,event\n0,0,fail\n10,1,fail\n20,6,fail\n", false},
		{"time_s,disk,event\n0,0,fail\n10,1,fail\n2000000,2,fail\n", false},
		{"time_s,disk,event\n0,0,fail\n10,1,fail\n100000000,2,fail\n", false},
		{"time_s,disk,event\n", false},
	};
	struct system sys;
	make(&sys, "rs:4+2", "-/c", 0.01, REPAIR_MIN);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char why[TRACE_WHY_MAX];
		struct trace t;
		assert_int_equal(parse(&t, cases[i].text, why), 0);
		struct fleet_failures failures = {.trace = &t};
		struct nines_options o;
		struct nines_answer a;
		nines_options_default(&o);
		o.failures = &failures;
		o.missions = 3;
		assert_int_equal(nines_estimate(&sys, &o, &a, NULL, 0), 0);
		assert_int_equal(a.by, NINES_SIMULATE);
		assert_int_equal(a.lossy_runs, cases[i].lost ? 3 : 0);
		o.by = NINES_SPLIT;
		assert_int_equal(nines_estimate(&sys, &o, &a, NULL, 0), -EINVAL);
		trace_fini(&t);
	}
}

/*
 * Stripes over racks have one chunk in a rack: a burst in as many racks as parities loses no
 * data.
 */
static void a_burst_in_few_racks_does_not_hurt_stripes_over_racks(void **state)
{
	(void)state;
	static const struct {
		const char *code, *scheme;
		uint32_t racks;
		bool lost;
	} cases[] = {
		{"rs:4+2", "d/-", 1, false},       {"rs:4+2", "d/-", 2, false},
		{"rs:4+2", "d/-", 3, true},        {"rs:4+2", "c/-", 2, false},
		{"rs:4+2", "s/-", 2, false},       {"rs:4+2", "-/d", 1, true},
		{"mlec:2+1/4+1", "d/d", 1, false}, {"mlec:2+1/4+1", "d/d", 2, true},
		{"mlec:2+1/4+1", "d/c", 1, false}, {"mlec:2+1/4+1", "c/c", 1, false},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct system sys;
		struct trace t = {0};
		struct trace_event events[48];
		make(&sys, cases[i].code, cases[i].scheme, 0.01, REPAIR_HYB);
		t.events = events;
		for (uint32_t e = 0; e < 48; e++) { /* each failure is in the next rack */
			uint32_t rack = e % cases[i].racks, disk = e / cases[i].racks;
			events[t.n++] = (struct trace_event){e, rack * 60 + disk, TRACE_FAIL};
		}
		struct fleet_failures failures = {.trace = &t};
		struct fleet *fleet;
		struct fleet_mission m;
		struct rng rng;
		rng_init(&rng, 5);
		assert_int_equal(fleet_open(&fleet, &sys, false, &failures, SYSTEM_YEAR_S), 0);
		assert_int_equal(fleet_run(fleet, &rng, &m), 0);
		print_message("%s %s, %u racks: %s\n", cases[i].code, cases[i].scheme,
			      cases[i].racks, m.lost ? "lost" : "kept");
		assert_int_equal(m.lost, cases[i].lost);
		fleet_close(fleet);
	}
}

static void invalid_traces_are_refused_with_line_and_rule(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
		int err;
	} cases[] = {
		{"", "line 1: the first line must be time_s,disk,event", -EILSEQ},
		{"time,disk,event\n", "line 1: the first line", -EILSEQ},
		{"time_s,disk,event\n1,2\n", "line 2: is not of the form", -EILSEQ},
		{"time_s,disk,event\n\n", "line 2: is not of the form", -EILSEQ},
		{"time_s,disk,event\n1,2,fail\n-1,3,fail\n", "line 3: time \"-1\"", -EILSEQ},
		{"time_s,disk,event\n1e5,3,fail\n", "line 2: time \"1e5\"", -EILSEQ},
		{"time_s,disk,event\n1.,3,fail\n", "line 2: time", -EILSEQ},
		{"time_s,disk,event\n1,x,fail\n", "line 2: disk \"x\"", -EILSEQ},
		{"time_s,disk,event\n1,720,fail\n", "disk 720: the system has disks 0 to 719",
		 -EINVAL},
		{"time_s,disk,event\n1,99999999999,fail\n", "line 2: disk", -EILSEQ},
		{"time_s,disk,event\n1,7,fails\n", "must be fail or replace", -EILSEQ},
		{"time_s,disk,event\n1,7,fail,x\n", "must be fail or replace", -EILSEQ},
		{"time_s,disk,event\n5,7,fail\n4,8,fail\n", "line 3: time 4: is before", -EINVAL},
		{"time_s,disk,event\n5,7,fail\n6,7,fail\n", "line 3: disk 7: fails, but", -EINVAL},
		{"time_s,disk,event\n5,7,replace\n", "line 2: disk 7: is replaced, but", -EINVAL},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct trace t;
		char why[TRACE_WHY_MAX] = "";
		assert_int_equal(parse(&t, cases[i].text, why), cases[i].err);
		if (strstr(why, cases[i].why) == NULL)
			fail_msg("\"%s\" lacks \"%s\"", why, cases[i].why);
		assert_int_equal(t.n, 0);
		assert_null(t.events);
	}
}

static void a_generated_trace_parses_and_has_the_wanted_bursts(void **state)
{
	(void)state;
	struct trace_burst b = {.racks = 12,
				.rack_disks = 60,
				.seconds = 1e7,
				.burst_rate = 20 / 1e7,
				.hit_racks = 3,
				.hit_disks = 10,
				.window_s = 1,
				.replace_s = 5};
	struct trace made, back;
	struct rng rng;
	char why[TRACE_WHY_MAX] = "", *text = NULL;
	size_t len;
	rng_init(&rng, 11);
	assert_int_equal(trace_make(&made, &b, &rng), 0);
	assert_true(made.n > 100 && made.n % 20 == 0);
	for (size_t i = 0; i < made.n; i += 20) { /* ten failures, ten replacements */
		bool rack[12] = {0};
		int racks = 0, failures = 0;
		for (size_t e = i; e < i + 20; e++) {
			failures += made.events[e].kind == TRACE_FAIL;
			if (!rack[made.events[e].disk / 60])
				racks++;
			rack[made.events[e].disk / 60] = true;
		}
		assert_int_equal(failures, 10);
		assert_int_equal(racks, 3);
	}
	trace_fini(&made);
	b.fail_rate = 1e-7;
	b.replace_s = 1e5;
	assert_int_equal(trace_make(&made, &b, &rng), 0);
	FILE *out = open_memstream(&text, &len);
	assert_non_null(out);
	assert_int_equal(trace_print(&made, out), 0);
	fclose(out);
	assert_int_equal(trace_parse(&back, text, len, 720, why, sizeof(why)), 0);
	assert_int_equal(back.n, made.n);
	for (size_t i = 0; i < made.n; i++) {
		assert_true(fabs(back.events[i].time_s - made.events[i].time_s) < 1e-3);
		assert_int_equal(back.events[i].disk, made.events[i].disk);
		assert_int_equal(back.events[i].kind, made.events[i].kind);
	}
	free(text);
	trace_fini(&made);
	trace_fini(&back);
	b.hit_disks = 2;
	assert_int_equal(trace_make(&made, &b, &rng), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_of_the_header_holds),
		cmocka_unit_test(nothing_is_repaired_before_it_is_detected),
		cmocka_unit_test(a_declustered_table_is_the_expected_count),
		cmocka_unit_test(single_overlap_loses_what_the_layout_loses),
		cmocka_unit_test(the_table_is_the_mean_of_stripes_followed_one_by_one),
		cmocka_unit_test(simulation_and_splitting_agree),
		cmocka_unit_test(members_that_are_out_are_not_drawn),
		cmocka_unit_test(a_pool_that_keeps_damage_loses_again_as_often_as_simulated),
		cmocka_unit_test(network_pools_of_the_same_racks_share_their_bandwidth),
		cmocka_unit_test(simulation_and_chain_agree_for_clustered_disks),
		cmocka_unit_test(the_simulation_does_not_depend_on_the_number_of_threads),
		cmocka_unit_test(weibull_lifetimes_meet_the_afr_in_the_first_year),
		cmocka_unit_test(losses_follow_from_the_trace),
		cmocka_unit_test(a_burst_in_few_racks_does_not_hurt_stripes_over_racks),
		cmocka_unit_test(invalid_traces_are_refused_with_line_and_rule),
		cmocka_unit_test(a_generated_trace_parses_and_has_the_wanted_bursts),
	};
#ifdef __SANITIZE_THREAD__
	/* The other tests take minutes under the thread sanitizer and do not use threads. */
	cmocka_set_test_filter("*threads*");
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
