// SPDX-License-Identifier: Apache-2.0
/*
 * The interface between a cache and its policy: what is admitted, what is written to flash, which region is freed, and
 * what survives that.
 *
 *     get ---> request ---> segments in DRAM or on flash ---> hit
 *                |
 *                +--> missing segments ---> admit ---> no: the client reads the disks
 *                                             | yes: one fetch
 *                                             v
 *                                           DRAM --(least recently used)--> place ---> drop
 *                                                                             | group
 *                                                                             v
 *                 free region <--- freed <--- victim <--- sealed <--- open region of the group
 *                                     |
 *                                     +--> place, for each live segment: reinsert or drop
 *
 * The engine calls the policy from one loop, and owns all bytes and the index. A policy owns only what it remembers:
 * it is logic without sockets, files and clock, so a cache node and the simulator run the same code. Flash is written
 * in regions of one group, in order, once. A policy chooses regions to free, never single segments: a segment that
 * nobody needs stays in its region, dead, until the region is freed.
 *
 * Policies compose: an admission policy is a policy over another one, which it asks for everything that it does not
 * decide itself (cache_below_*).
 */
#ifndef CACHE_POLICY_H
#define CACHE_POLICY_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

#define CACHE_NONE UINT32_MAX /* no region, unknown position, unknown job */
#define CACHE_DROP UINT32_MAX /* answer of place: do not write the segment */
#define CACHE_BUCKETS_MAX 65535u
#define CACHE_SEGMENT_BYTES_MAX (1ULL << 32)

/* What the index keeps of a segment in the cache. With 8 bytes for its slot of a hash table that makes 32 bytes of
 * DRAM for each segment on flash. */
struct cache_entry {
	uint64_t key; /* cache_key() of the segment */
	uint32_t
		position; /* place in the scan order of its bucket, in segments; CACHE_NONE: unknown */
	uint32_t sum;     /* the owner's of the bytes: a checksum of the segment and of its name */
	uint32_t mark;    /* the policy's; 0 when the segment is inserted */
	uint16_t bucket;
	uint16_t used; /* the core's: 0 if the number is free */
};

static_assert(sizeof(struct cache_entry) == 24, "32 bytes of DRAM for each segment, with its slot");

/* A get: a range of one block, with what its tags say. */
struct cache_request {
	uint64_t now_ms;
	uint64_t block;    /* hash of the block id, the same on all nodes and after a restart */
	uint32_t first;    /* first segment in the block */
	uint32_t segments; /* number of segments that the range touches, at least 1 */
	uint32_t position; /* place of the first segment in the scan order; CACHE_NONE: unknown */
	uint32_t job;      /* number in struct cache_jobs; CACHE_NONE: no tag or an unknown job */
	uint32_t skip;     /* bytes of the first segment before the range */
	uint16_t bucket;
	uint64_t bytes; /* length of the range */
};

/* Neighbours differ in the low bits alone, so that an index can keep them side by side. */
#define CACHE_KEY_NEIGHBOURS 8u

static inline uint64_t cache_key(uint64_t block, uint32_t segment)
{
	uint64_t group = segment / CACHE_KEY_NEIGHBOURS, low = CACHE_KEY_NEIGHBOURS - 1;
	return (mix_u64(block + 0x9e3779b97f4a7c15ULL * (group + 1)) & ~low) | (segment & low);
}

struct cache_policy;
struct control;

