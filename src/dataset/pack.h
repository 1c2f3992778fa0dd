// SPDX-License-Identifier: Apache-2.0
/* Private to the builder: reads samples of a catalog from their local files and appends them to a file of the cluster. */
#ifndef DATASET_PACK_H
#define DATASET_PACK_H

#include <terrane/terrane.h>

#include "dataset/build.h"
#include "dataset/format.h"

/* bytes that are read before they are appended; larger samples are streamed */
#define PACK_BATCH_BYTES (32 * MIB)
#define PACK_BATCH_SAMPLES 4096u

/* What was found out about a sample while it was read. */
struct pack_found {
	uint32_t crc, width, height;
	uint8_t sha256[SHA256_BYTES];
};

struct pack {
	const struct catalog *c;
	const struct build_options *b;
	struct terrane_file *file;
	uint64_t at; /* bytes appended to the file */
	uint8_t *buf;
	struct pack_found *found; /* [PACK_BATCH_SAMPLES], of the last pack_append */
	char why[CATALOG_WHY_MAX];
};

/* -ENOMEM. */
int pack_init(struct pack *p, const struct catalog *c, const struct build_options *b);
void pack_fini(struct pack *p);

/* Returns how many of the next n samples are appended together: at least one. */
uint64_t pack_count(const uint64_t *sizes, const uint64_t *offsets, uint64_t n);
/* Appends samples (their numbers in the catalog) at their offsets, with padding before them. Fills p->found. Errors of the
 * source have a reason in p->why, those of the cluster in b->o.error. */
int pack_append(struct pack *p, const uint64_t *samples, const uint64_t *sizes,
		const uint64_t *offsets, uint64_t n);
/* Appends padding up to a length of the file. */
int pack_pad(struct pack *p, uint64_t to);

#endif
