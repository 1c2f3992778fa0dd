// SPDX-License-Identifier: Apache-2.0
/* Repair costs from counts against plans carried out step by step, and speeds against measured
 * ones. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/repair_count.h"
#include "code/repair_speed.h"
#include "layout_systems.h"

static const struct repair_bandwidth paper = {40e6, 250e6};

static void assert_near(double got, double want, double tolerance)
{
	if (fabs(got - want) > tolerance * fabs(want))
		fail_msg("%.6g, wanted %.6g within %.2g", got, want, tolerance);
}

/* The totals of the plan of one damaged pool equal the cost of its exact counts. */
static void check_pool(const struct layout *l, uint32_t pool, uint32_t failed,
		       const struct repair_policy *policy)
{
	uint32_t disks[16];
	uint64_t exact[ENCODING_STRIPE_MAX + 1];
	double count[ENCODING_STRIPE_MAX + 1];
	struct failure f;
	struct repair_totals t;
	struct repair_speed speed;
	struct repair_estimate e;
	for (uint32_t i = 0; i < failed; i++)
		disks[i] = layout_pool_disk(l, pool, (3 * i + 1) % l->pool_disks);
	CHECK_EQ(failure_init(&f, l, disks, failed), 0);
	assert_int_equal(failure_pool_counts(&f, pool, exact), 0);
	for (uint32_t j = 0; j <= l->rows; j++)
		count[j] = (double)exact[j];
	repair_counts_cost(l, policy, count, &e);
	assert_int_equal(repair_measure(&f, policy, &paper, &speed, &t), 0);
	assert_true(e.net_reads == (double)t.net_reads);
	assert_true(e.net_writes == (double)t.net_writes);
	assert_true(e.local_reads == (double)t.local_reads);
	assert_true(e.local_writes == (double)t.local_writes);
	assert_true(e.cross_reads == (double)t.cross_reads);
	assert_true(e.cross_writes == (double)t.cross_writes);
	assert_true(e.lost_stripes == (double)t.lost_stripes);
	failure_fini(&f);
}

static void plans_and_counts_agree_chunk_by_chunk(void **state)
{
	(void)state;
	for (size_t i = 0; i < SMALL_PLANNED; i++) {
		struct layout l;
		system_need(&l, &small[i], 6);
		for (int variant = 0; variant < 10; variant++) {
			struct repair_policy policy = {
				.method = variant < 8 ? (enum repair_method)(variant % 4)
						      : REPAIR_ALL,
				.site = variant < 4 || variant == 9 ? REPAIR_AT_RACK
								    : REPAIR_AT_SERVER,
				.parity_inside = variant >= 8,
			};
			for (uint32_t n = 1; n <= l.pool_disks && n <= 5; n++)
				if (l.pool_disks % 3 != 0 || n <= l.pool_disks / 3)
					check_pool(&l, l.pools / 2, n, &policy);
		}
	}
}

/*
 * Failed data rows are sent over the network, and parities only if too few failed rows are data;
 * the expected counts say the same on average.
 */
static void parities_stay_inside_with_all_methods(void **state)
{
	(void)state;
	const struct system s = {"mlec:2+1/4+2", "c/d", 3, 1, 14, 0, 1200};
	struct layout l;
	system_need(&l, &s, 3);
	uint32_t disks[3] = {1, 5, 9};
	struct failure f;
	uint64_t exact[7];
	double count[7];
	CHECK_EQ(failure_init(&f, &l, disks, 3), 0);
	assert_int_equal(failure_pool_counts(&f, 0, exact), 0);
	for (uint32_t j = 0; j <= l.rows; j++)
		count[j] = (double)exact[j];
	for (int method = REPAIR_FCO; method <= REPAIR_MIN; method++) {
		struct repair_policy policy = {.method = (enum repair_method)method,
					       .site = REPAIR_AT_SERVER,
					       .parity_inside = true};
		struct repair_policy whole = policy;
		struct repair_totals t, all;
		struct repair_speed speed;
		struct repair_estimate e;
		whole.parity_inside = false;
		assert_int_equal(repair_measure(&f, &policy, &paper, &speed, &t), 0);
		assert_int_equal(repair_measure(&f, &whole, &paper, &speed, &all), 0);
		assert_int_equal(t.lost_stripes, 0);
		assert_int_equal(t.net_writes + t.local_writes, all.net_writes + all.local_writes);
		repair_counts_cost(&l, &policy, count, &e);
		assert_near((double)t.net_writes, e.net_writes, 0.05);
		assert_near(e.net_writes,
			    (double)all.net_writes * (method == REPAIR_MIN ? 1 : 2. / 3), 1e-9);
		assert_near(e.net_writes + e.local_writes,
			    (double)(all.net_writes + all.local_writes), 1e-9);
	}
	failure_fini(&f);
}

