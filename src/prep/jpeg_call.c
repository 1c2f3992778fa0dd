// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <string.h>

#include <jerror.h>

#include "base/base.h"
#include "prep/jpeg_impl.h"

#define TIFF_ORIENTATION 0x0112
#define TIFF_SHORT 3
#define TIFF_ENTRY 12 /* bytes of a directory's entry */
#define EXIF_MAX 65533

const struct prep_limits prep_limits_node = {
	.pixels_max = 64000000, .memory_max = 512 * MIB, .scans_max = 100};
const struct prep_limits prep_limits_client = {
	.pixels_max = 512000000, .memory_max = 4 * GIB, .scans_max = 500};

/* --- errors ------------------------------------------------------------------------------------- */

_Noreturn void jpeg_call_fail(struct jpeg_call *call, int rc)
{
	assert(rc < 0);
	call->rc = rc;
	longjmp(call->back, 1);
}

static _Noreturn void on_error(j_common_ptr common)
{
	struct jpeg_call *call = common->client_data;
	switch (common->err->msg_code) {
	case JERR_OUT_OF_MEMORY:
		jpeg_call_fail(call, -ENOMEM);
	case JERR_NO_BACKING_STORE:
	case JERR_IMAGE_TOO_BIG:
		jpeg_call_fail(call, -EFBIG);
	case JERR_BAD_PRECISION:
	case JERR_ARITH_NOTIMPL:
	case JERR_SOF_UNSUPPORTED:
	case JERR_CONVERSION_NOTIMPL:
		jpeg_call_fail(call, -ENOTSUP);
	default:
		jpeg_call_fail(call, -EBADMSG);
	}
}

/* A warning says that pixels had to be made up; messages of other levels are traces. */
static void on_message(j_common_ptr common, int level)
{
	if (level < 0)
		jpeg_call_fail(common->client_data, -EBADMSG);
}

static void on_print(j_common_ptr common)
{
	(void)common;
}

static void on_progress(j_common_ptr common)
{
	struct jpeg_call *call = common->client_data;
	const struct prep_limits *limits = call->limits;
	if (common->is_decompressor &&
	    (uint32_t)((j_decompress_ptr)common)->input_scan_number > limits->scans_max)
		jpeg_call_fail(call, -EFBIG);
	if (limits->stop != NULL && limits->stop(limits->stop_ctx))
		jpeg_call_fail(call, -ETIME);
}

int jpeg_call_run(struct jpeg_call *call, int (*body)(struct jpeg_call *call))
{
	memset(&call->source, 0, sizeof(call->source));
	call->source.err = jpeg_std_error(&call->errors);
	call->errors.error_exit = on_error;
	call->errors.emit_message = on_message;
	call->errors.output_message = on_print;
	call->progress.progress_monitor = on_progress;
	call->source.client_data = call;
	int rc;
	if (setjmp(call->back) == 0)
		rc = body(call);
	else
		rc = call->rc;
	jpeg_destroy_decompress(&call->source);
	return rc;
}

/* --- EXIF --------------------------------------------------------------------------------------- */

struct tiff {
	const uint8_t *at;
	size_t len;
	bool big; /* big-endian */
};

static uint32_t tiff_number(const struct tiff *t, size_t offset, unsigned int bytes)
{
	assert(offset <= t->len && bytes <= t->len - offset);
	uint32_t v = 0;
	for (unsigned int i = 0; i < bytes; i++)
		v = v << 8 | t->at[offset + (t->big ? i : bytes - 1 - i)];
	return v;
}

/* Returns the orientation of the first directory, 1 (upright) if there is none that can be read. */
static uint32_t tiff_orientation(const struct tiff *t)
{
	size_t dir = tiff_number(t, 4, 4);
	if (dir > t->len || t->len - dir < 2)
		return 1;
	size_t count = tiff_number(t, dir, 2);
	for (size_t i = 0; i < count; i++) {
		size_t at = dir + 2 + i * TIFF_ENTRY;
		if (at > t->len || t->len - at < TIFF_ENTRY)
			return 1;
		if (tiff_number(t, at, 2) == TIFF_ORIENTATION &&
		    tiff_number(t, at + 2, 2) == TIFF_SHORT)
			return tiff_number(t, at + 8, 2);
	}
	return 1;
}

static bool is_rotated(const struct jpeg_decompress_struct *source)
{
	static const uint8_t name[6] = "Exif\0"; // and the NUL of the literal
	for (jpeg_saved_marker_ptr m = source->marker_list; m != NULL; m = m->next) {
		if (m->data_length < sizeof(name) + 8 || memcmp(m->data, name, sizeof(name)) != 0)
			continue;
		struct tiff t = {.at = m->data + sizeof(name),
				 .len = m->data_length - sizeof(name),
				 .big = m->data[sizeof(name)] == 'M'};
		uint32_t orientation = tiff_orientation(&t);
		return orientation > 1 && orientation <= 8;
	}
	return false;
}

/* --- headers ------------------------------------------------------------------------------------ */

static bool is_supported(const struct jpeg_decompress_struct *s)
{
	if (s->data_precision != 8 || s->arith_code ||
	    (s->num_components != 1 && s->num_components != 3))
		return false;
	if (s->jpeg_color_space != JCS_GRAYSCALE && s->jpeg_color_space != JCS_YCbCr &&
	    s->jpeg_color_space != JCS_RGB)
		return false;
	for (int i = 0; i < s->num_components; i++)
		if (s->comp_info[i].h_samp_factor > 2 || s->comp_info[i].v_samp_factor > 2)
			return false;
	return !is_rotated(s);
}

int jpeg_call_open(struct jpeg_call *call)
{
	struct jpeg_decompress_struct *s = &call->source;
	static const uint8_t start[3] = {0xff, 0xd8, 0xff};
	if (call->file.len < sizeof(start) || memcmp(call->file.data, start, sizeof(start)) != 0)
		return -EBADMSG;
	jpeg_create_decompress(s);
	s->client_data =
		call; // jpeg_create_decompress keeps it; said here so that nobody depends on that
	s->progress = &call->progress;
	s->mem->max_memory_to_use = (long)min_u64(call->limits->memory_max, (uint64_t)__LONG_MAX__);
	jpeg_mem_src(s, call->file.data, call->file.len);
	jpeg_save_markers(s, JPEG_APP0 + 1, EXIF_MAX);
	if (jpeg_read_header(s, TRUE) != JPEG_HEADER_OK)
		return -EBADMSG;
	if ((uint64_t)s->image_width * s->image_height > call->limits->pixels_max)
		return -EFBIG;
	if (!is_supported(s))
		return -ENOTSUP;
	/* A file with one component has MCUs of one block, whatever its sampling factors are. */
	bool one = s->num_components == 1;
	call->info = (struct prep_jpeg_info){
		.width = s->image_width,
		.height = s->image_height,
		.mcu_width = (uint32_t)(one ? 1 : s->max_h_samp_factor) * DCTSIZE,
		.mcu_height = (uint32_t)(one ? 1 : s->max_v_samp_factor) * DCTSIZE,
		.components = (uint32_t)s->num_components,
		.progressive = s->progressive_mode,
	};
	return 0;
}

int prep_jpeg_inspect(struct prep_bytes file, const struct prep_limits *limits,
		      struct prep_jpeg_info *out)
{
	struct jpeg_call call = {.file = file, .limits = limits};
	int rc = jpeg_call_run(&call, jpeg_call_open);
	if (rc == 0)
		*out = call.info;
	return rc;
}
