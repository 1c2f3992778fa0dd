// SPDX-License-Identifier: Apache-2.0
/* Methods that use a model which is trained on the training trace, or was read from a file. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/placement/adaptive.h"
#include "analysis/placement/rows.h"
#include "analysis/placement/train.h"
#include "base/base.h"
#include "base/hash.h"

/* What a walk over the test trace fills. */
struct fill {
	const struct model *model;
	int *category;
	float *output;
};

static int fill_row(void *arg, size_t job, const float *values)
{
	struct fill *f = arg;
	float out[TREES_GROUPS_MAX];
	trees_run(&f->model->trees, values, out);
	if (f->category != NULL)
		f->category[job] = (int)model_decide(f->model, out);
	if (f->output != NULL)
		f->output[job] = out[0];
	return 0;
}

static int walk_test(const struct study *s, struct model *m, int *category, float *output)
{
	struct fill fill = {m, category, output};
	struct rows rows = {m, s->test, INFINITY, fill_row, &fill};
	return rows_walk(&rows);
}

static struct train_options options_for(const struct study *s, const struct method_options *o,
					enum train_label label)
{
	struct train_options t = train_default;
	t.label = label;
	t.categories = (uint32_t)o->categories;
	t.ratio = o->ratio;
	t.held_power = o->held_power;
	t.rounds = (uint32_t)o->rounds;
	t.depth = (uint32_t)o->depth;
	t.rate = o->rate;
	t.seed = (uint32_t)o->seed;
	t.shuffled = o->shuffled > 0;
	t.without = (uint32_t)o->without;
	t.until_s = s->begin_s;
	return t;
}

static int train_categories(const struct study *s, const struct method_options *o,
			    enum train_label label, int *category)
{
	AUTO_MODEL struct model m = {0};
	struct train_report report;
	struct train_options t = options_for(s, o, label);
	int rc = train_model(&m, s->train, &s->rates, &t, &report);
	return rc == 0 ? walk_test(s, &m, category, NULL) : rc;
}

int method_terrane(const struct study *s, const struct method_options *o, struct prediction *p)
{
	return train_categories(s, o, TRAIN_WORTH, p->category);
}

int method_ranking(const struct study *s, const struct method_options *o, struct prediction *p)
{
	return train_categories(s, o, TRAIN_DENSITY, p->category);
}

int method_file(const struct study *s, const struct method_options *o, struct prediction *p)
{
	AUTO_MODEL struct model m = {0};
	uint8_t *bytes;
	size_t len;
	if (s->model == NULL)
		return -ENOENT;
	/* A copy: the walk adds to its history. */
	int rc = model_write(s->model, &bytes, &len);
	if (rc != 0)
		return rc;
	rc = model_parse(&m, bytes, len);
	free(bytes);
	return rc == 0 ? walk_test(s, &m, p->category, NULL) : rc;
}

/*
 * The lifetime method (section 3.4 of the BYOM paper): mean m and deviation d of the logarithm of the lifetime are
 * predicted, the deviation from the mean of the square. Jobs whose m + d is below a limit are admitted, and moved to
 * disk when they live longer than that.
 */
int method_lifetime(const struct study *s, const struct method_options *o, struct prediction *p)
{
	static const enum train_label labels[2] = {TRAIN_LIFE, TRAIN_LIFE_SQUARE};
	AUTO_FREE float *mean = calloc(s->test->n, sizeof(*mean));
	AUTO_FREE float *square = calloc(s->test->n, sizeof(*square));
	int rc = mean == NULL || square == NULL ? -ENOMEM : 0;
	for (size_t i = 0; rc == 0 && i < 2; i++) {
		AUTO_MODEL struct model m = {0};
		struct train_report report;
		struct train_options t = options_for(s, o, labels[i]);
		rc = train_model(&m, s->train, &s->rates, &t, &report);
		if (rc == 0)
			rc = walk_test(s, &m, NULL, i == 0 ? mean : square);
	}
	for (size_t i = 0; rc == 0 && i < s->test->n; i++) {
		double spread = sqrt(fmax((double)square[i] - (double)mean[i] * mean[i], 0));
		double stay_s = exp2(fmin((double)mean[i] + spread, 60));
		p->stay_s[i] = stay_s < o->lifetime_limit_s ? stay_s : 0;
	}
	return rc;
}

static uint32_t frequent_user(const struct jobs *t, int column)
{
	uint32_t best = JOBS_MISSING;
	AUTO_FREE uint32_t *count = calloc(t->strings.n + 1, sizeof(*count));
	for (size_t i = 0; count != NULL && column >= 0 && i < t->n; i++) {
		uint32_t user = t->texts[i * t->texts_n + (size_t)column];
		if (user == JOBS_MISSING)
			continue;
		count[user]++;
		if (best == JOBS_MISSING || count[user] > count[best])
			best = user;
	}
	return best;
}

void method_spoil(const struct study *s, const struct method_options *o, int *category)
{
	const struct jobs *t = s->test;
	int column = jobs_text_column(t, "s_user"), most = (int)o->categories - 1;
	uint32_t liar = o->hint_liar > 0 ? frequent_user(t, column) : JOBS_MISSING;
	for (size_t i = 0; i < t->n; i++) {
		if (o->hint_invert > 0)
			category[i] = most - category[i];
		if (o->hint_constant > 0)
			category[i] = (most + 1) / 2;
		double draw = (double)(hash64_u64s(i, 11) >> 11) / (double)(1ULL << 53);
		if (draw < o->hint_wrong)
			category[i] = (int)(hash64_u64s(i, 12) % ((uint64_t)most + 1));
		if (liar != JOBS_MISSING && t->texts[i * t->texts_n + (size_t)column] == liar)
			category[i] = most;
	}
}

struct timed {
	struct policy base;
	const double *stay_s;
};

static double timed_stay(struct policy *p, size_t job, double free_bytes)
{
	return container_of(p, struct timed, base)->stay_s[job];
}

static void timed_close(struct policy *p)
{
	free(container_of(p, struct timed, base));
}

static const struct policy_ops timed_ops = {.stay_s = timed_stay, .close = timed_close};

int method_open_timed(const double *stay_s, struct policy **out)
{
	struct timed *t = malloc(sizeof(*t));
	if (t == NULL)
		return -ENOMEM;
	*t = (struct timed){{&timed_ops}, stay_s};
	*out = &t->base;
	return 0;
}
