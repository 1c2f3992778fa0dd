// SPDX-License-Identifier: Apache-2.0
/* The decision of the flash manager: what reports say, who is probed, which data set gets what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "jobs/worth.h"

#define GB 1000000000ULL
#define JOBS 4
#define REPORT_MS 10000u
#define START_MS 1000000000ULL

/* A cluster whose jobs report what follows from the verdicts of the manager: a step computes for hit_us, and takes miss_us
 * without a cache. */
struct world {
	struct worth_job jobs[JOBS];
	struct job_state states[JOBS];
	uint64_t hit_us[JOBS], miss_us[JOBS];
	size_t n;
	uint64_t now_ms, capacity;
	bool cold; /* what the manager has not decided about is not in the caches */
};

static void add(struct world *w, uint64_t set, uint64_t bytes, uint64_t hit_us, uint64_t miss_us)
{
	size_t i = w->n++;
	assert_true(i < JOBS);
	w->states[i].progress.part_bytes = bytes;
	w->states[i].progress.windows = 10;
	w->jobs[i] = (struct worth_job){.tenant = 1,
					.set = set,
					.order = JOB_STRICT,
					.accelerators = 8,
					.state = &w->states[i]};
	w->hit_us[i] = hit_us;
	w->miss_us[i] = miss_us;
	w->now_ms = START_MS;
}

/* Returns what a step of a job takes under its verdict. */
static uint64_t step_us(const struct world *w, size_t i)
{
	const struct job_verdict *v = &w->states[i].verdict;
	bool without = v->cache != JOB_CACHE_ON || v->keep == JOB_KEEP_NOTHING ||
		       (w->cold && v->keep == JOB_KEEP_ANY);
	if (v->keep == JOB_KEEP_PART && !without)
		return max_u64(w->hit_us[i], w->miss_us[i] / 1000000 * (1000000 - v->share));
	return without ? w->miss_us[i] : w->hit_us[i];
}

/* Lets the jobs report and the manager decide, a number of times. */
static void rounds(struct world *w, int count)
{
	for (int r = 0; r < count; r++) {
		w->now_ms += REPORT_MS;
		for (size_t i = 0; i < w->n; i++) {
			struct job_state *st = &w->states[i];
			uint64_t took = step_us(w, i), steps = REPORT_MS * 1000ULL / took;
			st->before = st->progress;
			st->before_ms = st->reported_ms;
			st->reported_ms = w->now_ms;
			st->progress.steps += steps;
			st->progress.compute_us += steps * w->hit_us[i];
			st->progress.wait_us += steps * (took - w->hit_us[i]);
			w->jobs[i].verdict = st->verdict;
		}
		assert_int_equal(worth_decide(w->jobs, w->n, w->capacity, w->now_ms), 0);
		for (size_t i = 0; i < w->n; i++) {
			assert_true(job_verdict_ok(&w->jobs[i].verdict));
			w->states[i].verdict = w->jobs[i].verdict;
		}
	}
}

static const struct job_verdict *verdict(const struct world *w, size_t i)
{
	return &w->states[i].verdict;
}

static void a_job_is_probed_and_then_its_data_set_is_kept(void **state)
{
	struct world w = {.capacity = 200 * GB};
	add(&w, 7, 100 * GB, 50000, 150000);
	rounds(&w, 1);
	assert_int_equal(verdict(&w, 0)->cache, JOB_CACHE_ON); /* one report says nothing */
	rounds(&w, 1);
	assert_int_equal(verdict(&w, 0)->cache, JOB_CACHE_PROBE);
	assert_string_equal(worth_why(verdict(&w, 0)), "its steps are timed without a cache");
	rounds(&w, 8);
	assert_int_equal(verdict(&w, 0)->cache, JOB_CACHE_ON);
	assert_int_equal(verdict(&w, 0)->keep, JOB_KEEP_ALL);
	assert_int_equal(verdict(&w, 0)->bytes, 100 * GB);
	assert_true(verdict(&w, 0)->miss_us > 140000 && verdict(&w, 0)->miss_us < 160000);
	/* eight accelerators that wait for two thirds of their time */
	assert_true(verdict(&w, 0)->saved_milli > 5350 && verdict(&w, 0)->saved_milli < 5650);
	/* nothing changes as long as the probe counts */
	uint64_t since = verdict(&w, 0)->since_ms;
	rounds(&w, 20);
	assert_int_equal(verdict(&w, 0)->since_ms, since);
}

