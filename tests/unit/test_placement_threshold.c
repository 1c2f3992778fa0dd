// SPDX-License-Identifier: Apache-2.0
/* The adaptive threshold and categories: numbers computed by hand, invariants under random use. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "placement/category.h"
#include "placement/threshold.h"

static const struct threshold_config config = {
	.categories = 5, .window_s = 640, .interval_s = 10, .low = 0.1, .high = 0.2};

static struct threshold begin(void)
{
	struct threshold t;
	assert_int_equal(threshold_init(&t, &config), 0);
	return t;
}

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9))
		fail_msg("got %.17g, want %.17g", got, want);
}

static void category_0_and_files_without_a_category_stay_on_disk(void **state)
{
	struct threshold t = begin();
	assert_false(threshold_admit(&t, 0, 0));
	assert_false(threshold_admit(&t, 1, THRESHOLD_UNKNOWN));
	assert_true(threshold_admit(&t, 2, 1));
	assert_true(threshold_admit(&t, 3, 4));
}

static void spill_above_the_range_raises_the_threshold_by_one_for_each_interval(void **state)
{
	struct threshold t = begin();
	threshold_admit(&t, 0, 1);
	threshold_add(&t, 0, 1, 0.5);
	threshold_add(&t, 0, 1, 0.0);
	near(threshold_spill(&t, 0), 0.25);
	threshold_admit(&t, 9.9, 1);
	assert_int_equal(t.level, 1);
	assert_false(threshold_admit(&t, 10, 1));
	assert_int_equal(t.level, 2);
	threshold_admit(&t, 15, 1);
	assert_int_equal(t.level, 2);
	for (int s = 20; s < 200; s += 10)
		threshold_admit(&t, s, 1);
	assert_int_equal(t.level, 4);
	assert_true(threshold_admit(&t, 201, 4));
}

static void spill_within_the_range_keeps_the_threshold(void **state)
{
	struct threshold t = begin();
	threshold_add(&t, 0, 1, 0.15);
	t.level = 3;
	for (int s = 0; s < 600; s += 10)
		threshold_admit(&t, s, 1);
	assert_int_equal(t.level, 3);
}

static void an_idle_flash_opens_up_as_spill_is_then_0(void **state)
{
	struct threshold t = begin();
	threshold_add(&t, 0, 1, 1);
	for (int s = 0; s < 50; s += 10)
		threshold_admit(&t, s, 1);
	assert_int_equal(t.level, 4);
	/* The job leaves the window, so nothing was meant for flash. */
	near(threshold_spill(&t, 700), 0);
	for (int s = 700; s < 740; s += 10)
		threshold_admit(&t, s, 1);
	assert_int_equal(t.level, 1);
}

static void only_jobs_that_started_in_the_window_count(void **state)
{
	struct threshold t = begin();
	threshold_admit(&t, 1000, 1);
	threshold_add(&t, 300, 1, 1);
	near(threshold_spill(&t, 1000), 0);
	threshold_add(&t, 500, 3, 0);
	threshold_add(&t, 1000, 1, 1);
	near(threshold_spill(&t, 1000), 0.25);
	/* A start in the future, such as that of a clock that is ahead, counts at the present. */
	threshold_add(&t, 1e9, 4, 0);
	near(threshold_spill(&t, 1000), 0.125);
}

static void absurd_loads_shares_and_times_do_no_harm(void **state)
{
	static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 1e308, 0, 5e-324};
	struct threshold t = begin();
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		for (size_t j = 0; j < ARRAY_LEN(odd); j++)
			for (size_t k = 0; k < ARRAY_LEN(odd); k++) {
				threshold_add(&t, odd[i], odd[j], odd[k]);
				threshold_admit(&t, odd[i], (int)i - 2);
				double spill = threshold_spill(&t, odd[k]);
				assert_true(spill >= 0 && spill <= 1);
			}
}

