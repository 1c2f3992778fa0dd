// SPDX-License-Identifier: Apache-2.0
/* Order contracts and shares of a cache in virtual time: each sample once per epoch, one read for all jobs, two windows. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/cache/quiver.h"
#include "base/base.h"

#define SAMPLES 20000u
#define BATCH 100u
#define JOBS 5
#define STORE 1e6 /* samples of 1000 bytes: a mini-batch in 0.1 s */

struct case_of {
	enum quiver_keep keep;
	enum quiver_contract contract;
	double compute_s, spread;
	uint64_t batches;
	uint32_t windows;
};

static struct quiver_result *run(const struct case_of *c)
{
	static struct quiver_result out;
	struct quiver_set set = {.samples = SAMPLES,
				 .sample_bytes = 1000,
				 .keep = c->keep,
				 .windows = c->windows,
				 .pinned = 0.25};
	struct quiver_job jobs[JOBS];
	for (int i = 0; i < JOBS; i++)
		jobs[i] = (struct quiver_job){.compute_s = c->compute_s * (1 + c->spread * i),
					      .batch = BATCH,
					      .contract = c->contract,
					      .batches = c->batches};
	struct quiver_study s = {.sets = &set,
				 .sets_n = 1,
				 .jobs = jobs,
				 .jobs_n = JOBS,
				 .store_bytes_s = STORE,
				 .lru_bytes = 5e6,
				 .force_s = 1000,
				 .seed = 3};
	assert_int_equal(quiver_run(&s, &out), 0);
	return &out;
}

static double last(const struct quiver_result *r)
{
	double end_s = 0;
	for (int i = 0; i < JOBS; i++)
		end_s = fmax(end_s, r->jobs[i].done_s);
	return end_s;
}

static void without_a_cache_jobs_share_the_store(void **state)
{
	struct case_of c = {QUIVER_NOTHING, QUIVER_STRICT, 0.2, 0, 200, 1};
	const struct quiver_result *r = run(&c);
	/* five jobs, a mini-batch in 0.1 s: 0.5 s for each */
	assert_true(fabs(last(r) / 200 - 0.5) < 0.02);
	assert_true(r->store_samples[0] > JOBS * 200.0 * BATCH);
	for (int i = 0; i < JOBS; i++)
		assert_int_equal(r->jobs[i].batches, 200);
}

static void whatever_is_kept_is_read_once_for_all_jobs(void **state)
{
	struct case_of c = {QUIVER_ALL, QUIVER_STRICT, 0.2, 0.01, SAMPLES / BATCH, 1};
	const struct quiver_result *r = run(&c);
	assert_true(r->store_samples[0] == SAMPLES); /* an epoch of five jobs */
	c.batches *= 3;
	assert_true(run(&c)->store_samples[0] == SAMPLES);
}

static void windows_read_the_data_set_once_in_an_epoch_and_two_are_there(void **state)
{
	static const enum quiver_contract contracts[] = {QUIVER_WINDOW, QUIVER_FREE};
	for (size_t i = 0; i < ARRAY_LEN(contracts); i++) {
		struct case_of c = {QUIVER_WINDOWS, contracts[i], 0.2, 0.005, SAMPLES / BATCH, 10};
		const struct quiver_result *r = run(&c);
		assert_true(r->store_samples[0] <=
			    SAMPLES * 1.25); /* the next window is read ahead */
		assert_true(r->store_samples[0] >= SAMPLES);
		assert_int_equal(r->resident_max, 2);
		for (uint32_t k = 0; k < r->loads_n; k++)
			assert_int_equal(r->loads[k].window, k % 10);
	}
}

static void jobs_of_like_pace_stay_together_epoch_after_epoch(void **state)
{
	static const enum quiver_contract contracts[] = {QUIVER_WINDOW, QUIVER_FREE};
	for (size_t i = 0; i < ARRAY_LEN(contracts); i++)
		for (uint32_t windows = 5; windows <= 40; windows += 35) {
			/* the slowest job takes 4% longer than the first */
			struct case_of c = {QUIVER_WINDOWS, contracts[i],        0.2,
					    0.01,           6 * SAMPLES / BATCH, windows};
			const struct quiver_result *r = run(&c);
			double ahead = SAMPLES / (double)windows;
			assert_true(r->store_samples[0] <= 6.0 * SAMPLES * 1.02 + ahead);
			assert_true(r->store_samples[0] >= 6.0 * SAMPLES);
			assert_int_equal(r->resident_max, 2);
			/* the price: the fastest is as slow as the slowest, and no slower */
			assert_true(r->jobs[0].done_s < 1.02 * r->jobs[JOBS - 1].done_s);
		}
}

