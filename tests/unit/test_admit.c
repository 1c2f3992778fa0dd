// SPDX-License-Identifier: Apache-2.0
/* Admission: how many queries a partition takes, and when refused queries are sent again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "meta/admit.h"

static void a_burst_is_admitted_and_the_rate_limits_after_it(void **state)
{
	(void)state;
	struct admit a;
	assert_int_equal(admit_init(&a, 1000, 50), 0);
	uint64_t now_ns = 5 * NS_PER_S, passed = 0;
	for (int i = 0; i < 200; i++)
		passed += admit_ask(&a, 7, 1, now_ns) == 0;
	assert_int_equal(passed, 50);
	passed = 0;
	for (int i = 0; i < 4000; i++) { /* 4000 steps of 500 us: two seconds */
		now_ns += 500 * NS_PER_US;
		passed += admit_ask(&a, 7, 1, now_ns) == 0;
	}
	assert_in_range(passed, 1990, 2010);
	/* Other partitions are not limited. */
	assert_int_equal(admit_ask(&a, 8, 1, now_ns), 0);
	admit_fini(&a);
}

static void retry_times_spread_refused_queries_over_the_time_they_need(void **state)
{
	(void)state;
	struct admit a;
	uint64_t now_ns = NS_PER_S;
	assert_int_equal(admit_init(&a, 1000, 10), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(admit_ask(&a, 7, 1, now_ns), 0);
	uint32_t last = 0;
	for (int i = 0; i < 400; i++) {
		uint32_t ms = admit_ask(&a, 7, 1, now_ns);
		assert_true(ms >= last && ms >= 1);
		last = ms;
	}
	assert_in_range(last, 390, 410);
	/* Each query is sent again at its retry time, and nearly all are admitted then. */
	uint32_t refused = 0;
	for (int i = 1; i <= 400; i++)
		refused += admit_ask(&a, 7, 1, now_ns + (uint64_t)(i + 1) * NS_PER_MS) != 0;
	assert_true(refused < 10);
	admit_fini(&a);
}

static void no_retry_time_exceeds_the_limit(void **state)
{
	(void)state;
	struct admit a;
	assert_int_equal(admit_init(&a, 10, 1), 0);
	for (int i = 0; i < 1000; i++)
		assert_true(admit_ask(&a, 1, 1, NS_PER_S) <= ADMIT_RETRY_MAX_MS);
	/* A query that costs more than the burst is admitted, too, if the bucket is full. */
	assert_int_equal(admit_ask(&a, 2, 1000, NS_PER_S), 0);
	admit_fini(&a);
}

static void without_a_rate_every_query_is_admitted(void **state)
{
	(void)state;
	struct admit a;
	assert_int_equal(admit_init(&a, 0, 0), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(admit_ask(&a, 1, 100, 0), 0);
	admit_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_is_admitted_and_the_rate_limits_after_it),
		cmocka_unit_test(retry_times_spread_refused_queries_over_the_time_they_need),
		cmocka_unit_test(no_retry_time_exceeds_the_limit),
		cmocka_unit_test(without_a_rate_every_query_is_admitted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
