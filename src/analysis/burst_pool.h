// SPDX-License-Identifier: Apache-2.0
/*
 * The share of layouts of f failed disks in one local pool that make it catastrophic.
 *
 * Clustered and declustered: no layout of up to pl disks, all layouts of more. Single-overlap: the
 * layouts in which some stripe set, a translate of the base set (code/baseset.h), has more than pl
 * failed disks. These layouts are counted one by one while there are few; rotating a layout changes
 * nothing, so one disk is held fixed. For more failed disks the layouts are sampled: disks fail one
 * after the other in random order until the pool breaks; how often the pool has broken by failure f
 * gives the shares for all f at once.
 */
#ifndef ANALYSIS_BURST_POOL_H
#define ANALYSIS_BURST_POOL_H

#include "analysis/system.h"
#include "analysis/work.h"

struct burst_pool {
	uint32_t disks;
	/* largest number of failed disks; the arrays have entries 0 to most */
	uint32_t most;
	/* by failed disks: the share that is broken, and 1 - share to full precision */
	double *broken, *intact;
	double *low, *high; /* 95% interval of `broken` */
	bool exact;
};

/*
 * Computes the shares for up to `most` failed disks; a stripe survives `tolerance` failed chunks.
 * Returns 0, -ENOMEM or -EAGAIN.
 */
int burst_pool_init(struct burst_pool *p, const struct layout *l, uint32_t tolerance, uint32_t most,
		    const struct work *w);
void burst_pool_fini(struct burst_pool *p);

/*
 * Returns whether some stripe set of a single-overlap pool has more than `tolerance` of these n
 * failed disks.
 */
bool burst_pool_overlap_broken(const struct layout *l, uint32_t tolerance, const uint32_t *failed,
			       uint32_t n, uint32_t *lost_sets);

#endif
