// SPDX-License-Identifier: Apache-2.0
#include "prep/price.h"

#include <assert.h>

#include "prep/cut.h"

#define NS 1e-9
#define MCU 16 /* sides of an MCU with the usual sampling of colours, 4:2:0 */

const struct prep_model prep_model_default = {
	.file_ns = 40000,
	.read_ns = 5,
	.pixel_ns = 2.5,
	.resize_ns = 1.2,
	.block_ns = 2.8,
	.write_ns = 6.4,
	.tensor_ns = 1,
	.crc_ns = 0.1,
	.head_bytes = 623,
};

/* Returns the share of the coefficients that a cut keeps. */
static double kept(const struct prep_facts *f)
{
	struct prep_jpeg_info info = {
		.width = f->width, .height = f->height, .mcu_width = MCU, .mcu_height = MCU};
	struct prep_rect area;
	prep_cut_area(&info, &f->crop, &area);
	return (double)area.width * area.height / ((double)f->width * f->height);
}

static double measured(double value, double modelled)
{
	return value >= 0 ? value : modelled;
}

void prep_price(const struct prep_model *m, const struct prep_facts *f,
		struct prep_cost form[PREP_FORMS])
{
	assert(f->width > 0 && f->height > 0);
	double coefficients = f->raw_bytes > m->head_bytes ? f->raw_bytes - m->head_bytes : 0;
	double cut_bytes = measured(f->cut_bytes, f->raw_bytes - coefficients * (1 - kept(f)));
	double pixels = (double)f->crop.width * f->crop.height;
	double down_to = (double)(f->crop.y + f->crop.height) / f->height;
	double out = (double)f->out_width * f->out_height * PREP_CHANNELS;

	double make_pixels = m->file_ns + m->pixel_ns * pixels;
	double decode_s =
		measured(f->decode_s, NS * (make_pixels + m->read_ns * coefficients * down_to));
	/* A cut file ends a few rows below the crop. */
	double decode_cut_s = NS * (make_pixels + m->read_ns * cut_bytes);
	if (decode_cut_s > decode_s)
		decode_cut_s = decode_s;
	double crop_s = measured(f->crop_s, NS * m->resize_ns * pixels);
	double cut_s = measured(f->cut_s, NS * (m->file_ns + m->read_ns * coefficients +
						m->block_ns * f->width * f->height +
						m->write_ns * cut_bytes));
	double tensor_s = NS * m->tensor_ns * out;

	form[PREP_FORM_RAW] = (struct prep_cost){f->raw_bytes, 0, decode_s + crop_s + tensor_s};
	form[PREP_FORM_CUT] = (struct prep_cost){cut_bytes, cut_s + NS * m->crc_ns * cut_bytes,
						 decode_cut_s + crop_s + tensor_s};
	form[PREP_FORM_PIXELS] =
		(struct prep_cost){out, decode_s + crop_s + NS * m->crc_ns * out, tensor_s};
	form[PREP_FORM_TENSOR] = (struct prep_cost){
		out * sizeof(float),
		decode_s + crop_s + tensor_s + NS * m->crc_ns * out * sizeof(float), 0};
}
