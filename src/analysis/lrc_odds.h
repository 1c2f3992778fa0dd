// SPDX-License-Identifier: Apache-2.0
/*
 * An LRC whose chunks are lost one by one at random: the chunks that a rebuild reads, and the
 * probability that the next loss is fatal, from the patterns that lrc_loss.h counts or samples.
 */
#ifndef ANALYSIS_LRC_ODDS_H
#define ANALYSIS_LRC_ODDS_H

#include <stdbool.h>
#include <stdint.h>

#include "code/encoding.h"

#define LRC_ODDS_MAX 63

struct lrc_odds {
	uint32_t max_losses; /* most losses that the code may survive: groups + globals */
	double fatal[LRC_ODDS_MAX +
		     2]; /* [j]: probability that loss j is fatal if j - 1 were not */
	double reads[LRC_ODDS_MAX + 1]; /* [j]: mean number of chunks read to rebuild j losses */
};

/*
 * Computes the odds; at_best: those of lrc_loss_at_best(), which take no time. Returns 0, -EOPNOTSUPP when the code may survive more than LRC_ODDS_MAX
 * losses, or -EINVAL or
 * -ENOMEM as codec_open().
 */
int lrc_odds_find(struct lrc_odds *odds, const struct lrc_shape *s, bool at_best);

#endif
