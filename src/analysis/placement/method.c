// SPDX-License-Identifier: Apache-2.0
#include "analysis/placement/adaptive.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

const struct method_options method_default = {
	.ratio = 1.7,
	.categories = 15,
	.window_s = 3600,
	.interval_s = 300,
	.low = 0.01,
	.high = 0.15,
	.price_goal = 0.65,
	.price_span = 5,
	.price_settle_s = 28800,
	.price_begin = 5,
	.trust = 1,
	.heuristic_window_s = 604800,
	.heuristic_interval_s = 3600,
	.heuristic_by_total = 0,
	.oracle_gap = 0.005,
	.oracle_limit_s = 60,
	.rounds = 300,
	.depth = 6,
	.rate = 0.1,
	.seed = 1,
	.lifetime_limit_s = 21600,
};

struct parameter {
	const char *name;
	size_t offset;
	double min, max;
};

#define PARAMETER(name, field, min, max)                                 \
	{                                                                \
		name, offsetof(struct method_options, field), (min), max \
	}

static const struct parameter parameters[] = {
	PARAMETER("ratio", ratio, 1, 10),
	PARAMETER("categories", categories, 2, THRESHOLD_CATEGORIES_MAX),
	PARAMETER("window-s", window_s, 1, 1e7),
	PARAMETER("interval-s", interval_s, 0, 1e7),
	PARAMETER("low", low, 0, 1),
	PARAMETER("high", high, 0, 1),
	PARAMETER("price-goal", price_goal, 0, 1),
	PARAMETER("price-span", price_span, 0.01, 128),
	PARAMETER("price-settle-s", price_settle_s, 1, 1e9),
	PARAMETER("price-begin", price_begin, 1, 64),
	PARAMETER("control", control, 0, 2),
	PARAMETER("trust", trust, 0, 1),
	PARAMETER("heuristic-window-s", heuristic_window_s, 60, 1e7),
	PARAMETER("heuristic-interval-s", heuristic_interval_s, 1, 1e7),
	PARAMETER("heuristic-by-total", heuristic_by_total, 0, 1),
	PARAMETER("oracle-gap", oracle_gap, 0, 1),
	PARAMETER("oracle-limit-s", oracle_limit_s, 0, 1e5),
	PARAMETER("rounds", rounds, 1, 2000),
	PARAMETER("depth", depth, 1, 10),
	PARAMETER("rate", rate, 0.001, 1),
	PARAMETER("seed", seed, 0, 1e9),
	PARAMETER("held-power", held_power, 0, 1),
	PARAMETER("shuffled", shuffled, 0, 1),
	PARAMETER("without", without, 0, 15),
	PARAMETER("lifetime-limit-s", lifetime_limit_s, 1, 1e9),
	PARAMETER("hint-wrong", hint_wrong, 0, 1),
	PARAMETER("hint-invert", hint_invert, 0, 1),
	PARAMETER("hint-constant", hint_constant, 0, 1),
	PARAMETER("hint-liar", hint_liar, 0, 1),
};

static double *parameter_at(struct method_options *o, const struct parameter *p)
{
	return (double *)(void *)((char *)o + p->offset);
}

int method_set(struct method_options *o, const char *text)
{
	const char *eq = strchr(text, '=');
	for (size_t i = 0; eq != NULL && i < ARRAY_LEN(parameters); i++) {
		const struct parameter *p = &parameters[i];
		size_t len = strlen(p->name);
		if (len != (size_t)(eq - text) || memcmp(p->name, text, len) != 0)
			continue;
		char *end;
		double v = strtod(eq + 1, &end);
		if (end == eq + 1 || *end != '\0' || !(v >= p->min && v <= p->max))
			return -EINVAL;
		*parameter_at(o, p) = v;
		return 0;
	}
	return -ENOENT;
}

const char *method_parameter(const struct method_options *o, size_t i, double *value)
{
	if (i >= ARRAY_LEN(parameters))
		return NULL;
	struct method_options copy = *o;
	*value = *parameter_at(&copy, &parameters[i]);
	return parameters[i].name;
}

struct threshold_config method_threshold(const struct method_options *o)
{
	return (struct threshold_config){
		.categories = (uint32_t)o->categories,
		.window_s = o->window_s,
		.interval_s = o->interval_s,
		.low = o->low,
		.high = o->high,
	};
}

