// SPDX-License-Identifier: Apache-2.0
/*
 * Failure bursts: the probability of data loss (PDL) when `failed` disks fail at once, spread over
 * exactly `racks` racks, each of which has at least one; all such layouts of failures are equally
 * likely. Figures 3.5, 3.14 and 3.18 of the MLEC study.
 *
 * What counts as data loss is a matter of how closely one looks:
 *
 *   BURST_POOLS    A local pool is catastrophic when a stripe of it could have more failed chunks
 *                  than it bears: more than pl failed disks when clustered or declustered (with many
 *                  stripes any combination of disks shares one), more than pl in one stripe set when
 *                  single-overlap. Data is lost when more than pn catastrophic pools could share a
 *                  network stripe: pools at the same place of a group of racks under a clustered
 *                  network, pools of different racks under a declustered one. The study's count for
 *                  MLEC and for local codes. It is an upper bound: that stripe must exist.
 *   BURST_STRIPES  There are only so many stripes, placed at random, each on its own. The study's
 *                  count for network codes that are declustered, where the above would call any p+1
 *                  failed disks in different racks a loss. For MLEC it asks whether a network stripe
 *                  with more than pn lost columns exists.
 *   BURST_LAYOUT   The real layout of src/code, stripe by stripe: small systems only.
 *
 *                     burst_exact()                                burst_sample()
 *   BURST_POOLS       all but s/-; intervals where s (see below)   all
 *   BURST_STRIPES     d/- (also LRC), s/- as an upper bound        all but -/c -/d -/s, LRC only d/-
 *   BURST_LAYOUT      no                                           all but LRC
 *
 * Counting: layouts are counted by dynamic programming over pools, racks and groups of racks (see
 * burst_count.c). All terms are positive, so that the smallest probabilities are as exact as the
 * large ones. Only the share of catastrophic layouts of a single-overlap pool is partly sampled
 * (burst_pool.h), which is why the answer has an interval there.
 *
 * An LRC is studied as its authors place it, declustered: d/- or -/d.
 */
#ifndef ANALYSIS_BURST_H
#define ANALYSIS_BURST_H

#include "analysis/stats.h"
#include "analysis/system.h"
#include "analysis/work.h"

#define BURST_FAILED_MAX 2000
#define BURST_FAILED_STRIPES_MAX 80 /* BURST_STRIPES looks at all partitions of the number */

enum burst_model { BURST_POOLS, BURST_STRIPES, BURST_LAYOUT };

/* "pools", "stripes", "layout". */
const char *burst_model_name(enum burst_model model);

/* What the study uses for this system. */
enum burst_model burst_model_default(const struct system *sys);

/*
 * PDL for each number of failed disks from 1 and of racks from 1: at [(failed - 1) * racks + racks_hit
 * - 1]. NAN where no layout exists.
 */
struct burst_map {
	uint32_t failed, racks; /* largest */
	double *pdl;
	double *low, *high; /* ends of the interval; equal to pdl where it is exact */
	bool exact;         /* all of low, pdl and high are the same */
	bool bound;         /* pdl is an upper bound */
};

/*
 * Refuses numbers that no burst has: racks of 0 or more than there are, fewer failures than racks,
 * more than the racks have disks. -EINVAL, and `why` names the option and the rule.
 */
int burst_check(const struct system *sys, uint64_t failed, uint64_t racks, char *why,
		size_t why_size);

/*
 * Counts everything up to `failed` disks and `racks` racks. -EOPNOTSUPP: not counted for this model
 * and system; -E2BIG: would take too long; `why` says it. -ENOMEM.
 */
int burst_exact(const struct system *sys, enum burst_model model, const struct work *w,
		uint32_t failed, uint32_t racks, struct burst_map *map, char *why, size_t why_size);
/* Only the last field of the above: one number of disks and racks. */
int burst_exact_one(const struct system *sys, enum burst_model model, const struct work *w,
		    uint32_t failed, uint32_t racks, struct burst_map *map, char *why,
		    size_t why_size);
void burst_map_fini(struct burst_map *map);
/* Of exactly so many disks and racks, within the map. */
double burst_map_at(const struct burst_map *map, uint32_t failed, uint32_t racks);

struct burst_estimate {
	double pdl;
	struct interval interval; /* 95% */
	uint64_t trials;
};

/*
 * Draws layouts of failures and looks. BURST_POOLS and BURST_LAYOUT count losses; BURST_STRIPES
 * averages the probability of loss given the layout. Errors as burst_exact().
 */
int burst_sample(const struct system *sys, enum burst_model model, const struct work *w,
		 uint32_t failed, uint32_t racks, uint64_t trials, struct burst_estimate *out,
		 char *why, size_t why_size);

#endif
