// SPDX-License-Identifier: Apache-2.0
#include "analysis/placement/train.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/placement/rows.h"
#include "base/base.h"
#include "base/rng.h"

#define JOBS_LEAST ((size_t)50) /* in each slice */
#define TRAIN_SHARE 0.8
#define CUT_LEAST 1e-6

const struct train_options train_default = {
	.label = TRAIN_WORTH,
	.categories = 15,
	.ratio = 1.7,
	.held_power = 0,
	.until_s = INFINITY,
	.rounds = 300,
	.patience = 20,
	.depth = 6,
	.rate = 0.1,
	.seed = 1,
};

/* The jobs that are known, with features and labels; rows are in the order of starts. */
struct table {
	const struct jobs *jobs;
	const struct train_options *o;
	struct model *model;
	uint32_t columns;
	size_t rows;
	float *values, *label, *weight;
	double *score, *held; /* true score of the worth, or density; byte-seconds */
	double *start_s, *end_s;
};

static void table_fini(struct table *t)
{
	free(t->values);
	free(t->label);
	free(t->weight);
	free(t->score);
	free(t->held);
	free(t->start_s);
	free(t->end_s);
}

#define AUTO_TABLE __attribute__((cleanup(table_fini)))

static int table_init(struct table *t)
{
	size_t n = t->jobs->n + 1;
	t->values = malloc(n * t->columns * sizeof(*t->values));
	t->label = calloc(n, sizeof(*t->label));
	t->weight = calloc(n, sizeof(*t->weight));
	t->score = calloc(n, sizeof(*t->score));
	t->held = calloc(n, sizeof(*t->held));
	t->start_s = calloc(n, sizeof(*t->start_s));
	t->end_s = calloc(n, sizeof(*t->end_s));
	bool memory = t->values != NULL && t->label != NULL && t->weight != NULL &&
		      t->score != NULL && t->held != NULL && t->start_s != NULL && t->end_s != NULL;
	return memory ? 0 : -ENOMEM;
}

static void drop_groups(const struct table *t, float *values)
{
	for (uint32_t i = 0; t->o->without != 0 && i < t->columns; i++)
		if (t->o->without >> features_group(&t->model->features, i) & 1)
			values[i] = NAN;
}

static int add_row(void *arg, size_t job, const float *values)
{
	struct table *t = arg;
	const struct job_io *io = &t->jobs->io[job];
	if (io->end_s > t->o->until_s)
		return 0;
	struct cost cost = cost_of(&t->model->rates, io);
	float *row = t->values + t->rows * t->columns;
	memcpy(row, values, t->columns * sizeof(*row));
	drop_groups(t, row);
	double life = log2(fmax(job_seconds(io), 0.001));
	bool density = t->o->label == TRAIN_DENSITY;
	t->score[t->rows] = density ? cost_density(io)
				    : features_score(cost_worth(&t->model->rates, io, &cost));
	if (density && cost_savings(&cost) < 0)
		t->score[t->rows] = -1;
	t->label[t->rows] = (float)(t->o->label == TRAIN_LIFE          ? life
				    : t->o->label == TRAIN_LIFE_SQUARE ? life * life
								       : t->score[t->rows]);
	t->held[t->rows] = job_byte_seconds(io);
	t->start_s[t->rows] = io->start_s;
	t->end_s[t->rows] = io->end_s;
	t->rows++;
	return 0;
}

/* Gives each job the labels of another one. */
static void shuffle(struct table *t)
{
	struct rng rng;
	rng_init(&rng, t->o->seed);
	for (size_t i = t->rows; i > 1; i--) {
		size_t k = rng_below(&rng, i);
		float label = t->label[i - 1];
		double score = t->score[i - 1];
		t->label[i - 1] = t->label[k];
		t->score[i - 1] = t->score[k];
		t->label[k] = label;
		t->score[k] = score;
	}
}

static void weigh(struct table *t)
{
	double mean = 0;
	for (size_t i = 0; i < t->rows; i++)
		mean += pow(t->held[i], t->o->held_power) / (double)t->rows;
	for (size_t i = 0; i < t->rows; i++)
		t->weight[i] = (float)fmax(pow(t->held[i], t->o->held_power) / mean, 1e-6);
}

