// SPDX-License-Identifier: Apache-2.0
/*
 * How fast disks answer, to tell what is slow. A quantile is followed without keeping samples: each
 * sample above the estimate pushes it up by q, each below down by 1 - q, in steps that are a part
 * of the estimate itself; it stands still where a share q of the samples lies below.
 */
#ifndef CLIENT_PACE_H
#define CLIENT_PACE_H

#include <stdint.h>

/* Of reads up to PACE_SMALL_BYTES, and of larger ones by the MiB. */
#define PACE_SMALL_BYTES ((uint64_t)256 * 1024)

struct pace {
	double small_ns; /* the 95th percentile */
	double mib_ns;
	uint64_t small_count, mib_count;
};

void pace_add(struct pace *p, uint64_t len, uint64_t took_ns);

/* After how long an answer of len bytes is slow: three times the 95th percentile, within bounds. */
uint64_t pace_slow_ns(const struct pace *p, uint64_t len);

/* A mean that follows: an eighth of each new sample. 0 means none yet. */
static inline uint64_t pace_mean(uint64_t mean_ns, uint64_t sample_ns)
{
	return mean_ns == 0 ? sample_ns : mean_ns - mean_ns / 8 + sample_ns / 8;
}

#endif
