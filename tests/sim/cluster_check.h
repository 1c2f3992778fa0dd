// SPDX-License-Identifier: Apache-2.0
/*
 * The checker: a process that faults spare, run when they have stopped.
 *
 *   cluster_check.c     waits for convergence, compares chunks with records
 *   cluster_keep.c      looks at blocks under append
 *   cluster_contents.c  reads what clients were told is there
 */
#ifndef TESTS_SIM_CLUSTER_CHECK_H
#define TESTS_SIM_CLUSTER_CHECK_H

#include "base/map.h"
#include "cluster.h"
#include "rt/pool.h"

#define TRIES 12 /* of whatever may be late */

/* A pool that lacks a drive. */
struct short_pool {
	char lack[VIOLATION_BYTES]; /* in the way of the cluster being whole; empty: nothing */
	uint64_t since_ns;
	bool gone; /* given up */
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

/* What an operator does for machines and disks that need one. */
void operate(struct checker *k);
/* Remembers what is not converged yet, with the disk that it names or 0, and is false. */
bool not_converged(struct world *w, uint64_t disk, const char *fmt, ...) PRINTF(3, 4);
/* disk_begin, also for a disk that came after the engine's map. */
int disk_use(struct call *c, uint64_t disk, struct disk_use *u);

/* Writers that live end blocks that lack a copy. */
void check_kept(struct checker *k);
/* All files, directories and logs are as the model has them. */
void check_contents(struct checker *k);
/* Logs are taken over and ended: their last blocks are open, and repair leaves those to writers. */
void check_logs_end(struct checker *k);

#endif
