// SPDX-License-Identifier: Apache-2.0
/*
 * Reading bytes of one block from its chunks: a stripe (stripe/stripe.h) whose chunks come from disks.
 *
 * With all disks well a plan is the chunk that has the bytes, and nothing is computed. Then:
 *
 *   a fetch fails     the chunk counts as lost and a new plan is made; what came is used again
 *   it may pass       (a disk is busy or away) the chunk is dear for now, and lost after three times
 *   a fetch is slow   a hedge: a second plan around the slow chunks runs beside the first; the first to be
 *                     complete wins, the rest is cancelled
 *   a plan computes   it takes from the budget (budget.h): a hedge is left out when there is none, a read
 *                     that has no other way waits
 *
 * Checks. Fetched bytes come with the checksum they were stored with. What is copied to the user is
 * compared with it there; computed bytes are compared with the checksum that the stripe took before it
 * verified them.
 */
#ifndef CLIENT_BLOCK_READ_H
#define CLIENT_BLOCK_READ_H

#include "client/fabric.h"
#include "client/shape.h"
#include "client/sink.h"

/* Where a block is. */
struct block_at {
	uint64_t block;       /* as files know it */
	uint64_t chunk_block; /* as disks know it */
	uint64_t len;         /* bytes that can be read */
	struct shape shape;
	uint64_t layout;
	const uint64_t *disks; /* shape.n; 0: nowhere */
};

#define BLOCK_BAD_MAX 16

/* What a read learned about chunks, for the caller to report. */
struct block_findings {
	int bad_count;
	struct {
		int chunk;
		uint64_t disk;
		int rc;
	} bad[BLOCK_BAD_MAX];
	bool stale;       /* a chunk was not where the record said: locations may have changed */
	bool unreachable; /* a disk could not be had: the map may have changed */
};

struct block_range_get {
	uint64_t off, len; /* of the block: inside it, len > 0 */
	const struct sink *sink;
	const bool *avoid; /* shape.n: chunks that are known to be damaged; NULL: none */
	/* Results: */
	uint32_t crc; /* of the bytes in the sink */
	struct block_findings findings;
};

/* Reads a range of the block into the sink. Waits. The fabric's gates bound the memory of all
 * reads, so one range should be a few MiB. -ENODATA: too few chunks can be read (the call's error
 * names the last disk and its error); -EBUSY: the budget for reconstructed reads is used up;
 * -EBADMSG: bytes changed in this machine's memory. */
int block_range_read(struct call *c, const struct block_at *b, struct block_range_get *get);

#endif
