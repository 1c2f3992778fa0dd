// SPDX-License-Identifier: Apache-2.0
/*
 * How an LRC fares when its chunks are lost one by one at random: what a rebuild reads, and how
 * likely the next loss is one too many. Where the code survives all that any matrix of its shape
 * could (gf_lrc_is_maximally_recoverable()), patterns are counted: a pattern is survived when the
 * losses of each group beyond its first, and those of the global parities, are at most R together.
 * For other codes code_health() is asked about 20,000 random patterns, always the same.
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

/*
 * lost[j], for j to `most` <= LRC_ODDS_MAX: the part of all patterns of j losses that no code of this
 * shape survives, and a maximally recoverable one alone loses. -ENOMEM.
 */
int lrc_odds_lost(const struct lrc_shape *s, int most, double *lost);

#endif
