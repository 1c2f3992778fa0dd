// SPDX-License-Identifier: Apache-2.0
/*
 * How an LRC fares when its chunks are lost one by one at random: what a rebuild reads, and how
 * likely the next loss is one too many, from the patterns that lrc_loss.h has counted or tried.
 */
#ifndef ANALYSIS_LRC_ODDS_H
#define ANALYSIS_LRC_ODDS_H

#include <stdint.h>

#include "code/encoding.h"

#define LRC_ODDS_MAX 63

struct lrc_odds {
	uint32_t bears;                 /* losses that some pattern survives: groups + globals */
	double fatal[LRC_ODDS_MAX + 2]; /* [j]: j losses are too many when j - 1 were not */
	double reads[LRC_ODDS_MAX + 1]; /* chunks read to rebuild j, on average */
};

/* -EOPNOTSUPP: it may bear more than LRC_ODDS_MAX; -EINVAL, -ENOMEM as codec_open(). */
int lrc_odds_find(struct lrc_odds *odds, const struct lrc_shape *s);

#endif
