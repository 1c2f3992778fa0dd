// SPDX-License-Identifier: Apache-2.0
#include "analysis/lrc_odds.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/codec.h"
#include "code/gf.h"
#include "code/health.h"
#include "code/plan.h"

#define SEED 1
#define READ_SAMPLES 64
#define HEALTH_SAMPLES 20000
#define CHUNK_COST 1

static double choose(int n, int k)
{
	double c = 1;
	for (int i = 1; i <= k; i++)
		c = c * (n - k + i) / i;
	return c;
}

/* ways[j][x]: patterns of j losses, x of which take a global equation; the last x is "too many". */
struct ways {
	double at[LRC_ODDS_MAX + 1][LRC_ODDS_MAX + 2];
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

/* survived[j], lost[j]: parts of all patterns of j losses. Each is a sum of its own. */
static int count_patterns(const struct lrc_shape *s, int most, double *survived, double *lost)
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
		survived[j] = sum / all;
		lost[j] = w->at[j][s->globals + 1] / all;
	}
	return 0;
}

int lrc_odds_lost(const struct lrc_shape *s, int most, double *lost)
{
	double survived[LRC_ODDS_MAX + 1];
	return count_patterns(s, most, survived, lost);
}

static void draw(struct rng *rng, int *chunks, int n, int want)
{
	for (int i = 0; i < n; i++)
		chunks[i] = i;
	for (int i = 0; i < want; i++) {
		int other = i + (int)rng_below(rng, (uint64_t)(n - i));
		int t = chunks[i];
		chunks[i] = chunks[other];
		chunks[other] = t;
	}
}

static int ask_patterns(const struct codec *c, int n, int sure, int most, double *survived)
{
	struct rng rng;
	int chunks[ENCODING_STRIPE_MAX];
	rng_init(&rng, SEED);
	for (int j = 0; j <= most; j++) {
		int good = 0;
		for (int sample = 0; sample < HEALTH_SAMPLES && j > sure; sample++) {
			struct code_health health;
			draw(&rng, chunks, n, j);
			int rc = code_health(c, chunks, j, &health);
			if (rc != 0)
				return rc;
			good += health.tolerated;
		}
		survived[j] = j > sure ? (double)good / HEALTH_SAMPLES : 1;
	}
	return 0;
}

/* Chunks read for random losses of j that can be repaired; 0 when none was met. */
static int mean_reads(const struct codec *c, int n, int j, double *reads)
{
	struct rng rng;
	int chunks[ENCODING_STRIPE_MAX];
	double sum = 0;
	int met = 0;
	rng_init(&rng, SEED + (uint64_t)j);
	for (int sample = 0; sample < READ_SAMPLES; sample++) {
		uint32_t cost[ENCODING_STRIPE_MAX];
		struct plan *plan;
		for (int i = 0; i < n; i++)
			cost[i] = CHUNK_COST;
		draw(&rng, chunks, n, j);
		for (int i = 0; i < j; i++)
			cost[chunks[i]] = CHUNK_LOST;
		int rc = plan_rebuild(c, 1, cost, chunks, j, &plan);
		if (rc == -ENODATA)
			continue;
		if (rc != 0)
			return rc;
		sum += plan->n_reads;
		met++;
		plan_close(plan);
	}
	*reads = met > 0 ? sum / met : 0;
	return 0;
}

static int find(struct lrc_odds *odds, const struct lrc_shape *s, const struct codec *c)
{
	int n = s->k + s->groups + s->globals, most = s->groups + s->globals;
	double survived[LRC_ODDS_MAX + 1] = {0}, lost[LRC_ODDS_MAX + 1];
	int rc = gf_lrc_is_maximally_recoverable(s)
			 ? count_patterns(s, most, survived, lost)
			 : ask_patterns(c, n, s->globals + 1, most, survived);
	if (rc != 0)
		return rc;
	while (most > 1 && survived[most] <= 0)
		most--;
	odds->bears = (uint32_t)most;
	for (int j = s->globals + 2; j >= 1 && j <= most; j++) {
		double fatal = 1 - survived[j] / survived[j - 1];
		odds->fatal[j] = fatal > 0 ? fatal : 0;
	}
	odds->fatal[most + 1] = 1;
	for (int j = 1; j <= most && rc == 0; j++) {
		rc = mean_reads(c, n, j, &odds->reads[j]);
		if (odds->reads[j] <= 0)
			odds->reads[j] = s->k;
	}
	return rc;
}

int lrc_odds_find(struct lrc_odds *odds, const struct lrc_shape *s)
{
	*odds = (struct lrc_odds){0};
	if (s->groups + s->globals > LRC_ODDS_MAX)
		return -EOPNOTSUPP;
	struct codec *c;
	int rc = codec_open(&(struct encoding){.kind = ENCODING_LRC, .lrc = *s}, &c);
	if (rc != 0)
		return rc;
	rc = find(odds, s, c);
	codec_close(c);
	return rc;
}
