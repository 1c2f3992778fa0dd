// SPDX-License-Identifier: Apache-2.0
/*
 * A check of a tree of files from the names down: names lead to files, files to blocks, blocks to chunks, and
 * chunks are asked for on their disks. Each block is one of
 *
 *   healthy    every chunk is on its disk, as long as the record says
 *   degraded   some are missing, damaged or out of reach, and the data can be rebuilt without them
 *   away       it cannot, but could be if the disks that do not answer were back
 *   lost       not even then
 *
 * A deep check has every chunk read on its disk and compared with its checksums. Nothing is changed; what is
 * found bad is reported for repair, as a reader would.
 *
 * Files that are written meanwhile are checked as far as they were acknowledged.
 */
#ifndef CLIENT_FSCK_H
#define CLIENT_FSCK_H

#include "client/engine.h"

enum fsck_state { FSCK_DEGRADED, FSCK_UNREACHABLE, FSCK_LOST };

struct fsck_counts {
	uint64_t directories, files;
	uint64_t file_bytes; /* of the files, as their names say */
	uint64_t blocks, healthy, degraded, blocks_unreachable, lost;
	uint64_t chunks;           /* that should be there */
	uint64_t missing, damaged; /* of those */
	uint64_t unreachable;      /* on disks that do not answer */
	uint64_t misplaced; /* on disks of another media than the block's: rebalance moves them */
	uint64_t scanned_bytes; /* of chunks, by a deep check */
	uint64_t broken_files;  /* whose records do not lead to blocks */
};

struct fsck_options {
	bool deep;
	/* A block or file that is not healthy; words says how. In a fiber, may not wait. May be NULL. */
	void (*found)(void *ctx, const char *path, uint64_t block, enum fsck_state state,
		      const char *words);
	/* Now and then. May be NULL. */
	void (*progress)(void *ctx, const struct fsck_counts *so_far);
	void *ctx;
};

/* All below path, a directory or a file, is added to counts. 0 when all of it was looked at; the errors of
 * names. */
int engine_fsck(struct call *c, const char *path, const struct fsck_options *o,
		struct fsck_counts *counts);

#endif
