// SPDX-License-Identifier: Apache-2.0
/* The system and its refusals, tasks on threads, intervals and output, which all studies use. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/sheet.h"
#include "analysis/stats.h"
#include "analysis/svg.h"
#include "analysis/system.h"
#include "analysis/work.h"
#include "base/base.h"
#include "base/rng.h"

static void near(double got, double want, double relative)
{
	if (!(fabs(got - want) <= relative * fabs(want)))
		fail_msg("got %.17g, want %.17g", got, want);
}

static void the_default_system_is_that_of_the_paper(void **state)
{
	struct system_spec spec;
	struct system sys;
	char why[SYSTEM_WHY_MAX] = "";
	system_spec_default(&spec);
	assert_int_equal(system_init(&sys, &spec, why, sizeof(why)), 0);
	assert_int_equal(sys.layout.disks, 57600);
	assert_int_equal(sys.layout.pool_disks, 120);
	assert_string_equal(sys.code, "mlec:10+2/17+3");
	assert_string_equal(sys.spec.scheme, "c/d");
	near(sys.bandwidth.disk, 40e6, 1e-12);
	near(sys.bandwidth.rack, 250e6, 1e-12);
}

struct refusal {
	const char *options[8]; /* names and values of options, in turn */
	const char *names;      /* names that the error text must contain */
};

