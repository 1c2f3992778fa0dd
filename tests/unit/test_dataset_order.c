// SPDX-License-Identifier: Apache-2.0
/* Tests of the order of epochs: one to one, disjoint between ranks, the same everywhere, resumable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "dataset/order.h"

static const enum order_kind kinds[] = {ORDER_SEQUENTIAL, ORDER_WINDOW, ORDER_GLOBAL};

static void each_position_is_one_sample_and_back(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {1,    2,    3,    5,     1023,  1024,   1025,
					 2048, 4095, 5000, 65536, 65537, 131072, 200003};
	for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
		AUTO_FREE uint8_t *seen = malloc(sizes[s]);
		AUTO_FREE uint64_t *at = malloc(sizes[s] * sizeof(*at));
		assert_non_null(seen);
		assert_non_null(at);
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
			struct order o;
			assert_int_equal(order_init(&o, kinds[k], sizes[s], 4 * ORDER_UNIT, 7, s),
					 0);
			memset(seen, 0, sizes[s]);
			order_samples(&o, 0, sizes[s], at);
			for (uint64_t p = 0; p < sizes[s]; p++) {
				assert_true(at[p] < sizes[s] && seen[at[p]] == 0);
				seen[at[p]] = 1;
				assert_int_equal(order_position(&o, at[p]), p);
			}
		}
	}
}

static void large_orders_are_one_to_one_where_they_are_looked_at(void **state)
{
	(void)state;
	struct rng r;
	rng_init(&r, 5);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct order o;
		uint64_t n = (1ULL << 40) + 12345;
		assert_int_equal(order_init(&o, kinds[k], n, 0, 3, 9), 0);
		for (int i = 0; i < 20000; i++) {
			uint64_t p = i < 2 ? (uint64_t)i * (n - 1) : rng_below(&r, n);
			uint64_t s = order_sample(&o, p);
			assert_true(s < n);
			assert_int_equal(order_position(&o, s), p);
		}
	}
}

/* States of jobs depend on these numbers: they must never change. */
static void the_order_is_the_same_in_every_version(void **state)
{
	(void)state;
	static const uint64_t golden[][6] = {
		{0, 1, 2, 3, 4, 5},
		{68729, 39479, 21589, 30401, 57641, 75704},
		{25486, 57820, 6838, 20524, 34742, 2003},
	};
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct order o;
		uint64_t got[6];
		assert_int_equal(order_init(&o, kinds[k], 100000, 0, 42, 3), 0);
		order_samples(&o, 0, 6, got);
		for (size_t i = 0; i < 6; i++)
			assert_int_equal(got[i], golden[k][i]);
	}
}

static void seeds_and_epochs_give_different_orders(void **state)
{
	(void)state;
	for (size_t k = 1; k < ARRAY_LEN(kinds); k++) {
		uint64_t same = 0;
		struct order a, b, c;
		order_init(&a, kinds[k], 100000, 0, 1, 0);
		order_init(&b, kinds[k], 100000, 0, 1, 1);
		order_init(&c, kinds[k], 100000, 0, 2, 0);
		for (uint64_t p = 0; p < 10000; p++) {
			uint64_t x = order_sample(&a, p);
			same += x == order_sample(&b, p);
			same += x == order_sample(&c, p);
		}
		assert_true(same < 20); /* 0.2 are expected by chance */
	}
}

/* A window is read from few units: the first 4096 positions of windows of 4096 touch four or five units. */
static void a_window_needs_few_units(void **state)
{
	(void)state;
	struct order o;
	uint64_t at[4096];
	bool units[1000] = {false};
	size_t touched = 0;
	assert_int_equal(order_init(&o, ORDER_WINDOW, 1000 * ORDER_UNIT - 3, 4096, 1, 1), 0);
	order_samples(&o, 4096, 4096, at);
	for (size_t i = 0; i < 4096; i++) {
		touched += !units[at[i] / ORDER_UNIT];
		units[at[i] / ORDER_UNIT] = true;
	}
	assert_in_range(touched, 4, 5);
}

/* Runs a job that changes its world and batch size now and then, and marks every position that a rank reads. */
static void run_job(uint64_t samples, uint64_t seed, uint8_t *seen)
{
	struct rng r;
	uint64_t from = 0;
	rng_init(&r, seed);
	while (from < samples) {
		uint64_t world = 1 + rng_below(&r, 7), batch = 1 + rng_below(&r, 40);
		uint64_t steps = 1 + rng_below(&r, 5);
		for (uint64_t s = 0; s < steps; s++)
			for (uint64_t rank = 0; rank < world; rank++) {
				struct order_reader who = {world, rank, batch};
				struct order_share share = order_step(samples, from, s, &who);
				assert_true(share.count <= batch);
				for (uint64_t i = 0; i < share.count; i++)
					seen[share.first + i]++;
			}
		from = min_u64(samples, from + steps * world * batch);
	}
}

static void every_position_is_read_once_whatever_the_ranks_and_resumes(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		uint64_t samples = 1 + seed * 13 % 1111;
		AUTO_FREE uint8_t *seen = calloc(1, samples);
		assert_non_null(seen);
		run_job(samples, seed, seen);
		for (uint64_t i = 0; i < samples; i++)
			assert_int_equal(seen[i], 1);
	}
}

static void a_step_behind_the_end_is_empty(void **state)
{
	(void)state;
	struct order_reader who = {4, 3, 10};
	assert_int_equal(order_step(100, 0, 2, &who).count, 5); /* 20 are left for 4 ranks */
	assert_int_equal(order_step(100, 0, 3, &who).count, 0);
	assert_int_equal(order_step(100, 100, 0, &who).count, 0);
	assert_int_equal(order_step(100, 0, UINT64_MAX, &who).count, 0);
	who = (struct order_reader){ORDER_WORLD_MAX, ORDER_WORLD_MAX - 1, ORDER_BATCH_MAX};
	assert_int_equal(order_step(ORDER_SAMPLES_MAX, 0, 0, &who).count,
			 ORDER_SAMPLES_MAX / ORDER_WORLD_MAX);
}

static void impossible_orders_are_refused(void **state)
{
	(void)state;
	struct order o;
	assert_int_equal(order_init(&o, (enum order_kind)9, 10, 0, 0, 0), -EINVAL);
	assert_int_equal(order_init(&o, ORDER_GLOBAL, 0, 0, 0, 0), -EINVAL);
	assert_int_equal(order_init(&o, ORDER_GLOBAL, ORDER_SAMPLES_MAX + 1, 0, 0, 0), -EINVAL);
	assert_int_equal(order_init(&o, ORDER_WINDOW, 10, 1000, 0, 0), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_position_is_one_sample_and_back),
		cmocka_unit_test(large_orders_are_one_to_one_where_they_are_looked_at),
		cmocka_unit_test(the_order_is_the_same_in_every_version),
		cmocka_unit_test(seeds_and_epochs_give_different_orders),
		cmocka_unit_test(a_window_needs_few_units),
		cmocka_unit_test(every_position_is_read_once_whatever_the_ranks_and_resumes),
		cmocka_unit_test(a_step_behind_the_end_is_empty),
		cmocka_unit_test(impossible_orders_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
