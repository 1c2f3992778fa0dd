// SPDX-License-Identifier: Apache-2.0
/* Pixels as the numbers that a model takes. */
#ifndef PREP_TENSOR_H
#define PREP_TENSOR_H

#include "prep/image.h"

struct prep_norm {
	float mean[PREP_CHANNELS], std[PREP_CHANNELS]; /* std above 0 */
};

/* Mean and deviation of ImageNet, which torchvision's models are trained with. */
extern const struct prep_norm prep_norm_imagenet;

/* Writes an image as three planes of floats: (v / 255 - mean) / std in single precision, as torchvision's ToTensor and
 * Normalize. `out` has room for 3 * width * height numbers. norm may be NULL: v / 255. */
void prep_tensor(const struct prep_image *image, const struct prep_norm *norm, float *out);

#endif
