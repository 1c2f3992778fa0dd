// SPDX-License-Identifier: Apache-2.0
/*
 * From constraints to a code: section 3.6.1 of the MLEC study, with numbers in place of examples.
 *
 * Codes of about the overhead (compare.h) that reach the nines, survive the racks and stay within the
 * traffic are candidates. Of them:
 *
 *   bursts rare      the one that encodes fastest; within a tenth, the one with more nines
 *   bursts frequent  those whose chance of loss in typical bursts is within ten times the least, of
 *                    them as above
 *
 * What comes out follows from the numbers: MLEC where many nines are asked for, codes on one level
 * where few are, c/c where bursts are frequent.
 */
#ifndef ANALYSIS_ADVISE_H
#define ANALYSIS_ADVISE_H

#include "analysis/compare.h"

#define ADVISE_BURSTS 3
#define ADVISE_BEST 5

struct advise_wants {
	double nines;
	bool bursts_frequent;
	bool closed_pools;      /* bought boxes that repair only themselves: R_ALL */
	uint32_t racks_lost;    /* whole racks that must be survived */
	double traffic_per_day; /* bytes between racks that repairs may take */
};

struct advise_burst {
	uint32_t failed, racks;
};

struct advise_choice {
	const struct compare_point *point;
	double pdl[ADVISE_BURSTS]; /* NAN: not counted */
};

struct advise {
	struct advise_burst bursts[ADVISE_BURSTS]; /* in one rack, in a few, scattered */
	struct advise_choice best[ADVISE_BEST];
	size_t n;          /* of them; 0: nothing fits */
	size_t enough;     /* codes with enough nines */
	double most_nines; /* of all */
	const struct compare_point *most;
};

/* The points are borrowed. -ENOMEM. */
int advise_choose(struct advise *a, const struct compare *c, const struct system_spec *base,
		  const struct advise_wants *wants, const struct work *w);

#endif
