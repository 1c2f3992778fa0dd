// SPDX-License-Identifier: Apache-2.0
/*
 * Bilinear resizing with antialiasing, bit for bit as Pillow's Image.resize(size, BILINEAR): weights are fixed-point
 * numbers of 22 bits, rows are resized before columns, and the result of the first pass is rounded to 8 bits.
 */
#ifndef PREP_RESIZE_H
#define PREP_RESIZE_H

#include "prep/image.h"

/* Resizes an image into a new one. -EINVAL for a side of 0 or above PREP_SIDE_MAX, -ENOMEM. */
int prep_resize(const struct prep_image *in, uint32_t width, uint32_t height,
		struct prep_image *out);

/* The same in plain C: the reference for tests. */
int prep_resize_ref(const struct prep_image *in, uint32_t width, uint32_t height,
		    struct prep_image *out);

#endif
