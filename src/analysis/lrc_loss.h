// SPDX-License-Identifier: Apache-2.0
/*
 * Random losses of an LRC: of all ways to lose j chunks of a stripe, the share that loses data.
 * When the code is maximally recoverable (gf_lrc_is_maximally_recoverable()), patterns are counted:
 * a pattern is survived when the losses of each group beyond its first, and those of the global
 * parities, are at most R together. For other codes code_health() judges the patterns: all of them
 * when there are up to 60,000, else 60,000 patterns drawn with a fixed seed, and then the share has
 * an interval.
 */
#ifndef ANALYSIS_LRC_LOSS_H
#define ANALYSIS_LRC_LOSS_H

#include <stdbool.h>

#include "code/encoding.h"

/*
 * The shares that lose data, share[0] to share[chunks]; low and high are the ends of the
 * intervals.
 */
struct lrc_loss {
	double share[ENCODING_STRIPE_MAX + 1];
	double low[ENCODING_STRIPE_MAX + 1], high[ENCODING_STRIPE_MAX + 1];
	/* 1 - share, summed separately so that small values stay precise */
	double survived[ENCODING_STRIPE_MAX + 1];
	bool exact; /* share, low and high are equal everywhere */
};

/* Computes the shares. For codes other than LRC the share is 0 up to the tolerance and 1 above it.
 * Returns 0 or -ENOMEM. */
int lrc_loss_find(struct lrc_loss *loss, const struct encoding *e);

/*
 * Counts the patterns as if the LRC were maximally recoverable: no LRC of this shape loses less.
 * Takes no time. Returns 0, -ENOMEM, or -EOPNOTSUPP when the code has too many parities to count.
 */
int lrc_loss_at_best(struct lrc_loss *loss, const struct encoding *e);

#endif
