// SPDX-License-Identifier: Apache-2.0
/* The frame that compares methods of placement: small traces computed by hand, properties on generated ones. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/placement/generate.h"
#include "analysis/placement/method.h"
#include "base/base.h"

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * (1 + fabs(want))))
		fail_msg("got %.17g, want %.17g", got, want);
}

/* A trace of jobs that are written and read at random: start, end, size, key. */
static void make(struct jobs *t, const double (*rows)[4], size_t n)
{
	*t = (struct jobs){0};
	assert_int_equal(jobs_column(t, "s_pipeline"), 0);
	for (size_t i = 0; i < n; i++) {
		uint64_t size = (uint64_t)rows[i][2];
		struct job_io io = {rows[i][0],  rows[i][1], size,       size,
				    size / 4096, size,       size / 4096};
		char name[24];
		snprintf(name, sizeof(name), "k%.0f", rows[i][3]);
		assert_int_equal(jobs_add(t, "j", &io, NULL, (const char *const[]){name}), 0);
	}
}

static struct study_result run(const struct study *s, const char *name, double capacity)
{
	struct study_result r;
	struct method_options o = method_default;
	const struct method *m = method_find(name);
	assert_non_null(m);
	o.oracle_limit_s = 0;
	o.heuristic_window_s = 86400;
	o.heuristic_by_total = 1;
	o.rounds = 2;
	o.depth = 3;
	assert_int_equal(method_run(m, s, &o, capacity, &r), 0);
	return r;
}

/* Puts each job on flash for a number of seconds, and notes the shares. */
struct always {
	struct policy base;
	double stay_s, share[8];
	size_t ended, resized;
	double capacity; /* after the last change */
};

static double always_stay(struct policy *p, size_t job, double free_bytes)
{
	return container_of(p, struct always, base)->stay_s;
}

static void always_placed(struct policy *p, size_t job, double share)
{
	container_of(p, struct always, base)->share[job] = share;
}

static void always_ended(struct policy *p, size_t job)
{
	container_of(p, struct always, base)->ended++;
}

static void always_resized(struct policy *p, double capacity_bytes)
{
	struct always *a = container_of(p, struct always, base);
	a->resized++;
	a->capacity = capacity_bytes;
}

static const struct policy_ops always_ops = {.stay_s = always_stay,
					     .placed = always_placed,
					     .ended = always_ended,
					     .resized = always_resized};

static const double four[][4] = {
	{100, 200, 1e6, 1}, {150, 300, 1e6, 2}, {200, 260, 1e6, 1}, {290, 400, 2e6, 3}};

static void a_job_that_fits_partly_spills_the_rest(void **state)
{
	AUTO_JOBS struct jobs t;
	AUTO_STUDY struct study s;
	struct study_result r;
	make(&t, four, ARRAY_LEN(four));
	assert_int_equal(study_init(&s, &t, &t, &cost_default), 0);
	near(s.peak_bytes, 3e6);
	struct always a = {.base = {&always_ops}, .stay_s = INFINITY};
	assert_int_equal(study_run(&s, &a.base, 1.5e6, &r), 0);
	near(a.share[0], 1);
	near(a.share[1], 0.5);
	near(a.share[2], 1); /* the first job ended when this one began */
	near(a.share[3], 0.5);
	assert_int_equal(a.ended, 2); /* the others end after the last arrival */
	double saved = cost_savings(&s.test_cost[0]) + cost_savings(&s.test_cost[1]) / 2 +
		       cost_savings(&s.test_cost[2]) + cost_savings(&s.test_cost[3]) / 2;
	near(r.saved_usd, saved);
	near(r.spilled_s, s.test_cost[1].disk_s / 2 + s.test_cost[3].disk_s / 2);
	near(r.meant_s, s.disk_s);
	near(r.used_bytes, 1.5e6);
}

static void a_job_whose_time_on_flash_is_over_frees_its_space(void **state)
{
	AUTO_JOBS struct jobs t;
	AUTO_STUDY struct study s;
	struct study_result r;
	make(&t, four, ARRAY_LEN(four));
	assert_int_equal(study_init(&s, &t, &t, &cost_default), 0);
	struct always a = {.base = {&always_ops}, .stay_s = 50};
	assert_int_equal(study_run(&s, &a.base, 1e6, &r), 0);
	near(a.share[1], 1);
	near(a.share[2], 1);
	near(a.share[3], 0.5);
	near(r.saved_disk_s, s.test_cost[0].disk_s / 2 + s.test_cost[1].disk_s / 3 +
				     s.test_cost[2].disk_s * 5 / 6 +
				     s.test_cost[3].disk_s * 0.5 * 5 / 11);
}