static void every_impossible_system_is_refused_by_option_and_rule(void **state)
{
	static const struct refusal cases[] = {
		{{"racks", "61"}, "--racks 61"},
		{{"racks", "61"}, "multiple of 12"},
		{{"racks", "11", "scheme", "d/d"}, "at least 12"},
		{{"racks", "0"}, "--racks 0"},
		{{"racks", "-3"}, "--racks -3"},
		{{"disks", "121", "scheme", "c/c"}, "--disks 121"},
		{{"disks", "121", "scheme", "c/c"}, "multiple of 20"},
		{{"disks", "19"}, "--disks 19"},
		{{"pool-disks", "50"}, "--pool-disks 50"},
		{{"pool-disks", "10"}, "--pool-disks 10"},
		{{"pool-disks", "40", "scheme", "c/c"}, "--pool-disks 40"},
		{{"afr", "0"}, "--afr 0"},
		{{"afr", "-0.01"}, "--afr -0.01"},
		{{"afr", "nan"}, "--afr nan"},
		{{"disk-bandwidth", "0"}, "--disk-bandwidth 0"},
		{{"rack-bandwidth", "-1"}, "--rack-bandwidth -1"},
		{{"repair-share", "1.5"}, "--repair-share 1.5"},
		{{"detect", "-5m"}, "--detect -5m"},
		{{"detect", "soon"}, "--detect soon"},
		{{"disk-size", "0"}, "--disk-size 0"},
		{{"chunk-size", "1G", "disk-size", "1M"}, "--disk-size"},
		{{"scheme", "c-d"}, "--scheme c-d"},
		{{"scheme", "d/-"}, "does not fit mlec"},
		{{"code", "rs:0+3"}, "--code rs:0+3"},
		{{"code", "raid"}, "--code raid"},
		{{"method", "R_MAX"}, "--method R_MAX"},
		{{"decode", "moon"}, "--decode moon"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct system_spec spec;
		struct system sys;
		char why[SYSTEM_WHY_MAX] = "";
		int rc = 0;
		system_spec_default(&spec);
		for (int o = 0; rc == 0 && cases[i].options[o] != NULL; o += 2)
			rc = system_spec_set(&spec, cases[i].options[o], cases[i].options[o + 1],
					     why, sizeof(why));
		if (rc == 0)
			rc = system_init(&sys, &spec, why, sizeof(why));
		assert_int_not_equal(rc, 0);
		if (strstr(why, cases[i].names) == NULL)
			fail_msg("\"%s\" does not name \"%s\"", why, cases[i].names);
	}
}

static void every_listed_option_can_be_set(void **state)
{
	static const char *const values[] = {"rs:7+3", "-/d",  "30", "4",   "60",
					     "30",     "16T",  "1M", "100", "25",
					     "0.5",    "0.02", "1m", "fco", "rack"};
	struct system_spec spec;
	char why[SYSTEM_WHY_MAX] = "";
	system_spec_default(&spec);
	assert_int_equal(ARRAY_LEN(values), system_options_n);
	for (size_t i = 0; i < system_options_n; i++)
		assert_int_equal(
			system_spec_set(&spec, system_options[i].name, values[i], why, sizeof(why)),
			0);
	assert_int_equal(system_spec_set(&spec, "colour", "red", why, sizeof(why)), -ENOENT);
	struct system sys;
	assert_int_equal(system_init(&sys, &spec, why, sizeof(why)), 0);
	assert_int_equal(sys.layout.disks, 30 * 4 * 60);
	assert_int_equal(sys.layout.pool_disks, 30);
	assert_int_equal(sys.policy.method, REPAIR_FCO);
	near(sys.bandwidth.rack, 25e9 / 8 / 2, 1e-12);
	near(sys.detect_s, 60, 1e-12);
}

/* ---- work ---- */

#define TASKS 100

struct tally {
	uint64_t drawn[TASKS];
	uint64_t fail_at;
};

static int draw_task(void *arg, uint64_t task, struct rng *rng)
{
	struct tally *t = arg;
	if (task >= t->fail_at)
		return task == t->fail_at ? -ERANGE : -EIO;
	for (uint64_t i = 0; i <= task % 7; i++)
		t->drawn[task] += rng_u64(rng);
	return 0;
}

static void threads_do_not_change_what_tasks_draw(void **state)
{
	static struct tally one, many;
	one.fail_at = many.fail_at = TASKS;
	struct work w = {.seed = 7, .threads = 1};
	assert_int_equal(work_run(&w, TASKS, draw_task, &one), 0);
	w.threads = 5;
	assert_int_equal(work_run(&w, TASKS, draw_task, &many), 0);
	assert_memory_equal(one.drawn, many.drawn, sizeof(one.drawn));
	assert_true(one.drawn[0] != one.drawn[1]);
}

static void the_lowest_failure_is_returned(void **state)
{
	static struct tally t;
	struct work w = {.seed = 7, .threads = 4};
	for (int i = 0; i < 20; i++) {
		t.fail_at = 30;
		assert_int_equal(work_run(&w, TASKS, draw_task, &t), -ERANGE);
	}
}

static double fake_now(void)
{
	return 1;
}

static void count_report(void *arg, uint64_t done, uint64_t total, double eta_s)
{
	(*(int *)arg)++;
	assert_true(done <= total && total == TASKS && (done < total || eta_s == 0));
}

static void progress_is_reported_to_the_end(void **state)
{
	static struct tally t;
	int reports = 0;
	t.fail_at = TASKS;
	struct work_progress p = {count_report, fake_now, &reports};
	struct work w = {.seed = 7, .threads = 2, .progress = &p};
	assert_int_equal(work_run(&w, TASKS, draw_task, &t), 0);
	assert_true(reports >= 1);
}

/* ---- stats ---- */

static void intervals_match_published_values(void **state)
{
	/* Brown, Cai, DasGupta and textbook values, 95%. */
	struct interval w = stats_wilson(10, 100, 0.95);
	near(w.low, 0.05522914, 1e-6);
	near(w.high, 0.17436566, 1e-6);
	struct interval c = stats_clopper_pearson(10, 100, 0.95);
	near(c.low, 0.04900469, 1e-6);
	near(c.high, 0.17622260, 1e-6);
	c = stats_clopper_pearson(0, 100, 0.95);
	assert_true(c.low == 0);
	near(c.high, 1 - pow(0.025, 0.01), 1e-9);
	c = stats_clopper_pearson(100, 100, 0.95);
	assert_true(c.high == 1);
	near(c.low, pow(0.025, 0.01), 1e-9);
	near(stats_normal_quantile(0.975), 1.959963984540054, 1e-12);
}

static void an_interval_contains_the_true_value_as_often_as_stated(void **state)
{
	struct rng rng;
	rng_init(&rng, 3);
	int held[2] = {0}, rounds = 2000;
	for (int r = 0; r < rounds; r++) {
		uint64_t hits = 0;
		for (int i = 0; i < 200; i++)
			hits += rng_unit(&rng) < 0.03;
		struct interval w = stats_wilson(hits, 200, 0.95);
		struct interval c = stats_clopper_pearson(hits, 200, 0.95);
		held[0] += w.low <= 0.03 && 0.03 <= w.high;
		held[1] += c.low <= 0.03 && 0.03 <= c.high;
	}
	assert_true(held[0] > 0.92 * rounds && held[0] < 0.98 * rounds);
	assert_true(held[1] > 0.945 * rounds);
}

static void sums_merge_as_if_added_one_by_one(void **state)
{
	struct stats_sum all = {0}, part[3] = {{0}}, merged = {0};
	for (int i = 0; i < 90; i++) {
		double v = pow(10, -i % 7) * (i + 1);
		stats_add(&all, v);
		stats_add(&part[i / 30], v);
	}
	for (int i = 0; i < 3; i++)
		stats_merge(&merged, &part[i]);
	assert_int_equal(merged.n, 90);
	near(merged.mean, all.mean, 1e-12);
	near(stats_error(&merged), stats_error(&all), 1e-12);
	struct interval nines = stats_nines(&(struct interval){1e-12, 1e-10});
	near(nines.low, 10, 1e-12);
	near(nines.high, 12, 1e-12);
}

static void small_probabilities_are_exact(void **state)
{
	near(exp(stats_log_choose(60, 30)), 118264581564861424.0, 1e-12);
	near(stats_hypergeometric_above(120, 4, 20, 3), 116280.0 / 197149680.0, 1e-12);
	near(stats_any(1e-25, 1e5), 1e-20, 1e-12);
	assert_true(stats_any(1, 3) == 1 && stats_any(0.5, 0) == 0);
	double sum = 0;
	for (uint32_t k = 0; k <= 20; k++)
		sum += stats_hypergeometric(50, 30, 20, k);
	near(sum, 1, 1e-12);
}

/* ---- output ---- */

static const struct sheet_column columns[] = {
	{"name", "name", SHEET_TEXT, 0},
	{"size_tb", "TB", SHEET_NUMBER, 3},
	{"disks", "disks", SHEET_COUNT, 0},
	{"best", "", SHEET_FLAG, 0},
};

static char *printed(const struct sheet *s, int (*print)(const struct sheet *, FILE *))
{
	static char text[4096];
	FILE *f = fmemopen(text, sizeof(text), "w");
	assert_non_null(f);
	assert_int_equal(print(s, f), 0);
	fclose(f);
	return text;
}

static void a_sheet_prints_the_same_values_in_three_formats(void **state)
{
	struct sheet s;
	sheet_init(&s, columns, ARRAY_LEN(columns));
	for (int i = 0; i < 20; i++)
		assert_int_equal(
			sheet_add(&s, i == 0 ? "a,\"b\"" : "plain", i / 3.0, (int64_t)i, i == 1),
			0);
	assert_int_equal(sheet_add(&s, "none", NAN, INT64_C(-1), 0), 0);
	char *text = printed(&s, sheet_print_csv);
	assert_non_null(strstr(text, "name,size_tb,disks,best\n\"a,\"\"b\"\"\",0,0,0\n"));
	assert_non_null(strstr(text, "plain,0.33333333333333331,1,1\n"));
	assert_non_null(strstr(text, "none,,-1,0\n"));
	text = printed(&s, sheet_print_text);
	assert_non_null(strstr(text, "plain  0.333      1  *\n"));
	json_t *json = sheet_json(&s);
	assert_int_equal(json_array_size(json), 21);
	json_t *row = json_array_get(json, 20);
	assert_true(json_is_null(json_object_get(row, "size_tb")));
	assert_true(json_is_false(json_object_get(row, "best")));
	json_decref(json);
	sheet_fini(&s);
}

static void a_page_of_plots_is_well_formed(void **state)
{
	struct svg doc;
	double value[] = {0, 1e-9, 0.5, 1, NAN, 1e-30};
	double x[] = {1, 2, 3}, y[] = {1e-5, NAN, 1e3}, low[] = {1e-6, 0, 1e2},
	       high[] = {1, 1, 1e4};
	bool marked[] = {true, false, true};
	const char *const labels[] = {"a<b", NULL, "c&d"};
	const char *const groups[] = {"c/c", "c/d"}, *const series[] = {"R_ALL", "R_MIN"};
	double bars[] = {1, 2, 3, 0}, top[] = {1, 0, 0.5, 2};
	svg_begin(&doc, 2, 2, "A & B", "note");
	svg_heat(&doc, 0,
		 &(struct svg_heat){.title = "heat",
				    .columns = 3,
				    .rows = 2,
				    .value = value,
				    .log = true,
				    .min = 1e-12,
				    .max = 1,
				    .unit = "PDL"});
	svg_lines(&doc, 1,
		  &(struct svg_lines){.x = {"x", .log = false},
				      .y = {"y", .log = true},
				      .series = &(struct svg_series){"s", SVG_LINE_POINTS, 3, x, y,
								     low, high, marked, labels},
				      .series_n = 1,
				      .marked_name = "front"});
	svg_bars(&doc, 2,
		 &(struct svg_bars){.groups = groups,
				    .groups_n = 2,
				    .series = series,
				    .series_n = 2,
				    .value = bars,
				    .on_top = top,
				    .solid_name = "network",
				    .hatched_name = "local",
				    .values = true,
				    .y = {"h"}});
	svg_lines(&doc, 3, &(struct svg_lines){.title = "empty"});
	assert_int_equal(svg_end(&doc), 0);
	const char *text = svg_text(&doc);
	assert_non_null(strstr(text, "A &amp; B"));
	assert_non_null(strstr(text, "a&lt;b"));
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "inf"));
	size_t open = 0, closed = 0;
	for (const char *p = text; (p = strchr(p, '<')) != NULL; p++)
		open++;
	for (const char *p = text; (p = strchr(p, '>')) != NULL; p++)
		closed++;
	assert_int_equal(open, closed);
	svg_fini(&doc);
}

