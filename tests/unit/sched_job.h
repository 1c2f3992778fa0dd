// SPDX-License-Identifier: Apache-2.0
/*
 * Requests to the disk scheduler that stay at the disk until the test ends their slice, so that a
 * test can check step by step which request is sent next. All run in fibers; a failed check ends
 * the program.
 */
#ifndef TESTS_UNIT_SCHED_JOB_H
#define TESTS_UNIT_SCHED_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rt/rt.h"
#include "rt/sync.h"
#include "sched/sched.h"

struct job {
	struct sched *sched;
	struct sched_request r;
	uint64_t time_ns; /* time until the request's deadline; 0: no deadline */
	bool drop;        /* the request's scope ends while the request holds the turn */
	bool at_disk;
	bool over;
	uint32_t slices;
	uint64_t off, len; /* range of the current slice, or of the last one */
	int rc;
	struct rt_cond go;
	struct rt_fiber *fiber;
};

/* Waits until every fiber that can run has run. */
void job_settle(void);
void job_pass_ms(uint64_t ms);

/* Starts a job; of *j only time_ns and drop are kept. */
void job_start(struct sched *s, struct job *j, const char *group, enum sched_class class,
	       uint64_t bytes);
/* Starts a job for any request: sched and r are set. */
void job_start_as(struct job *j);

/* Ends the slice at the disk. */
void job_let_go(struct job *j);

/* Ends all remaining slices of a job without error; with a second job, in the order in which
 * they are sent. */
void job_finish(struct job *j);
void job_finish_both(struct job *a, struct job *b);

/* Ends the slices at the disk, one each ms, until all jobs have ended. */
void job_drain(struct job *jobs, size_t n);

uint32_t jobs_at_disk(const struct job *jobs, size_t n);

struct sched *job_sched_open(const struct sched_config *c);
/* A drive that serves one request at a time. */
struct sched_config job_serial_config(void);
void job_check_empty(struct sched *s);

#endif