static void flash_that_loses_half_of_its_capacity_takes_less(void **state)
{
	AUTO_JOBS struct jobs t;
	AUTO_STUDY struct study s;
	struct study_result r;
	double share[ARRAY_LEN(four)], needed[ARRAY_LEN(four)];
	make(&t, four, ARRAY_LEN(four));
	assert_int_equal(study_init(&s, &t, &t, &cost_default), 0);
	s.halve_at_s = 200;
	s.share = share;
	s.needed = needed;
	struct always a = {.base = {&always_ops}, .stay_s = INFINITY};
	assert_int_equal(study_run(&s, &a.base, 1.5e6, &r), 0);
	assert_int_equal(a.resized, 1);
	near(a.capacity, 0.75e6);
	near(share[0], 1);
	near(share[1], 0.5);   /* 0.5e6 bytes, which stay */
	near(share[2], 0.25);  /* of 1e6 bytes */
	near(share[3], 0.125); /* of 2e6 bytes */
	assert_true(isnan(needed[0]));
	/* Files that are there may be more than the new capacity: then nothing fits. */
	s.halve_at_s = 180;
	assert_int_equal(study_run(&s, &a.base, 2e6, &r), 0);
	near(share[1], 1);
	near(share[2], 0);
	s.share = s.needed = NULL;
}

static void the_study_tells_what_was_decided_for_each_job(void **state)
{
	AUTO_JOBS struct jobs train, test;
	AUTO_STUDY struct study s;
	assert_int_equal(generate_jobs(&train, &(struct generate){5, 0, 7, 300}), 0);
	assert_int_equal(generate_jobs(&test, &(struct generate){5, 7, 7, 300}), 0);
	assert_int_equal(study_init(&s, &train, &test, &cost_default), 0);
	AUTO_FREE double *share = calloc(test.n, sizeof(*share));
	AUTO_FREE double *needed = calloc(test.n, sizeof(*needed));
	assert_true(share != NULL && needed != NULL);
	s.share = share;
	s.needed = needed;
	static const char *const names[] = {"true-worth", "oracle-tco", "lp-bound"};
	for (size_t m = 0; m < ARRAY_LEN(names); m++) {
		struct study_result r = run(&s, names[m], s.peak_bytes / 20);
		double saved = 0;
		for (size_t i = 0; i < test.n; i++) {
			saved += share[i] * cost_savings(&s.test_cost[i]);
			assert_true(isnan(needed[i]) == (m == 1));
			assert_true(m == 1 || (needed[i] >= 0 && needed[i] <= 14));
		}
		if (fabs(saved - r.saved_usd) > 1e-6 * fabs(saved))
			fail_msg("%s: %.9g, not %.9g", names[m], saved, r.saved_usd);
	}
	s.share = s.needed = NULL;
}

static void firstfit_takes_only_jobs_that_fit_as_a_whole(void **state)
{
	AUTO_JOBS struct jobs t;
	AUTO_STUDY struct study s;
	make(&t, four, ARRAY_LEN(four));
	assert_int_equal(study_init(&s, &t, &t, &cost_default), 0);
	struct study_result r = run(&s, "firstfit", 1.5e6);
	near(r.saved_disk_s, s.test_cost[0].disk_s + s.test_cost[2].disk_s);
	near(r.spilled_s, 0);
}

