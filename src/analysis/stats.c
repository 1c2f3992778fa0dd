// SPDX-License-Identifier: Apache-2.0
#include "analysis/stats.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "base/base.h"

#define BETA_STEPS_MAX 10000

double stats_normal_quantile(double p)
{
	assert(p > 0 && p < 1);
	double low = -40, high = 40;
	for (int i = 0; i < 100; i++) {
		double x = (low + high) / 2;
		if (erfc(-x / M_SQRT2) / 2 < p)
			low = x;
		else
			high = x;
	}
	return (low + high) / 2;
}

/*
 * Computes the quantile from the normal one, with the first two terms of the Cornish-Fisher
 * expansion.
 */
double stats_student_quantile(double p, double freedom)
{
	assert(freedom > 0);
	double z = stats_normal_quantile(p), z3 = z * z * z;
	return z + (z3 + z) / (4 * freedom) +
	       (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

struct interval stats_wilson(uint64_t hits, uint64_t n, double confidence)
{
	assert(hits <= n);
	if (n == 0)
		return (struct interval){0, 1};
	double z = stats_normal_quantile(0.5 + confidence / 2);
	double m = (double)n, p = (double)hits / m;
	double middle = p + z * z / (2 * m);
	double half = z * sqrt(p * (1 - p) / m + z * z / (4 * m * m));
	double scale = 1 + z * z / m;
	return (struct interval){
		hits == 0 ? 0 : (middle - half) / scale,
		hits == n ? 1 : (middle + half) / scale,
	};
}

static double log_gamma(double x)
{
	int sign;
	return lgamma_r(x, &sign);
}

/* Evaluates the continued fraction of the incomplete beta function by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 / (1 - (a + b) * x / (a + 1));
	double f = d;
	for (int m = 1; m <= BETA_STEPS_MAX; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		d = 1 / (1 + even * d);
		c = 1 + even / c;
		f *= c * d;
		d = 1 / (1 + odd * d);
		c = 1 + odd / c;
		f *= c * d;
		if (fabs(c * d - 1) < 4 * DBL_EPSILON)
			break;
	}
	return f;
}

/* Returns the cumulative beta distribution with shapes a, b > 0 at x. */
static double stats_beta(double a, double b, double x)
{
	if (x <= 0)
		return 0;
	if (x >= 1)
		return 1;
	double front =
		exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/* Returns the p-quantile of the beta distribution. */
static double beta_quantile(double a, double b, double p)
{
	assert(a > 0 && b > 0 && p >= 0 && p <= 1);
	double low = 0, high = 1;
	for (int i = 0; i < 200 && high - low > 1e-15 * high; i++) {
		double x = (low + high) / 2;
		if (stats_beta(a, b, x) < p)
			low = x;
		else
			high = x;
	}
	return (low + high) / 2;
}

/* Returns the Clopper-Pearson interval for k hits in n trials; k need not be an integer. */
static struct interval beta_interval(double k, double n, double confidence)
{
	assert(k >= 0 && k <= n && confidence > 0 && confidence < 1);
	double tail = (1 - confidence) / 2;
	return (struct interval){
		k <= 0 ? 0 : beta_quantile(k, n - k + 1, tail),
		k >= n ? 1 : beta_quantile(k + 1, n - k, 1 - tail),
	};
}

struct interval stats_clopper_pearson(uint64_t hits, uint64_t n, double confidence)
{
	return beta_interval((double)hits, (double)n, confidence);
}

struct interval stats_bounded_mean(double mean, double most, uint64_t n, double confidence)
{
	assert(most > 0 && mean >= 0 && mean <= most);
	double hits = most > 0 ? mean / most * (double)n : 0;
	struct interval i = beta_interval(hits, (double)n, confidence);
	return (struct interval){i.low * most, i.high * most};
}

void stats_add(struct stats_sum *s, double value)
{
	double off = value - s->mean;
	s->n++;
	s->mean += off / (double)s->n;
	s->squares += off * (value - s->mean);
}

void stats_merge(struct stats_sum *s, const struct stats_sum *other)
{
	if (other->n == 0)
		return;
	double n = (double)(s->n + other->n);
	double off = other->mean - s->mean;
	s->squares += other->squares + off * off * (double)s->n * (double)other->n / n;
	s->mean += off * (double)other->n / n;
	s->n += other->n;
}

double stats_error(const struct stats_sum *s)
{
	if (s->n < 2)
		return INFINITY;
	return sqrt(s->squares / (double)(s->n - 1) / (double)s->n);
}

struct interval stats_nines(const struct interval *loss)
{
	return (struct interval){0 - log10(loss->high), 0 - log10(loss->low)}; /* avoids -0 */
}

double stats_log_choose(double n, double k)
{
	if (k < 0 || k > n)
		return -INFINITY;
	return log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1);
}

double stats_hypergeometric(uint32_t all, uint32_t marked, uint32_t drawn, uint32_t k)
{
	assert(marked <= all && drawn <= all);
	if (k > marked || k > drawn || drawn - k > all - marked)
		return 0;
	return exp(stats_log_choose(marked, k) + stats_log_choose(all - marked, drawn - k) -
		   stats_log_choose(all, drawn));
}

double stats_hypergeometric_above(uint32_t all, uint32_t marked, uint32_t drawn, uint32_t k)
{
	double sum = 0;
	for (uint32_t j = (uint32_t)min_u64(marked, drawn); j > k; j--)
		sum += stats_hypergeometric(all, marked, drawn, j);
	return sum > 1 ? 1 : sum;
}

double stats_any(double p, double n)
{
	if (p >= 1)
		return n > 0 ? 1 : 0;
	return -expm1(n * log1p(-p));
}
