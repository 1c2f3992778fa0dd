// SPDX-License-Identifier: Apache-2.0
/*
 * Splitting: how often a level loses stripes when that is far too rare to wait for.
 *
 * The way to a loss leads over stripes with 1, 2, ... losses (damage_top()). A *cycle* begins with a
 * failure while nothing is out and ends when all is repaired. Stage j starts from many states in
 * which stripes with j losses have just appeared, and asks what follows before the end of the cycle:
 *
 *   - While stripes with j losses exist, failures have a small known probability q: the hazard met
 *     on the way, from damage_walk(). Each state is continued both ways: with weight q a failure
 *     comes at a random moment of that time, with weight 1 - q it does not. So the rare case is
 *     always met, and its rarity is a factor that is computed instead of counted.
 *   - Where fewer losses are left, the state is simulated as it is, until it is back or idle. In
 *     later stages only a part of such states, with weights raised to match.
 *
 * What reaches j + 1 losses is drawn anew in proportion to its weight and starts the next stage. At
 * each failure that loses m stripes on average, 1 - exp(-m) of the weight has lost data; the rest
 * goes on. After the last stage more failures may come on top, until they add nothing.
 *
 * A level that *stays* goes on with all of the weight: a pool whose lost stripes are fetched over the
 * network (R_HYB, R_MIN) is damaged as before in what it did not lose, and a second loss comes much
 * sooner than a first. Otherwise the level is as new after a loss (R_ALL, R_FCO: all that failed is
 * fetched), or what comes after is no matter (data is lost), and the cycle ends.
 *
 *   losses a second = cycles a second x weight that lost data in a cycle
 *
 * This is exact in the limit of many states, for failures that come at a constant rate; only the
 * choice of states and moments is random.
 *
 * At the network level members are pools, and what each takes along is drawn from the samples that
 * splitting of the pool itself has left: its catastrophic moments.
 */
#ifndef ANALYSIS_SPLIT_H
#define ANALYSIS_SPLIT_H

#include "analysis/damage.h"

/* A moment at which data of the level was lost, all of the same weight. */
struct split_sample {
	double lost;    /* stripes */
	double missing; /* chunks of the stripes that were not */
};

struct split_spec {
	const struct level *level;
	const struct damage_hit *hits; /* what a failure takes along, one of these; NULL: {1, 1} */
	size_t hits_n;
	uint32_t states; /* of a stage */
	bool stays;      /* a loss is not the end: the rest of the cycle may lose again */
};

struct split_result {
	double rate;        /* losses a second of one such level */
	double cycle_s;     /* mean time from one idle moment's failure to the next */
	uint32_t stages;    /* that were needed */
	uint32_t samples_n; /* at most spec->states */
	struct split_sample *samples;
};

/*
 * One run. -ERANGE: repair does not keep up with failures, a cycle does not end; -ENOMEM. The
 * samples are freed by split_fini(), also after an error.
 */
int split_run(const struct split_spec *spec, struct rng *rng, struct split_result *out);
void split_fini(struct split_result *r);

#endif
