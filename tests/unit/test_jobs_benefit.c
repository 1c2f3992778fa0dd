// SPDX-License-Identifier: Apache-2.0
/* Shares of the cache by benefit: the exact choice against all choices, the paper's rule, hysteresis, hostile numbers. */
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
#include "jobs/benefit.h"

#define GB 1000000000ULL

static void savings_are_accelerators_that_need_not_wait(void **state)
{
	assert_true(benefit_saved(4, 500, 1000) == 2);
	assert_true(benefit_saved(4, 1000, 1000) == 0);
	assert_true(benefit_saved(4, 1500, 1000) ==
		    0); /* a cache that makes it slower saves nothing */
	assert_true(benefit_claimed(4, 1000, 1000) == 4);
	const double nonsense[] = {0, -1, NAN, INFINITY};
	for (size_t i = 0; i < ARRAY_LEN(nonsense); i++) {
		assert_true(benefit_saved(4, nonsense[i], 1000) == 0);
		assert_true(benefit_saved(4, 10, nonsense[i]) == 0);
		assert_true(benefit_claimed(4, 10, nonsense[i]) == 0);
	}
	assert_true(benefit_saved(NAN, 10, 1000) == 0 && benefit_saved(-1, 10, 1000) == 0);
}

/* The example of benefit.h. */
static const struct benefit_set example[] = {
	{.options = {{90 * GB, 4.0, 4.0}, {30 * GB, 3.5, 4.0}}, .count = 2},
	{.options = {{60 * GB, 2.0, 2.0}, {12 * GB, 0.5, 2.0}}, .count = 2},
};

static void the_exact_choice_beats_the_greedy_one(void **state)
{
	uint32_t choice[2];
	uint64_t bytes;
	assert_int_equal(benefit_exact(example, 2, 110 * GB, choice), 0);
	assert_int_equal(choice[0], 1);
	assert_int_equal(choice[1], 0);
	assert_true(benefit_of(example, 2, choice, &bytes) == 5.5);
	assert_int_equal(bytes, 90 * GB);
	assert_int_equal(benefit_greedy(example, 2, 110 * GB, choice), 0);
	assert_int_equal(choice[0], 0);
	assert_int_equal(choice[1], 1);
	assert_true(benefit_of(example, 2, choice, NULL) == 4.5);
	/* with room for everything both take everything */
	assert_int_equal(benefit_greedy(example, 2, 150 * GB, choice), 0);
	assert_int_equal(choice[0] + choice[1], 0);
	assert_int_equal(benefit_exact(example, 2, 150 * GB, choice), 0);
	assert_int_equal(choice[0] + choice[1], 0);
	assert_int_equal(benefit_exact(example, 2, 0, choice), 0);
	assert_true(choice[0] == BENEFIT_NOTHING && choice[1] == BENEFIT_NOTHING);
}

/* What all choices of options save at most. */
static double brute(const struct benefit_set *sets, size_t n, uint64_t capacity)
{
	if (n == 0)
		return 0;
	double best = brute(sets + 1, n - 1, capacity);
	for (uint32_t k = 0; k < sets[0].count; k++)
		if (sets[0].options[k].bytes <= capacity)
			best = fmax(best, sets[0].options[k].saved +
						  brute(sets + 1, n - 1,
							capacity - sets[0].options[k].bytes));
	return best;
}

static void draw(struct rng *r, struct benefit_set *sets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		sets[i] = (struct benefit_set){.count = (uint32_t)rng_below(r, 5)};
		for (uint32_t k = 0; k < sets[i].count; k++)
			sets[i].options[k] = (struct benefit_option){
				.bytes = rng_below(r, 3) == 0 ? rng_below(r, 5) * GB
							      : rng_below(r, 300 * GB),
				.saved = (double)rng_below(r, 1000) / 10,
				.claimed = (double)rng_below(r, 1000) / 10};
	}
}

static void no_choice_saves_more_than_the_exact_one(void **state)
{
	struct rng r;
	rng_init(&r, 11);
	for (int round = 0; round < 500; round++) {
		struct benefit_set sets[7];
		uint32_t choice[7];
		uint64_t bytes, capacity = rng_below(&r, 800 * GB);
		size_t n = rng_below(&r, 8);
		draw(&r, sets, n);
		assert_int_equal(benefit_exact(sets, n, capacity, choice), 0);
		double saved = benefit_of(sets, n, choice, &bytes);
		assert_true(bytes <= capacity);
		assert_true(fabs(saved - brute(sets, n, capacity)) < 1e-9);
		assert_int_equal(benefit_greedy(sets, n, capacity, choice), 0);
		assert_true(benefit_of(sets, n, choice, &bytes) <= saved + 1e-9 &&
			    bytes <= capacity);
	}
}

