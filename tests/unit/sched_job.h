// SPDX-License-Identifier: Apache-2.0
/*
 * Requests to the disk scheduler that stay at the disk until the test lets them go, so that what goes
 * next can be seen step by step. All in fibers; failed checks end the program.
 */
#ifndef TESTS_UNIT_SCHED_JOB_H
#define TESTS_UNIT_SCHED_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/disk_sched.h"
#include "rt/rt.h"

struct job {
	struct sched *sched;
	struct sched_request r;
	uint64_t time_ns; /* to its deadline; 0: none */
	bool drop;        /* leaves its scope with the turn in hand */
	bool at_disk;
	bool over;
	uint32_t slices;
	uint64_t off, len; /* of the present or last slice */
	int rc;
	struct rt_cond go;
	struct rt_fiber *fiber;
};

/* Until everybody who can run has run. */
void job_settle(void);
void job_pass_ms(uint64_t ms);

/* Of what *j holds only time_ns and drop stay. */
void job_start(struct sched *s, struct job *j, const char *group, enum sched_class class,
	       uint64_t bytes);
/* The same for any request: sched and r are set. */
void job_start_as(struct job *j);

/* The slice at the disk ends. */
void job_let_go(struct job *j);

/* All the rest of it goes well; with another one, in whatever order they come. */
void job_finish(struct job *j);
void job_finish_both(struct job *a, struct job *b);

/* Lets those that are at the disk go, one each ms, until all are over. */
void job_drain(struct job *jobs, size_t n);

uint32_t jobs_at_disk(const struct job *jobs, size_t n);

struct sched *job_sched_open(const struct sched_config *c);
/* A drive with one request at a time. */
struct sched_config job_serial_config(void);
void job_check_empty(const struct sched *s);

#endif
