// SPDX-License-Identifier: Apache-2.0
/*
 * Encoding is a list of matrix products, called lines:
 *
 *   r, rs   one line, from the data chunks to the parities
 *   lrc     one line for each group's local parity, one for all global parities
 *   mlec    one line for each data row (the network code across columns), then one for each column,
 *           parity columns included (the local code across rows)
 *
 * The double parities of mlec, parity rows of parity columns, come from the local code here. The
 * network code across a parity row would give the same bytes: with network matrix N, local matrix L
 * and data matrix D (one column for each column of the block), both equal L * D * N^T, because
 * matrix products associate.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "code/codec_impl.h"

static int matrix_rs(struct matrix *m, const struct rs_shape *s)
{
	int err = matrix_init(m, s->p, s->k);
	if (err == 0) {
		gf_rs_rows(s->k, s->p, m->coef);
		matrix_ready(m);
	}
	return err;
}

static int matrix_ones(struct matrix *m, int rows, int cols)
{
	int err = matrix_init(m, rows, cols);
	if (err == 0) {
		memset(m->coef, 1, (size_t)rows * (size_t)cols);
		matrix_ready(m);
	}
	return err;
}

static int open_lrc(struct codec *c)
{
	const struct lrc_shape *s = &c->e.lrc;
	int err = matrix_init(&c->lrc_parities, s->groups + s->globals, s->k);
	if (err == 0)
		err = matrix_ones(&c->local_parities, 1, s->k / s->groups);
	if (err == 0)
		err = matrix_init(&c->global_parities, s->globals, s->k);
	if (err != 0)
		return err;
	gf_lrc_rows(s, c->lrc_parities.coef);
	size_t k = (size_t)s->k, groups = (size_t)s->groups, globals = (size_t)s->globals;
	memcpy(c->global_parities.coef, c->lrc_parities.coef + groups * k, globals * k);
	matrix_ready(&c->global_parities);
	return 0;
}

static int open_matrices(struct codec *c)
{
	switch (c->e.kind) {
	case ENCODING_REPLICATED:
		return matrix_ones(&c->global_parities, c->e.copies - 1, 1);
	case ENCODING_RS:
		return matrix_rs(&c->global_parities, &c->e.rs);
	case ENCODING_LRC:
		return open_lrc(c);
	case ENCODING_MLEC:
		break;
	}
	int err = matrix_rs(&c->global_parities, &c->e.mlec.net);
	return err != 0 ? err : matrix_rs(&c->local_parities, &c->e.mlec.local);
}

int codec_open_with(const struct encoding *e, const struct kernel *kernel, struct codec **out)
{
	int err = encoding_check(e, NULL, 0);
	if (err != 0)
		return err;
	struct codec *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->e = *e;
	c->kernel = kernel;
	c->data = encoding_data_chunks(e);
	c->total = encoding_total_chunks(e);
	assert(c->data >= 1 && c->data <= c->total);
	err = open_matrices(c);
	if (err != 0) {
		codec_close(c);
		return err;
	}
	*out = c;
	return 0;
}

int codec_open(const struct encoding *e, struct codec **out)
{
	return codec_open_with(e, &kernel_fast, out);
}

void codec_close(struct codec *c)
{
	if (c == NULL)
		return;
	matrix_fini(&c->global_parities);
	matrix_fini(&c->local_parities);
	matrix_fini(&c->lrc_parities);
	free(c);
}

const struct encoding *codec_encoding(const struct codec *c)
{
	return &c->e;
}

static int codec_lines(const struct codec *c)
{
	switch (c->e.kind) {
	case ENCODING_REPLICATED:
		return c->e.copies > 1 ? 1 : 0;
	case ENCODING_RS:
		return 1;
	case ENCODING_LRC:
		return c->e.lrc.groups + 1;
	case ENCODING_MLEC:
		break;
	}
	return c->e.mlec.local.k + c->e.mlec.net.k + c->e.mlec.net.p;
}

static struct line lrc_line(const struct codec *c, int i)
{
	const struct lrc_shape *s = &c->e.lrc;
	if (i < s->groups)
		return (struct line){&c->local_parities, i * (s->k / s->groups), s->k + i, 1};
	return (struct line){&c->global_parities, 0, s->k + s->groups, 1};
}

static struct line mlec_line(const struct codec *c, int i)
{
	const struct mlec_shape *s = &c->e.mlec;
	int height = codec_column_height(c);
	if (i < s->local.k)
		return (struct line){&c->global_parities, i, s->net.k * height + i, height};
	int first = (i - s->local.k) * height;
	return (struct line){&c->local_parities, first, first + s->local.k, 1};
}

static struct line codec_line(const struct codec *c, int i)
{
	assert(i >= 0 && i < codec_lines(c));
	if (c->e.kind == ENCODING_LRC)
		return lrc_line(c, i);
	if (c->e.kind == ENCODING_MLEC)
		return mlec_line(c, i);
	return (struct line){&c->global_parities, 0, c->data, 1};
}

static int check_chunks(const struct codec *c, size_t len, const struct sg *chunks, bool *flat)
{
	*flat = true;
	for (int i = 0; i < c->total; i++) {
		int err = sg_check(&chunks[i], len, encoding_data_index(&c->e, i) >= 0);
		if (err != 0)
			return err;
		*flat = *flat && sg_is_flat(&chunks[i], len);
	}
	return 0;
}

/*
 * Lists the chunks of a line in the caller's array, first the inputs, then the outputs, and returns
 * the product of the line.
 */
