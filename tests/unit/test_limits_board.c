// SPDX-License-Identifier: Apache-2.0
/* The sums of the clients' counters. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "limits/board.h"

#define NOW (1000 * NS_PER_S)

static struct board *open_board(size_t clients_max)
{
	struct board *b;
	assert_int_equal(board_open(&b, clients_max), 0);
	return b;
}

static void report(struct board *b, uint64_t client, uint32_t group, double demand, double weight,
		   uint64_t now_ns)
{
	struct limits_counter c = {.group = group, .demand = demand, .weight = weight};
	assert_int_equal(board_report(b, client, 0, &c, 1, now_ns), 0);
}

/* Returns the sum of a group, or zeros. */
static struct limits_counter sum_of(const struct board *b, size_t resource, uint32_t group)
{
	struct limits_counter all[LIMITS_GROUPS_MAX];
	size_t n = board_sums(b, resource, all, LIMITS_GROUPS_MAX);
	for (size_t i = 0; i < n; i++)
		if (all[i].group == group)
			return all[i];
	return (struct limits_counter){.group = group};
}

static void a_report_replaces_the_one_before(void **state)
{
	struct board *b = open_board(0);
	report(b, 1, 7, 100, 1, NOW);
	report(b, 2, 7, 50.5, 0.25, NOW);
	assert_true(sum_of(b, 0, 7).demand == 150.5);
	assert_true(sum_of(b, 0, 7).weight == 1.25);
	report(b, 1, 7, 10, 0.5, NOW + 1);
	assert_true(sum_of(b, 0, 7).demand == 60.5);
	assert_true(sum_of(b, 0, 7).weight == 0.75);
	assert_true(sum_of(b, 1, 7).demand == 0); /* the other resource */
	report(b, 1, 8, 3, 1, NOW + 2);
	assert_true(sum_of(b, 0, 7).demand == 50.5);
	assert_true(sum_of(b, 0, 8).demand == 3);
	struct limits_counter c = {.group = 9, .waiting = 7, .throttled = 2.5};
	assert_int_equal(board_report(b, 1, 0, &c, 1, NOW + 3), 0);
	assert_int_equal(board_report(b, 2, 0, &c, 1, NOW + 3), 0);
	assert_true(sum_of(b, 0, 9).waiting == 14 && sum_of(b, 0, 9).throttled == 5);
	board_close(b);
}

static void a_silent_client_counts_no_longer(void **state)
{
	struct board *b = open_board(0);
	report(b, 1, 7, 100, 1, NOW);
	report(b, 2, 7, 11, 1, NOW + BOARD_SILENT_NS / 2);
	board_expire(b, NOW + BOARD_SILENT_NS - 1);
	assert_int_equal(board_clients(b), 2);
	board_expire(b, NOW + BOARD_SILENT_NS);
	assert_int_equal(board_clients(b), 1);
	assert_true(sum_of(b, 0, 7).demand == 11);
	assert_int_equal(board_report(b, 2, 0, NULL, 0, NOW + BOARD_SILENT_NS), 0);
	struct limits_counter any;
	assert_int_equal(board_sums(b, 0, &any, 1), 0);
	board_close(b);
}

static void bad_reports_change_nothing(void **state)
{
	struct board *b = open_board(2);
	struct limits_counter twice[] = {{.group = 7, .demand = 1}, {.group = 7, .demand = 1}};
	struct limits_counter none = {.group = 0, .demand = 1};
	static struct limits_counter many[LIMITS_GROUPS_MAX + 1];
	report(b, 1, 7, 5, 1, NOW);
	assert_int_equal(board_report(b, 1, 0, twice, 2, NOW), -EINVAL);
	assert_int_equal(board_report(b, 1, 0, &none, 1, NOW), -EINVAL);
	assert_int_equal(board_report(b, 0, 0, twice, 1, NOW), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i].group = (uint32_t)i + 100;
	assert_int_equal(board_report(b, 1, 0, many, ARRAY_LEN(many), NOW), -EINVAL);
	assert_int_equal(board_report(b, 2, 0, many, LIMITS_GROUPS_MAX, NOW), -ENOSPC);
	report(b, 2, 7, 5, 1, NOW);
	assert_int_equal(board_report(b, 3, 0, twice, 1, NOW), -ENOSPC); /* clients_max */
	assert_true(sum_of(b, 0, 7).demand == 10);
	assert_int_equal(board_clients(b), 2);
	board_close(b);
}

static void numbers_that_are_none_count_as_nothing(void **state)
{
	struct board *b = open_board(0);
	report(b, 1, 7, NAN, NAN, NOW);
	report(b, 2, 7, -5, -1, NOW);
	assert_true(sum_of(b, 0, 7).demand == 0 && sum_of(b, 0, 7).weight == 0);
	for (uint64_t i = 0; i < 1000; i++)
		report(b, 100 + i, 7, INFINITY, INFINITY, NOW);
	assert_true(sum_of(b, 0, 7).demand == 1000 * (double)BOARD_DEMAND_MAX);
	assert_true(sum_of(b, 0, 7).weight == 1000);
	board_close(b);
}

/* After any order of reports and silences the sums are those of the last reports. */
static void sums_are_exact_for_random_reports(void **state)
{
	enum { CLIENTS = 40, GROUPS = 6, STEPS = 20000 };
	struct board *b = open_board(0);
	struct rng rng;
	static double demand[CLIENTS][GROUPS];
	uint64_t heard[CLIENTS] = {0}, now_ns = NOW;
	rng_init(&rng, 5);
	for (int step = 0; step < STEPS; step++) {
		size_t k = rng_below(&rng, CLIENTS), n = 0;
		struct limits_counter c[GROUPS];
		now_ns += rng_below(&rng, BOARD_SILENT_NS / 10);
		for (uint32_t g = 0; g < GROUPS; g++) {
			demand[k][g] = rng_below(&rng, 2) ? (double)rng_below(&rng, 1000) / 8 : 0;
			if (demand[k][g] > 0)
				c[n++] = (struct limits_counter){
					.group = g + 1, .demand = demand[k][g], .weight = 1};
		}
		assert_int_equal(board_report(b, k + 1, 0, c, n, now_ns), 0);
		heard[k] = now_ns;
		if (step % 50 != 0)
			continue;
		for (uint32_t g = 0; g < GROUPS; g++) {
			double want = 0;
			for (size_t i = 0; i < CLIENTS; i++)
				if (heard[i] != 0 && heard[i] + BOARD_SILENT_NS > now_ns)
					want += demand[i][g];
			assert_true(sum_of(b, 0, g + 1).demand == want);
		}
	}
	board_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_report_replaces_the_one_before),
		cmocka_unit_test(a_silent_client_counts_no_longer),
		cmocka_unit_test(bad_reports_change_nothing),
		cmocka_unit_test(numbers_that_are_none_count_as_nothing),
		cmocka_unit_test(sums_are_exact_for_random_reports),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
