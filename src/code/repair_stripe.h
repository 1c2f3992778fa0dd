// SPDX-License-Identifier: Apache-2.0
/*
 * Planning of one network stripe; internal to the repair planner.
 *
 * The stripe is a grid of columns and rows. repair_stripe_look() finds which chunks are lost and
 * where each would be rebuilt; repair_stripe_plan() turns that into moves: decode this row, decode
 * this column. Both depend on nothing but layout, failed disks, policy and past, so any stripe can
 * be planned again later to see what a plan did with it.
 */
#ifndef CODE_REPAIR_STRIPE_H
#define CODE_REPAIR_STRIPE_H

#include "code/repair.h"

struct bits {
	uint64_t w[4];
};

static inline bool bits_has(const struct bits *b, uint32_t i)
{
	return b->w[i / 64] >> i % 64 & 1;
}

static inline void bits_set(struct bits *b, uint32_t i)
{
	b->w[i / 64] |= UINT64_C(1) << i % 64;
}

static inline void bits_clear(struct bits *b, uint32_t i)
{
	b->w[i / 64] &= ~(UINT64_C(1) << i % 64);
}

struct stripe_column {
	struct layout_column at;
	const struct failure_pool *pool; /* NULL: no failed disk there */
	uint32_t hits;                   /* chunks on failed disks */
	uint32_t lost_n;
	struct bits lost;   /* rows to be rebuilt */
	struct bits moved;  /* rows that an earlier plan rebuilt: not lost, but at `where` */
	struct bits copied; /* rows at home of which R_ALL made another copy, at `where` */
};

/* One step, before its reads are chosen. `out` are columns for a row, rows for a column. */
struct stripe_move {
	enum repair_kind kind;
	uint32_t pass;
	uint32_t line;
	uint32_t out_n;
	struct bits out;
};

struct stripe_plan {
	const struct layout *layout;
	const struct failure *failure;
	struct repair_policy policy;
	const struct repair_past *past;
	struct stripe_plan *before; /* the plan of the past, or NULL */
	struct perm spare_perm, rack_perm;

	/* Filled by repair_stripe_look(). */
	uint64_t stripe;
	uint32_t lost_columns;
	uint32_t worst; /* most lost chunks of a column that is not lost */
	struct stripe_column *columns;
	uint32_t *where; /* [column * rows + row]: disk for lost, moved and copied chunks */

	/* Filled by repair_stripe_plan(). */
	struct stripe_move *moves;
	uint32_t moves_n;
};

int stripe_plan_open(struct stripe_plan **sp, const struct failure *failure,
		     const struct repair_policy *policy, const struct repair_past *past);
void stripe_plan_close(struct stripe_plan *sp);

void stripe_plan_look(struct stripe_plan *sp, uint64_t stripe);
void stripe_plan_moves(struct stripe_plan *sp);

/* Passes: lost columns first, then chunks of local stripes. */
uint32_t stripe_plan_passes(const struct stripe_plan *sp);

/* Whether a pass looks at this pool at all, and how many failed chunks make a stripe of interest.
 */
bool stripe_plan_scans(const struct stripe_plan *sp, uint32_t pass, const struct failure_pool *pool,
		       uint32_t *min_hits);

/* The position in the plan at which this pass meets the stripe that was looked at. */
struct repair_cursor stripe_plan_position(const struct stripe_plan *sp, uint32_t pass);

#endif
