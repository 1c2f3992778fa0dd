// SPDX-License-Identifier: Apache-2.0
/* The audit log as a file: every record is one line, floods and full disks lose records but tell how many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rt/file.h"
#include "secure/audit_log.h"
#include "sim_disk_fixture.h"
#include "sim_test.h"

#define PATH "/d0/audit.log"

static void add(struct audit_log *a, enum audit_event e, const char *who)
{
	audit_log_add(a, &(struct audit_record){
				 .event = e, .who = who, .from = "n2:1", .outcome = "done"});
}

static struct audit_log *open_log(uint64_t file_bytes, unsigned files)
{
	struct audit_log *a = NULL;
	CHECK_EQ(audit_log_open(&a, &(struct audit_log_options){.path = PATH,
								.file_bytes = file_bytes,
								.files = files}),
		 0);
	return a;
}

/* Returns the text of a file; "" if it does not exist. The caller frees it. */
static char *read_all(const char *path)
{
	struct rt_file *f = NULL;
	uint64_t size = 0;
	if (rt_file_open(&f, path, RT_READ) < 0)
		return strdup("");
	CHECK_EQ(rt_file_size(f, &size), 0);
	char *text = calloc(1, size + 1);
	CHECK(text != NULL);
	CHECK_EQ(rt_file_read(f, text, size, 0), (int64_t)size);
	rt_file_close(f);
	return text;
}

static size_t lines_of(const char *path)
{
	AUTO_FREE char *text = read_all(path);
	size_t n = 0;
	for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
		n++;
	return n;
}

SIM_TEST(records_are_lines_and_are_kept_over_a_restart, .disk_bytes = 64 * MIB)
{
	struct audit_log *a = open_log(0, 0);
	add(a, AUDIT_KEY_CHANGED, "alice");
	add(a, AUDIT_PERMISSION_REFUSED, "bob\n{\"who\":\"root\"}");
	audit_log_close(a);
	a = open_log(0, 0);
	add(a, AUDIT_OPERATOR_COMMAND, "carol");
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	AUTO_FREE char *text = read_all(PATH); /* written without a close */
	CHECK(lines_of(PATH) == 3);
	CHECK(strstr(text, "\"key-changed\",\"who\":\"alice\"") != NULL);
	CHECK(strstr(text, "bob\\u000a{\\\"who\\\"") != NULL);
	CHECK(strstr(text, "\"carol\"") > strstr(text, "\"alice\""));
	struct audit_log_stats s;
	audit_log_stats(a, &s);
	CHECK(s.written == 1 && s.dropped == 0);
	audit_log_close(a);
}

SIM_TEST(files_are_rotated_and_their_number_is_bounded, .disk_bytes = 64 * MIB)
{
	struct audit_log *a = open_log(4096, 3);
	for (unsigned i = 0; i < 300; i++) {
		char who[16];
		snprintf(who, sizeof(who), "user-%u", i);
		add(a, AUDIT_GRANT_CHANGED, who);
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	}
	audit_log_close(a);
	CHECK(lines_of(PATH) > 0 && lines_of(PATH ".1") > 10 && lines_of(PATH ".2") > 10);
	CHECK(lines_of(PATH ".3") == 0);
	AUTO_FREE char *last = read_all(PATH);
	AUTO_FREE char *before = read_all(PATH ".1");
	CHECK(strstr(last, "user-299\"") != NULL && strlen(before) <= 4096);
}

