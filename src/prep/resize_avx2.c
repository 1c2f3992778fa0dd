// SPDX-License-Identifier: Apache-2.0
/*
 * The passes of a resize with AVX2. madd multiplies 16 pairs of 16-bit numbers and adds the products of neighbours; with
 * weights split in two (resize_impl.h) two of them do the work of 16 32-bit multiplications. No sum overflows: low
 * products are below 2^11 * 2^8 each, and high ones sum to at most 2^11 * 2^8.
 */
#include "prep/resize_impl.h"

#if defined(__x86_64__)
#include <assert.h>
#include <immintrin.h>
#include <string.h>

#include "prep/image.h"

#define AVX2 __attribute__((target("avx2")))
#define ROWS 4 /* rows that share the loads of weights */

/* Returns (high * 2^11 + low + one half) / 2^22 of each sum. */
AVX2 static inline __m256i finish(__m256i low, __m256i high)
{
	__m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, LOW_BITS), low);
	sum = _mm256_add_epi32(sum, _mm256_set1_epi32(1 << (WEIGHT_BITS - 1)));
	return _mm256_srai_epi32(sum, WEIGHT_BITS);
}

/* Writes the pixel whose sums of even taps are in the lower half and of odd pairs in the upper half. */
AVX2 static inline void put_pixel(uint8_t *to, __m256i low, __m256i high)
{
	__m128i l = _mm_add_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
	__m128i h = _mm_add_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
	__m128i v = _mm256_castsi256_si128(
		finish(_mm256_castsi128_si256(l), _mm256_castsi128_si256(h)));
	v = _mm_packus_epi16(_mm_packs_epi32(v, v), v);
	uint32_t pixel = (uint32_t)_mm_cvtsi128_si32(v);
	memcpy(to, &pixel, PREP_CHANNELS);
}

/* Resizes `rows` rows (1 to ROWS). A step takes four taps: 12 bytes of a row, the pixels 0 and 1 as 16-bit pairs in the
 * lower half of a vector and 2 and 3 in the upper half, beside their weights. */
AVX2 static inline void across_rows(const struct resize_pass *p, const uint8_t *const in[ROWS],
				    uint8_t *const out[ROWS], int rows)
{
	const __m256i pairs =
		_mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9,
				 -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
	const __m256i halves = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
	for (uint32_t i = 0; i < p->out; i++) {
		const int16_t *wl = p->low + (size_t)i * p->taps;
		const int16_t *wh = p->high + (size_t)i * p->taps;
		size_t at = (size_t)p->first[i] * PREP_CHANNELS;
		__m256i low[ROWS], high[ROWS];
		for (int r = 0; r < rows; r++)
			low[r] = high[r] = _mm256_setzero_si256();
		for (uint32_t k = 0; k < p->count[i]; k += TAPS_STEP) {
			__m256i l = _mm256_castsi128_si256(
				_mm_loadl_epi64((const __m128i *)(const void *)(wl + k)));
			__m256i h = _mm256_castsi128_si256(
				_mm_loadl_epi64((const __m128i *)(const void *)(wh + k)));
			l = _mm256_permutevar8x32_epi32(l, halves);
			h = _mm256_permutevar8x32_epi32(h, halves);
			for (int r = 0; r < rows; r++) {
				const uint8_t *from = in[r] + at + (size_t)k * PREP_CHANNELS;
				__m256i v = _mm256_broadcastsi128_si256(
					_mm_loadu_si128((const __m128i *)(const void *)from));
				v = _mm256_shuffle_epi8(v, pairs);
				low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(v, l));
				high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(v, h));
			}
		}
		for (int r = 0; r < rows; r++)
			put_pixel(out[r] + (size_t)i * PREP_CHANNELS, low[r], high[r]);
	}
}

AVX2 void resize_across_avx2(const struct resize_pass *p, const struct resize_rows *r)
{
	size_t in_bytes = (size_t)r->in_width * PREP_CHANNELS;
	size_t out_bytes = (size_t)r->out_width * PREP_CHANNELS;
	uint32_t y = 0;
	for (; y + ROWS <= r->rows; y += ROWS) {
		const uint8_t *const in[ROWS] = {r->in + y * in_bytes, r->in + (y + 1) * in_bytes,
						 r->in + (y + 2) * in_bytes,
						 r->in + (y + 3) * in_bytes};
		uint8_t *const out[ROWS] = {r->out + y * out_bytes, r->out + (y + 1) * out_bytes,
					    r->out + (y + 2) * out_bytes,
					    r->out + (y + 3) * out_bytes};
		across_rows(p, in, out, ROWS);
	}
	for (; y < r->rows; y++) {
		const uint8_t *const in[ROWS] = {r->in + y * in_bytes};
		uint8_t *const out[ROWS] = {r->out + y * out_bytes};
		across_rows(p, in, out, 1);
	}
}

/* Makes 16 bytes of an output row from two input rows at a time. */
AVX2 static inline __m128i down_16(const struct resize_pass *p, uint32_t i, const uint8_t *from,
				   size_t row_bytes)
{
	const int16_t *wl = p->low + (size_t)i * p->taps;
	const int16_t *wh = p->high + (size_t)i * p->taps;
	__m256i low[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
	__m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
	for (uint32_t k = 0; k < p->count[i]; k += 2) {
		const uint8_t *row = from + k * row_bytes;
		/* The weight beyond the last row is 0: the same row serves as the next. */
		const uint8_t *next = k + 1 < p->count[i] ? row + row_bytes : row;
		__m256i a =
			_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)row));
		__m256i b =
			_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)next));
		uint32_t pair;
		memcpy(&pair, wl + k, sizeof(pair));
		__m256i l = _mm256_set1_epi32((int)pair);
		memcpy(&pair, wh + k, sizeof(pair));
		__m256i h = _mm256_set1_epi32((int)pair);
		__m256i v0 = _mm256_unpacklo_epi16(a, b), v1 = _mm256_unpackhi_epi16(a, b);
		low[0] = _mm256_add_epi32(low[0], _mm256_madd_epi16(v0, l));
		low[1] = _mm256_add_epi32(low[1], _mm256_madd_epi16(v1, l));
		high[0] = _mm256_add_epi32(high[0], _mm256_madd_epi16(v0, h));
		high[1] = _mm256_add_epi32(high[1], _mm256_madd_epi16(v1, h));
	}
	/* packs joins the halves in the order in which unpack took them apart */
	__m256i v = _mm256_packs_epi32(finish(low[0], high[0]), finish(low[1], high[1]));
	return _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

AVX2 void resize_down_avx2(const struct resize_pass *p, const struct resize_rows *r)
{
	size_t bytes = (size_t)r->in_width * PREP_CHANNELS;
	assert(r->in_width == r->out_width && r->rows == p->out);
	for (uint32_t i = 0; i < p->out; i++) {
		const uint8_t *from = r->in + p->first[i] * bytes;
		uint8_t *to = r->out + i * bytes;
		size_t b = 0;
		for (; b + 16 <= bytes; b += 16)
			_mm_storeu_si128((__m128i *)(void *)(to + b),
					 down_16(p, i, from + b, bytes));
		if (b < bytes) {
			uint8_t rest[16];
			_mm_storeu_si128((__m128i *)(void *)rest, down_16(p, i, from + b, bytes));
			memcpy(to + b, rest, bytes - b);
		}
	}
}
#endif
