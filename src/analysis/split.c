// SPDX-License-Identifier: Apache-2.0
#include "analysis/split.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"

/* most failures of one cycle; with more, repair does not keep up with failures */
#define CYCLE_FAILURES_MAX 20000
#define BRANCHES_MAX 32 /* most pending states that come from one start state */
/* Russian roulette applies to states below this part of the weight of their start state */
#define ROULETTE 1e-3
#define LATER_STAGE 3 /* first stage in which LATER_SHARE applies */
/* share of the continuations without a failure that are simulated */
#define LATER_SHARE 0.1
#define EXTRA_STAGES_MAX 24
#define EXTRA_WORTH 1e-4 /* a stage that adds a smaller part to the result is the last stage */

/* States with weights, in one block. */
struct population {
	size_t bytes; /* size of a state */
	size_t n, cap;
	char *states;
	double *weight;
};

/* Weighted moments of loss. */
struct losses {
	size_t n, cap;
	struct split_sample *at;
	double *weight;
	double sum;
};

struct run {
	const struct split_spec *spec;
	struct rng *rng;
	struct population now, next;
	struct losses losses;
	struct population branch; /* pending states that come from the current start state */
	struct damage *scratch, *second, *work;
};

static struct damage *state_at(const struct population *c, size_t i)
{
	return (struct damage *)(void *)(c->states + i * c->bytes);
}

static int population_room(struct population *c, size_t n)
{
	if (n <= c->cap)
		return 0;
	size_t cap = max_u64(n, c->cap * 2);
	char *states = realloc(c->states, cap * c->bytes);
	if (states == NULL)
		return -ENOMEM;
	c->states = states;
	double *weight = realloc(c->weight, cap * sizeof(*weight));
	if (weight == NULL)
		return -ENOMEM;
	c->weight = weight;
	c->cap = cap;
	return 0;
}

static void population_fini(struct population *c)
{
	free(c->states);
	free(c->weight);
}

static int population_add(struct population *c, const struct damage *d, double weight)
{
	assert(weight >= 0); /* tiny weights may underflow to 0 */
	int rc = population_room(c, c->n + 1);
	if (rc != 0)
		return rc;
	damage_copy(state_at(c, c->n), d);
	c->weight[c->n++] = weight;
	return 0;
}

static int losses_add(struct losses *l, const struct split_sample *sample, double weight)
{
	assert(weight >= 0 && l->n <= l->cap); /* tiny weights may underflow to 0 */
	if (l->n == l->cap) {
		size_t cap = l->cap == 0 ? 256 : l->cap * 2;
		struct split_sample *at = realloc(l->at, cap * sizeof(*at));
		if (at == NULL)
			return -ENOMEM;
		l->at = at;
		double *w = realloc(l->weight, cap * sizeof(*w));
		if (w == NULL)
			return -ENOMEM;
		l->weight = w;
		l->cap = cap;
	}
	l->at[l->n] = *sample;
	l->weight[l->n++] = weight;
	l->sum += weight;
	return 0;
}

/*
 * Systematic sampling: draws `want` indexes to out; index i occurs about want * weight[i] / (sum of
 * the weights) times.
 */
static void draw_even(struct rng *rng, const double *weight, size_t n, size_t want, size_t *out)
{
	double sum = 0, done = 0;
	assert(n > 0);
	for (size_t i = 0; i < n; i++)
		sum += weight[i];
	assert(sum >= 0);
	double at = rng_unit(rng);
	size_t k = 0;
	for (size_t i = 0; i < n && k < want; i++) {
		done += weight[i];
		while (k < want && ((double)k + at) * sum < done * (double)want)
			out[k++] = i;
	}
	while (k < want)
		out[k++] = n - 1;
}

/*
 * Fails a member and records the expected loss. If a loss ends the cycle, its share is
 * subtracted from *weight.
 */
static int fail(struct run *r, struct damage *d, uint32_t member, double *weight)
{
	static const struct damage_hit whole = {1, 1};
	const struct split_spec *s = r->spec;
	const struct damage_hit *hit =
		s->hits == NULL ? &whole : &s->hits[rng_below(r->rng, s->hits_n)];
	double lost = damage_fail(d, member, hit);
	if (lost <= 0)
		return 0;
	double p = -expm1(-lost);
	struct split_sample sample = {lost / p, damage_missing(d)};
	int rc = losses_add(&r->losses, &sample, *weight * p);
	if (!s->survives_loss)
		*weight *= exp(-lost);
	return rc;
}

