// SPDX-License-Identifier: Apache-2.0
/* Results of `terrane cachesim`: as a table, CSV, JSON and a plot. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/sheet.h"
#include "analysis/svg.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/cachesim.h"

#define TB 1e12

static const struct sheet_column columns[] = {
	{"policy", "policy", SHEET_TEXT, 0},
	{"requested_bytes", NULL, SHEET_COUNT, 0},
	{"served_bytes", NULL, SHEET_COUNT, 0},
	{"fetched_bytes", NULL, SHEET_COUNT, 0},
	{"absorbed_bytes", NULL, SHEET_COUNT, 0},
	{"hit_bytes", NULL, SHEET_COUNT, 0},
	{"flash_written_bytes", NULL, SHEET_COUNT, 0},
	{"reinserted_bytes", NULL, SHEET_COUNT, 0},
	{"disk_read_bytes", NULL, SHEET_COUNT, 0},
	{"absorbed_tb", "absorbed TB", SHEET_NUMBER, 4},
	{"absorbed_share", "of requested", SHEET_NUMBER, 3},
	{"of_lru", "x LRU", SHEET_NUMBER, 3},
	{"of_bound", "of bound", SHEET_NUMBER, 3},
	{"hit_share", "hit share", SHEET_NUMBER, 3},
	{"written_tb", "written TB", SHEET_NUMBER, 4},
	{"node_writes_bytes_s", NULL, SHEET_NUMBER, 4},
	{"node_writes_mb_s", "MB/s a node", SHEET_NUMBER, 3},
	{"disk_tb", "disk TB", SHEET_NUMBER, 4},
	{"virtual_s", NULL, SHEET_NUMBER, 6},
	{"requests", NULL, SHEET_COUNT, 0},
	{"segment_requests", NULL, SHEET_COUNT, 0},
	{"segment_hits", NULL, SHEET_COUNT, 0},
	{"nodes_simulated", NULL, SHEET_COUNT, 0},
	{"flash_share", NULL, SHEET_NUMBER, 4},
	{"index_bytes", NULL, SHEET_COUNT, 0},
	{"power_saved", NULL, SHEET_NUMBER, 4},
	{"power_neutral_share", NULL, SHEET_NUMBER, 4},
};

static double absorbed_by(const char *policy, const struct cachesim_result *results, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(results[i].policy, policy) == 0)
			return results[i].absorbed_bytes;
	return NAN;
}

static int64_t whole(double v)
{
	return llround(v);
}

static int fill(struct sheet *s, const struct workload *w, const struct power *power,
		const struct cachesim_result *results, uint32_t n)
{
	double lru = absorbed_by("lru", results, n),
	       bound = absorbed_by(CACHESIM_BOUND, results, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct cachesim_result *r = &results[i];
		double asked = fmax(r->requested_bytes, 1);
		double rate = r->flash_written_bytes / fmax(r->seconds, 1e-3) / w->nodes;
		int rc = sheet_add(
			s, r->policy, whole(r->requested_bytes), whole(r->served_bytes),
			whole(r->fetched_bytes), whole(r->absorbed_bytes), whole(r->hit_bytes),
			whole(r->flash_written_bytes), whole(r->reinserted_bytes),
			whole(r->disk_read_bytes), r->absorbed_bytes / TB,
			r->absorbed_bytes / asked, lru > 0 ? r->absorbed_bytes / lru : NAN,
			bound > 0 ? r->absorbed_bytes / bound : NAN, r->hit_bytes / asked,
			r->flash_written_bytes / TB, rate, rate / 1e6, r->disk_read_bytes / TB,
			r->seconds, whole(r->requests), whole(r->segment_requests),
			whole(r->segment_hits), (int64_t)r->nodes, r->flash_share,
			whole(r->index_bytes),
			power != NULL ? power_saved(power, r->absorbed_bytes / asked) : NAN,
			power != NULL ? power->neutral_share : NAN);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void draw_bars(struct svg *doc, const struct cachesim_result *results, uint32_t n)
{
	static const char *const series[] = {"absorbed", "read from disks", "written to flash"};
	const char *groups[CACHESIM_POLICIES_MAX];
	double value[CACHESIM_POLICIES_MAX * 3];
	for (size_t i = 0; i < n; i++) {
		groups[i] = results[i].policy;
		value[3 * i] = fmax(results[i].absorbed_bytes, 0) / TB;
		value[3 * i + 1] = results[i].disk_read_bytes / TB;
		value[3 * i + 2] = results[i].flash_written_bytes / TB;
	}
	svg_bars(doc, 0,
		 &(struct svg_bars){.title = "In all",
				    .x_label = "policy",
				    .y = {.label = "TB"},
				    .groups = groups,
				    .groups_n = n,
				    .series = series,
				    .series_n = 3,
				    .value = value});
}

static int draw_lines(struct svg *doc, const struct cachesim_result *results, uint32_t n)
{
	struct svg_series series[CACHESIM_POLICIES_MAX];
	AUTO_FREE double *points = calloc((size_t)n * 2 * CACHESIM_STEPS, sizeof(*points));
	uint32_t series_n = 0;
	if (points == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		const struct cachesim_result *r = &results[i];
		double *x = points + (size_t)i * 2 * CACHESIM_STEPS, *y = x + CACHESIM_STEPS;
		if (r->step_s <= 0)
			continue; /* the bound has no time line */
		for (uint32_t k = 0; k < r->steps_n; k++) {
			x[k] = (k + 0.5) * r->step_s / 60;
			y[k] = r->steps[k].absorbed / r->step_s / 1e9;
		}
		series[series_n++] = (struct svg_series){
			.name = r->policy, .style = SVG_LINE, .n = r->steps_n, .x = x, .y = y};
	}
	if (series_n > 0)
		svg_lines(doc, 1,
			  &(struct svg_lines){.title = "Absorbed over time",
					      .x = {.label = "minutes"},
					      .y = {.label = "GB/s"},
					      .series = series,
					      .series_n = series_n});
	return 0;
}

