// SPDX-License-Identifier: Apache-2.0
/*
 * The upper bound of placement. Its optimum is proven by duality: the prices that it returns give a bound that no
 * placement exceeds, and the placement that it returns must reach that bound. Small cases are also solved by trying
 * all placements.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/placement/flow.h"
#include "base/base.h"
#include "base/rng.h"

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-7 * (1 + fabs(want))))
		fail_msg("got %.17g, want %.17g", got, want);
}

/* Returns the bytes on flash just after the time. */
static double used_at(const struct flow_job *jobs, size_t n, const double *share, double t)
{
	double used = 0;
	for (size_t i = 0; i < n; i++)
		if (jobs[i].start_s <= t && jobs[i].end_s > t)
			used += share[i] * (double)jobs[i].size;
	return used;
}

static void check_optimal(const struct flow_job *jobs, size_t n, int64_t capacity,
			  const struct flow_result *r)
{
	double gain = 0, bound = 0;
	for (size_t i = 0; i < n; i++) {
		assert_true(r->share[i] >= 0 && r->share[i] <= 1);
		gain += r->share[i] * jobs[i].gain;
		double used = used_at(jobs, n, r->share, jobs[i].start_s);
		assert_true(used <= (double)capacity * (1 + 1e-9));
	}
	near(r->gain, gain);
	for (size_t t = 0; t < r->times_n; t++) {
		assert_true(r->price[t] >= 0);
		bound += r->price[t] * (double)capacity;
	}
	for (size_t i = 0; i < n; i++) {
		double rent = 0;
		for (size_t t = 0; t < r->times_n; t++)
			if (r->time_s[t] >= jobs[i].start_s && r->time_s[t] < jobs[i].end_s)
				rent += r->price[t];
		bound += fmax(jobs[i].gain - rent * (double)jobs[i].size, 0);
	}
	near(gain, bound);
}

static void two_jobs_share_the_flash_as_computed_by_hand(void **state)
{
	static const struct flow_job jobs[] = {{0, 5, 8, 8}, {2, 6, 6, 9}};
	AUTO_FLOW struct flow_result r;
	assert_int_equal(flow_solve(jobs, 2, 10, &r), 0);
	near(r.gain, 13);
	near(r.share[0], 0.5);
	near(r.share[1], 1);
	near(r.price[0], 0);
	near(r.price[1], 1);
	check_optimal(jobs, 2, 10, &r);
}

static void jobs_that_lose_stay_on_disk(void **state)
{
	static const struct flow_job jobs[] = {{0, 5, 8, -1}, {1, 6, 6, 0}};
	AUTO_FLOW struct flow_result r;
	assert_int_equal(flow_solve(jobs, 2, 100, &r), 0);
	near(r.gain, 0);
	near(r.share[0], 0);
}

static int by_start(const void *a, const void *b)
{
	const struct flow_job *x = a, *y = b;
	return x->start_s < y->start_s ? -1 : x->start_s > y->start_s;
}

static void draw(struct rng *rng, struct flow_job *jobs, size_t n, int64_t size_max)
{
	for (size_t i = 0; i < n; i++) {
		/* Few different times, so that starts and ends coincide. */
		double start = (double)rng_below(rng, 1 + n / 2);
		jobs[i] = (struct flow_job){start, start + 1 + (double)rng_below(rng, 1 + n / 3),
					    1 + (int64_t)rng_below(rng, (uint64_t)size_max),
					    (double)rng_below(rng, 100) - 10};
	}
	qsort(jobs, n, sizeof(*jobs), by_start);
}

/* Returns the largest gain of a placement of whole jobs. */
static double try_all(const struct flow_job *jobs, size_t n, int64_t capacity)
{
	double best = 0, share[10];
	for (uint32_t set = 0; set < 1U << n; set++) {
		double gain = 0;
		bool fits = true;
		for (size_t i = 0; i < n; i++) {
			share[i] = (set >> i & 1) != 0;
			gain += share[i] * jobs[i].gain;
		}
		for (size_t i = 0; fits && i < n; i++)
			fits = used_at(jobs, n, share, jobs[i].start_s) <= (double)capacity;
		if (fits)
			best = fmax(best, gain);
	}
	return best;
}

static void small_cases_agree_with_trying_all_placements(void **state)
{
	struct rng rng;
	rng_init(&rng, 11);
	for (int round = 0; round < 400; round++) {
		struct flow_job jobs[10];
		size_t n = 1 + rng_below(&rng, 9);
		/* With sizes of 1 the relaxation has a whole optimum: the matrix of intervals is totally unimodular. */
		bool unit = round % 2 == 0;
		draw(&rng, jobs, n, unit ? 1 : 20);
		int64_t capacity = (int64_t)rng_below(&rng, unit ? 4 : 40);
		AUTO_FLOW struct flow_result r;
		assert_int_equal(flow_solve(jobs, n, capacity, &r), 0);
		double whole = try_all(jobs, n, capacity);
		if (unit)
			near(r.gain, whole);
		else
			assert_true(r.gain >= whole - 1e-9);
		if (capacity > 0)
			check_optimal(jobs, n, capacity, &r);
	}
}

static void larger_cases_reach_the_bound_of_their_prices(void **state)
{
	struct rng rng;
	rng_init(&rng, 12);
	for (int round = 0; round < 20; round++) {
		size_t n = 50 + rng_below(&rng, 350);
		AUTO_FREE struct flow_job *jobs = calloc(n, sizeof(*jobs));
		draw(&rng, jobs, n, round % 3 == 0 ? 3 : 1000);
		int64_t capacity = 1 + (int64_t)rng_below(&rng, n * 100);
		AUTO_FLOW struct flow_result r;
		assert_int_equal(flow_solve(jobs, n, capacity, &r), 0);
		check_optimal(jobs, n, capacity, &r);
	}
}

static void flash_without_bytes_or_jobs_gains_nothing(void **state)
{
	static const struct flow_job job = {0, 5, 8, 8};
	AUTO_FLOW struct flow_result r;
	assert_int_equal(flow_solve(&job, 1, 0, &r), 0);
	near(r.gain, 0);
	flow_fini(&r);
	assert_int_equal(flow_solve(NULL, 0, 100, &r), 0);
	near(r.gain, 0);
}

static void refuses_numbers_out_of_range(void **state)
{
	static const struct flow_job bad[][2] = {
		{{1, 2, 1, 1}, {0, 2, 1, 1}},   {{0, 0, 1, 1}, {0, 2, 1, 1}},
		{{0, 1, 0, 1}, {0, 2, 1, 1}},   {{0, 1, 1, NAN}, {0, 2, 1, 1}},
		{{NAN, 1, 1, 1}, {0, 2, 1, 1}}, {{0, 1, INT64_MAX, 1}, {0, 2, 1, 1}},
	};
	struct flow_result r;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(flow_solve(bad[i], 2, 10, &r), -EINVAL);
	assert_int_equal(flow_solve(NULL, 0, -1, &r), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_jobs_share_the_flash_as_computed_by_hand),
		cmocka_unit_test(jobs_that_lose_stay_on_disk),
		cmocka_unit_test(small_cases_agree_with_trying_all_placements),
		cmocka_unit_test(larger_cases_reach_the_bound_of_their_prices),
		cmocka_unit_test(flash_without_bytes_or_jobs_gains_nothing),
		cmocka_unit_test(refuses_numbers_out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