/*
 * One enclosure of 24 disks with enough stripes to compare the distribution: five standard
 * deviations are allowed.
 */
static void expected_counts_are_those_of_the_layout(void **state)
{
	(void)state;
	const struct system s = {"rs:5+3", "-/d", 1, 1, 24, 0, 40000};
	struct layout l;
	system_need(&l, &s, 3);
	for (uint32_t n = 1; n <= 5; n++) {
		uint32_t disks[5] = {2, 3, 11, 17, 23};
		struct failure f;
		uint64_t exact[9];
		double expected[9];
		CHECK_EQ(failure_init(&f, &l, disks, n), 0);
		assert_int_equal(failure_pool_counts(&f, 0, exact), 0);
		assert_int_equal(repair_counts_expected(&l, n, expected), 0);
		for (uint32_t j = 0; j <= 8; j++) {
			double off = (double)exact[j] - expected[j];
			if (off * off > 25 * (expected[j] + 1e-6))
				fail_msg("%u failed: %llu stripes with %u, expected %.1f", n,
					 (unsigned long long)exact[j], j, expected[j]);
		}
		failure_fini(&f);
	}
}

/* Compares with an independent computation of the hypergeometric distribution. */
static void expected_counts_are_hypergeometric(void **state)
{
	(void)state;
	const struct system s = {"mlec:10+2/17+3", "c/d", 60, 8, 120, 0, 1000000};
	struct layout l;
	double count[21];
	system_need(&l, &s, 3);
	assert_int_equal(repair_counts_expected(&l, 4, count), 0);
	double four = 1, none = 1;
	for (int i = 0; i < 4; i++) {
		four *= (20.0 - i) / (120.0 - i);
		none *= (100.0 - i) / (120.0 - i);
	}
	assert_near(count[4], four * (double)l.local.stripes, 1e-12);
	assert_near(count[0], none * (double)l.local.stripes, 1e-12);
	assert_int_equal(repair_counts_expected(&l, 120, count), 0);
	assert_near(count[20], (double)l.local.stripes, 1e-9);
	assert_int_equal(repair_counts_expected(&l, 121, count), -ERANGE);
}

/* Single-overlap placement: the mean over all sets of disks equals that of declustering. */
static void expected_counts_are_the_mean_over_all_sets_in_single_overlap(void **state)
{
	(void)state;
	const struct system s = {"rs:2+1", "-/s", 1, 1, 13, 0, 3};
	struct layout l;
	system_need(&l, &s, 3);
	double expected[4], sum[4] = {0};
	assert_int_equal(repair_counts_expected(&l, 2, expected), 0);
	for (uint32_t a = 0; a < 13; a++) {
		for (uint32_t b = 0; b < a; b++) {
			struct failure f;
			uint64_t exact[4];
			CHECK_EQ(failure_init(&f, &l, (uint32_t[]){a, b}, 2), 0);
			assert_int_equal(failure_pool_counts(&f, 0, exact), 0);
			for (int j = 0; j < 4; j++)
				sum[j] += (double)exact[j] / 78;
			failure_fini(&f);
		}
	}
	for (int j = 0; j < 4; j++)
		assert_near(sum[j] + 1, expected[j] + 1, 1e-12);
}

/* Means over all sets of failed disks that break a pool, and their number, by enumeration. */
struct broken {
	double probability, count[8];
};

