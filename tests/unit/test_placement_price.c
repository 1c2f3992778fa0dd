// SPDX-License-Identifier: Apache-2.0
/* The price of flash: worked example, bounds, and times that make no sense. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "placement/price.h"

static const struct price_config simple = {
	.categories = 15, .goal = 0.5, .span = 5, .settle_s = 14400, .begin = 1};

static void near(double got, double want)
{
	if (!(fabs(got - want) < 1e-9))
		fail_msg("got %.12g, want %.12g", got, want);
}

static void the_example_of_the_header_holds(void **state)
{
	struct price p;
	assert_int_equal(price_init(&p, &simple), 0);
	p.level = 8;
	near(price_limit(&p, 8), 0.5);
	near(price_limit(&p, 10), 0.9);
	near(price_limit(&p, 11), 1);
	near(price_limit(&p, 5), 0);
	price_move(&p, 100, 0.5);
	price_move(&p, 3700, 1); /* an hour */
	near(p.level, 8 + 5 * 0.5 / 4);
	price_move(&p, 7300, 0.5);
	near(p.level, 8.625); /* at the goal it stays */
}

static void better_categories_may_always_use_more_and_category_0_nothing(void **state)
{
	struct price p;
	struct rng rng;
	double now_s = 0;
	rng_init(&rng, 3);
	assert_int_equal(price_init(&p, &price_default), 0);
	for (int i = 0; i < 2000; i++) {
		now_s += rng_exponential(&rng, 600);
		price_move(&p, now_s, rng_unit(&rng) * 2 - 0.5);
		assert_true(p.level >= 1 - p.config.span && p.level <= 14 + p.config.span);
		assert_true(price_limit(&p, 0) <= 0 && price_limit(&p, -1) <= 0);
		for (int c = 1; c < 15; c++) {
			assert_true(price_limit(&p, c) >= price_limit(&p, c - 1));
			assert_true(price_limit(&p, c) >= 0 && price_limit(&p, c) <= 1);
		}
	}
}

static void an_empty_flash_opens_to_all_and_a_full_one_to_none_but_the_best(void **state)
{
	struct price p;
	assert_int_equal(price_init(&p, &simple), 0);
	for (int i = 0; i < 200; i++)
		price_move(&p, i * 3600, 0);
	near(price_limit(&p, 1), 1);
	for (int i = 200; i < 400; i++)
		price_move(&p, i * 3600, 1);
	near(price_limit(&p, 14), 0);
	for (int i = 400; i < 440; i++) /* it turns round within hours */
		price_move(&p, i * 3600, 0);
	assert_true(price_limit(&p, 14) > 0.9);
}

static void times_and_uses_that_make_no_sense_change_little(void **state)
{
	struct price p;
	const double odd[] = {NAN, INFINITY, -INFINITY, -1, 1e300};
	assert_int_equal(price_init(&p, &simple), 0);
	price_move(&p, 1000, 0.5);
	price_move(&p, 500, 1); /* time goes back: nothing passes */
	near(p.level, 1);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		double before = p.level;
		price_move(&p, odd[i], 0.5);
		price_move(&p, 1000 + (double)i, odd[i]);
		assert_true(isfinite(p.level) && fabs(p.level - before) <= p.config.span);
	}
	/* A long silence counts as one settling time. */
	assert_int_equal(price_init(&p, &simple), 0);
	price_move(&p, 0, 1);
	price_move(&p, 1e9, 1);
	near(p.level, 1 + 5 * 0.5);
}

static void refuses_configurations_out_of_range(void **state)
{
	struct price p;
	const struct price_config bad[] = {
		{1, 0.5, 5, 100, 1},    {65, 0.5, 5, 100, 1},   {15, -0.1, 5, 100, 1},
		{15, 1.1, 5, 100, 1},   {15, NAN, 5, 100, 1},   {15, 0.5, 0, 100, 1},
		{15, 0.5, NAN, 100, 1}, {15, 0.5, 5, 0, 1},     {15, 0.5, 5, INFINITY, 1},
		{15, 0.5, 5, 100, 0},   {15, 0.5, 5, 100, NAN},
	};
	const struct price_config good = {4, 0.5, 5, 100, 7};
	assert_int_equal(price_init(&p, &good), 0);
	near(p.level, 3); /* the best of its categories */
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(price_init(&p, &bad[i]), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_of_the_header_holds),
		cmocka_unit_test(better_categories_may_always_use_more_and_category_0_nothing),
		cmocka_unit_test(an_empty_flash_opens_to_all_and_a_full_one_to_none_but_the_best),
		cmocka_unit_test(times_and_uses_that_make_no_sense_change_little),
		cmocka_unit_test(refuses_configurations_out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
