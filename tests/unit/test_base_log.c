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

#include "base/err.h"
#include "base/log.h"

/* A sink that keeps all lines, and a clock that the test sets. */
static struct {
	char text[64 * 1024];
	size_t len;
	uint64_t now_ns;
	const char *proc;
} out;

static void keep_line(void *ctx, const char *line, size_t len)
{
	assert_true(len <= LOG_LINE_MAX && line[len - 1] == '\n');
	assert_null(memchr(line, '\n', len - 1));
	assert_true(out.len + len < sizeof(out.text));
	memcpy(out.text + out.len, line, len);
	out.len += len;
	out.text[out.len] = '\0';
}

static uint64_t hand_clock(void *ctx)
{
	return out.now_ns;
}

static const char *proc_name(void *ctx)
{
	return out.proc;
}

static int start(void **state)
{
	log_setup(&(struct log_config){
		.level = LOG_INFO, .write = keep_line, .wall_ns = hand_clock, .proc = proc_name});
	memset(&out, 0, sizeof(out));
	return 0;
}

static int stop(void **state)
{
	log_setup(NULL);
	return 0;
}

static int count_lines(void)
{
	int n = 0;
	for (size_t i = 0; i < out.len; i++)
		n += out.text[i] == '\n';
	return n;
}

static void a_line_has_time_level_event_process_and_fields(void **state)
{
	out.now_ns = 1794729600123456789; /* 2026-11-15 08:00:00.123456789 */
	out.proc = "node1";
	log_warn("disk_failed", "disk=%u err=%s", 3, err_name(-EIO));
	assert_string_equal(
		out.text,
		"2026-11-15T08:00:00.123456Z warn disk_failed proc=node1 disk=3 err=EIO\n");
}

static void unknown_parts_are_left_out(void **state)
{
	log_info("started");
	log_error("stopped", "why=%s", "test");
	assert_string_equal(out.text, "info started\nerror stopped why=test\n");
}

static void dates_are_right_around_leap_days_and_centuries(void **state)
{
	static const struct {
		uint64_t seconds;
		const char *text;
	} dates[] = {
		{1, "1970-01-01T00:00:01"},          {951782399, "2000-02-28T23:59:59"},
		{951782400, "2000-02-29T00:00:00"},  {951868800, "2000-03-01T00:00:00"},
		{1709164800, "2024-02-29T00:00:00"}, {1735689599, "2024-12-31T23:59:59"},
		{1735689600, "2025-01-01T00:00:00"}, {4107542399, "2100-02-28T23:59:59"},
		{4107542400, "2100-03-01T00:00:00"},
	};
	for (size_t i = 0; i < ARRAY_LEN(dates); i++) {
		out.len = 0;
		out.now_ns = dates[i].seconds * NS_PER_S;
		log_info("tick");
		assert_memory_equal(out.text, dates[i].text, strlen(dates[i].text));
	}
}

static int evaluated;

static int evaluate(void)
{
	return ++evaluated;
}

static void a_level_that_is_off_evaluates_nothing(void **state)
{
	evaluated = 0;
	log_debug("hidden", "n=%d", evaluate());
	assert_int_equal(evaluated, 0);
	assert_int_equal(out.len, 0);
	log_set_level(LOG_DEBUG);
	log_debug("shown", "n=%d", evaluate());
	assert_string_equal(out.text, "debug shown n=1\n");
	log_set_level(LOG_OFF);
	log_error("hidden", "n=%d", evaluate());
	assert_int_equal(evaluated, 1);
}

/* For every length around the limit: nothing lost below it, and marked above it. */
static void a_long_line_is_cut_and_says_so(void **state)
{
	char value[LOG_LINE_MAX * 2 + 1];
	memset(value, 'v', sizeof(value));
	const size_t room = LOG_LINE_MAX - strlen("info big k=\n cut=1");
	for (size_t len = room - 5; len < sizeof(value); len += len < LOG_LINE_MAX + 5 ? 1 : 99) {
		out.len = 0;
		log_info("big", "k=%.*s", (int)len, value);
		bool cut = strstr(out.text, " cut=1\n") != NULL;
		assert_int_equal(cut, len > room);
		assert_true(out.len <= LOG_LINE_MAX);
		if (!cut)
			assert_int_equal(out.len, strlen("info big k=\n") + len);
		else
			assert_true(out.len > LOG_LINE_MAX - 8);
	}
}

static void a_cut_never_splits_a_character_or_an_escape(void **state)
{
	char value[LOG_LINE_MAX];
	for (size_t shift = 0; shift < 8; shift++) {
		memset(value, 'v', sizeof(value));
		for (size_t i = shift; i + 7 < sizeof(value); i += 7)
			memcpy(value + i, "\xe2\x82\xac\n", 4); /* a euro sign and a newline */
		value[sizeof(value) - 1] = '\0';
		out.len = 0;
		log_info("big", "k=%s", value);
		const char *mark = strstr(out.text, " cut=1\n");
		assert_non_null(mark);
		assert_true(mark[-1] == 'v' || mark[-1] == 'n' || mark[-1] == '\xac');
	}
}

