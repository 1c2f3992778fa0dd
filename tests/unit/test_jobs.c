// SPDX-License-Identifier: Apache-2.0
/* Specs, states and rates of training jobs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/base.h"
#include "jobs/wire.h"

static const struct job_part two_parts[] = {{JOB_DATASET, "/sets/a", 7}, {JOB_FILE, "/f", 8}};

static struct job_spec a_spec(void)
{
	return (struct job_spec){.id = 5,
				 .name = "resnet",
				 .parts = two_parts,
				 .part_count = 2,
				 .readers = 4,
				 .epochs = 10,
				 .accelerators = 8,
				 .order = JOB_WINDOW,
				 .shuffle = JOB_SEEDED,
				 .seed = 9,
				 .lease_ms = JOB_LEASE_DEFAULT_MS};
}

static void a_spec_is_refused_with_the_rule_that_it_breaks(void **state)
{
	struct job_spec s = a_spec();
	assert_null(job_spec_check(&s));
	static char text[JOB_TEXT_MAX], name[JOB_NAME_MAX + 2];
	memset(text, 'x', sizeof(text) - 1);
	memset(name, 'x', sizeof(name) - 1);
	static struct job_part many[JOB_PARTS_MAX + 1];
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = (struct job_part){JOB_FILE, &text[sizeof(text) - 100], 1};
	const struct job_range overlap[] = {{0, 500000}, {400000, 900000}};
	const struct job_range behind[] = {{0, JOB_RANGE_WHOLE + 1}};
	const struct job_range apart[] = {{0, 1}, {1, JOB_RANGE_WHOLE}};
	const struct job_part no_path[] = {{JOB_FILE, "", 0}};
	const char *const columns[] = {"jpg", "a\nb"};

#define REFUSED(change)                              \
	do {                                         \
		s = a_spec();                        \
		change;                              \
		assert_non_null(job_spec_check(&s)); \
	} while (0)
	REFUSED(s.id = 0);
	REFUSED(s.name = name);
	REFUSED(s.name = "a\tb");
	REFUSED(s.part_count = 0);
	REFUSED((s.parts = many, s.part_count = JOB_PARTS_MAX + 1));
	REFUSED((s.parts = many, s.part_count = JOB_PARTS_MAX)); /* too much text */
	REFUSED((s.parts = no_path, s.part_count = 1));
	REFUSED((s.ranges = overlap, s.range_count = 2));
	REFUSED((s.ranges = behind, s.range_count = 1));
	REFUSED((s.columns = columns, s.column_count = 2));
	REFUSED(s.readers = 0);
	REFUSED(s.readers = UINT32_MAX);
	REFUSED(s.epochs = UINT32_MAX);
	REFUSED(s.accelerators = UINT32_MAX);
	REFUSED(s.order = 0);
	REFUSED(s.shuffle = 4);
	REFUSED(s.lease_ms = 0);
	REFUSED(s.lease_ms = UINT64_MAX);
	REFUSED(s.bytes_s = UINT64_MAX);
	s = a_spec();
	s.ranges = apart;
	s.range_count = 2;
	s.columns = columns;
	s.column_count = 1;
	assert_null(job_spec_check(&s));
}

static void reports_that_cannot_be_true_are_refused(void **state)
{
	struct job_spec s = a_spec();
	const struct job_progress good = {.epoch = 2,
					  .part = 1,
					  .position = 5,
					  .total = 10,
					  .bytes = 4,
					  .hit_bytes = 4,
					  .window = 3,
					  .windows = 4};
	assert_null(job_progress_check(&good));
	assert_null(job_progress_of(&good, &s));
	struct job_progress p = good;
	p.position = 11;
	assert_non_null(job_progress_check(&p));
	p = good;
	p.steps = UINT64_MAX;
	assert_non_null(job_progress_check(&p));
	p = good;
	p.hit_bytes = 5;
	assert_non_null(job_progress_check(&p));
	p = good;
	p.window = 4;
	assert_non_null(job_progress_check(&p));
	p = good;
	p.part = 2;
	assert_null(job_progress_check(&p));
	assert_non_null(job_progress_of(&p, &s));
	p = good;
	p.epoch = 11;
	assert_non_null(job_progress_of(&p, &s));
	s.epochs = 0;
	assert_null(job_progress_of(&p, &s));
}

static void a_job_counts_until_its_lease_or_the_job_ends(void **state)
{
	struct job_state st = {.added_ms = 1000, .expires_ms = 61000};
	assert_true(job_active(&st, 1000));
	assert_true(job_active(&st, 60999));
	assert_false(job_active(&st, 61000));
	assert_int_equal(job_lease_left(&st, 60000, 31000), 30000);
	/* the clock went back by an hour: the lease is no longer than it was given */
	st.expires_ms += 3600000;
	assert_int_equal(job_lease_left(&st, 60000, 31000), 60000);
	st.ended = true;
	assert_false(job_active(&st, 1000));
	assert_int_equal(job_lease_left(&st, 60000, 31000), 0);
}

