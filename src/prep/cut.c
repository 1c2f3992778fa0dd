// SPDX-License-Identifier: Apache-2.0
/*
 * A JPEG file is a grid of MCUs, of 8×8 to 16×16 pixels. Coefficients of the blocks do not depend on other blocks (only
 * their coding does), so a file with some columns and rows of MCUs holds the same coefficients, and decodes to the same
 * pixels. The exception is chroma that has fewer samples than pixels: decoders interpolate it between neighbours, and
 * at the edge of the file there is none. One MCU on each side of the rectangle is therefore kept: its pixels may
 * change, those of the rectangle cannot. Example, 16×16 MCUs, an image of 640×480, the rectangle 100,50 200×100: columns 6
 * to 18 hold it, 5 to 19 are kept, which is pixels 80 to 319; rows 3 to 9, and 2 to 10, pixels 32 to 175; in the
 * new file the rectangle is at 20,18.
 *
 * Invariants: quantization tables, sampling factors and colour space are those of the source; the kept area starts at
 * an MCU and ends at one or at the edge of the image.
 */
#include "prep/cut.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <jerror.h>

#include "base/base.h"
#include "prep/jpeg_impl.h"

struct cut {
	struct jpeg_call call;
	struct jpeg_compress_struct target;
	struct jpeg_destination_mgr to;
	const struct prep_rect *rect;
	struct prep_rect area;
	struct prep_cut *out;
};

static void grow(uint32_t *at, uint32_t *len, uint32_t mcu, uint32_t side)
{
	uint32_t first = *at / mcu;
	uint64_t last = (*at + *len - 1) / mcu + 1;
	uint32_t start = first == 0 ? 0 : (first - 1) * mcu;
	*len = (uint32_t)(min_u64(side, (last + 1) * mcu) - start);
	*at = start;
}

void prep_cut_area(const struct prep_jpeg_info *info, const struct prep_rect *rect,
		   struct prep_rect *out)
{
	assert(prep_rect_inside(rect, info->width, info->height));
	*out = *rect;
	grow(&out->x, &out->width, info->mcu_width, info->width);
	grow(&out->y, &out->height, info->mcu_height, info->height);
	assert(out->x % info->mcu_width == 0 && out->y % info->mcu_height == 0);
	assert(prep_rect_inside(out, info->width, info->height));
}

/* --- the new file ------------------------------------------------------------------------------- */

static void to_init(j_compress_ptr target)
{
	(void)target;
}

/* The buffer is as large as the source: a cut that does not fit is of no use. */
static boolean to_full(j_compress_ptr target)
{
	jpeg_call_fail(target->client_data, -EOVERFLOW);
}

/* --- coefficients ------------------------------------------------------------------------------- */

/* Returns whether all bits of all coefficients were read. */
static bool is_complete(const struct jpeg_decompress_struct *s)
{
	if (!s->progressive_mode)
		return true;
	for (int c = 0; c < s->num_components; c++)
		for (int k = 0; k < DCTSIZE2; k++)
			if (s->coef_bits[c][k] != 0)
				return false;
	return true;
}

/* Copies the blocks of the area of one component into a new array. */
static jvirt_barray_ptr copy_blocks(struct cut *cut, int c, jvirt_barray_ptr from)
{
	struct jpeg_decompress_struct *s = &cut->call.source;
	struct jpeg_compress_struct *t = &cut->target;
	const jpeg_component_info *info = &s->comp_info[c];
	bool one = s->num_components == 1;
	JDIMENSION h = one ? 1 : (JDIMENSION)info->h_samp_factor;
	JDIMENSION v = one ? 1 : (JDIMENSION)info->v_samp_factor;
	JDIMENSION mcu_width = cut->call.info.mcu_width, mcu_height = cut->call.info.mcu_height;
	JDIMENSION mcus_x = (cut->area.width + mcu_width - 1) / mcu_width;
	JDIMENSION mcus_y = (cut->area.height + mcu_height - 1) / mcu_height;
	JDIMENSION x = cut->area.x / mcu_width * h, y = cut->area.y / mcu_height * v;
	/* The last MCU may hang over the edge: libjpeg has no blocks there, and makes them up again. */
	JDIMENSION columns = (JDIMENSION)min_u64((uint64_t)mcus_x * h, info->width_in_blocks - x);
	JDIMENSION rows = (JDIMENSION)min_u64((uint64_t)mcus_y * v, info->height_in_blocks - y);
	assert(x < info->width_in_blocks && y < info->height_in_blocks);
	/* libjpeg reads v_samp_factor rows at a time, also of a single component, whose MCU has one. */
	JDIMENSION access = (JDIMENSION)info->v_samp_factor;
	JDIMENSION height = (mcus_y * v + access - 1) / access * access;
	jvirt_barray_ptr to = t->mem->request_virt_barray((j_common_ptr)t, JPOOL_IMAGE, TRUE,
							  mcus_x * h, height, access);
	t->mem->realize_virt_arrays((j_common_ptr)t);
	for (JDIMENSION row = 0; row < rows; row++) {
		JBLOCKARRAY source =
			s->mem->access_virt_barray((j_common_ptr)s, from, y + row, 1, FALSE);
		JBLOCKARRAY target = t->mem->access_virt_barray((j_common_ptr)t, to, row, 1, TRUE);
		memcpy(target[0], source[0] + x, columns * sizeof(JBLOCK));
	}
	return to;
}

