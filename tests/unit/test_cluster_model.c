// SPDX-License-Identifier: Apache-2.0
/* The model of the cluster scenario: each checker accepts correct results, and reports a violation for wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "../sim/cluster_model.h"

#define SIZE ((size_t)1000)

static char violation[VIOLATION_BYTES];
static struct model m = {.violation = violation};
static uint8_t bytes[4 * SIZE];

static void clear(void)
{
	violation[0] = '\0';
}

static void must_fire(const char *invariant)
{
	size_t n = strlen(invariant);
	if (strncmp(violation, invariant, n) != 0 || violation[n] != ':')
		fail_msg("%s should fire: \"%s\"", invariant, violation);
	clear();
}

static void must_pass(void)
{
	if (violation[0] != '\0')
		fail_msg("%s", violation);
}

static struct model_file there(uint64_t text)
{
	struct model_file f = {.path = "/f", .text = text, .size = SIZE, .size_max = SIZE};
	f.sealed = true;
	model_begin(&m, &f, "write");
	model_end(&m, &f, MODEL_THERE);
	text_fill(text, 0, bytes, SIZE);
	return f;
}

static void i1_what_was_acknowledged_reads_back(void **state)
{
	(void)state;
	clear();
	struct model_file f = there(7);
	model_check_read(&m, &f, &f, SIZE, bytes, true);
	model_check_read(&m, &f, &f, -EIO, NULL, false);
	must_pass();
	model_check_read(&m, &f, &f, -EIO, NULL, true);
	must_fire("I1");
	model_check_read(&m, &f, &f, -ENOENT, NULL, false);
	must_fire("I1");
	model_check_read(&m, &f, &f, SIZE - 1, bytes, false);
	must_fire("I1");
	bytes[SIZE / 2] ^= 1;
	model_check_read(&m, &f, &f, SIZE, bytes, false);
	must_fire("I1");
	model_check_refusal(&m, &f, "rename", -ENOENT);
	must_fire("I1");
}

static void i1_a_replaced_file_has_one_of_both_contents(void **state)
{
	(void)state;
	clear();
	struct model_file f = there(7);
	struct model_file before = f;
	model_replace_begin(&m, &f, 8, SIZE);
	model_check_read(&m, &before, &f, SIZE, bytes, false);
	text_fill(8, 0, bytes, SIZE);
	model_check_read(&m, &before, &f, SIZE, bytes, false);
	must_pass();
	model_replace_end(&m, &f, 0);
	before = f;
	model_check_read(&m, &before, &f, SIZE, bytes, false);
	must_pass();
	text_fill(7, 0, bytes, SIZE);
	model_check_read(&m, &before, &f, SIZE, bytes, false);
	must_fire("I1");
}

static void i1_a_log_keeps_what_was_acknowledged(void **state)
{
	(void)state;
	clear();
	struct model_file f = {.path = "/log", .log = true, .text = 9};
	model_begin(&m, &f, "log");
	model_end(&m, &f, MODEL_THERE);
	text_fill(9, 0, bytes, 3 * SIZE);
	model_append_begin(&m, &f, SIZE);
	model_append_end(&m, &f, 0);
	model_append_begin(&m, &f, SIZE);
	model_append_end(&m, &f, -ETIME);
	model_check_read(&m, &f, &f, SIZE, bytes, true);
	model_check_read(&m, &f, &f, 2 * SIZE, bytes, true);
	must_pass();
	model_check_read(&m, &f, &f, SIZE - 1, bytes, true);
	must_fire("I1");
	model_check_read(&m, &f, &f, 2 * SIZE + 1, bytes, true);
	must_fire("I1");
	struct model_file g = f;
	model_log_found(&m, &g, 2 * SIZE);
	must_pass();
	g = f;
	model_log_found(&m, &g, SIZE - 1);
	must_fire("I1");
	g = f;
	model_log_found(&m, &g, 2 * SIZE + 1);
	must_fire("I1");
}

static void i3_what_was_deleted_stays_deleted(void **state)
{
	(void)state;
	clear();
	struct model_file f = there(7);
	model_begin(&m, &f, "remove");
	model_check_read(&m, &f, &f, SIZE, bytes, false);
	model_end(&m, &f, MODEL_GONE);
	model_check_read(&m, &f, &f, -ENOENT, NULL, true);
	must_pass();
	model_check_read(&m, &f, &f, SIZE, bytes, false);
	must_fire("I3");
	model_check_stat(&m, &f, &f, SIZE, true);
	must_fire("I3");
	model_check_refusal(&m, &f, "create", -EEXIST);
	must_fire("I3");
}

static void i4_what_is_sealed_does_not_change(void **state)
{
	(void)state;
	clear();
	struct model_file f = there(7);
	model_check_stat(&m, &f, &f, SIZE, true);
	must_pass();
	model_check_stat(&m, &f, &f, SIZE, false);
	must_fire("I4");
	model_check_stat(&m, &f, &f, SIZE + 1, true);
	must_fire("I4");
	f.log = true;
	text_fill(7, 0, bytes, 2 * SIZE);
	model_check_read(&m, &f, &f, SIZE + 1, bytes, true);
	must_fire("I4");
}

static void i5_a_fenced_writer_adds_nothing(void **state)
{
	(void)state;
	static struct shared_log l = {.path = "/log0", .number = 1};
	struct shared_handle a, b;
	uint8_t all[3 * RECORD_BYTES];
	clear();
	shared_open_begin(&l, &a);
	shared_open_end(&m, &l, &a, 0);
	uint32_t r = shared_append_begin(&l, &a, 0, all);
	shared_append_end(&m, &l, 0, r, 0);
	shared_open_begin(&l, &b);
	/* An append of the old writer may still be accepted before the new writer has the token. */
	r = shared_append_begin(&l, &a, 0, all + RECORD_BYTES);
	shared_open_end(&m, &l, &b, 1);
	shared_append_end(&m, &l, 0, r, 0);
	shared_check(&m, &l, &l, all, 2L * RECORD_BYTES);
	must_pass();
	r = shared_append_begin(&l, &a, 0, all + 2L * RECORD_BYTES);
	shared_append_end(&m, &l, 0, r, -ESTALE);
	shared_check(&m, &l, &l, all, 2L * RECORD_BYTES);
	must_pass();
	shared_check(&m, &l, &l, all, 3L * RECORD_BYTES);
	must_fire("I5");
	shared_append_end(&m, &l, 0, r, 0);
	must_fire("I5");
}

