// SPDX-License-Identifier: Apache-2.0
/*
 * What the distributed engine asks of an object store, and all it knows of it: numbered objects, each
 * an ordered map from text to bytes, with reads of one instant and writes that are conditional and
 * atomic. rados.c is the real one; tests bring others that lose and delay things.
 *
 * Keys have no NUL byte and values are never empty (omap_codec.h sees to both). An object that nothing
 * was written to does not exist; it reads as empty.
 */
#ifndef KV_OMAP_H
#define KV_OMAP_H

#include "kv/kv.h"

enum omap_guard_kind { OMAP_ABSENT, OMAP_PRESENT, OMAP_EQUALS };

struct omap_guard {
	enum omap_guard_kind kind;
	struct kv_bytes key;
	struct kv_bytes value; /* of OMAP_EQUALS */
};

struct omap_pair {
	struct kv_bytes key;
	struct kv_bytes value;
};

/* When all guards hold, all sets and removes (of different keys) are done; else nothing is. */
struct omap_write {
	uint64_t object;
	bool version_guard; /* only if the object has this version; 0: only if it does not exist */
	uint64_t version;
	const struct omap_guard *guards;
	size_t guard_count;
	const struct omap_pair *sets;
	size_t set_count;
	const struct kv_bytes *removes;
	size_t remove_count;
};

/* All of one instant: the values of keys, and a page of those that begin with a prefix. */
struct omap_read {
	uint64_t object;
	const struct kv_bytes *keys;
	size_t key_count;
	struct kv_bytes prefix; /* empty: no page is wanted */
	struct kv_bytes after;
	size_t rows_max;
	/* Filled, ordered by key; start zeroed, and are the caller's to free: */
	struct kv_rows
		found; /* those of keys that are there, once each; has the version, 0: no object */
	struct kv_rows page; /* with more */
};

struct omap;

/* Each waits and runs to its end, in bounded time. */
struct omap_ops {
	/*
	 * 0 done; -ESTALE a guard did not hold, nothing was done; -ETIMEDOUT no answer: done, or may
	 * still be, or not; others: not done and will not be.
	 */
	int (*write)(struct omap *o, const struct omap_write *w);
	int (*read)(struct omap *o, struct omap_read *r);
	void (*close)(struct omap *o);
};

struct omap {
	const struct omap_ops *ops;
	const char *name;
};

void omap_read_fini(struct omap_read *r);

/* --- the engine on it: omap_kv.c --------------------------------------------------------------- */

struct kv_omap_options {
	unsigned batch_txns_max; /* transactions per write; 0: many */
	uint64_t settle_ns;      /* how long to find out about a write without an answer; 0: 30 s */
	size_t parts_max;        /* partitions whose state is kept in memory; 0: 65536 */
};

/* Takes the object store, also when it fails: -ENOMEM. */
int kv_omap_open_take(struct kv **out, struct omap *o, const struct kv_omap_options *options);

#endif
