// SPDX-License-Identifier: Apache-2.0
/*
 * terrane placement trace: the outcomes of files as a trace for training. Files that name the same job are one job: from
 * the creation of the first to the removal of the last, with the most bytes that were kept at one time. A file without a job
 * is a job.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/placement/jobs.h"
#include "base/err.h"
#include "cli/placement.h"
#include "cli/placement_outcomes.h"

#define COMMAND "placement trace"

struct trace_order {
	struct admin_where where;
	const char *tenant;
};

/* One job while it is put together; its files are list[first] to list[first + files - 1]. */
struct trace_job {
	struct job_io io;
	size_t first, files;
};

/* When bytes come or go. */
struct change {
	double at_s, bytes;
};

struct trace {
	const struct trace_order *order;
	struct outcomes outcomes;
	const struct outcome **list; /* of the tenant, sorted by job */
	size_t n;
	struct trace_job *jobs;
	size_t jobs_n;
	struct change *changes; /* of one job */
	struct jobs out;
};

static void trace_fini(struct trace *t)
{
	outcomes_fini(&t->outcomes);
	free(t->list);
	free(t->jobs);
	free(t->changes);
	jobs_fini(&t->out);
}

static bool same_job(const struct outcome *a, const struct outcome *b)
{
	return a->job != 0 && a->job == b->job && a->tenant == b->tenant;
}

static int by_job(const void *a, const void *b)
{
	const struct outcome *x = *(const struct outcome *const *)a;
	const struct outcome *y = *(const struct outcome *const *)b;
	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	return x->io.start_s < y->io.start_s ? -1 : x->io.start_s > y->io.start_s;
}

static int by_start(const void *a, const void *b)
{
	const struct trace_job *x = a, *y = b;
	if (x->io.start_s < y->io.start_s || x->io.start_s > y->io.start_s)
		return x->io.start_s < y->io.start_s ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	return x->at_s < y->at_s ? -1 : x->at_s > y->at_s;
}

/* Returns the most bytes that files of the job kept at one time. */
static uint64_t peak_of(const struct trace *t, const struct trace_job *j)
{
	double now = 0, peak = 0;
	assert(j->files > 0 && j->first + j->files <= t->n);
	for (size_t i = 0; i < j->files; i++) {
		const struct job_io *io = &t->list[j->first + i]->io;
		t->changes[2 * i] = (struct change){io->start_s, (double)io->size_bytes};
		t->changes[2 * i + 1] = (struct change){io->end_s, -(double)io->size_bytes};
	}
	qsort(t->changes, 2 * j->files, sizeof(*t->changes), by_time);
	for (size_t i = 0; i < 2 * j->files; i++) {
		now += t->changes[i].bytes;
		peak = fmax(peak, now);
	}
	return peak >= 1 ? (uint64_t)peak : 1;
}

static void add_file(struct job_io *sum, const struct job_io *io)
{
	sum->start_s = fmin(sum->start_s, io->start_s);
	sum->end_s = fmax(sum->end_s, io->end_s);
	sum->read_bytes += io->read_bytes;
	sum->reads += io->reads;
	sum->written_bytes += io->written_bytes;
	sum->writes += io->writes;
}

static int make_jobs(struct trace *t)
{
	const struct outcomes *o = &t->outcomes;
	t->list = calloc(o->n + 1, sizeof(t->list[0]));
	t->jobs = calloc(o->n + 1, sizeof(*t->jobs));
	t->changes = calloc(2 * o->n + 1, sizeof(*t->changes));
	if (t->list == NULL || t->jobs == NULL || t->changes == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < o->n; i++)
		if (t->order->tenant == NULL ||
		    strcmp(outcomes_tenant(o, o->list[i].tenant), t->order->tenant) == 0)
			t->list[t->n++] = &o->list[i];
	if (t->n > 1)
		qsort(t->list, t->n, sizeof(t->list[0]), by_job);
	for (size_t i = 0; i < t->n; i++) {
		assert(t->list[i] != NULL);
		if (i == 0 || !same_job(t->list[i - 1], t->list[i]))
			t->jobs[t->jobs_n++] = (struct trace_job){.io = t->list[i]->io, .first = i};
		else
			add_file(&t->jobs[t->jobs_n - 1].io, &t->list[i]->io);
		t->jobs[t->jobs_n - 1].files++;
	}
	for (size_t i = 0; i < t->jobs_n; i++)
		t->jobs[i].io.size_bytes = peak_of(t, &t->jobs[i]);
	if (t->jobs_n > 1)
		qsort(t->jobs, t->jobs_n, sizeof(*t->jobs), by_start);
	return 0;
}