static void i5_records_are_there_once_and_in_order(void **state)
{
	(void)state;
	static struct shared_log l = {.path = "/log0", .number = 1};
	struct shared_handle a;
	uint8_t all[3 * RECORD_BYTES], turned[2 * RECORD_BYTES];
	clear();
	shared_open_begin(&l, &a);
	shared_open_end(&m, &l, &a, 0);
	for (int i = 0; i < 2; i++) {
		uint32_t r = shared_append_begin(&l, &a, 0, all + (size_t)i * RECORD_BYTES);
		shared_append_end(&m, &l, 0, r, 0);
	}
	memcpy(all + 2L * RECORD_BYTES, all + RECORD_BYTES, RECORD_BYTES);
	shared_check(&m, &l, &l, all, 3L * RECORD_BYTES);
	must_fire("I5");
	memcpy(turned, all + RECORD_BYTES, RECORD_BYTES);
	memcpy(turned + RECORD_BYTES, all, RECORD_BYTES);
	shared_check(&m, &l, &l, turned, 2L * RECORD_BYTES);
	must_fire("I5");
	shared_check(&m, &l, &l, all, RECORD_BYTES);
	must_fire("I1");
	shared_check(&m, &l, &l, all, 2L * RECORD_BYTES - 1);
	must_fire("I1");
	all[100] ^= 1;
	shared_check(&m, &l, &l, all, 2L * RECORD_BYTES);
	must_fire("I1");
}

