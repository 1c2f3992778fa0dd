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
#define TRAIN_SET_MAX 256 /* bytes of a value that a sweep sets, with its NUL */
#define TRAIN_SWEEP_MAX 64

struct train_point {
	const char *name;                    /* of the job */
	double utilization, wait, threshold; /* percent */
	double samples_s, read_s;            /* samples and bytes per second */
};

/* The jobs run once for each value of a key. */
struct train_sweep {
	char key[64];
	char value[TRAIN_SWEEP_MAX][TRAIN_SET_MAX - 65];
	size_t count; /* 0: no sweep */
	/* Results: */
	size_t jobs;
	struct train_point *points; /* jobs of the first value, of the second... */
	json_t *json;               /* array of runs; NULL: a table is printed */
};

/* The command line. Strings belong to argv. */
struct train_line {
	const char *cluster, *mlperf, *plot;
	const char *set[TRAIN_SETS_MAX]; /* SECTION.KEY=VALUE */
	size_t set_count;
	const char *files[TRAIN_JOBS_MAX];
	size_t file_count;
	bool json, quiet;
	bool keys;     /* print the keys of a job file */
	bool virtual_; /* the clock is virtual: a simulated cluster */
	int argc;      /* the command line as it came */
	char **argv;
	struct emu_profile profile;
	struct train_sweep sweep;
};

/*
 * Reads job file `name` (NULL: none, only the values of --set), with the values of --set in place of its own. Returns
 * CLI_GO_ON, or the exit status after it printed why.
 */
int train_line_job(const struct train_line *line, const char *name, struct train_job *out);

/*
 * Appends the section [virtual] of all job files, with the values of --set in place of their own. Returns CLI_GO_ON, or
 * the exit status after it printed why.
 */
int train_line_virtual(const struct train_line *line, struct strbuf *out);

/* --- cmd_train_virtual.c, only in terraned: terrane executes that ------------------------------------ */

/* Runs the jobs in a simulated cluster; `at` as in train_sweep_add. Returns the exit status. */
int train_virtual(struct train_line *line, struct train_run_job *jobs, size_t count, size_t at);
/* Prints the keys of the section [virtual]. Returns the exit status. */
int train_virtual_keys(const struct train_line *line);

/* --- train_report.c ------------------------------------------------------------------------------- */

struct train_report {
	bool json, live; /* live: a terminal shows the progress */
	bool mlperf;
	struct train_sweep *sweep; /* NULL: there is none; else it takes the results */
	size_t sweep_at;
	json_t *epochs[TRAIN_JOBS_MAX];
	json_t *simulated; /* what virtual time adds to the JSON; the report takes it; NULL: nothing */
	const struct train_run *run;
};

void train_report_begin(struct train_report *r, const struct train_run *run, bool json, bool quiet);
/* Callbacks of struct train_run; ctx is the report. */
void train_report_watch(void *ctx, const struct trainer *t);
void train_report_epoch(void *ctx, const struct trainer *t);
/* Prints the results. Returns the exit status: CLI_FAILED when a job failed or missed its threshold. cpu_s: processor
 * time of the process. */
int train_report_end(struct train_report *r, double cpu_s);

/* --- train_sweep.c -------------------------------------------------------------------------------- */

/* Reads SECTION.KEY=V1,V2... Returns CLI_GO_ON, or the exit status after it printed why. */
int train_sweep_parse(struct train_sweep *s, const char *text);
/* -ENOMEM. */
int train_sweep_begin(struct train_sweep *s, size_t jobs, bool json);
void train_sweep_free(struct train_sweep *s);
/* Writes SECTION.KEY=VALUE of value i. */
void train_sweep_set(const struct train_sweep *s, size_t i, char out[TRAIN_SET_MAX]);
/* Takes the results of the run with value i; names of jobs are borrowed. */
void train_sweep_add(struct train_sweep *s, size_t i, const struct train_run *run);
void train_sweep_print(const struct train_sweep *s, size_t i);
/* Prints the results; draws them if plot is not NULL. Returns the exit status. */
int train_sweep_end(struct train_sweep *s, const char *plot);

#endif
