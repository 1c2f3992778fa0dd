// SPDX-License-Identifier: Apache-2.0
/*
 * Rates of loss by splitting (split.h), repeated until the precision is reached.
 *
 * One level: independent runs; the mean, and the spread of the runs as its error.
 *
 * Two levels: the failures of the network level come from the results of the pool level: how often
 * pools become catastrophic, and what they lose then. Both are estimates, and a loss needs pn + 1
 * such pools, so their errors enter the result several times. To measure the total error, both
 * levels are run in independent *batches*,
 *
 *   batch    pool runs -> rate and samples -> network runs with them -> one rate of loss
 *   answer   the mean of the batches; their spread is its error, from both levels
 *
 * The mean of a power of an estimate is a little too large (for pn = 2 by three times the square of
 * a batch's relative error). Batches have enough pool runs to keep that far below the error of the
 * mean, and more of them for a higher precision.
 */
#ifndef ANALYSIS_NINES_SPLIT_H
#define ANALYSIS_NINES_SPLIT_H

#include "analysis/level.h"
#include "analysis/nines.h"

struct nines_split {
	struct stats_sum
		loss; /* losses a second of one network pool, or of one level: see level.h */
	struct stats_sum pool; /* two levels: catastrophes a second of one local pool */
	double lost, missing;  /* of such a pool, as in split_sample, on average */
	uint64_t runs;
	bool reached; /* the wanted precision is reached */
};

/* Returns the relative error of a mean; 0 for a mean of 0. */
double nines_split_error(const struct stats_sum *s);

/*
 * Estimate the rates of one level, and of two. Return 0, -ERANGE as split_run(), -ENOMEM or
 * -EAGAIN.
 */
int nines_split_one(const struct nines_options *o, const struct level *disks,
		    struct nines_split *out);
int nines_split_two(const struct system *sys, const struct nines_options *o,
		    const struct level *disks, struct nines_split *out);

#endif
