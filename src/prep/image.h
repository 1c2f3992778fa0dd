// SPDX-License-Identifier: Apache-2.0
/* Images of 8-bit RGB pixels, row by row without gaps, and rectangles in them. */
#ifndef PREP_IMAGE_H
#define PREP_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PREP_CHANNELS 3
#define PREP_SIDE_MAX 65535 /* largest side of an image in pixels, as in JPEG */
/* Bytes behind the pixels that kernels may read and never use. */
#define PREP_IMAGE_PAD 32

struct prep_image {
	uint8_t *pixels; /* R, G, B of the first pixel, and so on; NULL in an empty image */
	uint32_t width, height;
};

struct prep_rect {
	uint32_t x, y, width, height; /* pixels */
};

/* Allocates the pixels of an image, with undefined contents. -EINVAL for a side of 0 or above PREP_SIDE_MAX, -ENOMEM. */
int prep_image_init(struct prep_image *image, uint32_t width, uint32_t height);
void prep_image_fini(struct prep_image *image);

/* Returns the bytes of the pixels. */
static inline size_t prep_image_bytes(const struct prep_image *image)
{
	return (size_t)image->width * image->height * PREP_CHANNELS;
}

/* Returns whether a rectangle has an area and lies in an image of this size. */
bool prep_rect_inside(const struct prep_rect *rect, uint32_t width, uint32_t height);

/* Mirrors an image left to right. */
void prep_image_flip(struct prep_image *image);

#endif
