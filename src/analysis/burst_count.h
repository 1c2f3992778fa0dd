// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the burst files: counts layouts of failures in which pools break. See burst_count.c.
 */
#ifndef ANALYSIS_BURST_COUNT_H
#define ANALYSIS_BURST_COUNT_H

#include "analysis/burst_pool.h"

/* The properties of the system that counting needs. */
struct burst_shape {
	bool clustered;         /* the network placement is clustered, else declustered */
	uint32_t racks;         /* racks of the system */
	uint32_t columns;       /* racks of a group in a clustered network */
	uint32_t net_tolerance; /* most broken pools that a network stripe survives */
	uint32_t rack_pools;    /* pools of a rack */
};

/*
 * Fills pdl as in struct burst_map. `broken` and `intact` are the shares of burst_pool.h, or the
 * ends of their intervals. Returns 0, -ENOMEM, or -E2BIG when counting would take many minutes.
 */
int burst_count(const struct burst_shape *shape, const struct burst_pool *pool,
		const double *broken, const double *intact, uint32_t failed, uint32_t racks,
		double *pdl);

#endif
