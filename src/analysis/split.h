// SPDX-License-Identifier: Apache-2.0
/*
 * Splitting: estimates the rate at which a level loses stripes when losses are too rare to
 * simulate.
 *
 * Every loss is preceded by stripes with 1, 2, ... losses (damage_top()). A *cycle* begins with a
 * failure while no member is out and ends when all members are repaired. Stage j starts from many
 * states in which stripes with j losses have just appeared, and continues each to the end of the
 * cycle:
 *
 *   - While stripes with j losses exist, a failure has a small known probability q, from the
 *     accumulated hazard of damage_walk(). Each state is continued both ways: with weight q a failure
 *     happens at a random moment of that time, with weight 1 - q it does not. So the rare case is
 *     always simulated, and its probability is a computed factor.
 *   - Once fewer losses are left, the state is simulated without splitting until it has j losses
 *     again or is idle. In later stages only some of these states are continued, with their weights
 *     raised accordingly.
 *
 * States that reach j + 1 losses are resampled in proportion to their weights and start the next
 * stage. At each failure that loses m stripes on average, 1 - exp(-m) of the weight has lost data;
 * the rest of the weight continues. After the last stage more stages with further failures follow
 * until they add almost nothing.
 *
 * A level that *survives* a loss continues with all of the weight: a pool whose lost stripes are
 * rebuilt over the network (R_HYB, R_MIN) keeps its other damage, and a second loss follows much
 * sooner than a first. Otherwise the cycle ends with the loss, because the level has no damage
 * afterwards (R_ALL, R_FCO: all failed chunks are rebuilt) or because data is lost.
 *
 *   losses a second = cycles a second x weight that lost data in a cycle
 *
 * This is exact in the limit of many states, for failures that come at a constant rate; only the
 * choice of states and moments is random.
 *
 * At the network level members are pools, and what each loses is drawn from the samples of
 * catastrophic moments that splitting of the pool level has collected.
 */
#ifndef ANALYSIS_SPLIT_H
#define ANALYSIS_SPLIT_H

#include "analysis/damage.h"

/* A moment at which data of the level was lost. All samples have the same weight. */
struct split_sample {
	double lost;    /* number of lost stripes */
	double missing; /* number of missing chunks of the stripes that were not lost */
};

struct split_spec {
	const struct level *level;
	/* what a failing member loses: one of these at random; NULL: {1, 1}, as a disk */
	const struct damage_hit *hits;
	size_t hits_n;
	uint32_t states;    /* number of states of a stage */
	bool survives_loss; /* the cycle continues after a loss, so it may have several */
};

struct split_result {
	double rate;        /* losses of one such level in a second */
	double cycle_s;     /* mean time from the beginning of a cycle to that of the next */
	uint32_t stages;    /* number of stages that were run */
	uint32_t samples_n; /* number of samples, at most spec->states */
	struct split_sample *samples;
};

/*
 * Does one run. Returns 0, -ERANGE when repair does not keep up with failures, so that a cycle does
 * not end, or -ENOMEM. Call split_fini() afterwards, also after an error.
 */
int split_run(const struct split_spec *spec, struct rng *rng, struct split_result *out);
void split_fini(struct split_result *r);

#endif
