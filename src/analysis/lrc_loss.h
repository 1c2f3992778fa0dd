// SPDX-License-Identifier: Apache-2.0
/*
 * How an LRC bears random losses: of all ways to lose j chunks of a stripe, the share that loses
 * data. Where the code survives all that any matrix of its shape could
 * (gf_lrc_is_maximally_recoverable()), patterns are counted: a pattern is survived when the losses of
 * each group beyond its first, and those of the global parities, are at most R together. Others are
 * judged by the code that runs (code/health.h), pattern by pattern: all of them where there are up to
 * 60,000, else that many random ones, always the same, and then the share has an interval.
 */
#ifndef ANALYSIS_LRC_LOSS_H
#define ANALYSIS_LRC_LOSS_H

#include <stdbool.h>

#include "code/encoding.h"

/* share[0] to share[chunks], low and high: the ends of the interval. */
struct lrc_loss {
	double share[ENCODING_STRIPE_MAX + 1];
	double low[ENCODING_STRIPE_MAX + 1], high[ENCODING_STRIPE_MAX + 1];
	double survived[ENCODING_STRIPE_MAX + 1]; /* the rest, a sum of its own */
	bool exact;                               /* all three are the same */
};

/* For other codes the share is 0 up to their tolerance and 1 above. -ENOMEM. */
int lrc_loss_find(struct lrc_loss *loss, const struct encoding *e);

#endif
