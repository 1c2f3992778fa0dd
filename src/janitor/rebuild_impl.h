// SPDX-License-Identifier: Apache-2.0
/* Shared by the files that rebuild the chunks of one block: rebuild.c has the theory. */
#ifndef JANITOR_REBUILD_IMPL_H
#define JANITOR_REBUILD_IMPL_H

#include "base/slice.h"
#include "code/shape.h"
#include "janitor/impl.h"
#include "stripe/stripe.h"

#define BLOCK_ARENA ((size_t)(256 * KIB))

/* Which chunks of a block are readable and which must be rebuilt or moved, derived from the
 * block's record and the states of its disks. */
struct block_state {
	struct shape shape;
	const struct codec *codec;
	uint64_t chunk_len;
	/* relative cost of reading each of the shape.n chunks; CHUNK_LOST: unreadable */
	uint32_t *cost;
	int *bad; /* indexes of the chunks to rebuild or move, ascending */
	int bad_count;
};

struct rebuild {
	struct janitor *j;
	struct tenant_call request;
	uint32_t tenant;
	struct meta_block block;
	const struct pool_case *pool;  /* pool whose chunks count as lost; NULL: none */
	struct janitor_repair *repair; /* repair to which the moved bytes are added; may be NULL */
	/* byte ranges of a chunk to compute, the same for every chunk; NULL: complete chunks */
	const struct store_range *ranges;
	size_t range_count;
	struct block_state state;
	struct stripe stripe;
	bool begun;     /* stripe_init was called */
	bool predicted; /* the first plan was made */
	/* rebuilt bytes by chunk index; only set for the chunks in state.bad */
	struct slice *chunk;
	/* by chunk index, for the chunks in state.bad: true if the bytes were read, not
	 * computed */
	bool *have;
	uint64_t gate_bytes; /* bytes of memory entered into the gate fabric.shared->writes */
	/* the last put met a chunk of the same name: another janitor is or was rebuilding it */
	bool met;
};

/* Chooses a disk for each rebuilt chunk, puts the chunk there and changes the block's record.
 * -ENOSPC: no disk accepted a chunk. */
int chunks_put(struct rebuild *rb);

#endif
