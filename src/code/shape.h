// SPDX-License-Identifier: Apache-2.0
/*
 * The shape of an encoded block as clients and the metadata service see it: how many chunks go to how many disks, and which bytes each has.
 *
 * A pool of disks is one disk here; the node that has the pool does the local level of an mlec code. So
 * mlec:KN+PN/KL+PL is Reed-Solomon KN+PN over pools here. All other encodings are used as written.
 *
 *     rs:4+2, a block of 100,000 bytes: chunk_len = 28,672 (a quarter, rounded up to a multiple of 4 KiB)
 *     chunk   0       1       2       3       4       5
 *     bytes   28672   28672   28672   13984   28672   28672
 *
 * Data chunks are stored with the bytes that exist; parities are always chunk_len long. Missing bytes count as zeros.
 * The rule is part of the stored format: readers compute the same lengths from the length of the block.
 */
#ifndef CODE_SHAPE_H
#define CODE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "code/encoding.h"

#define SHAPE_UNIT ((uint64_t)4096)

struct shape {
	struct encoding encoding; /* encoding as the user wrote it */
	struct encoding net;      /* network level of the encoding, which the client encodes */
	int k;                    /* data chunks; 1 for replicas */
	int n;                    /* all chunks, each on its own disk */
	int tolerance;            /* number of chunks that may be lost, whichever they are */
	bool copies;              /* replicated: all chunks have the same bytes */
};

/* Computes from an encoding the number of its chunks (data and all), its tolerance and its
 * network level. -EINVAL: the encoding is invalid. */
int shape_init(struct shape *s, const struct encoding *e);

/* Returns the chunk length of a block of block_len > 0 bytes. */
uint64_t shape_chunk_len(const struct shape *s, uint64_t block_len);
/* Returns the stored length of a chunk; 0 for data chunks beyond the end of the block. */
uint64_t shape_stored_len(const struct shape *s, int chunk, uint64_t block_len);

/* Returns how many chunks must be stored for a write to succeed: `asked` (0: the default),
 * raised to the number with which one further loss is tolerated, if the code tolerates any. */
int shape_quorum(const struct shape *s, int asked, bool log);
/* Returns how many disks beyond n get a reservation request. `asked` is extra_disks of struct
 * terrane_options. */
int shape_extra(const struct shape *s, int asked);

#endif
