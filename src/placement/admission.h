// SPDX-License-Identifier: Apache-2.0
/*
 * Admission: the decision of a metadata server which new blocks go to flash.
 *
 * The use of flash is the used bytes that nodes have reported, and what this server promised since, as a share of the
 * capacity. The price of flash (price.h) follows the use, and each block of a category whose limit is above the use goes
 * to flash. The category is first lowered to what the tenant's category deserves (trust.h).
 *
 * A promise counts for ADMISSION_PROMISE_S seconds: until then the node has reported the bytes as used. In between they
 * count twice, so that servers promise too little and not too much.
 *
 * A block is meant for flash if its category would be admitted to empty flash. A block that is meant and does not go to
 * flash has spilled. The spill is measured as in the BYOM paper over the files that were placed in the last hour, weighted
 * by disk load: the mean disk seconds of the outcomes of this tenant and category for each byte. A block stays where it was
 * written, so the part of the time that spilled is all of it.
 *
 * Invariants:
 *   1. 0 <= use <= 1; a block goes to flash only if it fits into what is neither used nor promised.
 *   2. A file of unknown category or of category 0 never goes to flash.
 */
#ifndef PLACEMENT_ADMISSION_H
#define PLACEMENT_ADMISSION_H

#include "placement/outcome.h"
#include "placement/price.h"
#include "placement/threshold.h"
#include "placement/trust.h"

#define ADMISSION_PROMISE_S 5u

struct admission {
	struct price price;
	struct threshold spill; /* measures the spill; its level is not used */
	struct trust trust;
	struct cost_rates rates;
	double capacity, used;                /* bytes of flash, as nodes reported */
	double promised[ADMISSION_PROMISE_S]; /* bytes, by second */
	int64_t promised_s;                   /* the last second that `promised` has */
	uint64_t placed, admitted, spilled;   /* blocks with a category, since the start */
};

/* A block that is to be placed; category as it travels: 0: not known; c + 1: category c. */
struct admission_block {
	uint32_t tenant, category;
	double bytes; /* on disks, with replicas or parity */
};

/* Begins without flash. -ENOMEM. */
int admission_init(struct admission *a);
void admission_fini(struct admission *a);

/* Takes what nodes reported, and moves the price. */
void admission_room(struct admission *a, double now_s, double capacity_bytes, double used_bytes);

/* Decides whether the block goes to flash, and counts it. */
bool admission_place(struct admission *a, double now_s, const struct admission_block *b);

/* Takes back the promise for a block that found no room on flash: it has spilled. */
void admission_refused(struct admission *a, double now_s, const struct admission_block *b);

/* Adds the outcome of a file. */
void admission_ended(struct admission *a, const struct outcome *o);

/* Returns the use of flash, 0 to 1; 1 without flash. */
double admission_use(const struct admission *a, double now_s);
double admission_promised(const struct admission *a, double now_s);

#endif
