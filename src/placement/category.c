// SPDX-License-Identifier: Apache-2.0
#include "placement/category.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static int by_value_down(const void *a, const void *b)
{
	const struct category_sample *x = a, *y = b;
	return x->value > y->value ? -1 : x->value < y->value;
}

void category_fit(struct category_cuts *cuts, uint32_t categories, double ratio,
		  struct category_sample *samples, size_t n)
{
	assert(categories >= 2 && categories <= CATEGORY_MAX && ratio >= 1);
	double total = 0, parts = 0, target = 0, above = 0;
	*cuts = (struct category_cuts){.categories = categories};
	for (size_t i = 0; i < n; i++) {
		assert(isfinite(samples[i].value) && samples[i].weight >= 0);
		total += samples[i].weight;
	}
	for (uint32_t k = 0; k < categories - 1; k++)
		parts += pow(ratio, k);
	if (n > 1)
		qsort(samples, n, sizeof(*samples), by_value_down);
	size_t i = 0;
	for (uint32_t k = categories - 1; k >= 2; k--) {
		target += total * pow(ratio, categories - 1 - k) / parts;
		while (i + 1 < n && above + samples[i].weight < target)
			above += samples[i++].weight;
		cuts->cut[k - 2] = n > 0 ? samples[i].value : 0;
		assert(k == categories - 1 || cuts->cut[k - 2] <= cuts->cut[k - 1]);
	}
}

uint32_t category_of(const struct category_cuts *cuts, double savings, double value)
{
	if (!(savings >= 0))
		return 0;
	uint32_t category = 1;
	while (category < cuts->categories - 1 && value >= cuts->cut[category - 1])
		category++;
	assert(category >= 1 && category < cuts->categories);
	return category;
}
