// SPDX-License-Identifier: Apache-2.0
#include "prep/draw.h"

#include <assert.h>
#include <math.h>

#include "base/base.h"
#include "base/rng.h"

#define ATTEMPTS 10 /* as torchvision's */

const struct prep_draw_rule prep_draw_default = {.scale_min = 0.08,
						 .scale_max = 1.0,
						 .ratio_min = 3.0 / 4.0,
						 .ratio_max = 4.0 / 3.0,
						 .flip = 0.5};

bool prep_draw_valid(const struct prep_draw_rule *rule)
{
	/* written so that no comparison with NaN passes */
	return rule->scale_min > 0 && rule->scale_max <= 1 && rule->scale_min <= rule->scale_max &&
	       rule->ratio_min > 0 && rule->ratio_max <= PREP_SIDE_MAX &&
	       rule->ratio_min <= rule->ratio_max && rule->flip >= 0 && rule->flip <= 1;
}

/* The largest crop in the middle whose ratio the rule allows. */
static struct prep_rect middle(const struct prep_draw_rule *rule, uint32_t width, uint32_t height)
{
	double ratio = (double)width / height;
	struct prep_rect r = {.width = width, .height = height};
	if (ratio < rule->ratio_min)
		r.height = (uint32_t)nearbyint(width / rule->ratio_min);
	else if (ratio > rule->ratio_max)
		r.width = (uint32_t)nearbyint(height * rule->ratio_max);
	r.width = (uint32_t)max_u64(1, min_u64(r.width, width));
	r.height = (uint32_t)max_u64(1, min_u64(r.height, height));
	r.x = (width - r.width) / 2;
	r.y = (height - r.height) / 2;
	return r;
}

static struct prep_rect draw_crop(const struct prep_draw_rule *rule, struct rng *rng,
				  uint32_t width, uint32_t height)
{
	double area = (double)width * height;
	double log_min = log(rule->ratio_min), log_max = log(rule->ratio_max);
	for (int i = 0; i < ATTEMPTS; i++) {
		double target = area * (rule->scale_min +
					(rule->scale_max - rule->scale_min) * rng_unit(rng));
		double ratio = exp(log_min + (log_max - log_min) * rng_unit(rng));
		double w = nearbyint(sqrt(target * ratio)), h = nearbyint(sqrt(target / ratio));
		if (w < 1 || w > width || h < 1 || h > height)
			continue;
		struct prep_rect r = {.width = (uint32_t)w, .height = (uint32_t)h};
		r.y = (uint32_t)rng_below(rng, height - r.height + 1);
		r.x = (uint32_t)rng_below(rng, width - r.width + 1);
		return r;
	}
	return middle(rule, width, height);
}

struct prep_drawn prep_draw(const struct prep_draw_rule *rule, const struct prep_draw_key *key,
			    uint32_t width, uint32_t height)
{
	assert(prep_draw_valid(rule));
	assert(width > 0 && height > 0 && width <= PREP_SIDE_MAX && height <= PREP_SIDE_MAX);
	struct rng rng;
	rng_init(&rng, mix_u64(mix_u64(mix_u64(key->seed + 1) ^ key->epoch) + key->sample));
	struct prep_drawn drawn = {.crop = draw_crop(rule, &rng, width, height)};
	drawn.flip = rng_unit(&rng) < rule->flip;
	assert(prep_rect_inside(&drawn.crop, width, height));
	return drawn;
}
