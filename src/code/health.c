// SPDX-License-Identifier: Apache-2.0
#include "code/health.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "code/codec_impl.h"
#include "code/stopping.h"

static int max_int(int a, int b)
{
	return a > b ? a : b;
}

/* ---- r, rs ---- */

static void rs_health(const struct codec *c, int n_lost, struct code_health *h)
{
	int left = c->total - c->data - n_lost;
	assert(n_lost >= 0 && n_lost <= c->total);
	h->tolerated = left >= 0;
	h->more = max_int(left, 0);
	h->exact = h->tolerated;
}

/* ---- lrc ---- */

/*
 * Returns how many more losses a maximally recoverable code tolerates. Let its slack be the number
 * of global parities left, minus the losses beyond the first in each group: losses are tolerated
 * while the slack is at least 0. A further loss of a global parity, or in a group that already has
 * a loss, lowers the slack by one, and enough such chunks always remain. When no group has a loss
 * yet, the first loss in a group does not lower the slack.
 */
static int lrc_generic_more(const struct codec *c, const bool *lost)
{
	const struct lrc_shape *s = &c->e.lrc;
	int slack = s->globals, touched = 0;
	for (int i = s->k + s->groups; i < c->total; i++)
		slack -= lost[i];
	for (int g = 0; g < s->groups; g++) {
		int n = lost[s->k + g];
		for (int i = 0; i < c->local_parities.cols; i++)
			n += lost[g * c->local_parities.cols + i];
		touched += n > 0;
		slack -= max_int(n - 1, 0);
	}
	return max_int(slack, 0) + (touched == 0);
}

static int lrc_health(const struct codec *c, const bool *lost, int n_lost, struct code_health *h)
{
	struct stripe_code s = codec_stripe(c);
	int left[ENCODING_STRIPE_MAX], picked[ENCODING_STRIPE_MAX], n = 0;
	for (int i = 0; i < c->total; i++)
		if (!lost[i])
			left[n++] = i;
	int rank = gf_pick_independent(&s, left, n, picked);
	if (rank < 0)
		return rank;
	h->tolerated = rank == s.k;
	if (!h->tolerated)
		return 0;
	int generic = lrc_generic_more(c, lost);
	h->more = gf_lrc_is_maximally_recoverable(&c->e.lrc)
			  ? generic
			  : max_int(c->e.lrc.globals + 1 - n_lost, 0);
	h->exact = h->more == generic;
	return 0;
}

/* ---- mlec ---- */

struct grid {
	int height, width;
	const struct mlec_shape *shape;
	/* by chunk number: the chunk is lost; peeling clears the flag */
	bool *lost;
	int in_column[ENCODING_STRIPE_MAX]; /* number of losses in each column */
	int in_row[ENCODING_STRIPE_MAX];
};

static void grid_count(struct grid *g)
{
	memset(g->in_column, 0, sizeof(g->in_column));
	memset(g->in_row, 0, sizeof(g->in_row));
	for (int i = 0; i < g->height * g->width; i++) {
		g->in_column[i / g->height] += g->lost[i];
		g->in_row[i % g->height] += g->lost[i];
	}
}

/*
 * Marks as rebuilt the losses of every row or column that its code can decode, until no line can be
 * decoded (peeling).
 * Returns the number of losses that remain.
 */
static int grid_peel(struct grid *g)
{
	int left = 0, before;
	for (int i = 0; i < g->width; i++)
		left += g->in_column[i];
	do {
		before = left;
		for (int i = 0; i < g->height * g->width; i++) {
			int column = i / g->height, row = i % g->height;
			if (!g->lost[i] || (g->in_column[column] > g->shape->local.p &&
					    g->in_row[row] > g->shape->net.p))
				continue;
			assert(g->in_column[column] > 0 && g->in_row[row] > 0);
			g->lost[i] = false;
			g->in_column[column]--;
			g->in_row[row]--;
			left--;
		}
	} while (left < before);
	assert(left >= 0);
	return left;
}

/* Lists all columns; the PN+1 with the most losses come first, in falling order. */
static void grid_worst_first(const struct grid *g, int *columns)
{
	assert(g->shape->net.p < g->width);
	for (int i = 0; i < g->width; i++)
		columns[i] = i;
	for (int i = 0; i <= g->shape->net.p; i++) {
		for (int j = i + 1; j < g->width; j++) {
			int a = columns[i], b = columns[j];
			if (g->in_column[b] > g->in_column[a]) {
				columns[i] = b;
				columns[j] = a;
			}
		}
	}
}

/*
 * Returns how many further losses make PN+1 columns lost. Sets *common when all losses of these
 * columns can lie in PL+1 common rows.
 */
static int grid_deficit(const struct grid *g, bool *common)
{
	int worst[ENCODING_STRIPE_MAX] = {0}, deficit = 0, rows = 0;
	bool row[ENCODING_STRIPE_MAX] = {false};
	grid_worst_first(g, worst);
	for (int i = 0; i <= g->shape->net.p; i++) {
		deficit += max_int(g->shape->local.p + 1 - g->in_column[worst[i]], 0);
		for (int r = 0; r < g->height; r++)
			row[r] = row[r] || g->lost[worst[i] * g->height + r];
	}
	for (int r = 0; r < g->height; r++)
		rows += row[r];
	*common = rows <= g->shape->local.p + 1;
	return deficit;
}

/* Sets in h whether the losses that remain after peeling are tolerated. */
static int stopping_health(const struct codec *c, const bool *lost, struct code_health *h)
{
	struct stopping rest;
	int err = stopping_solve(&rest, c, lost, false);
	h->tolerated = rest.rank == rest.n_unknown;
	stopping_fini(&rest);
	return err;
}

static int mlec_health(const struct codec *c, bool *lost, struct code_health *h)
{
	struct grid g = {codec_column_height(c),
			 c->e.mlec.net.k + c->e.mlec.net.p,
			 &c->e.mlec,
			 lost,
			 {0},
			 {0}};
	bool common;
	grid_count(&g);
	for (int i = 0; i < g.width; i++)
		h->lost_columns += g.in_column[i] > g.shape->local.p;
	int deficit = grid_deficit(&g, &common);
	h->more = max_int(deficit - 1, 0);
	h->exact = deficit > 0 && common;
	h->tolerated = grid_peel(&g) == 0;
	return h->tolerated ? 0 : stopping_health(c, lost, h);
}

int code_health(const struct codec *c, const int *lost, int n_lost, struct code_health *out)
{
	struct code_health h = {0};
	int err = 0;
	AUTO_FREE bool *marks = calloc((size_t)c->total, sizeof(*marks));
	if (marks == NULL)
		return -ENOMEM;
	for (int i = 0; i < n_lost; i++) {
		if (lost[i] < 0 || lost[i] >= c->total || marks[lost[i]])
			return -EINVAL;
		marks[lost[i]] = true;
	}
	if (c->e.kind == ENCODING_LRC)
		err = lrc_health(c, marks, n_lost, &h);
	else if (c->e.kind == ENCODING_MLEC)
		err = mlec_health(c, marks, &h);
	else
		rs_health(c, n_lost, &h);
	assert(h.tolerated || h.more == 0);
	if (err == 0)
		*out = h;
	return err;
}
