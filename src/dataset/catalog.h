// SPDX-License-Identifier: Apache-2.0
/*
 * The catalog of a source: where each sample's bytes are, before they are packed. A source is scanned once, in its own
 * order, into two temporary files (records, and the place of each record), so that samples can be visited in shuffled
 * order and the memory does not grow with their number.
 *
 * The fingerprint of a catalog follows from all its records and from the times of the source's files. A build that is
 * resumed compares it.
 */
#ifndef DATASET_CATALOG_H
#define DATASET_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "dataset/format.h"
#include "dataset/manifest.h"

#define CATALOG_FILES_MAX (1u << 20)
#define CATALOG_PATH_MAX 8192u
#define CATALOG_WHY_MAX 512u
#define CATALOG_NAMES_BYTES_MAX (256 * MIB) /* names of one folder */
/* the bytes are in the file ROOT/KEY.PART */
#define CATALOG_BY_KEY UINT32_MAX

struct catalog_part {
	uint8_t name;  /* number in catalog.parts */
	uint32_t file; /* number in catalog.files, or CATALOG_BY_KEY */
	uint64_t offset, size;
};

struct catalog_sample {
	char key[KEY_MAX + 1];
	uint32_t key_len;
	int32_t label; /* number in catalog.labels; -1: none */
	uint32_t parts;
	struct catalog_part part[PARTS_MAX];
};

struct catalog {
	char kind[32]; /* of the source; catalog_scan sets it */
	char root[CATALOG_PATH_MAX];
	FILE *records, *places;
	uint64_t samples, bytes, records_len;
	uint64_t fingerprint;
	struct names labels, parts, files;
	char why[CATALOG_WHY_MAX]; /* reason of the last error, with the object and a remedy */
	/* Called now and then while a source is scanned; true: stop with -ECANCELED. May be NULL. */
	bool (*stop)(void *ctx, uint64_t samples, uint64_t bytes);
	void *stop_ctx;
};

/* Makes an empty catalog with temporary files in the folder temp (NULL: $TMPDIR, else /var/tmp). */
int catalog_init(struct catalog *c, const char *temp);
void catalog_fini(struct catalog *c);

/* Sets the reason of an error, and returns it. */
int catalog_fail(struct catalog *c, int rc, const char *fmt, ...) PRINTF(3, 4);

/* Appends a sample. -E2BIG, -EFBIG, and errors of the temporary files; sets why. */
int catalog_add(struct catalog *c, const struct catalog_sample *s);
/* Makes the fingerprint depend on a number, such as the time of a file. */
void catalog_mix(struct catalog *c, uint64_t number);
/* Ends the additions. -ENODATA: there are no samples. */
int catalog_seal(struct catalog *c);
/* Reads sample i of a sealed catalog. Several threads may call it. */
int catalog_get(const struct catalog *c, uint64_t i, struct catalog_sample *out);
/* Writes the path of the local file that has a part. False: it is too long. */
bool catalog_path(const struct catalog *c, const struct catalog_sample *s, uint32_t part,
		  char out[CATALOG_PATH_MAX]);

/* Splits the name of a file into key and part: "a/b.c.jpg" has the key "a/b.c" and the part "jpg". */
void catalog_split(const char *name, size_t *key_len, const char **part);

/* Returns whether a text of a source can be in a manifest and an index: well-formed UTF-8 without NUL. */
bool catalog_text_ok(const char *text, size_t len);

/* Lists the names of a folder, sorted, without those that begin with "."; *out, which the caller frees, points into the
 * text, whose limit is CATALOG_NAMES_BYTES_MAX. Sets why. */
int catalog_list(struct catalog *c, const char *path, struct strbuf *text, const char ***out,
		 size_t *n);

/* --- sources: each scans into an empty catalog and seals it ------------------------------------- */

/* Scans a source of a kind: "folder", "tar" or "jsonl". NULL: the kind follows from the name of the source, or from the
 * names of the files in it, if all have the same ending. -EINVAL: there is no such kind. */
int catalog_scan(struct catalog *c, const char *source, const char *kind);
/* Calls scan for each file of a source, which is a file or a folder of files, in the order of names. Files of a folder whose
 * names end otherwise are left out. */
int catalog_each_file(struct catalog *c, const char *source, const char *ending,
		      int (*scan)(struct catalog *c, const char *path, uint32_t file, int fd));

/* A folder of files: the names of the folders below it are the labels, "a" of "a/1.jpg" and "a/b/1.jpg". Files whose
 * names begin with "." are left out. */
int catalog_folder(struct catalog *c, const char *root);

/* A tar file, or a folder of them, in the naming of WebDataset: members that follow one another and have the same name up
 * to the first dot of their last component are the parts of a sample. The part "cls" is its label, too. */
int catalog_tar(struct catalog *c, const char *source);

/* A file of JSON lines, or a folder of them: each line is a sample with the part "json". Its key is "__key__", "key" or "id"
 * of the object, else the name of the file with the number of the line; "label" or "cls" is its label. */
int catalog_lines(struct catalog *c, const char *source);

#endif