static void text_from_outside_cannot_forge_a_line(void **state)
{
	out.proc = "a\nb";
	log_info("x", "name=%s", "evil\n2026-01-01T00:00:00Z error fake\r\t\x1b[31m\x7f");
	assert_string_equal(out.text, "info x proc=a\\nb name=evil\\n2026-01-01T00:00:00Z error "
				      "fake\\r\\t\\x1b[31m\\x7f\n");
	out.len = 0;
	out.proc = NULL;
	/* Kept: é; escaped: a byte alone, an overlong slash, and a C1 control character. */
	log_info("x", "name=%s", "\xc3\xa9 \xff \xc0\xaf \xc2\x9b");
	assert_string_equal(out.text, "info x name=\xc3\xa9 \\xff \\xc0\\xaf \\xc2\\x9b\n");
}

static void values_are_quoted_when_they_would_be_ambiguous(void **state)
{
	static const char *const cases[][2] = {
		{"plain", "plain"},     {"/a/b-c_d.e", "/a/b-c_d.e"},
		{"", "\"\""},           {"two words", "\"two words\""},
		{"a=b", "\"a=b\""},     {"say \"hi\"", "\"say \\\"hi\\\"\""},
		{"c:\\", "\"c:\\\\\""}, {"a\nb", "\"a\\nb\""},
		{"\xff", "\"\\xff\""},  {"\xc3\xa9", "\xc3\xa9"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(LOG_QUOTE(cases[i][0]), cases[i][1]);
	for (size_t len = LOG_VALUE_MAX - 20; len < LOG_VALUE_MAX + 20; len++) {
		for (int quoted = 0; quoted < 2; quoted++) {
			char value[LOG_VALUE_MAX + 20];
			memset(value, 'v', len);
			value[0] = quoted ? ' ' : 'v';
			value[len] = '\0';
			const char *shown = LOG_QUOTE(value);
			assert_true(strlen(shown) < LOG_VALUE_MAX);
			assert_true(strstr(shown, "...") != NULL ||
				    strlen(shown) == len + 2 * (size_t)quoted);
		}
	}
}

static void warn_once(int i)
{
	log_warn("flood", "i=%d", i);
}

static void a_site_is_bounded_per_second_and_reports_what_it_dropped(void **state)
{
	out.now_ns = 1000 * NS_PER_S;
	for (int i = 0; i < 100; i++)
		warn_once(i);
	assert_int_equal(count_lines(), LOG_SITE_BURST);
	log_warn("other", "a site of its own is not affected");
	assert_int_equal(count_lines(), LOG_SITE_BURST + 1);
	out.len = 0;
	out.now_ns += NS_PER_S;
	warn_once(100);
	assert_string_equal(out.text, "1970-01-01T00:16:41.000000Z warn flood suppressed=80\n"
				      "1970-01-01T00:16:41.000000Z warn flood i=100\n");
	out.len = 0;
	log_flush();
	assert_int_equal(out.len, 0);
}

static void flush_reports_suppressed_lines_once(void **state)
{
	out.now_ns = 2000 * NS_PER_S;
	for (int i = 0; i < LOG_SITE_BURST + 7; i++) {
		log_warn("first", "i=%d", i);
		log_error("second", "i=%d", i);
	}
	out.len = 0;
	out.text[0] = '\0';
	log_flush();
	assert_int_equal(count_lines(), 2);
	assert_non_null(strstr(out.text, "warn first suppressed=7\n"));
	assert_non_null(strstr(out.text, "error second suppressed=7\n"));
	out.len = 0;
	log_flush();
	assert_int_equal(out.len, 0);
}

static void a_clock_that_goes_back_does_not_silence_a_site(void **state)
{
	out.now_ns = 3000 * NS_PER_S;
	for (int i = 0; i < 2 * LOG_SITE_BURST; i++) {
		if (i == LOG_SITE_BURST)
			out.now_ns = 10 * NS_PER_S;
		log_warn("rewound", "i=%d", i);
	}
	assert_int_equal(count_lines(), 2 * LOG_SITE_BURST);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(a_line_has_time_level_event_process_and_fields),
		TEST(unknown_parts_are_left_out),
		TEST(dates_are_right_around_leap_days_and_centuries),
		TEST(a_level_that_is_off_evaluates_nothing),
		TEST(a_long_line_is_cut_and_says_so),
		TEST(a_cut_never_splits_a_character_or_an_escape),
		TEST(text_from_outside_cannot_forge_a_line),
		TEST(values_are_quoted_when_they_would_be_ambiguous),
		TEST(a_site_is_bounded_per_second_and_reports_what_it_dropped),
		TEST(flush_reports_suppressed_lines_once),
		TEST(a_clock_that_goes_back_does_not_silence_a_site),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
