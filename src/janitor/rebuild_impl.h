// SPDX-License-Identifier: Apache-2.0
/* Shared by the files that rebuild the chunks of one block: rebuild.c has the theory. */
#ifndef JANITOR_REBUILD_IMPL_H
#define JANITOR_REBUILD_IMPL_H

#include "base/slice.h"
#include "client/shape.h"
#include "janitor/impl.h"
#include "stripe/stripe.h"

#define BLOCK_ARENA ((size_t)(256 * KIB))

/* The chunks of a block, by its record and the states of its disks. */
struct block_state {
	struct shape shape;
	const struct codec *codec;
	uint64_t chunk_len;
	uint32_t *cost; /* of reading each of shape.n chunks; CHUNK_LOST: unreadable */
	int *bad;       /* numbers of the chunks to rebuild or move, ascending */
	int bad_count;
};

struct rebuild {
	struct janitor *j;
	struct tenant_call request;
	uint32_t tenant;
	struct meta_block block;
	const struct pool_case *pool;  /* pool whose chunks count as lost; NULL: none */
	struct janitor_repair *repair; /* where its bytes are counted; may be NULL */
	/* the ranges of each chunk to compute; NULL: complete chunks */
	const struct store_range *ranges;
	size_t range_count;
	struct block_state state;
	struct stripe stripe;
	bool begun;          /* stripe_init was called */
	bool predicted;      /* the first plan was made */
	struct slice *chunk; /* for each chunk of state.bad: its bytes */
	bool *have;          /* for each chunk of state.bad: it was read, not computed */
	uint64_t gate_bytes; /* entered into the gate */
	bool met; /* the last put found the chunk: another janitor is or was rebuilding it */
};

/* Puts the rebuilt chunks on their disks and changes the block's record. */
int chunks_put(struct rebuild *rb);

#endif
