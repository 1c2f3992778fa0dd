// SPDX-License-Identifier: Apache-2.0
#include "analysis/lrc_loss.h"

#include <errno.h>
#include <math.h>

#include "analysis/lrc_odds.h"
#include "analysis/stats.h"
#include "base/base.h"
#include "base/rng.h"
#include "code/gf.h"
#include "code/health.h"

#define PATTERNS_MAX 60000
#define SEED 1

/* The next j-subset of 0..n-1 in order; false after the last. */
static bool next_subset(int *set, int j, int n)
{
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
	out->low[j] = all ? out->share[j] : i.low;
	out->high[j] = all ? out->share[j] : i.high;
	out->exact = out->exact && all;
	return 0;
}

static int ask_all(struct lrc_loss *out, const struct encoding *e, int bears, int most)
{
	struct codec *c;
	struct rng rng;
	rng_init(&rng, SEED);
	int rc = codec_open(e, &c);
	if (rc != 0)
		return rc;
	for (int j = bears + 1; j <= most && rc == 0; j++)
		rc = ask(c, j, encoding_total_chunks(e), &rng, out);
	codec_close(c);
	return rc;
}

int lrc_loss_find(struct lrc_loss *out, const struct encoding *e)
{
	int n = encoding_total_chunks(e), bears = encoding_tolerance(e);
	int most = n - encoding_data_chunks(e); /* more than this no code bears */
	double lost[LRC_ODDS_MAX + 1];
	out->exact = true;
	for (int j = 0; j <= n; j++)
		out->share[j] = out->low[j] = out->high[j] = j > bears;
	if (e->kind != ENCODING_LRC)
		return 0;
	if (most > LRC_ODDS_MAX || !gf_lrc_is_maximally_recoverable(&e->lrc))
		return ask_all(out, e, bears, most);
	int rc = lrc_odds_lost(&e->lrc, most, lost);
	for (int j = bears + 1; j <= most && rc == 0; j++)
		out->share[j] = out->low[j] = out->high[j] = lost[j];
	return rc;
}
