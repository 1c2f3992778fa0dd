// SPDX-License-Identifier: Apache-2.0
/*
 * Writing the samples of a version to local files: as a folder, each part of a sample a file, or as tar files in the naming
 * of WebDataset. Samples come in the order in which they are stored, which is a shuffled order of their source.
 */
#ifndef DATASET_EXPORT_H
#define DATASET_EXPORT_H

#include "dataset/dataset.h"

#define EXPORT_TAR_BYTES_DEFAULT (1 * GIB)

struct export
{
	struct dataset *d;
	struct terrane *t;
	struct terrane_options o; /* its error receives the reason of a failure */
	const char *folder;       /* is made if it is missing; must be empty */
	bool tar;
	uint64_t tar_bytes; /* length at which a tar file ends; 0: EXPORT_TAR_BYTES_DEFAULT */
	/* Called with the bytes and samples that were written since the last call; true: stop with -ECANCELED. */
	bool (*stop)(void *ctx, uint64_t bytes, uint64_t samples);
	void *ctx;
	uint64_t samples, bytes, files; /* results */
};

/* Writes everything. Every sample is compared with its checksum. -ENOTEMPTY: the folder is not empty; -EEXIST: two samples
 * have the same key; -EINVAL: a key cannot be the name of a file; -EBADMSG: a sample is damaged; errors of files. */
int dataset_export(struct export *x);

#endif