/* Copies the rows of a slice to the front of a table of its own. */
static int slice(const struct table *t, bool (*in)(const struct table *, size_t, double),
		 double cut_s, struct table *out)
{
	*out = *t;
	out->rows = 0;
	int rc = table_init(out);
	for (size_t i = 0; rc == 0 && i < t->rows; i++) {
		if (!in(t, i, cut_s))
			continue;
		memcpy(out->values + out->rows * t->columns, t->values + i * t->columns,
		       t->columns * sizeof(*t->values));
		out->label[out->rows] = t->label[i];
		out->weight[out->rows] = t->weight[i];
		out->score[out->rows] = t->score[i];
		out->held[out->rows] = t->held[i];
		out->rows++;
	}
	return rc;
}

static bool ended_before(const struct table *t, size_t i, double cut_s)
{
	return t->end_s[i] <= cut_s;
}

static bool started_after(const struct table *t, size_t i, double cut_s)
{
	return t->start_s[i] >= cut_s;
}

/* Divides the jobs that gain by the given values; for densities equally deep, else by byte-seconds. */
static int fit_cuts(const struct table *t, const float *values, struct category_cuts *cuts)
{
	AUTO_FREE struct category_sample *samples = calloc(t->rows + 1, sizeof(*samples));
	bool density = t->o->label == TRAIN_DENSITY;
	size_t n = 0;
	if (samples == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < t->rows; i++) {
		double v = values != NULL ? (double)values[i] : t->score[i];
		if (v >= 0)
			samples[n++] =
				(struct category_sample){v, density ? 1 : fmax(t->held[i], 1)};
	}
	category_fit(cuts, t->o->categories, density ? 1 : t->o->ratio, samples, n);
	return 0;
}

static struct boost_data data_of(const struct table *t)
{
	return (struct boost_data){t->values, t->rows, t->columns, t->label, t->weight};
}

static struct boost_options boost_of(const struct train_options *o, uint32_t rounds)
{
	return (struct boost_options){
		.classes = o->label == TRAIN_DENSITY ? o->categories : 0,
		.rounds = rounds,
		.patience = o->patience,
		.depth = o->depth,
		.rate = o->rate,
		.rows_share = 0.8,
		.columns_share = 0.5,
		.leaf_weight = o->label == TRAIN_DENSITY ? 1 : 5,
		.seed = o->seed,
	};
}

static int train(struct table *t, const struct table *valid, uint32_t rounds,
		 struct train_report *report)
{
	struct boost_data data = data_of(t), check;
	struct boost_options o = boost_of(t->o, rounds);
	struct boost_result result;
	if (valid != NULL)
		check = data_of(valid);
	trees_fini(&t->model->trees);
	int rc = boost_train(&data, valid != NULL ? &check : NULL, &o, &t->model->trees, &result);
	memcpy(report->why, result.why, sizeof(report->why));
	report->rounds = result.rounds;
	if (valid != NULL)
		report->metric = result.metric;
	return rc;
}

struct ranked {
	float output;
	bool is; /* the job is of the category */
};

static int by_output(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	return x->output < y->output ? -1 : x->output > y->output;
}

/* Returns the share of the pairs of a job of the category and another one that the outputs put in the right order. */
static double area_of(struct ranked *list, size_t n)
{
	double below = 0, area = 0, yes = 0;
	qsort(list, n, sizeof(*list), by_output);
	for (size_t i = 0; i < n;) {
		size_t end = i;
		double same[2] = {0};
		for (; end < n && by_output(&list[i], &list[end]) == 0; end++)
			same[list[end].is]++;
		area += same[1] * (below + same[0] / 2);
		yes += same[1];
		below += same[0];
		i = end;
	}
	return yes > 0 && below > 0 ? area / (yes * below) : NAN;
}