static void brute_broken(const struct layout *l, uint32_t failed, struct broken *b)
{
	uint32_t disks[4] = {0, 1, 2, 3};
	double sets = 0, broken = 0;
	*b = (struct broken){0};
	for (;;) {
		struct failure f;
		uint64_t exact[8];
		CHECK_EQ(failure_init(&f, l, disks, failed), 0);
		assert_int_equal(failure_pool_counts(&f, 0, exact), 0);
		for (uint32_t j = 0; j <= l->rows && f.catastrophic_n > 0; j++)
			b->count[j] += (double)exact[j];
		broken += f.catastrophic_n;
		sets++;
		failure_fini(&f);
		uint32_t i = failed;
		while (i > 0 && disks[i - 1] == l->pool_disks - failed + i - 1)
			i--;
		if (i == 0)
			break;
		disks[i - 1]++;
		for (; i < failed; i++)
			disks[i] = disks[i - 1] + 1;
	}
	for (uint32_t j = 0; j <= l->rows && broken > 0; j++)
		b->count[j] /= broken;
	b->probability = broken / sets;
}

static void counts_of_broken_pools_are_means_over_the_sets_that_break_them(void **state)
{
	(void)state;
	const struct {
		struct system s;
		uint32_t failed;
		double tolerance;
	} cases[] = {
		{{"rs:2+1", "-/c", 1, 1, 3, 0, 10}, 2, 1e-12},
		{{"rs:2+1", "-/c", 1, 1, 3, 0, 10}, 1, 1e-12},
		{{"rs:2+1", "-/s", 1, 1, 13, 0, 3}, 2, 0.001},
		{{"rs:2+1", "-/s", 1, 1, 13, 0, 6}, 3, 0.02},
		{{"rs:4+2", "-/s", 1, 1, 21, 0, 6}, 3, 0.02},
		{{"rs:4+2", "-/s", 1, 1, 21, 0, 12}, 4, 0.02},
		{{"rs:4+2", "-/d", 1, 1, 24, 0, 12}, 3, 0.1},
		{{"rs:4+2", "-/d", 1, 1, 24, 0, 30}, 3, 0.1},
		{{"rs:3+1", "-/d", 1, 1, 32, 0, 8}, 2, 0.1},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct layout l;
		struct broken want;
		double count[8], probability;
		system_need(&l, &cases[i].s, 5);
		brute_broken(&l, cases[i].failed, &want);
		assert_int_equal(
			repair_counts_catastrophic(&l, cases[i].failed, &probability, count), 0);
		assert_near(probability, want.probability, cases[i].tolerance);
		for (uint32_t j = 0; j <= l.rows; j++)
			assert_near(count[j] + 1, want.count[j] + 1, cases[i].tolerance);
	}
}

/* R_ALL and R_FCO: the mean of the plans' costs over all sets that break the pool. */
static void costs_of_broken_pools_are_means_of_their_plans(void **state)
{
	(void)state;
	const struct system s = {"mlec:2+1/2+1", "c/s", 3, 1, 13, 0, 3};
	struct layout l;
	double count[4], probability;
	system_need(&l, &s, 3);
	assert_int_equal(repair_counts_catastrophic(&l, 2, &probability, count), 0);
	for (int m = 0; m < 4; m++) {
		struct repair_policy policy = {.method = (enum repair_method)m};
		struct repair_estimate e;
		double cross = 0, inside = 0, broken = 0;
		for (uint32_t a = 0; a < 13; a++) {
			for (uint32_t b = 0; b < a; b++) {
				struct failure f;
				struct repair_totals t;
				struct repair_speed speed;
				CHECK_EQ(failure_init(&f, &l, (uint32_t[]){a, b}, 2), 0);
				if (f.catastrophic_n > 0) {
					assert_int_equal(
						repair_measure(&f, &policy, &paper, &speed, &t), 0);
					cross += (double)t.cross_reads;
					inside += (double)t.local_writes;
					broken++;
				}
				failure_fini(&f);
			}
		}
		repair_counts_cost(&l, &policy, count, &e);
		assert_near(e.cross_reads, cross / broken, 0.001);
		assert_near(e.local_writes + 1, inside / broken + 1, 0.001);
		assert_near(probability, broken / 78, 0.001);
	}
}

