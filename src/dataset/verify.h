// SPDX-License-Identifier: Apache-2.0
/* A check of a version of a data set: every page of its index, every sample against its checksums. */
#ifndef DATASET_VERIFY_H
#define DATASET_VERIFY_H

#include "dataset/dataset.h"

struct verify {
	struct dataset *d;
	struct terrane *t;
	struct terrane_options o; /* its error receives the reason of a failure */
	/* Called with the bytes and samples that were checked since the last call; true: stop with -ECANCELED. */
	bool (*stop)(void *ctx, uint64_t bytes, uint64_t samples);
	/* Called for each sample that is not right, with the reason. */
	void (*bad)(void *ctx, uint64_t sample, const char *why);
	void *ctx;
	uint64_t samples, bytes, bad_samples; /* results */
};

/* Reads everything. Returns 0 (also if samples are bad: see bad_samples), or the error that ended the check. */
int dataset_verify(struct verify *v);

#endif
