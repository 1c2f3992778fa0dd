// SPDX-License-Identifier: Apache-2.0
/*
 * The field GF(256) and the matrices of our codes. The theory is at the head of gf.c.
 *
 * A stripe code of k data and n - k parity chunks is kept as its parity rows: a matrix of n - k
 * rows and k columns, row by row, so that parity i = sum over j of row[i][j] * data j, byte by
 * byte. "The row of chunk c" is the unit vector e_c for a data chunk and parity row c - k
 * otherwise.
 */
#ifndef CODE_GF_H
#define CODE_GF_H

#include <stdbool.h>
#include <stdint.h>

#include "code/encoding.h"

/* Returns a * b without tables: slow, and independent of ISA-L and of gf_mul(). */
uint8_t gf_mul_plain(uint8_t a, uint8_t b);

/* Returns 2 to the power n, n >= 0; 2 generates the 255 nonzero elements. */
uint8_t gf_pow2(int n);

/* Writes the p rows of k coefficients of rs:k+p. The rows must never change: stored parities depend
 * on them. */
void gf_rs_rows(int k, int p, uint8_t *rows);

/* Writes the groups + globals rows of an lrc. These rows must never change either. */
void gf_lrc_rows(const struct lrc_shape *s, uint8_t *rows);

/* Returns whether this lrc's matrix decodes every pattern that any matrix of its shape could. */
bool gf_lrc_is_maximally_recoverable(const struct lrc_shape *s);

struct stripe_code {
	int k;               /* number of data chunks */
	int n;               /* number of all chunks */
	const uint8_t *rows; /* the n - k parity rows, k coefficients each */
};

/*
 * Finds coef (n_targets rows of n_reads) such that target t = sum over i of coef[t][i] * reads[i].
 * Reads must be distinct chunk numbers. Returns 0, -ENODATA when the reads do not determine every
 * target, or -ENOMEM.
 */
int gf_solve(const struct stripe_code *c, const int *reads, int n_reads, const int *targets,
	     int n_targets, uint8_t *coef);

/*
 * Goes through `order` and appends to `picked` each chunk whose row is linearly independent of
 * the rows picked before, until k are picked. Returns how many were picked (the rank), or -ENOMEM.
 * When the order is by cost, the picked chunks are the cheapest set that determines everything that
 * the chunks of `order` determine: greedy choice is optimal in a matroid.
 */
int gf_pick_independent(const struct stripe_code *c, const int *order, int n_order, int *picked);

/*
 * Solves `rows` equations of `unknowns` variables with `width` - `unknowns` right-hand sides by
 * Gauss-Jordan elimination, in place. pivot[v] is the equation that gives variable v afterwards, or
 * -1. Returns the rank.
 */
int gf_eliminate(uint8_t *a, int rows, int unknowns, int width, int *pivot);

#endif