/* With the setup of section 3.3.5 the results of table 3.2 and section 3.4.2 must follow. */
static void the_numbers_of_the_paper_follow_from_its_setup(void **state)
{
	(void)state;
	const double chunk = 128e3, tb = 1e12;
	struct {
		const char *scheme;
		double disk_mb, pool_mb, all, fco, hyb, min;
	} rows[] = {
		{"c/c", 40, 250, 4400, 880, 880, 220},
		{"c/d", 119 * 40.0 / 18, 250, 26400, 880, 3.1142, 0.77855},
		{"d/c", 40, 60 * 250.0 / 11, 4400, 880, 880, 220},
		{"d/d", 119 * 40.0 / 18, 60 * 250.0 / 11, 26400, 880, 3.1142, 0.77855},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct system s = {"mlec:10+2/17+3", rows[i].scheme, 60, 8, 120, 0, 156250000};
		struct layout l;
		struct repair_speed speed;
		system_need(&l, &s, 0);
		struct repair_policy policy = {.method = REPAIR_ALL, .site = REPAIR_AT_SERVER};
		assert_int_equal(repair_speed_disk(&l, &policy, &paper, &speed), 0);
		assert_near(speed.bytes_per_s, rows[i].disk_mb * 1e6, 1e-9);
		repair_speed_pool(&l, &policy, &paper, &speed);
		assert_near(speed.bytes_per_s, rows[i].pool_mb * 1e6, 1e-9);
		double want[] = {rows[i].all, rows[i].fco, rows[i].hyb, rows[i].min};
		for (int m = 0; m < 4; m++) {
			double count[21];
			struct repair_estimate e;
			policy.method = (enum repair_method)m;
			double probability;
			assert_int_equal(repair_counts_catastrophic(&l, 4, &probability, count), 0);
			assert_true(probability == 1);
			repair_counts_cost(&l, &policy, count, &e);
			assert_near((e.cross_reads + e.cross_writes) * chunk / tb, want[m], 1e-4);
		}
	}
}

/*
 * Perfect spreading as repair_speed assumes it, against the busiest disk and rack of a real
 * plan.
 */
static void speeds_are_close_to_measured_plans(void **state)
{
	(void)state;
	const struct {
		struct system s;
		double slack;
	} cases[] = {
		{{"rs:6+2", "-/c", 1, 1, 16, 0, 400}, 1e-9},
		{{"rs:6+2", "-/d", 1, 1, 32, 0, 20000}, 0.04},
		{{"rs:6+2", "-/d", 1, 1, 8, 0, 100}, 1e-9},
		{{"rs:4+2", "c/-", 6, 1, 2, 0, 500}, 0.001},
		{{"rs:4+2", "d/-", 24, 1, 2, 0, 8000}, 0.12},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct layout l;
		struct failure f;
		struct repair_speed shares, measured;
		struct repair_totals t;
		uint32_t disk = 1;
		system_need(&l, &cases[i].s, 1);
		CHECK_EQ(failure_init(&f, &l, &disk, 1), 0);
		for (int site = 0; site < 2; site++) {
			struct repair_policy policy = {.method = REPAIR_MIN,
						       .site = (enum repair_site)site};
			assert_int_equal(repair_speed_disk(&l, &policy, &paper, &shares), 0);
			assert_int_equal(repair_measure(&f, &policy, &paper, &measured, &t), 0);
			assert_near(measured.bytes_per_s, shares.bytes_per_s, cases[i].slack);
			if (l.columns > 1)
				assert_near(measured.rack_limit, shares.rack_limit, 0.12);
		}
		failure_fini(&f);
	}
}

