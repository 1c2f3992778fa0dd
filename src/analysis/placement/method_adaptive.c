// SPDX-License-Identifier: Apache-2.0
/* Methods that give each job a category, and let the adaptive threshold or the price of flash decide. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/placement/adaptive.h"
#include "base/base.h"
#include "base/hash.h"
#include "placement/price.h"
#include "placement/trust.h"

struct adaptive {
	struct policy base;
	const struct study *study;
	struct threshold threshold;
	int *category; /* of each test job */
};

static double adaptive_stay(struct policy *p, size_t job, double free_bytes)
{
	struct adaptive *a = container_of(p, struct adaptive, base);
	double now_s = a->study->test->io[job].start_s;
	bool admitted = threshold_admit(&a->threshold, now_s, a->category[job]);
	if (a->study->needed != NULL)
		a->study->needed[job] = a->threshold.level;
	return admitted ? INFINITY : 0;
}

static void adaptive_placed(struct policy *p, size_t job, double share)
{
	struct adaptive *a = container_of(p, struct adaptive, base);
	const struct job_io *io = &a->study->test->io[job];
	double load = a->study->test_cost[job].disk_s / job_seconds(io);
	threshold_add(&a->threshold, io->start_s, load, 1 - share);
}

static void adaptive_close(struct policy *p)
{
	struct adaptive *a = container_of(p, struct adaptive, base);
	free(a->category);
	free(a);
}

static const struct policy_ops adaptive_ops = {
	.stay_s = adaptive_stay,
	.placed = adaptive_placed,
	.close = adaptive_close,
};

int adaptive_open_take(const struct study *s, const struct method_options *o, int *category,
		       struct policy **out)
{
	struct adaptive *a = category == NULL ? NULL : calloc(1, sizeof(*a));
	if (a == NULL) {
		free(category);
		return -ENOMEM;
	}
	*a = (struct adaptive){.base = {&adaptive_ops}, .study = s, .category = category};
	struct threshold_config config = method_threshold(o);
	int rc = threshold_init(&a->threshold, &config);
	if (rc != 0) {
		adaptive_close(&a->base);
		return rc;
	}
	*out = &a->base;
	return 0;
}

struct priced {
	struct policy base;
	const struct study *study;
	struct price price;
	struct trust trust; /* without memory if users are trusted */
	int user_column;
	double capacity;
	int *category; /* of each test job */
};

static uint32_t user_of(const struct priced *a, size_t job)
{
	const struct jobs *t = a->study->test;
	return a->user_column < 0 ? 0 : t->texts[job * t->texts_n + (size_t)a->user_column];
}

/* Returns the category that counts. */
static double trusted(const struct priced *a, size_t job)
{
	int category = a->category[job];
	if (a->trust.cells == NULL || category <= 0)
		return category;
	return trust_category(&a->trust, user_of(a, job), (uint32_t)category);
}

static double priced_stay(struct policy *p, size_t job, double free_bytes)
{
	struct priced *a = container_of(p, struct priced, base);
	double use = a->capacity > 0 ? 1 - free_bytes / a->capacity : 1;
	const struct price_config *c = &a->price.config;
	price_move(&a->price, a->study->test->io[job].start_s, use);
	if (a->study->needed != NULL)
		a->study->needed[job] = a->price.level + c->span * (use - c->goal);
	return price_limit(&a->price, trusted(a, job)) > use ? INFINITY : 0;
}

static double priced_bytes(struct policy *p, size_t job, double free_bytes)
{
	struct priced *a = container_of(p, struct priced, base);
	double limit = price_limit(&a->price, trusted(a, job)) * a->capacity;
	return fmax(limit - (a->capacity - free_bytes), 0);
}

static void priced_ended(struct policy *p, size_t job)
{
	struct priced *a = container_of(p, struct priced, base);
	if (a->trust.cells != NULL)
		trust_add(&a->trust, user_of(a, job), (uint32_t)a->category[job],
			  &a->study->test->io[job], &a->study->rates);
}

static void priced_resized(struct policy *p, double capacity_bytes)
{
	struct priced *a = container_of(p, struct priced, base);
	assert(capacity_bytes >= 0);
	a->capacity = capacity_bytes;
}

static void priced_close(struct policy *p)
{
	struct priced *a = container_of(p, struct priced, base);
	trust_fini(&a->trust);
	free(a->category);
	free(a);
}

static const struct policy_ops priced_ops = {
	.stay_s = priced_stay,
	.bytes_max = priced_bytes,
	.ended = priced_ended,
	.resized = priced_resized,
	.close = priced_close,
};

