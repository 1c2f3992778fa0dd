// SPDX-License-Identifier: Apache-2.0
/*
 * Trains boosted trees with XGBoost and returns them in our form (placement/trees.h). XGBoost is a shared library that is
 * loaded at the first use, so that nothing else needs it. One thread and a fixed seed: the same data gives the same
 * trees. Each result is compared with XGBoost's own outputs for all training rows: they must be equal bit by bit.
 */
#ifndef ANALYSIS_PLACEMENT_BOOST_H
#define ANALYSIS_PLACEMENT_BOOST_H

#include "placement/trees.h"

/* Rows of features; NAN: missing. */
struct boost_data {
	const float *values; /* [row * columns + column] */
	uint64_t rows, columns;
	const float *label, *weight;
};

struct boost_options {
	uint32_t classes;  /* 0: regression of the label; else the label is a class below this */
	uint32_t rounds;   /* at most; each adds a tree for each output */
	uint32_t patience; /* rounds without a better validation after which training stops */
	uint32_t depth;    /* of a tree */
	double rate;       /* learning rate */
	double rows_share; /* of the rows that a tree sees */
	double columns_share;
	double leaf_weight; /* least weight in a leaf */
	uint32_t seed;
};

#define BOOST_WHY_MAX 200

struct boost_result {
	uint32_t rounds; /* that are used: the best of the validation, or all */
	double metric;   /* RMSE or mlogloss of the validation at that round; NAN without one */
	char why[BOOST_WHY_MAX]; /* after an error: the reason, or "" */
};

/*
 * Trains; `valid` may be NULL. Returns 0, -ENOENT when libxgboost.so.0 cannot be loaded, -EIO when XGBoost fails or its
 * outputs differ, -E2BIG for trees beyond the limits of placement/trees.h, or -ENOMEM.
 */
int boost_train(const struct boost_data *train, const struct boost_data *valid,
		const struct boost_options *o, struct trees *out, struct boost_result *result);

#endif
