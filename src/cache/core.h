// SPDX-License-Identifier: Apache-2.0
/*
 * The bookkeeping of a cache: index, DRAM list, regions and groups, and the calls of the policy. No bytes: the owner
 * moves them when a slot of struct cache_core_ops says so. A cache node is this plus a device; the simulator of caches
 * is this plus counters, so both make the same decisions.
 *
 * Entries are numbered. Number region * region_segments + slot is that place on flash, and the numbers from flash_n on
 * are places in DRAM.
 *
 *   n = cache_core_find(c, &r, at);            at[i]: number of segment i, or CACHE_NONE; n: how many are missing
 *   n == 0: cache_core_hit(c, &r, at)          serve
 *   n > 0:  cache_core_admit(c, &r, at)        false: the client reads the disks
 *           fetch; cache_core_hit for those found, then cache_core_insert for each that was missing
 *
 * Space. A region that is full is sealed: a footer is written behind its segments (region.h). At most
 * groups_max regions are open; opening one more seals the one that was written to least recently, with what it has.
 * Without a free region the policy names a victim; what it keeps of it is held back and appended when a region is free.
 * After CACHE_VICTIMS_MAX victims in a row the rest of what they kept is dropped, so that an insert always ends.
 */
#ifndef CACHE_CORE_H
#define CACHE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/index.h"
#include "cache/policies.h"

#define CACHE_VICTIMS_MAX 8u
#define CACHE_GROUPS_MAX 128u
#define CACHE_GET_SEGMENTS_MAX 4096u

/* What the owner of the bytes does. All may be NULL in a simulation. None may call back into the core. */
struct cache_core_ops {
	/* A segment of a region that is being freed is kept: read it into buffer `kept`. */
	void (*keep)(void *arg, uint32_t number, uint32_t kept);
	/* A segment moves to flash: from place `dram` if that is not CACHE_NONE, else from buffer `kept`. */
	void (*append)(void *arg, uint32_t number, uint32_t dram, uint32_t kept);
	/* The region is complete with `segments` segments: write its footer. */
	void (*seal)(void *arg, uint32_t region, uint32_t segments);
	/* The region holds nothing any more, and will be written anew. */
	void (*free_region)(void *arg, uint32_t region);
};

struct cache_open_region {
	uint32_t group, region, used;
	uint64_t written; /* number of the last append to it */
};

struct cache_core_counts {
	uint64_t appended;   /* segments written to flash, with those written again */
	uint64_t reinserted; /* of these, written again */
	uint64_t sealed;     /* regions */
	uint64_t freed;      /* regions */
	uint64_t wasted;     /* slots of sealed regions that were never filled */
	uint64_t dropped;    /* segments that the policy wanted to keep and could not */
};

struct cache_core {
	struct cache_params params;
	struct cache_policy *policy;
	const struct cache_core_ops *ops;
	void *arg;
	struct cache_index index;
	struct cache_entry *entries;
	uint32_t flash_n, dram_n;
	struct cache_dram_link {
		uint32_t older, newer;
	} * links; /* [number - flash_n] */
	uint32_t newest, oldest, dram_free, dram_used;
	uint32_t *live; /* [region]: segments in the index */
	uint32_t *free_regions;
	uint32_t free_n;
	struct cache_open_region open[CACHE_GROUPS_MAX];
	uint32_t opens, last_open;
	struct cache_entry *kept; /* segments of freed regions that are to be written again */
	uint32_t *kept_groups;
	uint32_t kept_n, kept_next;
	struct cache_core_counts counts;
};

/* Parameters must be valid (cache_params_check). dram_segments: places in DRAM, at least 1. -ENOMEM; -E2BIG: more than
 * 2^32 - 2 places. */
int cache_core_init(struct cache_core *c, const struct cache_params *params, cache_open_fn *open,
		    uint32_t dram_segments);
void cache_core_fini(struct cache_core *c);

/* Tells the policy of the request and looks up its segments, at most CACHE_GET_SEGMENTS_MAX. */
uint32_t cache_core_find(struct cache_core *c, const struct cache_request *r, uint32_t *at);
/* Looks up the segments again, as cache_core_find, without telling the policy. */
uint32_t cache_core_look(const struct cache_core *c, const struct cache_request *r, uint32_t *at);
/* Reports whether all missing segments are admitted. */
bool cache_core_admit(struct cache_core *c, const struct cache_request *r, const uint32_t *at);
/* Segments with at[i] != CACHE_NONE are read. */
void cache_core_hit(struct cache_core *c, const struct cache_request *r, const uint32_t *at);
/* Inserts segment i, which must be missing, into DRAM. Returns its number. */
uint32_t cache_core_insert(struct cache_core *c, const struct cache_request *r, uint32_t i);
/* The segment is gone: rotten, deleted, or of a lost device. */
void cache_core_drop(struct cache_core *c, uint32_t number);
/* Seals the open regions as they are: before the owner closes. */
void cache_core_seal_all(struct cache_core *c);
/*
 * Restores a region that was sealed in an earlier run; before the first request. Entry i, if its field `used` is not 0,
 * stands in slot i; all n > 0 have the bucket of the region. seals[region] tells when a region was sealed: of a segment
 * that two regions have the later one counts.
 */
void cache_core_restore(struct cache_core *c, uint32_t region, const struct cache_entry *entries,
			uint32_t n, const uint64_t *seals);
/* Ends restoring: these are the restored regions, in the order in which they were sealed. The others are free. */
void cache_core_restore_end(struct cache_core *c, const uint32_t *regions, uint32_t n);

#endif
