// SPDX-License-Identifier: Apache-2.0
/*
 * The frame in which methods of placement are compared (section 5.1 of the BYOM paper).
 *
 * The jobs of a test trace arrive by time. A method says whether a job goes to flash. If flash has too little space for
 * all of it, the rest of the job spills to disk for its whole life. A method may limit the time on flash; after that
 * the job is moved to disk, and the copy is free of charge (in favour of such methods).
 *
 *   savings of a job = share on flash * share of its life on flash * (cost on disk - cost on flash)
 *
 * Percentages are of the cost of all test jobs on disk. The quota is a share of the peak occupancy of the test trace:
 * the largest sum of sizes of jobs that are alive at one time. Flash may lose half of its capacity during the test: jobs
 * that are there stay, and no other one comes until there is room.
 *
 * When the test begins, flash is empty, and methods know the jobs of the training trace that ended before that.
 * During the test a method learns what a job did when the job ends.
 */
#ifndef ANALYSIS_PLACEMENT_STUDY_H
#define ANALYSIS_PLACEMENT_STUDY_H

#include "analysis/placement/jobs.h"
#include "placement/cost.h"

struct model;

struct study {
	const struct jobs *train, *test;
	struct cost_rates rates;
	struct cost *train_cost, *test_cost;
	uint32_t *train_key, *test_key; /* number of the job's pipeline and step, in both traces */
	uint32_t keys_n;
	double disk_usd, disk_s;   /* cost and disk time of all test jobs on disk */
	double peak_bytes;         /* peak occupancy of the test trace */
	double begin_s;            /* start of the first test job */
	const struct model *model; /* for the method "model", borrowed; NULL: none */
	double halve_at_s; /* from this time on flash has half of its capacity; INFINITY: never */
	/* What study_run() tells of each test job; borrowed, NULL: not wanted. */
	double *share; /* of the job on flash */
	double *needed; /* the category that was needed for flash when it started; NAN: methods without categories */
};

struct study_result {
	double saved_usd, saved_disk_s;
	double meant_s,
		spilled_s; /* disk time of jobs that were meant for flash; the part of it that spilled */
	double used_bytes; /* peak of the bytes on flash */
};

/*
 * Prepares a study; the traces are borrowed. Both must have jobs. Returns 0, -EINVAL for an empty trace, -ENOMEM or
 * -E2BIG.
 */
int study_init(struct study *s, const struct jobs *train, const struct jobs *test,
	       const struct cost_rates *rates);
void study_fini(struct study *s);

/* Reports whether the outcome of a training job is known when the test begins. */
bool study_train_known(const struct study *s, size_t job);

struct policy;

/* A method at work on a test trace. Jobs are numbers in the test trace. */
struct policy_ops {
	/* Returns the seconds for which the job may stay on flash (INFINITY: all its life), or 0 for disk. */
	double (*stay_s)(struct policy *p, size_t job, double free_bytes);
	/* Returns the most bytes of a job for which it returned a time; NULL: all. */
	double (*bytes_max)(struct policy *p, size_t job, double free_bytes);
	/* Tells the share of a job meant for flash that found space there; may be NULL. */
	void (*placed)(struct policy *p, size_t job, double share);
	/* Tells that a job has ended, so that its outcome is known; may be NULL. */
	void (*ended)(struct policy *p, size_t job);
	/* Tells that flash has another capacity from now on; may be NULL. */
	void (*resized)(struct policy *p, double capacity_bytes);
	void (*close)(struct policy *p);
};

struct policy {
	const struct policy_ops *ops;
};

/* Replays the test trace. Returns 0 or -ENOMEM. */
int study_run(const struct study *s, struct policy *p, double capacity_bytes,
	      struct study_result *out);

#define AUTO_STUDY __attribute__((cleanup(study_fini)))

#endif
