// SPDX-License-Identifier: Apache-2.0
/*
 * One level of redundancy as the durability methods model it: members that fail and are rebuilt,
 * and stripes over the members. Both levels of MLEC fit the model, as in code/place.h:
 *
 *   level     member                      a member fails when       its loss
 *   local     disk of a pool              the disk fails            all of its chunks
 *   network   local pool                  it becomes catastrophic   its lost local stripes
 *   one level only: a disk of the pool (local) or of the system (network)
 *
 * The model keeps numbers of stripes, not single stripes. A pool of the default system has 10^9
 * stripes. The number of stripes that have lost j members is close to its expectation while that is
 * large. While the expectation is small, the loss of any stripe is a Poisson event with that
 * expectation as its mean.
 *
 * level_of_disks() and level_of_pools() take all numbers from a layout and code/repair_speed.h.
 */
#ifndef ANALYSIS_LEVEL_H
#define ANALYSIS_LEVEL_H

#include "analysis/system.h"

#define LEVEL_LOSSES_MAX 63 /* most losses of a stripe that can still be repaired */

enum level_pace {
	LEVEL_PACE_FIXED,   /* each lost member is rebuilt to its own replacement */
	LEVEL_PACE_SPREAD,  /* all working members read and write */
	LEVEL_PACE_TARGETS, /* each failed member receives its own chunks; sources may limit them */
	LEVEL_PACE_SETS,    /* only members of the stripe sets with losses are read */
};

struct level {
	uint32_t members;
	uint32_t width, k;
	uint32_t
		/*
		 * p, the most losses that a stripe may survive; an LRC survives only some losses of
		 * so many
		 */
		max_losses;
	double fatal[LEVEL_LOSSES_MAX +
		     2]; /* [j]: probability that loss j is fatal if j - 1 were not */
	double stripes;
	bool clustered; /* clustered level: each stripe has a chunk on every member */
	/* number of racks of the members, when a stripe has at most one member in a rack; else 0 */
	uint32_t racks;
	bool nested; /* members lose the last stripes of one common order: losses coincide */
	const struct baseset *base; /* base set of a single-overlap level; else NULL */

	double fail_rate; /* failures of one member in a second */
	double detect_s;  /* time from a failure to the start of its repair */

	/*
	 * Repair takes the stripes with the most known losses first. rate[j] is the number of
	 * stripes with j losses that are repaired in a second (to be divided by the cost of
	 * damage_hit) when one member is out.
	 */
	enum level_pace pace;
	double rate[LEVEL_LOSSES_MAX + 1];
	/* LEVEL_PACE_TARGETS: number of failed members that can be rebuilt at full rate at once */
	double sources;
	double member_rate; /* LEVEL_PACE_SETS: chunks that one disk reads or writes in a second */

	/*
	 * The part of the racks' bandwidth that repair of this level takes while no other level of
	 * the same racks (network pools of a clustered network) repairs; 0 when no other level has
	 * the same racks.
	 */
	double load;
};

/*
 * Computes the level whose members are disks: the local level, or the only level of the code. The
 * system must outlive the level. Returns 0, -EOPNOTSUPP when a stripe may survive more than
 * LEVEL_LOSSES_MAX losses, -EINVAL when the layout has no redundancy, or -ENOMEM.
 */
int level_of_disks(struct level *level, const struct system *sys);

/*
 * Returns how many levels as level_of_disks() computes the system has: its local pools, its network
 * pools, or 1.
 */
double level_disk_groups(const struct system *sys);

/*
 * Computes the network level of an MLEC layout, whose members are local pools that become
 * catastrophic `pool_rate` times a second each: one network pool (c/x) or the whole system (d/x).
 * Its repair rates are for stripes whose repair costs one byte over the network, so a damage_hit
 * has its cost in bytes. Under a declustered network a rebuilt chunk goes to its own pool; with
 * as_paper (nines.h), and for R_ALL, the chunk goes to any rack. Returns 0, -EINVAL without a
 * network level, or -EOPNOTSUPP as level_of_disks().
 */
int level_of_pools(struct level *level, const struct system *sys, bool as_paper, double pool_rate);
double level_pool_groups(const struct system *sys);

/* Returns how many consecutively numbered levels share the same racks; 1 when level->load is 0. */
uint32_t level_sharing(const struct level *level, const struct system *sys);

/*
 * Returns the rate, in stripes a second, at which stripes with `losses` known losses are
 * repaired while `known` members are being rebuilt and `alive` members work.
 */
double level_rate(const struct level *level, uint32_t losses, uint32_t known, uint32_t alive);

#endif
