// SPDX-License-Identifier: Apache-2.0
/*
 * The checker: a process that no fault strikes. It runs after the faults have stopped.
 *
 *   cluster_check.c     waits for convergence, compares chunks with records
 *   cluster_keep.c      checks blocks under append
 *   cluster_contents.c  reads every file that clients were told exists
 */
#ifndef TESTS_SIM_CLUSTER_CHECK_H
#define TESTS_SIM_CLUSTER_CHECK_H

#include "base/map.h"
#include "cluster.h"
#include "rt/pool.h"

#define TRIES 12 /* attempts of a request that may fail for a while */

/* A pool that lost a drive. */
struct short_pool {
	char lack
		[VIOLATION_BYTES]; /* what keeps the cluster from converging because of the pool; empty: nothing */
	uint64_t since_ns;
	bool gone; /* the operator has removed the pool */
};

struct checker {
	struct world *world;
	struct engine *engine;
	struct rt_pool pool;
	struct meta_client *meta;
	struct meta_call root;
	uint64_t begin_ns;
	struct map wanted;      /* hash of (disk, chunk) -> itself */
	struct map blocks_seen; /* block -> struct block_seen */
	struct short_pool short_pools[NODES_MAX];
};

/* Acts as the operator: removes lost nodes and disks, brings failed disks back online. */
void operate(struct checker *k);
/* Records what has not converged yet, and the disk that the text names or 0. Returns false. */
bool not_converged(struct world *w, uint64_t disk, const char *fmt, ...) PRINTF(3, 4);
/* Calls disk_begin; reads a new map first if the engine's map lacks the disk. */
int disk_use(struct call *c, uint64_t disk, struct disk_use *u);

/* Checks that writers that live end blocks that lack a copy. */
void check_kept(struct checker *k);
/* Checks that all files, directories and logs are as the model requires. */
void check_contents(struct checker *k);
/* Takes over and closes all logs: their last blocks are open, and repair leaves open blocks to writers. */
void check_logs_end(struct checker *k);

#endif
