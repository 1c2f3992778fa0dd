// SPDX-License-Identifier: Apache-2.0
/* What the collectors of the layers share. */
#ifndef META_GC_IMPL_H
#define META_GC_IMPL_H

#include "base/arena.h"
#include "meta/gc.h"
#include "meta/impl.h"

struct gc {
	struct meta *m;
	uint64_t partition;
	uint64_t epoch; /* the caller's, or the present one when that is less: what is ripe */
	uint64_t now;   /* the epoch after the page was read: what marks are made with */
	struct meta_gc_counts *counts;
	struct arena *a; /* emptied after each row: */
	struct arena scratch;
};

/* One stored row. */
typedef int (*gc_row_fn)(struct gc *g, const struct kv_row *row);

/* The kinds of keys that a walk reads, one after the other, as a string. */
#define GC_KINDS(...) ((const char[]){__VA_ARGS__, 0})

/* A page of the keys of these kinds, one kind after the other. */
int gc_page(struct gc *g, const char *key_kinds, struct meta_gc_cursor *at, gc_row_fn fn);

/* Whether rc says that the row does not read, which is logged: it must not keep all behind it from being seen
 * to. */
bool gc_unreadable(uint64_t partition, const struct kv_row *row, int rc);

/* Whether what was marked in this epoch has had its grace. */
static inline bool gc_grace_over(const struct gc *g, uint64_t mark)
{
	return mark != 0 && g->epoch >= mark + 2;
}

struct schema_key gc_key(struct kv_bytes key);

/* Replaces (or, with NULL, deletes) a row that is still as it was read. Counts it. */
int gc_mark(struct gc *g, const struct kv_row *row, const ProtobufCMessage *msg);
int gc_delete(struct gc *g, const struct kv_row *row);

/* True: the row is not ripe, and that is all for now. It is marked when it had no mark; *rc says how that
 * went. `mark` is that of msg. */
bool gc_in_grace(struct gc *g, const struct kv_row *row, uint64_t *mark,
		 const ProtobufCMessage *msg, int *rc);

int gc_names_row(struct gc *g, const struct kv_row *row);
int gc_dirs_row(struct gc *g, const struct kv_row *row);
int gc_transfers_row(struct gc *g, const struct kv_row *row);
int gc_files_row(struct gc *g, const struct kv_row *row);
int gc_orphans_row(struct gc *g, const struct kv_row *row);
int gc_blocks_row(struct gc *g, const struct kv_row *row);
int gc_owners_row(struct gc *g, const struct kv_row *row);
int gc_accounts_row(struct gc *g, const struct kv_row *row);

/* Whether a name of the directory leads to the id: reads all of it. pending: there is a Gone of the
 * id, so that it may be on its way from one name to another. */
struct gc_search {
	uint64_t id;
	uint64_t until_ns; /* 0, or when it is given up, as pending */
	bool found;
	bool pending;
	size_t name_len;
	char name[META_NAME_MAX];
};
/* What a collector gives one search: a client must not wait for it in vain, again and again. An orphan of a
 * directory that takes longer stays. */
#define GC_SEARCH_NS (3 * META_GC_STEP_NS)
int gc_search(struct meta *m, uint32_t tenant, uint64_t dir, struct gc_search *s);

#endif
