// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "code/encoding.h"

static void assert_counts(const char *text, int data, int total, int tolerance)
{
	struct encoding e;
	char printed[ENCODING_TEXT_MAX];
	assert_int_equal(encoding_parse(text, &e, NULL, 0), 0);
	encoding_print(&e, printed);
	assert_string_equal(printed, text);
	assert_int_equal(encoding_data_chunks(&e), data);
	assert_int_equal(encoding_total_chunks(&e), total);
	assert_int_equal(encoding_tolerance(&e), tolerance);
	assert_true(encoding_expansion(&e) == (double)total / data);
	assert_true(encoding_redundant_share(&e) == 1.0 - (double)data / total);
}

static void valid_encodings_print_back_and_count_their_chunks(void **state)
{
	assert_counts("r1", 1, 1, 0);
	assert_counts("r3", 1, 3, 2);
	assert_counts("r16", 1, 16, 15);
	assert_counts("rs:1+1", 1, 2, 1);
	assert_counts("rs:9+6", 9, 15, 6);
	assert_counts("rs:254+1", 254, 255, 1);
	assert_counts("rs:1+254", 1, 255, 254);
	assert_counts("lrc:12+2+2", 12, 16, 3);
	assert_counts("lrc:4+4+1", 4, 9, 2);
	assert_counts("lrc:252+1+2", 252, 255, 3);
	assert_counts("mlec:10+2/17+3", 170, 240, 11);
	assert_counts("mlec:127+128/127+128", 127 * 127, 255 * 255, 129 * 129 - 1);
}

static void assert_refused(const char *text, int err, const char *reason)
{
	struct encoding e = {.kind = ENCODING_RS, .rs = {7, 7}};
	char why[ENCODING_WHY_MAX];
	assert_int_equal(encoding_parse(text, &e, why, sizeof(why)), err);
	assert_int_equal(encoding_parse(text, &e, NULL, 0), err);
	if (strstr(why, reason) == NULL)
		fail_msg("'%s' was refused with '%s', not '%s'", text, why, reason);
	assert_true(e.kind == ENCODING_RS && e.rs.k == 7 && e.rs.p == 7);
}

static void malformed_text_is_refused_with_a_reason(void **state)
{
	assert_refused("", -EILSEQ, "is not an encoding");
	assert_refused("R3", -EILSEQ, "is not an encoding");
	assert_refused(" r3", -EILSEQ, "is not an encoding");
	assert_refused("raid6", -EILSEQ, "plain decimal");
	assert_refused("r", -EILSEQ, "plain decimal");
	assert_refused("r-3", -EILSEQ, "plain decimal");
	assert_refused("r+3", -EILSEQ, "plain decimal");
	assert_refused("r03", -EILSEQ, "leading zeros");
	assert_refused("r3 ", -EILSEQ, "at the end");
	assert_refused("rs:4", -EILSEQ, "the form is rs:K+P");
	assert_refused("rs:4+", -EILSEQ, "P must be");
	assert_refused("rs:+2", -EILSEQ, "K must be");
	assert_refused("rs:4+2x", -EILSEQ, "at the end");
	assert_refused("rs:4 +2", -EILSEQ, "expected '+'");
	assert_refused("rs:04+2", -EILSEQ, "leading zeros");
	assert_refused("lrc:12+2", -EILSEQ, "the form is lrc:K+L+R");
	assert_refused("lrc:12+2+", -EILSEQ, "R must be");
	assert_refused("lrc:x", -EILSEQ, "K must be");
	assert_refused("mlec:10+2", -EILSEQ, "expected '/'");
	assert_refused("mlec:10", -EILSEQ, "expected '+'");
	assert_refused("mlec:10+2/17+3/1+1", -EILSEQ, "at the end");
}

static void impossible_numbers_are_refused_with_a_reason(void **state)
{
	assert_refused("r0", -EINVAL, "1 to 16");
	assert_refused("r17", -EINVAL, "1 to 16");
	assert_refused("r99999999999999999999", -EINVAL, "larger than 9999");
	assert_refused("rs:0+1", -EINVAL, "at least one data");
	assert_refused("rs:4+0", -EINVAL, "at least one parity");
	assert_refused("rs:255+1", -EINVAL, "more than 255");
	assert_refused("rs:9999+1", -EINVAL, "more than 255");
	assert_refused("rs:1+9999", -EINVAL, "more than 255");
	assert_refused("rs:4294967300+2", -EINVAL, "larger than 9999");
	assert_refused("lrc:0+1+1", -EINVAL, "at least one data");
	assert_refused("lrc:4+0+1", -EINVAL, "at least one local group");
	assert_refused("lrc:4+2+0", -EINVAL, "at least one global");
	assert_refused("lrc:12+5+2", -EINVAL, "do not divide");
	assert_refused("lrc:2+4+2", -EINVAL, "do not divide");
	assert_refused("lrc:252+2+2", -EINVAL, "more than 255");
	assert_refused("lrc:256+1+1", -EINVAL, "more than 255");
	assert_refused("lrc:1+256+1", -EINVAL, "more than 255");
	assert_refused("lrc:1+1+256", -EINVAL, "more than 255");
	assert_refused("mlec:0+2/17+3", -EINVAL, "network level");
	assert_refused("mlec:10+2/17+0", -EINVAL, "local level");
}

