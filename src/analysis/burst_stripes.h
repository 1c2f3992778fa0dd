// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the burst files: the probability of data loss for stripes that take random racks,
 * summed over all ways to spread the failures over racks. See burst_stripes.c.
 */
#ifndef ANALYSIS_BURST_STRIPES_H
#define ANALYSIS_BURST_STRIPES_H

#include "analysis/burst.h"

/* A stripe takes `width` of `racks` racks, in each one of rack_disks disks. */
struct burst_stripes {
	uint32_t racks, rack_disks, width;
	double stripes;
	/*
	 * compute min(1, stripes * q), an upper bound, instead of 1 - (1 - q)^stripes; q:
	 * probability that one stripe is lost
	 */
	bool mean;
	const double *loss; /* loss[j]: probability that a stripe with j failed chunks is lost */
};

/*
 * Fills pdl as in struct burst_map; with `one` fills only its last entry. Returns 0, -ENOMEM or
 * -EAGAIN.
 */
int burst_stripes_count(const struct burst_stripes *s, const struct work *w, uint32_t failed,
			uint32_t racks, bool one, double *pdl);

/*
 * Computes the probability that one random stripe is lost, given the share of failed disks (or lost
 * local stripes) of each of the n affected racks. Returns 0 or -ENOMEM.
 */
int burst_stripe_loss(const struct burst_stripes *s, const double *share, uint32_t n, double *loss);

#endif
