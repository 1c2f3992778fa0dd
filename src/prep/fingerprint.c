// SPDX-License-Identifier: Apache-2.0
#include "prep/fingerprint.h"

#include <stdlib.h>

#include "base/base.h"
#include "base/hash.h"
#include "prep/cut.h"
#include "prep/fingerprint_images.h"
#include "prep/resize.h"

#define VERSION \
	1       /* of what the operations mean; raised when the same request gets another result */
#define SIDE 19 /* pixels after resizing */

static uint64_t add_image(uint64_t seed, const struct prep_image *image)
{
	return hash64(image->pixels, prep_image_bytes(image), seed);
}

/* Returns 0 on failure. */
static uint64_t add_file(uint64_t seed, struct prep_bytes file, const struct prep_rect *rect)
{
	struct prep_image crop = {0}, small = {0};
	if (prep_jpeg_decode(file, &prep_limits_node, rect, &crop) == 0 &&
	    prep_resize(&crop, SIDE, SIDE, &small) == 0)
		seed = add_image(add_image(seed, &crop), &small);
	else
		seed = 0;
	prep_image_fini(&crop);
	prep_image_fini(&small);
	return seed;
}

/* Adds the image, a part of it, and the same part of a cut file. Returns 0 on failure. */
static uint64_t add_set(uint64_t seed, struct prep_bytes file)
{
	struct prep_jpeg_info info;
	struct prep_cut cut;
	static const struct prep_rect part = {.x = 1, .y = 3, .width = 7, .height = 9};
	if (prep_jpeg_inspect(file, &prep_limits_node, &info) < 0 ||
	    prep_cut(file, &prep_limits_node, &part, &cut) < 0)
		return 0;
	struct prep_rect all = {.width = info.width, .height = info.height};
	struct prep_bytes cut_file = {.data = cut.data, .len = cut.len};
	seed = add_file(seed, file, &all);
	seed = seed == 0 ? 0 : add_file(seed, file, &part);
	seed = seed == 0 ? 0 : add_file(seed, cut_file, &cut.rect);
	free(cut.data);
	return seed;
}

uint64_t prep_fingerprint(void)
{
	uint64_t number = VERSION;
	for (size_t i = 0; i < ARRAY_LEN(fingerprint_images) && number != 0; i++)
		number = add_set(number, fingerprint_images[i]);
	return number;
}