SIM_TEST(a_flood_of_refused_logins_leaves_room_for_others, .disk_bytes = 64 * MIB)
{
	struct audit_log *a = open_log(0, 0);
	/* the begin of a second */
	uint64_t now_ns = rt_wall_ns();
	CHECK_EQ(rt_sleep_ns(NS_PER_S - now_ns % NS_PER_S), 0);
	for (unsigned i = 0; i < 1000; i++)
		add(a, AUDIT_LOGIN_REFUSED, "mallory");
	add(a, AUDIT_KEY_CHANGED, "alice");
	audit_log_close(a);
	AUTO_FREE char *text = read_all(PATH);
	CHECK(lines_of(PATH) == AUDIT_REFUSALS_PER_S + 2);
	CHECK(strstr(text, "\"dropped\"") != NULL && strstr(text, "950 records") != NULL);
	CHECK(strstr(text, "\"alice\"") > strstr(text, "950 records"));
}

SIM_TEST(what_does_not_fit_is_counted, .disk_bytes = 64 * MIB)
{
	struct audit_log *a = open_log(0, 0);
	struct audit_log_stats s;
	/* no wait in between: the writer does not run */
	for (unsigned i = 0; i < 10000; i++)
		add(a, AUDIT_PERMISSION_REFUSED, "bob");
	audit_log_stats(a, &s);
	CHECK(s.dropped > 1000 && s.dropped < 10000);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	add(a, AUDIT_KEY_CHANGED, "alice");
	audit_log_close(a);
	AUTO_FREE char *text = read_all(PATH);
	char want[64];
	snprintf(want, sizeof(want), "\"detail\":\"%lu records\"", s.dropped);
	CHECK(strstr(text, want) != NULL);
	CHECK(lines_of(PATH) == 10000 - s.dropped + 2);
}

SIM_TEST(a_full_disk_stops_nothing_but_the_log, .disk_bytes = 64 * KIB)
{
	struct audit_log *a = open_log(0, 0);
	struct audit_log_stats s;
	for (unsigned i = 0; i < 50; i++) {
		for (unsigned k = 0; k < 40; k++)
			add(a, AUDIT_GRANT_CHANGED, "alice");
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
	audit_log_stats(a, &s);
	CHECK(s.failures > 0 && s.dropped > 0 && s.written > 0);
	audit_log_close(a);
}

/* --- a loss of power ------------------------------------------------------------------------------- */

static size_t lines_of_all(void)
{
	return lines_of(PATH) + lines_of(PATH ".1") + lines_of(PATH ".2");
}

static void close_and_count(struct fixture *fx, uint64_t life)
{
	if (life > 1) {
		CHECK_EQ(lines_of_all(), 10);
		return;
	}
	(void)fx;
	struct audit_log *a = open_log(0, 0);
	for (unsigned i = 0; i < 10; i++)
		add(a, AUDIT_GRANT_CHANGED, "alice");
	audit_log_close(a);
}

/* Adds records until the log has rotated its file once, and leaves the log open. */
static void rotate_and_count(struct fixture *fx, uint64_t life)
{
	if (life > 1) {
		CHECK(lines_of_all() >= fx->numbers[0]);
		return;
	}
	struct audit_log *a = open_log(4096, 3);
	while ((fx->numbers[0] = lines_of(PATH ".1")) == 0) {
		add(a, AUDIT_GRANT_CHANGED, "alice");
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	}
	fx->done_life = life;
	rt_shutdown_wait(); /* the loss of power */
	audit_log_close(a);
}

static void records_of_closed_and_rotated_files_survive_a_loss_of_power(void **state)
{
	(void)state;
	struct fixture fx;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		fixture_open(&fx, seed, seed % 2 == 0 ? close_and_count : rotate_and_count);
		fixture_run_crash(&fx, true);
	}
}

int main(void)
{
	log_set_level(LOG_OFF);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_lines_and_are_kept_over_a_restart),
		cmocka_unit_test(files_are_rotated_and_their_number_is_bounded),
		cmocka_unit_test(a_flood_of_refused_logins_leaves_room_for_others),
		cmocka_unit_test(what_does_not_fit_is_counted),
		cmocka_unit_test(a_full_disk_stops_nothing_but_the_log),
		cmocka_unit_test(records_of_closed_and_rotated_files_survive_a_loss_of_power),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
