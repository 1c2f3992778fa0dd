// SPDX-License-Identifier: Apache-2.0
/*
 * Turns a batch of transactions into one conditional write: pure functions.
 *
 * The plan evaluates the batch in order. An earlier accepted transaction that writes the key of a check
 * decides the check. Any other check is evaluated against the rows that were read, and becomes a guard of
 * the write, because the row may have changed since. If nothing was read, the plan assumes that the check
 * holds, and makes it a guard. So if the write succeeds, the checks of every accepted transaction held at
 * that instant, in order. A refusal is correct too: it follows from a write of the same instant, or from
 * rows that were read during the call.
 *
 *   batch                                 nothing read                 read: a absent, b = "1"
 *   T1: a absent -> a := x                assumed; guard "a absent"    accepted; guard "a absent"
 *   T2: a absent -> a := y                refused: T1 wrote a          refused: T1 wrote a
 *   T3: b = "2"  -> c := z                assumed; guard "b = 2"       refused: b is "1"
 *   write                                 a := x, c := z               a := x
 *
 * If nothing was read, T3's wrong assumption makes the write fail; the caller then reads and plans again.
 */
#ifndef KV_OMAP_PLAN_H
#define KV_OMAP_PLAN_H

#include "kv/omap.h"
#include "kv/queue.h"

struct omap_change;

struct omap_plan {
	/* the write; it points to guards, sets and removes, to which the caller may add */
	struct omap_write write;
	struct omap_guard *guards;
	struct omap_pair *sets;
	struct kv_bytes *removes;
	int *rc;        /* result of each transaction: 0, -ESTALE or -EBADMSG */
	size_t *failed; /* index of the check that failed, for each transaction that got -ESTALE */
	size_t writes;  /* number of sets and removes of accepted transactions */
	/* Fields that only omap_plan.c uses. */
	struct kv_rows memory; /* owns encoded keys and values */
	/* array of the writes of accepted transactions, one for each key */
	struct omap_change *changes;
	size_t change_count;
	size_t change_max;
	uint32_t *index; /* hash table: key to its position in changes + 1; 0: free slot */
	size_t index_mask;
};

/* Number of guards, sets, removes and keys that the caller may add to those of the plan. */
#define OMAP_PLAN_SPARE 80

/*
 * Returns whether a batch has a check of the partition's version: such a check needs a read before
 * the plan.
 */
bool omap_plan_needs_read(struct kv_pending **batch, size_t n);

/*
 * Sets *keys to the distinct keys of the batch's checks, encoded and in order. The plan owns the keys; the
 * caller may append up to OMAP_PLAN_SPARE keys. -ENOMEM.
 */
int omap_plan_keys(struct omap_plan *p, struct kv_pending **batch, size_t n,
		   const struct kv_bytes **keys, size_t *count);

/*
 * Plans the write of a batch. `known` holds the rows that were read of all keys of omap_plan_keys, or is
 * NULL if none were read. The caller zeroes the plan before its first use; a new plan discards the old one.
 * -ENOMEM.
 */
int omap_plan_make(struct omap_plan *p, uint64_t object, struct kv_pending **batch, size_t n,
		   const struct kv_rows *known);

/* Frees the plan's memory. */
void omap_plan_fini(struct omap_plan *p);

/* Returns the row with this key, or NULL if there is none. The rows must be ordered by key. */
const struct kv_row *omap_find(const struct kv_rows *rows, struct kv_bytes key);

#endif
