// SPDX-License-Identifier: Apache-2.0
/*
 * Trains a model on a trace.
 *
 *   1. The features of each job are computed as of its start (rows.h), labels from what it did.
 *   2. Time slices: the trees are trained on jobs that ended before a time at 80% of the trace, and validated on
 *      those that started after it; training stops when the validation gets no better (early stopping).
 *   3. The cuts between the categories of an ordinal model are made on the predictions of the validation, because
 *      those of the training jobs are too good.
 *   4. The trees are trained again on all jobs, for as many rounds.
 *
 * The same trace and options give the same bytes.
 */
#ifndef ANALYSIS_PLACEMENT_TRAIN_H
#define ANALYSIS_PLACEMENT_TRAIN_H

#include "analysis/placement/boost.h"
#include "analysis/placement/jobs.h"
#include "placement/model.h"

enum train_label {
	TRAIN_WORTH,       /* ordinal: the score of the worth */
	TRAIN_DENSITY,     /* classes of equal depth by density, as in the BYOM paper */
	TRAIN_LIFE,        /* not for categories: the binary logarithm of the lifetime */
	TRAIN_LIFE_SQUARE, /* not for categories: its square */
};

struct train_options {
	enum train_label label;
	uint32_t categories;
	double ratio; /* of the byte-seconds of an ordinal category to those of the one above */
	double held_power; /* jobs weigh as their byte-seconds to this power */
	double until_s;    /* jobs that ended later are unknown */
	uint32_t rounds, patience, depth;
	double rate;
	uint32_t seed;
	bool shuffled;    /* a control: labels are given to other jobs */
	uint32_t without; /* bit set of enum feature_group: these features are missing */
};

extern const struct train_options train_default;

struct train_report {
	size_t jobs, valid_jobs;
	uint32_t rounds, trees, nodes;
	double metric;   /* of the validation */
	double accuracy; /* share of the validation whose category is right; 0 for lifetimes */
	/* For classes: how well the output of each category tells its jobs from the others, as the area under the ROC curve:
	 * 0.5 nothing, 1 all. NAN: the validation has no such job, or nothing else. */
	double auc[CATEGORY_MAX];
	char why[BOOST_WHY_MAX];
};

/* Returns 0, -ENODATA when there are too few jobs to train and to validate, the errors of boost_train(), or -ENOMEM. */
int train_model(struct model *m, const struct jobs *t, const struct cost_rates *rates,
		const struct train_options *o, struct train_report *report);

#endif
