// SPDX-License-Identifier: Apache-2.0
/*
 * The interface between the distributed engine and an object store: numbered objects, each an ordered map
 * from text to bytes, with reads at one instant and conditional, atomic writes. rados.c implements it on
 * RADOS; tests implement stores that lose and delay requests.
 *
 * Keys have no NUL byte and values are never empty (omap_codec.h ensures both). An object exists from its
 * first write on; before, it reads as empty.
 */
#ifndef KV_OMAP_H
#define KV_OMAP_H

#include "kv/kv.h"

enum omap_guard_kind { OMAP_ABSENT, OMAP_PRESENT, OMAP_EQUALS };

struct omap_guard {
	enum omap_guard_kind kind;
	struct kv_bytes key;
	struct kv_bytes value; /* for OMAP_EQUALS */
};

struct omap_pair {
	struct kv_bytes key;
	struct kv_bytes value;
};

/* A conditional write: if all guards hold, all sets and removes are done, else none. Each key occurs once. */
struct omap_write {
	uint64_t object;
	bool version_guard; /* one more guard: the object has this version */
	uint64_t version;   /* 0: the object does not exist */
	const struct omap_guard *guards;
	size_t guard_count;
	const struct omap_pair *sets;
	size_t set_count;
	const struct kv_bytes *removes;
	size_t remove_count;
};

/* A read at one instant: the values of some keys, and a page of the keys that begin with a prefix. */
struct omap_read {
	uint64_t object;
	const struct kv_bytes *keys;
	size_t key_count;
	struct kv_bytes prefix; /* empty: read no page */
	struct kv_bytes after;  /* the page's keys are greater */
	size_t rows_max;
	/* Results, ordered by key; zeroed before, and freed by omap_read_fini: */
	struct kv_rows found; /* one row for each key that exists; version 0: the object does not */
	struct kv_rows page;
};

struct omap;

/* Each call waits and runs to its end, in bounded time. */
struct omap_ops {
	/*
	 * 0: done. -ESTALE: a guard failed, nothing was done. -ETIMEDOUT: no answer; the write was done, will
	 * be done later, or never will be. Others: not done, and never will be.
	 */
	int (*write)(struct omap *o, const struct omap_write *w);
	int (*read)(struct omap *o, struct omap_read *r);
	void (*close)(struct omap *o);
};

struct omap {
	const struct omap_ops *ops;
	const char *name;
};

/* Frees the results. */
void omap_read_fini(struct omap_read *r);

/* --- the engine on it: omap_kv.c --------------------------------------------------------------- */

struct kv_omap_options {
	unsigned batch_txns_max; /* transactions per write; 0: KV_BATCH_TXNS_MAX */
	uint64_t settle_ns;      /* time limit to settle a write without an answer; 0: 30 s */
	size_t parts_max;        /* partitions with state in memory; 0: 65536 */
};

/* Opens the engine on an object store, and takes the store, also on failure. -ENOMEM. */
int kv_omap_open_take(struct kv **out, struct omap *o, const struct kv_omap_options *options);

#endif
