// SPDX-License-Identifier: Apache-2.0
/*
 * Boosted decision trees, as XGBoost computes them: the output of a group is the base plus one leaf of each of its
 * trees, added as floats in the order of the trees, so that results are equal bit by bit.
 *
 * Nodes of all trees are in one array. A node compares one feature with its value: below it the left child follows,
 * else the right one, which stands behind the left one. A missing feature (NAN) goes where `missing_left` says.
 *
 * Invariants (trees_check):
 *   1. Children stand after their parent and within the nodes of the tree, so every walk ends.
 *   2. Features are below features_n; values are finite; groups are below `groups`.
 */
#ifndef PLACEMENT_TREES_H
#define PLACEMENT_TREES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREES_FEATURES_MAX 512u
#define TREES_GROUPS_MAX 64u
#define TREES_MAX 65536u
#define TREES_NODES_MAX (1u << 21)
#define TREES_LEAF 0x7fffu

struct tree_node {
	float value;           /* what the feature is compared with, or the output of a leaf */
	uint16_t feature : 15; /* TREES_LEAF: a leaf */
	uint16_t missing_left : 1;
	uint16_t left; /* left child, counted from the root of the tree */
};

struct tree {
	uint32_t first; /* root, in `nodes` */
	uint32_t group; /* output to which the tree adds */
};

struct trees {
	uint32_t groups, trees_n, nodes_n, features_n;
	float base;
	struct tree *list;
	struct tree_node *nodes;
};

/* Reports whether the trees keep the invariants. */
bool trees_check(const struct trees *t);

/* Computes the outputs, one for each group. */
void trees_run(const struct trees *t, const float *features, float *out);

void trees_fini(struct trees *t);

#endif
