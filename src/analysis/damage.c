// SPDX-License-Identifier: Apache-2.0
#include "analysis/damage.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "analysis/damage_impl.h"
#include "base/rng.h"

/*
 * Returns the index of the table's entry for (i, u): the number of stripes with i known and u
 * unknown losses, i + u <= max_losses.
 */
static size_t at(const struct level *level, uint32_t i, uint32_t u)
{
	assert(i + u <= level->max_losses);
	return (size_t)i * (level->max_losses + 1) + u;
}

static size_t table_doubles(const struct level *level)
{
	return (size_t)(level->max_losses + 1) * (level->max_losses + 1);
}

static size_t table_used(const struct damage *d)
{
	return table_doubles(d->level);
}

static void table_clear(struct damage *d)
{
	memset(d->table, 0, table_doubles(d->level) * sizeof(d->table[0]));
	d->table[0] = d->level->stripes;
}

/* Adds an unknown loss to `moved` stripes of (i, u); returns how many of them that loses. */
static double move_up(struct damage *d, uint32_t i, uint32_t u, double moved)
{
	const struct level *l = d->level;
	assert(i + u <= l->max_losses && moved >= 0);
	double lost = moved * l->fatal[i + u + 1];
	assert(lost <= moved);
	d->table[at(l, i, u)] -= moved;
	if (i + u < l->max_losses)
		d->table[at(l, i, u + 1)] += moved - lost;
	return lost;
}

/*
 * Applies a failure to a nested level: the failing member loses the stripes that already have the
 * most losses.
 */
static double hit_nested(struct damage *d, double part)
{
	uint32_t max_losses = d->level->max_losses;
	double left = part * d->level->stripes, lost = 0;
	for (uint32_t j = max_losses + 1; j-- > 0;)
		for (uint32_t i = 0; i <= j; i++) {
			double have = d->table[at(d->level, i, j - i)];
			double moved = have < left ? have : left;
			left -= moved;
			lost += move_up(d, i, j - i, moved);
		}
	return lost;
}

/* The number of failed members of one rack (here), and of each other rack with failed members. */
struct rack_counts {
	uint32_t n, here;
	uint32_t rack[2 * DAMAGE_UNKNOWN_MAX], count[2 * DAMAGE_UNKNOWN_MAX];
};

static void count_member(const struct level *l, struct rack_counts *c, uint32_t member,
			 uint32_t here)
{
	uint32_t rack = member / (l->members / l->racks), i = 0;
	if (rack == here) {
		c->here++;
		return;
	}
	while (i < c->n && c->rack[i] != rack)
		i++;
	if (i == c->n) {
		c->rack[c->n] = rack;
		c->count[c->n++] = 0;
	}
	c->count[i]++;
}

/*
 * Computes other[j], the part of the stripes with j losses that has no loss in this member's rack.
 * The losses of a stripe are in different racks and all choices of j such members are equally
 * likely: the part is the number of choices without that rack divided by the number of all choices.
 */
static void find_other(const struct damage *d, uint32_t member, double *other)
{
	const struct level *l = d->level;
	struct rack_counts c = {0};
	double ways[LEVEL_LOSSES_MAX + 1] = {1};
	uint32_t here = member / (l->members / l->racks);
	for (uint32_t i = 0; i < d->known_named; i++)
		count_member(l, &c, d->known_member[i], here);
	for (uint32_t i = 0; i < d->unknown; i++)
		count_member(l, &c, d->member_at[(d->head + i) % DAMAGE_UNKNOWN_MAX], here);
	for (uint32_t i = 0; i < c.n; i++)
		for (uint32_t j = l->max_losses; j > 0; j--)
			ways[j] += ways[j - 1] * c.count[i];
	for (uint32_t j = 0; j <= l->max_losses; j++) {
		double all = ways[j] + (j > 0 ? c.here * ways[j - 1] : 0);
		other[j] = all > 0 ? ways[j] / all : 1 - (double)j / l->racks;
	}
}

/* Computes p[j], the probability that the failing member hits a stripe with j losses. */
static void find_chances(const struct damage *d, uint32_t member, double part, double *p)
{
	const struct level *l = d->level;
	double alive = damage_alive(d);
	if (l->racks > 0)
		find_other(d, member, p);
	for (uint32_t j = 0; j <= l->max_losses; j++) {
		if (l->clustered)
			p[j] = part;
		else if (l->racks > 0)
			p[j] *= part * (l->width - j) / (l->racks - j) * l->racks / l->members;
		else
			p[j] = part * (l->width - j) / alive;
	}
}

