// SPDX-License-Identifier: Apache-2.0
/*
 * Checks a tree of files from the names down: names lead to files, files to blocks, blocks to chunks, and each chunk
 * is looked up on its disk. Each block is in one of these states:
 *
 *   healthy      every chunk is on its disk, with the length that the record implies
 *   degraded     some chunks are missing, damaged or unreachable, and the data can be read without them
 *   unreachable  the data can be read only after offline disks return
 *   lost         the data cannot be read even after offline disks return
 *
 * A deep check makes the disks read every chunk and compare it with its checksums. A check changes nothing but reports
 * bad chunks for repair, as readers do.
 *
 * Files that are being written are checked up to their acknowledged length.
 */
#ifndef CLIENT_FSCK_H
#define CLIENT_FSCK_H

#include "client/engine.h"

enum fsck_state { FSCK_DEGRADED, FSCK_UNREACHABLE, FSCK_LOST };

struct fsck_counts {
	uint64_t directories, files;
	uint64_t file_bytes; /* sum of the sizes in the directory entries */
	uint64_t blocks, healthy, degraded, blocks_unreachable, lost;
	uint64_t chunks; /* chunks that the block records name */
	/* chunks that their disk does not have; chunks whose bytes are damaged */
	uint64_t missing, damaged;
	uint64_t unreachable; /* chunks on disks that do not answer */
	/* chunks on disks of another media than their block's; rebalance moves them */
	uint64_t misplaced;
	uint64_t scanned_bytes; /* chunk bytes that a deep check read */
	uint64_t broken_files;  /* files whose record is missing or invalid */
};

struct fsck_options {
	bool deep;
	/* Called for each block or file that is not healthy; details: the reason in words. Runs
	 * in a fiber and may not wait. May be NULL. */
	void (*found)(void *ctx, const char *path, uint64_t block, enum fsck_state state,
		      const char *details);
	/* Called after each file. May be NULL. */
	void (*progress)(void *ctx, const struct fsck_counts *so_far);
	void *ctx;
};

/* Checks path, a directory with everything below it or a file, and adds to counts. Returns 0
 * when all of it was checked; errors of names and of the metadata service. */
int engine_fsck(struct call *c, const char *path, const struct fsck_options *o,
		struct fsck_counts *counts);

#endif
