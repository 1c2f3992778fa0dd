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
#include "kv/row_cache.h"

#define KEYS 5000
#define STEPS 400000
#define SEED 5
#define UNKNOWN UINT32_MAX
#define ABSENT (UINT32_MAX - 1)

static size_t key_of(char out[32], uint64_t i)
{
	return (size_t)snprintf(out, 32, "key-%llu", (unsigned long long)i);
}

static uint64_t partition_of(uint64_t i)
{
	return i % 7;
}

/* Makes a value that names its key and change, and is long enough to fill the ring. */
static struct kv_bytes value_of(uint8_t out[200], uint64_t i, uint32_t change)
{
	size_t len = 8 + (size_t)((i + change) % 190);
	memset(out, 0, len);
	memcpy(out, &change, sizeof(change));
	return kv_bytes(out, len);
}

static void put(struct row_cache *c, uint64_t i, uint32_t change)
{
	char key[32];
	uint8_t bytes[200];
	struct kv_bytes value = value_of(bytes, i, change);
	row_cache_put(c, partition_of(i), kv_bytes(key, key_of(key, i)),
		      change == ABSENT ? NULL : &value);
}

/* Returns the cached change of the key, ABSENT (it does not exist) or UNKNOWN (not cached). */
static uint32_t get(struct row_cache *c, uint64_t i)
{
	char key[32];
	uint8_t bytes[200];
	bool found;
	struct kv_bytes value;
	if (!row_cache_get(c, partition_of(i), kv_bytes(key, key_of(key, i)), &found, &value))
		return UNKNOWN;
	if (!found)
		return ABSENT;
	uint32_t change;
	assert_true(value.len >= sizeof(change));
	memcpy(&change, value.data, sizeof(change));
	assert_true(kv_equal(value, value_of(bytes, i, change)));
	return change;
}

static void drop(struct row_cache *c, uint64_t i)
{
	char key[32];
	row_cache_drop(c, partition_of(i), kv_bytes(key, key_of(key, i)));
}

/* The model holds the last put of each key. The cache must return that put, or nothing. */
static void a_lookup_returns_the_last_put_or_nothing(void **state)
{
	(void)state;
	static uint32_t model[KEYS];
	const uint64_t bytes_max = 256 * KIB; /* the cache has room for a fraction of the keys */
	struct row_cache *c;
	struct rng rng;
	uint64_t hits = 0;
	rng_init(&rng, SEED);
	for (size_t i = 0; i < KEYS; i++)
		model[i] = UNKNOWN;
	assert_int_equal(row_cache_open(&c, bytes_max), 0);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint64_t i = rng_below(&rng, KEYS);
		uint64_t what = rng_below(&rng, 8);
		uint32_t known = get(c, i);
		hits += known != UNKNOWN;
		assert_true(known == UNKNOWN || known == model[i]);
		if (what < 3) {
			model[i] = what == 0 ? ABSENT : step;
			put(c, i, model[i]);
			assert_int_equal(get(c, i), model[i]);
		} else if (what == 3) {
			model[i] = UNKNOWN;
			drop(c, i);
			assert_int_equal(get(c, i), UNKNOWN);
		}
		assert_true(row_cache_bytes(c) <= bytes_max);
	}
	assert_true(hits > STEPS / 10);
	for (size_t i = 0; i < KEYS; i++)
		drop(c, i);
	assert_int_equal(row_cache_count(c), 0);
	row_cache_close(c);
}

static void an_empty_value_is_not_an_absent_one(void **state)
{
	(void)state;
	struct row_cache *c;
	bool found;
	struct kv_bytes value = kv_bytes("", 0);
	assert_int_equal(row_cache_open(&c, MIB), 0);
	row_cache_put(c, 1, kv_text("k"), &value);
	assert_true(row_cache_get(c, 1, kv_text("k"), &found, &value));
	assert_true(found && value.len == 0);
	assert_false(row_cache_get(c, 2, kv_text("k"), &found, &value));
	row_cache_put(c, 1, kv_text("k"), NULL);
	assert_true(row_cache_get(c, 1, kv_text("k"), &found, &value));
	assert_false(found);
	row_cache_close(c);
}

static void a_long_value_is_not_cached_and_drops_the_old_row(void **state)
{
	(void)state;
	static char bytes[ROW_CACHE_VALUE_MAX + 1];
	struct row_cache *c;
	bool found;
	struct kv_bytes value = kv_bytes(bytes, ROW_CACHE_VALUE_MAX);
	assert_int_equal(row_cache_open(&c, MIB), 0);
	row_cache_put(c, 1, kv_text("k"), &value);
	assert_true(row_cache_get(c, 1, kv_text("k"), &found, &value));
	assert_int_equal(value.len, ROW_CACHE_VALUE_MAX);
	value = kv_bytes(bytes, sizeof(bytes));
	row_cache_put(c, 1, kv_text("k"), &value);
	assert_false(row_cache_get(c, 1, kv_text("k"), &found, &value));
	row_cache_close(c);
}

/* Growth by one bucket at a time evicts few rows: only those of buckets that overflow. */
static void nearly_all_rows_that_fit_are_cached(void **state)
{
	(void)state;
	const uint64_t rows = 60000;
	struct row_cache *c;
	uint64_t kept = 0;
	assert_int_equal(row_cache_open(&c, 64 * MIB), 0);
	for (uint64_t i = 0; i < rows; i++)
		put(c, i, 1);
	for (uint64_t i = 0; i < rows; i++)
		kept += get(c, i) == 1;
	assert_int_equal(kept, row_cache_count(c));
	assert_true(kept > rows * 98 / 100);
	row_cache_close(c);
}

/* Rows that are read again and again stay, while ten times the cache's size passes through. */
static void rows_read_again_stay_while_many_are_read_once(void **state)
{
	(void)state;
	const uint64_t hot = 500;
	struct row_cache *c;
	uint64_t lost = 0;
	assert_int_equal(row_cache_open(&c, MIB), 0);
	for (uint64_t i = 0; i < hot; i++)
		put(c, i, 1);
	for (uint64_t i = 0; i < 50000; i++) {
		put(c, hot + i, 2);
		if (get(c, i % hot) == UNKNOWN) {
			lost++;
			put(c, i % hot, 1);
		}
	}
	assert_true(lost < 50000 / 50);
	assert_true(row_cache_bytes(c) <= MIB);
	row_cache_close(c);
}

static void few_rows_that_change_often_take_little_memory(void **state)
{
	(void)state;
	struct row_cache *c;
	assert_int_equal(row_cache_open(&c, 64 * MIB), 0);
	for (uint32_t step = 0; step < 300000; step++) {
		put(c, step % 500, step);
		assert_int_equal(get(c, step % 500), step);
	}
	assert_int_equal(row_cache_count(c), 500);
	assert_true(row_cache_bytes(c) <= MIB);
	row_cache_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lookup_returns_the_last_put_or_nothing),
		cmocka_unit_test(an_empty_value_is_not_an_absent_one),
		cmocka_unit_test(a_long_value_is_not_cached_and_drops_the_old_row),
		cmocka_unit_test(nearly_all_rows_that_fit_are_cached),
		cmocka_unit_test(rows_read_again_stay_while_many_are_read_once),
		cmocka_unit_test(few_rows_that_change_often_take_little_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
