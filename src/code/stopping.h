// SPDX-License-Identifier: Apache-2.0
/* The chunks of an mlec that no row and no column gives back: solved all at once. See stopping.c. */
#ifndef CODE_STOPPING_H
#define CODE_STOPPING_H

#include "code/codec_impl.h"

struct stopping {
	int n_unknown, n_known;
	int *unknown; /* chunk numbers */
	int *known;   /* those in a row or column with an unknown one; none when not asked for */
	int rank;     /* all unknown chunks are determined when it is n_unknown */

	/* Solved equations: a coefficient for each unknown chunk, then for each known one. */
	int n_rows, width;
	uint8_t *rows;
	int *pivot; /* by unknown: its row, or -1 */
};

/*
 * missing: by chunk number, what is left when rows and columns have given all they can. with_known
 * asks for the way to compute it, not just for the rank. 0, -ENOMEM, or -EFBIG when that would take
 * too long. To be followed by stopping_fini() in any case.
 */
int stopping_solve(struct stopping *s, const struct codec *c, const bool *missing, bool with_known);

void stopping_fini(struct stopping *s);

/*
 * n_known coefficients: unknown chunk u (a place in s->unknown) is the sum of the known chunks
 * times these. NULL when they do not determine it.
 */
const uint8_t *stopping_coef(const struct stopping *s, int u);

#endif
