// SPDX-License-Identifier: Apache-2.0
/*
 * Checks that a disk, node or rack has no chunks, so that its removal, which cannot be undone, loses none.
 *
 * The command checks this and not the metadata service, because the check walks all partitions for each disk: too much
 * for one request. A block that is written between the check and the removal loses one chunk there, and is repaired.
 */
#ifndef CLI_REMOVE_CHECK_H
#define CLI_REMOVE_CHECK_H

#include "cli/admin.h"

struct remove_what {
	uint64_t disk; /* one of disk, node and rack is set */
	uint64_t node;
	uint32_t rack;
	const char *rack_name;
};

/* Returns CLI_OK if no block has a chunk on the disk, node or rack, also if that does not exist or was removed already.
 * Else prints how many chunks are there and what to do, and returns CLI_FAILED. */
int remove_check(struct admin *a, struct remove_what what);

#endif
