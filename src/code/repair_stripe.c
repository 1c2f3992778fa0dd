// SPDX-License-Identifier: Apache-2.0
/*
 * How a stripe is planned.
 *
 *            column 0   1   2   3        x lost chunk     pn = 1, pl = 1
 *   row 0         .   x   .   .          column 1 has three lost chunks: a lost local stripe
 *   row 1         .   x   .   .          column 3 has one: locally recoverable
 *   row 2         .   x   .   x
 *   row 3         .   .   .   .
 *
 * R_HYB decodes the rows 0 and 1. Row 2 misses two chunks, more than pn, so column 3 is decoded
 * first, then row 2. R_MIN decodes rows 0 and 1, which makes column 1 recoverable: in a later pass
 * it decodes columns 1 and 3.
 *
 * The same loop serves all methods. The method repairs the `target` columns over the network,
 * except for `keep` lost chunks of each, which its pool repairs:
 *
 *            target                     keep
 *   R_ALL    in a catastrophic pool     0 (pl when parity is encoded inside)
 *   R_FCO    in a catastrophic pool     0
 *   R_HYB    lost                       0
 *   R_MIN    lost                       pl
 *
 * While a target has more than `keep` lost chunks: decode the decodable row that serves most
 * targets; if no row is decodable, decode a recoverable column, after which a row may be; if no
 * column is recoverable, the stripe is lost.
 */
#include "code/repair_stripe.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"

static uint32_t local_tolerance(const struct stripe_plan *sp)
{
	return (uint32_t)sp->layout->spec.local.p;
}

static uint32_t net_tolerance(const struct stripe_plan *sp)
{
	return (uint32_t)sp->layout->spec.net.p;
}

/*
 * Returns the number of network passes. Pass 0 is for stripes with the most lost columns that
 * can occur, the last pass for stripes with 1 lost column.
 */
static uint32_t net_passes(const struct stripe_plan *sp)
{
	return (uint32_t)min_u64(sp->failure->catastrophic_n, sp->layout->columns);
}

uint32_t stripe_plan_passes(const struct stripe_plan *sp)
{
	return net_passes(sp) + local_tolerance(sp);
}

static uint32_t pass_of_columns(const struct stripe_plan *sp, uint32_t lost_columns)
{
	assert(lost_columns >= 1 && lost_columns <= net_passes(sp));
	return net_passes(sp) - lost_columns;
}

static uint32_t pass_of_chunks(const struct stripe_plan *sp, uint32_t lost_chunks)
{
	assert(lost_chunks >= 1 && lost_chunks <= local_tolerance(sp));
	return net_passes(sp) + local_tolerance(sp) - lost_chunks;
}

bool stripe_plan_scans(const struct stripe_plan *sp, uint32_t pass, const struct failure_pool *pool,
		       uint32_t *min_hits)
{
	assert(pass < stripe_plan_passes(sp));
	bool whole = sp->policy.method == REPAIR_ALL && pool->catastrophic;
	if (pass < net_passes(sp)) {
		*min_hits = whole ? 0 : local_tolerance(sp) + 1;
		return pool->catastrophic;
	}
	*min_hits = whole ? 0 : stripe_plan_passes(sp) - pass;
	return !whole || sp->policy.parity_inside;
}

struct repair_cursor stripe_plan_position(const struct stripe_plan *sp, uint32_t pass)
{
	struct repair_cursor best = {.pass = pass, .pool = UINT32_MAX};
	for (uint32_t c = 0; c < sp->layout->columns; c++) {
		const struct stripe_column *col = &sp->columns[c];
		uint32_t min_hits;
		if (col->pool == NULL || !stripe_plan_scans(sp, pass, col->pool, &min_hits) ||
		    col->hits < min_hits)
			continue;
		uint32_t index = (uint32_t)(col->pool - sp->failure->pools);
		if (index < best.pool) {
			best.pool = index;
			best.local_stripe = col->at.local_stripe;
		}
	}
	return best;
}

static bool cursor_before(const struct repair_cursor *a, const struct repair_cursor *b)
{
	if (a->pass != b->pass)
		return a->pass < b->pass;
	if (a->pool != b->pool)
		return a->pool < b->pool;
	if (a->local_stripe != b->local_stripe)
		return a->local_stripe < b->local_stripe;
	return a->step < b->step;
}

