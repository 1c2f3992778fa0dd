// SPDX-License-Identifier: Apache-2.0
/*
 * Trust: what the categories of each tenant turned out to be worth.
 *
 * A category is a promise: files of category 14 are worth more than those of 13. Whether a tenant keeps it is seen when
 * its files end. For each tenant and category the outcomes are summed, older ones with less weight: savings for each
 * byte-second held (cost_worth()). The worths of the last TRUST_SAMPLES outcomes of all tenants are divided into
 * categories like those of a model (category.h); so the worth of a tenant's category tells which category it deserves.
 * A tenant's category counts as the deserved one when that is lower. A tenant whose model is broken, or that always
 * claims the best category, so loses only its own place.
 *
 *   weight of the promise: TRUST_JOBS outcomes; a category without outcomes counts as claimed
 *   nothing is raised: a tenant that claims little gets little
 *
 * Example: tenant 7 calls everything 14, and its files turn out as those of 5; after many outcomes its 14 counts as 5.
 *
 * Invariants:
 *   1. 0 <= trust_category(t, tenant, c) <= c.
 *   2. The table has at most TRUST_CELLS entries; when it is full, the oldest entry near the place is replaced.
 *   3. Sums are finite whatever the outcomes are.
 */
#ifndef PLACEMENT_TRUST_H
#define PLACEMENT_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "placement/category.h"
#include "placement/cost.h"

#define TRUST_CELLS 4096u
#define TRUST_SAMPLES 2048u
#define TRUST_PROBES 8u
#define TRUST_JOBS 8.0     /* outcomes that weigh as much as the promise */
#define TRUST_MEMORY 200.0 /* outcomes after which an older one has lost most of its weight */

#define TRUST_UNKNOWN UINT32_MAX /* category of files whose client named none; never discounted */

struct trust_cell {
	uint32_t tenant;
	uint32_t category;
	bool used;
	double jobs;         /* weight of all outcomes */
	double held, gained; /* means: byte-seconds; worth times byte-seconds */
	double load;         /* mean of disk seconds */
	double life,
		life_sq; /* means of the logarithm (base 2) of the lifetime, and of its square */
	double last_s;
};

struct trust {
	struct category_cuts cuts;
	double ratio;
	struct trust_cell *cells;                 /* TRUST_CELLS */
	struct category_sample *samples, *sorted; /* TRUST_SAMPLES */
	uint32_t samples_n, next;
	uint64_t added;
};

/* Begins without outcomes. -EINVAL: categories or ratio out of range (category_fit()); -ENOMEM. */
int trust_init(struct trust *t, uint32_t categories, double ratio);
void trust_fini(struct trust *t);

/* Adds the outcome of a file of this category: what it cost with these rates. */
void trust_add(struct trust *t, uint32_t tenant, uint32_t category, const struct job_io *io,
	       const struct cost_rates *rates);

/* Returns the category that counts, between 0 and the claimed one. */
double trust_category(const struct trust *t, uint32_t tenant, uint32_t category);

/* Returns the sums of a tenant's category; NULL: no outcome is known. Valid until the next trust_add(). */
const struct trust_cell *trust_find(const struct trust *t, uint32_t tenant, uint32_t category);

/* Returns the age in seconds at which a file has outlived its class: the mean lifetime and three deviations, within ten
 * minutes and 30 days; a day for a class without outcomes. */
double trust_life_max_s(const struct trust_cell *cell);

#endif