static void i6_a_renamed_file_has_one_name(void **state)
{
	(void)state;
	clear();
	struct model_file f = there(7), to = {.path = "/g"};
	model_rename_begin(&m, &f, &to);
	model_rename_end(&m, &f, &to, -ETIME);
	model_check_twins(&m, &f, true, false);
	model_check_twins(&m, &f, false, true);
	must_pass();
	model_check_twins(&m, &f, true, true);
	must_fire("I6");
	model_check_twins(&m, &f, false, false);
	must_fire("I6");
	struct model_file fresh = {.path = "/new"};
	model_check_refusal(&m, &fresh, "create", -EEXIST);
	must_fire("I6");
}

static void i6_of_a_file_and_what_it_is_renamed_onto_one_is_there(void **state)
{
	(void)state;
	clear();
	uint8_t old[SIZE], new[SIZE];
	text_fill(7, 0, new, SIZE);
	text_fill(8, 0, old, SIZE);
	struct model_file f = there(7), to = there(8), before = to;
	model_rename_onto_begin(&m, &f, &to);
	model_rename_onto_end(&m, &f, &to, -ETIME);
	model_check_read(&m, &before, &to, SIZE, new, true);
	model_check_read(&m, &before, &to, SIZE, old, true);
	model_check_onto(&m, &f, true, old, SIZE);
	model_check_onto(&m, &f, false, new, SIZE);
	must_pass();
	model_check_onto(&m, &f, true, new, SIZE);
	must_fire("I6");
	model_check_onto(&m, &f, false, old, SIZE);
	must_fire("I6");
}

static void i3_a_file_that_was_renamed_onto_another_is_gone(void **state)
{
	(void)state;
	clear();
	struct model_file f = there(7), to = there(8);
	model_rename_onto_begin(&m, &f, &to);
	model_rename_onto_end(&m, &f, &to, 0);
	text_fill(7, 0, bytes, SIZE);
	model_check_read(&m, &to, &to, SIZE, bytes, true);
	must_pass();
	model_check_read(&m, &f, &f, SIZE, bytes, true);
	must_fire("I3");
	text_fill(8, 0, bytes, SIZE);
	model_check_read(&m, &to, &to, SIZE, bytes, true);
	must_fire("I1");
}

static void i6_directories_are_where_they_were_moved(void **state)
{
	(void)state;
	clear();
	struct model_dir a = {.path = "/a", .there = true}, b = {.path = "/b"}, c = {.path = "/c"};
	model_check_dir(&m, &a, true, false);
	model_check_dir(&m, &b, false, false);
	c.in_doubt = true;
	model_check_dir(&m, &c, true, false);
	model_check_dir(&m, &c, false, false);
	must_pass();
	model_check_dir(&m, &a, false, false);
	must_fire("I1");
	model_check_dir(&m, &b, true, false);
	must_fire("I3");
	a.in_doubt = b.in_doubt = true;
	a.twin = &b;
	b.twin = &a;
	model_check_dir(&m, &a, true, false);
	model_check_dir(&m, &b, true, false);
	must_pass();
	model_check_dir(&m, &a, true, true);
	must_fire("I6");
	model_check_dir(&m, &a, false, false);
	must_fire("I6");
	struct model_file fresh = {.path = "/a/new"};
	model_check_refusal(&m, &fresh, "create", -ENOENT);
	must_fire("I6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(i1_what_was_acknowledged_reads_back),
		cmocka_unit_test(i1_a_replaced_file_has_one_of_both_contents),
		cmocka_unit_test(i1_a_log_keeps_what_was_acknowledged),
		cmocka_unit_test(i3_what_was_deleted_stays_deleted),
		cmocka_unit_test(i4_what_is_sealed_does_not_change),
		cmocka_unit_test(i5_a_fenced_writer_adds_nothing),
		cmocka_unit_test(i5_records_are_there_once_and_in_order),
		cmocka_unit_test(i6_a_renamed_file_has_one_name),
		cmocka_unit_test(i6_of_a_file_and_what_it_is_renamed_onto_one_is_there),
		cmocka_unit_test(i3_a_file_that_was_renamed_onto_another_is_gone),
		cmocka_unit_test(i6_directories_are_where_they_were_moved),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
