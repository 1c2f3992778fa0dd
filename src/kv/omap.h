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

/*
 * A conditional write of an object: if all guards hold, all sets and removes are done, else none of them.
 * A key occurs at most once.
 */
struct omap_write {
	uint64_t object;
	bool version_guard; /* true: a further guard, which holds if the object has this version */
	uint64_t version;   /* version for version_guard; 0: the object does not exist */
	const struct omap_guard *guards;
	size_t guard_count;
	const struct omap_pair *sets;
	size_t set_count;
	const struct kv_bytes *removes;
	size_t remove_count;
};

/*
 * A read of one object at one instant: the values of some keys, and a page of the keys that begin
 * with a prefix.
 */
struct omap_read {
	uint64_t object;
	const struct kv_bytes *keys;
	size_t key_count;
	struct kv_bytes prefix; /* the page's keys begin with these bytes; empty: read no page */
	struct kv_bytes after;  /* the page's keys are greater than this key */
	size_t rows_max;
	/*
	 * Results, ordered by key. The caller zeroes them before the read and frees them with
	 * omap_read_fini.
	 */
	/* one row for each requested key that exists; version 0: the object does not exist */
	struct kv_rows found;
	struct kv_rows page;
};

struct omap;

/* The calls of an object store. Each call waits, and runs to its end in bounded time. */
struct omap_ops {
	/*
	 * Writes to an object. Returns 0 if the write was done; -ESTALE if a guard failed and nothing was
	 * written; -ETIMEDOUT if no answer arrived: the write was done, will be done later, or never will be.
	 * After any other error the write was not done and never will be.
	 */
	int (*write)(struct omap *o, const struct omap_write *w);
	int (*read)(struct omap *o, struct omap_read *r);
	void (*close)(struct omap *o);
};

struct omap {
	const struct omap_ops *ops;
	const char *name;
};

/* Frees the results of a read. */
void omap_read_fini(struct omap_read *r);

/* --- the engine on it: omap_kv.c --------------------------------------------------------------- */

struct kv_omap_options {
	/* largest number of transactions per write; 0: KV_BATCH_TXNS_MAX */
	unsigned batch_txns_max;
	/*
	 * ns in which the engine tries to find out whether a write without an answer was done; 0:
	 * 30 s
	 */
	uint64_t settle_ns;
	size_t parts_max; /* largest number of partitions with state in memory; 0: 65536 */
};

/*
 * Opens the key-value engine on an object store. The engine owns the object store, which is closed
 * if opening fails. -ENOMEM.
 */
int kv_omap_open_take(struct kv **out, struct omap *o, const struct kv_omap_options *options);

#endif
