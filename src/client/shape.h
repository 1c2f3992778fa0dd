// SPDX-License-Identifier: Apache-2.0
/*
 * What an encoding means to the client: how many chunks go to how many disks, and which bytes each
 * has.
 *
 * A pool of disks is a disk here, and the node that has it does the local level of an mlec. So
 * mlec:KN+PN/KL+PL is, on this side, Reed-Solomon KN+PN over pools; everything else is as written.
 *
 *     rs:4+2, a block of 100,000 bytes: chunk_len = 28,672 (a quarter, up to a multiple of 4 KiB)
 *     chunk   0       1       2       3       4       5
 *     bytes   28672   28672   28672   13984   28672   28672
 *
 * Data chunks hold what there is and no more; parities are always chunk_len long. What lacks counts
 * as zeros. The rule is part of what is stored: readers compute the same from the block's length.
 */
#ifndef CLIENT_SHAPE_H
#define CLIENT_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "code/encoding.h"

#define SHAPE_UNIT ((uint64_t)4096)

struct shape {
	struct encoding encoding; /* as people see it */
	struct encoding net;      /* what the client codes with */
	int k;                    /* chunks with data; 1 for copies */
	int n;                    /* all, each on a disk of its own */
	int tolerance;            /* chunks of which any may be lost */
	bool copies;
};

/* -EINVAL for an encoding that cannot be. */
int shape_init(struct shape *s, const struct encoding *e);

/* Of a block of block_len > 0 bytes. */
uint64_t shape_chunk_len(const struct shape *s, uint64_t block_len);
/* The bytes that chunk i is stored with; 0 for data chunks beyond the end. */
uint64_t shape_stored_len(const struct shape *s, int chunk, uint64_t block_len);

/* How many chunks must be on disk for the block to count as written: what was asked for (0: the
 * default), within what keeps the data through one further loss, where the code can. */
int shape_quorum(const struct shape *s, int asked, bool log);
/* How many disks to ask beside n; `asked` as in the public options. */
int shape_extra(const struct shape *s, int asked);

#endif
