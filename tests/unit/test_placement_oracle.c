// SPDX-License-Identifier: Apache-2.0
/* The clairvoyant placement: against CBC, against trying all placements, and what is read from CBC. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/placement/oracle_impl.h"
#include "base/base.h"
#include "base/rng.h"

#define JOBS 12

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
		fail_msg("got %.17g, want %.17g", got, want);
}

static int by_start(const void *a, const void *b)
{
	const struct flow_job *x = a, *y = b;
	return x->start_s < y->start_s ? -1 : x->start_s > y->start_s;
}

static void draw(struct rng *rng, struct flow_job *jobs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double start = (double)rng_below(rng, n);
		jobs[i] = (struct flow_job){start, start + 1 + (double)rng_below(rng, n / 3 + 1),
					    1 + (int64_t)rng_below(rng, 20),
					    (double)rng_below(rng, 100) - 10};
	}
	qsort(jobs, n, sizeof(*jobs), by_start);
}

static bool fits(const struct flow_job *jobs, size_t n, int64_t capacity, uint32_t set)
{
	for (size_t i = 0; i < n; i++) {
		int64_t used = 0;
		for (size_t j = 0; j < n; j++)
			if ((set >> j & 1) != 0 && jobs[j].start_s <= jobs[i].start_s &&
			    jobs[j].end_s > jobs[i].start_s)
				used += jobs[j].size;
		if (used > capacity)
			return false;
	}
	return true;
}

static double gain_of(const struct flow_job *jobs, size_t n, uint32_t set)
{
	double gain = 0;
	for (size_t i = 0; i < n; i++)
		gain += (set >> i & 1) != 0 ? jobs[i].gain : 0;
	return gain;
}

static void the_relaxation_agrees_with_cbc(void **state)
{
	struct rng rng;
	rng_init(&rng, 21);
	for (int round = 0; round < 6; round++) {
		size_t n = 40 + rng_below(&rng, 160);
		AUTO_FREE struct flow_job *jobs = calloc(n, sizeof(*jobs));
		AUTO_FREE double *value = calloc(n, sizeof(*value));
		draw(&rng, jobs, n);
		struct cbc_order order = {jobs, n, 1 + (int64_t)rng_below(&rng, 400), 0, 60, true};
		AUTO_FLOW struct flow_result r;
		assert_int_equal(flow_solve(jobs, n, order.capacity, &r), 0);
		assert_int_equal(cbc_solve(&order, value), 0);
		double gain = 0;
		for (size_t i = 0; i < n; i++)
			gain += value[i] * jobs[i].gain;
		near(gain, r.gain);
	}
}

static void the_oracle_with_cbc_finds_the_best_placement(void **state)
{
	struct rng rng;
	int by_cbc = 0;
	rng_init(&rng, 22);
	for (int round = 0; round < 12; round++) {
		struct flow_job jobs[JOBS];
		struct oracle_options o = {.gap = 0, .limit_s = 60};
		struct oracle_result r;
		int64_t capacity = 10 + (int64_t)rng_below(&rng, 20);
		draw(&rng, jobs, JOBS);
		assert_int_equal(oracle_solve(jobs, JOBS, capacity, &o, &r), 0);
		double best = 0;
		uint32_t chosen = 0;
		for (uint32_t set = 0; set < 1U << JOBS; set++)
			if (fits(jobs, JOBS, capacity, set))
				best = fmax(best, gain_of(jobs, JOBS, set));
		for (uint32_t i = 0; i < JOBS; i++)
			chosen |= (uint32_t)r.chosen[i] << i;
		assert_true(fits(jobs, JOBS, capacity, chosen));
		near(gain_of(jobs, JOBS, chosen), best);
		near(r.gain, best);
		assert_true(r.bound >= best - 1e-9);
		by_cbc += r.cbc;
		oracle_fini(&r);
	}
	assert_true(by_cbc > 0);
}

static void rounding_alone_gives_a_placement_that_fits(void **state)
{
	struct rng rng;
	rng_init(&rng, 23);
	for (int round = 0; round < 300; round++) {
		struct flow_job jobs[JOBS];
		struct oracle_options o = {.gap = 0, .limit_s = 0};
		struct oracle_result r;
		int64_t capacity = (int64_t)rng_below(&rng, 40);
		draw(&rng, jobs, JOBS);
		assert_int_equal(oracle_solve(jobs, JOBS, capacity, &o, &r), 0);
		uint32_t chosen = 0;
		for (uint32_t i = 0; i < JOBS; i++)
			chosen |= (uint32_t)r.chosen[i] << i;
		assert_true(fits(jobs, JOBS, capacity, chosen));
		near(r.gain, gain_of(jobs, JOBS, chosen));
		assert_false(r.cbc);
		oracle_fini(&r);
	}
}

static int read_text(const char *text, double *value, size_t n)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	assert_non_null(in);
	int rc = cbc_read(in, value, n);
	fclose(in);
	return rc;
}

static void reads_solutions_of_cbc_and_refuses_others(void **state)
{
	double v[3];
	assert_int_equal(read_text("Optimal - objective value -1\n      0 o0  0.5  0\n"
				   "** 2 x1 1 0\n 3 x2 0.25 0\n",
				   v, 3),
			 0);
	near(v[0], 0);
	near(v[1], 1);
	near(v[2], 0.25);
	assert_int_equal(read_text("Stopped on time - objective value -1\n 3 x0 1 0\n", v, 3), 0);
	assert_int_equal(
		read_text("Stopped on time (no integer solution - continuous used)\n", v, 3),
		-ENODATA);
	assert_int_equal(read_text("Infeasible - objective value 0\n", v, 3), -ENODATA);
	assert_int_equal(read_text("Optimal\n 3 x3 1 0\n", v, 3), -EILSEQ);
	assert_int_equal(read_text("Optimal\n 3 x1y 1 0\n", v, 3), -EILSEQ);
	assert_int_equal(read_text("Optimal\n 3 x1 2 0\n", v, 3), -EILSEQ);
	assert_int_equal(read_text("Optimal\n 3 x1 nan 0\n", v, 3), -EILSEQ);
	assert_int_equal(read_text("Optimal\n 3\n", v, 3), -EILSEQ);
	assert_int_equal(read_text("x", v, 3), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_relaxation_agrees_with_cbc),
		cmocka_unit_test(the_oracle_with_cbc_finds_the_best_placement),
		cmocka_unit_test(rounding_alone_gives_a_placement_that_fits),
		cmocka_unit_test(reads_solutions_of_cbc_and_refuses_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
