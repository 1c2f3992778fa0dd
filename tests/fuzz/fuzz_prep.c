// SPDX-License-Identifier: Apache-2.0
/* An operation from the wire on a file from a disk, its result over the wire, and what a client makes of it. The first
 * byte of the input says whether the operation comes from the input or is valid for some image. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/le.h"
#include "prep/op.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const struct prep_limits limits = {
	.pixels_max = 1000000, .memory_max = 64 * MIB, .scans_max = 20};

/* Takes an operation of 8 bytes, or of the wire. */
static bool take_op(struct prep_bytes *in, struct prep_op *op)
{
	if (in->len < 9)
		return false;
	if (in->data[0] == 0) {
		struct prep_bytes wire = {.data = in->data + 1, .len = PREP_OP_BYTES};
		if (in->len < 1 + PREP_OP_BYTES || prep_op_get(op, wire) < 0)
			return false;
		in->data += 1 + PREP_OP_BYTES;
		in->len -= 1 + PREP_OP_BYTES;
	} else {
		*op = (struct prep_op){.form = (enum prep_form)(in->data[0] % 3),
				       .crop = {.x = in->data[1],
						.y = in->data[2],
						.width = in->data[3] + 1U,
						.height = in->data[4] + 1U},
				       .out_width = in->data[5] % 64 + 1U,
				       .out_height = in->data[6] % 64 + 1U};
		in->data += 9;
		in->len -= 9;
	}
	op->decoder = 1;
	return true;
}

/* What a client makes of the result: an image of the size that it asked for, or an error. */
static bool client(const struct prep_op *op, const struct prep_result *result,
		   struct prep_bytes bytes)
{
	struct prep_image image;
	int rc = prep_finish(op, result, bytes, &limits, &image);
	if (rc == 0 && (image.width != op->out_width || image.height != op->out_height))
		abort();
	prep_image_fini(&image);
	return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct prep_bytes in = {.data = data, .len = len};
	struct prep_op op;
	if (!take_op(&in, &op))
		return 0;
	struct prep_result result, told;
	prep_serve(&op, 1, &limits, in, &result);
	uint8_t head[PREP_RESULT_BYTES];
	prep_result_put(&result, head);
	struct prep_bytes bytes = {.data = result.data, .len = result.len};
	if (prep_result_get(&told, (struct prep_bytes){head, sizeof(head)}) < 0)
		abort();
	bool done = client(&op, &told, result.form == PREP_RAW ? in : bytes);
	if (result.form == PREP_CUT && !done)
		abort(); /* the file that a cut made is never damaged */
	prep_result_fini(&result);
	/* a server that lies: the input as a result */
	if (in.len > PREP_RESULT_BYTES &&
	    prep_result_get(&told, (struct prep_bytes){in.data, PREP_RESULT_BYTES}) == 0)
		(void)client(&op, &told,
			     (struct prep_bytes){in.data + PREP_RESULT_BYTES,
						 in.len - PREP_RESULT_BYTES});
	return 0;
}
