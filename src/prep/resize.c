// SPDX-License-Identifier: Apache-2.0
#include "prep/resize.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "prep/resize_impl.h"

struct kernels {
	void (*across)(const struct resize_pass *p, const struct resize_rows *r);
	void (*down)(const struct resize_pass *p, const struct resize_rows *r);
};

static const struct kernels plain = {resize_across, resize_down};

/* --- weights ------------------------------------------------------------------------------------ */

static void pass_fini(struct resize_pass *p)
{
	free(p->first);
	free(p->count);
	free(p->weight);
	free(p->low);
	free(p->high);
}

/* Fills the weights of one output pixel. The triangle has the width of two input pixels, or of two output pixels where
 * the image becomes smaller. The order of the operations is Pillow's, because their rounding shows. */
static void fill(struct resize_pass *p, uint32_t i, double *exact)
{
	double scale = (double)p->in / p->out;
	double wide = scale < 1.0 ? 1.0 : scale;
	double center = 0.0 + (i + 0.5) * scale;
	double inverse = 1.0 / wide;
	int first = (int)(center - wide + 0.5);
	first = first < 0 ? 0 : first;
	int end = (int)(center + wide + 0.5);
	end = end > (int)p->in ? (int)p->in : end;
	assert(end > first && (uint32_t)(end - first) <= p->taps);
	double sum = 0.0;
	for (int k = 0; k < end - first; k++) {
		double x = fabs((k + first - center + 0.5) * inverse);
		exact[k] = x < 1.0 ? 1.0 - x : 0.0;
		sum += exact[k];
	}
	p->first[i] = (uint32_t)first;
	p->count[i] = (uint32_t)(end - first);
	for (int k = 0; k < end - first; k++) {
		if (sum != 0.0)
			exact[k] /= sum;
		int32_t w = (int32_t)(0.5 + exact[k] * (1 << WEIGHT_BITS));
		size_t at = (size_t)i * p->taps + (size_t)k;
		p->weight[at] = w;
		p->low[at] = (int16_t)(w & ((1 << LOW_BITS) - 1));
		p->high[at] = (int16_t)(w >> LOW_BITS);
	}
}

static int pass_init(struct resize_pass *p, uint32_t in, uint32_t out)
{
	*p = (struct resize_pass){.in = in, .out = out};
	double scale = (double)in / out;
	double taps = ceil(scale < 1.0 ? 1.0 : scale) * 2 + 1;
	p->taps = ((uint32_t)taps + TAPS_STEP - 1) / TAPS_STEP * TAPS_STEP;
	size_t numbers = (size_t)p->taps * out;
	p->first = calloc(out, sizeof(*p->first));
	p->count = calloc(out, sizeof(*p->count));
	p->weight = calloc(numbers, sizeof(*p->weight));
	p->low = calloc(numbers, sizeof(*p->low));
	p->high = calloc(numbers, sizeof(*p->high));
	AUTO_FREE double *exact = calloc(p->taps, sizeof(*exact));
	if (p->first == NULL || p->count == NULL || p->weight == NULL || p->low == NULL ||
	    p->high == NULL || exact == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < out; i++)
		fill(p, i, exact);
	return 0;
}

/* --- plain kernels ------------------------------------------------------------------------------ */

static uint8_t rounded(int32_t sum)
{
	int32_t v = sum >> WEIGHT_BITS;
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

void resize_across(const struct resize_pass *p, const struct resize_rows *r)
{
	for (uint32_t y = 0; y < r->rows; y++) {
		const uint8_t *row = r->in + (size_t)y * r->in_width * PREP_CHANNELS;
		uint8_t *to = r->out + (size_t)y * r->out_width * PREP_CHANNELS;
		for (uint32_t i = 0; i < p->out; i++) {
			const int32_t *w = p->weight + (size_t)i * p->taps;
			const uint8_t *from = row + (size_t)p->first[i] * PREP_CHANNELS;
			int32_t sum[PREP_CHANNELS] = {1 << (WEIGHT_BITS - 1),
						      1 << (WEIGHT_BITS - 1),
						      1 << (WEIGHT_BITS - 1)};
			for (uint32_t k = 0; k < p->count[i]; k++)
				for (int c = 0; c < PREP_CHANNELS; c++)
					sum[c] += w[k] * *from++;
			for (int c = 0; c < PREP_CHANNELS; c++)
				*to++ = rounded(sum[c]);
		}
	}
}

void resize_down(const struct resize_pass *p, const struct resize_rows *r)
{
	size_t bytes = (size_t)r->in_width * PREP_CHANNELS;
	assert(r->in_width == r->out_width && r->rows == p->out);
	for (uint32_t i = 0; i < p->out; i++) {
		const int32_t *w = p->weight + (size_t)i * p->taps;
		const uint8_t *from = r->in + p->first[i] * bytes;
		for (size_t b = 0; b < bytes; b++) {
			int32_t sum = 1 << (WEIGHT_BITS - 1);
			for (uint32_t k = 0; k < p->count[i]; k++)
				sum += w[k] * from[k * bytes + b];
			r->out[i * bytes + b] = rounded(sum);
		}
	}
}

/* --- passes ------------------------------------------------------------------------------------- */

static int run_pass(const struct kernels *k, const struct prep_image *in, uint32_t width,
		    uint32_t height, struct prep_image *out)
{
	bool across = width != in->width;
	assert(!across || height == in->height);
	struct resize_pass p = {0};
	int rc = prep_image_init(out, width, height);
	if (rc == 0)
		rc = across ? pass_init(&p, in->width, width) : pass_init(&p, in->height, height);
	if (rc == 0) {
		struct resize_rows rows = {.in = in->pixels,
					   .out = out->pixels,
					   .in_width = in->width,
					   .out_width = width,
					   .rows = height};
		(across ? k->across : k->down)(&p, &rows);
	}
	pass_fini(&p);
	return rc;
}

static int copy(const struct prep_image *in, struct prep_image *out)
{
	int rc = prep_image_init(out, in->width, in->height);
	if (rc == 0)
		memcpy(out->pixels, in->pixels, prep_image_bytes(in));
	return rc;
}

static int resize_with(const struct kernels *k, const struct prep_image *in, uint32_t width,
		       uint32_t height, struct prep_image *out)
{
	assert(in->pixels != NULL);
	*out = (struct prep_image){0};
	if (width == 0 || height == 0 || width > PREP_SIDE_MAX || height > PREP_SIDE_MAX)
		return -EINVAL;
	if (width == in->width && height == in->height)
		return copy(in, out);
	struct prep_image middle = {0};
	const struct prep_image *from = in;
	int rc = 0;
	if (width != in->width && height != in->height) {
		rc = run_pass(k, in, width, in->height, &middle);
		from = &middle;
	}
	if (rc == 0)
		rc = run_pass(k, from, width, height, out);
	prep_image_fini(&middle);
	if (rc < 0)
		prep_image_fini(out);
	return rc;
}

int prep_resize_ref(const struct prep_image *in, uint32_t width, uint32_t height,
		    struct prep_image *out)
{
	return resize_with(&plain, in, width, height, out);
}

int prep_resize(const struct prep_image *in, uint32_t width, uint32_t height,
		struct prep_image *out)
{
#if defined(__x86_64__)
	static const struct kernels vector = {resize_across_avx2, resize_down_avx2};
	if (__builtin_cpu_supports("avx2"))
		return resize_with(&vector, in, width, height, out);
#endif
	return resize_with(&plain, in, width, height, out);
}