int adaptive_open_price_take(const struct study *s, const struct method_options *o, int *category,
			     double capacity_bytes, struct policy **out)
{
	struct priced *a = category == NULL ? NULL : calloc(1, sizeof(*a));
	if (a == NULL) {
		free(category);
		return -ENOMEM;
	}
	*a = (struct priced){.base = {&priced_ops},
			     .study = s,
			     .user_column = jobs_text_column(s->test, "s_user"),
			     .capacity = capacity_bytes,
			     .category = category};
	struct price_config config = {
		.categories = (uint32_t)o->categories,
		.goal = o->price_goal,
		.span = o->price_span,
		.settle_s = o->price_settle_s,
		.begin = o->price_begin,
	};
	int rc = price_init(&a->price, &config);
	if (rc == 0 && o->trust > 0)
		rc = trust_init(&a->trust, config.categories, o->ratio);
	if (rc != 0) {
		priced_close(&a->base);
		return rc;
	}
	*out = &a->base;
	return 0;
}

static int *new_categories(const struct study *s)
{
	return calloc(s->test->n, sizeof(int));
}

int adaptive_fit(const struct study *s, enum adaptive_value value, const struct method_options *o,
		 struct category_cuts *cuts)
{
	AUTO_FREE struct category_sample *samples = calloc(s->train->n, sizeof(*samples));
	size_t n = 0;
	if (samples == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < s->train->n; i++) {
		const struct job_io *io = &s->train->io[i];
		const struct cost *cost = &s->train_cost[i];
		if (!study_train_known(s, i) || cost_savings(cost) < 0)
			continue;
		samples[n++] = value == ADAPTIVE_DENSITY
				       ? (struct category_sample){cost_density(io), 1}
				       : (struct category_sample){cost_worth(&s->rates, io, cost),
								  job_byte_seconds(io)};
	}
	category_fit(cuts, (uint32_t)o->categories, value == ADAPTIVE_DENSITY ? 1 : o->ratio,
		     samples, n);
	return 0;
}

int method_hash(const struct study *s, const struct method_options *o, double capacity_bytes,
		struct policy **out)
{
	int *category = new_categories(s);
	for (size_t i = 0; category != NULL && i < s->test->n; i++)
		category[i] =
			1 + (int)(hash64_u64s(s->test_key[i], 0) % ((uint32_t)o->categories - 1));
	return o->control > 1 ? adaptive_open_price_take(s, o, category, capacity_bytes, out)
			      : adaptive_open_take(s, o, category, out);
}

/* The mean worth of each key in the training trace; unknown keys get the mean of all. */
int method_table(const struct study *s, const struct method_options *o, double capacity_bytes,
		 struct policy **out)
{
	struct category_cuts cuts;
	double savings_all = 0, held_all = 0;
	AUTO_FREE double *savings = calloc(s->keys_n, sizeof(*savings));
	AUTO_FREE double *held = calloc(s->keys_n, sizeof(*held));
	int *category = new_categories(s);
	int rc = savings == NULL || held == NULL || category == NULL ? -ENOMEM : 0;
	if (rc == 0)
		rc = adaptive_fit(s, ADAPTIVE_WORTH, o, &cuts);
	if (rc != 0) {
		free(category);
		return rc;
	}
	for (size_t i = 0; i < s->train->n; i++) {
		if (!study_train_known(s, i))
			continue;
		savings[s->train_key[i]] += cost_savings(&s->train_cost[i]);
		held[s->train_key[i]] += job_byte_seconds(&s->train->io[i]);
		savings_all += cost_savings(&s->train_cost[i]);
		held_all += job_byte_seconds(&s->train->io[i]);
	}
	for (size_t i = 0; i < s->test->n; i++) {
		uint32_t key = s->test_key[i];
		bool known = held[key] > 0;
		double gain = known ? savings[key] : savings_all;
		double of = known ? held[key] : held_all;
		double worth = of > 0 ? gain / of / s->rates.flash_byte_usd : 0;
		category[i] = (int)category_of(&cuts, gain, worth);
	}
	return o->control > 1 ? adaptive_open_price_take(s, o, category, capacity_bytes, out)
			      : adaptive_open_take(s, o, category, out);
}

static int true_categories(const struct study *s, const struct method_options *o,
			   enum adaptive_value value, double capacity_bytes, struct policy **out)
{
	struct category_cuts cuts;
	int rc = adaptive_fit(s, value, o, &cuts);
	if (rc != 0)
		return rc;
	int *category = new_categories(s);
	for (size_t i = 0; category != NULL && i < s->test->n; i++) {
		const struct job_io *io = &s->test->io[i];
		const struct cost *cost = &s->test_cost[i];
		double v = value == ADAPTIVE_DENSITY ? cost_density(io)
						     : cost_worth(&s->rates, io, cost);
		category[i] = (int)category_of(&cuts, cost_savings(cost), v);
	}
	return o->control > 1 ? adaptive_open_price_take(s, o, category, capacity_bytes, out)
			      : adaptive_open_take(s, o, category, out);
}

int method_true_density(const struct study *s, const struct method_options *o,
			double capacity_bytes, struct policy **out)
{
	return true_categories(s, o, ADAPTIVE_DENSITY, capacity_bytes, out);
}

int method_true_worth(const struct study *s, const struct method_options *o, double capacity_bytes,
		      struct policy **out)
{
	return true_categories(s, o, ADAPTIVE_WORTH, capacity_bytes, out);
}
