// SPDX-License-Identifier: Apache-2.0
#include "code/kernel.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/erasure_code.h>

#include "base/base.h"
#include "code/gf.h"

int matrix_init(struct matrix *m, int rows, int cols)
{
	assert(rows >= 0 && cols >= 1);
	size_t n = (size_t)rows * (size_t)cols;
	m->rows = rows;
	m->cols = cols;
	m->coef = calloc(n + 1,
			 /* + 1 because r1 has no rows, and calloc(0) may return NULL */
			 1 + TABLE_BYTES);
	if (m->coef == NULL)
		return -ENOMEM;
	m->tables = m->coef + n;
	return 0;
}

void matrix_ready(struct matrix *m)
{
	assert(m->tables != NULL);
	ec_init_tables(m->cols, m->rows, m->coef, m->tables);
}

void matrix_fini(struct matrix *m)
{
	free(m->coef);
	*m = (struct matrix){0};
}

/* ISA-L's prototypes lack const; it writes only to the outputs. */
static void fast_dot(const struct matrix *m, int len, const uint8_t *const *in, uint8_t *const *out)
{
	assert(len >= 1 && len <= KERNEL_RUN_MAX);
	ec_encode_data(len, m->cols, m->rows, m->tables, (uint8_t **)(uintptr_t)in,
		       (uint8_t **)(uintptr_t)out);
}

static void fast_mad(const struct matrix *m, int col, int len, const uint8_t *in,
		     uint8_t *const *out)
{
	assert(len >= 1 && len <= KERNEL_RUN_MAX && col >= 0 && col < m->cols);
	ec_encode_data_update(len, m->cols, m->rows, col, m->tables, (uint8_t *)(uintptr_t)in,
			      (uint8_t **)(uintptr_t)out);
}

/*
 * Doubling shifts each byte left and, where it overflows, adds the polynomial's low bits. A line is
 * several vectors, so that the processor overlaps their dependency chains. The compiler generates
 * good code only for vectors as wide as the machine's registers, hence one function for each width.
 * (On a machine with AVX-512 vectors of 64 bytes were slower than those of 32.)
 */
#define DEFINE_FOLD(name, width, attributes)                                                 \
	attributes static void name(uint8_t *sum, const uint8_t *in, size_t lines)           \
	{                                                                                    \
		typedef uint8_t vec __attribute__((vector_size(width)));                     \
		typedef int8_t signed_vec __attribute__((vector_size(width)));               \
		vec acc[KERNEL_LINE_BYTES / (width)], line;                                  \
		memcpy(acc, sum, sizeof(acc));                                               \
		for (size_t i = 0; i < lines; i++) {                                         \
			_Pragma("GCC unroll 16") for (size_t v = 0; v < ARRAY_LEN(acc); v++) \
			{                                                                    \
				memcpy(&line, in + v * (width), sizeof(line));               \
				vec overflow = (vec)((signed_vec)acc[v] < 0);                \
				acc[v] = (acc[v] + acc[v]) ^ (overflow & 0x1d) ^ line;       \
			}                                                                    \
			in += KERNEL_LINE_BYTES;                                             \
		}                                                                            \
		memcpy(sum, acc, sizeof(acc));                                               \
	}

DEFINE_FOLD(fold_16, 16, )

#ifdef __x86_64__
DEFINE_FOLD(fold_32, 32, __attribute__((target("avx2"))))

static void fast_fold(uint8_t sum[KERNEL_LINE_BYTES], const uint8_t *in, size_t lines)
{
	if (__builtin_cpu_supports("avx2"))
		fold_32(sum, in, lines);
	else
		fold_16(sum, in, lines);
}
#else
static void fast_fold(uint8_t sum[KERNEL_LINE_BYTES], const uint8_t *in, size_t lines)
{
	fold_16(sum, in, lines);
}
#endif

static void plain_dot(const struct matrix *m, int len, const uint8_t *const *in,
		      uint8_t *const *out)
{
	for (int i = 0; i < m->rows; i++) {
		for (int b = 0; b < len; b++) {
			uint8_t sum = 0;
			for (int j = 0; j < m->cols; j++)
				sum ^= gf_mul_plain(m->coef[i * m->cols + j], in[j][b]);
			out[i][b] = sum;
		}
	}
}

static void plain_mad(const struct matrix *m, int col, int len, const uint8_t *in,
		      uint8_t *const *out)
{
	for (int i = 0; i < m->rows; i++)
		for (int b = 0; b < len; b++)
			out[i][b] ^= gf_mul_plain(m->coef[i * m->cols + col], in[b]);
}

static void plain_fold(uint8_t sum[KERNEL_LINE_BYTES], const uint8_t *in, size_t lines)
{
	for (size_t i = 0; i < lines * KERNEL_LINE_BYTES; i++) {
		uint8_t *byte = &sum[i % KERNEL_LINE_BYTES];
		*byte = gf_mul_plain(*byte, 2) ^ in[i];
	}
}

const struct kernel kernel_fast = {"isa-l", fast_dot, fast_mad, fast_fold};
const struct kernel kernel_narrow = {"isa-l, narrow", fast_dot, fast_mad, fold_16};
const struct kernel kernel_plain = {"plain", plain_dot, plain_mad, plain_fold};
