// SPDX-License-Identifier: Apache-2.0
#include "analysis/markov.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/*
 * Eliminates the states from the last to the first. Transitions into state s are redirected to the
 * targets of s, and the time spent in s is added to the states they came from. The rate out of s is
 * the sum of its remaining transitions, never a difference.
 */
double markov_mean_time(double *rate, double *loss, uint32_t n)
{
	assert(n >= 1);
	double time[LEVEL_LOSSES_MAX * 64];
	if (n == 0 || n > sizeof(time) / sizeof(time[0]))
		return 0;
	for (uint32_t i = 0; i < n; i++)
		time[i] = 1;
	for (uint32_t s = n; s-- > 1;) {
		double out = loss[s];
		for (uint32_t j = 0; j < s; j++)
			out += rate[s * n + j];
		if (out <= 0) { /* the state is absorbing: no loss follows from it */
			for (uint32_t i = 0; i < s; i++)
				if (rate[i * n + s] > 0)
					time[i] = INFINITY;
			continue;
		}
		for (uint32_t i = 0; i < s; i++) {
			double share = rate[i * n + s] / out;
			for (uint32_t j = 0; j < s; j++)
				if (j != i)
					rate[i * n + j] += share * rate[s * n + j];
			loss[i] += share * loss[s];
			time[i] += share > 0 ? share * time[s] : 0;
		}
	}
	return loss[0] > 0 ? time[0] / loss[0] : INFINITY;
}

double markov_device_time(uint32_t n, uint32_t p, double fail, double repair)
{
	assert(p < n && fail > 0);
	/*
	 * The mean time from j to j + 1 devices down is 1/up + down/up * the mean time from j - 1
	 * to j.
	 */
	double step = 0, sum = 0;
	for (uint32_t j = 0; j <= p && j < n; j++) {
		double up = (n - j) * fail;
		step = 1 / up + (j > 0 ? repair / up * step : 0);
		sum += step;
	}
	return sum;
}

/* Returns the probability that the next failure hits a stripe that has j losses. */
static double hit_chance(const struct level *l, uint32_t j, double part)
{
	assert(j <= l->width);
	if (l->clustered)
		return part;
	double p = part * (l->width - j) / (l->members - j);
	return p < 1 ? p : 1;
}

/* Computes stripes[j], the number of stripes with j losses after j members fail at once. */
static void count_stripes(const struct level *l, double part, double *stripes)
{
	stripes[0] = l->stripes;
	for (uint32_t j = 1; j <= l->max_losses + 1; j++)
		stripes[j] = stripes[j - 1] * hit_chance(l, j - 1, part) *
			     (j <= l->max_losses ? 1 - l->fatal[j] : 1);
}

/* Returns the rate at which repair ends state j. */
static double way_down(const struct level *l, const struct damage_hit *hit, double stripes,
		       uint32_t j)
{
	assert(j >= 1);
	double rate = level_rate(l, j, j, l->members - j);
	/* in a single-overlap level only the members of one set are read */
	if (l->pace == LEVEL_PACE_SETS)
		rate = l->member_rate * (l->width - j) / l->k;
	/* Each of the j members, disks or pools, is rebuilt independently. */
	if (l->clustered && hit->part >= 1)
		return j / (l->detect_s + l->stripes * hit->cost / rate);
	return 1 / (l->detect_s + stripes * hit->cost / rate);
}

double markov_level_rate(const struct level *level, const struct damage_hit *hit)
{
	uint32_t n = level->max_losses + 1;
	double stripes[LEVEL_LOSSES_MAX + 2], loss[LEVEL_LOSSES_MAX + 1] = {0};
	double rate[(LEVEL_LOSSES_MAX + 1) * (LEVEL_LOSSES_MAX + 1)] = {0};
	count_stripes(level, hit->part, stripes);
	for (uint32_t j = 0; j < n; j++) {
		double up = (level->members - j) * level->fail_rate;
		double too_many =
			stripes[j] * hit_chance(level, j, hit->part) * level->fatal[j + 1];
		double lost = -expm1(-too_many);
		loss[j] = up * lost;
		if (j + 1 < n)
			rate[j * n + j + 1] = up * (1 - lost);
		if (j > 0)
			rate[j * n + j - 1] = way_down(level, hit, stripes[j], j);
	}
	return 1 / markov_mean_time(rate, loss, n);
}

void markov_level_loss(const struct level *level, double *lost, double *missing)
{
	double stripes[LEVEL_LOSSES_MAX + 2];
	double failed = level->max_losses + 1.0,
	       chunks = failed * level->stripes * level->width / level->members;
	count_stripes(level, 1, stripes);
	/*
	 * Clustered: when p + 1 members are down, the repair of the oldest one is p / (p + 1)
	 * complete on average, that of the next one (p - 1) / (p + 1), and so on.
	 */
	if (level->clustered) {
		*lost = level->stripes / failed;
		*missing = chunks / 2 - *lost * failed / 2;
		return;
	}
	double m = stripes[level->max_losses + 1];
	*lost = m / -expm1(-m);
	*missing = chunks - *lost * failed;
}
