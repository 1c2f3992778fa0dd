// SPDX-License-Identifier: Apache-2.0
/*
 * One pass of a resize: the weights and the kernels that apply them.
 *
 * An output pixel is the weighted mean of `taps` input pixels from first[i] on. The weights of one sum to about 2^22,
 * a pixel is at most 255, so sums fit 32 bits. For SIMD a weight is also split as high * 2^11 + low, two 16-bit
 * numbers: vectors multiply 16-bit numbers and add neighbours in one instruction.
 */
#ifndef PREP_RESIZE_IMPL_H
#define PREP_RESIZE_IMPL_H

#include <stdint.h>

#define WEIGHT_BITS 22
#define LOW_BITS 11
#define TAPS_STEP 4 /* kernels take so many taps at a time */

struct resize_pass {
	uint32_t in, out; /* pixels along the axis */
	uint32_t taps;    /* room per output pixel, a multiple of TAPS_STEP; unused ones weigh 0 */
	uint32_t *first;  /* first input pixel of each output pixel */
	uint32_t *count;  /* input pixels of each output pixel */
	int32_t *weight;  /* taps numbers per output pixel, as the split ones */
	int16_t *low, *high;
};

struct resize_rows {
	const uint8_t *in;
	uint8_t *out;
	uint32_t in_width, out_width; /* pixels of a row */
	uint32_t rows;                /* of the output */
};

/* Resizes each row. */
void resize_across(const struct resize_pass *p, const struct resize_rows *r);
/* Makes each output row from input rows; in_width and out_width are the same. */
void resize_down(const struct resize_pass *p, const struct resize_rows *r);

#if defined(__x86_64__)
/* The same with AVX2. Read up to PREP_IMAGE_PAD bytes beyond the input, and write nothing beyond the output. */
void resize_across_avx2(const struct resize_pass *p, const struct resize_rows *r);
void resize_down_avx2(const struct resize_pass *p, const struct resize_rows *r);
#endif

#endif
