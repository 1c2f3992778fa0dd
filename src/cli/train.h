// SPDX-License-Identifier: Apache-2.0
/* What the files of `terrane train` share: the command line and the report. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "emu/profile.h"
#include "training/run.h"

#define TRAIN_SETS_MAX 64

/* The command line. Strings belong to argv. */
struct train_line {
	const char *cluster, *mlperf;
	const char *set[TRAIN_SETS_MAX]; /* SECTION.KEY=VALUE */
	size_t set_count;
	const char *files[TRAIN_JOBS_MAX];
	size_t file_count;
	bool json, quiet;
	struct emu_profile profile;
};

/*
 * Reads job file `name` (NULL: none, only the values of --set), with the values of --set in place of its own. Returns
 * CLI_GO_ON, or the exit status after it printed why.
 */
int train_line_job(const struct train_line *line, const char *name, struct train_job *out);

/* --- train_report.c ------------------------------------------------------------------------------- */

struct train_report {
	bool json, live; /* live: a terminal shows the progress */
	json_t *epochs[TRAIN_JOBS_MAX];
	const struct train_run *run;
};

void train_report_begin(struct train_report *r, const struct train_run *run, bool json, bool quiet);
/* Callbacks of struct train_run; ctx is the report. */
void train_report_watch(void *ctx, const struct trainer *t);
void train_report_epoch(void *ctx, const struct trainer *t);
/* Prints the results. Returns the exit status: CLI_FAILED when a job failed or missed its threshold. cpu_s: processor
 * time of the process. */
int train_report_end(struct train_report *r, double cpu_s);

#endif