/*
 * Simulates without splitting until stripes with `floor` losses appear (*there is true) or the
 * cycle ends (false).
 */
static int simulate_to(struct run *r, struct damage *d, uint32_t floor, double *weight, bool *there)
{
	double met;
	*there = false;
	for (int n = 0; n < CYCLE_FAILURES_MAX; n++) {
		if (damage_top(d) >= floor) {
			*there = true;
			return 0;
		}
		if (damage_idle(d) || !damage_walk(d, rng_exponential(r->rng, 1), 1, &met))
			return 0;
		int rc = fail(r, d, damage_draw(d, r->rng), weight);
		if (rc != 0)
			return rc;
		if (*weight <= 0)
			return 0;
	}
	return -ERANGE;
}

/*
 * Fails a member in a copy of the state with this weight, and adds it to the next stage if it
 * has more than `floor` losses, else to the pending states of this stage.
 */
static int branch_to(struct run *r, struct damage *d, uint32_t member, uint32_t floor, bool last,
		     double weight)
{
	assert(floor <= r->spec->level->max_losses);
	int rc = fail(r, d, member, &weight);
	if (rc != 0 || weight <= 0)
		return rc;
	if (last || damage_top(d) > floor)
		return population_add(&r->next, d, weight);
	return r->branch.n < BRANCHES_MAX ? population_add(&r->branch, d, weight) : 0;
}

/*
 * Splits a state that has stripes with `floor` losses. *d becomes the continuation without a
 * failure. The continuation with a failure is split again where the damage depends on which member
 * fails.
 */
static int branch(struct run *r, struct damage *d, uint32_t floor, uint32_t stage, double *weight)
{
	bool last = stage >= r->spec->level->max_losses;
	uint32_t worse, other;
	double hazard, met;
	damage_copy(r->scratch, d);
	damage_walk(d, INFINITY, floor, &hazard);
	assert(hazard >= 0);
	double q = -expm1(-hazard), with = *weight * q;
	damage_walk(r->scratch, -log1p(-rng_unit(r->rng) * q), floor, &met);
	*weight *= exp(-hazard);
	double share = damage_draw_both(r->scratch, r->rng, &worse, &other);
	assert(share >= 0 && share <= 1);
	int rc = 0;
	if (share < 1) {
		damage_copy(r->second, r->scratch);
		rc = branch_to(r, r->second, other, floor, last, with * (1 - share));
	}
	if (rc == 0 && share > 0)
		rc = branch_to(r, r->scratch, worse, floor, last, with * share);
	return rc;
}

/*
 * Russian roulette: continues a state of low weight with a low probability, and raises its
 * weight by the inverse. Returns false when the state is dropped.
 */
static bool survives_roulette(struct run *r, double *weight, double start)
{
	assert(start >= 0);
	double least = start * ROULETTE;
	if (*weight >= least)
		return true;
	if (!rng_chance(r->rng, *weight / least))
		return false;
	*weight = least;
	return true;
}

/*
 * Returns whether to simulate the rest of the cycle after the stripes with `floor` losses are
 * repaired. To reach so many losses again takes as many failures. In later stages that adds little
 * to the result and would be most of the work, so only LATER_SHARE of the states are continued,
 * with a higher weight.
 */
static bool continues_cycle(struct run *r, uint32_t stage, double *weight)
{
	if (stage < LATER_STAGE)
		return true;
	if (!rng_chance(r->rng, LATER_SHARE))
		return false;
	*weight /= LATER_SHARE;
	return true;
}

static int run_start(struct run *r, size_t i, uint32_t stage)
{
	uint32_t max_losses = r->spec->level->max_losses,
		 floor = stage < max_losses ? stage : max_losses;
	assert(i < r->now.n && r->branch.n == 0);
	double start = r->now.weight[i];
	int rc = population_add(&r->branch, state_at(&r->now, i), start);
	while (rc == 0 && r->branch.n > 0) {
		struct damage *d = r->work;
		double weight = r->branch.weight[--r->branch.n];
		damage_copy(d, state_at(&r->branch, r->branch.n));
		while (rc == 0 && survives_roulette(r, &weight, start)) {
			bool there;
			rc = simulate_to(r, d, floor, &weight, &there);
			if (rc != 0 || !there)
				break;
			rc = branch(r, d, floor, stage, &weight);
			if (rc == 0 && (weight <= 0 || !continues_cycle(r, stage, &weight)))
				break;
		}
	}
	return rc;
}

