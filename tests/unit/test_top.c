// SPDX-License-Identifier: Apache-2.0
/* The rates of `terrane top`, computed from two answers of each server. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/top.h"

static struct top_use use(const char *group, uint64_t ios, uint64_t disk_ns)
{
	struct top_use u = {.sums = {[TOP_IOS] = ios, [TOP_DISK_NS] = disk_ns}};
	memcpy(u.group, group, strlen(group) + 1);
	return u;
}

/* An answer at a time. The uses belong to the caller. */
static struct top_answer answer(uint64_t s, struct top_use *uses, size_t n)
{
	return (struct top_answer){.ns = s * NS_PER_S, .uses = uses, .count = n};
}

static const struct top_rate *rate(const struct top_rates *r, const char *group)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->list[i].group, group) == 0)
			return &r->list[i];
	return NULL;
}

static void servers_add_up_over_their_own_time(void **state)
{
	struct top_use a0 = use("t/g", 100, 0), a1 = use("t/g", 300, NS_PER_S);
	struct top_use b1[] = {use("t/g", 40, 0), use("t/h", 10, 4 * NS_PER_S)};
	a1.waiting = 3;
	b1[0].waiting = 4;
	b1[0].throttled = 2.5;
	b1[0].sums[TOP_REFUSED] = 8;
	const struct top_server servers[] = {
		{.before = answer(10, &a0, 1), .after = answer(12, &a1, 1)},
		{.before = answer(10, NULL, 0), .after = answer(14, b1, 2)},
	};
	struct top_rates r;
	assert_int_equal(top_rates(servers, 2, &r), 0);
	assert_int_equal(r.silent, 0);
	assert_int_equal(r.count, 2);
	const struct top_rate *g = rate(&r, "t/g");
	assert_non_null(g);
	assert_true(g->per_s[TOP_IOS] == 100 + 10 && g->per_s[TOP_DISK_NS] == 0.5 * 1e9);
	assert_true(g->waiting == 7 && g->throttled == 2.5 + 2);
	/* The group with most disk time is the first. */
	assert_string_equal(r.list[0].group, "t/h");
	top_rates_free(&r);
}

static void a_sum_that_became_smaller_began_again(void **state)
{
	struct top_use before = use("t/g", 1000, 0), after = use("t/g", 30, 0);
	const struct top_server s = {.before = answer(1, &before, 1),
				     .after = answer(2, &after, 1)};
	struct top_rates r;
	assert_int_equal(top_rates(&s, 1, &r), 0);
	assert_true(r.count == 1 && r.list[0].per_s[TOP_IOS] == 30);
	top_rates_free(&r);
}

static void servers_without_two_answers_are_counted_as_silent(void **state)
{
	struct top_use u = use("t/g", 5, 5);
	struct top_server s[4] = {
		{.after = answer(2, &u, 1)},
		{.before = answer(1, NULL, 0), .after = {.ns = 2 * NS_PER_S, .rc = -ETIME}},
		{.before = {.ns = NS_PER_S, .rc = -ETIME}, .after = answer(2, &u, 1)},
		{.before = answer(2, NULL, 0), .after = answer(2, &u, 1)},
	};
	struct top_rates r;
	assert_int_equal(top_rates(s, 4, &r), 0);
	assert_true(r.silent == 4 && r.servers == 4 && r.count == 0);
	top_rates_free(&r);
}

static void idle_groups_are_left_out_unless_they_wait(void **state)
{
	struct top_use u[] = {use("t/idle", 7, 7), use("t/waits", 7, 7)};
	u[1].waiting = 1;
	const struct top_server s = {.before = answer(1, u, 2), .after = answer(2, u, 2)};
	struct top_rates r;
	assert_int_equal(top_rates(&s, 1, &r), 0);
	assert_int_equal(r.count, 1);
	assert_string_equal(r.list[0].group, "t/waits");
	top_rates_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_add_up_over_their_own_time),
		cmocka_unit_test(a_sum_that_became_smaller_began_again),
		cmocka_unit_test(servers_without_two_answers_are_counted_as_silent),
		cmocka_unit_test(idle_groups_are_left_out_unless_they_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
