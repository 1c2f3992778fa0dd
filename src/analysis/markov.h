// SPDX-License-Identifier: Apache-2.0
/*
 * Markov chains of section 3.3.4: mean times to a loss, exact for the chain, without subtracting
 * anything, so that 10^-40 comes out as right as 0.1 (elimination in the manner of Grassmann, Taksar
 * and Heyman).
 *
 * markov_level_rate() is the chain of one level: state j means that stripes with j losses exist.
 *
 *   up     each of the members that are left fails at its constant rate
 *   down   a state lasts as long as detection and repair of its stripes take, as if they had all
 *          been hit at once; that time is taken as exponential
 *   loss   from j to j + 1 losses data is lost with probability 1 - exp(-m), m the stripes for which
 *          that is too many
 *
 * Where the assumptions hold it is the truth: in clustered levels members are down one by one,
 * independently, and the time between losses then depends on the mean down time alone, whatever its
 * distribution. In declustered levels partial repairs are left out, and that stripes are repaired as
 * soon as some of their losses are known: the chain is a rough check, a nine or two too low.
 */
#ifndef ANALYSIS_MARKOV_H
#define ANALYSIS_MARKOV_H

#include "analysis/damage.h"

/*
 * Mean time from state 0 of n states to the loss. rate[i * n + j] is from i to j, loss[i] from i to
 * the loss, all >= 0; the diagonal is ignored. Both are used up. INFINITY when no way leads there.
 */
double markov_mean_time(double *rate, double *loss, uint32_t n);

/*
 * Mean time until p + 1 of n devices are down at once; each fails at `fail`, and one repair at a time
 * runs at `repair`: equation 3.2 without its approximation that repair is much faster.
 */
double markov_device_time(uint32_t n, uint32_t p, double fail, double repair);

/* Losses a second of one level, each failing member hitting as much. */
double markov_level_rate(const struct level *level, const struct damage_hit *hit);

/* Stripes, and their missing chunks, that a pool has lost when it first loses any, on average. */
void markov_level_loss(const struct level *level, double *lost, double *missing);

#endif
