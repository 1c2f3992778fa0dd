// SPDX-License-Identifier: Apache-2.0
/* The order contract `window`: shared windows are fair, one to one, the same for all jobs, and resume anywhere. */
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
#include "dataset/windows.h"

static struct windows_shape shape_of(uint64_t samples, uint64_t bytes, uint32_t share)
{
	struct windows_shape s;
	assert_int_equal(windows_shape(&s, samples, bytes, share), 0);
	return s;
}

static struct windows order_of(const struct windows_shape *s, uint64_t first, uint64_t seed,
			       uint64_t epoch)
{
	struct windows w;
	assert_int_equal(windows_init(&w, s, first, 4 * ORDER_UNIT, seed, epoch), 0);
	return w;
}

static void a_window_has_its_share_and_fits_15_gb(void **state)
{
	/* ImageNet: 1,281,167 files of 154 GB */
	struct windows_shape s = shape_of(1281167, 154000000000ULL, WINDOWS_SHARE_DEFAULT);
	assert_int_equal(s.count, 11); /* ten windows of 15.4 GB are too large */
	uint64_t mean = 154000000000ULL / 1281167;
	for (uint64_t w = 0; w < s.count; w++)
		assert_true(windows_len(&s, w) * mean <= WINDOWS_BYTES_MAX);
	s = shape_of(1281167, 90000000000ULL, WINDOWS_SHARE_DEFAULT);
	assert_int_equal(s.count, 10);
	/* 18 TB: 15 GB at most */
	s = shape_of(9000000, 18000000000000ULL, WINDOWS_SHARE_DEFAULT);
	assert_true(s.count >= 1200 && s.count < 1300);
	/* small samples are read in stripes of a block, not of 1,024 samples */
	s = shape_of(100000000, 100000000000ULL, WINDOWS_SHARE_DEFAULT);
	assert_true(s.stripe * 1000 >= WINDOWS_STRIPE_BYTES);
	assert_int_equal(s.count, 10);
	/* few samples are one window, and an impossible data set is none */
	assert_int_equal(shape_of(5, 100, 1).count, 1);
	assert_int_equal(shape_of(1, 1ULL << 60, 1).count, 1);
	assert_int_equal(shape_of(100000, 0, WINDOWS_SHARE_ALL).count, 1);
	assert_int_equal(windows_shape(&s, 0, 0, 1), -EINVAL);
	assert_int_equal(windows_shape(&s, ORDER_SAMPLES_MAX + 1, 0, 1), -EINVAL);
	assert_int_equal(windows_shape(&s, 5, 0, 0), -EINVAL);
	assert_int_equal(windows_shape(&s, 5, 0, WINDOWS_SHARE_ALL + 1), -EINVAL);
	assert_int_equal(windows_shape(&s, ORDER_SAMPLES_MAX, UINT64_MAX, 1), 0);
}

static void each_position_is_one_sample_and_back(void **state)
{
	static const uint64_t sizes[] = {1,     2,     1023,  1024,   1025,   4096,
					 10240, 10241, 50000, 102399, 131072, 200003};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct windows_shape s = shape_of(sizes[i], sizes[i] * 100000, 70000);
		AUTO_FREE uint8_t *seen = malloc(sizes[i]);
		AUTO_FREE uint64_t *at = malloc(sizes[i] * sizeof(*at));
		assert_true(seen != NULL && at != NULL);
		for (uint64_t first = 0; first < s.count; first += 3) {
			struct windows w = order_of(&s, first, 5, i);
			memset(seen, 0, sizes[i]);
			windows_samples(&w, 0, sizes[i], at);
			for (uint64_t p = 0; p < sizes[i]; p++) {
				assert_true(at[p] < sizes[i] && seen[at[p]] == 0);
				seen[at[p]] = 1;
				assert_int_equal(windows_position(&w, at[p]), p);
			}
		}
	}
}

static void large_data_sets_are_one_to_one_where_they_are_looked_at(void **state)
{
	struct rng r;
	rng_init(&r, 5);
	struct windows_shape s = shape_of((1ULL << 40) + 12345, 1ULL << 57, WINDOWS_SHARE_DEFAULT);
	struct windows w = order_of(&s, s.count / 2, 3, 9);
	for (int i = 0; i < 5000; i++) {
		uint64_t p = i < 2 ? (uint64_t)i * (s.samples - 1) : rng_below(&r, s.samples),
			 sample;
		windows_samples(&w, p, 1, &sample);
		assert_true(sample < s.samples);
		assert_int_equal(windows_position(&w, sample), p);
	}
}

/* All jobs, whatever their seeds, read the same samples in the same window; a job that joins at a window goes round with
 * the others. */
