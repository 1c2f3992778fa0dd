// SPDX-License-Identifier: Apache-2.0
#include "analysis/nines.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/fleet.h"
#include "analysis/markov.h"
#include "analysis/nines_split.h"
#include "analysis/pool_hit.h"
#include "base/base.h"

#define RUN_STATES 250 /* default number of states of a splitting stage */
/* most rounds of splitting; then the estimate keeps a larger error than was asked for */
#define ROUNDS_MAX 64

static const char *const by_names[] = {"auto", "markov", "split", "simulate"};

const char *nines_by_name(enum nines_by by)
{
	assert((unsigned)by < ARRAY_LEN(by_names));
	return by_names[by];
}

bool nines_by_parse(const char *text, enum nines_by *by)
{
	for (size_t i = 0; i < ARRAY_LEN(by_names); i++)
		if (strcmp(text, by_names[i]) == 0) {
			*by = (enum nines_by)i;
			return true;
		}
	return false;
}

void nines_options_default(struct nines_options *o)
{
	*o = (struct nines_options){
		.years = 1,
		.precision = 0.05,
		.states = RUN_STATES,
		.rounds = ROUNDS_MAX,
		.missions = 1000,
		.work = {.seed = 1},
	};
}

/* Returns the probability that an event of this rate (a second) happens during the mission. */
static double in_mission(const struct nines_options *o, double rate)
{
	assert(rate >= 0 && o->years > 0);
	return -expm1(-rate * o->years * SYSTEM_YEAR_S);
}

static void set_nines(struct nines_answer *out)
{
	out->nines.value = 0 - log10(out->loss.value); /* avoids -0 when loss is certain */
	out->nines.interval = stats_nines(&out->loss.interval);
}

/*
 * Sets the answer from a rate of loss that is the mean of n estimates with this relative error;
 * n = 0: the rate is computed, not estimated.
 */
static void set_value(const struct nines_options *o, double rate, double error, uint64_t n,
		      struct nines_value *v)
{
	double f = n < 2 ? 1
			 : exp(error *
			       stats_student_quantile((1 + STATS_CONFIDENCE) / 2, (double)n - 1));
	v->value = in_mission(o, rate);
	v->interval = (struct interval){in_mission(o, rate / f), in_mission(o, rate * f)};
}

static void set_loss(const struct nines_options *o, double rate, double error, uint64_t n,
		     struct nines_answer *out)
{
	out->error = error;
	set_value(o, rate, error, n, &out->loss);
	set_nines(out);
}

static bool two_levels(const struct system *sys)
{
	return sys->layout.columns > 1 && sys->layout.spec.local.p > 0;
}

static void set_pool(const struct system *sys, const struct nines_options *o, double rate,
		     double error, uint64_t n, struct nines_answer *out)
{
	out->two_levels = true;
	set_value(o, rate * level_disk_groups(sys), error, n, &out->pool);
}

static int by_markov(const struct system *sys, const struct nines_options *o,
		     const struct level *disks, struct nines_answer *out)
{
	double rate = markov_level_rate(disks, &(struct damage_hit){1, 1});
	if (!two_levels(sys)) {
		set_loss(o, rate * level_disk_groups(sys), 0, 0, out);
		return 0;
	}
	struct split_sample mean;
	struct level pools;
	markov_level_loss(disks, &mean.lost, &mean.missing);
	set_pool(sys, o, rate, 0, 0, out);
	out->lost_part = mean.lost / disks->stripes;
	out->missing_bytes = mean.missing * (double)sys->spec.chunk_bytes;
	int rc = level_of_pools(&pools, sys, o->as_paper, rate);
	if (rc != 0)
		return rc;
	struct damage_hit hit = pool_hit(sys, o->as_paper, &mean, disks->stripes);
	set_loss(o, markov_level_rate(&pools, &hit) * level_pool_groups(sys), 0, 0, out);
	return 0;
}

static int by_split(const struct system *sys, const struct nines_options *o,
		    const struct level *disks, struct nines_answer *out)
{
	struct nines_split s;
	bool two = two_levels(sys);
	int rc = two ? nines_split_two(sys, o, disks, &s) : nines_split_one(o, disks, &s);
	if (rc != 0)
		return rc;
	double groups = two ? level_pool_groups(sys) : level_disk_groups(sys);
	set_loss(o, s.loss.mean * groups, nines_split_error(&s.loss), s.loss.n, out);
	out->runs = s.runs;
	out->missed_precision = !s.reached;
	if (!two)
		return 0;
	set_pool(sys, o, s.pool.mean, nines_split_error(&s.pool), s.pool.n, out);
	out->lost_part = s.lost / disks->stripes;
	out->missing_bytes = s.missing * (double)sys->spec.chunk_bytes;
	return 0;
}

