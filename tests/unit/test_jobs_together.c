// SPDX-License-Identifier: Apache-2.0
/* Where jobs join the windows of a data set, and when they wait for others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "jobs/together.h"

#define WINDOWS 10u

static uint32_t join(uint32_t own, const uint32_t *others, size_t n)
{
	return together_join(others, n, WINDOWS, own);
}

static void a_job_that_is_alone_keeps_its_own_window(void **state)
{
	for (uint32_t own = 0; own < WINDOWS; own++)
		assert_int_equal(join(own, NULL, 0), own);
}

static void a_new_job_joins_where_most_of_the_others_are(void **state)
{
	const uint32_t together[] = {4, 4, 3}, spread[] = {7, 4, 4, 3}, one[] = {6};
	assert_int_equal(join(0, together, 3), 4);
	assert_int_equal(join(0, spread, 4), 4);
	assert_int_equal(join(0, one, 1), 6);
	/* two groups of the same size: the next one */
	const uint32_t two[] = {2, 2, 7, 7};
	assert_int_equal(join(5, two, 4), 7);
	assert_int_equal(join(8, two, 4), 2);
}

static void a_job_that_goes_round_with_the_others_keeps_its_next_window(void **state)
{
	const uint32_t others[] = {9, 9, 8};
	assert_int_equal(join(0, others, 3), 0); /* one ahead: the window that is read ahead */
	assert_int_equal(join(9, others, 3), 9);
	assert_int_equal(join(8, others, 3), 8); /* still there, because another job reads it */
	assert_int_equal(join(7, others, 3), 9); /* dropped: nobody reads it */
	assert_int_equal(join(1, others, 3), 9); /* too far ahead */
}

static void a_job_waits_only_for_those_two_windows_behind(void **state)
{
	for (uint32_t enters = 0; enters < WINDOWS; enters++)
		for (uint32_t other = 0; other < WINDOWS; other++)
			assert_int_equal(together_waits(&other, 1, WINDOWS, enters),
					 (enters + WINDOWS - other) % WINDOWS == 2);
	const uint32_t other = 0;
	assert_false(together_waits(&other, 1, TOGETHER_WINDOWS_MIN - 1, 2));
	assert_false(together_waits(NULL, 0, WINDOWS, 2));
}

static void jobs_never_all_wait(void **state)
{
	struct rng rng;
	rng_init(&rng, 17);
	for (int run = 0; run < 2000; run++) {
		uint32_t windows = TOGETHER_WINDOWS_MIN + (uint32_t)rng_below(&rng, 8);
		uint32_t at[6], n = 2 + (uint32_t)rng_below(&rng, 5), base;
		base = (uint32_t)rng_below(&rng, windows);
		for (uint32_t i = 0; i < n; i++)
			at[i] = (base + (uint32_t)rng_below(&rng, windows / 2)) % windows;
		uint32_t free = 0;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t others[6], k = 0;
			for (uint32_t j = 0; j < n; j++)
				if (j != i)
					others[k++] = at[j];
			free += !together_waits(others, k, windows, (at[i] + 1) % windows);
		}
		assert_true(free > 0);
	}
}

static void patience_is_a_share_of_the_time_of_a_window(void **state)
{
	assert_true(together_patience(0) == 0);
	assert_true(together_patience(100) == 100 * TOGETHER_PATIENCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_that_is_alone_keeps_its_own_window),
		cmocka_unit_test(a_new_job_joins_where_most_of_the_others_are),
		cmocka_unit_test(a_job_that_goes_round_with_the_others_keeps_its_next_window),
		cmocka_unit_test(a_job_waits_only_for_those_two_windows_behind),
		cmocka_unit_test(jobs_never_all_wait),
		cmocka_unit_test(patience_is_a_share_of_the_time_of_a_window),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
