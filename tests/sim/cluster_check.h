// SPDX-License-Identifier: Apache-2.0
/*
 * The checker: a process that no fault strikes. It runs after the faults have stopped.
 *
 *   cluster_check.c     waits for convergence, looks for orphans, writes new files
 *   cluster_blocks.c    looks at the chunks of every block
 *   cluster_recode.c    compares the chunks of a block with a new encoding
 *   cluster_operate.c   acts as the operator
 *   cluster_keep.c      checks blocks under append
 *   cluster_contents.c  reads every file that clients were told exists
 *   cluster_placed.c    compares the stored outcomes of removed files with what clients said of them
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
	struct map wanted;      /* hashes of (disk, chunk) that records name */
	struct map blocks_seen; /* block -> struct block_seen */
	struct short_pool short_pools[NODES_MAX];
};

/* Acts as the operator: removes lost nodes and disks, brings failed disks back online. */
void operate(struct checker *k);
/* Records what has not converged yet, and the disk that the text names or 0. Returns false. */
bool not_converged(struct world *w, uint64_t disk, const char *fmt, ...) PRINTF(3, 4);
/* Calls disk_begin; reads a new map first if the engine's map lacks the disk. */
int disk_use(struct call *c, uint64_t disk, struct disk_use *u);

uint64_t chunk_key(uint64_t disk, struct chunk_id id);
/* Looks at all blocks. Returns whether every chunk is on its disk, complete, verified and in place. */
bool blocks_are_whole(struct checker *k);
void blocks_seen_forget(struct checker *k);
/* Returns whether the chunks of a block are in as many racks as its media and its width allow. */
bool is_apart(struct checker *k, const struct meta_block *b);

/* Compares a block; reads its record again if a janitor has moved a chunk. */
void block_compare(struct checker *k, const struct meta_block_at *at);

/* Returns the number of members of the node's pool that are lost. */
unsigned node_members_lost(const struct node_place *n);
bool disk_is_lost(const struct node_place *n, unsigned d);
/* Returns whether a pool lost a drive, and the time to remove it is near. */
bool short_pools_matter(const struct checker *k);

/* Checks I14: the stored outcomes; and the media of a block. */
void check_placed(struct checker *k);
void placed_block_look(struct checker *k, const struct meta_block_at *at);
/* Checks that writers that live end blocks that lack a copy. */
void check_kept(struct checker *k);
/* Checks that all files, directories and logs are as the model requires. */
void check_contents(struct checker *k);
/* Takes over and closes all logs: their last blocks are open, and repair leaves open blocks to writers. */
void check_logs_end(struct checker *k);

#endif
