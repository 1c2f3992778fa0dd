// SPDX-License-Identifier: Apache-2.0
/*
 * Measures the encoding throughput of one core in user bytes a second: the production codec encodes
 * stripes of random bytes repeatedly, and slices of the run are timed.
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
	double (*cpu_s)(void); /* processor time of this thread, less affected by other processes */
	double slice_s;
	size_t chunk_bytes; /* less when a stripe would not fit ENCODE_MEMORY_MAX */
};

#define ENCODE_MEMORY_MAX ((size_t)256 << 20)

/* Returns 0, -EINVAL as encoding_check(), or -ENOMEM. */
int encode_measure(const struct encoding *e, const struct encode_options *o,
		   struct encode_speed *speed);

#endif