static void a_job_that_waits_is_not_probed(void **state)
{
	struct world w = {.capacity = 200 * GB};
	add(&w, 7, 100 * GB, 50000, 150000);
	w.cold = true;
	rounds(&w, 2);
	assert_int_equal(verdict(&w, 0)->cache, JOB_CACHE_ON);
	assert_int_equal(verdict(&w, 0)->keep, JOB_KEEP_ALL);
}

static void nothing_is_kept_for_a_job_without_gain(void **state)
{
	struct world w = {.capacity = 200 * GB};
	add(&w, 7, 100 * GB, 100000, 100000);
	rounds(&w, 20);
	assert_int_equal(verdict(&w, 0)->cache, JOB_CACHE_OFF);
	assert_int_equal(verdict(&w, 0)->keep, JOB_KEEP_NOTHING);
	assert_string_equal(worth_why(verdict(&w, 0)), "it does not wait for data");
	/* the store gets slower, and the job is cached without another probe */
	w.miss_us[0] = 200000;
	rounds(&w, 4);
	assert_int_equal(verdict(&w, 0)->cache, JOB_CACHE_ON);
	assert_int_equal(verdict(&w, 0)->keep, JOB_KEEP_ALL);
}

static void flash_goes_where_it_frees_most_accelerators(void **state)
{
	struct world w = {.capacity = 110 * GB};
	add(&w, 1, 100 * GB, 50000, 100000);
	add(&w, 2, 100 * GB, 50000, 300000);
	rounds(&w, 30);
	/* four fifths of its reads from flash free most of the second one; the first one gets the rest */
	assert_int_equal(verdict(&w, 1)->keep, JOB_KEEP_PART);
	assert_int_equal(verdict(&w, 1)->share, 800000);
	assert_int_equal(verdict(&w, 0)->keep, JOB_KEEP_PART);
	assert_int_equal(verdict(&w, 0)->share, 300000);
	assert_true(verdict(&w, 0)->bytes + verdict(&w, 1)->bytes <= w.capacity);
	/* the better one ends: the flash is for the other one */
	w.n = 1;
	rounds(&w, 30);
	assert_int_equal(verdict(&w, 0)->keep, JOB_KEEP_ALL);
}

static void two_windows_are_enough_for_jobs_that_share_them(void **state)
{
	struct world w = {.capacity = 30 * GB};
	for (int i = 0; i < 3; i++) {
		add(&w, 1, 100 * GB, 50000, 150000);
		w.jobs[i].order = i == 0 ? JOB_FREE : JOB_WINDOW;
	}
	rounds(&w, 40);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(verdict(&w, i)->keep, JOB_KEEP_WINDOWS);
		assert_true(verdict(&w, i)->bytes <= 30 * GB);
	}
	/* strict orders gain nothing from windows: 20% of the data set are pinned */
	for (size_t i = 0; i < 3; i++)
		w.jobs[i].order = JOB_STRICT;
	rounds(&w, 40);
	assert_int_equal(verdict(&w, 0)->keep, JOB_KEEP_PART);
	assert_int_equal(verdict(&w, 0)->share, 300000);
}

static void two_managers_come_to_the_same_verdicts(void **state)
{
	struct world one = {.capacity = 110 * GB};
	add(&one, 1, 100 * GB, 50000, 100000);
	add(&one, 2, 60 * GB, 50000, 300000);
	rounds(&one, 3);
	for (int r = 0; r < 20; r++) {
		struct world two = one;
		for (size_t i = 0; i < two.n; i++)
			two.jobs[i].state = &two.states[i];
		rounds(&one, 1);
		rounds(&two, 1);
		for (size_t i = 0; i < one.n; i++)
			assert_memory_equal(verdict(&one, i), verdict(&two, i),
					    sizeof(struct job_verdict));
		/* the second one decides again what the first has written: nothing new */
		for (size_t i = 0; i < two.n; i++)
			two.jobs[i].verdict = one.states[i].verdict;
		assert_int_equal(worth_decide(two.jobs, two.n, two.capacity, two.now_ms + 1), 0);
		for (size_t i = 0; i < two.n; i++)
			assert_false(worth_is_new(&two.jobs[i].verdict, verdict(&one, i)));
	}
}

