// SPDX-License-Identifier: Apache-2.0
#include "placement/price.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "placement/threshold.h"

/* A longer time between two calls says nothing about the use in between. */
#define STEP_SHARE_MAX 1.0
#define TIME_MAX_S 1e12

const struct price_config price_default = {
	.categories = 15,
	.goal = 0.65,
	.span = 5,
	.settle_s = 28800,
	.begin = 5,
};

int price_init(struct price *p, const struct price_config *config)
{
	if (config->categories < 2 || config->categories > THRESHOLD_CATEGORIES_MAX ||
	    !(config->goal >= 0 && config->goal <= 1) ||
	    !(config->span > 0 && config->span <= 2.0 * THRESHOLD_CATEGORIES_MAX) ||
	    !(config->settle_s >= 1 && config->settle_s <= TIME_MAX_S) || !(config->begin >= 1))
		return -EINVAL;
	*p = (struct price){.config = *config,
			    .level = fmin(config->begin, config->categories - 1)};
	return 0;
}

void price_move(struct price *p, double now_s, double use)
{
	const struct price_config *c = &p->config;
	now_s = now_s > 0 ? fmin(now_s, TIME_MAX_S) : 0;
	use = use > 0 ? fmin(use, 1) : 0;
	if (p->begun && now_s > p->last_s) {
		double part = fmin((now_s - p->last_s) / c->settle_s, STEP_SHARE_MAX);
		price_set_level(p, p->level + part * c->span * (use - c->goal));
	}
	p->last_s = p->begun ? fmax(p->last_s, now_s) : now_s;
	p->begun = true;
	assert(p->level >= 1 - c->span && p->level <= c->categories - 1 + c->span);
}

void price_set_level(struct price *p, double level)
{
	const struct price_config *c = &p->config;
	if (isfinite(level))
		p->level = fmin(fmax(level, 1 - c->span), c->categories - 1 + c->span);
}

double price_limit(const struct price *p, double category)
{
	if (category <= 0)
		return 0;
	double limit = p->config.goal + (category - p->level) / p->config.span;
	return fmin(fmax(limit, 0), 1);
}
