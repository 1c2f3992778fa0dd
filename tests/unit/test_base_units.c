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
#include "base/units.h"

#define SEED 81

static void sizes_are_read_in_every_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{"0", 0},           {"4096", 4096},       {"512B", 512},
		{"4K", 4 * KIB},    {"4KiB", 4 * KIB},    {"64M", 64 * MIB},
		{"1MiB", MIB},      {"3G", 3 * GIB},      {"3GiB", 3 * GIB},
		{"2T", 2048 * GIB}, {"2TiB", 2048 * GIB}, {"18446744073709551615", UINT64_MAX},
		{"007", 7},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t bytes = 1;
		assert_int_equal(units_parse_size(cases[i].text, &bytes), 0);
		assert_true(bytes == cases[i].bytes);
	}
}

static void durations_are_read_in_every_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{"0", 0},
		{"0s", 0},
		{"5ns", 5},
		{"7us", 7 * NS_PER_US},
		{"250ms", 250 * NS_PER_MS},
		{"30s", 30 * NS_PER_S},
		{"5m", 300 * NS_PER_S},
		{"2h", 7200 * NS_PER_S},
		{"1d", 86400 * NS_PER_S},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ns = 1;
		assert_int_equal(units_parse_duration(cases[i].text, &ns), 0);
		assert_true(ns == cases[i].ns);
	}
}

static void sizes_are_read_in_units_of_1024_and_of_1000(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {{"1kB", 1000},
		     {"1KB", 1000},
		     {"10MB", 10000000},
		     {"10MiB", 10 * MIB},
		     {"3GB", 3000000000},
		     {"20TB", 20000000000000},
		     {"2P", 2048 * (1024 * GIB)},
		     {"1PB", 1000000000000000},
		     {"1PiB", 1024 * (1024 * GIB)}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t bytes = 0;
		char text[UNITS_TEXT_MAX];
		assert_int_equal(units_parse_size(cases[i].text, &bytes), 0);
		assert_true(bytes == cases[i].bytes);
		assert_int_equal(units_parse_size(units_format_size(text, bytes), &bytes), 0);
		assert_true(bytes == cases[i].bytes);
	}
}

static void integers_are_read_to_both_ends(void **state)
{
	int64_t v;
	assert_int_equal(units_parse_int("-9223372036854775808", &v), 0);
	assert_true(v == INT64_MIN);
	assert_int_equal(units_parse_int("9223372036854775807", &v), 0);
	assert_true(v == INT64_MAX);
	assert_int_equal(units_parse_int("-0", &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(units_parse_int("9223372036854775808", &v), -ERANGE);
	assert_int_equal(units_parse_int("-9223372036854775809", &v), -ERANGE);
	assert_int_equal(units_parse_int("99999999999999999999", &v), -ERANGE);
}

static void what_is_not_a_number_with_a_unit_is_refused(void **state)
{
	static const char *const sizes[] = {"",    "K",  "-1",  "+1",   "1.5M", "1 K", "1kb",
					    "1mb", "4k", "1Ki", "0x10", "1e3",  " 1",  "1 "};
	static const char *const durations[] = {"", "s", "-1s", "5", "1.5s", "5 s", "5min", "5S"};
	static const char *const integers[] = {"",   "-",  "+1",  "1.0", "0x10",
					       " 1", "1 ", "--1", "1K"};
	uint64_t u;
	int64_t v;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		assert_int_equal(units_parse_size(sizes[i], &u), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(durations); i++)
		assert_int_equal(units_parse_duration(durations[i], &u), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(integers); i++)
		assert_int_equal(units_parse_int(integers[i], &v), -EINVAL);
	assert_int_equal(units_parse_size("18446744073709551616", &u), -ERANGE);
	assert_int_equal(units_parse_size("16777216T", &u), -ERANGE);
	assert_int_equal(units_parse_duration("213504d", &u), -ERANGE);
}

static void a_formatted_value_reads_back_to_itself(void **state)
{
	struct rng rng;
	rng_init(&rng, SEED);
	print_message("seed %d\n", SEED);
	for (int i = 0; i < 2000; i++) {
		uint64_t value = rng_u64(&rng) >> rng_below(&rng, 64) << rng_below(&rng, 40);
		if (i % 2 == 0)
			value = value % 1000 * 60 * NS_PER_S;
		char text[UNITS_TEXT_MAX];
		uint64_t again = ~value;
		assert_int_equal(units_parse_size(units_format_size(text, value), &again), 0);
		assert_true(again == value);
		again = ~value;
		assert_int_equal(units_parse_duration(units_format_duration(text, value), &again),
				 0);
		assert_true(again == value);
	}
}

static void formats_use_the_largest_exact_unit(void **state)
{
	char text[UNITS_TEXT_MAX];
	assert_string_equal(units_format_size(text, 0), "0");
	assert_string_equal(units_format_size(text, 4097), "4097");
	assert_string_equal(units_format_size(text, 1536 * KIB), "1536KiB");
	assert_string_equal(units_format_size(text, 64 * MIB), "64MiB");
	assert_string_equal(units_format_duration(text, 0), "0s");
	assert_string_equal(units_format_duration(text, 1500 * NS_PER_MS), "1500ms");
	assert_string_equal(units_format_duration(text, 90 * NS_PER_S), "90s");
	assert_string_equal(units_format_duration(text, 120 * NS_PER_S), "2m");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read_in_every_unit),
		cmocka_unit_test(durations_are_read_in_every_unit),
		cmocka_unit_test(sizes_are_read_in_units_of_1024_and_of_1000),
		cmocka_unit_test(integers_are_read_to_both_ends),
		cmocka_unit_test(what_is_not_a_number_with_a_unit_is_refused),
		cmocka_unit_test(a_formatted_value_reads_back_to_itself),
		cmocka_unit_test(formats_use_the_largest_exact_unit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
