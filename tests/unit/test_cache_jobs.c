// SPDX-License-Identifier: Apache-2.0
/* What a cache node knows about jobs: need and time of the next read, progress, speed, trust. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "cache/jobs.h"

#define SEG UINT64_C(1000)
#define UNITS 5000u

static struct cache_range whole = {.from = 0, .to = 50 * SEG};

static struct cache_part part(uint16_t bucket, enum cache_order_kind kind)
{
	struct cache_part p = {.bucket = bucket,
			       .order = {.kind = kind,
					 .seed = 77 + bucket,
					 .bytes = (uint64_t)UNITS * SEG,
					 .file_bytes = 50 * SEG,
					 .unit_bytes = SEG,
					 .readers = 1,
					 .ranges_n = 1}};
	assert_int_equal(cache_order_init(&p.order, &whole), 0);
	return p;
}

static void read_unit(struct cache_jobs *js, uint32_t job, const struct cache_part *p,
		      uint64_t rank, uint64_t now_ms)
{
	uint64_t unit = cache_order_unit(&p->order, rank);
	struct cache_request r = {.now_ms = now_ms,
				  .job = job,
				  .bucket = p->bucket,
				  .position = (uint32_t)unit,
				  .segments = 1,
				  .bytes = SEG};
	cache_jobs_read(js, &r);
}

/* Reads units [from, to) of a part at one unit a ms, with ticks. */
static void read_units(struct cache_jobs *js, uint32_t job, const struct cache_part *p,
		       uint64_t from, uint64_t to)
{
	for (uint64_t rank = from; rank < to; rank++) {
		if (rank % 500 == 0)
			cache_jobs_tick(js, 10000 + rank);
		read_unit(js, job, p, rank, 10000 + rank);
	}
	cache_jobs_tick(js, 10000 + to);
}

static uint32_t add(struct cache_jobs *js, const struct cache_part *parts, uint32_t n)
{
	struct cache_job_spec spec = {.parts = parts, .parts_n = n, .start_ms = 10000};
	uint32_t job = CACHE_NONE;
	assert_int_equal(cache_jobs_add(js, &spec, &job), 0);
	return job;
}

static void check_known(enum cache_order_kind kind)
{
	struct cache_part parts[] = {part(1, kind), part(2, kind)};
	struct cache_jobs js;
	cache_jobs_init(&js, SEG, 1);
	uint32_t job = add(&js, parts, 2);
	read_units(&js, job, &parts[0], 0, 4000);
	struct cache_outlook o;
	for (uint32_t rank = 0; rank < UNITS; rank += 37) {
		o = cache_jobs_outlook(&js, 1, (uint32_t)cache_order_unit(&parts[0].order, rank));
		assert_int_equal(o.need, rank >= 4000);
		if (o.need > 0)
			assert_true(fabs(o.next_ms - (rank - 4000.0)) < 2);
		o = cache_jobs_outlook(&js, 2, (uint32_t)cache_order_unit(&parts[1].order, rank));
		assert_int_equal(o.need, 1);
		assert_true(fabs(o.next_ms - (1000.0 + rank)) < 2);
	}
	assert_int_equal(cache_jobs_outlook(&js, 3, 0).need, 0);
	assert_int_equal(cache_jobs_readers(&js, 1), 1);
	cache_jobs_end(&js, job);
	assert_int_equal(cache_jobs_outlook(&js, 2, 0).need, 0);
	assert_int_equal(cache_jobs_readers(&js, 1), 0);
	cache_jobs_fini(&js);
}

static void the_next_read_of_a_known_order_is_predicted(void **state)
{
	(void)state;
	check_known(CACHE_SCAN);
	check_known(CACHE_SEEDED);
}

static void an_unknown_order_leaves_need_exact_and_time_an_expectation(void **state)
{
	struct cache_part p = part(1, CACHE_RANDOM);
	struct cache_jobs js;
	(void)state;
	cache_jobs_init(&js, SEG, 1);
	uint32_t a = add(&js, &p, 1), b = add(&js, &p, 1);
	for (uint64_t rank = 0; rank < 3000; rank++) {
		if (rank % 500 == 0)
			cache_jobs_tick(&js, 10000 + rank);
		read_unit(&js, a, &p, rank, 10000 + rank);
		read_unit(&js, b, &p, UNITS - 1 - rank, 10000 + rank);
	}
	cache_jobs_tick(&js, 13000);
	for (uint32_t rank = 0; rank < UNITS; rank += 41) {
		uint32_t unit = (uint32_t)cache_order_unit(&p.order, rank);
		struct cache_outlook o = cache_jobs_outlook(&js, 1, unit);
		assert_int_equal(o.need, (rank >= 3000) + (rank < 2000));
		if (o.need > 0)
			assert_true(fabs(o.next_ms - 1000) < 50); /* half of the 2000 ms left */
	}
	cache_jobs_fini(&js);
}

