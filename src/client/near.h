// SPDX-License-Identifier: Apache-2.0
/*
 * Operations on images that the node which has the bytes does for a read (prep/op.h).
 *
 * A range with an operation is asked of the node of its chunk if one chunk has all of it and its disk is well. In every
 * other case, and after every error, the range is read as it is stored, with hedges and reconstruction like any other:
 *
 *     one chunk, disk works   the node does the operation, or sends the file with the reason
 *     several chunks          read as it is (PREP_SCATTERED)
 *     disk slow or gone       read as it is, reconstructed if need be
 *     the node dies           the request fails, and the range is read as it is
 *
 * The caller makes the same pixels of both (terrane_prep_finish).
 */
#ifndef CLIENT_NEAR_H
#define CLIENT_NEAR_H

#include "client/block_tier.h"

/* Returns whether an operation of a user has values in range. */
bool near_valid(const struct terrane_prep *p);
/* Sets the results of a range that is read as it is stored. */
void near_clear(struct terrane_prep *p);
/* Sets the results that follow from the bytes of a range that was read as it is stored. */
void near_read(struct terrane_prep *p, uint64_t bytes, uint32_t crc);
/* Returns the bytes that a range has in its sink. */
uint64_t near_bytes(const struct block_range *r);

/* A request for an operation to the node of a disk. */
struct near_work {
	struct block_range *range;
	uint64_t disk;
	struct chunk_id chunk;
	uint64_t off;         /* of the range in the chunk */
	const uint8_t *token; /* of the chunk; NULL: there is none */
	int rc; /* 0: the sink, the results of the operation and the CRC of the range are set */
};

/* Asks for the operation and waits; a function for fabric_run, arg is a struct near_work. */
void near_work(struct call *c, void *arg);

#endif