static int areas(const struct table *valid, struct train_report *report)
{
	const struct model *m = valid->model;
	float out[TREES_GROUPS_MAX];
	uint32_t n = m->kind == MODEL_CLASSES ? m->cuts.categories : 0;
	AUTO_FREE struct ranked *list = calloc(valid->rows * (n + 1), sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	assert(n <= TREES_GROUPS_MAX && n <= CATEGORY_MAX);
	for (size_t i = 0; n > 0 && i < valid->rows; i++) {
		trees_run(&m->trees, valid->values + i * valid->columns, out);
		uint32_t is = category_of(&m->cuts, valid->score[i], valid->score[i]);
		for (uint32_t c = 0; c < n; c++)
			list[c * valid->rows + i] = (struct ranked){out[c], c == is};
	}
	for (uint32_t c = 0; c < n; c++)
		report->auc[c] = area_of(list + c * valid->rows, valid->rows);
	return 0;
}

/* Makes the cuts of an ordinal model on its predictions, and measures how many categories are right. */
static int judge(struct table *valid, struct train_report *report)
{
	struct model *m = valid->model;
	struct category_cuts truth;
	float out[TREES_GROUPS_MAX];
	size_t right = 0;
	AUTO_FREE float *predicted = calloc(valid->rows, sizeof(*predicted));
	int rc = predicted == NULL ? -ENOMEM : fit_cuts(valid, NULL, &truth);
	for (size_t i = 0; rc == 0 && i < valid->rows; i++) {
		trees_run(&m->trees, valid->values + i * valid->columns, out);
		predicted[i] = out[0];
	}
	if (rc == 0 && m->kind == MODEL_ORDINAL)
		rc = fit_cuts(valid, predicted, &m->cuts);
	for (size_t i = 0; rc == 0 && i < valid->rows; i++) {
		const struct category_cuts *cuts = m->kind == MODEL_ORDINAL ? &truth : &m->cuts;
		trees_run(&m->trees, valid->values + i * valid->columns, out);
		right +=
			model_decide(m, out) == category_of(cuts, valid->score[i], valid->score[i]);
	}
	if (rc == 0)
		report->accuracy = (double)right / (double)valid->rows;
	return rc == 0 ? areas(valid, report) : rc;
}

/* Turns densities into classes. */
static int make_classes(struct table *t)
{
	int rc = fit_cuts(t, NULL, &t->model->cuts);
	for (size_t i = 0; rc == 0 && i < t->rows; i++)
		t->label[i] = (float)category_of(&t->model->cuts, t->score[i], t->score[i]);
	return rc;
}

static int train_slices(struct table *all, struct train_report *report)
{
	AUTO_TABLE struct table early = {0}, late = {0};
	double cut_s = all->start_s[(size_t)((double)all->rows * TRAIN_SHARE)];
	int rc = slice(all, ended_before, cut_s, &early);
	if (rc == 0)
		rc = slice(all, started_after, cut_s, &late);
	report->valid_jobs = late.rows;
	if (rc == 0 && (early.rows < JOBS_LEAST || late.rows < JOBS_LEAST))
		rc = -ENODATA;
	if (rc == 0)
		rc = train(&early, &late, all->o->rounds, report);
	bool life = all->o->label == TRAIN_LIFE || all->o->label == TRAIN_LIFE_SQUARE;
	return rc == 0 && !life ? judge(&late, report) : rc;
}

/* Returns a number of slots of which at most a quarter is used. */
static uint32_t slots_for(const struct jobs *t)
{
	uint32_t slots = 1024;
	while (slots < PAST_SLOTS_MAX && slots < 4ULL * (t->strings.n + 256))
		slots *= 2;
	return slots;
}

static int train_table(struct table *t, struct train_report *report)
{
	struct rows rows = {t->model, t->jobs, t->o->until_s, add_row, t};
	int rc = table_init(t);
	if (rc == 0)
		rc = rows_walk(&rows);
	if (rc == 0 && t->rows < 2 * JOBS_LEAST)
		rc = -ENODATA;
	if (rc != 0)
		return rc;
	report->jobs = t->rows;
	if (t->o->shuffled)
		shuffle(t);
	weigh(t);
	if (t->o->label == TRAIN_DENSITY)
		rc = make_classes(t);
	if (rc == 0)
		rc = train_slices(t, report);
	double metric = report->metric;
	if (rc == 0)
		rc = train(t, NULL, report->rounds, report);
	report->metric = metric;
	return rc;
}

int train_model(struct model *m, const struct jobs *t, const struct cost_rates *rates,
		const struct train_options *o, struct train_report *report)
{
	*m = (struct model){.rates = *rates,
			    .kind = o->label == TRAIN_DENSITY ? MODEL_CLASSES : MODEL_ORDINAL,
			    .cuts.categories = o->categories};
	*report = (struct train_report){0};
	rows_columns(&m->features, t);
	int rc = past_init(&m->history, slots_for(t));
	AUTO_TABLE struct table table = {
		.jobs = t, .o = o, .model = m, .columns = features_count(&m->features)};
	if (rc == 0)
		rc = train_table(&table, report);
	if (rc != 0) {
		model_fini(m);
		return rc;
	}
	for (size_t i = 0; i < t->n; i++)
		if (t->io[i].end_s <= o->until_s)
			m->trained_s = fmax(m->trained_s, t->io[i].end_s);
	report->trees = m->trees.trees_n;
	report->nodes = m->trees.nodes_n;
	return 0;
}
