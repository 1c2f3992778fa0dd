// SPDX-License-Identifier: Apache-2.0
#include "analysis/placement/method.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

const struct method_options method_default = {
	.ratio = 1,
	.categories = 15,
	.window_s = 3600,
	.interval_s = 300,
	.low = 0.01,
	.high = 0.15,
	.heuristic_window_s = 86400,
	.heuristic_interval_s = 3600,
	.heuristic_by_total = 1,
	.oracle_gap = 0.005,
	.oracle_limit_s = 60,
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
	PARAMETER("heuristic-window-s", heuristic_window_s, 60, 1e7),
	PARAMETER("heuristic-interval-s", heuristic_interval_s, 1, 1e7),
	PARAMETER("heuristic-by-total", heuristic_by_total, 0, 1),
	PARAMETER("oracle-gap", oracle_gap, 0, 1),
	PARAMETER("oracle-limit-s", oracle_limit_s, 0, 1e5),
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
	{"firstfit", "on flash what fits, in the order of arrival", method_firstfit, NULL},
	{"heuristic", "keys with the largest past savings until flash is full", method_heuristic,
	 NULL},
	{"adaptive-hash", "adaptive threshold, category from a hash of the key", method_hash, NULL},
	{"table", "adaptive threshold, worth of the key in the training trace", method_table, NULL},
	{"true-density", "adaptive threshold, the true category by density", method_true_density,
	 NULL},
	{"true-worth", "adaptive threshold, the true category by worth", method_true_worth, NULL},
	{"oracle-tcio", "knows the future, saves most disk time", method_oracle_tcio, NULL},
	{"oracle-tco", "knows the future, saves most money", method_oracle_tco, NULL},
	{"lp-bound", "no placement saves more: the linear relaxation", NULL, method_lp_bound},
	{0},
};

const struct method *method_find(const char *name)
{
	for (const struct method *m = methods; m->name != NULL; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

int method_run(const struct method *m, const struct study *s, const struct method_options *o,
	       double capacity_bytes, struct study_result *out)
{
	struct policy *policy;
	assert((m->open == NULL) != (m->bound == NULL));
	if (m->bound != NULL)
		return m->bound(s, capacity_bytes, out);
	int rc = m->open(s, o, capacity_bytes, &policy);
	if (rc != 0)
		return rc;
	rc = study_run(s, policy, capacity_bytes, out);
	policy->ops->close(policy);
	return rc;
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
