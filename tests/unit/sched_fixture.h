// SPDX-License-Identifier: Apache-2.0
/*
 * A disk, its scheduler and clients that load it, in simulated time, for the tests and the
 * benchmark of the scheduler. The disk is the model of store/drive.h, without data.
 */
#ifndef TESTS_UNIT_SCHED_FIXTURE_H
#define TESTS_UNIT_SCHED_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "rt/rt.h"
#include "sched/sched.h"
#include "store/drive.h"

#define FIXTURE_CLIENTS_MAX 16
#define FIXTURE_SAMPLES_MAX 100000

struct sched_fixture;

struct fixture_client {
	const char *group;
	enum sched_class class;
	enum sched_kind kind;
	uint64_t bytes;
	/*
	 * bytes on the disk between two requests, if requests follow each other; otherwise their
	 * positions are random
	 */
	uint64_t gap;
	bool follows;
	bool whole;
	/*
	 * number of fibers, each of which sends its next request when the last is answered; with
	 * per_s the largest number of requests at a time
	 */
	uint32_t fibers;
	uint64_t time_ns; /* mean time to the deadline of a request; 0: none */
	double per_s;     /* requests per second, sent whether or not earlier ones were answered */
	/* Measured after the warm-up: */
	uint64_t *samples; /* latencies in ns, sorted at the end */
	uint64_t count;
	uint64_t failed;
	uint64_t bytes_done;
	uint64_t disk_ns; /* disk time charged to the stream's group and class, in ns */
	uint64_t true_ns; /* time the disk spent on the group, if it serves one request at a time */
	/* Private to the fixture: */
	struct sched_fixture *fx;
	struct rng rng;
	uint64_t next_at;
	uint32_t running;
};

struct sched_fixture {
	const struct drive_spec *spec;
	const struct sched_config *config;
	bool unscheduled; /* requests go to the disk without the scheduler */
	uint64_t seed;
	uint64_t warm_ns;
	uint64_t span_ns;
	uint32_t clients;
	struct fixture_client client[FIXTURE_CLIENTS_MAX];
	/* Called in a fiber before the load starts, and whenever a slice is sent or a request
	 * ends; may be NULL. */
	void (*prepare)(struct sched_fixture *fx);
	void (*watch)(struct sched_fixture *fx);
	/* Private to the fixture: */
	struct sched *sched;
	struct drive drive;
	struct rt_group group;
	bool stop;
	uint64_t last_end_ns; /* end of the disk's last request */
	uint64_t start_ns;
	uint64_t measured_ns;
};

/* Runs the load in a new simulation. The caller calls fixture_free. */
void fixture_run(struct sched_fixture *fx);
void fixture_free(struct sched_fixture *fx);

double fixture_quantile_ms(const struct fixture_client *c, double q);
double fixture_bytes_per_s(const struct sched_fixture *fx, const struct fixture_client *c);

#endif
