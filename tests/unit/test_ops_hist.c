// SPDX-License-Identifier: Apache-2.0
/* The histogram of durations: quantiles within their error, exact sums, valid Prometheus text. */
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
#include "base/strbuf.h"
#include "ops/hist.h"

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void a_quantile_is_within_a_bucket_of_the_exact_value(void **state)
{
	(void)state;
	static uint64_t v[20000];
	static const double means[] = {3e3, 1e5, 2e7, 5e9};
	for (size_t m = 0; m < ARRAY_LEN(means); m++) {
		struct hist h = {0};
		struct rng rng;
		uint64_t sum = 0;
		rng_init(&rng, m);
		for (size_t i = 0; i < ARRAY_LEN(v); i++) {
			v[i] = (uint64_t)rng_exponential(&rng, means[m]);
			sum += v[i];
			hist_add(&h, v[i]);
		}
		qsort(v, ARRAY_LEN(v), sizeof(v[0]), compare_u64);
		assert_int_equal(h.count, ARRAY_LEN(v));
		assert_int_equal(h.sum_ns, sum);
		assert_int_equal(h.max_ns, v[ARRAY_LEN(v) - 1]);
		assert_int_equal(hist_quantile_ns(&h, 1), h.max_ns);
		for (size_t percent = 50; percent < 100; percent += 7) {
			size_t rank = ARRAY_LEN(v) * percent / 100;
			double truth = (double)v[rank];
			double got = (double)hist_quantile_ns(&h, (double)percent / 100);
			assert_true(got > 0.8 * truth && got < 1.25 * truth);
		}
	}
}

static void values_outside_the_bounds_are_counted(void **state)
{
	(void)state;
	struct hist h = {0};
	assert_int_equal(hist_quantile_ns(&h, 0.99), 0);
	hist_add(&h, 0);
	hist_add(&h, HIST_MIN_NS - 1);
	assert_true(hist_quantile_ns(&h, 1) < HIST_MIN_NS);
	hist_add(&h, 3600 * NS_PER_S);
	assert_int_equal(h.count, 3);
	assert_int_equal(h.bucket[0], 2);
	assert_int_equal(h.bucket[HIST_BUCKETS - 1], 1);
	assert_int_equal(hist_quantile_ns(&h, 1), 3600 * NS_PER_S);
}

static void every_bound_begins_its_own_bucket(void **state)
{
	(void)state;
	uint64_t last = 0;
	for (uint32_t d = 0; d < HIST_DOUBLINGS; d++) {
		for (uint32_t i = 0; i < HIST_STEPS; i++) {
			struct hist h = {0};
			uint64_t ns = (HIST_MIN_NS << d) / HIST_STEPS * (HIST_STEPS + i);
			hist_add(&h, ns - 1);
			hist_add(&h, ns);
			assert_int_equal(h.bucket[d * HIST_STEPS + i], 1);
			assert_int_equal(h.bucket[d * HIST_STEPS + i + 1], 1);
			assert_true(ns > last);
			last = ns;
		}
	}
}

/* Returns the number at the end of the first line with this prefix. */
static double value_of(const char *text, const char *start)
{
	const char *line = strstr(text, start);
	assert_non_null(line);
	return strtod(strchr(line, ' ') + 1, NULL);
}

static void the_text_is_a_prometheus_histogram(void **state)
{
	(void)state;
	struct hist h = {0};
	hist_add(&h, 500);
	hist_add(&h, 2 * NS_PER_US);
	hist_add(&h, 2 * NS_PER_MS);
	hist_add(&h, 1000 * NS_PER_S);
	AUTO_STRBUF struct strbuf out;
	strbuf_init(&out, 1 << 16);
	assert_int_equal(hist_prometheus(&h, "wait_seconds", "disk=\"1\"", &out), 0);
	const char *text = strbuf_text(&out);
	assert_true(value_of(text, "wait_seconds_bucket{disk=\"1\",le=\"1.024e-06\"}") == 1);
	assert_true(value_of(text, "wait_seconds_bucket{disk=\"1\",le=\"4.096e-06\"}") == 2);
	assert_true(value_of(text, "wait_seconds_bucket{disk=\"1\",le=\"0.001048576\"}") == 2);
	assert_true(value_of(text, "wait_seconds_bucket{disk=\"1\",le=\"0.004194304\"}") == 3);
	assert_true(value_of(text, "wait_seconds_bucket{disk=\"1\",le=\"274.877907\"}") == 3);
	assert_true(value_of(text, "wait_seconds_bucket{disk=\"1\",le=\"+Inf\"}") == 4);
	assert_true(value_of(text, "wait_seconds_count{disk=\"1\"}") == 4);
	double sum = value_of(text, "wait_seconds_sum{disk=\"1\"}");
	assert_true(sum > 1000.002 && sum < 1000.0021);
	strbuf_clear(&out);
	assert_int_equal(hist_prometheus(&h, "x", "", &out), 0);
	assert_non_null(strstr(strbuf_text(&out), "x_bucket{le=\"+Inf\"} 4\n"));
	assert_non_null(strstr(strbuf_text(&out), "x_count 4\n"));
	struct strbuf small;
	strbuf_init(&small, 100);
	assert_int_equal(hist_prometheus(&h, "x", "", &small), -EMSGSIZE);
	strbuf_fini(&small);
}

static void merged_histograms_are_that_of_all_durations(void **state)
{
	(void)state;
	struct hist parts[2] = {0}, all = {0}, merged = {0};
	struct rng rng;
	rng_init(&rng, 5);
	for (size_t i = 0; i < 1000; i++) {
		uint64_t ns = (uint64_t)rng_exponential(&rng, 1e6);
		hist_add(&parts[i % 3 == 0], ns);
		hist_add(&all, ns);
	}
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		hist_merge(&merged, &parts[i]);
	assert_memory_equal(&merged, &all, sizeof(all));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quantile_is_within_a_bucket_of_the_exact_value),
		cmocka_unit_test(values_outside_the_bounds_are_counted),
		cmocka_unit_test(every_bound_begins_its_own_bucket),
		cmocka_unit_test(merged_histograms_are_that_of_all_durations),
		cmocka_unit_test(the_text_is_a_prometheus_histogram),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