static void a_much_slower_job_costs_the_others_little(void **state)
{
	static struct quiver_result out;
	struct quiver_set set = {
		.samples = SAMPLES, .sample_bytes = 1000, .keep = QUIVER_WINDOWS, .windows = 10};
	struct quiver_job jobs[] = {
		{.compute_s = 0.2, .batch = BATCH, .contract = QUIVER_WINDOW, .batches = 1000},
		{.compute_s = 0.2, .batch = BATCH, .contract = QUIVER_WINDOW, .batches = 1000},
		{.compute_s = 0.6, .batch = BATCH, .contract = QUIVER_WINDOW, .batches = 300}};
	struct quiver_study s = {.sets = &set,
				 .sets_n = 1,
				 .jobs = jobs,
				 .jobs_n = 3,
				 .store_bytes_s = 2 * STORE,
				 .force_s = 10,
				 .seed = 1};
	assert_int_equal(quiver_run(&s, &out), 0);
	for (int i = 0; i < 2; i++)
		assert_true(out.jobs[i].done_s < 1.05 * 1000 * 0.2);
}

static void free_jobs_do_not_wait_for_what_a_lost_cache_node_had(void **state)
{
	static const enum quiver_contract contracts[] = {QUIVER_FREE, QUIVER_STRICT};
	double waited[2], sent[2];
	for (size_t i = 0; i < 2; i++) {
		static struct quiver_result out;
		struct quiver_set set = {.samples = SAMPLES,
					 .sample_bytes = 1000,
					 .keep = QUIVER_ALL,
					 .windows = 1,
					 .warm = true};
		struct quiver_job jobs[JOBS];
		for (int k = 0; k < JOBS; k++)
			jobs[k] = (struct quiver_job){.compute_s = 0.2,
						      .batch = BATCH,
						      .contract = contracts[i],
						      .batches = 800};
		struct quiver_study s = {.sets = &set,
					 .sets_n = 1,
					 .jobs = jobs,
					 .jobs_n = JOBS,
					 .store_bytes_s = STORE / 2,
					 .fail_s = 82,
					 .fail_share = 0.5,
					 .seed = 5};
		assert_int_equal(quiver_run(&s, &out), 0);
		waited[i] = sent[i] = 0;
		for (int k = 0; k < JOBS; k++)
			waited[i] += out.jobs[k].waited_s;
		sent[i] = out.store_samples[0];
	}
	assert_true(waited[0] < 0.2 && waited[1] > 5);
	/* what was lost is fetched again once, for all jobs */
	assert_true(sent[0] > 0.45 * SAMPLES && sent[0] < 0.55 * SAMPLES);
}

static void windows_are_nearly_as_fast_as_hits_and_free_order_faster(void **state)
{
	struct case_of c = {QUIVER_WINDOWS, QUIVER_WINDOW, 0.2, 0, 400, 10};
	double window = last(run(&c));
	c.contract = QUIVER_FREE;
	double free_order = last(run(&c));
	double hit = 400 * 0.2;
	assert_true(window < 1.15 * hit && free_order < 1.03 * hit && free_order <= window);
	/* LRU of the same size as two windows thrashes: a quarter of the samples is there */
	c.keep = QUIVER_LRU;
	c.contract = QUIVER_STRICT;
	c.windows = 1;
	assert_true(last(run(&c)) > 1.5 * hit);
}

static void a_pinned_part_saves_its_share(void **state)
{
	struct case_of c = {QUIVER_PINNED, QUIVER_STRICT, 0.01, 0, 400, 1};
	const struct quiver_result *r = run(&c);
	double reads = (double)JOBS * 400 * BATCH;
	/* a quarter of all reads, and the quarter of the data set that is read once */
	assert_true(r->store_samples[0] > 0.74 * reads);
	assert_true(r->store_samples[0] < 0.79 * reads);
}

static void a_slow_job_does_not_hold_the_others_for_ever(void **state)
{
	static struct quiver_result out;
	struct quiver_set set = {
		.samples = SAMPLES, .sample_bytes = 1000, .keep = QUIVER_WINDOWS, .windows = 10};
	struct quiver_job jobs[] = {
		{.compute_s = 0.1, .batch = BATCH, .contract = QUIVER_WINDOW, .batches = 600},
		{.compute_s = 5, .batch = BATCH, .contract = QUIVER_WINDOW, .batches = 10}};
	struct quiver_study s = {.sets = &set,
				 .sets_n = 1,
				 .jobs = jobs,
				 .jobs_n = 2,
				 .store_bytes_s = STORE,
				 .force_s = 5,
				 .seed = 1};
	assert_int_equal(quiver_run(&s, &out), 0);
	assert_int_equal(out.jobs[0].batches, 600);
	assert_true(out.jobs[0].done_s < 100);
	assert_int_equal(out.resident_max, 2);
}

static void jobs_that_come_later_begin_at_the_current_window(void **state)
{
	static struct quiver_result out;
	struct quiver_set set = {
		.samples = SAMPLES, .sample_bytes = 1000, .keep = QUIVER_WINDOWS, .windows = 10};
	struct quiver_job jobs[] = {
		{.compute_s = 0.2, .batch = BATCH, .contract = QUIVER_WINDOW, .batches = 400},
		{.start_s = 33,
		 .compute_s = 0.2,
		 .batch = BATCH,
		 .contract = QUIVER_WINDOW,
		 .batches = 200}};
	struct quiver_study s = {.sets = &set,
				 .sets_n = 1,
				 .jobs = jobs,
				 .jobs_n = 2,
				 .store_bytes_s = STORE,
				 .force_s = 1000,
				 .seed = 1};
	assert_int_equal(quiver_run(&s, &out), 0);
	/* the second job reads nothing that the first did not bring: two epochs, and what is read ahead */
	assert_true(out.store_samples[0] < 2.5 * SAMPLES);
	assert_true(out.jobs[1].hits > 0.9 * (double)out.jobs[1].samples);
}

