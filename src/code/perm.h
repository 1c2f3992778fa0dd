// SPDX-License-Identifier: Apache-2.0
/*
 * Keyed permutations of 0..n-1 and their inverses, computed without a table. They let a layout find
 * the disk of a chunk and the chunk on a disk for any number of stripes.
 *
 * Up to 32 elements: a shuffle, the swaps (i, j <= i) for i = n-1 down to 1 with j drawn from the
 * key. One element is followed through the swaps, forwards or backwards, so no array is needed and
 * every permutation is equally likely. A Feistel network as below would be visibly uneven on so few
 * elements.
 *
 * More elements: x is split into a pair (left, right) in Z_a x Z_b, where a * b is the smallest
 * near-square grid of at least n cells. Each round of a Feistel network adds to one half a hash of
 * the other half and the key; the inverse subtracts it. A result outside 0..n-1 is permuted again
 * until it falls inside ("cycle walking"): for n = 120 (11 x 11 cells) in one of 121 cases.
 *
 * The locations of stored chunks depend on these numbers: neither the grid, nor the rounds, nor the
 * hash may change.
 */
#ifndef CODE_PERM_H
#define CODE_PERM_H

#include <stdint.h>

struct perm {
	uint32_t n;    /* number of elements */
	uint32_t a, b; /* sides of the grid, a * b >= n */
};

/* Prepares permutations of n >= 1 elements. */
void perm_init(struct perm *p, uint32_t n);

/* Return the image of x < n under the permutation of this key, and its preimage. */
uint32_t perm_at(const struct perm *p, uint64_t key, uint32_t x);
uint32_t perm_inverse(const struct perm *p, uint64_t key, uint32_t x);

#endif
