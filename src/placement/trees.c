// SPDX-License-Identifier: Apache-2.0
#include "placement/trees.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static bool tree_check(const struct trees *t, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++) {
		const struct tree_node *n = &t->nodes[i];
		if (!isfinite(n->value))
			return false;
		if (n->feature == TREES_LEAF)
			continue;
		uint32_t left = first + n->left;
		if (n->feature >= t->features_n || left <= i || left + 1 >= end)
			return false;
	}
	return true;
}

bool trees_check(const struct trees *t)
{
	if (t->groups == 0 || t->groups > TREES_GROUPS_MAX || t->trees_n > TREES_MAX ||
	    t->nodes_n > TREES_NODES_MAX || t->features_n > TREES_FEATURES_MAX ||
	    !isfinite(t->base))
		return false;
	for (uint32_t i = 0; i < t->trees_n; i++) {
		uint32_t first = t->list[i].first;
		uint32_t end = i + 1 < t->trees_n ? t->list[i + 1].first : t->nodes_n;
		if (t->list[i].group >= t->groups || first >= end || end > t->nodes_n ||
		    !tree_check(t, first, end))
			return false;
	}
	return t->trees_n == 0 || t->list[0].first == 0;
}

void trees_run(const struct trees *t, const float *features, float *out)
{
	for (uint32_t g = 0; g < t->groups; g++)
		out[g] = t->base;
	for (uint32_t i = 0; i < t->trees_n; i++) {
		const struct tree_node *root = t->nodes + t->list[i].first, *n = root;
		while (n->feature != TREES_LEAF) {
			float x = features[n->feature];
			/* Comparisons with NAN are false. */
			bool left = n->missing_left ? !(x >= n->value) : x < n->value;
			n = root + n->left + !left;
		}
		assert(t->list[i].group < t->groups);
		out[t->list[i].group] += n->value;
	}
}

void trees_fini(struct trees *t)
{
	free(t->list);
	free(t->nodes);
	*t = (struct trees){0};
}
