// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"

/* From an independent implementation of splitmix64 and xoshiro256**. */
static void a_seed_gives_the_same_sequence_in_every_version(void **state)
{
	static const struct {
		uint64_t seed;
		uint64_t first[6];
	} golden[] = {
		{0,
		 {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0, 0x6aa594f1262d2d2c,
		  0xbba5ad4a1f842e59, 0xffef8375d9ebcaca}},
		{42,
		 {0x15780b2e0c2ec716, 0x6104d9866d113a7e, 0xae17533239e499a1, 0xecb8ad4703b360a1,
		  0xfde6dc7fe2ec5e64, 0xc50da53101795238}},
	};
	for (size_t i = 0; i < ARRAY_LEN(golden); i++) {
		struct rng rng;
		rng_init(&rng, golden[i].seed);
		for (size_t k = 0; k < ARRAY_LEN(golden[i].first); k++)
			assert_true(rng_u64(&rng) == golden[i].first[k]);
	}
}

/* Each count within 6 standard deviations of its mean. */
static void below_is_in_range_and_even(void **state)
{
	struct rng rng;
	rng_init(&rng, 41);
	print_message("seed 41\n");
	int counts[7] = {0};
	for (int i = 0; i < 70000; i++) {
		uint64_t v = rng_below(&rng, 7);
		assert_true(v < 7);
		counts[v]++;
	}
	for (int i = 0; i < 7; i++)
		assert_in_range(counts[i], 10000 - 560, 10000 + 560);
	for (int i = 0; i < 100; i++)
		assert_int_equal(rng_below(&rng, 1), 0);
}

/* With n = 3 * 2^62 a plain multiply-shift or modulo makes a third of the values twice as likely.
 */
static void below_has_no_bias_where_a_shortcut_would(void **state)
{
	struct rng rng;
	rng_init(&rng, 43);
	print_message("seed 43\n");
	const uint64_t n = 3ULL << 62;
	int counts[3] = {0};
	for (int i = 0; i < 30000; i++)
		counts[rng_below(&rng, n) % 3]++;
	for (int i = 0; i < 3; i++)
		assert_in_range(counts[i], 10000 - 490, 10000 + 490);
}

static void chance_follows_its_rate_and_zero_draws_nothing(void **state)
{
	struct rng rng, untouched;
	rng_init(&rng, 47);
	print_message("seed 47\n");
	untouched = rng;
	for (int i = 0; i < 100; i++) {
		assert_false(rng_chance(&rng, 0));
		assert_false(rng_chance(&rng, -1));
	}
	assert_memory_equal(&rng, &untouched, sizeof(rng));
	int hits = 0;
	for (int i = 0; i < 10000; i++) {
		hits += rng_chance(&rng, 0.25);
		assert_true(rng_chance(&rng, 1));
	}
	assert_in_range(hits, 2500 - 260, 2500 + 260);
}

static void unit_and_exponential_have_their_means(void **state)
{
	struct rng rng;
	rng_init(&rng, 53);
	print_message("seed 53\n");
	double unit = 0, exponential = 0;
	for (int i = 0; i < 100000; i++) {
		double u = rng_unit(&rng);
		double e = rng_exponential(&rng, 5);
		assert_true(u >= 0 && u < 1 && e >= 0);
		unit += u / 100000;
		exponential += e / 100000;
	}
	assert_true(unit > 0.49 && unit < 0.51);
	assert_true(exponential > 4.9 && exponential < 5.1);
}

static void fill_writes_every_byte_and_no_more(void **state)
{
	for (size_t len = 0; len < 40; len++) {
		uint8_t bytes[41];
		uint8_t touched[41] = {0};
		struct rng rng;
		rng_init(&rng, len);
		for (int round = 0; round < 20; round++) {
			memset(bytes, 0, sizeof(bytes));
			rng_fill(&rng, bytes, len);
			for (size_t i = 0; i < sizeof(bytes); i++)
				touched[i] |= bytes[i];
		}
		for (size_t i = 0; i < sizeof(bytes); i++)
			assert_int_equal(touched[i] != 0, i < len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_seed_gives_the_same_sequence_in_every_version),
		cmocka_unit_test(below_is_in_range_and_even),
		cmocka_unit_test(below_has_no_bias_where_a_shortcut_would),
		cmocka_unit_test(chance_follows_its_rate_and_zero_draws_nothing),
		cmocka_unit_test(unit_and_exponential_have_their_means),
		cmocka_unit_test(fill_writes_every_byte_and_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