int stripe_plan_open(struct stripe_plan **out, const struct failure *failure,
		     const struct repair_policy *policy, const struct repair_past *past)
{
	const struct layout *l = failure->layout;
	struct stripe_plan *sp = calloc(1, sizeof(*sp));
	if (sp == NULL)
		return -ENOMEM;
	sp->layout = l;
	sp->failure = failure;
	sp->policy = *policy;
	if (l->spec.net.p == 0) /* no network parity: all methods repair inside the pools only */
		sp->policy.method = REPAIR_HYB;
	sp->past = past;
	perm_init(&sp->spare_perm, l->pool_disks);
	perm_init(&sp->rack_perm, l->spec.racks);
	sp->columns = calloc(l->columns, sizeof(*sp->columns));
	sp->disk = calloc((size_t)l->columns * l->rows, sizeof(*sp->disk));
	/* Every row and column is decoded once at most, and one more move reports a lost stripe. */
	sp->moves = calloc((size_t)l->columns + l->rows + 1, sizeof(*sp->moves));
	int rc = sp->columns == NULL || sp->disk == NULL || sp->moves == NULL ? -ENOMEM : 0;
	if (rc == 0 && past != NULL)
		rc = stripe_plan_open(&sp->before, past->failure, &past->policy, past->past);
	if (rc != 0) {
		stripe_plan_close(sp);
		return rc;
	}
	*out = sp;
	return 0;
}

void stripe_plan_close(struct stripe_plan *sp)
{
	if (sp == NULL)
		return;
	stripe_plan_close(sp->before);
	free(sp->columns);
	free(sp->disk);
	free(sp->moves);
	free(sp);
}

static uint32_t *disk_of(const struct stripe_plan *sp, uint32_t column, uint32_t row)
{
	assert(column < sp->layout->columns && row < sp->layout->rows);
	return &sp->disk[column * sp->layout->rows + row];
}

/*
 * Returns whether a disk that the past plan wrote to has failed since. For a disk that had failed
 * before that plan, the answer is about the replacement of the disk, because plans write to no
 * other failed disk.
 */
static bool failed_since(const struct stripe_plan *sp, uint32_t disk)
{
	const struct repair_past *past = sp->past;
	if (!failure_has_disk(past->failure, disk))
		return failure_has_disk(sp->failure, disk);
	for (uint32_t i = 0; i < past->failed_again_n; i++)
		if (past->failed_again[i] == disk)
			return true;
	return false;
}

/*
 * Records that an earlier plan rebuilt this chunk on `disk`, unless that disk has failed since. A
 * lost chunk is then not lost. When the chunk's own disk works, R_ALL rewrote it, and the rewritten
 * copy is used once the own disk fails.
 */
static void record_moved(struct stripe_plan *sp, uint32_t c, uint32_t row, uint32_t disk)
{
	struct stripe_column *col = &sp->columns[c];
	if (failed_since(sp, disk))
		return;
	*disk_of(sp, c, row) = disk;
	if (bits_has(&col->lost, row)) {
		bits_clear(&col->lost, row);
		bits_set(&col->moved, row);
		return;
	}
	struct layout_location home;
	layout_row_at(sp->layout, col->at.pool, col->at.local_stripe, row, &home);
	if (home.disk != disk)
		bits_set(&col->copied, row);
}

static bool is_elsewhere(const struct stripe_column *col, uint32_t row)
{
	return bits_has(&col->moved, row) || bits_has(&col->copied, row);
}

/*
 * Removes from the losses of this stripe the chunks that the earlier plan had rebuilt at
 * `reached`.
 */
static void apply_past(struct stripe_plan *sp)
{
	struct stripe_plan *before = sp->before;
	const struct layout *l = sp->layout;
	stripe_plan_find_losses(before, sp->stripe);
	stripe_plan_find_moves(before);
	for (uint32_t c = 0; c < l->columns; c++)
		for (uint32_t r = 0; r < l->rows; r++)
			if (is_elsewhere(&before->columns[c], r))
				record_moved(sp, c, r, *disk_of(before, c, r));
	for (uint32_t m = 0; m < before->moves_n; m++) {
		const struct stripe_move *move = &before->moves[m];
		struct repair_cursor at = stripe_plan_position(before, move->pass);
		at.step = m;
		if (move->kind == REPAIR_LOST || !cursor_before(&at, &sp->past->reached))
			continue;
		bool by_row = move->kind == REPAIR_NETWORK;
		for (uint32_t i = 0; i < (by_row ? l->columns : l->rows); i++) {
			uint32_t c = by_row ? i : move->line;
			uint32_t r = by_row ? move->line : i;
			if (bits_has(&move->out, i))
				record_moved(sp, c, r, *disk_of(before, c, r));
		}
	}
}