const struct method methods[] = {
	{.name = "firstfit",
	 .about = "on flash what fits, in the order of arrival",
	 .open = method_firstfit},
	{.name = "heuristic",
	 .about = "keys with the largest past savings until flash is full",
	 .open = method_heuristic},
	{.name = "lifetime",
	 .about = "a model of the lifetime: on flash what is short-lived",
	 .predict = method_lifetime,
	 .timed = true},
	{.name = "adaptive-hash",
	 .about = "adaptive threshold, category from a hash of the key",
	 .open = method_hash},
	{.name = "adaptive-ranking",
	 .about = "adaptive threshold, a model of the class by density",
	 .predict = method_ranking},
	{.name = "table",
	 .about = "adaptive threshold, worth of the key in the training trace",
	 .open = method_table},
	{.name = "terrane",
	 .about = "price of flash, a model of the worth",
	 .predict = method_terrane,
	 .priced = true},
	{.name = "true-density",
	 .about = "adaptive threshold, the true category by density",
	 .open = method_true_density},
	{.name = "true-worth",
	 .about = "adaptive threshold, the true category by worth",
	 .open = method_true_worth},
	{.name = "oracle-tcio",
	 .about = "knows the future, saves most disk time",
	 .open = method_oracle_tcio,
	 .knows_future = true},
	{.name = "oracle-tco",
	 .about = "knows the future, saves most money",
	 .open = method_oracle_tco,
	 .knows_future = true},
	{.name = "lp-bound",
	 .about = "no placement saves more: the linear relaxation",
	 .bound = method_lp_bound,
	 .knows_future = true},
	{0},
};

/* Not among all methods, because it needs a file. */
static const struct method from_file = {.name = "model",
					.about = "price of flash, the model of --model",
					.predict = method_file,
					.priced = true};

const struct method *method_find(const char *name)
{
	for (const struct method *m = methods; m->name != NULL; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return strcmp(name, from_file.name) == 0 ? &from_file : NULL;
}

/* Opens the policy of a method; a prediction was made if the method has one. */
static int open_policy(const struct method *m, const struct study *s,
		       const struct method_options *o, const struct prediction *p,
		       double capacity_bytes, struct policy **out)
{
	if (m->open != NULL)
		return m->open(s, o, capacity_bytes, out);
	if (m->timed)
		return method_open_timed(p->stay_s, out);
	int *copy = malloc(s->test->n * sizeof(*copy));
	if (copy != NULL)
		memcpy(copy, p->category, s->test->n * sizeof(*copy));
	bool priced = o->control > 0 ? o->control > 1 : m->priced;
	return priced ? adaptive_open_price_take(s, o, copy, capacity_bytes, out)
		      : adaptive_open_take(s, o, copy, out);
}

static int run_one(const struct method *m, const struct study *s, const struct method_options *o,
		   const struct prediction *p, double capacity_bytes, struct study_result *out)
{
	struct policy *policy;
	if (m->bound != NULL)
		return m->bound(s, capacity_bytes, out);
	int rc = open_policy(m, s, o, p, capacity_bytes, &policy);
	if (rc != 0)
		return rc;
	rc = study_run(s, policy, capacity_bytes, out);
	policy->ops->close(policy);
	return rc;
}

int method_run_all(const struct method *m, const struct study *s, const struct method_options *o,
		   const double *capacities, size_t n, struct study_result *out)
{
	assert((m->open != NULL) + (m->bound != NULL) + (m->predict != NULL) == 1);
	AUTO_FREE int *category = calloc(s->test->n, sizeof(*category));
	AUTO_FREE double *stay_s = calloc(s->test->n, sizeof(*stay_s));
	struct prediction p = {category, stay_s};
	int rc = category == NULL || stay_s == NULL ? -ENOMEM : 0;
	if (rc == 0 && m->predict != NULL)
		rc = m->predict(s, o, &p);
	if (rc == 0 && m->predict != NULL && !m->timed)
		method_spoil(s, o, category);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = run_one(m, s, o, &p, capacities[i], &out[i]);
	return rc;
}

int method_run(const struct method *m, const struct study *s, const struct method_options *o,
	       double capacity_bytes, struct study_result *out)
{
	return method_run_all(m, s, o, &capacity_bytes, 1, out);
}

struct firstfit {
	struct policy base;
	const struct study *study;
};

static double firstfit_stay(struct policy *p, size_t job, double free_bytes)
{
	struct firstfit *f = container_of(p, struct firstfit, base);
	return (double)f->study->test->io[job].size_bytes <= free_bytes ? INFINITY : 0;
}

static void firstfit_close(struct policy *p)
{
	free(container_of(p, struct firstfit, base));
}

static const struct policy_ops firstfit_ops = {.stay_s = firstfit_stay, .close = firstfit_close};

int method_firstfit(const struct study *s, const struct method_options *o, double capacity_bytes,
		    struct policy **out)
{
	struct firstfit *f = malloc(sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	*f = (struct firstfit){{&firstfit_ops}, s};
	*out = &f->base;
	return 0;
}