/* Finds the position of the text element that contains exactly this label. */
static void label_at(const char *svg, const char *label, double *x, double *y)
{
	char closing[64];
	snprintf(closing, sizeof(closing), ">%s</text>", label);
	const char *end = strstr(svg, closing), *from = end;
	assert_non_null(end);
	while (strncmp(from, "<text", 5) != 0)
		from--;
	const char *at = strstr(from, "x=\""), *below = strstr(from, "y=\"");
	if (at == NULL || below == NULL) {
		fail();
		return;
	}
	*x = strtod(at + 3, NULL);
	*y = strtod(below + 3, NULL);
}

static void labels_of_close_points_do_not_overlap(void **state)
{
	(void)state;
	enum { N = 10 };
	static const char *const names[N] = {"aaaa", "bbbb", "cccc", "dddd", "eeee",
					     "ffff", "gggg", "hhhh", "iiii", "jjjj"};
	double x[N], y[N], at_x[N], at_y[N];
	bool marked[N];
	struct svg doc;
	for (int i = 0; i < N; i++) {
		x[i] = i < 8 ? 5 + i * 0.001
			     : (i - 8) * 10.0; /* eight at one point, two far away */
		y[i] = x[i];
		marked[i] = true;
	}
	svg_begin(&doc, 1, 1, NULL, NULL);
	svg_lines(&doc, 0,
		  &(struct svg_lines){.series = &(struct svg_series){.style = SVG_POINTS,
								     .n = N,
								     .x = x,
								     .y = y,
								     .marked = marked,
								     .labels = names},
				      .series_n = 1});
	assert_int_equal(svg_end(&doc), 0);
	for (int i = 0; i < N; i++)
		label_at(svg_text(&doc), names[i], &at_x[i], &at_y[i]);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < i; j++)
			assert_true(fabs(at_y[i] - at_y[j]) >= 9 || fabs(at_x[i] - at_x[j]) >= 18);
	svg_fini(&doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_default_system_is_that_of_the_paper),
		cmocka_unit_test(every_impossible_system_is_refused_by_option_and_rule),
		cmocka_unit_test(every_listed_option_can_be_set),
		cmocka_unit_test(threads_do_not_change_what_tasks_draw),
		cmocka_unit_test(the_lowest_failure_is_returned),
		cmocka_unit_test(progress_is_reported_to_the_end),
		cmocka_unit_test(intervals_match_published_values),
		cmocka_unit_test(an_interval_contains_the_true_value_as_often_as_stated),
		cmocka_unit_test(sums_merge_as_if_added_one_by_one),
		cmocka_unit_test(small_probabilities_are_exact),
		cmocka_unit_test(a_sheet_prints_the_same_values_in_three_formats),
		cmocka_unit_test(a_page_of_plots_is_well_formed),
		cmocka_unit_test(labels_of_close_points_do_not_overlap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
