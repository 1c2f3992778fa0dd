// SPDX-License-Identifier: Apache-2.0
/*
 * Writes one block: encoded chunks to the first disks that accept them.
 *
 *     candidates  d1 d2 d3 d4 d5 d6 | d7 d8        n, and some more
 *     reserve     sends reservations to all candidates at once; of the disks that accept in time, the n with the
 *                 shortest expected time get a chunk
 *     put         sends all chunks at once; a disk that fails is replaced by another that accepted
 *     done        when a quorum has stored its chunks, after a short grace for the rest
 *
 * A busy disk refuses the reservation (or does not answer in time), so no payload is sent to it: this is the hedge of
 * section 5.1 of the Tectonic paper. Puts that have not ended after the grace continue in the background. Their
 * chunks are recorded as missing, and `late` is called with their result.
 */
#ifndef CLIENT_BLOCK_WRITE_H
#define CLIENT_BLOCK_WRITE_H

#include "client/encode.h"

struct late_chunk {
	uint64_t block; /* id in file extents */
	uint64_t chunk_block;
	int chunk;
	uint64_t disk;
	uint32_t crc;
	uint64_t release_count; /* release count of the Block record that names the other chunks */
	int rc;
};

struct block_write {
	uint64_t block; /* chunk_block: id under which disks keep the chunks */
	uint64_t owner; /* block id in file extents, for the chunks' labels; 0: the same as block */
	uint64_t epoch;
	uint64_t release_count; /* release count of the Block record that will name the chunks */
	const struct shape *shape;
	/* ids of disks that may get a chunk, the preferred disks first */
	const uint64_t *candidates;
	size_t candidate_count; /* number of candidates, at least shape->n */
	/* for each candidate the token for new chunks; used until the call returns. NULL: none are needed */
	const uint8_t (*tokens)[NODE_TOKEN_BYTES];
	int extra; /* reservations beyond n at the start */
	int quorum;
	bool no_reserve;   /* puts go to the first n candidates without reservations */
	bool no_grace;     /* returns as soon as the quorum is reached */
	bool open;         /* creates open chunks with room for capacity bytes, for appends */
	uint64_t capacity; /* bytes that an open chunk can grow to; only used with `open` */
	/* bytes entered at the gate of writes; leaves the gate when the chunks are freed */
	uint64_t gate_bytes;
	/* Called in a fiber of the home loop for each chunk that ended after the return: stored (rc 0) or failed.
	 * NULL: not called. */
	void (*late)(void *ctx, const struct late_chunk *l);
	void *late_ctx;
};

/* Writes the chunks. Takes over them and gate_bytes. disks[n] receives the disk of each chunk, 0
 * if it is missing. Waits. -ENOSPC: fewer candidates accept than the quorum needs; the error
 * text has the numbers and the last answer; -ETIME, -ECANCELED. */
int block_write_take(struct call *c, const struct block_write *w, struct coded *chunks,
		     uint64_t *disks);

#endif
