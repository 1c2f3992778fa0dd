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

/* Lists the suspect, draining, failed and removed disks with their chunks in *out, which the caller frees, and sets *n
 * to their number. Returns CLI_OK, or CLI_FAILED after it printed an error. */
int repair_left(struct admin *a, struct cluster *c, struct repair_left **out, size_t *n);
/* Counts the chunks that the metadata records on n disks of any state. Returns CLI_OK, or CLI_FAILED after it printed
 * an error. */
int chunks_on(struct admin *a, const uint64_t *disks, size_t n, uint64_t *out);
/* Returns the number of chunks on all n disks of the list. */
uint64_t repair_left_sum(const struct repair_left *l, size_t n);
/* Returns the number of chunks on the disks of the list that are not draining. Chunks on draining disks can still be
 * read. */
uint64_t repair_left_lacking(const struct repair_left *l, size_t n);

#endif
