// SPDX-License-Identifier: Apache-2.0
/*
 * The pixels of a rectangle. libjpeg must decode the entropy code of all rows above the rectangle, but computes pixels
 * only of the MCUs that it is asked for. Chroma upsampling reads one neighbour on each side, and libjpeg takes the edge
 * of what it was asked for as the edge of the image: so one MCU more is decoded on each side, and thrown away.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "prep/jpeg_impl.h"

struct decode {
	struct jpeg_call call;
	const struct prep_rect *rect;
	struct prep_image *out;
	uint8_t *row; /* a decoded row, with margins */
};

/* Returns the start of the MCU before the one that holds `at`. */
static uint32_t margin_before(uint32_t at, uint32_t mcu)
{
	return at < mcu ? 0 : (at / mcu - 1) * mcu;
}

static int decode_body(struct jpeg_call *call)
{
	struct decode *d = container_of(call, struct decode, call);
	struct jpeg_decompress_struct *s = &call->source;
	const struct prep_rect *rect = d->rect;
	int rc = jpeg_call_open(call);
	if (rc < 0)
		return rc;
	if (!prep_rect_inside(rect, call->info.width, call->info.height))
		return -EINVAL;
	rc = prep_image_init(d->out, rect->width, rect->height);
	if (rc < 0)
		return rc;
	s->out_color_space = JCS_RGB;
	s->dct_method = JDCT_ISLOW;
	s->do_fancy_upsampling = TRUE;
	(void)jpeg_start_decompress(s); // cannot suspend: all bytes are in memory
	assert(s->output_width == call->info.width && s->output_components == PREP_CHANNELS);
	uint32_t mcu = call->info.mcu_width;
	JDIMENSION first = margin_before(rect->x, mcu);
	uint64_t end =
		min_u64(call->info.width, ((uint64_t)(rect->x + rect->width - 1) / mcu + 2) * mcu);
	JDIMENSION width = (JDIMENSION)end - first;
	if (width < call->info.width)
		jpeg_crop_scanline(s, &first, &width);
	assert(first <= rect->x && first + width >= rect->x + rect->width);
	d->row = malloc((size_t)width * PREP_CHANNELS);
	if (d->row == NULL)
		return -ENOMEM;
	JDIMENSION above = margin_before(rect->y, call->info.mcu_height);
	if (above > 0 && jpeg_skip_scanlines(s, above) != above)
		return -EBADMSG;
	uint8_t *to = d->out->pixels;
	size_t bytes = (size_t)rect->width * PREP_CHANNELS;
	while (s->output_scanline < rect->y + rect->height) {
		bool wanted = s->output_scanline >= rect->y;
		if (jpeg_read_scanlines(s, &d->row, 1) != 1)
			return -EBADMSG;
		if (!wanted)
			continue;
		memcpy(to, d->row + (size_t)(rect->x - first) * PREP_CHANNELS, bytes);
		to += bytes;
	}
	assert(to == d->out->pixels + prep_image_bytes(d->out));
	return 0;
}

int prep_jpeg_decode(struct prep_bytes file, const struct prep_limits *limits,
		     const struct prep_rect *rect, struct prep_image *out)
{
	*out = (struct prep_image){0};
	struct decode d = {.call = {.file = file, .limits = limits}, .rect = rect, .out = out};
	int rc = jpeg_call_run(&d.call, decode_body);
	free(d.row);
	if (rc < 0)
		prep_image_fini(out);
	return rc;
}
