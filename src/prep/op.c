// SPDX-License-Identifier: Apache-2.0
#include "prep/op.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"
#include "prep/cut.h"
#include "prep/resize.h"

/* --- on the node -------------------------------------------------------------------------------- */

static enum prep_reason reason_of(int rc)
{
	switch (rc) {
	case 0:
		return PREP_DONE;
	case -EBADMSG:
		return PREP_DAMAGED;
	case -EFBIG:
		return PREP_TOO_LARGE;
	case -EINVAL:
		return PREP_OUTSIDE;
	case -EOVERFLOW:
		return PREP_NO_GAIN;
	case -ETIME:
		return PREP_TIME;
	case -ENOMEM:
		return PREP_BUSY;
	default:
		return PREP_UNSUPPORTED;
	}
}

static int serve_cut(const struct prep_op *op, const struct prep_limits *limits,
		     struct prep_bytes file, struct prep_result *out)
{
	struct prep_cut cut;
	int rc = prep_cut(file, limits, &op->crop, &cut);
	if (rc < 0)
		return rc;
	out->data = cut.data;
	out->len = cut.len;
	out->crop = cut.rect;
	return 0;
}

/* Decodes the crop and resizes it. */
static int make_pixels(const struct prep_op *op, struct prep_bytes file,
		       const struct prep_rect *crop, const struct prep_limits *limits,
		       struct prep_image *out)
{
	struct prep_image whole = {0};
	int rc = prep_jpeg_decode(file, limits, crop, &whole);
	if (rc == 0)
		rc = prep_resize(&whole, op->out_width, op->out_height, out);
	prep_image_fini(&whole);
	return rc;
}

static int serve_pixels(const struct prep_op *op, const struct prep_limits *limits,
			struct prep_bytes file, struct prep_result *out)
{
	struct prep_image image = {0};
	if ((uint64_t)op->out_width * op->out_height * PREP_CHANNELS >= file.len)
		return -EOVERFLOW;
	int rc = make_pixels(op, file, &op->crop, limits, &image);
	if (rc < 0)
		return rc;
	out->data = image.pixels;
	out->len = prep_image_bytes(&image);
	out->crop = (struct prep_rect){.width = image.width, .height = image.height};
	return 0;
}

void prep_serve(const struct prep_op *op, uint64_t decoder, const struct prep_limits *limits,
		struct prep_bytes file, struct prep_result *out)
{
	*out = (struct prep_result){.form = op->form};
	int rc = 0;
	if (op->form == PREP_RAW)
		out->reason = PREP_ASKED;
	else if (decoder == 0 || op->decoder != decoder)
		out->reason = PREP_DECODER;
	else if (op->form == PREP_CUT)
		rc = serve_cut(op, limits, file, out);
	else
		rc = serve_pixels(op, limits, file, out);
	if (rc < 0)
		out->reason = reason_of(rc);
	uint32_t crc = crc32c(0, file.data, file.len);
	if (out->reason != PREP_DONE) {
		assert(out->data == NULL);
		prep_refuse(op, out->reason, crc, file.len, out);
		return;
	}
	assert(out->data != NULL && out->len < file.len);
	out->source_crc = crc;
	out->crc = crc32c(0, out->data, out->len);
}

void prep_refuse(const struct prep_op *op, enum prep_reason reason, uint32_t crc, uint64_t len,
		 struct prep_result *out)
{
	assert(reason != PREP_DONE);
	*out = (struct prep_result){.form = PREP_RAW,
				    .reason = reason,
				    .source_crc = crc,
				    .crc = crc,
				    .len = len,
				    .crop = op->crop};
}

void prep_result_fini(struct prep_result *result)
{
	free(result->data);
	*result = (struct prep_result){0};
}

/* --- on the client ------------------------------------------------------------------------------ */

static int take_pixels(const struct prep_op *op, struct prep_bytes bytes, struct prep_image *out)
{
	if (bytes.len != (uint64_t)op->out_width * op->out_height * PREP_CHANNELS)
		return -EBADMSG;
	int rc = prep_image_init(out, op->out_width, op->out_height);
	if (rc == 0)
		memcpy(out->pixels, bytes.data, bytes.len);
	return rc;
}

int prep_finish(const struct prep_op *op, const struct prep_result *result, struct prep_bytes bytes,
		const struct prep_limits *limits, struct prep_image *out)
{
	*out = (struct prep_image){0};
	if (result->len != bytes.len || crc32c(0, bytes.data, bytes.len) != result->crc)
		return -EBADMSG;
	if (result->form == PREP_PIXELS)
		return op->form == PREP_PIXELS ? take_pixels(op, bytes, out) : -EBADMSG;
	if (result->form == PREP_RAW)
		return make_pixels(op, bytes, &op->crop, limits, out);
	/* A file that was cut elsewhere must hold the crop that was asked for. */
	if (op->form != PREP_CUT || result->crop.width != op->crop.width ||
	    result->crop.height != op->crop.height)
		return -EBADMSG;
	int rc = make_pixels(op, bytes, &result->crop, limits, out);
	return rc == -EINVAL ? -EBADMSG : rc;
}

/* --- the wire ----------------------------------------------------------------------------------- */

const char *prep_reason_text(enum prep_reason reason)
{
	static const char *const text[PREP_REASONS] = {
		[PREP_DONE] = "done",
		[PREP_ASKED] = "asked for raw",
		[PREP_DAMAGED] = "not a JPEG file or damaged",
		[PREP_UNSUPPORTED] = "unsupported kind of JPEG file",
		[PREP_TOO_LARGE] = "over a limit",
		[PREP_OUTSIDE] = "crop outside the image",
		[PREP_NO_GAIN] = "not smaller",
		[PREP_TIME] = "out of time",
		[PREP_BUSY] = "busy",
		[PREP_DECODER] = "other decoder",
		[PREP_SCATTERED] = "not in one place",
	};
	assert(reason < PREP_REASONS);
	return text[reason];
}
