// SPDX-License-Identifier: Apache-2.0
/* The versions of a data set in the cluster: finding, reading, writing and removing their manifests. */
#ifndef DATASET_VERSIONS_H
#define DATASET_VERSIONS_H

#include <stdint.h>

#include <terrane/terrane.h>

#include "dataset/manifest.h"

#define DATASET_PATH_MAX 4096u
#define DATASET_FILE_MAX (DATASET_PATH_MAX + 64) /* path of a file of a data set */
#define VERSIONS_MAX 1000000u

/* Sets the text of an error (which may be NULL) and returns the code. */
int dataset_fail(struct terrane_error *e, int rc, const char *fmt, ...) PRINTF(3, 4);

/* Takes a path of a data set: without a slash at its end, short enough for the paths of its files. */
int dataset_path(char out[DATASET_PATH_MAX], const char *path, struct terrane_error *e);

/* Lists the versions in rising order, to *out, which the caller frees. Returns their number. -ENOENT, -ENOTDIR: there is
 * no such directory. */
int64_t versions_list(struct terrane *t, const char *path, uint64_t **out,
		      const struct terrane_options *o);

/* Reads a manifest into an initialized object; version 0: the latest. -ENOENT: no such version, or no data set. */
int versions_read(struct terrane *t, const char *path, uint64_t version, struct manifest *out,
		  const struct terrane_options *o);

/* Parses the bytes of a manifest; sets the reason of an error. */
int versions_parse(const char *path, const char *text, size_t len, struct manifest *out,
		   struct terrane_error *e);

/* Makes a version visible. -EEXIST: there is one of this number. */
int versions_write(struct terrane *t, const char *path, const struct manifest *m,
		   const struct terrane_options *o);

/* Removes a version, and the shards that no other version has; version 0: all versions and the data set. */
int versions_remove(struct terrane *t, const char *path, uint64_t version,
		    const struct terrane_options *o);

/* Reads a whole file; the caller frees *out. -EFBIG: it is longer than max. */
int64_t versions_read_file(struct terrane *t, const char *path, uint64_t max, uint8_t **out,
			   const struct terrane_options *o);
/* Writes a whole file. flags: of terrane_create. */
int versions_write_file(struct terrane *t, const char *path, const void *data, size_t len,
			unsigned flags, const struct terrane_options *o);

#endif
