// SPDX-License-Identifier: Apache-2.0
/*
 * The checker: a process that faults spare, run when they have stopped.
 *
 *   cluster_check.c     waits for convergence, compares chunks with records
 *   cluster_contents.c  reads what clients were told is there
 */
#ifndef TESTS_SIM_CLUSTER_CHECK_H
#define TESTS_SIM_CLUSTER_CHECK_H

#include "base/map.h"
#include "cluster.h"
#include "rpc/pool.h"

#define TRIES 12 /* of whatever may be late */

/* A pool that lacks a drive. */
struct lame {
	char lack[VIOLATION_BYTES]; /* in the way of the cluster being whole; empty: nothing */
	uint64_t since_ns;
	bool gone; /* given up */
};

struct checker {
	struct world *world;
	struct engine *engine;
	struct rpc_pool pool;
	struct meta_client *meta;
	struct meta_call root;
	uint64_t begin_ns;
	struct map wanted; /* hash of (disk, chunk) -> itself */
	struct map bears;  /* block -> struct bears */
	struct lame lame[NODES_MAX];
};

/* All files, directories and logs are as the model has them. */
void check_contents(struct checker *k);
/* Logs are taken over and ended: their last blocks are open, and repair leaves those to writers. */
void check_logs_end(struct checker *k);

#endif
