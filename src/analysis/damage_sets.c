// SPDX-License-Identifier: Apache-2.0
/*
 * Damage of a single-overlap level. Stripes lie on few sets of members, so the damage depends on
 * which members failed: four of 120 disks share a set of 20 in only 7% of all cases. Each set with
 * losses has a row with its unknown losses, which all of its stripes share, and the parts of its
 * stripes that have 0, 1, ... known losses. Lost parts are removed, so the parts may sum to less
 * than 1.
 *
 * Chunks that were repaired into spare space are treated as if they were on their member again.
 *
 * Table: a row for each set with losses:
 *   [set, unknown, part with 0 known losses, 1, ... max_losses]
 */
#include <assert.h>
#include <string.h>

#include "analysis/damage_impl.h"
#include "base/rng.h"

/*
 * number of failed members whose sets fit in the table; sets of further failed members are ignored
 */
#define ROWS_PER_WIDTH 32u
#define ROW_SET 0
#define ROW_UNKNOWN 1
#define ROW_PARTS 2

static size_t row_doubles(const struct level *l)
{
	return ROW_PARTS + l->max_losses + 1;
}

static uint32_t rows_max(const struct level *l)
{
	uint32_t rows = l->width * ROWS_PER_WIDTH;
	return rows < l->members ? rows : l->members;
}

static size_t sets_doubles(const struct level *l)
{
	return rows_max(l) * row_doubles(l);
}

static double *row_at(const struct damage *d, uint32_t r)
{
	assert(r < rows_max(d->level));
	return (double *)&d->table[r * row_doubles(d->level)];
}

static void sets_clear(struct damage *d)
{
	d->sets = 0;
}

static uint32_t clock_add(uint32_t a, uint32_t b, uint32_t n)
{
	assert(a < n && b < n);
	return a + b >= n ? a + b - n : a + b;
}

static uint32_t clock_sub(uint32_t a, uint32_t b, uint32_t n)
{
	assert(a < n && b < n);
	return a >= b ? a - b : a + n - b;
}

/* Returns the set in which `member` has position m. */
static uint32_t set_of(const struct level *l, uint32_t member, uint32_t m)
{
	assert(member < l->members && m < l->base->width);
	const struct baseset *b = l->base;
	if (b->units == 1)
		return clock_sub(member, b->domain[m], b->domains);
	return clock_sub(member / b->units, b->domain[m], b->domains) * b->units +
	       clock_sub(member % b->units, b->unit[m], b->units);
}

static uint32_t member_of(const struct level *l, uint32_t set, uint32_t m)
{
	assert(set < l->members && m < l->base->width);
	const struct baseset *b = l->base;
	if (b->units == 1)
		return clock_add(set, b->domain[m], b->domains);
	return clock_add(set / b->units, b->domain[m], b->domains) * b->units +
	       clock_add(set % b->units, b->unit[m], b->units);
}

static double *find_row(struct damage *d, uint32_t set, bool add)
{
	for (uint32_t r = 0; r < d->sets; r++) {
		double *row = row_at(d, r);
		if ((uint32_t)row[ROW_SET] == set)
			return row;
	}
	if (!add || d->sets == rows_max(d->level))
		return NULL;
	double *row = row_at(d, d->sets++);
	memset(row, 0, row_doubles(d->level) * sizeof(*row));
	row[ROW_SET] = set;
	row[ROW_PARTS] = 1;
	return row;
}

static double set_stripes(const struct level *l)
{
	return l->stripes / l->members;
}

static double sets_hit(struct damage *d, uint32_t member, double part)
{
	const struct level *l = d->level;
	double lost = 0;
	for (uint32_t m = 0; m < l->width; m++) {
		double *row = find_row(d, set_of(l, member, m), true);
		if (row == NULL)
			continue;
		uint32_t u = (uint32_t)row[ROW_UNKNOWN];
		for (uint32_t i = 0; i <= l->max_losses; i++) {
			uint32_t losses = i + u + 1;
			double fatal = losses > l->max_losses ? 1 : l->fatal[losses];
			double gone = row[ROW_PARTS + i] * fatal * part;
			row[ROW_PARTS + i] -= gone;
			lost += gone;
		}
		row[ROW_UNKNOWN] += 1;
	}
	return lost * set_stripes(l);
}

static void sets_detect(struct damage *d, uint32_t member)
{
	assert(d->unknown > 0);
	const struct level *l = d->level;
	for (uint32_t m = 0; m < l->width; m++) {
		double *row = find_row(d, set_of(l, member, m), false);
		if (row == NULL)
			continue;
		row[ROW_UNKNOWN] -= 1;
		memmove(&row[ROW_PARTS + 1], &row[ROW_PARTS], l->max_losses * sizeof(*row));
		row[ROW_PARTS] = 0;
	}
}

static uint32_t sets_most(const struct damage *d, double *count)
{
	const struct level *l = d->level;
	uint32_t most = 0;
	*count = 0;
	for (uint32_t r = 0; r < d->sets; r++) {
		const double *parts = row_at(d, r) + ROW_PARTS;
		for (uint32_t i = l->max_losses; i > 0 && i >= most; i--) {
			if (parts[i] <= 0)
				continue;
			*count = (i > most ? 0 : *count) + parts[i] * set_stripes(l);
			most = i;
			break;
		}
	}
	return most;
}

/*
 * Returns the repair rate. The members of the sets under repair are read, and the member that is in
 * most of these sets limits the rate; writes spread over all members.
 */