static void single_overlap_is_between_clustered_and_declustered(void **state)
{
	(void)state;
	struct repair_policy policy = {.method = REPAIR_MIN};
	double mb[3];
	const char *schemes[] = {"c/c", "c/s", "c/d"};
	for (int i = 0; i < 3; i++) {
		struct system s = {"mlec:10+2/17+3", schemes[i], 12, 1, 120, 0, 2000};
		struct layout l;
		struct repair_speed speed;
		system_need(&l, &s, 0);
		assert_int_equal(repair_speed_disk(&l, &policy, &paper, &speed), 0);
		mb[i] = speed.bytes_per_s / 1e6;
	}
	assert_true(mb[0] < mb[1] && mb[1] < mb[2]);
	assert_true(mb[1] > 200);
}

static void a_code_without_parity_has_no_repair(void **state)
{
	(void)state;
	struct layout l;
	struct repair_speed speed;
	struct repair_policy policy = {.method = REPAIR_MIN};
	struct layout_spec spec = {.net = {1, 0},
				   .local = {1, 0},
				   .racks = 2,
				   .enclosures = 1,
				   .disks = 2,
				   .slots = 4};
	assert_int_equal(layout_init(&l, &spec, NULL, 0), 0);
	assert_int_equal(repair_speed_disk(&l, &policy, &paper, &speed), 0);
	assert_true(speed.bytes_per_s == 0);
	repair_speed_pool(&l, &policy, &paper, &speed);
	assert_true(speed.bytes_per_s == 0);
}

static void an_lrc_has_no_counts_and_no_speed(void **state)
{
	(void)state;
	const struct repair_policy policy = {.method = REPAIR_MIN};
	struct layout l;
	struct repair_speed speed = {1, 1, 1};
	double count[ENCODING_STRIPE_MAX + 1];
	system_need(&l, &small[SMALL_PLANNED], 0);
	assert_int_equal(repair_counts_expected(&l, 1, count), -EOPNOTSUPP);
	assert_int_equal(repair_speed_disk(&l, &policy, &paper, &speed), -EOPNOTSUPP);
	assert_true(speed.bytes_per_s == 0);
	repair_speed_pool(&l, &policy, &paper, &speed);
	assert_true(speed.bytes_per_s == 0);
}

/*
 * Without spare space or a free rack, writes go to replacements, or to other pools of the same
 * rack.
 */
static void speeds_hold_without_spare_space(void **state)
{
	(void)state;
	const struct {
		struct system s;
		enum repair_method method;
		double disk_slack, rack_slack;
	} cases[] = {
		{{"mlec:1+1/1+1", "d/d", 2, 1, 2, 0, 300}, REPAIR_ALL, 1e-9, 1e-9},
		{{"mlec:1+1/1+1", "d/d", 2, 1, 2, 0, 300}, REPAIR_FCO, 1e-9, 1e-9},
		{{"mlec:1+1/1+1", "d/d", 2, 1, 2, 0, 300}, REPAIR_HYB, 1e-9, 1e-9},
		{{"mlec:2+1/2+1", "c/s", 3, 1, 3, 0, 300}, REPAIR_FCO, 1e-9, 1e-9},
		{{"mlec:2+1/2+1", "d/d", 3, 4, 6, 0, 900}, REPAIR_ALL, 0.5, 1e-9},
		{{"rs:2+1", "d/-", 3, 1, 1, 0, 300}, REPAIR_MIN, 1e-9, 1e-9},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct layout l;
		struct failure f;
		struct repair_speed shares, measured;
		struct repair_totals t;
		const struct repair_policy policy = {.method = cases[i].method};
		system_need(&l, &cases[i].s, 1);
		CHECK_EQ(failure_init(&f, &l, (uint32_t[]){0, 1}, (uint32_t)l.spec.local.p + 1), 0);
		repair_speed_pool(&l, &policy, &paper, &shares);
		assert_int_equal(repair_measure(&f, &policy, &paper, &measured, &t), 0);
		assert_near(measured.disk_limit, shares.disk_limit, cases[i].disk_slack);
		assert_true(isfinite(shares.bytes_per_s) && shares.bytes_per_s > 0);
		assert_near(measured.rack_limit, shares.rack_limit, cases[i].rack_slack);
		failure_fini(&f);
	}
}

