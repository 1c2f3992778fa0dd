// SPDX-License-Identifier: Apache-2.0
/* The structure of a codec, private to src/code. */
#ifndef CODE_CODEC_IMPL_H
#define CODE_CODEC_IMPL_H

#include <assert.h>

#include "code/codec.h"
#include "code/gf.h"

struct codec {
	struct encoding e;
	const struct kernel *kernel;
	int data, total; /* number of data chunks, and of all chunks */
	struct matrix
		global_parities; /* r, rs: all parities; lrc: global parities; mlec: parities of a row */
	struct matrix
		local_parities; /* lrc: a group's local parity; mlec: the parities of a column */
	/* lrc: rows of the local and global parities over all data, for gf_solve() */
	struct matrix lrc_parities;
};

/* One matrix product of encoding: input j is chunk in_first + j * step, output j is chunk
 * out_first + j * step. */
struct line {
	const struct matrix *m;
	int in_first, out_first;
	int step;
};

/* Returns the stripe code over all chunks of an r, rs or lrc. */
static inline struct stripe_code codec_stripe(const struct codec *c)
{
	assert(c->e.kind != ENCODING_MLEC);
	const struct matrix *m = c->e.kind == ENCODING_LRC ? &c->lrc_parities : &c->global_parities;
	return (struct stripe_code){c->data, c->total, m->coef};
}

/* Returns the local code of an mlec, over the chunks of a column. */
static inline struct stripe_code codec_column_stripe(const struct codec *c)
{
	assert(c->e.kind == ENCODING_MLEC);
	const struct rs_shape *s = &c->e.mlec.local;
	return (struct stripe_code){s->k, s->k + s->p, c->local_parities.coef};
}

/* Returns the network code of an mlec, over the chunks of a row. */
static inline struct stripe_code codec_row_stripe(const struct codec *c)
{
	assert(c->e.kind == ENCODING_MLEC);
	const struct rs_shape *s = &c->e.mlec.net;
	return (struct stripe_code){s->k, s->k + s->p, c->global_parities.coef};
}

/* Returns the number of chunks of a column of an mlec. */
static inline int codec_column_height(const struct codec *c)
{
	return c->e.mlec.local.k + c->e.mlec.local.p;
}

#endif
