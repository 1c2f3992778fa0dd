// SPDX-License-Identifier: Apache-2.0
/*
 * A few values of the segments of each region, chosen at random while the region is filled: the policy judges a region
 * by them without a list of its segments. 64 bytes a region.
 */
#ifndef CACHE_REGION_SAMPLE_H
#define CACHE_REGION_SAMPLE_H

#include <stdint.h>

#include "base/rng.h"

#define REGION_SAMPLES 8u
#define REGION_SAMPLE_GROUPS_MAX 256u

struct region_sample {
	uint64_t value[REGION_SAMPLES];
};

struct region_samples {
	struct region_sample *of; /* [region] */
	uint8_t *count;           /* [region]: number of values, at most REGION_SAMPLES */
	struct {
		uint32_t group, seen;
		struct region_sample sample;
	} open[REGION_SAMPLE_GROUPS_MAX]; /* of the regions that are being filled */
	uint32_t opens, last;
	struct rng rng;
};

/* -ENOMEM */
int region_samples_init(struct region_samples *s, uint32_t regions, uint64_t seed);
void region_samples_fini(struct region_samples *s);
/* A segment is appended to the open region of the group. */
void region_samples_add(struct region_samples *s, uint32_t group, uint64_t value);
/* The open region of the group is sealed as `region`. */
void region_samples_seal(struct region_samples *s, uint32_t group, uint32_t region);

#endif
