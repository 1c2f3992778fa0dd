// SPDX-License-Identifier: Apache-2.0
/* Parts of cache policies beside plain references: the bound, orders, the history window, ghosts, the budget. */
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
#include "cache/bound.h"
#include "cache/budget.h"
#include "cache/history.h"
#include "cache/order.h"
#include "cache/recent.h"

/* ---- the bound ---- */

/* Belady's MIN with bypass, written down as it is defined. */
static uint32_t plain_bound(const uint32_t *next, uint32_t n, uint32_t capacity)
{
	uint32_t held[64], held_n = 0, hits = 0;
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < held_n; k++)
			if (held[k] == i) {
				held[k] = held[--held_n];
				hits++;
				break;
			}
		if (next[i] == BOUND_NEVER)
			continue;
		held[held_n++] = next[i];
		uint32_t far = 0;
		for (uint32_t k = 1; k < held_n; k++)
			far = held[k] > held[far] ? k : far;
		if (held_n > capacity)
			held[far] = held[--held_n];
	}
	return hits;
}

static void find_next(const uint32_t *key, uint32_t *next, uint32_t n, uint32_t keys)
{
	uint32_t last[512];
	for (uint32_t k = 0; k < keys; k++)
		last[k] = BOUND_NEVER;
	for (uint32_t i = n; i-- > 0;) {
		next[i] = last[key[i]];
		last[key[i]] = i;
	}
}

static void the_bound_is_beladys_with_bypass(void **state)
{
	uint32_t key[3000], next[3000];
	struct rng rng;
	(void)state;
	rng_init(&rng, 7);
	for (uint32_t round = 0; round < 40; round++) {
		uint32_t keys = 1 + (uint32_t)rng_below(&rng, 500);
		uint32_t capacity = (uint32_t)rng_below(&rng, 60);
		uint32_t n = 1 + (uint32_t)rng_below(&rng, ARRAY_LEN(key));
		for (uint32_t i = 0; i < n; i++)
			key[i] = (uint32_t)rng_below(&rng, 1 + rng_below(&rng, keys));
		find_next(key, next, n, keys);
		struct bound b;
		uint32_t hits = 0;
		assert_int_equal(bound_init(&b, n, capacity), 0);
		for (uint32_t i = 0; i < n; i++)
			hits += bound_request(&b, i, next[i]);
		bound_fini(&b);
		assert_int_equal(hits, plain_bound(next, n, capacity));
	}
}

/* ---- orders ---- */

static void check_order(enum cache_order_kind kind, uint64_t bytes, uint32_t readers)
{
	struct cache_range ranges[] = {{.from = 0, .to = 100}, {.from = 250, .to = 391}};
	struct cache_order o = {.kind = kind,
				.seed = 11,
				.bytes = bytes,
				.file_bytes = 400,
				.unit_bytes = 40,
				.readers = readers,
				.windows = 1 + readers * 2,
				.ranges_n = 2};
	assert_int_equal(cache_order_init(&o, ranges), 0);
	assert_int_equal(o.file_units, 3 + 4);
	AUTO_FREE uint8_t *seen = calloc(o.units, 1);
	uint64_t total = 0;
	for (uint64_t rank = 0; rank < o.units; rank++) {
		uint64_t unit = cache_order_unit(&o, rank), found;
		assert_true(unit < o.units && seen[unit]++ == 0);
		assert_int_equal(cache_order_rank(&o, unit), rank);
		struct cache_unit u = cache_order_bytes(&o, unit);
		assert_true(u.from <= u.to && u.to <= bytes && u.to - u.from <= 40);
		total += u.to - u.from;
		if (u.from == u.to)
			continue;
		assert_true(cache_order_find(&o, u.from, u.to, &found));
		assert_int_equal(found, unit);
		assert_true((u.from % 400 < 100) || (u.from % 400 >= 250 && u.from % 400 < 391));
	}
	assert_int_equal(total, cache_order_total(&o));
	uint64_t unit;
	assert_false(cache_order_find(&o, 100, 250, &unit));
	assert_true(cache_order_find(&o, 120, 260, &unit));
}

static void an_order_reads_every_unit_once_and_its_inverse_agrees(void **state)
{
	(void)state;
	for (uint32_t readers = 1; readers < 6; readers++)
		for (uint64_t bytes = 391; bytes < 9000; bytes += 977) {
			check_order(CACHE_SCAN, bytes, readers);
			check_order(CACHE_SEEDED, bytes, readers);
			check_order(CACHE_RANDOM, bytes, readers);
			check_order(CACHE_FREE, bytes, readers);
			check_order(CACHE_WINDOW, bytes, readers);
		}
}