static void the_heuristic_admits_the_keys_that_saved_most_until_flash_is_full(void **state)
{
	/* Key 2 saved more than key 1; each holds half of the flash of 1e6 bytes in the window of a day. */
	static const double past[][4] = {
		{0, 43200, 1e6, 1}, {100, 3300, 13.5e6, 2}, {200, 86300, 4e6, 3}};
	static const double now[][4] = {
		{86400, 86500, 1e5, 1}, {86401, 86501, 1e5, 2}, {86402, 86502, 1e5, 3}};
	AUTO_JOBS struct jobs train, test;
	AUTO_STUDY struct study s;
	make(&train, past, ARRAY_LEN(past));
	make(&test, now, ARRAY_LEN(now));
	assert_int_equal(study_init(&s, &train, &test, &cost_default), 0);
	near(run(&s, "heuristic", 0.4e6).saved_disk_s, s.test_cost[1].disk_s);
	near(run(&s, "heuristic", 0.6e6).saved_disk_s,
	     s.test_cost[0].disk_s + s.test_cost[1].disk_s);
	near(run(&s, "heuristic", 20e6).saved_disk_s, s.disk_s);
}

static void outcomes_of_jobs_that_run_when_the_test_begins_are_not_known(void **state)
{
	static const double past[][4] = {{0, 86401, 1e6, 1}, {10, 1000, 1e6, 2}};
	static const double now[][4] = {{86400, 86500, 1e5, 1}, {86401, 86501, 1e5, 2}};
	AUTO_JOBS struct jobs train, test;
	AUTO_STUDY struct study s;
	make(&train, past, ARRAY_LEN(past));
	make(&test, now, ARRAY_LEN(now));
	assert_int_equal(study_init(&s, &train, &test, &cost_default), 0);
	assert_false(study_train_known(&s, 0));
	assert_true(study_train_known(&s, 1));
	near(run(&s, "heuristic", 1e9).saved_disk_s, s.test_cost[1].disk_s);
}

static void generated(struct jobs *train, struct jobs *test)
{
	struct generate g = {.cluster = 1001, .days = 7, .jobs_week = 1500};
	assert_int_equal(generate_jobs(train, &g), 0);
	g.from_day = 7;
	assert_int_equal(generate_jobs(test, &g), 0);
}

static void every_method_stays_within_the_flash_and_the_bound_and_repeats(void **state)
{
	AUTO_JOBS struct jobs train, test;
	AUTO_STUDY struct study s;
	static const double quotas[] = {0, 0.01, 0.3, 1};
	double bound[ARRAY_LEN(quotas)];
	generated(&train, &test);
	assert_int_equal(study_init(&s, &train, &test, &cost_default), 0);
	for (size_t q = 0; q < ARRAY_LEN(quotas); q++)
		bound[q] = run(&s, "lp-bound", quotas[q] * s.peak_bytes).saved_usd;
	for (const struct method *m = methods; m->name != NULL; m++)
		for (size_t q = 0; q < ARRAY_LEN(quotas); q++) {
			double capacity = quotas[q] * s.peak_bytes;
			struct study_result a = run(&s, m->name, capacity);
			struct study_result b = run(&s, m->name, capacity);
			near(a.saved_usd, b.saved_usd);
			assert_true(a.saved_usd <= bound[q] * (1 + 1e-9) + 1e-12);
			assert_true(a.used_bytes <= capacity * (1 + 1e-9));
			assert_true(a.spilled_s >= 0 && a.spilled_s <= a.meant_s * (1 + 1e-9));
			assert_true(a.saved_disk_s <= s.disk_s * (1 + 1e-9));
			if (quotas[q] == 0)
				near(a.saved_usd, 0);
		}
}

static void categories_that_are_true_beat_those_of_a_hash(void **state)
{
	AUTO_JOBS struct jobs train, test;
	AUTO_STUDY struct study s;
	generated(&train, &test);
	assert_int_equal(study_init(&s, &train, &test, &cost_default), 0);
	double capacity = 0.01 * s.peak_bytes;
	double hash = run(&s, "adaptive-hash", capacity).saved_usd;
	double firstfit = run(&s, "firstfit", capacity).saved_usd;
	double worth = run(&s, "true-worth", capacity).saved_usd;
	assert_true(worth > 2 * hash);
	assert_true(worth > 2 * firstfit);
}

static double saved_with(const struct study *s, double invert, double trust)
{
	struct study_result r;
	struct method_options o = method_default;
	o.rounds = 20;
	o.depth = 4;
	o.hint_invert = invert;
	o.trust = trust;
	assert_int_equal(method_run(method_find("terrane"), s, &o, s->peak_bytes / 20, &r), 0);
	return r.saved_usd / s->disk_usd;
}

