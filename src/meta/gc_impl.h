// SPDX-License-Identifier: Apache-2.0
/* Types and functions that the collectors of all layers use. */
#ifndef META_GC_IMPL_H
#define META_GC_IMPL_H

#include <assert.h>

#include "base/arena.h"
#include "meta/gc.h"
#include "meta/impl.h"

/* State of one step of a collector. */
struct gc {
	struct meta *m;
	uint64_t partition;
	/* epoch that decides which grace periods are over: the caller's epoch, or `now` if that is lower */
	uint64_t epoch;
	uint64_t now; /* epoch that new marks get: read from the store after the page of rows */
	uint64_t restored; /* epoch in which the store was restored from a backup; 0: never */
	struct meta_gc_counts *counts;
	struct arena *a;      /* memory for the current row */
	struct arena scratch; /* emptied after each row */
};

/* Callback that handles one stored row. META_STOP ends the walk before this row. */
typedef int (*gc_row_fn)(struct gc *g, const struct kv_row *row);

/* The letters of the kinds of keys that a walk reads, one kind after the other, as a string. */
#define GC_KINDS(...) ((const char[]){__VA_ARGS__, 0})

/* Calls fn for a page of the rows of these kinds, one kind after the other, and moves the cursor to the last row. */
int gc_page(struct gc *g, const char *key_kinds, struct meta_gc_cursor *at, gc_row_fn fn);

/* Returns whether rc means that the row is unreadable, and logs this. The caller then skips the row, so that the
 * rows after it are still collected. */
bool gc_unreadable(uint64_t partition, const struct kv_row *row, int rc);

/* Returns whether the grace period of an object with this mark is over. */
static inline bool gc_grace_over(const struct gc *g, uint64_t mark)
{
	assert(g->epoch <= g->now);
	return mark != 0 && g->epoch >= max_u64(mark, g->restored) + 2;
}

/* Returns a copy of a stored key. */
struct schema_key gc_key(struct kv_bytes key);

/* gc_mark replaces a row by msg, and gc_delete deletes it, unless the row has changed since it was read. Both add
 * the row to the counts of the step, and return 0 also if the row has changed. */
int gc_mark(struct gc *g, const struct kv_row *row, const ProtobufCMessage *msg);
int gc_delete(struct gc *g, const struct kv_row *row);

/* Returns whether the row is still in its grace period. If the row has no mark yet, writes msg with a mark, and
 * sets *rc to the result. `mark` points to the field of msg for the mark. */
bool gc_in_grace(struct gc *g, const struct kv_row *row, uint64_t *mark,
		 const ProtobufCMessage *msg, int *rc);

int gc_names_row(struct gc *g, const struct kv_row *row);
/* Called once for a file that lost its name, and for a block of which an owner leaves: gc_leave.c. */
int gc_file_leaves(struct gc *g, uint32_t tenant, uint64_t file);
int gc_block_leaves(struct gc *g, uint32_t tenant, uint64_t block);
int gc_dirs_row(struct gc *g, const struct kv_row *row);
int gc_transfers_row(struct gc *g, const struct kv_row *row);
int gc_files_row(struct gc *g, const struct kv_row *row);
int gc_orphans_row(struct gc *g, const struct kv_row *row);
int gc_blocks_row(struct gc *g, const struct kv_row *row);
int gc_owners_row(struct gc *g, const struct kv_row *row);
int gc_accounts_row(struct gc *g, const struct kv_row *row);

/* A place in a directory: the last name of a slice that was read. */
struct gc_place {
	uint32_t slice;
	struct schema_key after;
};

/* A search of all names of a directory for a name that leads to an id. */
struct gc_search {
	uint64_t id;
	/* Results: */
	bool found;
	/* the id may be between two names: a tombstone or a transfer has the id, or the search was given up */
	bool pending;
	size_t name_len;
	char name[META_NAME_MAX];
	/* Of a search in parts: */
	uint64_t until_ns; /* time at which the part ends; 0: no limit */
	bool stopped;      /* its time was up at the place `at` */
	bool skips;        /* an earlier part has read all names before the place `at` */
	struct gc_place at;
};
/* Time limit of a part of a collector's search. Without a limit, a request on a huge directory would exceed the client's
 * timeout at each retry. */
#define GC_SEARCH_NS (3 * META_GC_STEP_NS)
/* Searches without a limit. */
int gc_search(struct meta *m, uint32_t tenant, uint64_t dir, struct gc_search *s);
/* Searches for GC_SEARCH_NS, beginning where the last part of the same search stopped. META_STOP: its time was up, and the
 * step must end before the object's row. */
int gc_search_part(struct gc *g, uint32_t tenant, uint64_t dir, struct gc_search *s);
/* Frees the searches that the store remembers. */
void gc_searches_free(struct meta *m);

#endif
