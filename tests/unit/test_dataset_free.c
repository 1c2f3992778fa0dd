// SPDX-License-Identifier: Apache-2.0
/* The order contract `free`: each sample exactly once whatever the cache has, whatever the ranks; states and logs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "dataset/free.h"

#define SAMPLES_MAX 3000
#define CANDIDATES 64

static struct free_epoch *begin(uint64_t samples, const uint8_t *used, uint64_t world,
				uint64_t rank, uint64_t batch)
{
	struct free_epoch *f = NULL;
	assert_int_equal(
		free_open(&f, samples, used, 7, 3, &(struct order_reader){world, rank, batch}), 0);
	return f;
}

/* Takes a step as a cache with samples below `cached` would serve it, and marks its samples in the bitmap. */
static uint64_t step(struct free_epoch *f, uint64_t cached, uint8_t *used, uint64_t *out)
{
	uint64_t candidates[CANDIDATES];
	uint8_t has[CANDIDATES];
	uint64_t n = free_candidates(f, candidates, CANDIDATES);
	for (uint64_t i = 0; i < n; i++)
		has[i] = candidates[i] < cached;
	n = free_take(f, has, n, out);
	for (uint64_t i = 0; i < n; i++) {
		assert_false(used[out[i] / 8] >> out[i] % 8 & 1); /* never twice */
		used[out[i] / 8] |= (uint8_t)(1u << out[i] % 8);
	}
	return n;
}

static void each_sample_is_taken_once_whatever_the_cache_and_the_ranks(void **state)
{
	struct rng r;
	rng_init(&r, 3);
	for (int round = 0; round < 200; round++) {
		uint64_t samples = 1 + rng_below(&r, SAMPLES_MAX), out[CANDIDATES];
		uint8_t used[SAMPLES_MAX / 8 + 1] = {0};
		/* a job that changes its world now and then */
		while (free_count_left(used, samples) > 0) {
			uint64_t world = 1 + rng_below(&r, 5), batch = 1 + rng_below(&r, 40);
			uint64_t steps = 1 + rng_below(&r, 30);
			uint8_t before[sizeof(used)], merged[sizeof(used)];
			memcpy(before, used, sizeof(used));
			memcpy(merged, used, sizeof(used));
			for (uint64_t rank = 0; rank < world; rank++) {
				struct free_epoch *f = begin(samples, before, world, rank, batch);
				uint8_t mine[sizeof(used)];
				memcpy(mine, before, sizeof(used));
				for (uint64_t s = 0; s < steps; s++)
					step(f, rng_below(&r, samples + 1), mine, out);
				for (uint64_t i = 0; i < free_bytes(samples); i++)
					assert_int_equal(mine[i] & merged[i] & ~before[i], 0);
				free_merge(merged, mine, samples);
				free_close(f);
			}
			memcpy(used, merged, sizeof(used));
		}
	}
}

static void ranks_have_the_same_number_of_steps(void **state)
{
	uint64_t out[CANDIDATES], sum = 0;
	for (uint64_t rank = 0; rank < 3; rank++) {
		struct free_epoch *f = begin(100, NULL, 3, rank, 8);
		uint8_t used[13] = {0};
		uint64_t steps = 0;
		for (; free_left(f) > 0; steps++)
			sum += step(f, 0, used, out);
		assert_int_equal(steps,
				 5); /* four of 24, and one of 4: every rank has a part of it */
		assert_int_equal(free_step_count(f), 0);
		free_close(f);
	}
	assert_int_equal(sum, 100);
}

static void what_the_cache_has_comes_first(void **state)
{
	struct free_epoch *f = begin(2000, NULL, 1, 0, 10);
	uint8_t used[250] = {0};
	uint64_t out[CANDIDATES], hits = 0;
	/* a tenth of the samples is there: with 64 candidates for 10 places half of a mini-batch and more */
	for (int i = 0; i < 10; i++) {
		uint64_t n = step(f, 200, used, out);
		assert_int_equal(n, 10);
		for (uint64_t k = 0; k < n; k++)
			hits += out[k] < 200;
	}
	assert_true(hits > 40);
	/* all of it is taken although others stood before it */
	while (free_left(f) > 0)
		step(f, 200, used, out);
	assert_int_equal(free_count_left(used, 2000), 0);
	free_close(f);
}

static void a_log_repeats_a_run(void **state)
{
	uint64_t log[64][16], counts[64], out[CANDIDATES];
	uint8_t used[64] = {0};
	struct free_epoch *f = begin(500, NULL, 2, 1, 16), *again = begin(500, NULL, 2, 1, 16);
	struct rng r;
	int steps = 0;
	rng_init(&r, 1);
	for (; free_left(f) > 0; steps++) {
		counts[steps] = step(f, rng_below(&r, 500), used, out);
		memcpy(log[steps], out, counts[steps] * sizeof(out[0]));
	}
	for (int i = 0; i < steps; i++)
		assert_int_equal(free_take_again(again, log[i], counts[i]), 0);
	assert_int_equal(free_left(again), 0);
	free_close(again);
	/* not the log of another rank, not too many, not twice */
	again = begin(500, NULL, 2, 0, 16);
	assert_int_equal(free_take_again(again, log[0], counts[0]), -EINVAL);
	free_close(again);
	again = begin(500, NULL, 2, 1, 16);
	assert_int_equal(free_take_again(again, log[0], counts[0] - 1), -EINVAL);
	assert_int_equal(free_take_again(again, log[0], counts[0]), 0);
	assert_int_equal(free_take_again(again, log[0], counts[0]), -EINVAL);
	free_close(again);
	free_close(f);
}

static void impossible_epochs_are_refused(void **state)
{
	struct free_epoch *f;
	const struct order_reader good = {2, 1, 8};
	uint8_t used[2] = {0, 0x80};
	assert_int_equal(free_open(&f, 0, NULL, 1, 1, &good), -EINVAL);
	assert_int_equal(free_open(&f, ORDER_SAMPLES_MAX + 1, NULL, 1, 1, &good), -EINVAL);
	assert_int_equal(free_open(&f, 15, used, 1, 1, &good), -EINVAL); /* a bit behind the end */
	assert_int_equal(free_open(&f, 16, used, 1, 1, &good), 0);
	free_close(f);
	const struct order_reader wrong[] = {
		{0, 0, 8}, {2, 2, 8}, {2, 0, 0}, {ORDER_WORLD_MAX + 1, 0, 1}};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(free_open(&f, 16, NULL, 1, 1, &wrong[i]), -EINVAL);
	/* an epoch of which nothing is left */
	uint8_t all[2] = {0xff, 0xff};
	uint64_t out[1];
	assert_int_equal(free_open(&f, 16, all, 1, 1, &good), 0);
	assert_int_equal(free_left(f) + free_step_count(f) + free_candidates(f, out, 1), 0);
	free_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sample_is_taken_once_whatever_the_cache_and_the_ranks),
		cmocka_unit_test(ranks_have_the_same_number_of_steps),
		cmocka_unit_test(what_the_cache_has_comes_first),
		cmocka_unit_test(a_log_repeats_a_run),
		cmocka_unit_test(impossible_epochs_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
