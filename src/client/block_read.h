// SPDX-License-Identifier: Apache-2.0
/*
 * Reads bytes of one block from its chunks: a stripe (stripe/stripe.h) whose chunks come from disks.
 *
 * If all disks work, the plan is to read the chunk that has the bytes, and nothing is computed. Otherwise:
 *
 *   a fetch fails      the chunk counts as lost and a new plan is made; ranges that arrived are used again
 *   transient failure  (the disk is busy or unreachable) the chunk gets a high cost, and counts as lost after
 *                      three failures
 *   a fetch is slow    a hedge runs beside the first plan and avoids the slow chunks; the first complete plan
 *                      is used, the fetches of the other are cancelled
 *   a plan computes    it takes from the budget (budget.h): a hedge is skipped when the budget is empty, a
 *                      read without another plan waits
 *
 * Checks. Fetched bytes arrive with the checksum they were stored with. The copy in the user's memory is
 * compared with it; computed bytes are compared with the checksum that the stripe took before it verified
 * them.
 */
#ifndef CLIENT_BLOCK_READ_H
#define CLIENT_BLOCK_READ_H

#include "client/fabric.h"
#include "client/sink.h"
#include "code/shape.h"

/* The location of a block. */
struct block_at {
	uint64_t block; /* id of the block, as file extents have it */
	/* id under which disks keep the chunks; changes when the block is re-encoded */
	uint64_t chunk_block;
	uint64_t len; /* readable bytes */
	struct shape shape;
	uint64_t layout;
	const uint64_t *disks;                     /* shape.n disk ids; 0: the chunk is missing */
	const uint8_t (*tokens)[NODE_TOKEN_BYTES]; /* of the chunks; NULL: there are none */
};

#define BLOCK_BAD_MAX 16

/* Bad or stale chunks that a read met; the caller reports them. */
struct block_findings {
	int bad_count;
	struct {
		int chunk;
		uint64_t disk;
		int rc;
	} bad[BLOCK_BAD_MAX];
	/* a chunk was not on the disk that the record names: the record may be stale */
	bool stale;
	bool unreachable; /* a disk was unreachable: the cluster map may be stale */
};

struct block_range_get {
	uint64_t off, len; /* range inside the block in bytes; len > 0 */
	const struct sink *sink;
	/* array of shape.n; true: the chunk is known to be damaged; NULL: no chunk is */
	const bool *avoid;
	/* Results of the read: */
	uint32_t crc; /* CRC-32C of the bytes in the sink */
	struct block_findings findings;
};

/* Reads a range of the block into the sink. Waits. The gates of the fabric bound the memory of
 * all reads, so one range should be a few MiB. -ENODATA: too few chunks can be read (the error
 * text names the last disk and its error); -EBUSY: the budget of reconstructed reads is used up;
 * -EBADMSG: bytes changed in this machine's memory. */
int block_range_read(struct call *c, const struct block_at *b, struct block_range_get *get);

#endif
