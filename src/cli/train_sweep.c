// SPDX-License-Identifier: Apache-2.0
/* `terrane train --sweep KEY=V1,V2...`: the jobs once for each value, as a table, JSON or a plot of utilization. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/svg.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/train.h"

int train_sweep_parse(struct train_sweep *s, const char *text)
{
	*s = (struct train_sweep){0};
	const char *equal = strchr(text, '=');
	if (equal == NULL || (size_t)(equal - text) >= sizeof(s->key))
		return cli_usage("train: --sweep \"%s\" is not SECTION.KEY=V1,V2...", text);
	memcpy(s->key, text, (size_t)(equal - text));
	for (const char *at = equal + 1;;) {
		size_t len = strcspn(at, ",");
		if (s->count == TRAIN_SWEEP_MAX)
			return cli_usage("train: --sweep has more than %d values", TRAIN_SWEEP_MAX);
		if (len == 0 || len >= sizeof(s->value[0]))
			return cli_usage("train: --sweep \"%s\" has an empty or a long value",
					 text);
		memcpy(s->value[s->count++], at, len);
		if (at[len] == 0)
			return CLI_GO_ON;
		at += len + 1;
	}
}

int train_sweep_begin(struct train_sweep *s, size_t jobs, bool json)
{
	s->jobs = jobs;
	s->points = calloc(jobs * s->count, sizeof(*s->points));
	s->json = json ? json_array() : NULL;
	return s->points == NULL || (json && s->json == NULL) ? -ENOMEM : 0;
}

void train_sweep_free(struct train_sweep *s)
{
	free(s->points);
	json_decref(s->json);
	*s = (struct train_sweep){0};
}

void train_sweep_set(const struct train_sweep *s, size_t i, char out[TRAIN_SET_MAX])
{
	assert(i < s->count);
	snprintf(out, TRAIN_SET_MAX, "%s=%s", s->key, s->value[i]);
}

static const struct train_point *point_at(const struct train_sweep *s, size_t i, size_t job)
{
	return &s->points[i * s->jobs + job];
}

void train_sweep_add(struct train_sweep *s, size_t i, const struct train_run *run)
{
	assert(i < s->count && run->count == s->jobs);
	for (size_t k = 0; k < run->count; k++) {
		const struct train_run_job *j = &run->jobs[k];
		const struct train_span *all = &j->trainer.all;
		double span = all->elapsed_ns == 0 ? NAN : (double)all->elapsed_ns / 1e9;
		s->points[i * s->jobs + k] = (struct train_point){
			.name = j->name,
			.utilization = 100 * train_utilization(all, j->job.devices),
			.wait = 100 * (double)all->wait_ns / 1e9 / span,
			.samples_s = (double)all->samples / span,
			.read_s = (double)all->read_bytes / span,
			.threshold = (double)j->job.threshold};
	}
}

/* Prints a line of the table for each job. */
void train_sweep_print(const struct train_sweep *s, size_t i)
{
	if (s->json != NULL)
		return;
	if (i == 0)
		printf("%-16s %-20s %8s %8s %11s %12s\n", "job", s->key, "util.", "no data",
		       "samples/s", "read/s");
	for (size_t k = 0; k < s->jobs; k++) {
		const struct train_point *p = point_at(s, i, k);
		char read[FS_SIZE_TEXT];
		printf("%-16s %-20s %7.2f%% %7.2f%% %11.1f %12s\n", p->name, s->value[i],
		       p->utilization, p->wait, p->samples_s, fs_size(read, p->read_s));
	}
	fflush(stdout);
}

/* The values as positions of the x axis: numbers if all are, else 1, 2, 3... */
static void positions(const struct train_sweep *s, double *x)
{
	bool numbers = true;
	for (size_t i = 0; i < s->count; i++) {
		char *end;
		x[i] = strtod(s->value[i], &end);
		numbers = numbers && *end == 0 && isfinite(x[i]);
	}
	for (size_t i = 0; !numbers && i < s->count; i++)
		x[i] = (double)i + 1;
}

static int plot_draw(const struct train_sweep *s, struct svg *doc)
{
	AUTO_FREE struct svg_series *series = calloc(s->jobs, sizeof(*series));
	AUTO_FREE double *y = calloc(s->jobs * s->count, sizeof(*y));
	double x[TRAIN_SWEEP_MAX];
	if (series == NULL || y == NULL)
		return -ENOMEM;
	positions(s, x);
	for (size_t k = 0; k < s->jobs; k++) {
		for (size_t i = 0; i < s->count; i++)
			y[k * s->count + i] = point_at(s, i, k)->utilization;
		series[k] = (struct svg_series){.name = point_at(s, 0, k)->name,
						.style = SVG_LINE_POINTS,
						.n = s->count,
						.x = x,
						.y = y + k * s->count};
	}
	struct svg_lines lines = {
		.title = "Utilization of the accelerators",
		.x = {.label = s->key},
		.y = {.label = "utilization (percent)", .min = 0, .max = 100},
		.series = series,
		.series_n = s->jobs,
	};
	svg_begin(doc, 1, 1, NULL, NULL);
	svg_lines(doc, 0, &lines);
	return svg_end(doc);
}

static int sweep_plot(const struct train_sweep *s, const char *path)
{
	AUTO_SVG struct svg doc = {0};
	int rc = plot_draw(s, &doc);
	if (rc < 0)
		return cli_fail("cannot draw %s: %s", path, err_text(rc));
	FILE *f = fopen(path, "we");
	if (f == NULL)
		return cli_fail("cannot write %s: %s", path, err_text(-errno));
	bool ok = fputs(svg_text(&doc), f) >= 0;
	ok = fclose(f) == 0 && ok;
	return ok ? CLI_OK : cli_fail("cannot write %s: %s", path, err_text(-errno));
}

/* Prints up to which value a job reached its threshold without a gap. */
static void largest_print(const struct train_sweep *s, size_t job)
{
	const char *last = NULL;
	double threshold = point_at(s, 0, job)->threshold;
	for (size_t i = 0; i < s->count && point_at(s, i, job)->utilization >= threshold; i++)
		last = s->value[i];
	if (threshold <= 0)
		return;
	if (last == NULL)
		printf("%s: no value reached a utilization of %g%%\n", point_at(s, 0, job)->name,
		       threshold);
	else
		printf("%s: utilization is at least %g%% up to %s = %s\n",
		       point_at(s, 0, job)->name, threshold, s->key, last);
}

int train_sweep_end(struct train_sweep *s, const char *plot)
{
	if (plot != NULL && sweep_plot(s, plot) != CLI_OK)
		return CLI_FAILED;
	if (s->json == NULL) {
		for (size_t k = 0; k < s->jobs; k++)
			largest_print(s, k);
		return CLI_OK;
	}
	AUTO_JSON json_t *root = json_pack("{s:s, s:O}", "sweep", s->key, "runs", s->json);
	return json_emit(stdout, root) == 0 ? CLI_OK : CLI_FAILED;
}
