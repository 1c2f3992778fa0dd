// SPDX-License-Identifier: Apache-2.0
/* Operations and heads of results as bytes (op.h). */
#include <assert.h>
#include <errno.h>

#include "base/le.h"
#include "prep/op.h"

#define VERSION 1

/* operation: version u8, form u8, 0 u16, crop 4 * u32, output 2 * u32, 0 u32, decoder u64, 0 u64 */
void prep_op_put(const struct prep_op *op, uint8_t out[PREP_OP_BYTES])
{
	memset(out, 0, PREP_OP_BYTES);
	out[0] = VERSION;
	out[1] = (uint8_t)op->form;
	put_u32(out + 4, op->crop.x);
	put_u32(out + 8, op->crop.y);
	put_u32(out + 12, op->crop.width);
	put_u32(out + 16, op->crop.height);
	put_u32(out + 20, op->out_width);
	put_u32(out + 24, op->out_height);
	put_u64(out + 32, op->decoder);
}

static bool is_zero(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != 0)
			return false;
	return true;
}

static struct prep_rect get_rect(const uint8_t *at)
{
	return (struct prep_rect){.x = get_u32(at),
				  .y = get_u32(at + 4),
				  .width = get_u32(at + 8),
				  .height = get_u32(at + 12)};
}

int prep_op_get(struct prep_op *op, struct prep_bytes in)
{
	const uint8_t *at = in.data;
	if (in.len != PREP_OP_BYTES || at[0] != VERSION || at[1] > PREP_PIXELS ||
	    !is_zero(at + 2, 2) || !is_zero(at + 28, 4) || !is_zero(at + 40, 8))
		return -EPROTO;
	struct prep_op got = {.form = (enum prep_form)at[1],
			      .crop = get_rect(at + 4),
			      .out_width = get_u32(at + 20),
			      .out_height = get_u32(at + 24),
			      .decoder = get_u64(at + 32)};
	if (!prep_rect_inside(&got.crop, PREP_SIDE_MAX, PREP_SIDE_MAX) || got.out_width == 0 ||
	    got.out_height == 0 || got.out_width > PREP_OUT_MAX || got.out_height > PREP_OUT_MAX)
		return -EPROTO;
	*op = got;
	return 0;
}

/* result: version u8, form u8, reason u8, 0 u8, crc of the source u32, crc u32, 0 u32, length u64, crop 4 * u32, 0 u64 */
void prep_result_put(const struct prep_result *result, uint8_t out[PREP_RESULT_BYTES])
{
	memset(out, 0, PREP_RESULT_BYTES);
	out[0] = VERSION;
	out[1] = (uint8_t)result->form;
	out[2] = (uint8_t)result->reason;
	put_u32(out + 4, result->source_crc);
	put_u32(out + 8, result->crc);
	put_u64(out + 16, result->len);
	put_u32(out + 24, result->crop.x);
	put_u32(out + 28, result->crop.y);
	put_u32(out + 32, result->crop.width);
	put_u32(out + 36, result->crop.height);
}

int prep_result_get(struct prep_result *result, struct prep_bytes in)
{
	const uint8_t *at = in.data;
	if (in.len != PREP_RESULT_BYTES || at[0] != VERSION || at[1] > PREP_PIXELS ||
	    at[2] >= PREP_REASONS || at[3] != 0 || !is_zero(at + 12, 4) || !is_zero(at + 40, 8))
		return -EPROTO;
	struct prep_result got = {.form = (enum prep_form)at[1],
				  .reason = (enum prep_reason)at[2],
				  .source_crc = get_u32(at + 4),
				  .crc = get_u32(at + 8),
				  .len = get_u64(at + 16),
				  .crop = get_rect(at + 24)};
	if (!prep_rect_inside(&got.crop, PREP_SIDE_MAX, PREP_SIDE_MAX) ||
	    (got.form == PREP_RAW) != (got.reason != PREP_DONE))
		return -EPROTO;
	*result = got;
	return 0;
}
