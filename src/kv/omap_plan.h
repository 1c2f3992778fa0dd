// SPDX-License-Identifier: Apache-2.0
/*
 * From a batch of transactions to one conditional write: pure functions.
 *
 * The batch is played in order on top of what is known of the partition. A check on a key that an
 * accepted transaction before it writes is decided by that write. Any other check is decided by what
 * was read, and becomes a guard of the write, for it may have changed since; or, when nothing was read,
 * it is believed to hold, and becomes a guard. So when the write goes through, every accepted
 * transaction's checks held at that instant, in order. A refusal is right as well: it follows either
 * from a write of the same instant, or from what was read during the call.
 *
 *   batch                                 nothing read                 read: a absent, b = "1"
 *   T1: a absent -> a := x                believed; guard "a absent"   accepted; guard "a absent"
 *   T2: a absent -> a := y                refused: T1 wrote a          refused: T1 wrote a
 *   T3: b = "2"  -> c := z                believed; guard "b = 2"      refused: b is "1"
 *   write                                 a := x, c := z               a := x
 *
 * With nothing read, T3's wrong belief makes the whole write fail; then one reads, and plans again.
 */
#ifndef KV_OMAP_PLAN_H
#define KV_OMAP_PLAN_H

#include "kv/omap.h"
#include "kv/queue.h"

struct omap_change;

struct omap_plan {
	struct omap_write write; /* its guards, sets and removes; more may be added by the caller */
	struct omap_guard *guards;
	struct omap_pair *sets;
	struct kv_bytes *removes;
	int *rc;        /* for each transaction: 0 or -ESTALE, or -EBADMSG */
	size_t *failed; /* with -ESTALE */
	size_t writes;  /* sets and removes that come from transactions */
	/* The rest is omap_plan.c's. */
	struct kv_rows memory;
	struct omap_change *changes; /* what accepted transactions write, by key */
	size_t change_count;
	size_t change_max;
	uint32_t *index; /* hash table of places in changes, counted from 1 */
	size_t index_mask;
};

/* How many guards, sets and removes the caller may add. */
#define OMAP_PLAN_SPARE 80

/* Whether a check is on the version, which can only be decided by reading. */
bool omap_plan_needs_read(struct kv_pending **batch, size_t n);

/* The distinct keys that checks are on, encoded, in order; in the plan's memory. -ENOMEM. */
int omap_plan_keys(struct omap_plan *p, struct kv_pending **batch, size_t n,
		   const struct kv_bytes **keys, size_t *count);

/* known: what was read of all keys above, or NULL. Starts zeroed; empties itself first. -ENOMEM. */
int omap_plan_make(struct omap_plan *p, uint64_t object, struct kv_pending **batch, size_t n,
		   const struct kv_rows *known);

void omap_plan_fini(struct omap_plan *p);

/* The row with this key in rows ordered by key, or NULL. */
const struct kv_row *omap_find(const struct kv_rows *rows, struct kv_bytes key);

#endif
