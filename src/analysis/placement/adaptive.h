// SPDX-License-Identifier: Apache-2.0
/* What methods share that give each job a category. */
#ifndef ANALYSIS_PLACEMENT_ADAPTIVE_H
#define ANALYSIS_PLACEMENT_ADAPTIVE_H

#include "analysis/placement/method.h"

/* The value by which jobs are divided into categories (placement/category.h). */
enum adaptive_value { ADAPTIVE_DENSITY, ADAPTIVE_WORTH };

/* Divides the training jobs whose outcome is known when the test begins. Returns 0 or -ENOMEM. */
int adaptive_fit(const struct study *s, enum adaptive_value value, const struct method_options *o,
		 struct category_cuts *cuts);

/*
 * Opens a policy with a category for each test job: with the threshold of the BYOM paper, or with the price of flash
 * (placement/price.h). Takes `category`, also on an error; NULL gives -ENOMEM. -EINVAL: the configuration is out of
 * range.
 */
int adaptive_open_take(const struct study *s, const struct method_options *o, int *category,
		       struct policy **out);
int adaptive_open_price_take(const struct study *s, const struct method_options *o, int *category,
			     double capacity_bytes, struct policy **out);

#endif
