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

#include "base/strbuf.h"

static void additions_of_every_kind_come_one_after_the_other(void **state)
{
	struct strbuf s;
	strbuf_init(&s, 1000);
	assert_string_equal(strbuf_text(&s), "");
	assert_int_equal(strbuf_puts(&s, "a=1"), 0);
	assert_int_equal(strbuf_add(&s, " bc", 2), 0);
	assert_int_equal(strbuf_printf(&s, "%s=%d", "c", 42), 0);
	assert_int_equal(strbuf_printf(&s, "%s", ""), 0);
	assert_string_equal(strbuf_text(&s), "a=1 bc=42");
	assert_int_equal(s.len, 9);
	strbuf_clear(&s);
	assert_string_equal(strbuf_text(&s), "");
	assert_int_equal(strbuf_puts(&s, "again"), 0);
	assert_string_equal(strbuf_text(&s), "again");
	strbuf_fini(&s);
	assert_string_equal(strbuf_text(&s), "");
}

/* For every limit and every way to add, one byte too many changes nothing. */
static void the_limit_holds_to_the_byte_and_an_error_keeps_the_text(void **state)
{
	for (size_t limit = 0; limit < 200; limit++) {
		struct strbuf s;
		strbuf_init(&s, limit);
		for (size_t i = 0; i < limit; i++)
			assert_int_equal(strbuf_printf(&s, "%c", (char)('a' + i % 26)), 0);
		assert_int_equal(s.len, limit);
		assert_int_equal(strbuf_puts(&s, "x"), -EMSGSIZE);
		assert_int_equal(strbuf_add(&s, "yz", 2), -EMSGSIZE);
		assert_int_equal(strbuf_printf(&s, "%d", 7), -EMSGSIZE);
		assert_int_equal(strbuf_add(&s, "", 0), 0);
		assert_int_equal(s.len, limit);
		assert_true(s.cap <= limit + 1);
		assert_int_equal(strlen(strbuf_text(&s)), limit);
		for (size_t i = 0; i < limit; i++)
			assert_int_equal(strbuf_text(&s)[i], 'a' + i % 26);
		strbuf_fini(&s);
	}
}

static void a_text_that_is_too_long_is_refused_completely(void **state)
{
	struct strbuf s;
	strbuf_init(&s, 10);
	assert_int_equal(strbuf_puts(&s, "12345"), 0);
	assert_int_equal(strbuf_printf(&s, "%s-%s", "abc", "def"), -EMSGSIZE);
	assert_string_equal(strbuf_text(&s), "12345");
	assert_int_equal(strbuf_puts(&s, "67890"), 0);
	assert_string_equal(strbuf_text(&s), "1234567890");
	strbuf_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(additions_of_every_kind_come_one_after_the_other),
		cmocka_unit_test(the_limit_holds_to_the_byte_and_an_error_keeps_the_text),
		cmocka_unit_test(a_text_that_is_too_long_is_refused_completely),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
