// SPDX-License-Identifier: Apache-2.0
/* What the background services ask of the metadata, as types; meta/gc.h explains collection, the reverse
 * index of disks and leases. */
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

/* Where a walk of a partition goes on; zeroed for its beginning. */
struct meta_gc_cursor {
	bool end;
	uint16_t len;
	uint8_t key[320];
};

struct meta_gc_counts {
	uint64_t seen;
	uint64_t marked;
	uint64_t collected;
	uint64_t left;    /* not collected yet: too young, or something else must go first */
	uint64_t damaged; /* rows that do not read: passed, and logged */
};

/* Chunks (chunk_block, i) that are on chunks[i].disk and that nothing refers to. */
struct meta_dead_chunks {
	uint32_t tenant;
	uint64_t block; /* that they were of */
	uint64_t chunk_block;
	size_t chunk_count;
	struct meta_chunk *chunks;
};

struct meta_on_disk {
	uint32_t tenant;
	uint64_t block;
	uint32_t index; /* META_CHUNKS_MAX: not known, the row does not read */
};

struct meta_block_at {
	uint32_t tenant;
	struct meta_block block; /* chunks of the arena */
	uint64_t owned_bytes;    /* what its owners have of it; the rest is dead */
};

struct meta_lease {
	char name[64];
	uint64_t holder; /* drawn by the worker, not 0 */
	uint64_t turn;   /* of take and renew: filled in */
	uint64_t
		seen_ns; /* the caller's: when it first saw another's turn, on its monotonic clock */
	uint64_t seen_turn;
	uint64_t duration_ns;
};

#endif
