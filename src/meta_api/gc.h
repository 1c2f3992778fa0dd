// SPDX-License-Identifier: Apache-2.0
/* Types of the metadata calls of background services; meta/gc.h explains collection, the reverse index of
 * disks and leases. */
#ifndef META_API_GC_H
#define META_API_GC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta_api/types.h"

enum meta_gc_kind {
	META_GC_NAMES,
	META_GC_DIRS,
	META_GC_TRANSFERS,
	META_GC_FILES,
	META_GC_ORPHANS,
	META_GC_BLOCKS,
	META_GC_OWNERS,
	META_GC_ACCOUNTS,
	META_GC_KINDS,
};

#define META_GC_WHY_MAX 300
/* What a restore from a backup adds to the epoch: more than a store advances in its life. */
#define META_GC_JUMP ((uint64_t)1 << 32)

struct meta_gc_state {
	uint64_t epoch;
	uint64_t restored; /* epoch in which the store was restored from a backup; 0: never */
	bool held;         /* the epoch does not advance, so nothing is collected */
	char why[META_GC_WHY_MAX + 1]; /* why it is held */
};

/* Position of a walk over the rows of a partition; zeroed at its start. */
struct meta_gc_cursor {
	bool end;
	uint16_t len;
	uint8_t key[320];
};

struct meta_gc_counts {
	uint64_t seen;
	uint64_t marked;
	uint64_t collected;
	/* Objects that are not collected yet: they are in the grace period, or another row must be collected first. */
	uint64_t left;
	uint64_t damaged; /* rows that cannot be decoded; they are logged and skipped */
};

/* Dead chunks of a block: no record names chunk (chunk_block, i) on chunks[i].disk any more. */
struct meta_dead_chunks {
	uint32_t tenant;
	uint64_t block; /* block that the chunks belonged to */
	uint64_t chunk_block;
	size_t chunk_count;
	struct meta_chunk *chunks;
};

struct meta_on_disk {
	uint32_t tenant;
	uint64_t block;
	/* index of the chunk; META_CHUNKS_MAX: not known, because the row cannot be decoded */
	uint32_t index;
};

struct meta_block_at {
	uint32_t tenant;
	struct meta_block block; /* the block; its list of chunks is in the arena */
	/* bytes that the owners of the block use; all other bytes are garbage */
	uint64_t owned_bytes;
};

struct meta_lease {
	char name[64];
	uint64_t holder; /* random number of the worker, drawn by it, not 0 */
	uint64_t turn;   /* set when the lease is taken or renewed */
	/* Values that the caller keeps between calls: the turn of another holder that it saw last, and the time on
	 * its monotonic clock when it saw that turn first. */
	uint64_t seen_ns;
	uint64_t seen_turn;
	uint64_t duration_ns;
};

#endif
