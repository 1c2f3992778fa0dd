// SPDX-License-Identifier: Apache-2.0
/*
 * A histogram of durations, of fixed size: adding a value takes a few instructions and never fails.
 *
 * Buckets are logarithmic, HIST_STEPS for each doubling from HIST_MIN_NS on. The width of a bucket is at most 25%
 * of its start. A quantile is interpolated inside its bucket, so its error is at most 25%, and usually much less.
 * One bucket holds all values below HIST_MIN_NS, and one all values above the last bound of 4.6 minutes.
 */
#ifndef OPS_HIST_H
#define OPS_HIST_H

#include <stdint.h>

struct strbuf;

#define HIST_MIN_LOG2 10 /* log2 of the first bound in ns: 2^10 ns, about a microsecond */
#define HIST_DOUBLINGS 28
#define HIST_STEPS 4 /* buckets per doubling of the duration */
#define HIST_MIN_NS (1ULL << HIST_MIN_LOG2)
#define HIST_BUCKETS (HIST_DOUBLINGS * HIST_STEPS + 2)

/* Zeroed memory is an empty histogram. */
struct hist {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t bucket[HIST_BUCKETS];
};

/* Adds a duration of ns nanoseconds to a histogram. */
void hist_add(struct hist *h, uint64_t ns);
/* Adds the durations of another histogram. */
void hist_merge(struct hist *h, const struct hist *other);

/*
 * Returns the q-quantile of the durations in ns, q in [0, 1]; at most max_ns; 0 if the histogram is
 * empty.
 */
uint64_t hist_quantile_ns(const struct hist *h, double q);

/*
 * Prints a histogram as the series of a Prometheus histogram, in seconds: NAME_bucket with a bound at every second
 * doubling, NAME_sum and NAME_count. labels is a list such as `a="x",b="y"`, or empty. The caller prints HELP and
 * TYPE, once for all series of the name. -EMSGSIZE, -ENOMEM.
 */
int hist_prometheus(const struct hist *h, const char *name, const char *labels, struct strbuf *out);

#endif
