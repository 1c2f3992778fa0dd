// SPDX-License-Identifier: Apache-2.0
/*
 * Yearly durability: the probability that a system loses data, as a number of nines,
 * -log10(probability).
 *
 *   by          how                                            where it applies
 *   markov      Markov chains (markov.h), fast                 not single-overlap; exact where
 *                                                              all levels are clustered, under
 *                                                              R_ALL; else a rough check
 *   split       rare events by splitting (split.h): of a       failures at a constant rate
 *               pool, then of the network, where moments at
 *               which a pool becomes catastrophic are failures
 *               (nines_split.h)
 *   simulate    years of the whole system, event by event      losses that are not rare; failures
 *               (fleet.h)                                      of any distribution, or a trace
 *   auto        split, or simulate where only that applies
 *
 * All methods use the same levels (level.h), and the tests compare their answers.
 */
#ifndef ANALYSIS_NINES_H
#define ANALYSIS_NINES_H

#include "analysis/stats.h"
#include "analysis/system.h"
#include "analysis/work.h"

enum nines_by { NINES_AUTO, NINES_MARKOV, NINES_SPLIT, NINES_SIMULATE };

struct fleet_failures; /* defined in fleet.h */

struct nines_options {
	enum nines_by by;
	double years;     /* mission time */
	double precision; /* split: relative error to reach, by default 0.05 */
	/* split: number of states of a stage in one run, by default 250; fewer are less precise */
	uint32_t states;
	uint32_t rounds;   /* split: most rounds of 32 runs to reach the precision, by default 64 */
	uint64_t missions; /* simulate: number of missions */
	struct work work;
	/* simulate: how disks fail; NULL: exponential lifetimes */
	const struct fleet_failures *failures;

	/*
	 * Uses the assumptions of the MLEC dissertation (README.md) instead of the behaviour of the
	 * repair plans of code/repair.h.
	 *   dissertation  R_FCO rebuilds chunks in any order, so a pool is catastrophic until all of
	 *                 its chunks are rebuilt. Under a declustered network rebuilt chunks go to
	 *                 any rack. Under a clustered network data is lost when pn + 1 pools are
	 *                 catastrophic, whichever stripes they lost, and rebuilt chunks are written
	 *                 as fast as the rack allows.
	 *   repair plans  Lost stripes are rebuilt first. Rebuilt chunks stay in their pool (except
	 *                 for R_ALL). Data is lost only when lost local stripes of more than pn
	 *                 pools belong to one network stripe.
	 */
	bool as_paper;
};

/* A value with its interval; for a computed value both ends equal the value. */
struct nines_value {
	double value;
	struct interval interval;
};

struct nines_answer {
	enum nines_by by;
	struct nines_value loss; /* probability of losing data during the mission */
	/* -log10(loss); INFINITY when no mission lost data, or loss is impossible */
	struct nines_value nines;
	double error; /* relative standard error of the rate of loss */

	/* The code has two levels. Only then the following three fields are set. */
	bool two_levels;
	struct nines_value pool; /* probability that any pool becomes catastrophic in the mission */
	double lost_part;        /* mean lost part of the local stripes of a catastrophic pool */
	/* mean bytes of failed chunks in the other local stripes of such a pool */
	double missing_bytes;

	bool missed_precision; /* split: the error is larger than the wanted precision */
	uint64_t runs;         /* number of splitting runs, or of simulated missions */
	uint64_t lossy_runs;   /* simulate: number of missions that lost data */
};

void nines_options_default(struct nines_options *o);

/*
 * Estimates the durability. Returns 0, -EINVAL or -ERANGE with a reason (no redundancy, repair that
 * does not keep up, a method that does not apply), -EOPNOTSUPP (more parities than
 * LEVEL_LOSSES_MAX), -ENOMEM or -EAGAIN.
 */
int nines_estimate(const struct system *sys, const struct nines_options *o,
		   struct nines_answer *out, char *why, size_t why_size);

/* Returns "markov", "split", "simulate" or "auto". */
const char *nines_by_name(enum nines_by by);
bool nines_by_parse(const char *text, enum nines_by *by);

#endif
