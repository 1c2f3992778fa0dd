// SPDX-License-Identifier: Apache-2.0
/* The inside of a codec. Only src/code includes this header. */
#ifndef CODE_CODEC_IMPL_H
#define CODE_CODEC_IMPL_H

#include <assert.h>

#include "code/codec.h"
#include "code/gf.h"

struct codec {
	struct encoding e;
	const struct kernel *kernel;
	int data, total; /* numbers of chunks */
	struct matrix
		global_parities; /* r, rs: all parities; lrc: global parities; mlec: parities of a row */
	struct matrix
		local_parities; /* lrc: a group's local parity; mlec: the parities of a column */
	struct matrix lrc_parities; /* lrc: local and global parities over all data, for solving */
};

/* One matrix product of encoding: input j is chunk in_first + j * step, output j is chunk
 * out_first + j * step. */
struct line {
	const struct matrix *m;
	int in_first, out_first;
	int step;
};

int codec_lines(const struct codec *c);
struct line codec_line(const struct codec *c, int i);

/* The stripe code of all chunks. For r, rs and lrc only. */
static inline struct stripe_code codec_stripe(const struct codec *c)
{
	assert(c->e.kind != ENCODING_MLEC);
	const struct matrix *m = c->e.kind == ENCODING_LRC ? &c->lrc_parities : &c->global_parities;
	return (struct stripe_code){c->data, c->total, m->coef};
}

/* The local code of an mlec. */
static inline struct stripe_code codec_column_stripe(const struct codec *c)
{
	assert(c->e.kind == ENCODING_MLEC);
	const struct rs_shape *s = &c->e.mlec.local;
	return (struct stripe_code){s->k, s->k + s->p, c->local_parities.coef};
}

/* The network code of an mlec. */
static inline struct stripe_code codec_row_stripe(const struct codec *c)
{
	assert(c->e.kind == ENCODING_MLEC);
	const struct rs_shape *s = &c->e.mlec.net;
	return (struct stripe_code){s->k, s->k + s->p, c->global_parities.coef};
}

/* Chunks of a column of an mlec. */
static inline int codec_column_height(const struct codec *c)
{
	return c->e.mlec.local.k + c->e.mlec.local.p;
}

#endif