/* --- features --------------------------------------------------------------------------------- */

static int make_columns(struct trace *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct outcome_feature f;
		for (size_t at = 0; outcome_feature_next(t->list[i]->features, &at, &f);) {
			char name[OUTCOME_NAME_MAX];
			memcpy(name, f.name, f.name_len);
			name[f.name_len] = 0;
			int rc = jobs_column(&t->out, name);
			if (rc != 0 && rc != -EEXIST)
				return rc;
		}
	}
	return 0;
}

static void set_feature(const struct jobs *t, const struct outcome_feature *f, double *numbers,
			char **texts)
{
	for (uint32_t i = 0; i < t->numbers_n; i++)
		if (strlen(t->number_names[i]) == f->name_len &&
		    memcmp(t->number_names[i], f->name, f->name_len) == 0)
			numbers[i] = strtod(f->value, NULL);
	for (uint32_t i = 0; i < t->texts_n; i++)
		if (texts[i] == NULL && strlen(t->text_names[i]) == f->name_len &&
		    memcmp(t->text_names[i], f->name, f->name_len) == 0)
			texts[i] = strndup(f->value, f->value_len);
}

/* Adds a job with the features of its first file. */
static int add_job(struct trace *t, const struct trace_job *j)
{
	const struct outcome *o = t->list[j->first];
	double numbers[JOBS_FEATURES_MAX];
	char *texts[JOBS_FEATURES_MAX] = {0}, id[24];
	struct outcome_feature f;
	for (uint32_t i = 0; i < JOBS_FEATURES_MAX; i++)
		numbers[i] = NAN;
	for (size_t at = 0; outcome_feature_next(o->features, &at, &f);)
		set_feature(&t->out, &f, numbers, texts);
	if (o->job != 0)
		snprintf(id, sizeof(id), "j%" PRIu64, o->job);
	else
		snprintf(id, sizeof(id), "f%016" PRIx64, o->file);
	int rc = jobs_add(&t->out, id, &j->io, numbers, (const char *const *)texts);
	for (uint32_t i = 0; i < JOBS_FEATURES_MAX; i++)
		free(texts[i]);
	return rc;
}

static int run(struct admin *a)
{
	__attribute__((cleanup(trace_fini))) struct trace t = {.order = a->ctx};
	int status = outcomes_load(a, &t.outcomes);
	if (status != CLI_OK)
		return status;
	if (t.outcomes.skipped > 0)
		fprintf(stderr, "terrane " COMMAND ": %zu damaged outcomes are left out\n",
			t.outcomes.skipped);
	int rc = make_jobs(&t);
	if (rc == 0)
		rc = make_columns(&t);
	for (size_t i = 0; rc == 0 && i < t.jobs_n; i++)
		rc = add_job(&t, &t.jobs[i]);
	if (rc == -E2BIG)
		return flags_fail(COMMAND,
				  "the files have more than %u features of one kind: name one "
				  "tenant with --tenant",
				  JOBS_FEATURES_MAX);
	if (rc == 0)
		rc = jobs_print(&t.out, stdout);
	return rc == 0 ? CLI_OK : flags_fail(COMMAND, "%s", err_text(rc));
}

static int set_option(void *mine, const char *name, const char *text)
{
	struct trace_order *o = mine;
	if (name == NULL)
		return flags_refuse(COMMAND, "\"%.60s\": no argument is possible", text);
	if (strcmp(name, "cluster") == 0)
		o->where.file = text;
	else if (strcmp(name, "dir") == 0)
		o->where.dir = text;
	else
		o->tenant = text;
	return 0;
}

int placement_trace(int argc, char **argv)
{
	static const struct flag flags[] = {
		{"cluster", "FILE", "the cluster file (default: $TERRANE_CLUSTER)"},
		{"dir", "DIR", "the cluster in this folder"},
		{"tenant", "NAME", "jobs of this tenant alone"},
		{0},
	};
	static const struct flag_command command = {
		.command = COMMAND,
		.synopsis = "[OPTIONS]",
		.about = "Prints what files that were created with a placement category or with "
			 "features did until\nthey were removed, as a trace for `terrane placement "
			 "train`. The cluster keeps the last 8192\noutcomes.\n",
		.examples = "  terrane placement trace > week1.csv\n",
		.flags = flags,
		.set = set_option,
	};
	struct trace_order o = {0};
	int status = flags_read(&command, &o, argc, argv);
	return status != CLI_GO_ON ? status : admin_run(&o.where, run, &o);
}
