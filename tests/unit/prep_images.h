// SPDX-License-Identifier: Apache-2.0
/* JPEG files for tests, made by libjpeg from a seed. */
#ifndef PREP_IMAGES_H
#define PREP_IMAGES_H

#include "prep/jpeg.h"

struct prep_made {
	uint32_t width, height;
	int h, v;    /* sampling factors of luma; chroma has 1 */
	int quality; /* 1 to 100 */
	bool progressive, gray, own_tables;
	int orientation; /* in EXIF; 0: no EXIF */
	uint64_t seed;
};

/* Writes the pixels of an image: gradients, edges and noise. */
void prep_paint(uint64_t seed, struct prep_image *image);
/* Makes a file; the caller frees its data. */
struct prep_bytes prep_make(const struct prep_made *how);

#endif
