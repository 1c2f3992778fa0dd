// SPDX-License-Identifier: Apache-2.0
/*
 * Keyed permutations of 0..n-1 that run both ways without a table: what lets a layout answer "where
 * is chunk i" and "whose chunk is this" for any number of stripes.
 *
 * Up to 32 elements: a shuffle, the swaps (i, j <= i) for i = n-1 down to 1 with j drawn from the
 * key. One element is followed through the swaps, forwards or backwards, so no array is needed and
 * every permutation is equally likely. A grid as below would be visibly unfair on so few elements.
 *
 * Above: x is split into a pair (left, right) in Z_a x Z_b, where a * b is the smallest near-square
 * grid of at least n cells. Each round of a Feistel network adds to one half a hash of the other
 * half and the key, which can be undone by subtracting it. A result outside 0..n-1 is put through
 * again until it falls inside ("cycle walking"): for n = 120 (11 x 11 cells) once in 121 times.
 *
 * The numbers that come out are part of what is stored: neither the grid, nor the rounds, nor the
 * hash may change.
 */
#ifndef CODE_PERM_H
#define CODE_PERM_H

#include <stdint.h>

struct perm {
	uint32_t n;
	uint32_t a, b;
};

/* n >= 1. */
void perm_init(struct perm *p, uint32_t n);

/* Where the permutation named by key sends x, and back. Both need x < n. */
uint32_t perm_at(const struct perm *p, uint64_t key, uint32_t x);
uint32_t perm_inverse(const struct perm *p, uint64_t key, uint32_t x);

#endif
