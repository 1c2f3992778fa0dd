// SPDX-License-Identifier: Apache-2.0
/* The state of admission to flash at a metadata server, as operators and janitors see it. */
#ifndef META_API_PLACEMENT_H
#define META_API_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

/* What the outcomes of a tenant's category tell. */
struct meta_placement_class {
	uint32_t tenant;
	uint32_t category; /* 0: not known; c + 1: category c */
	double jobs;       /* weight of the outcomes */
	double worth;      /* savings for each byte-second, as a multiple of what flash costs */
	double counts;     /* category that the claimed one counts as */
	double life_max_s; /* age at which a file has outlived its class */
};

struct meta_placement {
	double level, goal, span;             /* placement/price.h */
	double capacity, used, promised;      /* bytes of flash */
	double spill;                         /* in the last hour, 0 to 1 */
	uint64_t placed, admitted, spilled;   /* blocks with a category, since the server started */
	uint64_t outcomes;                    /* number of outcomes that the server has read */
	uint64_t now_s;                       /* wall clock of the server */
	struct meta_placement_class *classes; /* in the arena */
	size_t class_count;
};

#define META_PLACEMENT_LIFE_S \
	86400 /* age at which a file of a class without outcomes has outlived it */

/* Returns the age at which files of a tenant's category have outlived their class. */
double meta_placement_life_s(const struct meta_placement *p, uint32_t tenant, uint32_t category);

#endif
