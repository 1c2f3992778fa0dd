// SPDX-License-Identifier: Apache-2.0
/*
 * The interface for reading bytes of blocks: "give me these ranges of these blocks". Files, batches, re-encoding
 * and compaction read through blocks_read() and do not know the source of the bytes.
 *
 * A tier implements the interface. The last tier is the disks (disk_tier.c). A tier in front of it, for example a
 * cache, serves the ranges it has and passes the rest to the tier below it:
 *
 *     blocks_read -> cache: has ranges 0 and 2 -> disks: range 1
 *
 * The bytes of a sealed block never change while the block exists, even when its chunks are moved or re-encoded. An
 * open block grows; its end may be cut when a new writer takes over.
 */
#ifndef CLIENT_BLOCK_TIER_H
#define CLIENT_BLOCK_TIER_H

#include "client/fabric.h"
#include "client/sink.h"
#include "meta_client/meta_client.h"

#define BLOCK_RANGE_SMALL (1 * MIB)

/* Bytes [off, off + len) of a block, len > 0. */
struct block_range {
	const struct meta_block *block; /* its record, which may be stale; borrowed */
	uint64_t off, len;
	struct sink sink; /* len bytes of memory */
	/* 0 at first. The caller may set an error before the range is begun: then it is not
	 * read. Set before done is called: 0 or the error of this range. */
	int rc;
	uint32_t crc; /* of the bytes in the sink, if rc is 0 */
};

struct block_read {
	struct call *call;
	struct block_range **ranges; /* borrowed; a tier may change their order */
	size_t count;                /* > 0 */
	/* true: the ranges, each of BLOCK_RANGE_SMALL at most, are unrelated. Each is read even
	 * if another fails, and ranges on one disk may share a request. false: they are parts of
	 * one read; after the first error the rest may end unread with that error. */
	bool independent;
	/* Called once for each range, in a fiber of the read, after the last write to its sink.
	 * why: the error text. NULL: the caller waits for the end of the read. */
	void (*done)(void *ctx, struct block_range *r, const char *why);
	void *ctx;
};

struct block_tier;

struct block_tier_ops {
	/* Reads all ranges; waits. The crc of a range is taken of the bytes in the sink and
	 * compared with the stored checksum. Returns 0, or the first error of any range with its
	 * text in the call: -ENODATA too few chunks are left, -ENOENT the block was deleted,
	 * -EBADMSG, -EBUSY the budget, -ECANCELED. */
	int (*read)(struct block_tier *t, const struct block_read *r);
	/* Called when the engine closes, before the close of the tiers below; no read is
	 * running. May wait. NULL: nothing to close. */
	void (*close)(struct block_tier *t);
};

struct block_tier {
	const struct block_tier_ops *ops;
	struct block_tier *below; /* set by engine_tier_add; NULL: this is the last tier */
};

/* Reads through the tiers of the call's engine, like their read slot. Waits. count may be 0. */
int blocks_read(const struct block_read *r);

/* Initializes the tier of the disks, the last one (disk_tier.c). */
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
