// SPDX-License-Identifier: Apache-2.0
/*
 * How fast this machine encodes, on one core: whole stripes of noise through the codec that runs,
 * again and again, timed in slices. User bytes a second.
 */
#ifndef ANALYSIS_ENCODE_H
#define ANALYSIS_ENCODE_H

#include "analysis/stats.h"
#include "code/encoding.h"

#define ENCODE_SLICES 5

struct encode_speed {
	double bytes_per_s;    /* the median of the slices */
	struct interval range; /* the slowest and the fastest */
};

struct encode_options {
	double (*cpu_s)(void); /* processor time of this thread, so that neighbours count less */
	double slice_s;
	size_t chunk_bytes; /* less when a stripe would not fit ENCODE_MEMORY_MAX */
};

#define ENCODE_MEMORY_MAX ((size_t)256 << 20)

/* -EINVAL as encoding_check(), -ENOMEM. */
int encode_measure(const struct encoding *e, const struct encode_options *o,
		   struct encode_speed *speed);

#endif
