// SPDX-License-Identifier: Apache-2.0
/*
 * Categories: how much a file gains from flash, as a small number that travels with its creation.
 *
 * Category 0 is for files that cost more on flash than on disk. The files that gain are divided by a value, from 1 (the
 * least) to categories - 1. Two values are there (section 4.2 of the BYOM paper has the first):
 *
 *   density   bytes transferred for each byte of the footprint; classes hold equally many jobs
 *   worth     savings for each byte-second of flash. An optimal placement has a price of flash, and takes the files
 *             whose worth is above it, so classes by worth rank files as the optimum does. Classes hold equal shares
 *             of the byte-seconds, or geometric ones: each holds `ratio` times what the class above it holds.
 *
 * Example: 4 categories with a ratio of 3; worths 8 6 4 2 hold 1 3 9 27 byte-seconds. The classes 3, 2, 1 should hold
 * 1/13, 3/13 and 9/13 of the 40: the cuts lie where the sum from above passes 3.1 and 12.3, at 6 and 4.
 */
#ifndef PLACEMENT_CATEGORY_H
#define PLACEMENT_CATEGORY_H

#include <stddef.h>
#include <stdint.h>

#define CATEGORY_MAX 64u

struct category_cuts {
	uint32_t categories; /* with category 0; 2 to CATEGORY_MAX */
	double cut[CATEGORY_MAX];
	/* ascending; cut[i] is the least value of category i + 2, for i < categories - 2 */
};

/* A job that gains from flash. */
struct category_sample {
	double value, weight;
};

/*
 * Divides samples into classes 1 to categories - 1 by value. Class k gets a share of the total weight in proportion to
 * ratio^(categories - 1 - k); ratio 1 gives equal depth. Sorts the samples. Without samples all cuts are 0.
 */
void category_fit(struct category_cuts *cuts, uint32_t categories, double ratio,
		  struct category_sample *samples, size_t n);

/* Returns the category of a job with these savings and this value. */
uint32_t category_of(const struct category_cuts *cuts, double savings, double value);

#endif
