// SPDX-License-Identifier: Apache-2.0
/*
 * The one way to read bytes of blocks: "give me these ranges of these blocks". Files, batches, re-encoding and
 * compaction read through blocks_read() and do not know where bytes come from.
 *
 * A tier is an implementation. The last one is the disks (disk_tier.c). A tier in front of it, a cache say, serves
 * the ranges it has and passes the others to the tier below it:
 *
 *     blocks_read -> cache: has ranges 0 and 2 -> disks: range 1
 *
 * The bytes of a sealed block never change while its id lives, whatever becomes of its chunks. An open block grows;
 * its end may be cut when a writer is replaced.
 */
#ifndef CLIENT_BLOCK_TIER_H
#define CLIENT_BLOCK_TIER_H

#include "client/fabric.h"
#include "client/sink.h"
#include "meta_client/meta_client.h"

#define BLOCK_RANGE_SMALL (1 * MIB)

/* Bytes [off, off + len) of a block, len > 0. */
struct block_range {
	const struct meta_block *block; /* its record, which may be old; borrowed */
	uint64_t off, len;
	struct sink sink; /* len bytes of memory */
	/* 0 at first. A caller may set an error while the range waits for its turn: the range is not read then. Set
	 * before done is called: 0 or the error of this range. */
	int rc;
	uint32_t crc; /* of the bytes in the sink, if rc is 0 */
};

struct block_read {
	struct call *call;
	struct block_range **ranges; /* borrowed; a tier may change their order */
	size_t count;                /* > 0 */
	/* true: the ranges, of BLOCK_RANGE_SMALL at most, have nothing to do with each other. Each is read whatever
	 * becomes of the others, and those that lie on the same disk may share a request.
	 * false: they are parts of one read. After the first error the others may end unread with that error. */
	bool independent;
	/* Called once for each range, in a fiber of the read, when nothing writes to its sink any more. why: the
	 * error in words. NULL: the caller waits for the end. */
	void (*done)(void *ctx, struct block_range *r, const char *why);
	void *ctx;
};

struct block_tier;

struct block_tier_ops {
	/* Reads all ranges; waits. Bytes come with a checksum taken where they are handed out and compared with
	 * the one they were stored with. Returns 0, or the first error of any range with words in the call:
	 * -ENODATA too few chunks are left, -ENOENT the block is gone, -EBADMSG, -EBUSY the budget, -ECANCELED. */
	int (*read)(struct block_tier *t, const struct block_read *r);
	/* Called when the engine closes, before the tiers below; no read is under way. May wait. NULL: nothing. */
	void (*close)(struct block_tier *t);
};

struct block_tier {
	const struct block_tier_ops *ops;
	struct block_tier *below; /* set by engine_tier_add; NULL: the last */
};

/* Reads through all tiers of the call's engine. Waits. As the read slot; count may be 0. */
int blocks_read(const struct block_read *r);

/* The last tier (disk_tier.c). */
void disk_tier_init(struct block_tier *t);

/* Ends a range: sets its result and calls done. */
static inline void block_range_end(const struct block_read *r, struct block_range *range, int rc,
				   const char *why)
{
	range->rc = rc;
	if (r->done != NULL)
		r->done(r->ctx, range, why);
}

#endif
