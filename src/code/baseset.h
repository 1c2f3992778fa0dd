// SPDX-License-Identifier: Apache-2.0
/*
 * Base sets of single-overlap declustering.
 *
 * The units of a pool are numbered by pairs (domain, unit) that are added modulo `domains` and
 * `units`; a local pool of 120 disks is 120 domains of one unit. The stripe sets of the pool
 * are the translates base + s of one base set. The translates base + s and base + t share one unit
 * for every pair of members whose distance is t - s, so
 *
 *   overlap = the number of times that the most frequent distance occurs in the base set,
 *
 * and the smaller it is, the fewer stripe sets a group of failed disks can lose together. Overlap
 * 1 means that all w(w-1) distances differ (a modular Golomb ruler), which needs w(w-1)+1 units:
 * {0, 1, 3} modulo 7 has the distances 1 2 3 4 5 6 once each, and its seven translates are the Fano
 * plane. 17+3 in 120 disks has 380 distances for 119 values: overlap 4 is the least possible.
 *
 * The search tries these methods in this order; the same numbers always give the same set:
 *   1. Singer's lines in a projective plane: q*q+q+1 disks, w <= q+1, q = p^m: overlap 1
 *   2. Bose's affine lines: q*q-1 disks, w <= q, q = p^m: overlap 1 (120 disks: w <= 11)
 *   3. Ruzsa's powers: q*(q-1) disks, w <= q-1, q prime: overlap 1 (110 disks: w <= 10)
 *   4. first fit: the smallest next member that repeats no distance: overlap 1
 *   5. up to 9 members: all sets, in order, until one has overlap 1; gives up after a million steps,
 *      which is enough for all sets of up to 8, and for each of 9 where one exists
 *   6. a bounded seeded search for the least overlap that counting allows, then for one more, ...
 * With several units in a domain only method 6 runs: first fit would place the members in the first
 * domains, and a rebuild would then read from some racks more often than from others.
 * Method 6 may miss a better set. The overlap of its result is counted
 * afterwards, never assumed.
 */
#ifndef CODE_BASESET_H
#define CODE_BASESET_H

#include <stdint.h>

#define BASESET_WIDTH_MAX 255
#define BASESET_GROUP_MAX (1u << 22) /* domains * units: bounds the memory of the search */

struct baseset {
	uint32_t domains, units; /* number of domains and of units in each: the two moduli */
	uint32_t width;
	uint32_t overlap;                   /* most units that two translates share */
	uint32_t domain[BASESET_WIDTH_MAX]; /* domain of each member */
	uint32_t unit[BASESET_WIDTH_MAX];
};

/*
 * Finds a base set of `width` members in different domains. Needs 1 <= width <= domains, width <=
 * BASESET_WIDTH_MAX and domains * units <= BASESET_GROUP_MAX. Returns 0 or -ENOMEM.
 */
int baseset_find(struct baseset *b, uint32_t domains, uint32_t units, uint32_t width);

/* Returns how often the distance (domain, unit) occurs: the units that two translates at this
 * distance share. */
uint32_t baseset_shared(const struct baseset *b, uint32_t domain, uint32_t unit);

#endif
