// SPDX-License-Identifier: Apache-2.0
/* Private to terrane job: the command line, and the verbs that print. */
#ifndef CLI_CMD_JOB_H
#define CLI_CMD_JOB_H

#include "cli/cli.h"
#include "cli/fs.h"
#include "jobs/spec.h"

struct job_command {
	const char *cluster, *tenant;
	bool active, watch, json;
	bool reports; /* an option of a report was given */
	char **paths;
	int path_count;
	struct terrane_job job;
	const char *columns[JOB_COLUMNS_MAX];
	struct terrane_job_range ranges[JOB_RANGES_MAX];
	struct terrane_job_progress progress;
	struct terrane *t;
	struct terrane_options o;
	struct terrane_error error;
};

/* Prints "terrane: WHAT ID: why" and returns CLI_FAILED. */
int job_failed(const struct job_command *q, int64_t rc, const char *what);

int job_run_list(struct job_command *q);
int job_run_show(struct job_command *q);
int job_run_top(struct job_command *q);

#endif
