// SPDX-License-Identifier: Apache-2.0
/*
 * Yearly durability: the probability that a system loses data, as a number of nines,
 * -log10(probability).
 *
 *   by          how                                            where it applies
 *   markov      chains of section 3.3.4 (markov.h), at once    not single-overlap; the truth where
 *                                                              all levels are clustered, under
 *                                                              R_ALL; else a check
 *   split       rare events by splitting (split.h): of a       failures at a constant rate
 *               pool, then of the network with the pool's
 *               catastrophic moments as failures
 *               (nines_split.h)
 *   simulate    years of the whole system, event by event      losses that are not rare; failures
 *               (fleet.h)                                      of any distribution, or a trace
 *   auto        split, or simulate where only that applies
 *
 * All use the same levels (level.h), so they can be compared, and are in the tests.
 */
#ifndef ANALYSIS_NINES_H
#define ANALYSIS_NINES_H

#include "analysis/stats.h"
#include "analysis/system.h"
#include "analysis/work.h"

enum nines_by { NINES_AUTO, NINES_MARKOV, NINES_SPLIT, NINES_SIMULATE };

struct fleet_failures; /* fleet.h */

struct nines_options {
	enum nines_by by;
	double years;      /* mission time */
	double precision;  /* split: relative error to reach, 0.05 */
	uint32_t states;   /* split: of a stage in one run, 250; fewer are quicker and rougher */
	uint32_t rounds;   /* split: of 32 runs until the precision is reached, at most 64 */
	uint64_t missions; /* simulate: how many times the mission is run */
	struct work work;
	const struct fleet_failures *failures; /* simulate: other than exponential; or NULL */

	/*
	 * What the paper assumes and the planners of code/repair.h do better or otherwise. Paper:
	 * R_FCO fetches chunks in any order, so that a pool is catastrophic until all are back;
	 * under a declustered network what is rebuilt goes to any rack; under a clustered one data
	 * is lost when pn + 1 pools are catastrophic, whichever stripes they lost, and what is
	 * rebuilt is written as fast as the rack allows. Planners: lost stripes first, rebuilt
	 * chunks go in place in their pool (but for R_ALL), and what is lost is what coincides.
	 */
	bool as_paper;
};

/* An estimate. Where nothing is estimated the interval is the value. */
struct nines_value {
	double value;
	struct interval interval;
};

struct nines_answer {
	enum nines_by by;
	struct nines_value loss;  /* probability of losing data during the mission */
	struct nines_value nines; /* INFINITY: never seen, or impossible */
	double error;             /* relative standard error of the rate of loss */

	/* Two levels only. */
	bool two_levels;
	struct nines_value pool; /* probability that any pool becomes catastrophic in the mission */
	double lost_part;        /* of such a pool's local stripes, on average */
	double missing_bytes;    /* of its failed chunks in other local stripes */

	bool missed_precision; /* split: the error did not come down to it */
	uint64_t runs;         /* splitting runs, or missions */
	uint64_t lossy_runs;   /* simulate: missions that lost data */
};

void nines_options_default(struct nines_options *o);

/*
 * -EINVAL or -ERANGE with a reason (no redundancy, repair that does not keep up, a method that does
 * not apply), -EOPNOTSUPP (more parities than LEVEL_LOSSES_MAX), -ENOMEM, -EAGAIN.
 */
int nines_estimate(const struct system *sys, const struct nines_options *o,
		   struct nines_answer *out, char *why, size_t why_size);

/* "markov", "split", "simulate", "auto". */
const char *nines_by_name(enum nines_by by);
bool nines_by_parse(const char *text, enum nines_by *by);

#endif
