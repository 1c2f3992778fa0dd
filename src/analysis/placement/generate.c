// SPDX-License-Identifier: Apache-2.0
/*
 * How a cluster is drawn
 *
 *   The seed decides how much of the cluster's load is of each class (query shuffles, log processing, streaming state,
 *   feature shuffles, checkpoints, video, simulation). Pipelines of these classes are drawn until they give the
 *   wanted number of jobs. Each has a user, steps, and a schedule: by the clock, or Poisson arrivals that follow
 *   the hour of the day and are fewer at weekends. Some pipelines begin or end within the trace.
 *
 *   Five latents of each step decide what its jobs do: size, lifetime, bytes read per byte written, size of a read
 *   request, bytes written per byte kept. They differ between steps by a log-normal spread of the class, walk from day
 *   to day, and jump when the pipeline is released anew. A run has an input factor that scales the sizes of all its
 *   jobs. A job adds noise of its own, and in some pipelines a share of the jobs is in a second mode, with another
 *   lifetime and other re-reads.
 *
 * What the features know
 *
 *   Names tell the user, pipeline, step and version, and mostly the class. Workers, shards and memory follow the
 *   expected size with noise; n_input_bytes is the input factor with noise; n_input_last is stale: the value of the run
 *   before; n_workers_max is a copy; n_slot and s_cell are noise; n_ttl_s is an estimate of the lifetime that few
 *   pipelines give, rounded up. The second mode, re-reads and request sizes reach no feature.
 *
 * The trace holds only what a storage system measures. Costs and labels are computed from that (placement/cost.h).
 *
 * Each pipeline draws from a stream of its own, so that a longer trace begins with the shorter one.
 */
#include "analysis/placement/generate.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/placement/generate_impl.h"
#include "base/base.h"

#define HOUR 3600.0
#define DAY 86400.0
#define PIPELINES_MAX 4096u

enum number {
	N_WORKERS,
	N_SHARDS,
	N_MEMORY,
	N_INPUT,
	N_INPUT_LAST,
	N_COPY,
	N_SLOT,
	N_TTL,
	NUMBERS
};
enum text { S_USER, S_PIPELINE, S_STEP, S_BINARY, S_CELL, TEXTS };

static const char *const columns[] = {
	"n_workers",     "n_shards", "n_memory_bytes", "n_input_bytes", "n_input_last",
	"n_workers_max", "n_slot",   "n_ttl_s",        "s_user",        "s_pipeline",
	"s_step",        "s_binary", "s_cell",
};

/* A job before all jobs are sorted by time. */
struct draft {
	struct job_io io;
	double numbers[NUMBERS];
	const struct pipeline *pipeline;
	uint32_t step, cell, order;
};

struct drafts {
	struct draft *list;
	size_t n, cap;
	double from_s, to_s;
};

/* One run of a pipeline. */
struct run {
	double start_s;
	double input, input_last; /* factors of the sizes of this run and of the run before */
};

static uint64_t whole(double v)
{
	return v < 1 ? 1 : v > 1e18 ? (uint64_t)1e18 : (uint64_t)v;
}

/* Draws what a job does. */
static void draw_io(const struct pipeline *p, const struct step *s, const struct run *run,
		    struct job_io *io, struct rng *rng)
{
	uint32_t day = (uint32_t)(io->start_s / DAY);
	assert(day < GENERATE_DAYS_MAX);
	const double *l = s->latent[day];
	bool mode = rng_chance(rng, p->mode_share);
	double size = exp(l[LATENT_SIZE] + 0.25 * generate_normal(rng)) * run->input;
	/* A larger input takes longer, but not in proportion. */
	double life = exp(l[LATENT_LIFE] + 0.35 * generate_normal(rng)) * pow(run->input, 0.4);
	double reread = exp(l[LATENT_REREAD] + 0.3 * generate_normal(rng));
	double request = exp(l[LATENT_REQUEST] + 0.2 * generate_normal(rng));
	double rewrite = exp(l[LATENT_REWRITE] + 0.08 * generate_normal(rng));
	if (mode) {
		life *= p->mode_life;
		reread *= p->mode_reread;
	}
	request = fmin(fmax(request, 4096), 16e6);
	life = fmin(fmax(life, 20), 10 * DAY);
	io->size_bytes = whole(fmin(fmax(size, 1e6), 5e12));
	io->written_bytes = whole((double)io->size_bytes * fmax(rewrite, 1));
	io->read_bytes = whole((double)io->written_bytes * reread);
	io->reads = whole((double)io->read_bytes / request);
	io->writes = whole((double)io->written_bytes / p->workload->write_bytes);
	io->end_s = io->start_s + life;
}

