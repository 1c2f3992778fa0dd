// SPDX-License-Identifier: Apache-2.0
/*
 * The functions of the metadata for background services: collection of garbage, the reverse index of disks,
 * leases. Each call works on one partition, and several workers may call it at once. A worker that stops in the
 * middle loses nothing: every deletion is one transaction, which checks that the object is still garbage.
 *
 * Grace period without wall clocks. The store has an epoch, a counter. A worker may advance the epoch only after
 * it has seen its present value for the full grace period on the worker's own monotonic clock (meta_gc_advance).
 * A collector marks garbage with the epoch in which it first sees it, and deletes it when the epoch is at
 * least two higher. So at least one grace period lies between mark and deletion, even if wall clocks are wrong and
 * workers are replaced. An object that changes, or turns out to have a name or an owner, loses its mark. The epoch of a
 * mark is read from the store after the object. The epoch that a worker passes only decides which marks are old enough,
 * so a worker with an old epoch does not shorten a grace period.
 *
 * A round over partition i of a layer calls meta_gc_step for each kind of that layer until its cursor ends.
 *
 *   kind               layer      garbage                                  what it becomes
 *   META_GC_NAMES      Name       tombstones of names, notes of executed   the files of removed names: DeadFile
 *                                 renames and moves
 *   META_GC_DIRS       Name       directories that no name leads to        deleted
 *   META_GC_TRANSFERS  transfers  moves whose server crashed               completed or undone
 *   META_GC_FILES      File       removed files (DeadFile)                 deleted; their blocks lose an owner
 *   META_GC_ORPHANS    File       files that no name leads to              DeadFile
 *   META_GC_BLOCKS     Block      pending blocks without commit, blocks    dead chunks
 *                                 without owner
 *   META_GC_OWNERS     Block      owners without an extent in the block    deleted
 *   META_GC_ACCOUNTS   tenants    charges of blocks that do not exist,     quota
 *                                 incomplete refunds
 *
 * The janitor then deletes the dead chunks from the disks: meta_gc_chunks lists those whose grace period is over,
 * and meta_gc_chunks_done deletes their row and refunds the tenant's quota.
 *
 * META_GC_DIRS, META_GC_ORPHANS and META_GC_OWNERS read every object, and for each object rows of other layers. They
 * only find garbage of crashed operations, so they can run rarely.
 */
#ifndef META_GC_H
#define META_GC_H

#include "base/base.h"
#include "meta_api/gc.h"

struct arena;
struct meta;
struct meta_ctx;

/* --- epochs ----------------------------------------------------------------------------------- */

int meta_gc_epoch(struct meta *m, uint64_t *epoch);
int meta_gc_state(struct meta *m, struct meta_gc_state *out);
/* Advances the epoch from this value by one. Returns 0 also if the epoch is not equal to this value any more, or is
 * held. */
int meta_gc_advance(struct meta *m, uint64_t epoch);
/* Holds the epoch, so that nothing is collected until it is released. why: for operators. -EINVAL: why is too long;
 * -EAGAIN: too many concurrent changes; errors of the store. */
int meta_gc_hold(struct meta *m, bool held, const char *why);
/* Called once on a store that was restored from a backup, before it is served: raises the epoch and holds it. */
int meta_gc_restored(struct meta *m, const char *why);

/* --- collection ------------------------------------------------------------------------------- */

/* Returns the number of partitions of each layer. The indexes of the partitions are 0 to this number - 1. */
uint64_t meta_gc_partitions(const struct meta *m);

/* Skips empty partitions of the kind's layer: sets *index to the first partition, from *index on, that may have
 * rows, or to end. For walks of the Block layer, kind is META_GC_BLOCKS. */
int meta_gc_skip(struct meta *m, enum meta_gc_kind kind, uint64_t *index, uint64_t end);

/* Does one bounded step of a walk of partition `index` of the kind's layer, and adds the objects that it handled to the
 * counts. After META_GC_STEP_NS the step ends with the current row. */
#define META_GC_STEP_NS (500 * NS_PER_MS)
int meta_gc_step(struct meta *m, enum meta_gc_kind kind, uint64_t index, uint64_t epoch,
		 struct meta_gc_cursor *at, struct meta_gc_counts *counts);

/* Lists at most max sets of dead chunks with an ended grace period in one partition of the Block layer, and marks
 * sets that have no mark yet. Returns the number of listed sets. The caller continues until at->end. */
