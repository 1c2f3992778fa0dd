// SPDX-License-Identifier: Apache-2.0
/* Solves the stopping set of an mlec: chunks that neither a row nor a column alone can decode. The
 * theory is in stopping.c. */
#ifndef CODE_STOPPING_H
#define CODE_STOPPING_H

#include "code/codec_impl.h"

struct stopping {
	int n_unknown, n_known;
	int *unknown; /* numbers of the unknown chunks */
	/* numbers of the known chunks in lines with an unknown chunk; set only with with_known */
	int *known;
	/* rank of the equations; equal to n_unknown when all unknown chunks are determined */
	int rank;

	/* Solved equations: a coefficient for each unknown chunk, then for each known one. */
	int n_rows, width;
	uint8_t *rows;
	int *pivot; /* by unknown chunk: index of the equation that determines it, or -1 */
};

/*
 * Solves for the missing chunks (by chunk number) that peeling of rows and columns left. Without
 * with_known only the rank is computed, with it also stopping_coef(). Returns 0, -ENOMEM, or -EFBIG
 * when solving would take too long. Call stopping_fini() afterwards in every case.
 */
int stopping_solve(struct stopping *s, const struct codec *c, const bool *missing, bool with_known);

void stopping_fini(struct stopping *s);

/*
 * Returns n_known coefficients: unknown chunk u (an index in s->unknown) is the sum of the known
 * chunks times these coefficients. Returns NULL when the known chunks do not determine chunk u.
 */
const uint8_t *stopping_coef(const struct stopping *s, int u);

#endif