struct cache_policy_ops {
	/* A get arrived. Called before any other slot for it. */
	void (*request)(struct cache_policy *p, const struct cache_request *r);
	/* Segment `index` of the request is missing. True: fetch and insert it. The disks are read only when all
	 * missing segments of a request are admitted. */
	bool (*admit)(struct cache_policy *p, const struct cache_request *r, uint32_t index);
	/* The request found the segment in the region on flash, or in DRAM if that is CACHE_NONE. */
	void (*hit)(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		    uint32_t region);
	/* Returns the group of regions that the segment is to be written to, or CACHE_DROP. Region CACHE_NONE: flash
	 * admission, the segment is the coldest of DRAM; else reinsertion: that region, which holds the segment, is
	 * being freed. Regions of a group hold segments of one bucket; the engine keeps cache_params.groups_max
	 * regions open. */
	uint32_t (*place)(struct cache_policy *p, struct cache_entry *e, uint32_t region);
	/* A region of the group is full and written; only now victim() may return it. Group CACHE_NONE: it was written
	 * in an earlier run; restored() was called before for each of its segments. */
	void (*sealed)(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket);
	void (*restored)(struct cache_policy *p, const struct cache_entry *e);
	/* Returns the sealed region to free. At least one region is sealed. */
	uint32_t (*victim)(struct cache_policy *p);
	/* The region is free: after victim(), or because its device, block or bucket is gone. */
	void (*freed)(struct cache_policy *p, uint32_t region);
	/* Called at least once a second with the time, also when nothing is read. */
	void (*tick)(struct cache_policy *p, uint64_t now_ms);
	/* Returns the control plane, to be shown and changed; NULL, also as the slot: the policy has none. */
	struct control *(*control)(struct cache_policy *p);
	void (*close)(struct cache_policy *p);
};

struct cache_policy {
	const struct cache_policy_ops *ops;
	struct cache_policy
		*below; /* the policy that this one refines; closed with it. NULL: none */
};

struct cache_jobs;

/* What a policy knows about the cache that it serves. The same values must be given after a restart. */
struct cache_params {
	uint64_t segment_bytes;
	uint32_t region_segments; /* segments in a full region */
	uint32_t regions;
	uint32_t groups_max;          /* open regions */
	uint64_t dram_bytes;          /* size of the DRAM cache */
	uint64_t write_limit_bytes_s; /* endurance limit of the flash, as an average; 0: none */
	uint64_t history_bytes;       /* memory for the request history window; 0: default */
	uint64_t history_ms;          /* length of that window; 0: default (6 h) */
	uint64_t refresh_ms;          /* period of bucket priorities; 0: default (10 s) */
	double min_threshold;         /* minimum admit threshold; 0: none */
	double reinsert_offset;       /* distance of the reinsertion threshold; 0: no reinsertion */
	double share;                 /* share of all blocks that the ring gives to this node */
	uint64_t seed;                /* of random decisions */
	const struct cache_jobs *jobs; /* the registry's view; NULL: unknown */
	const uint32_t *bucket_table;  /* [bucket]: its table, for Expert; NULL: each its own */
	uint32_t bucket_tables;        /* length of bucket_table */
};

/* A policy that decides nothing in a slot passes it on with one of these. */
void cache_below_request(struct cache_policy *p, const struct cache_request *r);
bool cache_below_admit(struct cache_policy *p, const struct cache_request *r, uint32_t index);
void cache_below_hit(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		     uint32_t region);
uint32_t cache_below_place(struct cache_policy *p, struct cache_entry *e, uint32_t region);
void cache_below_sealed(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket);
void cache_below_restored(struct cache_policy *p, const struct cache_entry *e);
uint32_t cache_below_victim(struct cache_policy *p);
void cache_below_freed(struct cache_policy *p, uint32_t region);
void cache_below_tick(struct cache_policy *p, uint64_t now_ms);

/* Answers of a policy that has no opinion: ignore, admit everything, write it to the group of its bucket and reinsert
 * nothing. */
void cache_any_request(struct cache_policy *p, const struct cache_request *r);
bool cache_any_admit(struct cache_policy *p, const struct cache_request *r, uint32_t index);
void cache_any_hit(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		   uint32_t region);
uint32_t cache_any_place(struct cache_policy *p, struct cache_entry *e, uint32_t region);
void cache_any_restored(struct cache_policy *p, const struct cache_entry *e);
void cache_any_tick(struct cache_policy *p, uint64_t now_ms);

/* Closes a policy and all below it. NULL is ignored. */
void cache_policy_close(struct cache_policy *p);

#endif
