// SPDX-License-Identifier: Apache-2.0
/* What a set of losses means: is all data still there, and how much more can be borne. */
#ifndef CODE_HEALTH_H
#define CODE_HEALTH_H

#include "code/codec.h"

struct code_health {
	bool tolerated; /* every data byte can be rebuilt */
	int more;   /* any further loss of this many chunks is tolerated; 0 when this one is not */
	bool exact; /* and some loss of more + 1 further chunks is not tolerated */

	/* mlec: columns that lost more than PL chunks. Up to PN of them, repair can work column by
	 * column, the unit of section 3.2.3 of the study; beyond, it takes repair along rows as
	 * well, chunk by chunk, or rows and columns solved together (stopping.c), which saves
	 * patterns that the study counts as lost. */
	int dead_columns;
};

/*
 * The losses are distinct chunk numbers; none is fine. Returns 0, -EINVAL for a number out of range
 * or named twice, -ENOMEM, -EFBIG (an mlec whose stopping set is too large to solve).
 *
 * `tolerated` is exact for every code: what it denies no decoder could give back.
 *
 * `more` is exact for r and rs, and for lrc where gf_lrc_is_maximally_recoverable(); for other lrc
 * it is what R+1 leaves, and exact says whether it happens to be. For mlec it counts column by
 * column; it is exact when the losses of the PN+1 worst columns lie in at most PL+1 rows, and a
 * safe lower bound otherwise.
 */
int code_health(const struct codec *c, const int *lost, int n_lost, struct code_health *out);

#endif
