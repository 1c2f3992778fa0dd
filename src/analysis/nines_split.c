// SPDX-License-Identifier: Apache-2.0
#include "analysis/nines_split.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/pool_hit.h"
#include "analysis/split.h"
#include "base/base.h"
#include "base/rng.h"

#define ROUND_TASKS 32      /* number of runs or batches between two checks of the error */
#define BATCH_POOL_RUNS 8   /* fewest pool runs of a batch */
#define BATCH_RUNS_MAX 128  /* most pool runs of a batch */
#define BATCH_PRECISION 0.2 /* number of pool runs of a batch times the wanted precision */
#define NET_SHARE 8         /* number of pool runs for each network run */

double nines_split_error(const struct stats_sum *s)
{
	return s->mean > 0 ? stats_error(s) / s->mean : 0;
}

static struct work round_work(const struct work *work, uint32_t round)
{
	struct work w = *work;
	w.seed = mix_u64(work->seed + mix_u64(round + 1));
	return w;
}

static bool enough(const struct stats_sum *s, double precision)
{
	return s->n > 0 && nines_split_error(s) <= precision;
}

/* ---- one level ---- */

struct single {
	struct split_spec spec;
	double rate[ROUND_TASKS];
};

static int single_task(void *arg, uint64_t task, struct rng *rng)
{
	struct single *s = arg;
	struct split_result result;
	int rc = split_run(&s->spec, rng, &result);
	s->rate[task] = result.rate;
	split_fini(&result);
	return rc;
}

int nines_split_one(const struct nines_options *o, const struct level *disks,
		    struct nines_split *out)
{
	struct single s = {.spec = {.level = disks, .states = o->states}};
	*out = (struct nines_split){0};
	int rc = 0;
	for (uint32_t r = 0; r < o->rounds && rc == 0 && !out->reached; r++) {
		struct work w = round_work(&o->work, r);
		rc = work_run(&w, ROUND_TASKS, single_task, &s);
		for (int i = 0; i < ROUND_TASKS && rc == 0; i++)
			stats_add(&out->loss, s.rate[i]);
		out->reached = enough(&out->loss, o->precision);
	}
	out->runs = out->loss.n;
	return rc;
}

/* ---- two levels ---- */

struct batch {
	double loss;
	struct stats_sum pool;
	double lost, missing; /* sums over the runs, weighted with their rates */
};

struct batches {
	const struct system *sys;
	const struct nines_options *o;
	const struct level *disks;
	uint32_t pool_runs, net_runs;
	struct batch done[ROUND_TASKS];
};

/* The summed results of the pool runs of a batch. */
struct found {
	struct split_result *runs;
	uint32_t n;
	double rate; /* sum of the rates of the runs */
	struct damage_hit *hits;
	size_t hits_n;
};

static void found_fini(struct found *f)
{
	for (uint32_t i = 0; f->runs != NULL && i < f->n; i++)
		split_fini(&f->runs[i]);
	free(f->runs);
	free(f->hits);
}

/* Draws samples of catastrophic moments: from each run in proportion to its part of the rate. */
static int take_hits(const struct batches *b, struct found *f, struct rng *rng, struct batch *out)
{
	size_t want = (size_t)f->n * b->o->states;
	double done = 0, at = rng_unit(rng);
	f->hits = calloc(want + 1, sizeof(*f->hits));
	if (f->hits == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->n; i++) {
		const struct split_result *r = &f->runs[i];
		double share = (double)want * r->rate / f->rate, u = rng_unit(rng);
		done += share;
		for (size_t k = 0; f->hits_n < want && (double)f->hits_n + at < done; k++) {
			uint64_t pick = (uint64_t)(((double)k + u) * r->samples_n / share);
			const struct split_sample *s = &r->samples[min_u64(pick, r->samples_n - 1)];
			f->hits[f->hits_n++] =
				pool_hit(b->sys, b->o->as_paper, s, b->disks->stripes);
			out->lost += s->lost;
			out->missing += s->missing;
		}
	}
	double to_rates = f->rate / (double)f->n / (double)(f->hits_n > 0 ? f->hits_n : 1);
	out->lost *= to_rates;
	out->missing *= to_rates;
	return 0;
}

static int run_pool(const struct batches *b, struct found *f, struct rng *rng, struct batch *out)
{
	struct split_spec spec = {.level = b->disks,
				  .states = b->o->states,
				  .survives_loss = pool_hit_keeps_damage(b->sys->policy.method)};
	int rc = 0;
	f->runs = calloc(b->pool_runs, sizeof(*f->runs));
	if (f->runs == NULL)
		return -ENOMEM;
	for (; rc == 0 && f->n < b->pool_runs; f->n++) {
		struct split_result *r = &f->runs[f->n];
		rc = split_run(&spec, rng, r);
		stats_add(&out->pool, r->rate);
		f->rate += r->rate;
	}
	return rc == 0 && f->rate > 0 ? take_hits(b, f, rng, out) : rc;
}

static int run_network(const struct batches *b, const struct found *f, struct rng *rng,
		       struct batch *out)
{
	struct level pools;
	int rc = level_of_pools(&pools, b->sys, b->o->as_paper, f->rate / f->n);
	struct split_spec spec = {&pools, f->hits, f->hits_n, b->o->states, false};
	for (uint32_t i = 0; rc == 0 && i < b->net_runs; i++) {
		struct split_result r;
		rc = split_run(&spec, rng, &r);
		out->loss += r.rate / b->net_runs;
		split_fini(&r);
	}
	return rc;
}

static int batch_task(void *arg, uint64_t task, struct rng *rng)
{
	struct batches *b = arg;
	struct batch *out = &b->done[task];
	struct found f = {0};
	*out = (struct batch){0};
	int rc = run_pool(b, &f, rng, out);
	if (rc == 0 && f.hits_n > 0)
		rc = run_network(b, &f, rng, out);
	found_fini(&f);
	return rc;
}

static void add_batch(struct nines_split *out, const struct batch *b)
{
	stats_add(&out->loss, b->loss);
	stats_merge(&out->pool, &b->pool);
	out->lost += b->lost;
	out->missing += b->missing;
}

int nines_split_two(const struct system *sys, const struct nines_options *o,
		    const struct level *disks, struct nines_split *out)
{
	double runs = ceil(BATCH_PRECISION / o->precision);
	AUTO_FREE struct batches *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	*b = (struct batches){.sys = sys, .o = o, .disks = disks};
	b->pool_runs = (uint32_t)fmin(fmax(runs, BATCH_POOL_RUNS), BATCH_RUNS_MAX);
	b->net_runs = b->pool_runs / NET_SHARE;
	*out = (struct nines_split){0};
	int rc = 0;
	for (uint32_t r = 0; r < o->rounds && rc == 0 && !out->reached; r++) {
		struct work w = round_work(&o->work, r);
		rc = work_run(&w, ROUND_TASKS, batch_task, b);
		for (int i = 0; i < ROUND_TASKS && rc == 0; i++)
			add_batch(out, &b->done[i]);
		out->reached = enough(&out->loss, o->precision);
	}
	double total = out->pool.mean * (double)out->loss.n;
	out->lost = total > 0 ? out->lost / total : 0;
	out->missing = total > 0 ? out->missing / total : 0;
	out->runs = out->pool.n + out->loss.n * b->net_runs;
	return rc;
}
