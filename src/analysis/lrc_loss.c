// SPDX-License-Identifier: Apache-2.0
#include "analysis/lrc_loss.h"

#include <errno.h>
#include <math.h>

#include "analysis/stats.h"
#include "base/base.h"
#include "base/rng.h"
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

static int share_of(const struct codec *c, int j, int n, struct rng *rng, double *share)
{
	int set[ENCODING_STRIPE_MAX];
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
	*share = (double)lost / (double)seen;
	return 0;
}

int lrc_loss_share(const struct encoding *e, double *share)
{
	int n = encoding_total_chunks(e), bears = encoding_tolerance(e);
	int most = n - encoding_data_chunks(e); /* more than this no code bears */
	struct codec *c = NULL;
	struct rng rng;
	rng_init(&rng, SEED);
	int rc = e->kind == ENCODING_LRC ? codec_open(e, &c) : 0;
	for (int j = 0; j <= n && rc == 0; j++) {
		share[j] = j > bears;
		if (c != NULL && j > bears && j <= most)
			rc = share_of(c, j, n, &rng, &share[j]);
	}
	codec_close(c);
	return rc;
}
