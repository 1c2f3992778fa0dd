// SPDX-License-Identifier: Apache-2.0
/* Shared by the collectors of the layers. */
#ifndef META_GC_IMPL_H
#define META_GC_IMPL_H

#include <assert.h>

#include "base/arena.h"
#include "meta/gc.h"
#include "meta/impl.h"

/* One step of a collector. */
struct gc {
	struct meta *m;
	uint64_t partition;
	uint64_t
		epoch; /* decides which grace periods are over: the caller's epoch, or `now` if that is lower */
	uint64_t now; /* epoch of new marks: read from the store after the page of rows */
	struct meta_gc_counts *counts;
	struct arena *a;      /* memory for the current row */
	struct arena scratch; /* emptied after each row */
};

/* Handles one stored row. META_STOP ends the walk before this row. */
typedef int (*gc_row_fn)(struct gc *g, const struct kv_row *row);

/* The kinds of keys that a walk reads, one after the other, as a string. */
#define GC_KINDS(...) ((const char[]){__VA_ARGS__, 0})

/* Calls fn for a page of the rows of these kinds, one kind after the other, and moves the cursor. */
int gc_page(struct gc *g, const char *key_kinds, struct meta_gc_cursor *at, gc_row_fn fn);

/* Returns whether rc means that the row is unreadable, and logs it. The caller skips the row, so that the rows after it
 * are collected. */
bool gc_unreadable(uint64_t partition, const struct kv_row *row, int rc);

/* Returns whether the grace period of an object with this mark is over. */
static inline bool gc_grace_over(const struct gc *g, uint64_t mark)
{
	assert(g->epoch <= g->now);
	return mark != 0 && g->epoch >= mark + 2;
}

/* Returns a copy of a stored key. */
struct schema_key gc_key(struct kv_bytes key);

/* Replaces a row by msg, or deletes it, unless it has changed since it was read. Both count the row, and return 0 also
 * if the row has changed. */
int gc_mark(struct gc *g, const struct kv_row *row, const ProtobufCMessage *msg);
int gc_delete(struct gc *g, const struct kv_row *row);

/* Returns whether the grace period of a row is not over. If the row has no mark yet, writes msg with a mark, and sets
 * *rc to the result. `mark` points to the mark in msg. */
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

/* A search of all names of a directory for one that leads to an id. */
struct gc_search {
	uint64_t id;
	uint64_t until_ns; /* time at which the search ends with `pending`; 0: no limit */
	/* Results: */
	bool found;
	bool pending; /* the id may be between two names: a tombstone or a transfer has it, or time was up */
	size_t name_len;
	char name[META_NAME_MAX];
};
/* Time limit of a collector's search. Without it, a request on a huge directory would time out at the client at each
 * retry. An orphan in a directory that takes longer is not collected. */
#define GC_SEARCH_NS (3 * META_GC_STEP_NS)
int gc_search(struct meta *m, uint32_t tenant, uint64_t dir, struct gc_search *s);

#endif
