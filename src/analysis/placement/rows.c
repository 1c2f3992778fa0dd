// SPDX-License-Identifier: Apache-2.0
#include "analysis/placement/rows.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

/* Where a column of the model is in the trace; -1: nowhere. */
struct map {
	int numbers[FEATURES_COLUMNS_MAX], texts[FEATURES_COLUMNS_MAX];
};

struct walk {
	const struct rows *rows;
	struct map map;
	double numbers[FEATURES_COLUMNS_MAX];
	const char *texts[FEATURES_COLUMNS_MAX];
};

struct end {
	double end_s;
	size_t job;
};

static_assert(JOBS_FEATURES_MAX == FEATURES_COLUMNS_MAX && JOBS_NAME_MAX == FEATURES_NAME_MAX,
	      "the columns of a trace are those of a model");

void rows_columns(struct features *f, const struct jobs *t)
{
	f->numbers_n = t->numbers_n;
	f->texts_n = t->texts_n;
	memcpy(f->number_names, t->number_names, sizeof(f->number_names));
	memcpy(f->text_names, t->text_names, sizeof(f->text_names));
}

static int find(const char (*names)[FEATURES_NAME_MAX], uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

static void map_columns(struct map *map, const struct features *f, const struct jobs *t)
{
	for (uint32_t i = 0; i < f->numbers_n; i++)
		map->numbers[i] = find(t->number_names, t->numbers_n, f->number_names[i]);
	for (uint32_t i = 0; i < f->texts_n; i++)
		map->texts[i] = find(t->text_names, t->texts_n, f->text_names[i]);
}

static struct features_job job_at(struct walk *w, size_t job)
{
	const struct jobs *t = w->rows->jobs;
	const struct features *f = &w->rows->model->features;
	for (uint32_t i = 0; i < f->numbers_n; i++) {
		int c = w->map.numbers[i];
		w->numbers[i] = c < 0 ? NAN : t->numbers[job * t->numbers_n + (size_t)c];
	}
	for (uint32_t i = 0; i < f->texts_n; i++) {
		int c = w->map.texts[i];
		w->texts[i] = c < 0 ? NULL : jobs_text(t, job, (uint32_t)c);
	}
	return (struct features_job){t->io[job].start_s, w->numbers, w->texts};
}

static int by_end(const void *a, const void *b)
{
	const struct end *x = a, *y = b;
	if (x->end_s != y->end_s)
		return x->end_s < y->end_s ? -1 : 1;
	return x->job < y->job ? -1 : x->job > y->job;
}

static struct end *sort_ends(const struct jobs *t)
{
	struct end *ends = calloc(t->n + 1, sizeof(*ends));
	if (ends == NULL)
		return NULL;
	for (size_t i = 0; i < t->n; i++)
		ends[i] = (struct end){t->io[i].end_s, i};
	qsort(ends, t->n, sizeof(*ends), by_end);
	return ends;
}

/* Adds the jobs that ended by the time to the history, from ends[next] on. Returns the next one. */
static size_t add_ended(struct walk *w, const struct end *ends, size_t next, double now_s)
{
	const struct rows *r = w->rows;
	for (; next < r->jobs->n && ends[next].end_s <= fmin(now_s, r->until_s); next++) {
		struct features_job job = job_at(w, ends[next].job);
		model_ended(r->model, &job, &r->jobs->io[ends[next].job]);
	}
	return next;
}

int rows_walk(const struct rows *r)
{
	float values[FEATURES_MAX];
	struct walk w = {.rows = r};
	AUTO_FREE struct end *ends = sort_ends(r->jobs);
	if (ends == NULL)
		return -ENOMEM;
	map_columns(&w.map, &r->model->features, r->jobs);
	size_t next = 0;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < r->jobs->n; i++) {
		next = add_ended(&w, ends, next, r->jobs->io[i].start_s);
		if (r->row == NULL)
			continue;
		struct features_job job = job_at(&w, i);
		features_fill(&r->model->features, &r->model->history, &job, values);
		rc = r->row(r->arg, i, values);
	}
	add_ended(&w, ends, next, INFINITY);
	return rc;
}