static void rates_follow_from_two_reports(void **state)
{
	struct job_state st = {.before_ms = 0, .reported_ms = 1000, .progress = {.steps = 100}};
	assert_true(job_rates(&st).steps_s == 0);
	st.before_ms = 1000;
	st.reported_ms = 11000;
	st.before = (struct job_progress){
		.steps = 100, .compute_us = 1000, .wait_us = 500, .bytes = 100};
	st.progress = (struct job_progress){
		.steps = 150, .compute_us = 4000, .wait_us = 1500, .bytes = 1100, .hit_bytes = 750};
	struct job_rates r = job_rates(&st);
	assert_true(r.steps_s == 5);
	assert_true(r.wait_share == 0.25);
	assert_true(r.bytes_s == 100);
	assert_true(r.hit_share == 0.75);
	/* a job that began again counts from zero */
	st.progress = (struct job_progress){.steps = 1};
	r = job_rates(&st);
	assert_true(r.steps_s == 0 && r.wait_share == 0 && r.hit_share == 0);
	struct job_spec s = a_spec();
	struct job_progress p = {.epoch = 5, .part = 1, .position = 1, .total = 2};
	assert_true(job_done_share(&s, &p) == 0.575);
	s.epochs = 0;
	assert_true(job_done_share(&s, &p) == 0.75);
	p.epoch = 1000;
	s.epochs = 10;
	assert_true(job_done_share(&s, &p) == 1);
}

static void a_job_survives_its_messages(void **state)
{
	struct arena a;
	arena_init(&a, MIB);
	const struct job_range ranges[] = {{0, 10}, {20, 30}};
	const char *const columns[] = {"jpg", "cls"};
	struct job_spec s = a_spec(), back;
	s.ranges = ranges;
	s.range_count = 2;
	s.columns = columns;
	s.column_count = 2;
	assert_int_equal(job_spec_read(&a, job_spec_message(&a, &s), &back), 0);
	assert_int_equal(back.part_count, 2);
	assert_string_equal(back.parts[1].path, "/f");
	assert_int_equal(back.parts[0].kind, JOB_DATASET);
	assert_int_equal(back.parts[0].id, 7);
	assert_int_equal(back.ranges[1].from, 20);
	assert_string_equal(back.columns[1], "cls");
	assert_int_equal(back.order, JOB_WINDOW);
	assert_int_equal(back.seed, 9);
	struct job_state st = {.stamp = 3,
			       .expires_ms = 4,
			       .owner = "alice",
			       .progress = {.steps = 6}},
			 st_back;
	assert_int_equal(job_state_read(job_state_message(&a, &st), &st_back), 0);
	assert_memory_equal(&st, &st_back, sizeof(st));
	/* what a hostile client may send */
	Terrane__Job__Spec *m = job_spec_message(&a, &s);
	m->parts[0]->kind = 77;
	assert_int_equal(job_spec_read(&a, m, &back), -EINVAL);
	m = job_spec_message(&a, &s);
	m->order = 9;
	assert_int_equal(job_spec_read(&a, m, &back), -EINVAL);
	assert_int_equal(job_spec_read(&a, NULL, &back), -EINVAL);
	assert_int_equal(job_state_read(NULL, &st_back), -EINVAL);
	assert_int_equal(job_progress_read(NULL, &st_back.progress), -EINVAL);
	arena_fini(&a);
}

static void names_are_read_back(void **state)
{
	for (int o = JOB_STRICT; o <= JOB_FREE; o++) {
		enum job_order back;
		assert_int_equal(job_order_parse(job_order_name((enum job_order)o), &back), 0);
		assert_int_equal(back, o);
	}
	for (int s = JOB_SCAN; s <= JOB_SECRET; s++) {
		enum job_shuffle back;
		assert_int_equal(job_shuffle_parse(job_shuffle_name((enum job_shuffle)s), &back),
				 0);
		assert_int_equal(back, s);
	}
	enum job_order o;
	enum job_shuffle s;
	assert_int_equal(job_order_parse("random", &o), -EINVAL);
	assert_int_equal(job_shuffle_parse("", &s), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_spec_is_refused_with_the_rule_that_it_breaks),
		cmocka_unit_test(reports_that_cannot_be_true_are_refused),
		cmocka_unit_test(a_job_counts_until_its_lease_or_the_job_ends),
		cmocka_unit_test(rates_follow_from_two_reports),
		cmocka_unit_test(a_job_survives_its_messages),
		cmocka_unit_test(names_are_read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
