// SPDX-License-Identifier: Apache-2.0
/*
 * One level of redundancy as the durability study sees it: members that fail and are rebuilt, and
 * stripes over them. The two levels of MLEC are the same thing twice, as in code/place.h:
 *
 *   level     member                      a member fails when       what is lost of it
 *   local     disk of a pool              the disk fails            all of its chunks
 *   network   local pool                  it becomes catastrophic   its lost local stripes
 *   one level only: a disk of the pool (local) or of the system (network)
 *
 * Stripes are not looked at one by one. A pool of the paper has 10^9 of them, so the number that
 * has lost j members is as good as its expectation as long as that is large; and while it is small,
 * losing any is a Poisson event with that expectation as its mean.
 *
 * level_of_disks() and level_of_pools() take all numbers from a layout and code/repair_speed.h.
 */
#ifndef ANALYSIS_LEVEL_H
#define ANALYSIS_LEVEL_H

#include "analysis/system.h"

#define LEVEL_LOSSES_MAX 63 /* of a stripe that can still be repaired */

enum level_pace {
	LEVEL_PACE_FIXED,   /* what is repaired goes to replacements, one per lost member */
	LEVEL_PACE_SPREAD,  /* all members that are left take part */
	LEVEL_PACE_TARGETS, /* each failed member takes in its own part, until sources are busy */
	LEVEL_PACE_SETS,    /* the members of the stripe sets in question read */
};

struct level {
	uint32_t members;
	uint32_t width, k;
	uint32_t bears; /* losses of a stripe that may be survived: p, for an LRC more than all */
	double fatal[LEVEL_LOSSES_MAX + 2]; /* [j]: j losses are too many when j - 1 were not */
	double stripes;
	bool clustered; /* a stripe lies on every member */
	uint32_t racks; /* members stand in so many, a stripe has one in each; 0: no matter */
	bool nested;    /* what members lose are tails of one order */
	const struct baseset *base; /* single-overlap; else NULL */

	double fail_rate; /* of a member, a second */
	double detect_s;  /* from failure to repair */

	/*
	 * Repair takes the stripes with the most known losses first. rate[j] is how many stripes a
	 * second with j losses are repaired (times the cost of a hit, see damage.h) when one member
	 * is out.
	 */
	enum level_pace pace;
	double rate[LEVEL_LOSSES_MAX + 1];
	double sources;     /* LEVEL_PACE_TARGETS: failed members that can be served at once */
	double member_rate; /* LEVEL_PACE_SETS: chunks a second of one disk */

	/*
	 * Several such levels stand in the same racks (network pools of a clustered network): the
	 * part of their bandwidth that repair in one takes while it is alone. 0: shares with none.
	 */
	double load;
};

/*
 * The level whose members are disks: the local one, or the only one. -EOPNOTSUPP: a stripe may bear
 * more than LEVEL_LOSSES_MAX losses; -EINVAL: the layout has no redundancy; -ENOMEM. The system must
 * outlive the level.
 */
int level_of_disks(struct level *level, const struct system *sys);

/* How many of those levels the system consists of: local pools, network pools, or 1. */
double level_disk_groups(const struct system *sys);

/*
 * The network level of an MLEC layout, whose members are local pools that become catastrophic
 * `pool_rate` times a second each. One network pool (c/x) or the whole system (d/x). Its rates are
 * bytes a second. Under a declustered network what is rebuilt goes to the pool it belongs to, or as
 * the paper has it to any rack (R_ALL always does). -EINVAL: no network level; -EOPNOTSUPP as above.
 */
int level_of_pools(struct level *level, const struct system *sys, bool as_paper, double pool_rate);
double level_pool_groups(const struct system *sys);

/* How many of the levels share their racks, numbered one after the other; 1 when load is 0. */
uint32_t level_sharing(const struct level *level, const struct system *sys);

/* Stripes a second with j known losses that are repaired while `known` members are being rebuilt. */
double level_rate(const struct level *level, uint32_t losses, uint32_t known, uint32_t alive);

#endif
