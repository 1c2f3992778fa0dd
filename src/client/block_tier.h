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
	const struct meta_block *block; /* record of the block, which may be stale; borrowed */
	uint64_t off, len;
	struct sink sink; /* len bytes of memory */
	/* Result of the range: 0 or an error, set before `done` is called. The caller
	 * initializes it with 0, or with an error: then the range is not read. */
	int rc;
	uint32_t crc; /* CRC-32C of the bytes in the sink; valid if rc is 0 */
	/* An operation on the bytes, with the results of a range that is read as it is stored; NULL: none. A tier that
	 * does the operation sets its results: then the sink has prep->bytes bytes. */
	struct terrane_prep *prep;
	/* SHA-256 of the range as the user knows it (32 bytes); borrowed; NULL: not known. A hint for caches,
	 * which need not be true. */
	const uint8_t *sha256;
};

struct block_read {
	struct call *call;
	/* the ranges to read; borrowed; a tier may change their order */
	struct block_range **ranges;
	size_t count; /* number of ranges, > 0 */
	/* true: the ranges are unrelated and each has at most BLOCK_RANGE_SMALL bytes. Every
	 * range is read even if another range fails, and ranges on one disk may be read with
	 * one request. false: the ranges are parts of one read; after the first error the
	 * remaining ranges may end with that error without being read. */
	bool independent;
	/* Called once for each range, in a fiber of the read, after the last write to its
	 * sink. `why` is the error text of the range. If done is NULL, no function is called
	 * and the caller uses the results after the read. */
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

/* Reads the ranges through all tiers of the call's engine, with the results of the tiers' read
 * slot. Waits. The read's count may be 0. */
int blocks_read(const struct block_read *r);

/* Initializes the disk tier, which is the last tier (disk_tier.c). */
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
