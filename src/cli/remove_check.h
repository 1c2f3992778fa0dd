// SPDX-License-Identifier: Apache-2.0
/*
 * Whether something can be removed without a loss: what is gone stays gone, and its chunks with it.
 *
 * Asked here and not in the service, because the answer may take a walk of all partitions for each disk: more than
 * one request does. What is written there between the answer and the removal loses one chunk, and is repaired.
 */
#ifndef CLI_REMOVE_CHECK_H
#define CLI_REMOVE_CHECK_H

#include "cli/admin.h"

struct remove_what {
	uint64_t disk; /* one of these */
	uint64_t node;
	uint32_t rack;
	const char *rack_name;
};

/* CLI_OK when no block has a chunk there, or it is not there, or gone already; else it was told how many and what to
 * do about it. */
int remove_check(struct admin *a, struct remove_what what);

#endif