static int write_plot(const struct cachesim_args *a, const struct cachesim_result *results,
		      uint32_t n)
{
	AUTO_SVG struct svg doc = {0};
	svg_begin(&doc, 2, 1, "Flash cache", a->workload);
	draw_bars(&doc, results, n);
	int rc = draw_lines(&doc, results, n);
	int end = svg_end(&doc);
	rc = rc != 0 ? rc : end;
	if (rc != 0)
		return cachesim_fail("cannot draw the plot: %s", err_text(rc));
	FILE *f = fopen(a->plot, "we");
	if (f == NULL)
		return cachesim_fail("cannot write %s: %s", a->plot, err_text(-errno));
	bool ok = fputs(svg_text(&doc), f) >= 0;
	ok = fclose(f) == 0 && ok;
	return ok ? CLI_OK : cachesim_fail("cannot write %s: %s", a->plot, err_text(-EIO));
}

static int print_power(const struct power *p, const struct cachesim_result *results, uint32_t n)
{
	double unit = p->hdd_storage;
	int rc = printf("\npower, times that of disks for the bytes alone: disks %.2f, flash %.2f, "
			"composite "
			"%.2f; neutral when %.3f of the reads are absorbed\n",
			p->hdd / unit, p->flash / unit, p->composite / unit, p->neutral_share);
	for (uint32_t i = 0; rc >= 0 && i < n; i++) {
		const struct cachesim_result *r = &results[i];
		double share = r->absorbed_bytes / fmax(r->requested_bytes, 1);
		rc = printf("  %-14s saves %5.1f%% of the power of disks alone\n", r->policy,
			    100 * power_saved(p, share));
	}
	return rc >= 0 && fflush(stdout) == 0 ? 0 : -EIO;
}

int cachesim_show(const struct cachesim_args *a, const struct workload *w,
		  const struct power *power, const struct cachesim_result *results, uint32_t n)
{
	AUTO_SHEET struct sheet s;
	sheet_init(&s, columns, ARRAY_LEN(columns));
	int rc = fill(&s, w, power, results, n);
	if (rc == 0 && a->json) {
		AUTO_JSON json_t *json = sheet_json(&s);
		rc = json != NULL ? json_emit(stdout, json) : -ENOMEM;
	} else if (rc == 0) {
		rc = a->csv ? sheet_print_csv(&s, stdout) : sheet_print_text(&s, stdout);
		if (rc == 0 && power != NULL && !a->csv)
			rc = print_power(power, results, n);
	}
	if (rc != 0)
		return cachesim_fail("cannot write the result: %s", err_text(rc));
	return a->plot != NULL ? write_plot(a, results, n) : CLI_OK;
}