/* All chunks of a d/d pool move over the network, as in table 3.2 but in a smaller system. */
static void speed_of_a_pool_is_close_to_a_measured_plan(void **state)
{
	(void)state;
	const struct system s = {"mlec:4+2/3+1", "d/d", 24, 2, 12, 0, 600};
	struct layout l;
	struct failure f;
	system_need(&l, &s, 1);
	CHECK_EQ(failure_init(&f, &l, (uint32_t[]){0, 1}, 2), 0);
	for (int site = 0; site < 2; site++) {
		struct repair_policy policy = {.method = REPAIR_ALL,
					       .site = (enum repair_site)site};
		struct repair_speed shares, measured;
		struct repair_totals t;
		repair_speed_pool(&l, &policy, &paper, &shares);
		assert_int_equal(repair_measure(&f, &policy, &paper, &measured, &t), 0);
		assert_near(measured.rack_limit, shares.rack_limit, 0.2);
		assert_true(measured.rack_limit < shares.rack_limit);
	}
	failure_fini(&f);
}

static void a_pool_with_fewer_disks_than_rows_is_hit_everywhere(void **state)
{
	(void)state;
	const struct system s = {"rs:2+1", "-/c", 1, 1, 3, 0, 10};
	struct layout l;
	double count[4];
	system_need(&l, &s, 1);
	repair_counts_init(&l, count);
	repair_counts_fail(&l, 2, count);
	assert_true(count[0] == 0 && count[1] == 10 && count[2] == 0);
}

/* The pool stays: writes go to one rack, to its replacements (clustered) or its spare space. */
static void speeds_of_a_pool_follow_where_the_writes_go(void **state)
{
	(void)state;
	struct {
		const char *scheme;
		enum repair_method method;
		enum repair_site site;
		double mb;
	} rows[] = {
		{"c/c", REPAIR_ALL, REPAIR_AT_RACK, 25},
		{"d/c", REPAIR_ALL, REPAIR_AT_RACK, 60 * 250.0 / 20},
		{"c/c", REPAIR_MIN, REPAIR_AT_SERVER, 160},
		{"d/c", REPAIR_FCO, REPAIR_AT_SERVER, 160},
		{"c/d", REPAIR_MIN, REPAIR_AT_SERVER, 250},
		{"d/s", REPAIR_HYB, REPAIR_AT_SERVER, 250},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct system s = {"mlec:10+2/17+3", rows[i].scheme, 60, 8, 120, 0, 2000};
		struct layout l;
		struct repair_speed speed;
		struct repair_policy policy = {.method = rows[i].method, .site = rows[i].site};
		system_need(&l, &s, 0);
		repair_speed_pool(&l, &policy, &paper, &speed);
		assert_near(speed.bytes_per_s, rows[i].mb * 1e6, 1e-9);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_and_counts_agree_chunk_by_chunk),
		cmocka_unit_test(parities_stay_inside_with_all_methods),
		cmocka_unit_test(expected_counts_are_those_of_the_layout),
		cmocka_unit_test(expected_counts_are_hypergeometric),
		cmocka_unit_test(expected_counts_are_the_mean_over_all_sets_in_single_overlap),
		cmocka_unit_test(counts_of_broken_pools_are_means_over_the_sets_that_break_them),
		cmocka_unit_test(costs_of_broken_pools_are_means_of_their_plans),
		cmocka_unit_test(the_numbers_of_the_paper_follow_from_its_setup),
		cmocka_unit_test(speeds_are_close_to_measured_plans),
		cmocka_unit_test(single_overlap_is_between_clustered_and_declustered),
		cmocka_unit_test(a_code_without_parity_has_no_repair),
		cmocka_unit_test(an_lrc_has_no_counts_and_no_speed),
		cmocka_unit_test(speeds_hold_without_spare_space),
		cmocka_unit_test(speeds_of_a_pool_follow_where_the_writes_go),
		cmocka_unit_test(speed_of_a_pool_is_close_to_a_measured_plan),
		cmocka_unit_test(a_pool_with_fewer_disks_than_rows_is_hit_everywhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
