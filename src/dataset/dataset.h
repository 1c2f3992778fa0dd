// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a version of a data set: the index in memory, and the reads of samples.
 *
 * The index is loaded page by page when it is needed, and the pages that were not used for longest are dropped beyond
 * cache_bytes. So opening a data set reads its manifest only, and 100 million samples need no more memory than 1 million.
 *
 * Steps. Nothing here waits, so that each caller can wait in its own way. Before samples are looked up, their shards must be
 * open and their pages loaded. dataset_need says what to do next for a list of samples, dataset_need_start starts that
 * call of libterrane, dataset_need_end takes its result; and so on until nothing is needed. dataset_ready does all of
 * that and waits.
 *
 *     while ((rc = dataset_need(d, samples, n, &need)) > 0) {
 *             rc = dataset_need_start(d, &need, &op);
 *             rc = dataset_need_end(d, &need, rc < 0 ? rc : terrane_wait(t, &op));
 *     }
 *     dataset_lookup(d, samples, n, entries);
 *     dataset_ranges(d, entries, n, buffer, ranges);
 *     terrane_read_batch(t, ranges, n, o);
 *     dataset_check(entries, ranges, n);
 *
 * One thread at a time calls these functions. Several needs may be in progress at the same time, also the same one: a result
 * that is there already is dropped. Reads of samples that were started need the data set no more, except that it must be
 * open.
 * After a fork the child may use it like its files.
 */
#ifndef DATASET_DATASET_H
#define DATASET_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <terrane/terrane.h>

#include "dataset/format.h"
#include "dataset/manifest.h"
#include "dataset/versions.h"

#define DATASET_CACHE_BYTES_DEFAULT (256 * MIB)
/* samples of one lookup: their pages stay in memory whatever cache_bytes is */
#define DATASET_LOOKUP_MAX 65536u

/* A sample as the reader gets it. A stored-format-free struct: Python maps it as a numpy record. */
struct dataset_entry {
	uint64_t sample; /* its number in the data set */
	uint64_t offset, size;
	uint32_t shard;
	uint32_t crc;
	int32_t label;
	uint32_t width, height;
	uint32_t part; /* 0: the whole sample, else 1 + the place of one part (dataset_narrow) */
	uint64_t digested; /* 1: sha256 is that of the sample in the index */
	uint8_t sha256[SHA256_BYTES];
};

struct dataset;

/* Opens a version from the bytes of its manifest. Errors of versions_parse; the error (may be NULL) gets the reason. */
int dataset_open(struct dataset **out, struct terrane *t, const char *path, const char *manifest,
		 size_t len, uint64_t cache_bytes, struct terrane_error *e);
/* Opens a version (0: the latest) and waits. */
int dataset_open_version(struct dataset **out, struct terrane *t, const char *path,
			 uint64_t version, const struct terrane_options *o);
/* Closes a data set (may be NULL). No read of its samples may be in progress. */
void dataset_close(struct dataset *d);

const struct manifest *dataset_manifest(const struct dataset *d);
const char *dataset_name(const struct dataset *d);
/* Returns the bytes of index pages in memory. */
uint64_t dataset_cached_bytes(const struct dataset *d);

/* --- what must be there before a lookup --------------------------------------------------------- */

enum dataset_need_kind { DATASET_OPEN_FILE, DATASET_READ_HEAD, DATASET_READ_PAGES };

struct dataset_need {
	enum dataset_need_kind kind;
	uint32_t shard;
	bool index; /* DATASET_OPEN_FILE: the index, not the samples */
	char path[DATASET_FILE_MAX];
	struct terrane_file *file;
	uint8_t *raw;
	size_t len;
	struct terrane_range *ranges;
	size_t n;
	struct terrane_options o;
	struct terrane_error error;
};

/* Returns 1 and fills *need (which the caller passes to dataset_need_start and _end) if something is needed for these
 * samples, 0 if they can be looked up. -ERANGE: no such sample; -E2BIG: more than DATASET_LOOKUP_MAX; -ENOMEM. */
int dataset_need(struct dataset *d, const uint64_t *samples, size_t n, struct dataset_need *need);
/* Starts the call. Returns 0, or the error of a call that could not be started. need->o has the options of the call; the
 * caller may set its fields before, except error. */
int dataset_need_start(struct dataset *d, struct dataset_need *need, struct terrane_op *op);
/* Takes the result of the call, and frees what *need has. Returns 0, or an error with its text in need->error. */
int dataset_need_end(struct dataset *d, struct dataset_need *need, int64_t result);
/* Does all of this and waits. */
int dataset_ready(struct dataset *d, const uint64_t *samples, size_t n,
		  const struct terrane_options *o);

/* --- samples ------------------------------------------------------------------------------------ */

/* Looks samples up that nothing is needed for. */
void dataset_lookup(struct dataset *d, const uint64_t *samples, size_t n,
		    struct dataset_entry *out);
/* Returns what else the index has of a sample; valid until the next call of dataset_need. */
void dataset_tail(struct dataset *d, uint64_t sample, struct index_tail *out);

/* What dataset_narrow takes a name of parts for. */
enum dataset_part { DATASET_PART_OTHER, DATASET_PART_CHOSEN, DATASET_PART_IMAGE };

/* Narrows entries of dataset_lookup to the first of their parts whose name is chosen: kinds has an enum dataset_part for
 * each name of the manifest. Samples with one part and those without a chosen one stay whole. The index has the size of
 * the first image of a sample, so width and height become 0 if an image is before the chosen part. Pages must be in
 * memory as for dataset_tail. */
void dataset_narrow(struct dataset *d, struct dataset_entry *entries, size_t n,
		    const uint8_t *kinds);

/* Returns whether entries from outside could have come from dataset_lookup, so that their samples can be read, and sets the
 * sum of their sizes. */
bool dataset_entries_ok(const struct dataset *d, const struct dataset_entry *entries, size_t n,
			uint64_t *bytes);
/* Fills the ranges of a batch that reads the samples one after another into buf, which has room for their sizes. Returns the
 * bytes of all. */
uint64_t dataset_ranges(struct dataset *d, const struct dataset_entry *entries, size_t n,
			uint8_t *buf, struct terrane_range *ranges);
/* Compares what was read with the index; of a part only its size. Returns 0, or the first error: -EBADMSG: the bytes are not those that the index
 * has. The error (may be NULL) gets the reason. */
int dataset_check(const struct dataset *d, const struct dataset_entry *entries,
		  const struct terrane_range *ranges, size_t n, struct terrane_error *e);

#endif
