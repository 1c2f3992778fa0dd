// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of the engine on an object store, shared by omap_kv.c (partitions, reads) and
 * omap_txn.c.
 */
#ifndef KV_OMAP_KV_H
#define KV_OMAP_KV_H

#include "base/list.h"
#include "base/map.h"
#include "kv/omap.h"
#include "kv/omap_codec.h"
#include "kv/queue.h"

struct omap_kv;

/* State of a partition in memory: kept while a call uses it, and afterwards until it is evicted. */
struct omap_part {
	struct omap_kv *kv;
	uint64_t number;
	struct kv_queue queue;
	struct list lru; /* link in omap_kv.lru */
	unsigned users;  /* number of calls that use the partition */
	/* What this server knows about its own record in the partition's object: */
	bool known;   /* true: present and record are up to date */
	bool present; /* true: the object has a record of this server */
	uint8_t record[OMAP_RECORD_BYTES];
	bool look_first; /* true: the next batch reads the partition before the batch is planned */
};

struct omap_kv {
	struct kv base;
	struct omap *omap;
	struct map parts; /* struct omap_part by partition number */
	struct list lru;  /* the entries of `parts`, least recently used first */
	size_t parts_max;
	/*
	 * a partition was evicted: if it is used again, its object may have a record of this server
	 */
	bool forgot;
	unsigned batch_txns_max;
	uint64_t settle_ns;
	char record_key[OMAP_RECORD_KEY_LEN];
	uint64_t sequence; /* sequence number of the last write of this server */
};

static inline struct omap_kv *omap_kv_of(struct kv *kv)
{
	return container_of(kv, struct omap_kv, base);
}

/*
 * Commits a batch of transactions of one partition (in omap_txn.c); ctx is the partition's struct
 * omap_part.
 */
kv_commit_fn omap_commit;

#endif
