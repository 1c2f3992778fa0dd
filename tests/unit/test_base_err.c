// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/err.h"

#define WIRE_CODE_MAX 4096 /* Linux's own bound on errno values */

static void codes_of_the_design_have_a_name_and_a_meaning(void **state)
{
	static const struct {
		int code;
		const char *name;
		const char *word; /* a word that the text of the error contains */
	} cases[] = {
		{EBADMSG, "EBADMSG", "checksum"}, {ESTALE, "ESTALE", "stale"},
		{ENODATA, "ENODATA", "chunks"},   {EDQUOT, "EDQUOT", "quota"},
		{ETIME, "ETIME", "deadline"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_string_equal(err_name(cases[i].code), cases[i].name);
		assert_non_null(strstr(err_text(cases[i].code), cases[i].word));
	}
}

static void sign_of_a_code_does_not_matter(void **state)
{
	for (int code = 1; code <= WIRE_CODE_MAX; code++) {
		assert_ptr_equal(err_name(code), err_name(-code));
		assert_ptr_equal(err_text(code), err_text(-code));
	}
}

static void success_is_named(void **state)
{
	assert_string_equal(err_name(0), "OK");
	assert_string_equal(err_text(0), "ok");
}

static void code_outside_the_table_still_has_text(void **state)
{
	assert_string_equal(err_name(-12345), "EUNKNOWN");
	assert_string_equal(err_text(-12345), "unexpected error");
}

/* Two entries with one name or one code would make the second unreachable. */
static void no_two_codes_share_a_name_or_a_text(void **state)
{
	for (int a = 1; a < 200; a++) {
		for (int b = a + 1; b < 200; b++) {
			if (strcmp(err_name(a), "EUNKNOWN") == 0 ||
			    strcmp(err_name(b), "EUNKNOWN") == 0)
				continue;
			assert_string_not_equal(err_name(a), err_name(b));
			assert_string_not_equal(err_text(a), err_text(b));
		}
	}
}

static void texts_are_phrases_without_a_full_stop(void **state)
{
	for (int code = 0; code < 200; code++) {
		size_t len = strlen(err_text(code));
		assert_true(len > 0);
		assert_true(err_text(code)[len - 1] != '.');
	}
}

static void known_codes_cross_the_wire(void **state)
{
	assert_int_equal(err_from_wire(0), 0);
	assert_int_equal(err_from_wire(EBADMSG), -EBADMSG);
	assert_int_equal(err_from_wire(ESHUTDOWN), -ESHUTDOWN);
}

/* Otherwise the calling fiber would take itself for cancelled. */
static void a_peer_cannot_cancel_a_fiber_of_this_process(void **state)
{
	assert_int_equal(err_from_wire(ECANCELED), -ESHUTDOWN);
}

static void unknown_codes_from_the_wire_become_protocol_errors(void **state)
{
	static const uint32_t bad[] = {
		ENOTTY,      WIRE_CODE_MAX,      WIRE_CODE_MAX + 1, INT32_MAX,
		0x80000000u, (uint32_t)-EBADMSG, UINT32_MAX,
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(err_from_wire(bad[i]), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_of_the_design_have_a_name_and_a_meaning),
		cmocka_unit_test(sign_of_a_code_does_not_matter),
		cmocka_unit_test(success_is_named),
		cmocka_unit_test(code_outside_the_table_still_has_text),
		cmocka_unit_test(no_two_codes_share_a_name_or_a_text),
		cmocka_unit_test(texts_are_phrases_without_a_full_stop),
		cmocka_unit_test(known_codes_cross_the_wire),
		cmocka_unit_test(a_peer_cannot_cancel_a_fiber_of_this_process),
		cmocka_unit_test(unknown_codes_from_the_wire_become_protocol_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
