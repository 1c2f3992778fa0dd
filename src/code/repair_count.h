// SPDX-License-Identifier: Apache-2.0
/*
 * Repair costs from counts instead of stripes: for a pool of any size at once.
 *
 * A pool is described by how many of its local stripes have 0, 1, ... rows failed chunks. Disks
 * that fail at once give expected counts: when one of `alive` disks fails, a stripe with j failed
 * chunks has rows - j members among them and is hit with probability (rows - j) / alive. Doing that
 * once per failed disk gives the hypergeometric distribution; in a clustered pool it hits all
 * stripes. failure_pool_counts() gives exact counts instead. From exact counts the totals below are
 * those of the plan, chunk by chunk (one catastrophic pool, nothing else failed).
 *
 * What R_ALL and R_FCO do turns on whether the pool is catastrophic at all, so their cost is not
 * that of expected counts: pl + 1 failed disks of a single-overlap pool seldom meet in a stripe, and
 * then nothing crosses racks, while on average a small part of a stripe set is lost. Given that the
 * pool is catastrophic, the cost of all four is a sum over stripes, and the cost of the conditional
 * expectation is the conditional expectation of the cost: repair_counts_catastrophic().
 */
#ifndef CODE_REPAIR_COUNT_H
#define CODE_REPAIR_COUNT_H

#include "code/repair.h"

/* All stripes of a pool intact (as many as a pool has in use on average): count[0] to count[rows].
 */
void repair_counts_init(const struct layout *l, double *count);

/* One more disk of the pool fails, of `alive` >= 1 that have not. */
void repair_counts_fail(const struct layout *l, uint32_t alive, double *count);

/*
 * Expected counts when `failed` disks of an intact pool fail. -ERANGE: more than it has;
 * -EOPNOTSUPP: an LRC, whose repair is not decided by counts.
 */
int repair_counts_expected(const struct layout *l, uint32_t failed, double *count);

/*
 * Expected counts of those cases only in which the pool is catastrophic, and the probability of
 * them; all zero when it cannot be. Clustered: exact. Declustered: as if each stripe drew its disks
 * on its own, which is a little off in pools of few stripes, where those of a round share none. Single-overlap: from 2,000 random sets of failed disks, always the same, that break
 * one stripe set, weighted by how many others they break. -ERANGE, -EOPNOTSUPP as above.
 */
int repair_counts_catastrophic(const struct layout *l, uint32_t failed, double *probability,
			       double *count);

struct repair_estimate {
	double lost_local;                /* local stripes that the pool cannot repair */
	double net_reads, net_writes;     /* chunks */
	double local_reads, local_writes; /* chunks */
	double cross_reads, cross_writes; /* chunks */
	double lost_stripes;              /* pn = 0: network stripes without repair */
};

/*
 * What the method does to a pool with these counts, which it takes for catastrophic if any local
 * stripe is lost.
 */
void repair_counts_cost(const struct layout *l, const struct repair_policy *policy,
			const double *count, struct repair_estimate *out);

#endif
