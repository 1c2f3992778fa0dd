// SPDX-License-Identifier: Apache-2.0
#include "analysis/lrc_odds.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "analysis/lrc_loss.h"
#include "base/base.h"
#include "base/rng.h"
#include "code/codec.h"
#include "code/plan.h"

#define SEED 1
#define READ_SAMPLES 64
#define CHUNK_COST 1

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

/* Computes the mean number of chunks read to repair j random losses, over the patterns that can be
 * repaired; 0 when no such pattern was drawn. */
static int mean_reads(const struct codec *c, int n, int j, double *reads)
{
	assert(j >= 1 && j < n);
	struct rng rng;
	int chunks[ENCODING_STRIPE_MAX] = {0};
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

static int find(struct lrc_odds *odds, const struct lrc_shape *s, bool at_best,
		const struct codec *c)
{
	const struct encoding e = {.kind = ENCODING_LRC, .lrc = *s};
	int n = s->k + s->groups + s->globals, most = s->groups + s->globals;
	AUTO_FREE struct lrc_loss *loss = malloc(sizeof(*loss));
	if (loss == NULL)
		return -ENOMEM;
	int rc = at_best ? lrc_loss_at_best(loss, &e) : lrc_loss_find(loss, &e);
	if (rc != 0)
		return rc;
	while (most > 1 && loss->survived[most] <= 0)
		most--;
	odds->max_losses = (uint32_t)most;
	for (int j = s->globals + 2; j <= most; j++) {
		double fatal = 1 - loss->survived[j] / loss->survived[j - 1];
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

int lrc_odds_find(struct lrc_odds *odds, const struct lrc_shape *s, bool at_best)
{
	*odds = (struct lrc_odds){0};
	if (s->groups + s->globals > LRC_ODDS_MAX)
		return -EOPNOTSUPP;
	struct codec *c;
	int rc = codec_open(&(struct encoding){.kind = ENCODING_LRC, .lrc = *s}, &c);
	if (rc != 0)
		return rc;
	rc = find(odds, s, at_best, c);
	codec_close(c);
	return rc;
}