int64_t meta_gc_chunks(struct meta *m, uint64_t index, uint64_t epoch, struct meta_gc_cursor *at,
		       struct arena *arena, struct meta_dead_chunks *out, size_t max);
/* Called when these chunks are deleted from all disks: deletes their row, and subtracts their bytes from the
 * tenant's account. Idempotent. */
int meta_gc_chunks_done(struct meta *m, uint32_t tenant, uint64_t block, uint64_t chunk_block);

/*
 * meta_chunk_wanted sets *wanted to whether the metadata names a chunk that was found on a disk. The chunk's label has
 * its block and tenant. A chunk that the metadata does not name may still be needed: re-encoding, repair and rebalance
 * write chunks before they change the metadata. So a chunk may be deleted only if it was not wanted for a full grace
 * period: at two calls two epochs apart, and at every call between them. A writer of such chunks must change the
 * metadata within the grace period. The chunks of a pending block are wanted on any disk.
 *
 * Before a worker deletes a chunk, it calls meta_chunk_give_up. If this call sets *wanted to false, no worker that put
 * the chunk earlier can make the metadata name the chunk (release_count in meta_api/types.h). The delete request must
 * carry the put number that the worker read before this call.
 */
int meta_chunk_wanted(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		      uint64_t chunk_block, uint32_t index, uint64_t disk, bool *wanted);
int meta_chunk_give_up(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		       uint64_t chunk_block, uint32_t index, uint64_t disk, bool *wanted);

/* --- the reverse index ------------------------------------------------------------------------ */

/* Lists at most max blocks of one partition of the Block layer with a chunk on the disk, committed or pending.
 * Returns their number. A block with an unreadable row is listed, too, with index META_CHUNKS_MAX. */
int64_t meta_disk_blocks(struct meta *m, uint64_t index, uint64_t disk, struct meta_gc_cursor *at,
			 struct meta_on_disk *out, size_t max);

/* Lists at most max blocks of one partition, for scrub, re-encoding, compaction and statistics. Skips unreadable
 * records. If an owner row of a block is unreadable, its owned_bytes is the full length of the block. */
int64_t meta_blocks(struct meta *m, uint64_t index, struct meta_gc_cursor *at, struct arena *arena,
		    struct meta_block_at *out, size_t max);

/* --- leases ----------------------------------------------------------------------------------- */

/*
 * Takes a free lease, renews the caller's own lease, or takes over a lease whose turn has not changed for its
 * duration on this process's clock. -EBUSY: another worker has the lease; to take it over, the caller calls again later
 * with the same *l, in which this function stores since when the turn has not changed. A lease only avoids double work:
 * every operation of this file is correct even if two workers hold the same lease.
 */
int meta_lease_take(struct meta *m, struct meta_lease *l);
/* Releases the lease. Returns 0 also if the caller does not hold it. */
int meta_lease_drop(struct meta *m, const struct meta_lease *l);

/* --- the check -------------------------------------------------------------------------------- */

struct meta_check_report {
	uint64_t dirs;
	uint64_t files;
	uint64_t blocks;
	uint64_t entries;
	uint64_t garbage; /* number of rows that the collector will delete */
	uint64_t errors;
	char first[256]; /* text of the first error */
	/* number of partitions to read after the directory trees; 0 until the trees are read */
	uint64_t partitions;
	uint64_t partitions_done; /* number of partitions read so far */
};

/* Callbacks of a check; each may be NULL. */
struct meta_check_options {
	/* Called with a text for every error that the check finds. */
	void (*found)(void *ctx, const char *text);
	/* Called after each directory and each partition. */
	void (*progress)(void *ctx, const struct meta_check_report *so_far);
	void *ctx;
};

/*
 * Reads every tenant and every partition, and compares the layers. Reports names without an object, objects with two
 * names, cycles, extents without a block, records that cannot be decoded, and blocks that disagree with their owners,
 * the reverse index or the quota. Writes nothing. No other process may change the store during the check: concurrent
 * changes can be reported as errors. Returns 0 if the report is complete, even if it has errors. -ENOSPC: there are
 * more names than a check can hold in memory; -ENOMEM; errors of kv_get and kv_scan. o may be NULL.
 */
int meta_check(struct meta *m, const struct meta_check_options *o, struct meta_check_report *out);

#endif
