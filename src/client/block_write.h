// SPDX-License-Identifier: Apache-2.0
/*
 * Writing one block: encoded chunks to the first disks that accept them.
 *
 *     candidates  d1 d2 d3 d4 d5 d6 | d7 d8        n, and some to spare
 *     reserve     all at once; of those that say yes in time, the n that would be done first get
 *                 a chunk
 *     put         all at once; a disk that fails is replaced by another that said yes
 *     done        at the quorum, after a short grace for the rest
 *
 * A disk that is too busy says no (or says nothing) to the reservation, so no payload is sent
 * there: that is the hedge of section 5.1 of the Tectonic paper. What is not done after the grace
 * goes on behind the caller's back; the chunk is then recorded as missing, and `late` is told how
 * it ended.
 */
#ifndef CLIENT_BLOCK_WRITE_H
#define CLIENT_BLOCK_WRITE_H

#include "client/encode.h"

struct late_chunk {
	uint64_t block; /* as files know it */
	uint64_t chunk_block;
	int chunk;
	uint64_t disk;
	uint32_t crc;
	uint64_t release_count; /* of the block, when it names the others */
	int rc;
};

struct block_write {
	uint64_t block; /* as disks know it */
	uint64_t owner; /* as files know it, for the chunks' labels; 0: the same */
	uint64_t epoch;
	uint64_t release_count; /* of its record, when it names the chunks */
	const struct shape *shape;
	const uint64_t *candidates; /* disks in the order of preference */
	size_t candidate_count;     /* at least shape->n */
	int extra;                  /* how many beside n are asked at first */
	int quorum;
	bool unasked;        /* nothing is reserved: the first n get their chunks at once */
	bool no_grace;       /* return with the quorum */
	bool open;           /* appends follow: the chunks are made with room for capacity bytes */
	uint64_t capacity;   /* with open */
	uint64_t gate_bytes; /* held at the gate of writes for the chunks; given back with them */
	/* A chunk that was not done in time is (rc 0), or never will be. Called in a fiber; may be
	 * NULL. */
	void (*late)(void *ctx, const struct late_chunk *l);
	void *late_ctx;
};

/*
 * Takes over the chunks and what is held at the gate for them. disks[n] receives where each chunk
 * is, 0 where it is missing. Waits. -ENOSPC: fewer candidates accept than the quorum needs, told
 * with what they said; -ETIME, -ECANCELED.
 */
int block_write_take(struct call *c, const struct block_write *w, struct coded *chunks,
		     uint64_t *disks);

#endif