static void readers_scan_files_side_by_side(void **state)
{
	static const uint64_t expected[] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11, 12, 13, 14};
	struct cache_range all = {.from = 0, .to = 3};
	struct cache_order o = {
		.bytes = 15, .file_bytes = 3, .unit_bytes = 1, .readers = 2, .ranges_n = 1};
	(void)state;
	assert_int_equal(cache_order_init(&o, &all), 0);
	for (uint64_t i = 0; i < ARRAY_LEN(expected); i++)
		assert_int_equal(cache_order_unit(&o, i), expected[i]);
}

static void ranges_that_overlap_or_leave_the_file_are_refused(void **state)
{
	static const struct cache_range bad[][2] = {
		{{.from = 0, .to = 10}, {.from = 9, .to = 20}},
		{{.from = 10, .to = 20}, {.from = 0, .to = 5}},
		{{.from = 0, .to = 10}, {.from = 30, .to = 30}},
		{{.from = 0, .to = 10}, {.from = 30, .to = 101}},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct cache_range r[2] = {bad[i][0], bad[i][1]};
		struct cache_order o = {.bytes = 1000,
					.file_bytes = 100,
					.unit_bytes = 7,
					.readers = 1,
					.ranges_n = 2};
		assert_int_equal(cache_order_init(&o, r), -EINVAL);
	}
	struct cache_range r = {.from = 0, .to = 1ULL << 40};
	struct cache_order o = {.bytes = 1ULL << 60,
				.file_bytes = 1ULL << 40,
				.unit_bytes = 1,
				.readers = 1,
				.ranges_n = 1};
	assert_int_equal(cache_order_init(&o, &r), -E2BIG);
}

/* ---- the history window ---- */

#define SEG 65536u

static void read_at(struct history *h, uint64_t now_ms, uint16_t bucket, uint32_t segment)
{
	struct cache_request r = {.now_ms = now_ms,
				  .block = bucket * 1000003ULL + segment / 64,
				  .first = segment % 64,
				  .segments = 1,
				  .bucket = bucket,
				  .bytes = SEG};
	assert_int_equal(cache_history_add(h, &r), 0);
}

static void a_window_that_fits_its_memory_is_exact(void **state)
{
	struct history h;
	struct cache_params params = {
		.segment_bytes = SEG, .history_bytes = 1 << 20, .history_ms = 36000};
	(void)state;
	assert_int_equal(cache_history_init(&h, &params), 0);
	for (uint32_t pass = 0; pass < 3; pass++)
		for (uint32_t s = 0; s < 1000; s++)
			read_at(&h, 1000 * pass + s / 2, 5, pass < 2 ? s : s % 500);
	assert_true(fabs(cache_history_reads(&h, 5) - 3.0) < 1e-9);
	assert_true(cache_history_error(&h, 5, 3) == 0);
	assert_true(cache_history_reads(&h, 4) == 0 && cache_history_reads(&h, 6) == 0);
	/* Ten slices on, the window still has all; after its length it has nothing. */
	cache_history_advance(&h, 12000);
	assert_true(fabs(cache_history_reads(&h, 5) - 3.0) < 1e-9);
	cache_history_advance(&h, 40000);
	assert_true(cache_history_reads(&h, 5) == 0);
	cache_history_fini(&h);
}

static void a_segment_counts_once_when_its_parts_are_read(void **state)
{
	struct history h;
	struct cache_params params = {.segment_bytes = SEG, .history_bytes = 1 << 20};
	(void)state;
	assert_int_equal(cache_history_init(&h, &params), 0);
	for (uint32_t s = 0; s < 300; s++) {
		struct cache_request r = {.block = 9,
					  .first = s,
					  .segments = 2,
					  .skip = SEG / 2,
					  .bucket = 1,
					  .bytes = SEG};
		assert_int_equal(cache_history_add(&h, &r), 0);
	}
	assert_true(fabs(cache_history_reads(&h, 1) - 1.0) < 0.01);
	cache_history_fini(&h);
}