static void one_job_of_a_data_set_is_probed_at_a_time(void **state)
{
	struct world w = {.capacity = 200 * GB};
	for (int i = 0; i < 4; i++)
		add(&w, 7, 100 * GB, 50000, 100000);
	for (int r = 0; r < 60; r++) {
		unsigned probed = 0;
		rounds(&w, 1);
		for (size_t i = 0; i < w.n; i++)
			probed += verdict(&w, i)->cache == JOB_CACHE_PROBE;
		assert_true(probed <= 1);
	}
	for (size_t i = 0; i < w.n; i++)
		assert_true(verdict(&w, i)->miss_us > 90000);
}

static void reports_that_make_no_sense_do_no_harm(void **state)
{
	struct rng rng;
	rng_init(&rng, 5);
	for (int run = 0; run < 3000; run++) {
		struct world w = {.capacity = rng_below(&rng, 300) * GB};
		for (int i = 0; i < 3; i++)
			add(&w, rng_below(&rng, 2), rng_u64(&rng) >> (4 + rng_below(&rng, 50)),
			    50000, 100000);
		for (int r = 0; r < 8; r++) {
			for (size_t i = 0; i < w.n; i++) {
				struct job_state *st = &w.states[i];
				st->before = st->progress;
				st->before_ms = st->reported_ms;
				st->reported_ms = rng_below(&rng, 3) * w.now_ms;
				st->progress.steps = rng_u64(&rng) >> (4 + rng_below(&rng, 60));
				st->progress.compute_us =
					rng_u64(&rng) >> (4 + rng_below(&rng, 60));
				st->progress.wait_us = rng_u64(&rng) >> (4 + rng_below(&rng, 60));
				w.jobs[i].accelerators = (uint32_t)rng_u64(&rng);
				w.jobs[i].verdict = st->verdict;
			}
			w.now_ms += rng_below(&rng, 100000);
			assert_int_equal(worth_decide(w.jobs, w.n, w.capacity, w.now_ms), 0);
			uint64_t bytes[2] = {0, 0};
			for (size_t i = 0; i < w.n; i++) {
				const struct job_verdict *v = &w.jobs[i].verdict;
				assert_true(job_verdict_ok(v) && worth_why(v) != NULL);
				bytes[w.jobs[i].set] = v->bytes;
				w.states[i].verdict = *v;
			}
			assert_true(bytes[0] + bytes[1] <= w.capacity);
		}
	}
}

static void caches_follow_a_verdict_until_it_is_old(void **state)
{
	struct job_verdict v = {.at_ms = START_MS, .keep = JOB_KEEP_PART, .share = 300000};
	assert_int_equal(worth_rule_of(&v, 0.29, START_MS), WORTH_KEEP);
	assert_int_equal(worth_rule_of(&v, 0.31, START_MS), WORTH_SERVE);
	v.keep = JOB_KEEP_NOTHING;
	assert_int_equal(worth_rule_of(&v, 0, START_MS), WORTH_SERVE);
	v.keep = JOB_KEEP_ALL;
	assert_int_equal(worth_rule_of(&v, 0.99, START_MS), WORTH_KEEP);
	v.cache = JOB_CACHE_OFF;
	assert_int_equal(worth_rule_of(&v, 0, START_MS), WORTH_SERVE);
	v.cache = JOB_CACHE_PROBE;
	assert_int_equal(worth_rule_of(&v, 0, START_MS), WORTH_PASS);
	/* the manager is gone: the policy of the cache alone decides */
	assert_int_equal(worth_rule_of(&v, 0, START_MS + WORTH_VERDICT_AGE_MS + 1), WORTH_KEEP);
	assert_int_equal(worth_rule_of(&(struct job_verdict){0}, 0, 5), WORTH_KEEP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_is_probed_and_then_its_data_set_is_kept),
		cmocka_unit_test(a_job_that_waits_is_not_probed),
		cmocka_unit_test(nothing_is_kept_for_a_job_without_gain),
		cmocka_unit_test(flash_goes_where_it_frees_most_accelerators),
		cmocka_unit_test(two_windows_are_enough_for_jobs_that_share_them),
		cmocka_unit_test(two_managers_come_to_the_same_verdicts),
		cmocka_unit_test(one_job_of_a_data_set_is_probed_at_a_time),
		cmocka_unit_test(reports_that_make_no_sense_do_no_harm),
		cmocka_unit_test(caches_follow_a_verdict_until_it_is_old),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
