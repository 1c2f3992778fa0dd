// SPDX-License-Identifier: Apache-2.0
/* Inside burst: stripes that take random racks, counted over all partitions. See burst_stripes.c. */
#ifndef ANALYSIS_BURST_STRIPES_H
#define ANALYSIS_BURST_STRIPES_H

#include "analysis/burst.h"

/* A stripe takes `width` of `racks` racks, in each one of rack_disks disks. */
struct burst_stripes {
	uint32_t racks, rack_disks, width;
	double stripes;
	bool mean;          /* give stripes x probability of one, at most 1, not that of any */
	const double *loss; /* loss[j]: probability that a stripe with j failed chunks is lost */
};

/* Fills pdl for all, or with `one` for the last field only. -ENOMEM. */
int burst_stripes_count(const struct burst_stripes *s, const struct work *w, uint32_t failed,
			uint32_t racks, bool one, double *pdl);

/*
 * The probability that one random stripe is lost, given for each of n racks that are hit the share
 * of its disks (or of its local stripes) that failed. -ENOMEM.
 */
int burst_stripe_loss(const struct burst_stripes *s, const double *share, uint32_t n, double *loss);

#endif
