// SPDX-License-Identifier: Apache-2.0
/*
 * The inner loops of the arithmetic in GF(256), in two implementations of one interface:
 * kernel_fast calls ISA-L, kernel_plain is plain C. Both compute the same bytes; tests compare
 * them. Buffers may have any alignment. Outputs must not overlap inputs.
 */
#ifndef CODE_KERNEL_H
#define CODE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define KERNEL_RUN_MAX (1 << 30) /* most bytes of one call, because ISA-L counts bytes in an int */
/* bytes of the multiplication table of one coefficient, fixed by ISA-L */
#define TABLE_BYTES 32
#define KERNEL_LINE_BYTES 256 /* bytes of a line of the fingerprint, see verify.c */

/* Coefficients, and the tables that ISA-L computes from them. */
struct matrix {
	int rows, cols;
	uint8_t *coef;   /* coefficients, row by row; owned */
	uint8_t *tables; /* TABLE_BYTES for each coefficient, behind coef in the same allocation */
};

/* Allocates a matrix of zeros; rows may be 0. Returns 0 or -ENOMEM. */
int matrix_init(struct matrix *m, int rows, int cols);

/* Computes the tables from the coefficients. Call it before the matrix is passed to a kernel. */
void matrix_ready(struct matrix *m);

void matrix_fini(struct matrix *m);

struct kernel {
	const char *name;

	/*
	 * Computes out[i] = sum over j of coef[i][j] * in[j], for 1 <= len <= KERNEL_RUN_MAX bytes
	 * each.
	 */
	void (*dot)(const struct matrix *m, int len, const uint8_t *const *in, uint8_t *const *out);

	/* Adds one input: out[i] += coef[i][col] * in, for 1 <= len <= KERNEL_RUN_MAX bytes. */
	void (*mad)(const struct matrix *m, int col, int len, const uint8_t *in,
		    uint8_t *const *out);

	/* Sets sum = 2 * sum + line for each of `lines` lines of KERNEL_LINE_BYTES. */
	void (*fold)(uint8_t sum[KERNEL_LINE_BYTES], const uint8_t *in, size_t lines);
};

extern const struct kernel kernel_fast;
extern const struct kernel kernel_plain;

/* kernel_fast without AVX2, so that tests on machines with AVX2 run this code, too. */
extern const struct kernel kernel_narrow;

#endif
