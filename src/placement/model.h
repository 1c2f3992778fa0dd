// SPDX-License-Identifier: Apache-2.0
/*
 * A model: from what is known of a job when it starts to its category. It is trained offline
 * (analysis/placement/train.h) and used by the workload itself, so a bad model harms its own workload only.
 *
 * Kinds
 *   MODEL_ORDINAL  one output, the expected score of the job's worth. Category 0: below 0. The others by cuts.
 *   MODEL_CLASSES  one output for each category; the largest one counts, the first of equals
 *
 * The model holds the history of the training jobs and goes on with that of jobs that end (model_ended), so its
 * features are the same as in training.
 *
 * File, little-endian: magic, version, CRC-32C of all that follows, then the fields in the order of model_write(). The
 * format changes only with its version. Whatever the bytes are, model_parse() refuses them or returns a model whose
 * every call is bounded: sizes, order of nodes, finite numbers and places in the history are checked.
 */
#ifndef PLACEMENT_MODEL_H
#define PLACEMENT_MODEL_H

#include "placement/category.h"
#include "placement/feature.h"
#include "placement/trees.h"

#define MODEL_BYTES_MAX (64u << 20)
#define MODEL_HEAD_BYTES 16u

enum model_kind { MODEL_ORDINAL, MODEL_CLASSES };

struct model {
	enum model_kind kind;
	struct category_cuts cuts; /* of the score, for MODEL_ORDINAL */
	struct cost_rates rates;   /* with which jobs that end are valued */
	double trained_s;          /* end of the training jobs */
	struct features features;
	struct trees trees;
	struct past history;
};

/*
 * Reads a model. Returns 0, -EBADMSG for a wrong checksum or a truncated file, -EPROTONOSUPPORT for another version,
 * -EINVAL for contents that break a rule, or -ENOMEM; the model is then empty.
 */
int model_parse(struct model *m, const uint8_t *bytes, size_t len);
void model_fini(struct model *m);

/* Returns the bytes of the file in memory for free(), or -ENOMEM. */
int model_write(const struct model *m, uint8_t **bytes, size_t *len);

/* Returns the category, 0 to cuts.categories - 1. */
uint32_t model_category(const struct model *m, const struct features_job *job);

/* Returns the category of these outputs of the trees. */
uint32_t model_decide(const struct model *m, const float *outputs);

/* Adds a job that ended to the history. */
void model_ended(struct model *m, const struct features_job *job, const struct job_io *io);

#define AUTO_MODEL __attribute__((cleanup(model_fini)))

#endif