static uint64_t choice_key(const struct stripe_plan *sp, uint32_t salt)
{
	return mix_u64(mix_u64(sp->layout->spec.seed + sp->stripe) + salt);
}

/* Returns whether an earlier plan moved or copied a chunk of the column to this disk. */
static bool taken_by_moved(const struct stripe_plan *sp, uint32_t c, uint32_t disk)
{
	for (uint32_t r = 0; r < sp->layout->rows; r++)
		if (is_elsewhere(&sp->columns[c], r) && *disk_of(sp, c, r) == disk)
			return true;
	return false;
}

/*
 * Chooses a disk in `pool` for each lost row of a column: the pool's disks in an order drawn for
 * this column, without failed disks and without disks that have a chunk of the column. When they
 * run out, and in clustered pools, a chunk goes to the replacement of its own disk.
 */
static void choose_spares(struct stripe_plan *sp, uint32_t c, uint32_t pool)
{
	const struct layout *l = sp->layout;
	const struct stripe_column *col = &sp->columns[c];
	bool home = pool == col->at.pool;
	bool in_place = home && l->spec.local_place == PLACE_CLUSTERED;
	uint64_t key = choice_key(sp, c);
	uint32_t next = in_place ? l->pool_disks : 0;
	for (uint32_t r = 0; r < l->rows; r++) {
		if (!bits_has(&col->lost, r))
			continue;
		struct layout_location at;
		layout_row_at(l, col->at.pool, col->at.local_stripe, r, &at);
		uint32_t spare = at.disk;
		while (next < l->pool_disks) {
			uint32_t in_pool = perm_at(&sp->spare_perm, key, next++);
			uint32_t disk = layout_pool_disk(l, pool, in_pool);
			if (failure_has_disk(sp->failure, disk) || taken_by_moved(sp, c, disk) ||
			    (home && layout_row_of(l, pool, col->at.local_stripe, in_pool) >= 0))
				continue;
			spare = disk;
			break;
		}
		*disk_of(sp, c, r) = spare;
	}
}

static bool rack_in_stripe(const struct stripe_plan *sp, uint32_t rack, uint32_t except,
			   const struct bits *racks_taken)
{
	for (uint32_t c = 0; c < sp->layout->columns; c++)
		if (c != except && sp->columns[c].at.rack == rack)
			return true;
	return bits_has(racks_taken, rack % 256);
}

/*
 * Returns a pool of the rack without failed disks, beginning the search at a hashed pool;
 * UINT32_MAX when there is none.
 */
static uint32_t pool_without_failures(const struct stripe_plan *sp, uint32_t rack, uint64_t key)
{
	uint32_t pools = sp->layout->rack_pools;
	for (uint32_t i = 0; i < pools; i++) {
		uint32_t pool = rack * pools + (uint32_t)((key + i) % pools);
		if (failure_pool_at(sp->failure, pool) == NULL)
			return pool;
	}
	return UINT32_MAX;
}

/*
 * Chooses the pool to which a column is rebuilt: the pool to which an earlier plan moved rows of
 * the column; else a pool without failed disks in a rack without a column of this stripe; else its
 * own pool.
 */
static uint32_t choose_pool(struct stripe_plan *sp, uint32_t c, struct bits *racks_taken)
{
	const struct layout *l = sp->layout;
	assert(sp->columns[c].lost_n > 0);
	for (uint32_t r = 0; r < l->rows; r++)
		if (bits_has(&sp->columns[c].moved, r))
			return layout_disk_pool(l, *disk_of(sp, c, r));
	uint64_t key = choice_key(sp, c + l->columns);
	for (uint32_t i = 0; i < l->spec.racks; i++) {
		uint32_t rack = perm_at(&sp->rack_perm, key, i);
		if (rack_in_stripe(sp, rack, c, racks_taken))
			continue;
		uint32_t pool = pool_without_failures(sp, rack, key >> 32);
		if (pool == UINT32_MAX)
			continue;
		bits_set(racks_taken, rack % 256);
		return pool;
	}
	return sp->columns[c].at.pool;
}

