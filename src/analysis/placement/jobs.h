// SPDX-License-Identifier: Apache-2.0
/*
 * Traces of jobs: what each job did to its files, and what was known when it started, as CSV.
 *
 *   job,start_s,end_s,size_bytes,bytes_read,reads,bytes_written,writes,n_workers,s_user,s_pipeline
 *   j1,0.5,3600.25,1073741824,1073741824,16384,1073741824,1024,16,ann,daily-join
 *
 * The first eight columns are always these. Any number of features may follow, up to a limit: n_NAME holds numbers and
 * s_NAME texts. An empty feature is missing. Times are seconds, plain decimals. Jobs are sorted by start_s, end after
 * they start and keep at least one byte. Lines end in a newline, optionally after a carriage return; blank lines,
 * quotes and control characters are not allowed. A refusal names the line and the rule that it breaks.
 */
#ifndef ANALYSIS_PLACEMENT_JOBS_H
#define ANALYSIS_PLACEMENT_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/placement/strings.h"
#include "placement/job_io.h"

#define JOBS_MAX 10000000u
#define JOBS_FEATURES_MAX 48u /* numbers, and texts, each */
#define JOBS_NAME_MAX 32u     /* bytes of the name of a column, with its NUL */
#define JOBS_TEXT_MAX 512u    /* bytes of a text */
#define JOBS_TIME_MAX 1e11
#define JOBS_COUNT_MAX (1ULL << 60)
#define JOBS_WHY_MAX 240
#define JOBS_MISSING UINT32_MAX

struct jobs {
	size_t n, cap;
	struct job_io *io; /* sorted by start_s */
	char (*id)[24];    /* name of the job in the trace */
	uint32_t numbers_n, texts_n;
	char number_names[JOBS_FEATURES_MAX][JOBS_NAME_MAX]; /* with "n_" */
	char text_names[JOBS_FEATURES_MAX][JOBS_NAME_MAX];   /* with "s_" */
	double *numbers; /* [job * numbers_n + i]; NAN: missing */
	uint32_t *texts; /* [job * texts_n + i]: number of the text in `strings`, or JOBS_MISSING */
	struct strings strings;
};

/*
 * Parses a trace. Returns 0, -EILSEQ for a line that is not of the form, -EINVAL for a line that breaks a rule, -E2BIG
 * or -ENOMEM. On an error `why` names the line and the rule, and the trace is empty.
 */
int jobs_parse(struct jobs *t, const char *text, size_t len, char *why, size_t why_size);
void jobs_fini(struct jobs *t);

/* Writes a trace in the format of jobs_parse(). Returns 0 or -EIO. */
int jobs_print(const struct jobs *t, FILE *out);

/*
 * Build a trace: jobs_column() names the features ("n_workers"), before jobs_add() adds jobs by time. Return 0, -ENOMEM,
 * -E2BIG for too many jobs, columns or texts, -EINVAL for a bad name, -EEXIST for a name that is there. The texts are
 * copied; NULL and "": missing.
 */
int jobs_column(struct jobs *t, const char *name);
int jobs_add(struct jobs *t, const char *id, const struct job_io *io, const double *numbers,
	     const char *const *texts);

/* Returns the text i of a job, or NULL when it is missing. */
const char *jobs_text(const struct jobs *t, size_t job, uint32_t i);
/* Returns the column of this name ("s_user"), or -1. */
int jobs_text_column(const struct jobs *t, const char *name);

#define AUTO_JOBS __attribute__((cleanup(jobs_fini)))

#endif