static void a_job_that_waits_is_expected_when_the_other_ends(void **state)
{
	struct cache_part p = part(1, CACHE_SCAN), q = part(2, CACHE_SCAN);
	struct cache_jobs js;
	uint32_t second;
	(void)state;
	cache_jobs_init(&js, SEG, 1);
	uint32_t first = add(&js, &p, 1);
	struct cache_job_spec spec = {.parts = &q, .parts_n = 1, .after = &first, .after_n = 1};
	assert_int_equal(cache_jobs_add(&js, &spec, &second), 0);
	read_units(&js, first, &p, 0, 4000);
	struct cache_outlook o = cache_jobs_outlook(&js, 2, 700);
	assert_int_equal(o.need, 1);
	assert_true(fabs(o.next_ms - 1700) < 50);
	cache_jobs_end(&js, first);
	cache_jobs_tick(&js, 14000);
	assert_true(fabs(cache_jobs_outlook(&js, 2, 700).next_ms - 700) < 50);
	cache_jobs_tick(&js, 14000 + 120000); /* it never comes */
	assert_int_equal(cache_jobs_outlook(&js, 2, 700).need, 0);
	read_unit(&js, second, &q, 0, 135000); /* and then it does */
	assert_int_equal(cache_jobs_outlook(&js, 2, 700).need, 1);
	cache_jobs_fini(&js);
}

static void a_silent_job_does_not_count(void **state)
{
	struct cache_part p = part(1, CACHE_SCAN);
	struct cache_jobs js;
	(void)state;
	cache_jobs_init(&js, SEG, 1);
	uint32_t job = add(&js, &p, 1);
	read_units(&js, job, &p, 0, 1000);
	assert_int_equal(cache_jobs_outlook(&js, 1, 4000).need, 1);
	cache_jobs_tick(&js, 11000 + 61000);
	assert_int_equal(cache_jobs_outlook(&js, 1, 4000).need, 0);
	cache_jobs_fini(&js);
}

static void a_job_that_reads_something_else_loses_trust(void **state)
{
	struct cache_part p = part(1, CACHE_SCAN), other = part(9, CACHE_SCAN);
	struct cache_jobs js;
	(void)state;
	cache_jobs_init(&js, SEG, 1);
	uint32_t job = add(&js, &p, 1);
	assert_true(cache_jobs_trusted(&js, job));
	read_units(&js, job, &other, 0, 400);
	assert_false(cache_jobs_trusted(&js, job));
	assert_int_equal(cache_jobs_outlook(&js, 1, 4000).need, 0);
	cache_jobs_fini(&js);
}

static void a_scan_that_jumps_is_treated_as_an_unknown_order(void **state)
{
	struct cache_part scan = part(1, CACHE_SCAN), truth = part(1, CACHE_SEEDED);
	struct cache_jobs js;
	(void)state;
	cache_jobs_init(&js, SEG, 1);
	uint32_t job = add(&js, &scan, 1);
	for (uint64_t rank = 0; rank < 2000; rank++)
		read_unit(&js, job, &truth, rank, 10000 + rank);
	cache_jobs_tick(&js, 12000);
	assert_true(cache_jobs_trusted(&js, job));
	uint32_t read = (uint32_t)cache_order_unit(&truth.order, 1900);
	uint32_t unread = (uint32_t)cache_order_unit(&truth.order, 2100);
	assert_int_equal(cache_jobs_outlook(&js, 1, read).need, 0);
	assert_int_equal(cache_jobs_outlook(&js, 1, unread).need, 1);
	cache_jobs_fini(&js);
}

static void a_spec_without_parts_is_refused(void **state)
{
	struct cache_jobs js;
	uint32_t job;
	(void)state;
	cache_jobs_init(&js, SEG, 1);
	assert_int_equal(cache_jobs_add(&js, &(struct cache_job_spec){0}, &job), -E2BIG);
	cache_jobs_fini(&js);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_read_of_a_known_order_is_predicted),
		cmocka_unit_test(an_unknown_order_leaves_need_exact_and_time_an_expectation),
		cmocka_unit_test(a_job_that_waits_is_expected_when_the_other_ends),
		cmocka_unit_test(a_silent_job_does_not_count),
		cmocka_unit_test(a_job_that_reads_something_else_loses_trust),
		cmocka_unit_test(a_scan_that_jumps_is_treated_as_an_unknown_order),
		cmocka_unit_test(a_spec_without_parts_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
