// SPDX-License-Identifier: Apache-2.0
/*
 * Markov chains of section 3.3.4 of the MLEC dissertation (README.md): mean times to a loss, exact
 * for the chain. The elimination of Grassmann, Taksar and Heyman never subtracts, so 10^-40 is
 * computed as precisely as 0.1.
 *
 * markov_level_rate() is the chain of one level: state j means that stripes with j losses exist.
 *
 *   up     each working member fails at its constant rate
 *   down   a state lasts as long as detection and repair of its stripes take, as if they had all
 *          been hit at once; that time is taken as exponential
 *   loss   the step from j to j + 1 losses loses data with probability 1 - exp(-m), where m is the
 *          mean number of stripes for which loss j + 1 is fatal
 *
 * The chain is exact in clustered levels: members are down independently, and the time between
 * losses then depends on the mean down time alone, whatever its distribution. In declustered levels
 * the chain ignores partial repairs, and that the repair of a stripe begins before all its losses
 * are known: there the chain is a rough check: its result is a nine or two too low.
 */
#ifndef ANALYSIS_MARKOV_H
#define ANALYSIS_MARKOV_H

#include "analysis/damage.h"

/*
 * Returns the mean time from state 0 of n states to the loss; INFINITY when the loss cannot be
 * reached. rate[i * n + j] is the rate from i to j, loss[i] the rate from i to the loss, all >= 0;
 * the diagonal is ignored. Overwrites both arrays.
 */
double markov_mean_time(double *rate, double *loss, uint32_t n);

/*
 * Returns the mean time until p + 1 of n devices are down at once; each fails at rate `fail`, and
 * one repair at a time runs at rate `repair`: equation 3.2 of the MLEC dissertation without its
 * approximation that repair is much faster than failure.
 */
double markov_device_time(uint32_t n, uint32_t p, double fail, double repair);

/* Returns the losses a second of one level in which every failing member causes the same hit. */
double markov_level_rate(const struct level *level, const struct damage_hit *hit);

/*
 * Computes, for a pool that first loses a stripe, the mean number of its lost stripes and of the
 * missing chunks of its other stripes.
 */
void markov_level_loss(const struct level *level, double *lost, double *missing);

#endif
