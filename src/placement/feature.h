// SPDX-License-Identifier: Apache-2.0
/*
 * What is known of a job when it starts, as the numbers that a model compares (section 4.1 of the BYOM paper has the
 * groups). A job brings named numbers and texts; names that the model does not know are ignored, and missing ones are
 * missing (NAN).
 *
 *   group A  history of jobs that ended: of the same pipeline and step, of each text, of the words in each text
 *   group B  words of the texts, hashed to FEATURES_WORDS counters
 *   group C  the numbers
 *   group T  day of the week and hour
 *
 * A word is a run of letters or of digits. Means over words generalize to names that were never seen. All means come
 * from jobs that ended before, so that no job's own outcome is among its features.
 *
 * The score of a worth w is the binary logarithm of 1 + |w|, with the sign of w.
 */
#ifndef PLACEMENT_FEATURE_H
#define PLACEMENT_FEATURE_H

#include <stdbool.h>

#include "placement/cost.h"
#include "placement/past.h"

#define FEATURES_COLUMNS_MAX 48u /* numbers, and texts, each */
#define FEATURES_NAME_MAX 32u
#define FEATURES_TEXT_MAX 512u /* bytes of a text that count */
#define FEATURES_WORDS 32u
#define FEATURES_HISTORY (PAST_VALUES + 6u)
#define FEATURES_MAX \
	(FEATURES_COLUMNS_MAX + 2 + FEATURES_HISTORY + 5 * FEATURES_COLUMNS_MAX + FEATURES_WORDS)

enum feature_group { FEATURE_HISTORY, FEATURE_NAMES, FEATURE_RESOURCES, FEATURE_TIME };

/* The columns of a model. Names begin with "n_" and "s_". */
struct features {
	uint32_t numbers_n, texts_n;
	char number_names[FEATURES_COLUMNS_MAX][FEATURES_NAME_MAX];
	char text_names[FEATURES_COLUMNS_MAX][FEATURES_NAME_MAX];
};

/* A job when it starts; in the order of the columns. NAN and NULL: missing. */
struct features_job {
	double start_s;
	const double *numbers;
	const char *const *texts;
};

/* Returns the number of values that features_fill() writes, at most FEATURES_MAX. */
uint32_t features_count(const struct features *f);

/* Returns the group of a value. */
enum feature_group features_group(const struct features *f, uint32_t i);

void features_fill(const struct features *f, const struct past *h, const struct features_job *job,
		   float *out);

/* Adds what a job did to the history, when it has ended. */
void features_ended(const struct features *f, struct past *h, const struct features_job *job,
		    const struct job_io *io, const struct cost_rates *rates);

double features_score(double worth);

#endif