static void parameters_not_from_text_are_checked_too(void **state)
{
	char why[ENCODING_WHY_MAX];
	struct encoding e = {.kind = (enum encoding_kind)9};
	assert_int_equal(encoding_check(&e, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "kind"));
	e = (struct encoding){.kind = ENCODING_RS, .rs = {INT32_MAX, INT32_MAX}};
	assert_int_equal(encoding_check(&e, why, sizeof(why)), -EINVAL);
	e = (struct encoding){.kind = ENCODING_LRC, .lrc = {INT32_MAX, 1, INT32_MAX}};
	assert_int_equal(encoding_check(&e, why, sizeof(why)), -EINVAL);
	e = (struct encoding){.kind = ENCODING_RS, .rs = {-1, 2}};
	assert_int_equal(encoding_check(&e, why, sizeof(why)), -EINVAL);
}

static struct encoding parsed(const char *text)
{
	struct encoding e;
	assert_int_equal(encoding_parse(text, &e, NULL, 0), 0);
	return e;
}

static void equality_compares_kind_and_every_number(void **state)
{
	static const char *const all[] = {
		"r2",           "r3",           "rs:4+2",       "rs:4+3",       "rs:5+2",
		"lrc:4+2+2",    "lrc:8+2+2",    "lrc:4+1+2",    "lrc:4+2+1",    "mlec:2+1/2+1",
		"mlec:3+1/2+1", "mlec:2+2/2+1", "mlec:2+1/3+1", "mlec:2+1/2+2",
	};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		for (size_t j = 0; j < ARRAY_LEN(all); j++) {
			struct encoding a = parsed(all[i]), b = parsed(all[j]);
			assert_int_equal(encoding_equal(&a, &b), i == j);
		}
	}
}

static void data_chunks_and_parts_of_the_block_map_both_ways(void **state)
{
	static const char *const all[] = {"r3", "rs:4+2", "lrc:4+2+2", "mlec:2+1/3+2"};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct encoding e = parsed(all[i]);
		int found = 0;
		for (int c = 0; c < encoding_total_chunks(&e); c++) {
			int d = encoding_data_index(&e, c);
			assert_int_equal(d >= 0, encoding_role(&e, c) == CHUNK_DATA);
			if (d < 0)
				continue;
			assert_int_equal(d, found++);
			assert_int_equal(encoding_data_chunk(&e, d), c);
		}
		assert_int_equal(found, encoding_data_chunks(&e));
	}
}

static void assert_roles(const char *text, const char *roles)
{
	struct encoding e = parsed(text);
	assert_int_equal(encoding_total_chunks(&e), strlen(roles));
	for (int c = 0; roles[c] != '\0'; c++)
		assert_int_equal(chunk_role_name(encoding_role(&e, c))[0], roles[c]);
}

/* Roles by their first letter: data, copy, local, global parity; X is a double parity. */
static void every_chunk_has_its_role(void **state)
{
	assert_roles("r3", "dcc");
	assert_roles("rs:3+2", "dddgg");
	assert_roles("lrc:4+2+1", "ddddllg");
	assert_roles("mlec:2+1/2+1", "ddlddlggd");
	struct encoding e = parsed("mlec:2+1/2+1");
	assert_int_equal(encoding_role(&e, 8), CHUNK_DOUBLE_PARITY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(valid_encodings_print_back_and_count_their_chunks),
		cmocka_unit_test(malformed_text_is_refused_with_a_reason),
		cmocka_unit_test(impossible_numbers_are_refused_with_a_reason),
		cmocka_unit_test(parameters_not_from_text_are_checked_too),
		cmocka_unit_test(equality_compares_kind_and_every_number),
		cmocka_unit_test(data_chunks_and_parts_of_the_block_map_both_ways),
		cmocka_unit_test(every_chunk_has_its_role),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