/* Draws the numbers that are known when a job starts. */
static void draw_numbers(const struct pipeline *p, const struct step *s, const struct run *run,
			 struct draft *d, struct rng *rng)
{
	double *n = d->numbers;
	double planned = s->expected_size * run->input_last;
	n[N_WORKERS] = ceil(planned / p->workers_scale);
	n[N_SHARDS] = exp2(round(log2(s->expected_size / 6.4e7) + 0.3 * generate_normal(rng)));
	n[N_MEMORY] = n[N_WORKERS] * exp2(floor(1 + 4 * rng_unit(rng))) * 1e9;
	n[N_INPUT] = 1e9 * run->input * exp(0.15 * generate_normal(rng));
	n[N_INPUT_LAST] = 1e9 * run->input_last;
	n[N_COPY] = n[N_WORKERS];
	n[N_SLOT] = floor(1000 * rng_unit(rng));
	double ttl = 900 * exp2(ceil(log2(exp(s->latent[0][LATENT_LIFE]) / 900)) + 1);
	n[N_TTL] = rng_chance(rng, p->hint) ? ttl : NAN;
}

static int add_draft(struct drafts *all, const struct draft *d)
{
	if (all->n == all->cap) {
		size_t cap = all->cap == 0 ? 1024 : all->cap * 2;
		struct draft *list = realloc(all->list, cap * sizeof(*list));
		if (list == NULL)
			return -ENOMEM;
		all->list = list;
		all->cap = cap;
	}
	all->list[all->n] = *d;
	all->list[all->n].order = (uint32_t)all->n;
	all->n++;
	return 0;
}

