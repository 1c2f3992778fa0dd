// SPDX-License-Identifier: Apache-2.0
/* Reads the JSON form of XGBoost's models. */
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/placement/boost_impl.h"
#include "base/base.h"

static void free_json(json_t **j)
{
	json_decref(*j);
}

#define AUTO_JSON __attribute__((cleanup(free_json)))

/* One tree as arrays of the JSON, by node. */
struct source {
	const json_t *left, *right, *feature, *value, *missing_left;
	size_t n;
};

static int64_t int_at(const json_t *array, size_t i)
{
	const json_t *v = json_array_get(array, i);
	return json_is_boolean(v) ? json_is_true(v) : json_integer_value(v);
}

static bool source_read(struct source *s, const json_t *tree)
{
	*s = (struct source){
		.left = json_object_get(tree, "left_children"),
		.right = json_object_get(tree, "right_children"),
		.feature = json_object_get(tree, "split_indices"),
		.value = json_object_get(tree, "split_conditions"),
		.missing_left = json_object_get(tree, "default_left"),
	};
	s->n = json_array_size(s->left);
	return s->n > 0 && s->n < UINT16_MAX && json_array_size(s->right) == s->n &&
	       json_array_size(s->feature) == s->n && json_array_size(s->value) == s->n &&
	       json_array_size(s->missing_left) == s->n;
}

/* Copies the nodes level by level, so that siblings are neighbours and children follow their parent. */
static int copy_tree(const struct source *s, struct trees *t)
{
	AUTO_FREE int64_t *queue = calloc(s->n, sizeof(*queue));
	struct tree_node *nodes = t->nodes + t->nodes_n;
	size_t n = 1;
	if (queue == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int64_t at = queue[i], left = int_at(s->left, (size_t)at);
		int64_t right = int_at(s->right, (size_t)at);
		nodes[i].value = (float)json_number_value(json_array_get(s->value, (size_t)at));
		nodes[i].feature = TREES_LEAF;
		if (left < 0)
			continue;
		if (left >= (int64_t)s->n || right < 0 || right >= (int64_t)s->n || n + 2 > s->n)
			return -EIO;
		nodes[i].feature = (uint16_t)int_at(s->feature, (size_t)at) & TREES_LEAF;
		nodes[i].missing_left = int_at(s->missing_left, (size_t)at) != 0;
		nodes[i].left = (uint16_t)n;
		queue[n++] = left;
		queue[n++] = right;
	}
	t->nodes_n += (uint32_t)n;
	return 0;
}

static int copy_trees(const json_t *list, const json_t *info, struct trees *t)
{
	for (uint32_t i = 0; i < t->trees_n; i++) {
		struct source s;
		int rc = source_read(&s, json_array_get(list, i)) ? 0 : -EIO;
		t->list[i] = (struct tree){t->nodes_n, (uint32_t)int_at(info, i)};
		if (rc == 0)
			rc = copy_tree(&s, t);
		if (rc != 0)
			return rc;
	}
	return trees_check(t) ? 0 : -EIO;
}

static size_t count_nodes(const json_t *list, size_t trees_n)
{
	size_t n = 0;
	for (size_t i = 0; i < trees_n; i++)
		n += json_array_size(json_object_get(json_array_get(list, i), "left_children"));
	return n;
}

int boost_read(const char *json, size_t len, uint32_t rounds, struct trees *out)
{
	*out = (struct trees){0};
	AUTO_JSON json_t *root = json_loadb(json, len, 0, NULL);
	const json_t *learner = json_object_get(root, "learner");
	const json_t *param = json_object_get(learner, "learner_model_param");
	const json_t *model =
		json_object_get(json_object_get(learner, "gradient_booster"), "model");
	const json_t *list = json_object_get(model, "trees");
	const char *base = json_string_value(json_object_get(param, "base_score"));
	const char *classes = json_string_value(json_object_get(param, "num_class"));
	const char *columns = json_string_value(json_object_get(param, "num_feature"));
	if (base == NULL || classes == NULL || columns == NULL)
		return -EIO;
	uint32_t groups = (uint32_t)strtoul(classes, NULL, 10);
	out->groups = groups == 0 ? 1 : groups;
	out->base = strtof(base, NULL);
	out->features_n = (uint32_t)strtoul(columns, NULL, 10);
	out->trees_n = rounds * out->groups;
	size_t nodes = count_nodes(list, out->trees_n);
	if (json_array_size(list) < out->trees_n)
		return -EIO;
	if (out->groups > TREES_GROUPS_MAX || out->trees_n > TREES_MAX || nodes > TREES_NODES_MAX ||
	    out->features_n > TREES_FEATURES_MAX)
		return -E2BIG;
	out->list = calloc(out->trees_n + 1, sizeof(*out->list));
	out->nodes = calloc(nodes + 1, sizeof(*out->nodes));
	int rc = out->list == NULL || out->nodes == NULL ? -ENOMEM : 0;
	if (rc == 0)
		rc = copy_trees(list, json_object_get(model, "tree_info"), out);
	if (rc != 0)
		trees_fini(out);
	return rc;
}
