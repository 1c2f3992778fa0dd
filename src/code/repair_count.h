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
 */
#ifndef CODE_REPAIR_COUNT_H
#define CODE_REPAIR_COUNT_H

#include "code/repair.h"

/* All stripes of a pool intact: count[0] to count[rows]. */
void repair_counts_init(const struct layout *l, double *count);

/* One more disk of the pool fails, of `alive` >= 1 that have not. */
void repair_counts_fail(const struct layout *l, uint32_t alive, double *count);

/*
 * Expected counts when `failed` disks of an intact pool fail. -ERANGE: more than it has;
 * -EOPNOTSUPP: an LRC, whose repair is not decided by counts.
 */
int repair_counts_expected(const struct layout *l, uint32_t failed, double *count);

struct repair_estimate {
	double lost_local;                /* local stripes that the pool cannot repair */
	double net_reads, net_writes;     /* chunks */
	double local_reads, local_writes; /* chunks */
	double cross_reads, cross_writes; /* chunks */
	double lost_stripes;              /* pn = 0: network stripes without repair */
};

/* What the method does to a pool with these counts. */
void repair_counts_cost(const struct layout *l, const struct repair_policy *policy,
			const double *count, struct repair_estimate *out);

#endif
