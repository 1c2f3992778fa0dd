// SPDX-License-Identifier: Apache-2.0
/*
 * The random crop and flip of a sample: a pure function of the seed, the epoch and the sample, so that every retry, hedge
 * and place of work gives the same training data. Distributions are those of torchvision's RandomResizedCrop and
 * RandomHorizontalFlip.
 */
#ifndef PREP_DRAW_H
#define PREP_DRAW_H

#include "prep/image.h"

struct prep_draw_rule {
	double scale_min, scale_max; /* share of the image's area, in (0, 1] */
	double ratio_min, ratio_max; /* width by height, above 0 */
	double flip;                 /* probability of mirroring */
};

/* torchvision's defaults: 0.08 to 1, 3/4 to 4/3, one half. */
extern const struct prep_draw_rule prep_draw_default;

struct prep_draw_key {
	uint64_t seed, epoch, sample;
};

struct prep_drawn {
	struct prep_rect crop;
	bool flip;
};

/* Returns whether the numbers of a rule are in range. */
bool prep_draw_valid(const struct prep_draw_rule *rule);

/* Draws for a sample of this size, whose sides are 1 to PREP_SIDE_MAX. */
struct prep_drawn prep_draw(const struct prep_draw_rule *rule, const struct prep_draw_key *key,
			    uint32_t width, uint32_t height);

#endif