/* The reference counts every segment. Buckets are read once, three times, and 1 to 5 times at random. */
static void a_sampled_window_keeps_its_error(void **state)
{
	enum { SEGMENTS = 60000 };
	struct history h;
	struct rng rng;
	struct cache_params params = {.segment_bytes = SEG, .history_bytes = 64 << 10};
	(void)state;
	assert_int_equal(cache_history_init(&h, &params), 0);
	rng_init(&rng, 3);
	uint64_t reads = 0;
	for (uint32_t s = 0; s < SEGMENTS; s++) {
		uint32_t times = 1 + (uint32_t)rng_below(&rng, 5);
		reads += times;
		read_at(&h, 0, 1, s);
		for (uint32_t i = 0; i < 3; i++)
			read_at(&h, 0, 2, s);
		for (uint32_t i = 0; i < times; i++)
			read_at(&h, 0, 3, s);
	}
	assert_true(h.count * HISTORY_SAMPLE_BYTES <= 64 << 10);
	assert_true(fabs(cache_history_reads(&h, 1) - 1) < 1e-3);
	assert_true(fabs(cache_history_reads(&h, 2) - 3) < 0.02);
	double error = cache_history_error(&h, 3, 5);
	assert_true(error > 0.01 && error < 0.2);
	assert_true(fabs(cache_history_reads(&h, 3) - (double)reads / SEGMENTS) < 4 * error);
	cache_history_fini(&h);
}

/* ---- ghosts ---- */

static void recent_keys_are_found_and_old_ones_are_not(void **state)
{
	struct recent r;
	uint32_t found = 0;
	(void)state;
	assert_int_equal(recent_init(&r, 0), -EINVAL);
	assert_int_equal(recent_init(&r, 1000), 0);
	for (uint32_t i = 0; i < 10000; i++)
		recent_add(&r, mix_u64(i + 1));
	for (uint32_t i = 9000; i < 10000; i++)
		found += recent_has(&r, mix_u64(i + 1));
	assert_true(found > 900); /* sets of four overflow now and then */
	for (uint32_t i = 0; i < 8999; i++)
		assert_false(recent_has(&r, mix_u64(i + 1)));
	recent_fini(&r);
}

/* ---- the budget ---- */

static void writes_meet_the_limit_though_plans_are_wrong(void **state)
{
	static const double gains[] = {0.3, 1, 2.5};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(gains); i++) {
		struct cache_budget b;
		double written = 0;
		cache_budget_init(&b, 1000000);
		for (uint32_t t = 0; t < 360; t++) {
			double bytes = gains[i] * b.rate_bytes_s * 10;
			cache_budget_wrote(&b, (uint64_t)bytes);
			written += bytes;
			cache_budget_update(&b, 10);
		}
		assert_true(fabs(written / 3600 / 1e6 - 1) < 0.02);
	}
}

static void segments_whose_bucket_changes_count_where_they_were_read_last(void **state)
{
	const struct cache_params params = {
		.segment_bytes = 1000, .history_bytes = 1 << 20, .share = 1};
	struct history h;
	(void)state;
	assert_int_equal(cache_history_init(&h, &params), 0);
	for (uint32_t i = 0; i < 600; i++) {
		struct cache_request r = {.now_ms = i * 100ULL,
					  .block = i % 50 + 1,
					  .segments = 1,
					  .bucket = (uint16_t)(i / 50 % 3),
					  .bytes = 1000};
		assert_int_equal(cache_history_add(&h, &r), 0);
	}
	/* the last reads were under bucket 2: all unique bytes stand there, of 200 reads by 50 segments */
	assert_true(fabs(cache_history_reads(&h, 2) - 4) < 0.01);
	uint32_t samples = 0;
	for (uint32_t b = 0; b < h.buckets_n; b++)
		samples += h.buckets[b] != NULL ? h.buckets[b]->samples : 0;
	assert_int_equal(samples, h.count);
	assert_int_equal(h.buckets[2]->samples, 50);
	cache_history_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bound_is_beladys_with_bypass),
		cmocka_unit_test(an_order_reads_every_unit_once_and_its_inverse_agrees),
		cmocka_unit_test(readers_scan_files_side_by_side),
		cmocka_unit_test(ranges_that_overlap_or_leave_the_file_are_refused),
		cmocka_unit_test(a_window_that_fits_its_memory_is_exact),
		cmocka_unit_test(a_segment_counts_once_when_its_parts_are_read),
		cmocka_unit_test(a_sampled_window_keeps_its_error),
		cmocka_unit_test(recent_keys_are_found_and_old_ones_are_not),
		cmocka_unit_test(segments_whose_bucket_changes_count_where_they_were_read_last),
		cmocka_unit_test(writes_meet_the_limit_though_plans_are_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
