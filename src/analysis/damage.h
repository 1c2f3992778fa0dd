// SPDX-License-Identifier: Apache-2.0
/*
 * The damage of one level: how many stripes miss how many chunks at a time.
 *
 * Terms. A failed member is *unknown* until its failure is detected, then *known*; only chunks of
 * known members are repaired. A failed member is *out* until its chunks are repaired. The state is
 * a table of the numbers of stripes by (known losses, unknown losses).
 *
 *   a failure   hits each stripe on the member: (i, u) -> (i, u + 1). Which stripes those are is
 *               random; a stripe with j losses has width - j of its chunks on the members alive, so
 *               it is hit with probability (width - j) / alive. Clustered: all stripes are hit.
 *               Over racks: not the stripes that already have a loss in the same rack.
 *   detection   moves the share of stripes that have the member among their unknown ones:
 *               (i, u) -> (i + 1, u - 1).
 *   repair      takes the stripes with the most known losses, whatever their unknown losses:
 *               (i, u) -> (0, u). Repaired stripes stay repaired when more members fail, so the
 *               table also describes a partial repair.
 *
 * Stripes with too many losses leave the table: damage_fail() returns how many, on average. A
 * single-overlap level keeps a row for each stripe set instead, because there the losses depend on
 * which members failed.
 *
 * Example, clustered 2+1 disks, repair takes 10 h, detection none. Disk A fails at 0 h, disk B at
 * 4 h: 6/10 of the stripes have two losses and are lost; with a 2+2 code these stripes would be
 * repaired by 10 h, together with the other stripes of A, and the rest of B's stripes by 14 h.
 *
 * Between failures the table changes deterministically: damage_walk() computes it.
 */
#ifndef ANALYSIS_DAMAGE_H
#define ANALYSIS_DAMAGE_H

#include "analysis/level.h"

struct rng;

/* most unknown members; one more failure makes the oldest unknown member known */
#define DAMAGE_UNKNOWN_MAX 64

/* What a failing member loses; {1, 1} for a disk. */
struct damage_hit {
	double part; /* part of its chunks that the member loses */
	/* cost of repairing one stripe; divides level->rate */
	double cost;
};

struct damage {
	const struct level *level;
	double now;
	uint32_t known, unknown;
	uint32_t head; /* index of the oldest unknown member in the two arrays */
	double detect_at[DAMAGE_UNKNOWN_MAX];
	uint32_t member_at[DAMAGE_UNKNOWN_MAX];
	double cost;
	/*
	 * share of the repair bandwidth that this level gets; below 1 while other levels use the
	 * bandwidth, too
	 */
	double share;

	/* The stripes that are being repaired. */
	/* number of known losses of the stripes under repair; 0: no repair is running */
	uint32_t busy;
	double busy_count; /* number of stripes under repair */
	double busy_rate;

	uint32_t known_named; /* entries of known_member, which may not hold all known members */
	uint32_t known_member[DAMAGE_UNKNOWN_MAX];
	uint32_t sets; /* number of stripe sets with losses, in a single-overlap level */
	/* numbers of stripes by losses; damage.c and damage_sets.c describe the two forms */
	double table[];
};

/* Returns the size in bytes of a struct damage for this level. */
size_t damage_bytes(const struct level *level);

/* Copies a state; `to` has damage_bytes() of the same level. */
void damage_copy(struct damage *to, const struct damage *from);

/* Sets the state at time 0, in which no member has failed. */
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

/*
 * Returns whether the damage depends on which members failed, because of their stripe sets or
 * racks. Only then do members have numbers; otherwise the number of each member is 0.
 */
static inline bool damage_named(const struct level *level)
{
	return level->base != NULL || level->racks > 0;
}

/* Returns whether this member is recorded as out; always false when members have no numbers. */
bool damage_is_out(const struct damage *d, uint32_t member);

/* Returns the most losses, known and unknown together, of a stripe in the table. */
uint32_t damage_top(const struct damage *d);

/* Returns the number of missing chunks. */
double damage_missing(const struct damage *d);

/* Draws a member that is not out; 0 when members have no numbers. */
uint32_t damage_draw(const struct damage *d, struct rng *rng);

/*
 * Draws two members that are not out: *worse, whose failure would add a loss to stripes that have
 * the most losses, and *other, whose failure would not. Returns the part of the members that are of
 * the first kind; when that part is 0 only *other is set, when it is 1 only *worse. Without
 * single-overlap the part is always 1.
 */
double damage_draw_both(const struct damage *d, struct rng *rng, uint32_t *worse, uint32_t *other);

/*
 * Applies the failure of a member. Returns the expected number of stripes that the failure loses,
 * and removes these stripes.
 */
double damage_fail(struct damage *d, uint32_t member, const struct damage_hit *hit);

/* Sets the share of its bandwidth that repair has from now on, above 0 and up to 1. */
void damage_set_share(struct damage *d, double share);

/* Advances detection and repair to time t. */
void damage_advance(struct damage *d, double t);

/* Returns the time of the next detection or end of a repair; INFINITY when there is none. */
double damage_next(const struct damage *d);

/*
 * Advances detection and repair without failures. Returns true when the accumulated hazard (failure
 * rate of all members times seconds) reaches `limit`: a member fails then. Returns false when no
 * stripe has `floor` >= 1 losses any more. *met is the accumulated hazard.
 */
bool damage_walk(struct damage *d, double limit, uint32_t floor, double *met);

#endif
