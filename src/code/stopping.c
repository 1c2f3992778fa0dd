// SPDX-License-Identifier: Apache-2.0
/*
 * Theory: decoding what peeling cannot.
 *
 * Repairing rows and columns of an mlec again and again ("peeling") ends with all chunks, or with a
 * stopping set: each of its rows misses more than PN chunks and each of its columns more than PL.
 * Most stopping sets are lost. Some are not: rows and columns share chunks, so several lines
 * together can have as many equations as unknowns although no single line has.
 *
 * A grid of chunks is a codeword when every row satisfies the PN parity checks of the network code
 * (parity q + sum over j of N[q][j] * data j = 0) and every column the PL checks of the local one.
 * The checks of lines without a missing chunk contain no unknown. The other checks are linear
 * equations, and the chunks that they determine are exactly those that any decoder could rebuild.
 * With r rows and c columns touched there are r PN + c PL checks, of which PN PL follow from the
 * others: more unknowns than r PN + c PL - PN PL are never all determined, so that case needs no
 * solving.
 *
 * Example: mlec:5+2/4+1 loses chunks 0 3 5 9 12 14 16 17 18 21 22 25 29 30 31. Rows decode 3 and
 * 18, then a column decodes 0. Twelve chunks remain, three in each of four rows and two in each of
 * six columns: 12 unknowns in 4 * 2 + 6 * 1 - 2 * 1 = 12 equations, which are independent.
 *
 * The work grows with the cube of the stopping set and is bounded. The code (10+2)/(17+3) has at
 * most 84 equations in 240 chunks, 2 million multiplications. A set that takes more than
 * STOPPING_WORK_MAX, as with a hundred parities in both directions, is refused with -EFBIG.
 */
#include "code/stopping.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define STOPPING_WORK_MAX (1ULL << 33) /* most multiplications: some seconds of work */

/* The rows and columns that have a missing chunk. */
struct touched {
	bool row[ENCODING_STRIPE_MAX];
	bool column[ENCODING_STRIPE_MAX];
	int rows, columns;
};

static void find_touched(struct touched *t, const bool *missing, int height, int width)
{
	*t = (struct touched){0};
	for (int i = 0; i < height * width; i++) {
		if (!missing[i])
			continue;
		t->rows += !t->row[i % height];
		t->columns += !t->column[i / height];
		t->row[i % height] = t->column[i / height] = true;
	}
}

/* Returns the coefficient of chunk i of a stripe in its q-th parity check. */
static uint8_t check_coef(const struct stripe_code *code, int q, int i)
{
	assert(q >= 0 && q < code->n - code->k);
	return i < code->k ? code->rows[q * code->k + i] : i == code->k + q;
}

/* Adds check q of one line as a row. place[chunk] is the column of its coefficient, or -1. */
static void add_check(struct stopping *s, const struct stripe_code *code, int q, int first,
		      int stride, const int *place)
{
	uint8_t *row = s->rows + (ptrdiff_t)s->n_rows++ * s->width;
	for (int i = 0; i < code->n; i++) {
		int at = place[first + i * stride];
		if (at >= 0)
			row[at] = check_coef(code, q, i);
	}
}

static void add_checks(struct stopping *s, const struct touched *t, const struct codec *c,
		       const int *place)
{
	struct stripe_code column = codec_column_stripe(c), row = codec_row_stripe(c);
	for (int i = 0; i < column.n; i++)
		for (int q = 0; t->row[i] && q < row.n - row.k; q++)
			add_check(s, &row, q, i, column.n, place);
	for (int i = 0; i < row.n; i++)
		for (int q = 0; t->column[i] && q < column.n - column.k; q++)
			add_check(s, &column, q, i * column.n, 1, place);
}

/*
 * Assigns columns to chunks: first the unknown ones, then, if with_known, the known chunks of
 * touched lines.
 */
static void number_chunks(struct stopping *s, const struct touched *t, const struct codec *c,
			  const bool *missing, bool with_known, int *place)
{
	int height = codec_column_height(c);
	for (int i = 0; i < c->total; i++) {
		place[i] = -1;
		if (missing[i]) {
			place[i] = s->n_unknown;
			s->unknown[s->n_unknown++] = i;
		}
	}
	s->known = s->unknown + s->n_unknown;
	for (int i = 0; with_known && i < c->total; i++) {
		if (!missing[i] && (t->row[i % height] || t->column[i / height])) {
			place[i] = s->n_unknown + s->n_known;
			s->known[s->n_known++] = i;
		}
	}
	s->width = s->n_unknown + s->n_known;
}

int stopping_solve(struct stopping *s, const struct codec *c, const bool *missing, bool with_known)
{
	struct stripe_code column = codec_column_stripe(c), row = codec_row_stripe(c);
	assert(c->e.kind == ENCODING_MLEC);
	struct touched t;
	*s = (struct stopping){0};
	find_touched(&t, missing, column.n, row.n);
	int pn = row.n - row.k, pl = column.n - column.k, checks = t.rows * pn + t.columns * pl;
	AUTO_FREE int *place = calloc((size_t)c->total, sizeof(*place));
	s->unknown = malloc((size_t)c->total * sizeof(*s->unknown));
	if (place == NULL || s->unknown == NULL)
		return -ENOMEM;
	number_chunks(s, &t, c, missing, with_known, place);
	if (!with_known && s->n_unknown > checks - pn * pl)
		return 0; /* the rank stays 0: the known chunks do not determine all unknown ones */
	if ((uint64_t)checks * (uint64_t)checks * (uint64_t)s->width > STOPPING_WORK_MAX)
		return -EFBIG;
	s->rows = calloc((size_t)checks + 1, (size_t)s->width + 1);
	s->pivot = calloc((size_t)s->n_unknown + 1, sizeof(*s->pivot));
	if (s->rows == NULL || s->pivot == NULL)
		return -ENOMEM;
	add_checks(s, &t, c, place);
	assert(s->n_rows == checks);
	s->rank = gf_eliminate(s->rows, s->n_rows, s->n_unknown, s->width, s->pivot);
	return 0;
}

void stopping_fini(struct stopping *s)
{
	free(s->unknown);
	free(s->rows);
	free(s->pivot);
	*s = (struct stopping){0};
}

/*
 * Returns the coefficients of unknown chunk u: the equation of its pivot determines the chunk when
 * no other unknown is left in that equation.
 */
const uint8_t *stopping_coef(const struct stopping *s, int u)
{
	assert(u >= 0 && u < s->n_unknown && s->pivot != NULL);
	if (s->pivot[u] < 0)
		return NULL;
	const uint8_t *row = s->rows + (ptrdiff_t)s->pivot[u] * s->width;
	for (int v = 0; v < s->n_unknown; v++)
		if (v != u && row[v] != 0)
			return NULL;
	return row + s->n_unknown;
}
