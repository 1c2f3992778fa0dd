// SPDX-License-Identifier: Apache-2.0
#include "prep/image.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int prep_image_init(struct prep_image *image, uint32_t width, uint32_t height)
{
	*image = (struct prep_image){.width = width, .height = height};
	if (width == 0 || height == 0 || width > PREP_SIDE_MAX || height > PREP_SIDE_MAX)
		return -EINVAL;
	size_t bytes = prep_image_bytes(image);
	image->pixels = malloc(bytes + PREP_IMAGE_PAD);
	if (image->pixels == NULL)
		return -ENOMEM;
	memset(image->pixels + bytes, 0, PREP_IMAGE_PAD);
	return 0;
}

void prep_image_fini(struct prep_image *image)
{
	free(image->pixels);
	*image = (struct prep_image){0};
}

bool prep_rect_inside(const struct prep_rect *rect, uint32_t width, uint32_t height)
{
	return rect->width > 0 && rect->height > 0 && rect->x < width && rect->y < height &&
	       rect->width <= width - rect->x && rect->height <= height - rect->y;
}

void prep_image_flip(struct prep_image *image)
{
	assert(image->pixels != NULL);
	for (uint32_t y = 0; y < image->height; y++) {
		uint8_t *left = image->pixels + (size_t)y * image->width * PREP_CHANNELS;
		uint8_t *right = left + (size_t)(image->width - 1) * PREP_CHANNELS;
		for (; left < right; left += PREP_CHANNELS, right -= PREP_CHANNELS) {
			uint8_t pixel[PREP_CHANNELS];
			memcpy(pixel, left, PREP_CHANNELS);
			memcpy(left, right, PREP_CHANNELS);
			memcpy(right, pixel, PREP_CHANNELS);
		}
	}
}