/* Returns whether the method rebuilds the column in another pool. */
static bool rebuilt_elsewhere(const struct stripe_plan *sp, const struct stripe_column *col)
{
	const struct layout *l = sp->layout;
	bool whole = sp->policy.method == REPAIR_ALL || l->rows == 1;
	return whole && col->pool->catastrophic && l->spec.net_place != PLACE_CLUSTERED;
}

static void find_column_losses(struct stripe_plan *sp, uint32_t c)
{
	const struct layout *l = sp->layout;
	struct stripe_column *col = &sp->columns[c];
	*col = (struct stripe_column){0};
	layout_column_at(l, sp->stripe, c, &col->at);
	col->pool = failure_pool_at(sp->failure, col->at.pool);
	if (col->pool == NULL)
		return;
	col->hits = (uint32_t)failure_local_chunks(sp->failure, col->at.pool, col->at.local_stripe,
						   col->lost.w);
	if (sp->policy.method != REPAIR_ALL || !col->pool->catastrophic)
		return;
	for (uint32_t r = 0; r < l->rows; r++)
		bits_set(&col->lost, r);
}

/*
 * Returns whether the column is lost. For R_ALL a column of a catastrophic pool is lost until all
 * of its chunks have been rebuilt.
 */
static bool column_is_lost(const struct stripe_plan *sp, const struct stripe_column *col)
{
	if (sp->policy.method == REPAIR_ALL && col->lost_n > 0 && col->pool->catastrophic)
		return true;
	return col->lost_n > local_tolerance(sp);
}

/* Returns the racks to which earlier plans moved columns of this stripe. */
static struct bits racks_moved_to(const struct stripe_plan *sp)
{
	const struct layout *l = sp->layout;
	struct bits racks = {{0}};
	for (uint32_t c = 0; sp->before != NULL && c < l->columns; c++)
		for (uint32_t r = 0; r < l->rows; r++)
			if (bits_has(&sp->columns[c].moved, r))
				bits_set(&racks, layout_disk_rack(l, *disk_of(sp, c, r)) % 256);
	return racks;
}

void stripe_plan_find_losses(struct stripe_plan *sp, uint64_t stripe)
{
	const struct layout *l = sp->layout;
	assert(stripe < l->stripes);
	sp->stripe = stripe;
	for (uint32_t c = 0; c < l->columns; c++)
		find_column_losses(sp, c);
	if (sp->before != NULL)
		apply_past(sp);
	struct bits racks_taken = racks_moved_to(sp);
	sp->lost_columns = 0;
	sp->most_lost = 0;
	for (uint32_t c = 0; c < l->columns; c++) {
		struct stripe_column *col = &sp->columns[c];
		col->lost_n = 0;
		for (int i = 0; i < 4; i++)
			col->lost_n += (uint32_t)__builtin_popcountll(col->lost.w[i]);
		if (column_is_lost(sp, col))
			sp->lost_columns++;
		else
			sp->most_lost = (uint32_t)max_u64(sp->most_lost, col->lost_n);
		if (col->lost_n == 0)
			continue;
		uint32_t pool = col->at.pool;
		if (rebuilt_elsewhere(sp, col))
			pool = choose_pool(sp, c, &racks_taken);
		choose_spares(sp, c, pool);
	}
}

/* State of the loop described at the top. The arrays are indexed by column. */
struct peel {
	struct stripe_plan *sp;
	struct bits lost[ENCODING_STRIPE_MAX]; /* rows that are still lost */
	uint32_t lost_n[ENCODING_STRIPE_MAX];
	bool target[ENCODING_STRIPE_MAX];
	uint32_t keep;  /* number of lost chunks of a target that its pool repairs */
	bool data_only; /* only data rows are rebuilt over the network (parity_inside) */
};

static uint32_t lost_data(const struct peel *p, uint32_t c)
{
	uint32_t n = 0;
	for (uint32_t r = 0; r < (uint32_t)p->sp->layout->spec.local.k; r++)
		n += bits_has(&p->lost[c], r);
	return n;
}

static bool wants(const struct peel *p, uint32_t c)
{
	if (!p->target[c] || p->lost_n[c] <= p->keep)
		return false;
	return !p->data_only || lost_data(p, c) > 0;
}

