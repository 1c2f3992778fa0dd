// SPDX-License-Identifier: Apache-2.0
/*
 * What failures and repair have done to one level: how many stripes miss how many chunks now.
 *
 * Terms. A member that failed is *unknown* until it is detected, then *known*; only chunks of known
 * members are repaired. The state is a table of stripes by (known losses, unknown losses).
 *
 *   a failure   hits each stripe on the member: (i, u) -> (i, u + 1). Which stripes those are is
 *               random; a stripe with j losses has width - j of its chunks on the members alive, so
 *               it is hit with probability (width - j) / alive. Clustered: all of them are hit.
 *               Over racks: not those that have a loss in the same rack already.
 *   detection   moves the share of stripes that have the member among their unknown ones:
 *               (i, u) -> (i + 1, u - 1).
 *   repair      takes stripes with the most known losses, all classes of unknown losses alike:
 *               (i, u) -> (0, u). What was repaired stays so when more members fail: this is the
 *               state of a partial repair.
 *
 * Stripes with too many losses leave the table: damage_fail() returns how many, on average. A
 * single-overlap level keeps a row of the table per stripe set instead, because there it matters
 * which members failed.
 *
 * Example, clustered 2+1 disks, repair takes 10 h, detection none. Disk A fails at 0 h, disk B at
 * 4 h: 6/10 of the stripes have two losses and are lost; had the code been 2+2 they would be
 * repaired by 10 h, in one go with those of A, and the rest of B's by 14 h.
 *
 * Between failures all is deterministic: damage_walk() follows it.
 */
#ifndef ANALYSIS_DAMAGE_H
#define ANALYSIS_DAMAGE_H

#include "analysis/level.h"

struct rng;

#define DAMAGE_UNKNOWN_MAX 64 /* more: the oldest counts as detected */

/* What a failing member takes with it. Disks: {1, 1}. */
struct damage_hit {
	double part; /* of its chunks */
	double cost; /* of repairing one stripe, in units of level->rate */
};

struct damage {
	const struct level *level;
	double now;
	uint32_t known, unknown;
	uint32_t head; /* oldest of the unknown */
	double detect_at[DAMAGE_UNKNOWN_MAX];
	uint32_t member_at[DAMAGE_UNKNOWN_MAX];
	double cost;
	double share; /* of its repair bandwidth: below 1 while others need it, too */

	/* What repair is at. */
	uint32_t busy;     /* known losses of the stripes being repaired; 0: nothing to do */
	double busy_count; /* stripes */
	double busy_rate;

	uint32_t known_named; /* names of known failed members; more than fit are left out */
	uint32_t known_member[DAMAGE_UNKNOWN_MAX];
	uint32_t sets;  /* single-overlap: stripe sets with losses */
	double table[]; /* see damage.c and damage_sets.c */
};

/* Bytes of a struct damage for this level. */
size_t damage_bytes(const struct level *level);

/* `to` has as many bytes. */
void damage_copy(struct damage *to, const struct damage *from);

/* Nothing has failed, at time 0. */
void damage_init(struct damage *d, const struct level *level);

static inline uint32_t damage_alive(const struct damage *d)
{
	uint32_t out = d->known + d->unknown;
	return out < d->level->members ? d->level->members - out : 0;
}

static inline bool damage_idle(const struct damage *d)
{
	return d->known == 0 && d->unknown == 0;
}

/* Whether it matters which members failed: their stripe sets, or their racks. */
static inline bool damage_named(const struct level *level)
{
	return level->base != NULL || level->racks > 0;
}

/* Whether this member is known to be out by name; false where names are no matter. */
bool damage_is_out(const struct damage *d, uint32_t member);

/* The most losses, known or not, of a stripe in the table. */
uint32_t damage_top(const struct damage *d);

/* Chunks that are missing now. */
double damage_missing(const struct damage *d);

/* A random member that has not failed; 0 where names are no matter. */
uint32_t damage_draw(const struct damage *d, struct rng *rng);

/*
 * Draws two members that have not failed: one whose failure would add a loss to stripes that have
 * the most losses, one whose would not. Returns the part of members that are of the first kind; with
 * 0 or 1 the other is not set. Single-overlap only: elsewhere it is always 1.
 */
double damage_draw_both(const struct damage *d, struct rng *rng, uint32_t *worse, uint32_t *other);

/* `member` fails now. Returns the expected number of stripes that this loses; they leave. */
double damage_fail(struct damage *d, uint32_t member, const struct damage_hit *hit);

/* From now on repair has this share of its bandwidth, above 0 and up to 1. */
void damage_set_share(struct damage *d, double share);

/* Repair and detection until time t. */
void damage_advance(struct damage *d, double t);

/* When something changes by itself next; INFINITY when nothing does. */
double damage_next(const struct damage *d);

/*
 * Follows detection and repair without failures until the hazard of a failure (failures a second,
 * summed over members, times seconds) has reached `limit`: true, a member fails now. Or until no
 * stripe has `floor` >= 1 losses any more: false. *met is the hazard on the way.
 */
bool damage_walk(struct damage *d, double limit, uint32_t floor, double *met);

#endif