static void many_data_sets_fit_the_memory_of_the_solver(void **state)
{
	struct rng r;
	rng_init(&r, 12);
	AUTO_FREE struct benefit_set *sets = calloc(BENEFIT_SETS_MAX, sizeof(*sets));
	static uint32_t choice[BENEFIT_SETS_MAX], greedy[BENEFIT_SETS_MAX];
	uint64_t bytes;
	assert_non_null(sets);
	draw(&r, sets, 300);
	uint64_t capacity = 9000 * GB + 17;
	assert_int_equal(benefit_exact(sets, 300, capacity, choice), 0);
	double saved = benefit_of(sets, 300, choice, &bytes);
	assert_true(bytes <= capacity);
	assert_int_equal(benefit_greedy(sets, 300, capacity, greedy), 0);
	assert_true(saved > benefit_of(sets, 300, greedy, NULL));
	assert_int_equal(benefit_exact(sets, BENEFIT_SETS_MAX + 1, capacity, choice), -EINVAL);
}

static void a_choice_changes_only_for_a_gain(void **state)
{
	uint32_t before[2] = {BENEFIT_NOTHING, 77}, choice[2];
	bool changed;
	assert_int_equal(benefit_decide(example, 2, 100 * GB, 0.05, before, choice, &changed), 0);
	assert_true(changed && choice[0] == 1 && choice[1] == 0);
	/* measurements vary by less than the margin */
	struct benefit_set now[2] = {example[0], example[1]};
	before[0] = 1;
	before[1] = 0;
	now[0].options[0].saved = 5.7; /* all of A alone */
	assert_int_equal(benefit_decide(now, 2, 100 * GB, 0.05, before, choice, &changed), 0);
	assert_true(!changed && choice[0] == 1 && choice[1] == 0);
	now[0].options[0].saved = 7;
	assert_int_equal(benefit_decide(now, 2, 100 * GB, 0.05, before, choice, &changed), 0);
	assert_true(changed && choice[0] == 0 && choice[1] == BENEFIT_NOTHING);
	/* a choice that no longer fits, and one that saves nothing any more */
	assert_int_equal(benefit_decide(example, 2, 30 * GB, 0.05, before, choice, &changed), 0);
	assert_true(changed && choice[0] == 1 && choice[1] == BENEFIT_NOTHING);
}

static void numbers_that_are_no_savings_are_refused(void **state)
{
	const double wrong[] = {NAN, INFINITY, -1};
	uint32_t choice[2];
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct benefit_set sets[2] = {example[0], example[1]};
		sets[1].options[0].saved = wrong[i];
		assert_int_equal(benefit_exact(sets, 2, GB, choice), -EINVAL);
		assert_int_equal(benefit_greedy(sets, 2, GB, choice), -EINVAL);
		sets[1].options[0].saved = 1;
		sets[1].options[0].claimed = wrong[i];
		assert_int_equal(benefit_greedy(sets, 2, GB, choice), -EINVAL);
	}
	struct benefit_set sets[1] = {{.count = BENEFIT_OPTIONS_MAX + 1}};
	assert_int_equal(benefit_exact(sets, 1, GB, choice), -EINVAL);
	struct benefit_set huge[2] = {{.options = {{UINT64_MAX, 1, 1}}, .count = 1},
				      {.options = {{UINT64_MAX, 1, 1}}, .count = 1}};
	assert_int_equal(benefit_exact(huge, 2, UINT64_MAX, choice), 0);
	assert_true(benefit_of(huge, 2, choice, NULL) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(savings_are_accelerators_that_need_not_wait),
		cmocka_unit_test(the_exact_choice_beats_the_greedy_one),
		cmocka_unit_test(no_choice_saves_more_than_the_exact_one),
		cmocka_unit_test(many_data_sets_fit_the_memory_of_the_solver),
		cmocka_unit_test(a_choice_changes_only_for_a_gain),
		cmocka_unit_test(numbers_that_are_no_savings_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
