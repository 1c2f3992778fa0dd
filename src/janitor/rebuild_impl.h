// SPDX-License-Identifier: Apache-2.0
/* Shared by the files that make one block whole: rebuild.c has the theory. */
#ifndef JANITOR_REBUILD_IMPL_H
#define JANITOR_REBUILD_IMPL_H

#include "base/slice.h"
#include "client/shape.h"
#include "janitor/impl.h"
#include "stripe/stripe.h"

#define BLOCK_ARENA ((size_t)(256 * KIB))

struct look {
	struct shape shape;
	const struct codec *codec;
	uint64_t chunk_len;
	uint32_t *cost; /* shape.n; CHUNK_LOST: cannot be read */
	int *bad;       /* chunk numbers to make anew */
	int bad_count;
};

struct mending {
	struct janitor *j;
	struct tenant_call request;
	uint32_t tenant;
	struct meta_block block;
	const struct pool_case *pool;     /* nothing on it counts as good; NULL: none */
	struct janitor_repair *repair;    /* that its bytes are counted for; may be NULL */
	const struct store_range *ranges; /* what is made of each chunk; NULL: all */
	size_t range_count;
	struct look look;
	struct stripe stripe;
	bool begun;          /* stripe_init was called */
	bool predicted;      /* the first plan was made */
	struct slice *chunk; /* of each chunk of look.bad */
	bool *have;          /* the chunk was read, not computed */
	uint64_t gate_bytes;
	bool met; /* the last chunk was there already: another is at it, or was */
};

/* Puts the chunks that were made anew on their disks, and says so in the record. */
int chunks_put(struct mending *m);

#endif