static double table_hit(struct damage *d, uint32_t member, double part)
{
	const struct level *l = d->level;
	double p[LEVEL_LOSSES_MAX + 1], lost = 0;
	if (l->nested && part < 1)
		return hit_nested(d, part);
	find_chances(d, member, part, p);
	for (uint32_t i = 0; i <= l->max_losses; i++)
		for (uint32_t u = l->max_losses - i + 1; u-- > 0;) {
			double have = d->table[at(l, i, u)], chance = p[i + u];
			if (have > 0)
				lost += move_up(d, i, u, chance < 1 ? have * chance : have);
		}
	return lost;
}

static void table_detect(struct damage *d, uint32_t member)
{
	const struct level *l = d->level;
	(void)member;
	for (uint32_t u = 1; u <= l->max_losses; u++)
		for (uint32_t i = l->max_losses - u + 1; i-- > 0;) {
			double share = u < d->unknown ? (double)u / d->unknown : 1;
			double moved = d->table[at(l, i, u)] * share;
			d->table[at(l, i, u)] -= moved;
			d->table[at(l, i + 1, u - 1)] += moved;
		}
}

static uint32_t table_most(const struct damage *d, double *count)
{
	const struct level *l = d->level;
	for (uint32_t i = l->max_losses; i > 0; i--) {
		*count = 0;
		for (uint32_t u = 0; i + u <= l->max_losses; u++)
			*count += d->table[at(l, i, u)];
		if (*count > 0)
			return i;
	}
	*count = 0;
	return 0;
}

static double table_rate(const struct damage *d, uint32_t losses)
{
	return level_rate(d->level, losses, d->known, damage_alive(d));
}

static void table_repair(struct damage *d, uint32_t losses, double part)
{
	const struct level *l = d->level;
	for (uint32_t u = 0; losses + u <= l->max_losses; u++) {
		double *from = &d->table[at(l, losses, u)];
		double moved = part < 1 ? *from * part : *from;
		*from -= moved;
		d->table[at(l, 0, u)] += moved;
	}
}

static uint32_t table_top(const struct damage *d)
{
	const struct level *l = d->level;
	for (uint32_t j = l->max_losses; j > 0; j--)
		for (uint32_t i = 0; i <= j; i++)
			if (d->table[at(l, i, j - i)] > 0)
				return j;
	return 0;
}

static double table_missing(const struct damage *d)
{
	const struct level *l = d->level;
	double sum = 0;
	for (uint32_t i = 0; i <= l->max_losses; i++)
		for (uint32_t u = 0; i + u <= l->max_losses; u++)
			sum += d->table[at(l, i, u)] * (i + u);
	return sum;
}

/* Draws a member that has not failed. Drawing failed members, too, would hit their racks too
 * often. */
static uint32_t table_draw(const struct damage *d, struct rng *rng)
{
	uint32_t member;
	if (!damage_named(d->level) || damage_alive(d) == 0)
		return 0;
	do
		member = (uint32_t)rng_below(rng, d->level->members);
	while (damage_is_out(d, member));
	return member;
}

static double table_draw_both(const struct damage *d, struct rng *rng, uint32_t *worse,
			      uint32_t *other)
{
	(void)other;
	*worse = table_draw(d, rng);
	return 1;
}

const struct damage_ops damage_table = {
	.doubles = table_doubles,
	.used = table_used,
	.clear = table_clear,
	.hit = table_hit,
	.detect = table_detect,
	.most = table_most,
	.rate = table_rate,
	.repair = table_repair,
	.top = table_top,
	.missing = table_missing,
	.draw = table_draw,
	.draw_both = table_draw_both,
};

size_t damage_bytes(const struct level *level)
{
	return sizeof(struct damage) + damage_ops_of(level)->doubles(level) * sizeof(double);
}

void damage_copy(struct damage *to, const struct damage *from)
{
	assert(to != from);
	size_t used = damage_ops_of(from->level)->used(from);
	memcpy(to, from, sizeof(*from) + used * sizeof(from->table[0]));
}

void damage_init(struct damage *d, const struct level *level)
{
	assert(level->members > 0 && level->max_losses <= LEVEL_LOSSES_MAX);
	memset(d, 0, sizeof(*d));
	d->level = level;
	d->cost = 1;
	d->share = 1;
	damage_ops_of(level)->clear(d);
}

bool damage_is_out(const struct damage *d, uint32_t member)
{
	if (!damage_named(d->level))
		return false;
	for (uint32_t n = 0; n < d->known_named; n++)
		if (d->known_member[n] == member)
			return true;
	for (uint32_t n = 0; n < d->unknown; n++)
		if (d->member_at[(d->head + n) % DAMAGE_UNKNOWN_MAX] == member)
			return true;
	return false;
}

uint32_t damage_top(const struct damage *d)
{
	return damage_idle(d) ? 0 : damage_ops_of(d->level)->top(d);
}