static struct stripe_move *add_move(struct stripe_plan *sp, enum repair_kind kind, uint32_t pass,
				    uint32_t line)
{
	assert(sp->moves_n <= sp->layout->columns + sp->layout->rows);
	struct stripe_move *m = &sp->moves[sp->moves_n++];
	*m = (struct stripe_move){.kind = kind, .pass = pass, .line = line};
	return m;
}

/* Returns how many targets decoding row r would serve; 0 when it cannot be decoded. */
static uint32_t row_gain(const struct peel *p, uint32_t r)
{
	uint32_t missing = 0, gain = 0;
	if (p->data_only && r >= (uint32_t)p->sp->layout->spec.local.k)
		return 0;
	for (uint32_t c = 0; c < p->sp->layout->columns; c++) {
		if (!bits_has(&p->lost[c], r))
			continue;
		missing++;
		gain += wants(p, c);
	}
	return missing <= net_tolerance(p->sp) ? gain : 0;
}

/*
 * Adds the move that decodes the row that serves most targets. Returns false when no row serves a
 * target.
 */
static bool peel_row(struct peel *p, uint32_t pass)
{
	uint32_t best = 0, best_gain = 0;
	for (uint32_t r = 0; r < p->sp->layout->rows; r++) {
		uint32_t gain = row_gain(p, r);
		if (gain > best_gain) {
			best = r;
			best_gain = gain;
		}
	}
	if (best_gain == 0)
		return false;
	struct stripe_move *m = add_move(p->sp, REPAIR_NETWORK, pass, best);
	for (uint32_t c = 0; c < p->sp->layout->columns; c++) {
		if (!bits_has(&p->lost[c], best) || !wants(p, c))
			continue;
		bits_set(&m->out, c);
		m->out_n++;
		bits_clear(&p->lost[c], best);
		assert(p->lost_n[c] > 0);
		p->lost_n[c]--;
	}
	return true;
}

/*
 * Adds the move that decodes the first column that its pool can repair, in `pass`, or with
 * by_chunks in the pass for its number of lost chunks. Returns false when there is no such column.
 */
static bool peel_column(struct peel *p, uint32_t pass, bool by_chunks)
{
	struct stripe_plan *sp = p->sp;
	for (uint32_t c = 0; c < sp->layout->columns; c++) {
		if (p->lost_n[c] == 0 || p->lost_n[c] > local_tolerance(sp))
			continue;
		uint32_t at = by_chunks ? pass_of_chunks(sp, p->lost_n[c]) : pass;
		struct stripe_move *m = add_move(sp, REPAIR_LOCAL, at, c);
		m->out = p->lost[c];
		m->out_n = p->lost_n[c];
		p->lost[c] = (struct bits){{0}};
		p->lost_n[c] = 0;
		return true;
	}
	return false;
}

static bool any_wants(const struct peel *p)
{
	for (uint32_t c = 0; c < p->sp->layout->columns; c++)
		if (wants(p, c))
			return true;
	return false;
}

static void choose_targets(struct peel *p)
{
	const struct repair_policy *policy = &p->sp->policy;
	bool inside = policy->method == REPAIR_MIN ||
		      (policy->method == REPAIR_ALL && policy->parity_inside);
	bool whole_pool = policy->method == REPAIR_ALL || policy->method == REPAIR_FCO;
	p->keep = inside ? local_tolerance(p->sp) : 0;
	p->data_only = !inside && policy->parity_inside;
	for (uint32_t c = 0; c < p->sp->layout->columns; c++) {
		const struct stripe_column *col = &p->sp->columns[c];
		p->lost[c] = col->lost;
		p->lost_n[c] = col->lost_n;
		p->target[c] = whole_pool ? col->pool != NULL && col->pool->catastrophic
					  : col->lost_n > local_tolerance(p->sp);
	}
}

void stripe_plan_find_moves(struct stripe_plan *sp)
{
	struct peel p = {.sp = sp};
	sp->moves_n = 0;
	if (sp->lost_columns == 0 && sp->most_lost == 0)
		return;
	choose_targets(&p);
	uint32_t pass = sp->lost_columns > 0 ? pass_of_columns(sp, sp->lost_columns)
					     : pass_of_chunks(sp, sp->most_lost);
	while (any_wants(&p)) {
		if (peel_row(&p, pass) || peel_column(&p, pass, false))
			continue;
		if (p.data_only) {
			p.data_only = false;
			continue;
		}
		add_move(sp, REPAIR_LOST, pass, 0);
		break;
	}
	while (peel_column(&p, pass, true))
		;
}