static bool same_table(const JHUFF_TBL *a, const JHUFF_TBL *b)
{
	return a == NULL || (b != NULL && memcmp(a->bits, b->bits, sizeof(a->bits)) == 0 &&
			     memcmp(a->huffval, b->huffval, sizeof(a->huffval)) == 0);
}

/* Returns whether the source was coded with the tables of the standard's annex K. Then the cut uses them, too, which
 * saves a pass; other tables were made for the file, and the cut gets its own. */
static bool has_standard_tables(const struct cut *cut)
{
	const struct jpeg_decompress_struct *s = &cut->call.source;
	const struct jpeg_compress_struct *t = &cut->target;
	if (s->progressive_mode)
		return false;
	for (int i = 0; i < NUM_HUFF_TBLS; i++)
		if (!same_table(s->dc_huff_tbl_ptrs[i], t->dc_huff_tbl_ptrs[i]) ||
		    !same_table(s->ac_huff_tbl_ptrs[i], t->ac_huff_tbl_ptrs[i]))
			return false;
	return true;
}

static void open_target(struct cut *cut)
{
	struct jpeg_compress_struct *t = &cut->target;
	t->err = &cut->call.errors;
	t->client_data = &cut->call;
	jpeg_create_compress(t);
	t->mem->max_memory_to_use = cut->call.source.mem->max_memory_to_use;
	t->progress = &cut->call.progress;
	cut->to = (struct jpeg_destination_mgr){.next_output_byte = cut->out->data,
						.free_in_buffer = cut->call.file.len,
						.init_destination = to_init,
						.empty_output_buffer = to_full,
						.term_destination = to_init};
	t->dest = &cut->to;
}

static int cut_body(struct jpeg_call *call)
{
	struct cut *cut = container_of(call, struct cut, call);
	struct jpeg_compress_struct *t = &cut->target;
	int rc = jpeg_call_open(call);
	if (rc < 0)
		return rc;
	if (!prep_rect_inside(cut->rect, call->info.width, call->info.height))
		return -EINVAL;
	prep_cut_area(&call->info, cut->rect, &cut->area);
	if (cut->area.width == call->info.width && cut->area.height == call->info.height)
		return -EOVERFLOW;
	cut->out->data = malloc(call->file.len);
	if (cut->out->data == NULL)
		return -ENOMEM;
	jvirt_barray_ptr *from = jpeg_read_coefficients(&call->source);
	if (!is_complete(&call->source))
		return -ENOTSUP;
	open_target(cut);
	jpeg_copy_critical_parameters(&call->source, t);
	t->image_width = cut->area.width;
	t->image_height = cut->area.height;
	t->optimize_coding = !has_standard_tables(cut);
	jvirt_barray_ptr to[MAX_COMPONENTS];
	for (int c = 0; c < call->source.num_components; c++)
		to[c] = copy_blocks(cut, c, from[c]);
	jpeg_write_coefficients(t, to);
	jpeg_finish_compress(t);
	cut->out->len = call->file.len - cut->to.free_in_buffer;
	cut->out->rect = (struct prep_rect){.x = cut->rect->x - cut->area.x,
					    .y = cut->rect->y - cut->area.y,
					    .width = cut->rect->width,
					    .height = cut->rect->height};
	assert(prep_rect_inside(&cut->out->rect, cut->area.width, cut->area.height));
	return cut->out->len < call->file.len ? 0 : -EOVERFLOW;
}

int prep_cut(struct prep_bytes file, const struct prep_limits *limits, const struct prep_rect *rect,
	     struct prep_cut *out)
{
	*out = (struct prep_cut){0};
	struct cut cut = {.call = {.file = file, .limits = limits}, .rect = rect, .out = out};
	int rc = jpeg_call_run(&cut.call, cut_body);
	jpeg_destroy_compress(&cut.target);
	if (rc < 0) {
		free(out->data);
		*out = (struct prep_cut){0};
	}
	return rc;
}