static int resample(struct run *r)
{
	uint32_t want = r->spec->states;
	assert(r->next.n > 0 && want > 0);
	double sum = 0;
	for (size_t i = 0; i < r->next.n; i++)
		sum += r->next.weight[i];
	AUTO_FREE size_t *pick = calloc(want, sizeof(*pick));
	if (pick == NULL)
		return -ENOMEM;
	draw_even(r->rng, r->next.weight, r->next.n, want, pick);
	r->now.n = 0;
	for (uint32_t k = 0; k < want; k++) {
		int rc = population_add(&r->now, state_at(&r->next, pick[k]), sum / want);
		if (rc != 0)
			return rc;
	}
	r->next.n = 0;
	return 0;
}

/* Starts cycles with the failure of a member of an idle level, and measures the mean cycle time. */
static int first_stage(struct run *r, double *cycle_s)
{
	const struct level *level = r->spec->level;
	double busy = 0, weight;
	r->next.n = 0;
	for (uint32_t i = 0; i < r->spec->states; i++) {
		bool there;
		weight = 1.0 / r->spec->states;
		damage_init(r->scratch, level);
		int rc = fail(r, r->scratch, damage_draw(r->scratch, r->rng), &weight);
		if (rc == 0 && weight > 0)
			rc = population_add(&r->next, r->scratch, weight);
		size_t before = r->losses.n;
		double sum = r->losses.sum;
		if (rc == 0)
			rc = simulate_to(r, r->scratch, level->max_losses + 1, &weight, &there);
		r->losses.n = before; /* drop the losses of this cycle, which the stages count */
		r->losses.sum = sum;
		if (rc != 0)
			return rc;
		busy += r->scratch->now;
	}
	*cycle_s = 1 / (level->members * level->fail_rate) + busy / r->spec->states;
	return r->next.n > 0 ? resample(r) : 0;
}

static int all_stages(struct run *r, struct split_result *out)
{
	uint32_t max_losses = r->spec->level->max_losses;
	int rc = first_stage(r, &out->cycle_s);
	for (uint32_t stage = 1; rc == 0 && r->now.n > 0; stage++) {
		double before = r->losses.sum;
		r->next.n = 0;
		for (size_t i = 0; rc == 0 && i < r->now.n; i++)
			rc = run_start(r, i, stage);
		out->stages = stage;
		bool worth =
			stage < max_losses || r->losses.sum - before > EXTRA_WORTH * r->losses.sum;
		if (rc != 0 || r->next.n == 0 || !worth || stage > max_losses + EXTRA_STAGES_MAX)
			break;
		rc = resample(r);
	}
	return rc;
}

static int collect(struct run *r, struct split_result *out)
{
	out->rate = r->losses.sum / out->cycle_s;
	if (r->losses.n == 0)
		return 0;
	AUTO_FREE size_t *pick = calloc(r->spec->states, sizeof(*pick));
	out->samples = calloc(r->spec->states, sizeof(*out->samples));
	if (pick == NULL || out->samples == NULL)
		return -ENOMEM;
	draw_even(r->rng, r->losses.weight, r->losses.n, r->spec->states, pick);
	for (uint32_t k = 0; k < r->spec->states; k++)
		out->samples[k] = r->losses.at[pick[k]];
	out->samples_n = r->spec->states;
	return 0;
}

int split_run(const struct split_spec *spec, struct rng *rng, struct split_result *out)
{
	assert(spec->states > 0 && (spec->hits == NULL || spec->hits_n > 0));
	size_t bytes = damage_bytes(spec->level);
	struct run r = {.spec = spec, .rng = rng};
	r.scratch = malloc(bytes);
	r.second = malloc(bytes);
	r.work = malloc(bytes);
	*out = (struct split_result){0};
	r.now.bytes = r.next.bytes = r.branch.bytes = bytes;
	int rc = r.scratch == NULL || r.second == NULL || r.work == NULL ? -ENOMEM : 0;
	if (rc == 0)
		rc = all_stages(&r, out);
	if (rc == 0)
		rc = collect(&r, out);
	population_fini(&r.now);
	population_fini(&r.next);
	population_fini(&r.branch);
	free(r.losses.at);
	free(r.losses.weight);
	free(r.scratch);
	free(r.second);
	free(r.work);
	return rc;
}

void split_fini(struct split_result *r)
{
	free(r->samples);
	r->samples = NULL;
}