#define TASK_MISSIONS 64

struct campaign {
	const struct system *sys;
	const struct nines_options *o;
	struct nines_tally {
		uint64_t lossy, catastrophic;
	} * tally; /* counts of each task */
};

static int missions_task(void *arg, uint64_t task, struct rng *rng)
{
	struct campaign *c = arg;
	struct fleet *fleet;
	uint64_t from = task * TASK_MISSIONS;
	uint64_t to = min_u64(from + TASK_MISSIONS, c->o->missions);
	int rc = fleet_open(&fleet, c->sys, c->o->as_paper, c->o->failures,
			    c->o->years * SYSTEM_YEAR_S);
	if (rc != 0)
		return rc;
	for (uint64_t m = from; rc == 0 && m < to; m++) {
		struct fleet_mission mission;
		rc = fleet_run(fleet, rng, &mission);
		c->tally[task].lossy += mission.lost;
		c->tally[task].catastrophic += mission.catastrophes > 0;
	}
	fleet_close(fleet);
	return rc;
}

static struct nines_value share_of(uint64_t hits, uint64_t n)
{
	return (struct nines_value){(double)hits / (double)n,
				    stats_clopper_pearson(hits, n, STATS_CONFIDENCE)};
}

static int by_simulation(const struct system *sys, const struct nines_options *o,
			 struct nines_answer *out)
{
	uint64_t tasks = (o->missions + TASK_MISSIONS - 1) / TASK_MISSIONS, catastrophic = 0;
	AUTO_FREE struct nines_tally *tally = calloc(tasks, sizeof(*tally));
	if (tally == NULL)
		return -ENOMEM;
	struct campaign c = {sys, o, tally};
	int rc = work_run(&o->work, tasks, missions_task, &c);
	if (rc != 0)
		return rc;
	out->runs = o->missions;
	for (uint64_t t = 0; t < tasks; t++) {
		out->lossy_runs += tally[t].lossy;
		catastrophic += tally[t].catastrophic;
	}
	out->loss = share_of(out->lossy_runs, o->missions);
	set_nines(out);
	if (out->lossy_runs > 0)
		out->error = sqrt((1 - out->loss.value) / (double)out->lossy_runs);
	out->two_levels = two_levels(sys);
	if (out->two_levels)
		out->pool = share_of(catastrophic, o->missions);
	return 0;
}

int nines_estimate(const struct system *sys, const struct nines_options *o,
		   struct nines_answer *out, char *why, size_t why_size)
{
	struct level disks;
	*out = (struct nines_answer){.by = o->by};
	int rc = level_of_disks(&disks, sys);
	if (rc == -EINVAL)
		return system_refuse(why, why_size, rc,
				     "--code %s: has no redundancy, so every failure "
				     "loses data",
				     sys->code);
	if (rc == -EOPNOTSUPP)
		return system_refuse(why, why_size, rc,
				     "--code %s: may survive more than %d losses of a stripe, the "
				     "most that durability estimates support",
				     sys->code, LEVEL_LOSSES_MAX);
	if (rc != 0)
		return rc;
	if (out->by == NINES_AUTO)
		out->by = o->failures != NULL ? NINES_SIMULATE : NINES_SPLIT;
	if (o->failures != NULL && out->by != NINES_SIMULATE)
		return system_refuse(why, why_size, -EINVAL,
				     "--by %s: supports only failures at a constant rate; use "
				     "--by simulate",
				     by_names[out->by]);
	if (out->by == NINES_MARKOV && disks.base != NULL)
		return system_refuse(why, why_size, -EINVAL,
				     "--by markov: does not support single-overlap (s) placement; "
				     "use --by split");
	if (out->by == NINES_MARKOV)
		rc = by_markov(sys, o, &disks, out);
	else if (out->by == NINES_SPLIT)
		rc = by_split(sys, o, &disks, out);
	else
		rc = by_simulation(sys, o, out);
	if (rc == -ERANGE)
		system_refuse(why, why_size, rc,
			      "repair does not keep up with failures: lower --afr, or give repair "
			      "more bandwidth");
	return rc;
}
