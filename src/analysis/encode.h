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
	double bytes_per_s;    /* encoded user bytes a second: the median of the slices */
	struct interval range; /* the slowest and the fastest */
};

struct encode_options {
	/*
	 * returns the processor time of this thread in s, which other processes affect less than
	 * the time of day
	 */
	double (*cpu_s)(void);
	double slice_s;
	/* size of a chunk; made smaller when a stripe would not fit ENCODE_MEMORY_MAX */
	size_t chunk_bytes;
};

#define ENCODE_MEMORY_MAX ((size_t)256 << 20)

/*
 * Measures the encoding throughput. Returns 0, -EINVAL when encoding_check() refuses e, or -ENOMEM.
 */
int encode_measure(const struct encoding *e, const struct encode_options *o,
		   struct encode_speed *speed);

#endif
