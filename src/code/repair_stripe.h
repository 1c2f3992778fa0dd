// SPDX-License-Identifier: Apache-2.0
/*
 * Plans the repair of one network stripe; private to the repair planner.
 *
 * The stripe is a grid of columns and rows. stripe_plan_find_losses() finds which chunks are lost and
 * where each would be rebuilt; stripe_plan_find_moves() turns that into moves, each of which decodes a
 * row or a column. Both depend only on layout, failed disks, policy and past, so a later plan can
 * repeat them to find out what an earlier plan did with a stripe.
 */
#ifndef CODE_REPAIR_STRIPE_H
#define CODE_REPAIR_STRIPE_H

#include <assert.h>

#include "code/repair.h"

struct bits {
	uint64_t w[4];
};

static inline bool bits_has(const struct bits *b, uint32_t i)
{
	assert(i < 256);
	return b->w[i / 64] >> i % 64 & 1;
}

static inline void bits_set(struct bits *b, uint32_t i)
{
	assert(i < 256);
	b->w[i / 64] |= UINT64_C(1) << i % 64;
}

static inline void bits_clear(struct bits *b, uint32_t i)
{
	assert(i < 256);
	b->w[i / 64] &= ~(UINT64_C(1) << i % 64);
}

struct stripe_column {
	struct layout_column at;
	/* failed disks of the pool of the column; NULL when no disk failed */
	const struct failure_pool *pool;
	uint32_t hits;      /* number of chunks of the column on failed disks */
	uint32_t lost_n;    /* number of rows in `lost` */
	struct bits lost;   /* rows to rebuild */
	struct bits moved;  /* rows that an earlier plan rebuilt, on `disk` */
	struct bits copied; /* rows on their own disk that R_ALL also rewrote, on `disk` */
};

/* One step, before its reads are chosen. `out` is the set of rebuilt columns of a row, or rows of a
 * column. */
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
	struct stripe_plan *before; /* plan of the same stripe in the past of this plan, or NULL */
	struct perm spare_perm, rack_perm;

	/* Filled by stripe_plan_find_losses(). */
	uint64_t stripe;
	uint32_t lost_columns;
	uint32_t most_lost; /* largest number of lost chunks of a column that is not lost */
	struct stripe_column *columns;
	uint32_t *disk; /* [column * rows + row]: disk of each lost, moved and copied chunk */

	/* Filled by stripe_plan_find_moves(). */
	struct stripe_move *moves;
	uint32_t moves_n;
};

int stripe_plan_open(struct stripe_plan **sp, const struct failure *failure,
		     const struct repair_policy *policy, const struct repair_past *past);
void stripe_plan_close(struct stripe_plan *sp);

/* Finds the lost chunks of a stripe and chooses where each would be rebuilt. */
void stripe_plan_find_losses(struct stripe_plan *sp, uint64_t stripe);

/* Plans the moves of the stripe that stripe_plan_find_losses() was called for. */
void stripe_plan_find_moves(struct stripe_plan *sp);

/*
 * Returns the number of passes: the passes by lost columns, then the passes by failed chunks of
 * local stripes.
 */
uint32_t stripe_plan_passes(const struct stripe_plan *sp);

/*
 * Returns whether a pass scans this pool. *min_hits is the least number of failed chunks of a local
 * stripe that the pass handles.
 */
bool stripe_plan_scans(const struct stripe_plan *sp, uint32_t pass, const struct failure_pool *pool,
		       uint32_t *min_hits);

/*
 * Returns the position in the plan at which this pass handles the current stripe: at its
 * affected column in the pool of the lowest index. pool is UINT32_MAX when the pass does not
 * handle the stripe.
 */
struct repair_cursor stripe_plan_position(const struct stripe_plan *sp, uint32_t pass);

#endif
