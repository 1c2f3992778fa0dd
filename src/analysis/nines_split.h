// SPDX-License-Identifier: Apache-2.0
/*
 * Rates of loss by splitting (split.h), repeated until the precision is reached.
 *
 * One level: independent runs. The answer is their mean, and the error comes from the spread of the
 * runs.
 *
 * Two levels: the failures of the network level come from the results of the pool level: how often
 * pools become catastrophic, and what they lose. Both are estimates, and a loss needs pn + 1
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
	/* two levels: how often one local pool becomes catastrophic, in a second */
	struct stats_sum pool;
	/* mean lost stripes and missing chunks of a catastrophic pool, as in split_sample */
	double lost, missing;
	uint64_t runs;
	bool reached; /* the wanted precision is reached */
};

/* Returns the relative error of a mean; 0 for a mean of 0. */
double nines_split_error(const struct stats_sum *s);

/*
 * Estimate the rates of a system of one level, and of two levels. Return 0, -ERANGE when repair
 * does not keep up with failures, -ENOMEM or -EAGAIN.
 */
int nines_split_one(const struct nines_options *o, const struct level *disks,
		    struct nines_split *out);
int nines_split_two(const struct system *sys, const struct nines_options *o,
		    const struct level *disks, struct nines_split *out);

#endif
