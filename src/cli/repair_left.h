// SPDX-License-Identifier: Apache-2.0
/* What waits to be repaired or moved: chunks that the metadata still has on disks that are not well. Asks
 * the metadata only, so it holds whoever repairs. */
#ifndef CLI_REPAIR_LEFT_H
#define CLI_REPAIR_LEFT_H

#include "cli/admin.h"

struct repair_left {
	uint64_t disk;
	uint64_t node;
	enum cluster_state state;
	uint64_t chunks;
};

/* Disks that are suspect, draining, failed or gone, with what is on them; free *out. An error was told. */
int repair_left(struct admin *a, struct cluster *c, struct repair_left **out, size_t *n);
/* Chunks that the metadata has on n disks, whatever their state. An error was told. */
int chunks_on(struct admin *a, const uint64_t *disks, size_t n, uint64_t *out);
uint64_t repair_left_sum(const struct repair_left *l, size_t n);
/* Without what is on draining disks, and can be read there. */
uint64_t repair_left_lacking(const struct repair_left *l, size_t n);

#endif
