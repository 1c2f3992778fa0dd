// SPDX-License-Identifier: Apache-2.0
/*
 * Generates the trace of a cluster: users own pipelines, a pipeline has steps, and each run of a pipeline starts a few
 * jobs of each step. Theory in generate.c.
 */
#ifndef ANALYSIS_PLACEMENT_GENERATE_H
#define ANALYSIS_PLACEMENT_GENERATE_H

#include "analysis/placement/jobs.h"

#define GENERATE_DAYS_MAX 56
#define GENERATE_JOBS_MAX 200000 /* jobs a week */

struct generate {
	uint64_t cluster;   /* the seed: a cluster with its users, pipelines and habits */
	uint32_t from_day;  /* first day of the trace; day 0 is a Monday */
	uint32_t days;      /* length; from_day + days <= GENERATE_DAYS_MAX */
	uint32_t jobs_week; /* expected number of jobs in a week, 100 to GENERATE_JOBS_MAX */
};

/*
 * Generates the jobs that start in the given days. Traces of the same cluster and jobs_week belong to one history: the
 * second week follows the first. Returns 0, -EINVAL for numbers out of range, -E2BIG or -ENOMEM.
 */
int generate_jobs(struct jobs *t, const struct generate *g);

#endif
