// SPDX-License-Identifier: Apache-2.0
/* Tracks how fast disks answer, to tell which reads are slow. A quantile q is estimated without
 * keeping samples: a sample above the estimate raises it by a step times q, one below lowers it
 * by a step times 1 - q; a step is a fraction of the estimate. The estimate is stable where a
 * share q of the samples is below it. */
#ifndef CLIENT_PACE_H
#define CLIENT_PACE_H

#include <stdint.h>

/* Small reads are tracked by their duration, larger ones by their duration per MiB. */
#define PACE_SMALL_BYTES ((uint64_t)256 * 1024)

struct pace {
	double small_ns; /* 95th percentile of small reads */
	double mib_ns;   /* 95th percentile of larger reads, per MiB */
	uint64_t small_count, mib_count;
};

/* Adds the duration of a read of len bytes. */
void pace_add(struct pace *p, uint64_t len, uint64_t took_ns);

/* Returns the time after which a read of len bytes is slow: three times the 95th percentile,
 * between 10 ms and 5 s; 500 ms while there are few samples. */
uint64_t pace_slow_ns(const struct pace *p, uint64_t len);

/* Returns the exponential mean with a weight of 1/8 for the new sample. mean_ns 0: there was
 * no earlier sample. */
static inline uint64_t pace_mean(uint64_t mean_ns, uint64_t sample_ns)
{
	return mean_ns == 0 ? sample_ns : mean_ns - mean_ns / 8 + sample_ns / 8;
}

#endif
