// SPDX-License-Identifier: Apache-2.0
#include "prep/tensor.h"

#include <assert.h>

const struct prep_norm prep_norm_imagenet = {.mean = {0.485F, 0.456F, 0.406F},
					     .std = {0.229F, 0.224F, 0.225F}};

void prep_tensor(const struct prep_image *image, const struct prep_norm *norm, float *out)
{
	assert(image->pixels != NULL);
	float value[PREP_CHANNELS][256];
	for (int c = 0; c < PREP_CHANNELS; c++) {
		assert(norm == NULL || norm->std[c] > 0);
		for (int v = 0; v < 256; v++) {
			float unit = (float)v / 255.0F;
			value[c][v] = norm == NULL ? unit : (unit - norm->mean[c]) / norm->std[c];
		}
	}
	size_t plane = (size_t)image->width * image->height;
	const uint8_t *from = image->pixels;
	for (size_t i = 0; i < plane; i++, from += PREP_CHANNELS) {
		out[i] = value[0][from[0]];
		out[plane + i] = value[1][from[1]];
		out[2 * plane + i] = value[2][from[2]];
	}
}
