// SPDX-License-Identifier: Apache-2.0
/* Inside the engine on an object store: what omap_kv.c (partitions, reads) and omap_txn.c share. */
#ifndef KV_OMAP_KV_H
#define KV_OMAP_KV_H

#include "base/list.h"
#include "base/map.h"
#include "kv/omap.h"
#include "kv/omap_codec.h"
#include "kv/queue.h"

struct omap_kv;

/* A partition that transactions were sent to, kept while it is used or room lasts. */
struct omap_part {
	struct omap_kv *kv;
	uint64_t number;
	struct kv_queue queue;
	struct list lru;
	unsigned users; /* calls that hold it */
	/* Our record in the object as it was last seen; known says whether it is still so. */
	bool known;
	bool present;
	uint8_t record[OMAP_RECORD_BYTES];
	bool look_first; /* the last batch was refused: reading first is cheaper */
};

struct omap_kv {
	struct kv base;
	struct omap *omap;
	struct map parts;
	struct list lru; /* the least recently used first */
	size_t parts_max;
	bool forgot; /* a partition was dropped: one that is not there may have our record */
	unsigned batch_txns_max;
	uint64_t settle_ns;
	char record_key[OMAP_RECORD_KEY_LEN];
	uint64_t sequence; /* of the last write */
};

static inline struct omap_kv *omap_kv_of(struct kv *kv)
{
	return container_of(kv, struct omap_kv, base);
}

/* omap_txn.c: commits of one partition; ctx is the struct omap_part. */
kv_commit_fn omap_commit;

#endif