static void trust_contains_wrong_hints_and_costs_right_ones_little(void **state)
{
	AUTO_JOBS struct jobs train = {0}, test = {0};
	AUTO_STUDY struct study s = {0};
	generated(&train, &test);
	assert_int_equal(study_init(&s, &train, &test, &cost_default), 0);
	double right = saved_with(&s, 0, 0), trusted = saved_with(&s, 0, 1);
	double wrong = saved_with(&s, 1, 0), contained = saved_with(&s, 1, 1);
	print_message("right %.4f, trusted %.4f, inverted %.4f, contained %.4f\n", right, trusted,
		      wrong, contained);
	assert_true(trusted > 0.9 * right);
	assert_true(wrong < 0.3 * right && contained > 1.3 * wrong);
}

static void the_oracle_nearly_reaches_the_bound_and_spills_nothing(void **state)
{
	AUTO_JOBS struct jobs train, test;
	AUTO_STUDY struct study s;
	generated(&train, &test);
	assert_int_equal(study_init(&s, &train, &test, &cost_default), 0);
	double capacity = 0.05 * s.peak_bytes;
	double bound = run(&s, "lp-bound", capacity).saved_usd;
	struct study_result tco = run(&s, "oracle-tco", capacity);
	struct study_result tcio = run(&s, "oracle-tcio", capacity);
	assert_true(tco.saved_usd >= 0.9 * bound);
	near(tco.spilled_s, 0);
	near(tcio.spilled_s, 0);
	assert_true(tcio.saved_disk_s >= 0.98 * tco.saved_disk_s);
}

static void parameters_are_set_by_name_within_their_range(void **state)
{
	struct method_options o = method_default;
	double value;
	size_t n = 0;
	assert_int_equal(method_set(&o, "window-s=60"), 0);
	near(o.window_s, 60);
	assert_int_equal(method_set(&o, "window-s=0"), -EINVAL);
	assert_int_equal(method_set(&o, "high=nan"), -EINVAL);
	assert_int_equal(method_set(&o, "high=0.1x"), -EINVAL);
	assert_int_equal(method_set(&o, "window=1"), -ENOENT);
	assert_int_equal(method_set(&o, "window-s"), -ENOENT);
	while (method_parameter(&o, n, &value) != NULL)
		n++;
	assert_int_equal(n, sizeof(o) / sizeof(double));
	/* Each is in range, but they do not go together. */
	struct policy *p;
	AUTO_JOBS struct jobs t;
	AUTO_STUDY struct study s;
	make(&t, four, ARRAY_LEN(four));
	assert_int_equal(study_init(&s, &t, &t, &cost_default), 0);
	assert_int_equal(method_set(&o, "low=0.5"), 0);
	assert_int_equal(method_find("adaptive-hash")->open(&s, &o, 1e6, &p), -EINVAL);
}

static void refuses_traces_without_jobs(void **state)
{
	AUTO_JOBS struct jobs t, empty = {0};
	struct study s;
	make(&t, four, ARRAY_LEN(four));
	assert_int_equal(study_init(&s, &empty, &t, &cost_default), -EINVAL);
	assert_int_equal(study_init(&s, &t, &empty, &cost_default), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_that_fits_partly_spills_the_rest),
		cmocka_unit_test(a_job_whose_time_on_flash_is_over_frees_its_space),
		cmocka_unit_test(flash_that_loses_half_of_its_capacity_takes_less),
		cmocka_unit_test(the_study_tells_what_was_decided_for_each_job),
		cmocka_unit_test(firstfit_takes_only_jobs_that_fit_as_a_whole),
		cmocka_unit_test(the_heuristic_admits_the_keys_that_saved_most_until_flash_is_full),
		cmocka_unit_test(outcomes_of_jobs_that_run_when_the_test_begins_are_not_known),
		cmocka_unit_test(every_method_stays_within_the_flash_and_the_bound_and_repeats),
		cmocka_unit_test(categories_that_are_true_beat_those_of_a_hash),
		cmocka_unit_test(trust_contains_wrong_hints_and_costs_right_ones_little),
		cmocka_unit_test(the_oracle_nearly_reaches_the_bound_and_spills_nothing),
		cmocka_unit_test(parameters_are_set_by_name_within_their_range),
		cmocka_unit_test(refuses_traces_without_jobs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
