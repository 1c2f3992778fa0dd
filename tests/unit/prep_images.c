// SPDX-License-Identifier: Apache-2.0
#include "prep_images.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/rng.h"

void prep_paint(uint64_t seed, struct prep_image *image)
{
	struct rng rng;
	rng_init(&rng, seed);
	uint32_t a = 1 + (uint32_t)rng_below(&rng, 9), b = 1 + (uint32_t)rng_below(&rng, 9);
	uint8_t *at = image->pixels;
	for (uint32_t y = 0; y < image->height; y++)
		for (uint32_t x = 0; x < image->width; x++) {
			uint32_t edge = (x / 13 + y / 11) % 3 * 70;
			*at++ = (uint8_t)(x * a + edge);
			*at++ = (uint8_t)(y * b + edge + rng_below(&rng, 24));
			*at++ = (uint8_t)(x * y / 64 + edge);
		}
}

static void set_layout(struct jpeg_compress_struct *c, const struct prep_made *how)
{
	c->image_width = how->width;
	c->image_height = how->height;
	c->input_components = PREP_CHANNELS;
	c->in_color_space = JCS_RGB;
	jpeg_set_defaults(c);
	if (how->gray)
		jpeg_set_colorspace(c, JCS_GRAYSCALE);
	jpeg_set_quality(c, how->quality, TRUE);
	c->comp_info[0].h_samp_factor = how->h;
	c->comp_info[0].v_samp_factor = how->v;
	c->optimize_coding = how->own_tables;
	if (how->progressive)
		jpeg_simple_progression(c);
}

static void write_exif(struct jpeg_compress_struct *c, int orientation)
{
	uint8_t exif[] = "Exif\0\0II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\0\0\0\0\0\0\0";
	exif[24] = (uint8_t)orientation;
	jpeg_write_marker(c, JPEG_APP0 + 1, exif, sizeof(exif) - 1);
}

struct prep_bytes prep_make(const struct prep_made *how)
{
	struct prep_image image;
	int rc = prep_image_init(&image, how->width, how->height);
	assert(rc == 0);
	prep_paint(how->seed, &image);
	struct jpeg_compress_struct c = {0};
	struct jpeg_error_mgr errors;
	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	unsigned char *data = NULL;
	unsigned long len = 0;
	jpeg_mem_dest(&c, &data, &len);
	set_layout(&c, how);
	jpeg_start_compress(&c, TRUE);
	if (how->orientation != 0)
		write_exif(&c, how->orientation);
	for (uint32_t y = 0; y < how->height; y++) {
		JSAMPROW row = image.pixels + (size_t)y * how->width * PREP_CHANNELS;
		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	prep_image_fini(&image);
	return (struct prep_bytes){.data = data, .len = len};
}
