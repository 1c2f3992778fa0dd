// SPDX-License-Identifier: Apache-2.0
/*
 * The inner loops, in two implementations of one interface: kernel_fast calls ISA-L, kernel_plain
 * is straightforward C. Both give the same bytes; tests compare them. Any alignment will do,
 * outputs must not overlap inputs.
 */
#ifndef CODE_KERNEL_H
#define CODE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define KERNEL_RUN_MAX (1 << 30) /* bytes of one call: ISA-L counts in int */
#define TABLE_BYTES 32           /* of one coefficient: fixed by ISA-L */
#define KERNEL_PRINT_BYTES 256   /* a line of the fingerprint, see verify.c */

/* Coefficients, and the form of them that ISA-L multiplies with. */
struct matrix {
	int rows, cols;
	uint8_t *coef;   /* row by row; owned */
	uint8_t *tables; /* 32 bytes for each coefficient, after coef in the same memory */
};

/* All zero until filled. 0 or -ENOMEM. */
int matrix_init(struct matrix *m, int rows, int cols);

/* To call when the coefficients are in place, before any kernel sees the matrix. */
void matrix_ready(struct matrix *m);

void matrix_fini(struct matrix *m);

struct kernel {
	const char *name;

	/* out[i] = sum over j of coef[i][j] * in[j], for 1 <= len <= KERNEL_RUN_MAX bytes each. */
	void (*dot)(const struct matrix *m, int len, const uint8_t *const *in, uint8_t *const *out);

	/* out[i] += coef[i][col] * in, the same way. */
	void (*mad)(const struct matrix *m, int col, int len, const uint8_t *in,
		    uint8_t *const *out);

	/* For each of `lines` lines of KERNEL_PRINT_BYTES: print = 2 * print + line. */
	void (*fold)(uint8_t print[KERNEL_PRINT_BYTES], const uint8_t *in, size_t lines);
};

extern const struct kernel kernel_fast;
extern const struct kernel kernel_plain;

/* kernel_fast as it is on machines without AVX2, so that tests reach it on all. */
extern const struct kernel kernel_narrow;

#endif
