// SPDX-License-Identifier: Apache-2.0
/* From fetched ranges of chunks to the user's bytes, checked on the way: see block_read.h. */
#ifndef CLIENT_DECODE_H
#define CLIENT_DECODE_H

#include "base/slice.h"
#include "client/block_read.h"
#include "code/plan.h"

/* A range of a chunk on its way here. */
struct fetch {
	void *owner;
	int chunk;
	uint64_t off, len;
	uint64_t start_ns;
	bool done;
	bool known; /* its failure was taken into account */
	int rc;
	struct slice got; /* when done and rc is 0; empty for len 0 */
	struct fetch *next;
};

/* One that has the range, else one that will, else a failed one. NULL: none. */
struct fetch *fetch_find(struct fetch *list, int chunk, uint64_t off, uint64_t len);

struct decode {
	struct call *call;
	const struct block_at *b;
	const struct plan *plan; /* complete */
	struct fetch *fetches;
	uint64_t off, len; /* of the block */
	const struct sink *sink;
};

/* -EBADMSG: bytes changed in this machine's memory; -ENOMEM. */
int decode_run(struct decode *d, uint32_t *crc);

#endif
