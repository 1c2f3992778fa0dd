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
#include "base/json.h"
#include "base/rng.h"
#include "base/utf8.h"

#define SEED 71

static void malformed_utf8_is_detected(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		size_t expected;
	} cases[] = {
		{"a", 1, 1},
		{"\0", 1, 1},
		{"", 0, 0},
		{"\xc3\xa9", 2, 2},
		{"\xe2\x82\xac", 3, 3},
		{"\xf0\x9f\x98\x80", 4, 4},
		{"\xf4\x8f\xbf\xbf", 4, 4}, /* U+10FFFF */
		{"\x80", 1, 0},             /* a continuation byte without a first byte */
		{"\xc3", 1, 0},             /* a first byte without its continuation byte */
		{"\xe2\x82", 2, 0},
		{"\xf0\x9f\x98", 3, 0},
		{"\xc3(", 2, 0},
		{"\xe2\x82(", 3, 0},
		{"\xc0\xaf", 2, 0}, /* overlong */
		{"\xe0\x80\xaf", 3, 0},
		{"\xf0\x80\x80\xaf", 4, 0},
		{"\xed\xa0\x80", 3, 0},     /* a surrogate */
		{"\xf4\x90\x80\x80", 4, 0}, /* beyond U+10FFFF */
		{"\xf5\x80\x80\x80", 4, 0},
		{"\xff", 1, 0},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(utf8_char_len(cases[i].bytes, cases[i].len), cases[i].expected);
}

static void bytes_that_are_not_text_become_replacement_characters(void **state)
{
	AUTO_JSON json_t *clean = json_text("na\xc3\xafve", 6);
	assert_string_equal(json_string_value(clean), "na\xc3\xafve");
	AUTO_JSON json_t *dirty = json_text("a\xff\xe2\x82z", 5);
	assert_string_equal(json_string_value(dirty), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
	AUTO_JSON json_t *with_nul = json_text("a\0b", 3);
	assert_int_equal(json_string_length(with_nul), 3);
	AUTO_JSON json_t *empty = json_text(NULL, 0);
	assert_string_equal(json_string_value(empty), "");
}

/* jansson itself refuses to print or read anything that is not well-formed. */
static void any_bytes_make_a_string_that_prints_and_reads_back(void **state)
{
	struct rng rng;
	rng_init(&rng, SEED);
	print_message("seed %d\n", SEED);
	for (int i = 0; i < 2000; i++) {
		char bytes[40];
		size_t len = (size_t)rng_below(&rng, sizeof(bytes));
		rng_fill(&rng, bytes, len);
		/* Half of the bytes from the range where UTF-8 sequences live. */
		for (size_t k = 0; k < len; k++)
			if (bytes[k] & 1)
				bytes[k] = (char)(bytes[k] | 0x80);
		AUTO_JSON json_t *value = json_text(bytes, len);
		assert_non_null(value);
		AUTO_FREE char *printed = json_dumps(value, JSON_ENCODE_ANY);
		assert_non_null(printed);
		AUTO_JSON json_t *again =
			json_loads(printed, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert_true(json_equal(value, again));
	}
}

static void emit_prints_indented_with_a_newline(void **state)
{
	AUTO_JSON json_t *value = json_pack("{s:i, s:[s]}", "n", 1, "list", "x");
	AUTO_FREE char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	assert_non_null(f);
	assert_int_equal(json_emit(f, value), 0);
	fclose(f);
	assert_string_equal(text, "{\n  \"n\": 1,\n  \"list\": [\n    \"x\"\n  ]\n}\n");
}

static void emit_reports_write_errors(void **state)
{
	AUTO_JSON json_t *value = json_pack("[i]", 1);
	FILE *full = fopen("/dev/full", "w");
	assert_non_null(full);
	assert_int_equal(json_emit(full, value), -ENOSPC);
	fclose(full);
	assert_int_equal(json_emit(stdout, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_utf8_is_detected),
		cmocka_unit_test(bytes_that_are_not_text_become_replacement_characters),
		cmocka_unit_test(any_bytes_make_a_string_that_prints_and_reads_back),
		cmocka_unit_test(emit_prints_indented_with_a_newline),
		cmocka_unit_test(emit_reports_write_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