static struct product line_product(const struct line *line, int chunks[ENCODING_STRIPE_MAX])
{
	assert(line->m->cols + line->m->rows <= ENCODING_STRIPE_MAX);
	int *in = chunks, *out = chunks + line->m->cols;
	for (int j = 0; j < line->m->cols; j++)
		in[j] = line->in_first + j * line->step;
	for (int j = 0; j < line->m->rows; j++)
		out[j] = line->out_first + j * line->step;
	return (struct product){line->m, in, out, 0};
}

static void encode_line(const struct codec *c, int i, bool flat, size_t off, size_t len,
			const struct sg *chunks)
{
	int numbers[ENCODING_STRIPE_MAX];
	struct line line = codec_line(c, i);
	struct product p = line_product(&line, numbers);
	if (flat)
		sg_dot_flat(c->kernel, &p, off, (int)len, chunks);
	else
		sg_dot(c->kernel, &p, len, chunks);
}

/*
 * Checks that no output of a line overlaps its other chunks: one comparison for each coefficient,
 * which is cheap compared with the encoding.
 */
static int check_overlaps(const struct codec *c, const struct sg *chunks)
{
	int numbers[ENCODING_STRIPE_MAX];
	for (int i = 0; i < codec_lines(c); i++) {
		struct line line = codec_line(c, i);
		struct product p = line_product(&line, numbers);
		if (sg_overlaps(&p, chunks))
			return -EINVAL;
	}
	return 0;
}

/*
 * Flat chunks are encoded in runs of SG_BLOCK bytes, all lines of a run one after the other, so
 * that the later lines find their input in the processor's cache.
 */
int codec_encode(const struct codec *c, size_t len, const struct sg *chunks)
{
	bool flat;
	int err = check_chunks(c, len, chunks, &flat);
	if (err == 0)
		err = check_overlaps(c, chunks);
	if (err != 0)
		return err;
	int lines = codec_lines(c);
	assert(lines > 0 || c->data == c->total);
	size_t block = len;
	if (flat)
		block = lines > 1 ? SG_BLOCK : sg_run_max(c->global_parities.rows);
	for (size_t off = 0; off < len; off += block)
		for (int i = 0; i < lines; i++)
			encode_line(c, i, flat, off, min_u64(block, len - off), chunks);
	return 0;
}