/* Runs one job under hits, with a transformation; returns the time of a mini-batch. */
static double transformed(double transform_s, uint32_t read_ahead, struct quiver_result *out)
{
	struct quiver_set set = {.samples = SAMPLES,
				 .sample_bytes = 1000,
				 .keep = QUIVER_ALL,
				 .windows = 1,
				 .warm = true};
	struct quiver_job job = {
		.compute_s = 0.5, .batch = BATCH, .batches = 200, .transform_s = transform_s};
	struct quiver_study s = {.sets = &set,
				 .sets_n = 1,
				 .jobs = &job,
				 .jobs_n = 1,
				 .store_bytes_s = STORE,
				 .read_ahead = read_ahead,
				 .trace_first = 100,
				 .seed = 3};
	assert_int_equal(quiver_run(&s, out), 0);
	return out->jobs[0].batch_s;
}

static void transformations_run_beside_each_other_and_are_traced(void **state)
{
	static struct quiver_result out;
	(void)state;
	assert_true(fabs(transformed(0, 4, &out) - 0.5) < 1e-6);
	/* Four at a time: 1.9 s each hide behind 0.5 s of computing, 4 s do not. */
	assert_true(fabs(transformed(4, 4, &out) - 1) < 0.01);
	assert_true(fabs(transformed(1.9, 4, &out) - 0.5) < 0.01);
	for (uint32_t i = 0; i < QUIVER_TRACED; i++) {
		const struct quiver_stages *t = &out.traced[i];
		assert_true(t->asked_s <= t->read_s && t->transformed_s <= t->begun_s);
		assert_true(fabs(t->transformed_s - t->read_s - 1.9) < 1e-6);
		assert_true(fabs(t->done_s - t->begun_s - 0.5) < 1e-6);
		assert_true(i == 0 || t->begun_s >= t[-1].done_s - 1e-9);
	}
}

static void the_same_seed_gives_the_same_run(void **state)
{
	struct case_of c = {QUIVER_WINDOWS, QUIVER_FREE, 0.05, 0.1, 300, 7};
	double first = last(run(&c));
	assert_true(last(run(&c)) == first);
}

static void impossible_studies_are_refused(void **state)
{
	static struct quiver_result out;
	const struct quiver_set set = {.samples = 10, .sample_bytes = 1, .windows = 1};
	const struct quiver_job job = {.compute_s = 1, .batch = 1, .batches = 1};
	const struct quiver_study good = {
		.sets = &set, .sets_n = 1, .jobs = &job, .jobs_n = 1, .store_bytes_s = 1};
	assert_int_equal(quiver_run(&good, &out), 0);
#define REFUSED(change)                                          \
	do {                                                     \
		struct quiver_set t = set;                       \
		struct quiver_job j = job;                       \
		struct quiver_study s = good;                    \
		s.sets = &t;                                     \
		s.jobs = &j;                                     \
		change;                                          \
		assert_int_equal(quiver_run(&s, &out), -EINVAL); \
	} while (0)
	REFUSED(s.sets_n = 0);
	REFUSED(s.jobs_n = QUIVER_JOBS_MAX + 1);
	REFUSED(s.store_bytes_s = NAN);
	REFUSED(s.store_bytes_s = 0);
	REFUSED(t.samples = 0);
	REFUSED(t.samples = UINT32_MAX);
	REFUSED(t.windows = 0);
	REFUSED(t.windows = 11);
	REFUSED(s.fail_share = 2);
	REFUSED(s.fail_s = -1);
	REFUSED(t.pinned = 2);
	REFUSED(j.set = 1);
	REFUSED(j.compute_s = 0);
	REFUSED(j.batch = 0);
	REFUSED(j.batch = QUIVER_BATCH_MAX + 1);
	REFUSED(j.batches = 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_cache_jobs_share_the_store),
		cmocka_unit_test(whatever_is_kept_is_read_once_for_all_jobs),
		cmocka_unit_test(windows_read_the_data_set_once_in_an_epoch_and_two_are_there),
		cmocka_unit_test(jobs_of_like_pace_stay_together_epoch_after_epoch),
		cmocka_unit_test(a_much_slower_job_costs_the_others_little),
		cmocka_unit_test(free_jobs_do_not_wait_for_what_a_lost_cache_node_had),
		cmocka_unit_test(windows_are_nearly_as_fast_as_hits_and_free_order_faster),
		cmocka_unit_test(a_pinned_part_saves_its_share),
		cmocka_unit_test(a_slow_job_does_not_hold_the_others_for_ever),
		cmocka_unit_test(jobs_that_come_later_begin_at_the_current_window),
		cmocka_unit_test(transformations_run_beside_each_other_and_are_traced),
		cmocka_unit_test(the_same_seed_gives_the_same_run),
		cmocka_unit_test(impossible_studies_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
