// SPDX-License-Identifier: Apache-2.0
/* Chunks that the metadata records on disks that are suspect, draining, failed or removed: what is left to repair or
 * move. Asks the metadata only. */
#ifndef CLI_REPAIR_LEFT_H
#define CLI_REPAIR_LEFT_H

#include "cli/admin.h"

/* A disk that is suspect, draining, failed or removed, and the chunks recorded on it. */
struct repair_left {
	uint64_t disk;
	uint64_t node;
	enum cluster_state state;
	uint64_t chunks;
};

/* Lists these disks in *out, to be freed, and their number in *n. Returns CLI_OK, or CLI_FAILED after it printed an
 * error. */
int repair_left(struct admin *a, struct cluster *c, struct repair_left **out, size_t *n);
/* Counts the chunks that the metadata records on n disks of any state. Returns as repair_left. */
int chunks_on(struct admin *a, const uint64_t *disks, size_t n, uint64_t *out);
/* Returns the chunks on all of them. */
uint64_t repair_left_sum(const struct repair_left *l, size_t n);
/* Returns the chunks on all but draining disks, from which chunks can be read. */
uint64_t repair_left_lacking(const struct repair_left *l, size_t n);

#endif
