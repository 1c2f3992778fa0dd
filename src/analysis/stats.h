// SPDX-License-Identifier: Apache-2.0
/*
 * Intervals that contain the true value of an estimate with the given confidence (0.95 unless
 * stated otherwise), and the sums, binomials and quantiles that the studies use.
 *
 * Which interval to use:
 *   a share of trials                 stats_clopper_pearson(): never too narrow, good for 0 of n
 *                                     stats_wilson(): shorter, right on average
 *   a mean of probabilities           stats_bounded_mean()
 *   a mean of values >= 0 that spans  stats_log_mean(): symmetric in the logarithm, so the lower end
 *   orders of magnitude               stays above 0; used for nines
 */
#ifndef ANALYSIS_STATS_H
#define ANALYSIS_STATS_H

#include <stdbool.h>
#include <stdint.h>

#define STATS_CONFIDENCE 0.95

struct interval {
	double low, high;
};

/* Return an interval for the probability behind `hits` hits in n trials; 0 to 1 for n = 0. */
struct interval stats_wilson(uint64_t hits, uint64_t n, double confidence);
struct interval stats_clopper_pearson(uint64_t hits, uint64_t n, double confidence);

/* Sums of values. The caller adds values or other sums in a fixed order, so that results repeat. */
struct stats_sum {
	uint64_t n;
	double mean;
	double squares; /* sum of the squared distances from the mean */
};

void stats_add(struct stats_sum *s, double value);
void stats_merge(struct stats_sum *s, const struct stats_sum *other);
/* Returns the standard error of the mean; infinite for fewer than two values. */
double stats_error(const struct stats_sum *s);

/*
 * Returns an interval for the mean of n values from 0 to `most`, most of which may be 0 and a few
 * of which may be large. It assumes the largest variance that is possible: every value is 0 or
 * `most`, with as many hits as give the mean.
 */
struct interval stats_bounded_mean(double mean, double most, uint64_t n, double confidence);

/*
 * Returns the interval of nines for an interval of loss probabilities: -log10 of both ends,
 * exchanged.
 */
struct interval stats_nines(const struct interval *loss);

/* Returns the quantile of the normal distribution, 0 < p < 1: 1.96 for 0.975. */
double stats_normal_quantile(double p);

/*
 * Returns the quantile of Student's distribution with `freedom` degrees of freedom; accurate to
 * 0.1% for 10 or more.
 */
double stats_student_quantile(double p, double freedom);

/* Returns ln of the binomial coefficient n over k; -infinity when it is 0. */
double stats_log_choose(double n, double k);

/* Returns the probability that `drawn` of `all` items contain k of the `marked` ones. */
double stats_hypergeometric(uint32_t all, uint32_t marked, uint32_t drawn, uint32_t k);
/*
 * Returns the probability that the drawn items contain more than k marked ones, summed from the
 * smallest term, so that small results are precise.
 */
double stats_hypergeometric_above(uint32_t all, uint32_t marked, uint32_t drawn, uint32_t k);

/*
 * Returns the probability that any of n independent events of probability p happens: 1 -
 * (1-p)^n.
 */
double stats_any(double p, double n);

#endif
