// SPDX-License-Identifier: Apache-2.0
/*
 * Recommends a code for given constraints: section 3.6.1 of the MLEC dissertation (README.md), with
 * computed numbers in place of its examples.
 *
 * Candidates are the codes of about the wanted overhead (compare.h) that reach the wanted nines,
 * survive the loss of the wanted number of racks and stay within the wanted repair traffic. The
 * choice among them:
 *
 *   bursts rare      the code that encodes fastest; within a tenth, the one with more nines
 *   bursts frequent  the same choice among the codes whose probability of loss in typical bursts is
 *                    at most ten times the least
 *
 * With the default system this gives MLEC for many nines, codes on one level for few nines, and c/c
 * where bursts are frequent.
 */
#ifndef ANALYSIS_ADVISE_H
#define ANALYSIS_ADVISE_H

#include "analysis/compare.h"

#define ADVISE_BURSTS 3
#define ADVISE_BEST 5

struct advise_wants {
	double nines;
	bool bursts_frequent;
	/* enclosures do not report their failed disks, so only R_ALL can repair them */
	bool closed_pools;
	uint32_t racks_lost;    /* number of lost racks that must be survived */
	double traffic_per_day; /* most bytes between racks that repairs may send in a day */
};

struct advise_burst {
	uint32_t failed, racks;
};

struct advise_choice {
	const struct compare_point *point;
	double pdl[ADVISE_BURSTS]; /* probability of loss in each typical burst; NAN: not counted */
};

struct advise {
	/* typical bursts: in one rack, in a few racks, scattered over all */
	struct advise_burst bursts[ADVISE_BURSTS];
	struct advise_choice best[ADVISE_BEST];
	size_t n;                         /* entries of `best`; 0: no code fits */
	size_t enough;                    /* number of codes with enough nines */
	double most_nines;                /* largest number of nines of all codes */
	const struct compare_point *most; /* the code with most_nines */
};

/* Returns whether a code has the wanted nines, survives the racks and keeps to the traffic. */
bool advise_fits(const struct compare_point *p, const struct advise_wants *w);

/* Chooses codes among the points of c, which must outlive a. Returns 0 or -ENOMEM. */
int advise_choose(struct advise *a, const struct compare *c, const struct system_spec *base,
		  const struct advise_wants *wants, const struct work *w);

#endif