double damage_missing(const struct damage *d)
{
	return damage_ops_of(d->level)->missing(d);
}

uint32_t damage_draw(const struct damage *d, struct rng *rng)
{
	return damage_ops_of(d->level)->draw(d, rng);
}

double damage_draw_both(const struct damage *d, struct rng *rng, uint32_t *worse, uint32_t *other)
{
	return damage_ops_of(d->level)->draw_both(d, rng, worse, other);
}

/*
 * Chooses the stripes that repair works on next. When no such stripe is left, the known failed
 * members are repaired and alive again.
 */
static void choose_work(struct damage *d)
{
	const struct damage_ops *ops = damage_ops_of(d->level);
	d->busy = d->known > 0 ? ops->most(d, &d->busy_count) : 0;
	if (d->busy == 0) {
		d->known = 0;
		d->known_named = 0;
		if (d->unknown == 0)
			ops->clear(d);
		return;
	}
	if (d->level->clustered && d->level->pace == LEVEL_PACE_FIXED)
		d->known = d->busy; /* replacements are rebuilt one after the other */
	d->busy_rate = ops->rate(d, d->busy) * d->share / d->cost;
	assert(d->busy_rate > 0 && d->busy <= d->level->max_losses);
}

void damage_set_share(struct damage *d, double share)
{
	assert(share > 0 && share <= 1 && d->share > 0);
	d->busy_rate *= share / d->share;
	d->share = share;
}

static void detect_oldest(struct damage *d)
{
	assert(d->unknown > 0 && d->head < DAMAGE_UNKNOWN_MAX);
	uint32_t member = d->member_at[d->head];
	damage_ops_of(d->level)->detect(d, member);
	if (d->known_named < DAMAGE_UNKNOWN_MAX)
		d->known_member[d->known_named++] = member;
	d->head = (d->head + 1) % DAMAGE_UNKNOWN_MAX;
	d->unknown--;
	d->known++;
}

double damage_fail(struct damage *d, uint32_t member, const struct damage_hit *hit)
{
	if (damage_alive(d) == 0)
		return 0;
	if (d->unknown == DAMAGE_UNKNOWN_MAX)
		detect_oldest(d);
	/*
	 * The mean cost of repairing a stripe: the costs of the waiting stripes and of the stripes
	 * hit now, weighted by their shares.
	 */
	double waits = d->known + d->unknown;
	d->cost = (d->cost * waits + hit->cost) / (waits + 1);
	assert(hit->part >= 0 && hit->part <= 1 && d->cost > 0);
	double lost = damage_ops_of(d->level)->hit(d, member, hit->part);
	assert(lost >= 0);
	uint32_t slot = (d->head + d->unknown) % DAMAGE_UNKNOWN_MAX;
	d->detect_at[slot] = d->now + d->level->detect_s;
	d->member_at[slot] = member;
	d->unknown++;
	assert(d->unknown <= DAMAGE_UNKNOWN_MAX);
	choose_work(d);
	return lost;
}

double damage_next(const struct damage *d)
{
	double next = d->unknown > 0 ? d->detect_at[d->head] : INFINITY;
	if (d->busy > 0 && d->now + d->busy_count / d->busy_rate < next)
		next = d->now + d->busy_count / d->busy_rate;
	return next;
}

/* Advances to the next change. When `limit` comes first, advances to `limit` and returns false. */
static bool step(struct damage *d, double limit)
{
	const struct damage_ops *ops = damage_ops_of(d->level);
	double detect = d->unknown > 0 ? d->detect_at[d->head] : INFINITY;
	double done = d->busy > 0 ? d->now + d->busy_count / d->busy_rate : INFINITY;
	double next = done < detect ? done : detect;
	bool event = next <= limit && !isinf(next);
	if (!event)
		next = limit;
	if (d->busy > 0) {
		double repaired = (next - d->now) * d->busy_rate;
		bool all = event && done <= detect;
		ops->repair(d, d->busy, all ? 1 : repaired / d->busy_count);
		d->busy_count -= repaired;
	}
	assert(next >= d->now); /* time never goes back */
	d->now = next;
	if (!event)
		return false;
	if (detect < done)
		detect_oldest(d);
	choose_work(d);
	return true;
}

void damage_advance(struct damage *d, double t)
{
	while (step(d, t))
		;
}

bool damage_walk(struct damage *d, double limit, uint32_t floor, double *met)
{
	assert(floor >= 1 && limit >= 0);
	*met = 0;
	for (;;) {
		double rate = damage_alive(d) * d->level->fail_rate, began = d->now;
		if (!step(d, rate > 0 ? d->now + (limit - *met) / rate : INFINITY)) {
			*met = limit;
			return true;
		}
		*met += rate * (d->now - began);
		if (damage_top(d) < floor)
			return false;
	}
}
