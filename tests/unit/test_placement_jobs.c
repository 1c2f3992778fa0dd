// SPDX-License-Identifier: Apache-2.0
/* Traces of jobs: what the reader refuses, and what the generator promises. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/placement/generate.h"
#include "base/base.h"

#define HEAD "job,start_s,end_s,size_bytes,bytes_read,reads,bytes_written,writes"

static void takes_numbers_texts_and_missing_features(void **state)
{
	static const char text[] = HEAD ",n_a,s_b,n_c\r\nx,0.5,2.25,7,6,5,4,3,-1.5e3,hello,\n"
					"y,0.5,1,1,0,0,0,0,,,8\n";
	AUTO_JOBS struct jobs t;
	char why[JOBS_WHY_MAX] = "";
	assert_int_equal(jobs_parse(&t, text, sizeof(text) - 1, why, sizeof(why)), 0);
	assert_int_equal(t.n, 2);
	assert_true(t.io[0].start_s == 0.5 && t.io[0].end_s == 2.25);
	assert_int_equal(t.io[0].size_bytes, 7);
	assert_int_equal(t.io[0].read_bytes, 6);
	assert_int_equal(t.io[0].reads, 5);
	assert_int_equal(t.io[0].written_bytes, 4);
	assert_int_equal(t.io[0].writes, 3);
	assert_true(t.numbers[0] == -1500 && isnan(t.numbers[1]));
	assert_true(isnan(t.numbers[2]) && t.numbers[3] == 8);
	assert_string_equal(jobs_text(&t, 0, 0), "hello");
	assert_null(jobs_text(&t, 1, 0));
	assert_int_equal(jobs_text_column(&t, "s_b"), 0);
	assert_int_equal(jobs_text_column(&t, "s_c"), -1);
}

static void refuses(const char *text, size_t len, int err, const char *what)
{
	struct jobs t;
	char why[JOBS_WHY_MAX] = "";
	int rc = jobs_parse(&t, text, len, why, sizeof(why));
	if (rc != err || strstr(why, what) == NULL)
		fail_msg("%.60s: got %d \"%s\", want %d \"%s\"", text, rc, why, err, what);
	assert_null(t.io);
}

static void refuses_malformed_and_hostile_traces_with_the_line_and_the_rule(void **state)
{
	static const struct {
		const char *text;
		int err;
		const char *what;
	} bad[] = {
		{"", -EILSEQ, "line 1: column 1 of the header must be job"},
		{"job,start_s\n", -EILSEQ, "column 3 of the header must be end_s"},
		{HEAD ",x\n", -EILSEQ, "must be n_NAME or s_NAME"},
		{HEAD ",n_\n", -EILSEQ, "must be n_NAME or s_NAME"},
		{HEAD ",s_A\n", -EILSEQ, "must be n_NAME or s_NAME"},
		{HEAD ",n_a,n_a\n", -EINVAL, "is there twice"},
		{HEAD "\na,0,1,1,0,0,0\n", -EILSEQ, "line 2: has 7 columns, and the header has 8"},
		{HEAD "\na,0,1,1,0,0,0,0,0\n", -EILSEQ, "has 9 columns"},
		{HEAD "\n\n", -EILSEQ, "has 1 columns"},
		{HEAD "\na,1,1,1,0,0,0,0\n", -EINVAL, "end_s 1: must be after start_s 1"},
		{HEAD "\na,2,1,1,0,0,0,0\n", -EINVAL, "must be after"},
		{HEAD "\na,0,1,0,0,0,0,0\n", -EINVAL, "size_bytes: must be at least 1"},
		{HEAD "\na,5,6,1,0,0,0,0\nb,4,6,1,0,0,0,0\n", -EINVAL,
		 "line 3: start_s 4: is before"},
		{HEAD "\na,-1,6,1,0,0,0,0\n", -EILSEQ, "must be seconds"},
		{HEAD "\na,nan,6,1,0,0,0,0\n", -EILSEQ, "must be seconds"},
		{HEAD "\na,1e3,6,1,0,0,0,0\n", -EILSEQ, "must be seconds"},
		{HEAD "\na,0,999999999999,1,0,0,0,0\n", -EINVAL, "must be at most 1e+11"},
		{HEAD "\na,0,1,99999999999999999999,0,0,0,0\n", -EINVAL, "must be at most"},
		{HEAD "\na,0,1,-1,0,0,0,0\n", -EILSEQ, "must be a whole number"},
		{HEAD ",n_a\na,0,1,1,0,0,0,0,inf\n", -EILSEQ, "must be a decimal number"},
		{HEAD ",n_a\na,0,1,1,0,0,0,0,1e39\n", -EILSEQ, "must be a decimal number"},
		{HEAD ",n_a\na,0,1,1,0,0,0,0,1-\n", -EILSEQ, "must be a decimal number"},
		{HEAD "\n\"a\",0,1,1,0,0,0,0\n", -EILSEQ, "contains a quote"},
		{HEAD "\na\tb,0,1,1,0,0,0,0\n", -EILSEQ, "control character at byte 2"},
		{HEAD "\n,0,1,1,0,0,0,0\n", -EINVAL, "must have 1 to 23 bytes"},
		{HEAD "\naaaaaaaaaaaaaaaaaaaaaaaaa,0,1,1,0,0,0,0\n", -EINVAL, "must have 1 to 23"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		refuses(bad[i].text, strlen(bad[i].text), bad[i].err, bad[i].what);
	refuses("job\0", 4, -EILSEQ, "control character");
}

static void refuses_too_long_lines_and_too_many_columns(void **state)
{
	char text[40000];
	memset(text, 'x', sizeof(text));
	refuses(text, sizeof(text), -EILSEQ, "is longer than");
	size_t n = (size_t)snprintf(text, sizeof(text), "%s", HEAD);
	for (int i = 0; i <= (int)JOBS_FEATURES_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ",n_%d", i);
	refuses(text, n, -E2BIG, "more than 48 columns of one kind");
	memset(text, ',', sizeof(text));
	refuses(text, 1000, -EILSEQ, "columns");
}

static void make(struct jobs *t, uint64_t cluster, uint32_t from, uint32_t days)
{
	struct generate g = {.cluster = cluster, .from_day = from, .days = days, .jobs_week = 3000};
	assert_int_equal(generate_jobs(t, &g), 0);
}

static bool io_equal(const struct job_io *x, const struct job_io *y)
{
	return x->start_s == y->start_s && x->end_s == y->end_s && x->size_bytes == y->size_bytes &&
	       x->read_bytes == y->read_bytes && x->reads == y->reads &&
	       x->written_bytes == y->written_bytes && x->writes == y->writes;
}

static bool same(const struct jobs *a, size_t i, const struct jobs *b, size_t j)
{
	if (!io_equal(&a->io[i], &b->io[j]))
		return false;
	for (uint32_t k = 0; k < a->numbers_n; k++) {
		double x = a->numbers[i * a->numbers_n + k], y = b->numbers[j * b->numbers_n + k];
		if (x != y && !(isnan(x) && isnan(y)))
			return false;
	}
	for (uint32_t k = 0; k < a->texts_n; k++)
		if (strcmp(jobs_text(a, i, k), jobs_text(b, j, k)) != 0)
			return false;
	return true;
}

static void a_seed_gives_one_trace_and_weeks_of_it_are_parts(void **state)
{
	AUTO_JOBS struct jobs both, again, first, second, other;
	make(&both, 5, 0, 14);
	make(&again, 5, 0, 14);
	make(&first, 5, 0, 7);
	make(&second, 5, 7, 7);
	make(&other, 6, 0, 14);
	assert_true(both.n > 2000 && first.n > 1000);
	assert_int_equal(both.n, first.n + second.n);
	assert_int_equal(both.n, again.n);
	for (size_t i = 0; i < both.n; i++) {
		assert_true(same(&both, i, &again, i));
		bool early = i < first.n;
		assert_true(same(&both, i, early ? &first : &second, early ? i : i - first.n));
	}
	assert_true(other.n != both.n || !same(&both, 0, &other, 0));
}

static void a_printed_trace_reads_back_the_same(void **state)
{
	AUTO_JOBS struct jobs t, back;
	char *text = NULL, why[JOBS_WHY_MAX] = "";
	size_t len = 0;
	make(&t, 9, 3, 2);
	FILE *out = open_memstream(&text, &len);
	assert_non_null(out);
	assert_int_equal(jobs_print(&t, out), 0);
	fclose(out);
	if (jobs_parse(&back, text, len, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	assert_int_equal(back.n, t.n);
	for (size_t i = 0; i < t.n; i++) {
		for (uint32_t k = 0; k < t.numbers_n; k++) { /* nine digits are printed */
			double *x = &t.numbers[i * t.numbers_n + k];
			char nine[32];
			snprintf(nine, sizeof(nine), "%.9g", *x);
			*x = isnan(*x) ? *x : strtod(nine, NULL);
		}
		assert_true(same(&t, i, &back, i));
	}
	free(text);
}

static void refuses_numbers_out_of_range(void **state)
{
	static const struct generate bad[] = {
		{1, 0, 0, 1000},
		{1, 0, GENERATE_DAYS_MAX + 1, 1000},
		{1, UINT32_MAX, 7, 1000},
		{1, 50, 7, 1000},
		{1, 0, 7, 99},
		{1, 0, 7, GENERATE_JOBS_MAX + 1},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct jobs t;
		assert_int_equal(generate_jobs(&t, &bad[i]), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_numbers_texts_and_missing_features),
		cmocka_unit_test(refuses_malformed_and_hostile_traces_with_the_line_and_the_rule),
		cmocka_unit_test(refuses_too_long_lines_and_too_many_columns),
		cmocka_unit_test(a_seed_gives_one_trace_and_weeks_of_it_are_parts),
		cmocka_unit_test(a_printed_trace_reads_back_the_same),
		cmocka_unit_test(refuses_numbers_out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
