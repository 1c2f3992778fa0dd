// SPDX-License-Identifier: Apache-2.0
/*
 * Repair costs from counts of stripes, without visiting stripes: independent of the pool's size.
 *
 * A pool is described by how many of its local stripes have 0, 1, ... rows failed chunks. Disks
 * that fail at once give expected counts: when one of `alive` disks fails, a stripe with j failed
 * chunks has rows - j members among them and is hit with probability (rows - j) / alive. Doing that
 * once per failed disk gives the hypergeometric distribution; in a clustered pool it hits all
 * stripes. failure_pool_counts() gives exact counts instead. From exact counts the totals below
 * equal those of the plan, chunk by chunk (one catastrophic pool, no other failed disk).
 *
 * R_ALL and R_FCO act on all stripes of a catastrophic pool and on none of another pool, so their
 * mean cost is not the cost of the expected counts: pl + 1 failed disks of a single-overlap pool
 * seldom share a stripe, and then nothing crosses racks, while the expected counts always contain a
 * small part of a lost stripe set. Given that the pool is catastrophic, the cost of all four
 * methods is a sum over stripes, and the cost of the conditional expectation is the conditional
 * expectation of the cost: repair_counts_catastrophic().
 */
#ifndef CODE_REPAIR_COUNT_H
#define CODE_REPAIR_COUNT_H

#include "code/repair.h"

/*
 * Sets count[0] to count[rows] to the counts of an intact pool with the average number of stripes
 * in use.
 */
void repair_counts_init(const struct layout *l, double *count);

/* Changes the counts to the counts after one of the pool's `alive` >= 1 working disks fails. */
void repair_counts_fail(const struct layout *l, uint32_t alive, double *count);

/*
 * Computes the expected counts when `failed` disks of an intact pool fail. Returns 0, -ERANGE when
 * the pool has fewer disks, or -EOPNOTSUPP for an LRC, whose repair does not depend on counts
 * alone.
 */
int repair_counts_expected(const struct layout *l, uint32_t failed, double *count);

/*
 * Computes the expected counts given that the pool is catastrophic, and the probability of that;
 * all are zero when the pool cannot be catastrophic. Clustered: exact. Declustered: as if each
 * stripe drew its disks independently, which deviates a little in pools of few stripes, where the
 * stripes of a round share no disk. Single-overlap: from 2,000 sets of failed disks, drawn with a
 * fixed seed, that lose one stripe set, weighted by how many sets they lose. Returns 0, or -ERANGE
 * or -EOPNOTSUPP as repair_counts_expected().
 */
int repair_counts_catastrophic(const struct layout *l, uint32_t failed, double *probability,
			       double *count);

struct repair_estimate {
	double lost_local;                /* number of local stripes that the pool cannot repair */
	double net_reads, net_writes;     /* chunks */
	double local_reads, local_writes; /* chunks */
	double cross_reads, cross_writes; /* chunks */
	/* number of network stripes that no repair can rebuild, for codes with pn = 0 */
	double lost_stripes;
};

/*
 * Computes the cost of repairing a pool with these counts. The pool is taken for catastrophic if
 * the counts contain a lost local stripe.
 */
void repair_counts_cost(const struct layout *l, const struct repair_policy *policy,
			const double *count, struct repair_estimate *out);

#endif