static int draw_run(struct drafts *all, const struct pipeline *p, const struct run *run,
		    struct rng *rng)
{
	for (uint32_t i = 0; i < p->steps_n; i++) {
		for (uint32_t k = 0; k < p->steps[i].parallel; k++) {
			struct draft d = {.pipeline = p, .step = i};
			double late = p->steps[i].delay_s + rng_exponential(rng, 20);
			d.io.start_s = fmin(run->start_s + late, GENERATE_DAYS_MAX * DAY - 1);
			draw_io(p, &p->steps[i], run, &d.io, rng);
			draw_numbers(p, &p->steps[i], run, &d, rng);
			d.cell = (uint32_t)rng_below(rng, 40);
			bool wanted = d.io.start_s >= all->from_s && d.io.start_s < all->to_s;
			int rc = wanted ? add_draft(all, &d) : 0;
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

/* Returns the load at a time, relative to its largest value. */
static double load_at(const struct pipeline *p, double t)
{
	double hour = fmod(t, DAY) / HOUR;
	double day = 1 - p->day_swing * 0.5 * (1 + cos(6.283185307179586 * (hour - 3) / 24));
	bool weekend = fmod(t / DAY, 7) >= 5;
	return weekend ? day * 0.6 : day;
}

static int draw_runs(struct drafts *all, const struct pipeline *p, struct rng *rng)
{
	struct run run = {.start_s = p->periodic ? p->phase_s : 0, .input_last = 1};
	int rc = 0;
	while (rc == 0) {
		run.start_s += p->periodic ? p->period_s : rng_exponential(rng, p->period_s * 0.7);
		if (run.start_s >= all->to_s || run.start_s >= p->gone_s)
			break;
		/* Arrivals of the largest rate, thinned to the rate of the hour. */
		bool runs = p->periodic || rng_unit(rng) < load_at(p, run.start_s);
		run.input = exp(p->run_spread * generate_normal(rng));
		if (!runs || run.start_s < p->born_s)
			continue;
		struct run shifted = run;
		shifted.start_s += p->periodic ? rng_exponential(rng, 30) : 0;
		rc = draw_run(all, p, &shifted, rng);
		run.input_last = run.input;
	}
	return rc;
}

static int compare_drafts(const void *a, const void *b)
{
	const struct draft *x = a, *y = b;
	if (x->io.start_s != y->io.start_s)
		return x->io.start_s < y->io.start_s ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Rounds the times to those that the CSV has, so that a trace that was written and read again is the same. */
static void round_times(struct job_io *io)
{
	io->start_s = round(io->start_s * 1000) / 1000;
	io->end_s = fmax(round(io->end_s * 1000), round(io->start_s * 1000) + 1) / 1000;
}

static int write_jobs(struct jobs *t, struct drafts *all)
{
	for (size_t i = 0; i < all->n; i++)
		round_times(&all->list[i].io);
	if (all->n > 0)
		qsort(all->list, all->n, sizeof(*all->list), compare_drafts);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(columns); i++)
		rc = jobs_column(t, columns[i]);
	for (size_t i = 0; rc == 0 && i < all->n; i++) {
		const struct draft *d = &all->list[i];
		const struct pipeline *p = d->pipeline;
		char id[24], binary[96], cell[16];
		uint32_t day = (uint32_t)(d->io.start_s / DAY);
		snprintf(id, sizeof(id), "j%zu", i);
		snprintf(binary, sizeof(binary), "%s_v%u", p->binary, p->version[day]);
		snprintf(cell, sizeof(cell), "cell-%u", d->cell);
		const char *texts[TEXTS] = {p->user, p->name, p->steps[d->step].name, binary, cell};
		rc = jobs_add(t, id, &d->io, d->numbers, texts);
	}
	return rc;
}

/* Draws the share of each class: an average cluster, distorted. */
static void draw_mix(double *mix, struct rng *rng)
{
	double sum = 0;
	for (uint32_t i = 0; i < workloads_n; i++)
		sum += mix[i] = workloads[i].share * exp(0.9 * generate_normal(rng));
	for (uint32_t i = 0; i < workloads_n; i++)
		mix[i] /= sum;
}

/* Chooses the class that is furthest below its share of the jobs. */
static uint32_t next_class(const double *mix, const double *have, double all)
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < workloads_n; i++)
		if (mix[i] * all - have[i] > mix[best] * all - have[best])
			best = i;
	return best;
}

static int draw_cluster(struct drafts *all, struct pipeline **pipelines, const struct generate *g)
{
	struct rng rng;
	double mix[16], have[16] = {0}, sum = 0;
	assert(workloads_n <= ARRAY_LEN(mix));
	rng_init(&rng, mix_u64(g->cluster ^ 0x6a09e667f3bcc909ULL));
	draw_mix(mix, &rng);
	uint32_t users = 10 + (uint32_t)rng_below(&rng, 30);
	for (uint32_t i = 0; i < PIPELINES_MAX && sum < g->jobs_week; i++) {
		struct rng own;
		uint32_t class = next_class(mix, have, sum + 1);
		/* A few users own most pipelines. */
		uint32_t user = (uint32_t)(users * pow(rng_unit(&rng), 2));
		rng_init(&own, rng_u64(&rng));
		struct pipeline *p = pipelines[i] = malloc(sizeof(*p));
		if (p == NULL)
			return -ENOMEM;
		generate_pipeline(p, &workloads[class], user, i, &own);
		double weekly = generate_weekly(p);
		have[class] += weekly;
		sum += weekly;
		int rc = draw_runs(all, p, &own);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int generate_jobs(struct jobs *t, const struct generate *g)
{
	*t = (struct jobs){0};
	if (g->days == 0 || g->days > GENERATE_DAYS_MAX ||
	    g->from_day > GENERATE_DAYS_MAX - g->days || g->jobs_week < 100 ||
	    g->jobs_week > GENERATE_JOBS_MAX)
		return -EINVAL;
	struct drafts all = {.from_s = g->from_day * DAY, .to_s = (g->from_day + g->days) * DAY};
	AUTO_FREE struct pipeline **pipelines = calloc(PIPELINES_MAX, sizeof(*pipelines));
	int rc = pipelines == NULL ? -ENOMEM : draw_cluster(&all, pipelines, g);
	if (rc == 0)
		rc = write_jobs(t, &all);
	for (uint32_t i = 0; pipelines != NULL && i < PIPELINES_MAX; i++)
		free(pipelines[i]);
	free(all.list);
	if (rc != 0)
		jobs_fini(t);
	return rc;
}
