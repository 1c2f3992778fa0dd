// SPDX-License-Identifier: Apache-2.0
/*
 * What the background services ask of the metadata: garbage between each pair of layers, the reverse
 * index of disks, leases. All of it works on one partition at a time, may be stopped anywhere and done
 * again, and by several workers at once: every deletion is one transaction that checks that the thing
 * is still garbage.
 *
 * Grace without clocks. The store has an epoch, a counter. Who wants to advance it must have seen its
 * present value for the whole grace period on its own monotonic clock (meta_gc_advance). A piece of
 * garbage is marked with the epoch in which a collector first sees it, and is collected when the epoch
 * is at least two further: so at least one whole grace period lies between, however wrong any wall clock
 * is, and however often workers come and go. Whatever is changed meanwhile, or found to have a name or an
 * owner after all, loses its mark. The epoch of a mark is read after the thing was seen; the one that a
 * worker brings says only what is ripe, so a worker that is late shortens nobody's grace.
 *
 * A round for partition i of a layer: meta_gc_step of each kind of that layer until its cursor ends.
 *
 *   kind               layer      garbage                                 becomes
 *   META_GC_NAMES      Name       names that were taken away, notes of    files: removed
 *                                 renames and moves that happened
 *   META_GC_DIRS       Name       directories that no name leads to       nothing
 *   META_GC_TRANSFERS  transfers  moves whose mover died                  completed or undone
 *   META_GC_FILES      File       removed files                           blocks: an owner less
 *   META_GC_ORPHANS    File       files that no name leads to             removed files
 *   META_GC_BLOCKS     Block      pending blocks nobody commits, blocks   dead chunks
 *                                 without owner
 *   META_GC_OWNERS     Block      owners that have no extent there        blocks: an owner less
 *   META_GC_ACCOUNTS   tenants    charges of blocks that were not made,   quota
 *                                 refunds half done
 *
 * Dead chunks are then deleted on the disks by the janitor: meta_gc_chunks lists those past their grace,
 * meta_gc_chunks_done forgets them and gives the tenant its quota back.
 *
 * META_GC_DIRS, META_GC_ORPHANS and META_GC_OWNERS look at every object and ask another layer about it:
 * they find what crashed operations left and nothing else, and may run seldom.
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
/* From epoch to the next; 0 also when another has done it. */
int meta_gc_advance(struct meta *m, uint64_t epoch);

/* --- collection ------------------------------------------------------------------------------- */

/* How many partitions each layer has: their indexes are 0 to this - 1. */
uint64_t meta_gc_partitions(const struct meta *m);

/* Passes over partitions of the kind's layer that hold nothing: *index becomes the first, less than end, that
 * may hold something, or end. Walks of the Block layer are META_GC_BLOCKS. */
int meta_gc_skip(struct meta *m, enum meta_gc_kind kind, uint64_t *index, uint64_t end);

/* One bounded step of a walk of partition `index` of the kind's layer; adds to the counts. It ends after the
 * row that is under way when this time is over. */
#define META_GC_STEP_NS (500 * NS_PER_MS)
int meta_gc_step(struct meta *m, enum meta_gc_kind kind, uint64_t index, uint64_t epoch,
		 struct meta_gc_cursor *at, struct meta_gc_counts *counts);

/* Those of one partition of the Block layer that are past their grace, at most max; marks the younger
 * ones. Returns how many; goes on while !at->end. */
int64_t meta_gc_chunks(struct meta *m, uint64_t index, uint64_t epoch, struct meta_gc_cursor *at,
		       struct arena *arena, struct meta_dead_chunks *out, size_t max);
/* They are deleted on all disks: forgets them, refunds the tenant. Again: 0. */
int meta_gc_chunks_done(struct meta *m, uint32_t tenant, uint64_t block, uint64_t chunk_block);

/*
 * Whether the metadata names a chunk found on a disk, whose block id and tenant the node keeps in the chunk's
 * label. Not to be named is not to be dead: a block is laid out anew, repaired or rebalanced by writing
 * chunks first and saying so afterwards. So a chunk may only be deleted when it was not wanted for a whole
 * grace period: twice, two epochs apart, and never in between. Who writes chunks ahead of the metadata should
 * say so within the grace. The chunks of a pending block are wanted on any disk.
 *
 * Who is about to delete one gives it up first: a chunk that is not wanted then is not named afterwards either,
 * by anybody who put it before (release_count in meta.h). The delete must name the put that was seen before that.
 */
int meta_chunk_wanted(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		      uint64_t chunk_block, uint32_t index, uint64_t disk, bool *wanted);
int meta_chunk_give_up(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		       uint64_t chunk_block, uint32_t index, uint64_t disk, bool *wanted);

/* --- the reverse index ------------------------------------------------------------------------ */

/* Blocks of one partition of the Block layer with a chunk on the disk, committed or pending; returns
 * how many, at most max. */
int64_t meta_disk_blocks(struct meta *m, uint64_t index, uint64_t disk, struct meta_gc_cursor *at,
			 struct meta_on_disk *out, size_t max);

/* All blocks of one partition that read: for scrub, re-encoding, compaction, statistics. One with an owner that
 * does not read is owned whole. */
int64_t meta_blocks(struct meta *m, uint64_t index, struct meta_gc_cursor *at, struct arena *arena,
		    struct meta_block_at *out, size_t max);

/* --- leases ----------------------------------------------------------------------------------- */

/*
 * Takes a free lease, renews one's own, or takes over one whose turn has not changed for its duration
 * on this process's clock: call it again to find out. -EBUSY it is another's. A lease is advice that
 * saves double work: nothing above is wrong when two workers hold the same one.
 */
int meta_lease_take(struct meta *m, struct meta_lease *l);
int meta_lease_drop(struct meta *m, const struct meta_lease *l);

/* --- the check -------------------------------------------------------------------------------- */

struct meta_check_report {
	uint64_t dirs;
	uint64_t files;
	uint64_t blocks;
	uint64_t entries;
	uint64_t garbage; /* rows that the collector will see to */
	uint64_t errors;
	char first[256];          /* the first error, for a person */
	uint64_t partitions;      /* to read, after the trees; 0 before */
	uint64_t partitions_done; /* of these */
};

/* Callbacks of a check; each may be NULL. */
struct meta_check_options {
	/* Called for every error, with words for a person. */
	void (*found)(void *ctx, const char *words);
	/* Called after each directory and each partition. */
	void (*progress)(void *ctx, const struct meta_check_report *so_far);
	void *ctx;
};

/*
 * Walks every tenant and every partition at rest and compares the layers: names that lead nowhere,
 * objects with two names, cycles, extents without blocks, owners, reverse index and quota that do not
 * add up, records that do not decode. Reads everything and writes nothing; changes that are made meanwhile look
 * like errors. 0: the report is complete, with or without errors in it. -ENOSPC: more names than a check can
 * note; -ENOMEM, or what reading returned. o may be NULL.
 */
int meta_check(struct meta *m, const struct meta_check_options *o, struct meta_check_report *out);

#endif
