// SPDX-License-Identifier: Apache-2.0
/*
 * Histogram of durations, of fixed size: adding is a few instructions and never fails.
 *
 * Buckets are logarithmic, HIST_STEPS to each doubling from HIST_MIN_NS on: a bucket is at most 25%
 * wide, and a quantile, which is interpolated inside its bucket, is at most that far from the value
 * that was added, usually much less. Below the first bound and beyond the last, some four and a half
 * minutes, there is one bucket each.
 */
#ifndef OPS_HIST_H
#define OPS_HIST_H

#include <stdint.h>

struct strbuf;

#define HIST_MIN_LOG2 10 /* the first bound is 2^10 ns, a microsecond */
#define HIST_DOUBLINGS 28
#define HIST_STEPS 4
#define HIST_MIN_NS (1ULL << HIST_MIN_LOG2)
#define HIST_BUCKETS (HIST_DOUBLINGS * HIST_STEPS + 2)

/* All zero is an empty one. */
struct hist {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t bucket[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t ns);

/* Adds all that is in another one. */
void hist_merge(struct hist *h, const struct hist *other);

/* The value that a share q of all values is not above, q in [0, 1]; 0 when empty, never above max. */
uint64_t hist_quantile_ns(const struct hist *h, double q);

/* 0 when empty. */
uint64_t hist_mean_ns(const struct hist *h);

/*
 * The series of a Prometheus histogram, in seconds: NAME_bucket with a bound at every second
 * doubling, NAME_sum and NAME_count. labels is `a="x",b="y"` or empty; HELP and TYPE are the
 * caller's, once for all series of the name. -EMSGSIZE, -ENOMEM.
 */
int hist_prometheus(const struct hist *h, const char *name, const char *labels, struct strbuf *out);

#endif