static void the_level_stays_in_range_and_moves_by_one(void **state)
{
	struct rng rng;
	rng_init(&rng, 7);
	struct threshold t = begin();
	double now = 0;
	for (int i = 0; i < 20000; i++) {
		uint32_t before = t.level;
		double decided = t.last_s;
		now += rng_exponential(&rng, 5) - 1;
		bool admitted = threshold_admit(&t, now, (int)rng_below(&rng, 5));
		if (admitted)
			threshold_add(&t, now, rng_unit(&rng), rng_chance(&rng, 0.3));
		assert_in_range(t.level, 1, config.categories - 1);
		int moved = (int)t.level - (int)before;
		assert_in_range(moved + 1, 0, 2);
		if (moved != 0 && i > 0)
			assert_true(t.last_s >= decided + config.interval_s);
	}
}

static void refuses_configurations_out_of_range(void **state)
{
	struct threshold t;
	for (int i = 0; i < 8; i++) {
		struct threshold_config c = config;
		switch (i) {
		case 0:
			c.categories = 1;
			break;
		case 1:
			c.categories = THRESHOLD_CATEGORIES_MAX + 1;
			break;
		case 2:
			c.window_s = 0;
			break;
		case 3:
			c.window_s = NAN;
			break;
		case 4:
			c.interval_s = -1;
			break;
		case 5:
			c.low = 0.3;
			break;
		case 6:
			c.high = 1.1;
			break;
		default:
			c.low = NAN;
			break;
		}
		assert_int_equal(threshold_init(&t, &c), -EINVAL);
	}
}

static void classes_of_equal_depth_hold_equally_many_samples(void **state)
{
	struct category_sample samples[100];
	struct category_cuts cuts;
	uint32_t count[5] = {0};
	for (int i = 0; i < 100; i++)
		samples[i] = (struct category_sample){(i * 37) % 100, 1};
	category_fit(&cuts, 5, 1, samples, 100);
	for (int i = 0; i < 100; i++)
		count[category_of(&cuts, 1, i)]++;
	assert_int_equal(count[0], 0);
	for (int k = 1; k < 5; k++)
		assert_in_range(count[k], 24, 26);
	assert_int_equal(category_of(&cuts, -1, 99), 0);
	assert_int_equal(category_of(&cuts, NAN, 99), 0);
	assert_int_equal(category_of(&cuts, 1, INFINITY), 4);
	assert_int_equal(category_of(&cuts, 0, -1), 1);
	assert_int_equal(category_of(&cuts, 1, NAN), 1);
}

static void upper_classes_hold_smaller_shares_of_the_weight(void **state)
{
	struct category_sample samples[] = {{2, 27}, {8, 1}, {4, 9}, {6, 3}};
	struct category_cuts cuts;
	category_fit(&cuts, 4, 3, samples, ARRAY_LEN(samples));
	near(cuts.cut[1], 6);
	near(cuts.cut[0], 4);
	assert_int_equal(category_of(&cuts, 1, 7), 3);
	assert_int_equal(category_of(&cuts, 1, 4), 2);
	assert_int_equal(category_of(&cuts, 1, 2), 1);
}

static void cuts_without_samples_are_defined(void **state)
{
	struct category_cuts cuts;
	category_fit(&cuts, 15, 1, NULL, 0);
	assert_int_equal(category_of(&cuts, 1, -1), 1);
	assert_int_equal(category_of(&cuts, 1, 1), 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(category_0_and_files_without_a_category_stay_on_disk),
		cmocka_unit_test(
			spill_above_the_range_raises_the_threshold_by_one_for_each_interval),
		cmocka_unit_test(spill_within_the_range_keeps_the_threshold),
		cmocka_unit_test(an_idle_flash_opens_up_as_spill_is_then_0),
		cmocka_unit_test(only_jobs_that_started_in_the_window_count),
		cmocka_unit_test(absurd_loads_shares_and_times_do_no_harm),
		cmocka_unit_test(the_level_stays_in_range_and_moves_by_one),
		cmocka_unit_test(refuses_configurations_out_of_range),
		cmocka_unit_test(classes_of_equal_depth_hold_equally_many_samples),
		cmocka_unit_test(upper_classes_hold_smaller_shares_of_the_weight),
		cmocka_unit_test(cuts_without_samples_are_defined),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
