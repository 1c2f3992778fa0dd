// SPDX-License-Identifier: Apache-2.0
/*
 * How an LRC bears random losses: of all ways to lose j chunks of a stripe, the share that loses
 * data. Judged by the code that runs (code/health.h), pattern by pattern: all of them where there are
 * up to 60,000, else that many random ones, always the same.
 */
#ifndef ANALYSIS_LRC_LOSS_H
#define ANALYSIS_LRC_LOSS_H

#include "code/encoding.h"

/* share[0] to share[chunks]. For other codes it is 0 up to their tolerance and 1 above. -ENOMEM. */
int lrc_loss_share(const struct encoding *e, double *share);

#endif
