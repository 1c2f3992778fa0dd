// SPDX-License-Identifier: Apache-2.0
/*
 * What an estimate is worth: intervals that hold the true value with the given confidence (0.95
 * everywhere unless said otherwise), and the sums and binomials that studies are made of.
 *
 * Which one to use:
 *   a share of trials                 stats_clopper_pearson(): never too narrow, good for 0 of n
 *                                     stats_wilson(): shorter, right on average
 *   a mean of probabilities           stats_bounded_mean()
 *   a mean of values >= 0 that spans  stats_log_mean(): symmetric in the logarithm, so the lower end
 *   orders of magnitude               stays above 0; what goes with "nines"
 */
#ifndef ANALYSIS_STATS_H
#define ANALYSIS_STATS_H

#include <stdbool.h>
#include <stdint.h>

#define STATS_CONFIDENCE 0.95

struct interval {
	double low, high;
};

/* `hits` of n trials. n = 0 gives 0 to 1. */
struct interval stats_wilson(uint64_t hits, uint64_t n, double confidence);
struct interval stats_clopper_pearson(uint64_t hits, uint64_t n, double confidence);

/* Sums of values, added one by one or sum by sum; the order is the caller's to fix. */
struct stats_sum {
	uint64_t n;
	double mean;
	double squares; /* of the distances from the mean */
};

void stats_add(struct stats_sum *s, double value);
void stats_merge(struct stats_sum *s, const struct stats_sum *other);
/* Standard error of the mean; infinite below two values. */
double stats_error(const struct stats_sum *s);

/*
 * Of a mean of n values from 0 to `most`, which may be nearly all 0 and then a few large ones: as if
 * each were 0 or `most`, the least even that they can be, with as many hits as give the mean.
 */
struct interval stats_bounded_mean(double mean, double most, uint64_t n, double confidence);

/*
 * Of a mean of values >= 0: mean / f to mean * f with f = exp(z * error / mean). A mean of 0 says
 * nothing here: 0 to infinity.
 */
struct interval stats_log_mean(const struct stats_sum *s, double confidence);

/* -log10 of both ends: more nines are less loss, so the ends change places. */
struct interval stats_nines(const struct interval *loss);

/* The normal distribution's quantile, 0 < p < 1: 1.96 for 0.975. */
double stats_normal_quantile(double p);

/* Student's, with so many degrees of freedom (10 or more: to 0.1%). */
double stats_student_quantile(double p, double freedom);

/* The part of the beta distribution with shapes a, b > 0 below x. */
double stats_beta(double a, double b, double x);

/* ln of n over k; -infinity when there is no way. */
double stats_log_choose(double n, double k);

/* Probability of k marked ones among `drawn` of `all`, of which `marked` are. */
double stats_hypergeometric(uint32_t all, uint32_t marked, uint32_t drawn, uint32_t k);
/* Of more than k; summed from the small end, so that it is right down to the smallest numbers. */
double stats_hypergeometric_above(uint32_t all, uint32_t marked, uint32_t drawn, uint32_t k);

/* Probability that one of n events happens, each on its own with probability p: 1 - (1-p)^n. */
double stats_any(double p, double n);

#endif
