// SPDX-License-Identifier: Apache-2.0
/*
 * The gets of a workload in virtual time: what each job reads, in its order and at its pace, cut at block boundaries and
 * sent to the node of each block.
 *
 * A job with the order free asks for one of several candidates among what it has not read of its partition (READS_CANDIDATES,
 * Quiver's ten): the first that `present` says the cache has, else the first of all. So its reads differ from cache to cache;
 * those of other jobs do not.
 *
 * A job starts at its start_s, or when the jobs that it waits for have ended, whatever is later. Its reads follow each
 * other at its speed, whether the cache or the disks serve them, so all policies see the same gets.
 */
#ifndef ANALYSIS_CACHE_READS_H
#define ANALYSIS_CACHE_READS_H

#include "analysis/cache/workload.h"
#include "base/rng.h"

#define READS_CANDIDATES 10u

struct reads_get {
	struct cache_request request;
	uint32_t node;
	uint64_t block_bytes; /* of the block up to the end of the partition */
};

struct reads_job {
	uint32_t part;
	uint64_t rank; /* number of the next unit in its part */
	double start_s;
	uint64_t bytes; /* read */
	bool ended;
	uint32_t *
		left; /* order free: the units of its part that it has not read; NULL: none of them was */
	uint64_t left_n;
	struct rng rng;
};

struct reads {
	const struct workload *w;
	struct reads_job *jobs;
	struct reads_event {
		double at_s;
		uint32_t job;
	} * heap; /* the next read of each running job */
	uint32_t heap_n;
	uint32_t nodes_from, nodes_to; /* gets for other nodes are left out */
	/* the unit that is being cut */
	uint64_t from, to;
	uint32_t job;
	uint16_t bucket;
	double now_s;
	/* Says whether the cache has all of a request, for the order free; NULL: it has nothing. */
	bool (*present)(void *arg, const struct reads_get *get);
	void *arg;
	int rc;          /* -ENOMEM: the reads are not complete */
	uint32_t *ended; /* jobs that have ended since reads_ended() */
	uint32_t ended_n;
};

/* -ENOMEM */
int reads_init(struct reads *r, const struct workload *w);
void reads_fini(struct reads *r);

/* Returns the next get for a node in [nodes_from, nodes_to); false: there is none. */
bool reads_next(struct reads *r, struct reads_get *out);

/* Returns the next job that has ended before the last get; false: none. Each is returned once. */
bool reads_ended(struct reads *r, uint32_t *job);

#endif