static void jobs_share_windows_and_not_orders(void **state)
{
	struct windows_shape s = shape_of(100000, 100000 * 200000ULL, WINDOWS_SHARE_DEFAULT);
	assert_true(s.count >= 9);
	struct windows a = order_of(&s, 0, 1, 0), b = order_of(&s, 4, 2, 0);
	uint64_t same = 0, begin, end, x, y;
	for (uint64_t p = 0; p < 100000; p++) {
		windows_samples(&a, p, 1, &x);
		windows_samples(&b, p, 1, &y);
		assert_int_equal(windows_at(&a, p, &begin, &end), windows_of(&s, x));
		assert_true(begin <= p && p < end);
		assert_int_equal(windows_at(&b, p, &begin, &end), windows_of(&s, y));
		same += x == y;
	}
	assert_int_equal(windows_at(&b, 0, &begin, &end), 4);
	assert_int_equal(windows_at(&b, 99999, &begin, &end), 3);
	assert_int_equal(end, 100000);
	assert_true(same < 100);
	/* another epoch or seed is another order of the same window */
	struct windows c = order_of(&s, 0, 1, 1);
	uint64_t equal = 0;
	for (uint64_t p = 0; p < 5000; p++) {
		windows_samples(&a, p, 1, &x);
		windows_samples(&c, p, 1, &y);
		assert_true(windows_of(&s, x) == windows_of(&s, y));
		equal += x == y;
	}
	assert_true(equal < 20);
}

/* Samples are sorted, as a hostile case: the mean of each window is near that of all. */
static void a_window_is_a_fair_sample_of_a_sorted_data_set(void **state)
{
	struct windows_shape s = shape_of(1000000, 1000000 * 100000ULL, WINDOWS_SHARE_DEFAULT);
	for (uint64_t w = 0; w < s.count; w++) {
		double sum = 0;
		uint64_t len = windows_len(&s, w);
		for (uint64_t i = 0; i < len; i++)
			sum += (double)windows_member(&s, w, i);
		double mean = sum / (double)len;
		assert_true(mean > 480000 && mean < 520000);
	}
}

/* States of jobs depend on these numbers: they must never change. */
static void shapes_and_orders_are_the_same_in_every_version(void **state)
{
	struct windows_shape s = shape_of(100000, 100000 * 150000ULL, WINDOWS_SHARE_DEFAULT);
	assert_int_equal(s.stripe, 1024);
	assert_int_equal(s.count, 10);
	struct windows w;
	uint64_t got[6];
	static const uint64_t golden[6] = {64730, 34691, 75421, 14294, 44367, 55209};
	assert_int_equal(windows_init(&w, &s, 3, 0, 42, 3), 0);
	windows_samples(&w, 0, 6, got);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(got[i], golden[i]);
}

/* A job changes its world and batch size in the middle of windows: each sample is still read exactly once. */
static void a_job_resumes_with_any_world(void **state)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct rng r;
		rng_init(&r, seed);
		uint64_t n = 1 + rng_below(&r, 30000), from = 0;
		struct windows_shape s = shape_of(n, n * 100000, 150000);
		struct windows w = order_of(&s, rng_below(&r, s.count), seed, 2);
		AUTO_FREE uint8_t *seen = calloc(1, n);
		AUTO_FREE uint64_t *at = malloc(n * sizeof(*at));
		assert_true(seen != NULL && at != NULL);
		while (from < n) {
			uint64_t world = 1 + rng_below(&r, 7), batch = 1 + rng_below(&r, 400);
			for (uint64_t rank = 0; rank < world; rank++) {
				struct order_reader who = {world, rank, batch};
				struct order_share share = order_step(n, from, 0, &who);
				windows_samples(&w, share.first, share.count, at);
				for (uint64_t i = 0; i < share.count; i++)
					seen[at[i]]++;
			}
			from = min_u64(n, from + world * batch);
		}
		for (uint64_t i = 0; i < n; i++)
			assert_int_equal(seen[i], 1);
	}
}

static void impossible_orders_are_refused(void **state)
{
	struct windows_shape s = shape_of(100000, 100000 * 150000ULL, WINDOWS_SHARE_DEFAULT);
	struct windows w;
	assert_int_equal(windows_init(&w, &s, s.count, 0, 1, 1), -EINVAL);
	assert_int_equal(windows_init(&w, &s, 0, 5, 1, 1), -EINVAL);
	struct windows_shape bad[] = {s, s, s, s, s};
	bad[0].samples = 0;
	bad[1].stripe = ORDER_UNIT + 1;
	bad[2].stripe = 0;
	bad[3].count = 0;
	bad[4].count = 1ULL << 40;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(windows_init(&w, &bad[i], 0, 0, 1, 1), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_has_its_share_and_fits_15_gb),
		cmocka_unit_test(each_position_is_one_sample_and_back),
		cmocka_unit_test(large_data_sets_are_one_to_one_where_they_are_looked_at),
		cmocka_unit_test(jobs_share_windows_and_not_orders),
		cmocka_unit_test(a_window_is_a_fair_sample_of_a_sorted_data_set),
		cmocka_unit_test(shapes_and_orders_are_the_same_in_every_version),
		cmocka_unit_test(a_job_resumes_with_any_world),
		cmocka_unit_test(impossible_orders_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