static double sets_rate(const struct damage *d, uint32_t losses)
{
	const struct level *l = d->level;
	if (l->pace != LEVEL_PACE_SETS)
		return level_rate(l, losses, d->known, damage_alive(d));
	double load[LAYOUT_POOL_DISKS_MAX], sum = 0, most = 0;
	for (uint32_t n = 0; n < l->members; n++)
		load[n] = 0;
	for (uint32_t r = 0; r < d->sets; r++) {
		const double *row = row_at(d, r);
		double part = row[ROW_PARTS + losses];
		if (part <= 0)
			continue;
		sum += part;
		double left = l->width - losses - row[ROW_UNKNOWN];
		double each = part * (left > l->k ? l->k / left : 1);
		for (uint32_t m = 0; m < l->width; m++)
			load[member_of(l, (uint32_t)row[ROW_SET], m)] += each;
	}
	for (uint32_t n = 0; n < l->members; n++)
		if (load[n] > most && !damage_is_out(d, n))
			most = load[n];
	return l->member_rate / (most / sum + (double)losses / damage_alive(d));
}

static void sets_repair(struct damage *d, uint32_t losses, double part)
{
	assert(losses >= 1 && losses <= d->level->max_losses && part >= 0);
	const struct level *l = d->level;
	uint32_t kept = 0;
	for (uint32_t r = 0; r < d->sets; r++) {
		double *row = row_at(d, r);
		double moved = part < 1 ? row[ROW_PARTS + losses] * part : row[ROW_PARTS + losses];
		row[ROW_PARTS + losses] -= moved;
		row[ROW_PARTS] += moved;
		bool damaged = row[ROW_UNKNOWN] > 0;
		for (uint32_t i = 1; i <= l->max_losses; i++)
			damaged |= row[ROW_PARTS + i] > 0;
		if (!damaged)
			continue;
		if (kept != r)
			memcpy(row_at(d, kept), row, row_doubles(l) * sizeof(*row));
		kept++;
	}
	d->sets = kept;
}

/*
 * Returns the largest number of losses of a stripe of the set; 0 when all stripes of the set are
 * lost.
 */
static uint32_t row_top(const struct level *l, const double *row)
{
	uint32_t i = l->max_losses;
	while (i > 0 && row[ROW_PARTS + i] <= 0)
		i--;
	bool any = i > 0 || row[ROW_PARTS] > 0;
	return any ? i + (uint32_t)row[ROW_UNKNOWN] : 0;
}

static uint32_t rows_top(const struct damage *d)
{
	uint32_t top = 0;
	for (uint32_t r = 0; r < d->sets; r++) {
		uint32_t losses = row_top(d->level, row_at(d, r));
		top = losses > top ? losses : top;
	}
	return top;
}

static uint32_t sets_top(const struct damage *d)
{
	uint32_t top = rows_top(d), max_losses = d->level->max_losses;
	return top < max_losses ? top : max_losses;
}

static double sets_missing(const struct damage *d)
{
	const struct level *l = d->level;
	double sum = 0;
	for (uint32_t r = 0; r < d->sets; r++) {
		const double *row = row_at(d, r);
		for (uint32_t i = 0; i <= l->max_losses; i++)
			sum += row[ROW_PARTS + i] * (i + row[ROW_UNKNOWN]);
	}
	return sum * set_stripes(l);
}

static uint32_t sets_draw(const struct damage *d, struct rng *rng)
{
	for (;;) {
		uint32_t member = (uint32_t)rng_below(rng, d->level->members);
		if (!damage_is_out(d, member))
			return member;
	}
}

#define MARKS_MAX \
	65536u /* largest number of members of a level for which damage_draw_both() distinguishes the two kinds */

/*
 * Marks the members of the sets with the most losses, except members that are out. Returns the
 * number of marked members.
 */
static uint32_t mark_worse(const struct damage *d, uint64_t *marks)
{
	const struct level *l = d->level;
	uint32_t top = rows_top(d), n = 0;
	memset(marks, 0, (l->members + 63) / 64 * sizeof(*marks));
	for (uint32_t r = 0; r < d->sets; r++) {
		const double *row = row_at(d, r);
		if (row_top(l, row) != top)
			continue;
		for (uint32_t m = 0; m < l->width; m++) {
			uint32_t member = member_of(l, (uint32_t)row[ROW_SET], m);
			uint64_t bit = UINT64_C(1) << member % 64;
			if ((marks[member / 64] & bit) != 0 || damage_is_out(d, member))
				continue;
			marks[member / 64] |= bit;
			n++;
		}
	}
	return n;
}

/* Draws a member that is not out and whose mark is `marked`. */
static uint32_t draw_marked(const struct damage *d, struct rng *rng, const uint64_t *marks,
			    bool marked)
{
	for (;;) {
		uint32_t member = sets_draw(d, rng);
		if ((marks[member / 64] >> member % 64 & 1) == marked)
			return member;
	}
}

static double sets_draw_both(const struct damage *d, struct rng *rng, uint32_t *worse,
			     uint32_t *other)
{
	uint64_t marks[MARKS_MAX / 64];
	if (d->level->members > MARKS_MAX) {
		*worse = sets_draw(d, rng);
		return 1;
	}
	uint32_t n = mark_worse(d, marks), alive = damage_alive(d);
	if (n > 0)
		*worse = draw_marked(d, rng, marks, true);
	if (n < alive)
		*other = draw_marked(d, rng, marks, false);
	return (double)n / alive;
}

static size_t sets_used(const struct damage *d)
{
	return d->sets * row_doubles(d->level);
}

const struct damage_ops damage_sets = {
	.doubles = sets_doubles,
	.used = sets_used,
	.clear = sets_clear,
	.hit = sets_hit,
	.detect = sets_detect,
	.most = sets_most,
	.rate = sets_rate,
	.repair = sets_repair,
	.top = sets_top,
	.missing = sets_missing,
	.draw = sets_draw,
	.draw_both = sets_draw_both,
};
