// SPDX-License-Identifier: Apache-2.0
/* The results of `terrane code explain`: an encoding on a system. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include <jansson.h>
#include <stdio.h>

#include "code/repair_count.h"
#include "code/repair_speed.h"

struct explain_system {
	/* size of the system; 0: the default, or more if the code needs more */
	uint32_t racks, enclosures, disks;
	uint64_t disk_bytes, chunk_bytes;
	double disk_rate, rack_rate; /* bandwidth of a disk and of a rack in bytes per second */
	double share;                /* part of both bandwidths that repair may use, 0 to 1 */
};

struct explain_method {
	struct repair_estimate cost; /* chunks that repairs read and write */
	struct repair_speed network; /* speed of rebuilding over the network */
};

struct explain {
	struct encoding encoding;
	char text[ENCODING_TEXT_MAX], scheme[4];
	struct explain_system system;
	struct layout layout;
	double reads_per_chunk; /* chunks read to rebuild one chunk, on average over the stripe; 0: impossible */
	const char *no_speed; /* reason why speeds and methods cannot be computed, or NULL */
	struct repair_speed disk;
	/* smallest number of failed disks that can make a pool catastrophic: pl + 1 */
	uint32_t pool_failures;
	double catastrophic; /* probability that pool_failures random failed disks make a pool catastrophic */
	struct explain_method methods[4];
};

/* Computes the results for an encoding. Returns 0, or -errno with the reason in `why`. */
int explain_make(struct explain *x, const char *encoding, const char *scheme,
		 const struct explain_system *system, char *why, size_t why_size);

void explain_print(const struct explain *x, FILE *out);

/* Returns the results as a new reference, or NULL when out of memory. */
json_t *explain_json(const struct explain *x);

#endif
