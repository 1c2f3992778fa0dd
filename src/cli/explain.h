// SPDX-License-Identifier: Apache-2.0
/* The results of `terrane code explain`: an encoding on a system. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include <jansson.h>
#include <stdio.h>

#include "code/repair_count.h"
#include "code/repair_speed.h"

struct explain_system {
	uint32_t racks, enclosures, disks; /* 0: the default, or more if the code needs it */
	uint64_t disk_bytes, chunk_bytes;
	double disk_rate, rack_rate; /* bytes a second */
	double share;                /* part of both that repair may use */
};

struct explain_method {
	struct repair_estimate cost; /* chunks */
	struct repair_speed network; /* of rebuilding over the network */
};

struct explain {
	struct encoding encoding;
	char text[ENCODING_TEXT_MAX], scheme[4];
	struct explain_system system;
	struct layout layout;
	double reads_per_chunk; /* to rebuild one, on average over the stripe; 0: impossible */
	const char *no_speed;   /* why speeds and methods cannot be computed, or NULL */
	struct repair_speed disk;
	uint32_t pool_failures; /* disks that can break a pool: pl + 1 */
	double catastrophic;    /* probability that so many random failed disks break it */
	struct explain_method methods[4];
};

/* Computes the results. Returns 0 or -errno with the reason in `why`. */
int explain_make(struct explain *x, const char *encoding, const char *scheme,
		 const struct explain_system *system, char *why, size_t why_size);

void explain_print(const struct explain *x, FILE *out);

/* Returns the results as a new reference, or NULL when out of memory. */
json_t *explain_json(const struct explain *x);

#endif
