// SPDX-License-Identifier: Apache-2.0
/*
 * Failure bursts: the probability of data loss (PDL) when `failed` disks fail at once, spread over
 * exactly `racks` racks, each of which has at least one; all such layouts of failures are equally
 * likely. They are figures 3.5, 3.14 and 3.18 of the MLEC dissertation
 * (README.md).
 *
 * The model decides what is data loss:
 *
 *   BURST_POOLS    A local pool is catastrophic when a stripe of it could have more failed chunks
 *                  than it survives: more than pl failed disks when clustered or declustered (with
 *                  many stripes any combination of disks shares one), more than pl in one stripe set
 *                  when single-overlap. Data is lost when more than pn catastrophic pools could share
 *                  a network stripe: pools at the same place of a group of racks under a clustered
 *                  network, pools of different racks under a declustered one. The
 *                  MLEC dissertation counts MLEC and local codes this way. The result is an
 *                  upper bound, because the shared stripe may not exist.
 *   BURST_STRIPES  A finite number of stripes is placed independently at random. The MLEC
 *                  dissertation counts declustered network codes this way, because BURST_POOLS
 *                  would take any p+1 failed disks in different racks for a loss. For MLEC the
 *                  result is the probability that a network stripe with more than pn lost columns
 *                  exists.
 *   BURST_LAYOUT   The layout of src/code, stripe by stripe: small systems only.
 *
 *                     burst_exact()                                burst_sample()
 *   BURST_POOLS       all but s/-; intervals where s (see below)   all
 *   BURST_STRIPES     d/- (also LRC), s/- as an upper bound        all but -/c -/d -/s, LRC only d/-
 *   BURST_LAYOUT      no                                           all but LRC
 *
 * Counting: layouts are counted by dynamic programming over pools, racks and groups of racks (see
 * burst_count.c). All terms are positive, so that the smallest probabilities are as exact as the
 * large ones. Only the share of catastrophic layouts of a single-overlap pool is partly sampled
 * (burst_pool.h), so the answer has an interval there.
 *
 * An LRC is studied as its authors place it, declustered: d/- or -/d.
 */
#ifndef ANALYSIS_BURST_H
#define ANALYSIS_BURST_H

#include "analysis/stats.h"
#include "analysis/system.h"
#include "analysis/work.h"

#define BURST_FAILED_MAX 2000
/* most failed disks under BURST_STRIPES, which visits all partitions of that number */
#define BURST_FAILED_STRIPES_MAX 80

enum burst_model { BURST_POOLS, BURST_STRIPES, BURST_LAYOUT };

/* Returns "pools", "stripes" or "layout". */
const char *burst_model_name(enum burst_model model);

/* Returns the model that the MLEC dissertation uses for codes of this kind. */
enum burst_model burst_model_default(const struct system *sys);

/*
 * PDL by number of failed disks and of affected racks, both from 1, at index (failed - 1) * racks +
 * affected
 * - 1. NAN where no layout exists.
 */
struct burst_map {
	uint32_t failed, racks; /* largest number of failed disks, and of racks, in the map */
	double *pdl;
	double *low, *high; /* ends of the interval of pdl; equal to pdl where pdl is exact */
	bool exact;         /* low, pdl and high are equal everywhere */
	bool bound;         /* pdl is an upper bound */
};

/*
 * Checks the numbers of a burst. Returns 0, or -EINVAL for 0 racks, more racks than the system has,
 * fewer failures than racks, or more failures than the racks have disks; `why` names the option and
 * the rule.
 */
int burst_check(const struct system *sys, uint64_t failed, uint64_t racks, char *why,
		size_t why_size);

/* A burst: the number of failed disks, and of the racks that they are in. */
struct burst_ask {
	enum burst_model model;
	uint32_t failed, racks;
	uint64_t trials; /* number of layouts that burst_sample draws */
};

/*
 * Counts all bursts of up to `failed` disks and `racks` racks. Returns 0, -EOPNOTSUPP when this
 * model cannot be counted for this system, -E2BIG when it would take too long, both with `why`, or
 * -ENOMEM.
 */
int burst_exact(const struct system *sys, const struct burst_ask *ask, const struct work *w,
		struct burst_map *map, char *why, size_t why_size);
/* As burst_exact(), but fills only the last entry of the map: `failed` disks in `racks` racks. */
int burst_exact_one(const struct system *sys, const struct burst_ask *ask, const struct work *w,
		    struct burst_map *map, char *why, size_t why_size);
void burst_map_fini(struct burst_map *map);
/*
 * Returns the PDL of exactly `failed` disks in exactly `racks` racks; both must be within the map.
 */
double burst_map_at(const struct burst_map *map, uint32_t failed, uint32_t racks);

struct burst_estimate {
	double pdl;
	struct interval interval; /* 95% interval of the PDL */
	uint64_t trials;
};

/*
 * Estimates the PDL by drawing layouts of failures. BURST_POOLS and BURST_LAYOUT count losses;
 * BURST_STRIPES averages the probability of loss given the layout. Returns 0 or the errors of
 * burst_exact().
 */
int burst_sample(const struct system *sys, const struct burst_ask *ask, const struct work *w,
		 struct burst_estimate *out, char *why, size_t why_size);

#endif
