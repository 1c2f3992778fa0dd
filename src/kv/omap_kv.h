// SPDX-License-Identifier: Apache-2.0
/* Private to the engine on an object store: shared by omap_kv.c (partitions, reads) and omap_txn.c. */
#ifndef KV_OMAP_KV_H
#define KV_OMAP_KV_H

#include "base/list.h"
#include "base/map.h"
#include "kv/omap.h"
#include "kv/omap_codec.h"
#include "kv/queue.h"

struct omap_kv;

/* State of a partition with transactions, in memory while a call uses it, and then until evicted. */
struct omap_part {
	struct omap_kv *kv;
	uint64_t number;
	struct kv_queue queue;
	struct list lru; /* in omap_kv.lru */
	unsigned users;  /* calls that use the partition */
	/* The object's record of this server: */
	bool known;   /* present and record are up to date */
	bool present; /* the record exists */
	uint8_t record[OMAP_RECORD_BYTES];
	bool look_first; /* the next batch reads the partition before it is planned */
};

struct omap_kv {
	struct kv base;
	struct omap *omap;
	struct map parts; /* partition number to struct omap_part */
	struct list lru;  /* the same partitions, least recently used first */
	size_t parts_max;
	bool forgot; /* a partition was evicted: the object of a new one may have a record of this server */
	unsigned batch_txns_max;
	uint64_t settle_ns;
	char record_key[OMAP_RECORD_KEY_LEN];
	uint64_t sequence; /* of the last write of this server */
};

static inline struct omap_kv *omap_kv_of(struct kv *kv)
{
	return container_of(kv, struct omap_kv, base);
}

/* omap_txn.c: commits a batch of one partition; ctx is its struct omap_part. */
kv_commit_fn omap_commit;

#endif
