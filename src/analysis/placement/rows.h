// SPDX-License-Identifier: Apache-2.0
/* The jobs of a trace as rows of features, each computed from what was known when the job started. */
#ifndef ANALYSIS_PLACEMENT_ROWS_H
#define ANALYSIS_PLACEMENT_ROWS_H

#include "analysis/placement/jobs.h"
#include "placement/model.h"

/* Takes the columns of the trace as those of a model. */
void rows_columns(struct features *f, const struct jobs *t);

/*
 * Walks the trace by time: before each job, those that have ended are added to the model's history, if they ended by
 * until_s; then `row`, if not NULL, gets the job's features. At the end the jobs that end by until_s are all added.
 * Returns 0, an error of `row`, or -ENOMEM.
 */
struct rows {
	struct model *model; /* its features, rates and history are used */
	const struct jobs *jobs;
	double until_s;
	int (*row)(void *arg, size_t job, const float *values);
	void *arg;
};

int rows_walk(const struct rows *r);

#endif
