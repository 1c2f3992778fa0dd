// SPDX-License-Identifier: Apache-2.0
/* Finds the width and height of an image from the beginning of its file: JPEG, PNG, GIF, BMP, WebP. */
#ifndef DATASET_IMAGE_H
#define DATASET_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns false if the bytes are no image of a known format or do not contain its size. Reads nothing beyond len. */
bool image_size(const uint8_t *bytes, size_t len, uint32_t *width, uint32_t *height);

#endif
