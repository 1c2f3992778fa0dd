// SPDX-License-Identifier: Apache-2.0
#include "analysis/lrc_loss.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/stats.h"
#include "base/base.h"
#include "base/rng.h"
#include "code/gf.h"
#include "code/health.h"

#define PATTERNS_MAX 60000
#define COUNTED_MAX 63 /* most losses of a stripe whose patterns are counted */
#define SEED 1

static double choose(int n, int k)
{
	double c = 1;
	for (int i = 1; i <= k; i++)
		c = c * (n - k + i) / i;
	return c;
}

/*
 * ways[j][x]: number of patterns of j losses, x of which need a global parity; the last x stands
 * for all that are too many.
 */
struct ways {
	double at[COUNTED_MAX + 1][COUNTED_MAX + 2];
};

static void add_part(struct ways *w, int size, int free_losses, int most, int globals)
{
	struct ways out = {0};
	for (int j = 0; j <= most; j++)
		for (int x = 0; x <= globals + 1; x++) {
			if (w->at[j][x] == 0)
				continue;
			for (int a = 0; a <= size && j + a <= most; a++) {
				int more = x + (a > free_losses ? a - free_losses : 0);
				more = more > globals ? globals + 1 : more;
				out.at[j + a][more] += w->at[j][x] * choose(size, a);
			}
		}
	*w = out;
}

static int count_patterns(struct lrc_loss *out, const struct lrc_shape *s, int most)
{
	AUTO_FREE struct ways *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	w->at[0][0] = 1;
	for (int g = 0; g < s->groups; g++)
		add_part(w, s->k / s->groups + 1, 1, most, s->globals);
	add_part(w, s->globals, 0, most, s->globals);
	for (int j = 0; j <= most; j++) {
		double sum = 0, all = choose(s->k + s->groups + s->globals, j);
		for (int x = 0; x <= s->globals; x++)
			sum += w->at[j][x];
		out->survived[j] = sum / all;
		out->share[j] = w->at[j][s->globals + 1] / all;
		out->low[j] = out->high[j] = out->share[j];
	}
	return 0;
}

/*
 * Advances `set` to the next j-subset of 0..n-1 in lexicographic order. Returns false after the
 * last subset.
 */
static bool next_subset(int *set, int j, int n)
{
	assert(j >= 1 && j <= n);
	int i = j - 1;
	while (i >= 0 && set[i] == n - j + i)
		i--;
	if (i < 0)
		return false;
	set[i]++;
	for (int k = i + 1; k < j; k++)
		set[k] = set[k - 1] + 1;
	return true;
}

static void random_subset(struct rng *rng, int *order, int j, int n)
{
	for (int i = 0; i < j; i++) {
		int other = i + (int)rng_below(rng, (uint64_t)(n - i));
		int t = order[i];
		order[i] = order[other];
		order[other] = t;
	}
}

static int ask(const struct codec *c, int j, int n, struct rng *rng, struct lrc_loss *out)
{
	int set[ENCODING_STRIPE_MAX] = {0};
	struct code_health health;
	uint64_t lost = 0, seen = 0;
	bool all = exp(stats_log_choose(n, j)) <= PATTERNS_MAX;
	for (int i = 0; i < n; i++)
		set[i] = i;
	do {
		if (!all)
			random_subset(rng, set, j, n);
		int rc = code_health(c, set, j, &health);
		if (rc != 0)
			return rc;
		lost += !health.tolerated;
		seen++;
	} while (all ? next_subset(set, j, n) : seen < PATTERNS_MAX);
	struct interval i = stats_clopper_pearson(lost, seen, STATS_CONFIDENCE);
	out->share[j] = (double)lost / (double)seen;
	out->survived[j] = (double)(seen - lost) / (double)seen;
	out->low[j] = all ? out->share[j] : i.low;
	out->high[j] = all ? out->share[j] : i.high;
	out->exact = out->exact && all;
	return 0;
}

static int ask_all(struct lrc_loss *out, const struct encoding *e, int max_losses, int most)
{
	struct codec *c;
	struct rng rng;
	rng_init(&rng, SEED);
	int rc = codec_open(e, &c);
	if (rc != 0)
		return rc;
	for (int j = max_losses + 1; j <= most && rc == 0; j++)
		rc = ask(c, j, encoding_total_chunks(e), &rng, out);
	codec_close(c);
	return rc;
}

static void set_tolerance(struct lrc_loss *out, const struct encoding *e)
{
	int n = encoding_total_chunks(e), max_losses = encoding_tolerance(e);
	out->exact = true;
	for (int j = 0; j <= n; j++) {
		out->share[j] = out->low[j] = out->high[j] = j > max_losses;
		out->survived[j] = j <= max_losses;
	}
}

int lrc_loss_find(struct lrc_loss *out, const struct encoding *e)
{
	/* no code survives the loss of more chunks than it has parities */
	int most = encoding_total_chunks(e) - encoding_data_chunks(e);
	set_tolerance(out, e);
	if (e->kind != ENCODING_LRC)
		return 0;
	if (most > COUNTED_MAX || !gf_lrc_is_maximally_recoverable(&e->lrc))
		return ask_all(out, e, encoding_tolerance(e), most);
	return count_patterns(out, &e->lrc, most);
}

int lrc_loss_at_best(struct lrc_loss *out, const struct encoding *e)
{
	assert(e->kind == ENCODING_LRC);
	int most = encoding_total_chunks(e) - encoding_data_chunks(e);
	if (most > COUNTED_MAX)
		return -EOPNOTSUPP;
	set_tolerance(out, e);
	return count_patterns(out, &e->lrc, most);
}
