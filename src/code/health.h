// SPDX-License-Identifier: Apache-2.0
/* The health of a block: whether its losses are tolerated, and how many more losses are. */
#ifndef CODE_HEALTH_H
#define CODE_HEALTH_H

#include "code/codec.h"

struct code_health {
	bool tolerated; /* every data byte can be rebuilt */
	/*
	 * number of further losses that are tolerated, whichever chunks they hit; 0 when !tolerated
	 */
	int more;
	bool exact; /* `more` is exact: some loss of more + 1 further chunks is not tolerated */

	/*
	 * mlec: columns that lost more than PL chunks. With up to PN of them, repair can rebuild
	 * whole columns, the unit of section 3.2.3 of the MLEC dissertation
	 * (src/analysis/README.md). With more, repair must also work along rows, chunk by chunk, or
	 * solve rows and columns together (stopping.c); that rebuilds patterns that the
	 * dissertation counts as lost.
	 */
	int lost_columns;
};

/*
 * Computes the health of a block with a set of losses: n_lost distinct chunk numbers, which may be
 * 0. Returns 0, -EINVAL for a number out of range or named twice, -ENOMEM, or -EFBIG (an mlec whose
 * stopping set is too large to solve).
 *
 * `tolerated` is exact for every code: when it is false, no decoder can rebuild all data.
 *
 * `more` is exact for r and rs, and for lrc where gf_lrc_is_maximally_recoverable(). For other lrc
 * it is R + 1 minus the losses, and `exact` tells whether that is exact for these losses. For mlec
 * it is counted by columns; it is exact when the losses of the PN+1 columns with the most losses
 * lie in at most PL+1 rows, and a lower bound otherwise.
 */
int code_health(const struct codec *c, const int *lost, int n_lost, struct code_health *out);

#endif
