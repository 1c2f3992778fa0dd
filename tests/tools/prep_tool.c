// SPDX-License-Identifier: Apache-2.0
/*
 * Operations on images (prep/) for tests in Python. Reads a file from standard input and writes to standard output:
 *
 *   prep_tool decode X Y W H          the pixels of the rectangle, R G B
 *   prep_tool cut X Y W H             the crop in the cut file as a line "X Y W H", then the cut file
 *   prep_tool FORM X Y W H OUTW OUTH  FORM is raw, cut or pixels: the resized crop, through prep_serve and prep_finish
 *   prep_tool tensor X Y W H OUTW OUTH  floats of the resized crop, normalized for ImageNet
 *
 * Prints the error's name on standard error and exits with 1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "prep/cut.h"
#include "prep/fingerprint.h"
#include "prep/op.h"
#include "prep/tensor.h"

#define FILE_MAX (64 * MIB)

struct tool {
	struct prep_bytes file;
	struct prep_rect rect;
	uint32_t out_width, out_height;
};

static int put(const void *data, size_t len)
{
	return fwrite(data, 1, len, stdout) == len ? 0 : -EIO;
}

static int decode(const struct tool *t)
{
	struct prep_image image;
	int rc = prep_jpeg_decode(t->file, &prep_limits_client, &t->rect, &image);
	if (rc == 0)
		rc = put(image.pixels, prep_image_bytes(&image));
	prep_image_fini(&image);
	return rc;
}

static int cut(const struct tool *t)
{
	struct prep_cut out;
	int rc = prep_cut(t->file, &prep_limits_node, &t->rect, &out);
	if (rc < 0)
		return rc;
	printf("%u %u %u %u\n", out.rect.x, out.rect.y, out.rect.width, out.rect.height);
	rc = put(out.data, out.len);
	free(out.data);
	return rc;
}

static int serve(const struct tool *t, enum prep_form form, struct prep_image *out)
{
	uint64_t decoder = prep_fingerprint();
	struct prep_op op = {.form = form,
			     .crop = t->rect,
			     .out_width = t->out_width,
			     .out_height = t->out_height,
			     .decoder = decoder};
	struct prep_result result;
	prep_serve(&op, decoder, &prep_limits_node, t->file, &result);
	fprintf(stderr, "%s\n", prep_reason_text(result.reason));
	struct prep_bytes bytes = {.data = result.data, .len = result.len};
	int rc = prep_finish(&op, &result, result.form == PREP_RAW ? t->file : bytes,
			     &prep_limits_client, out);
	prep_result_fini(&result);
	return rc;
}

static int tensor(const struct prep_image *image)
{
	float *out = calloc(prep_image_bytes(image), sizeof(*out));
	if (out == NULL)
		return -ENOMEM;
	prep_tensor(image, &prep_norm_imagenet, out);
	int rc = put(out, prep_image_bytes(image) * sizeof(*out));
	free(out);
	return rc;
}

static int run(const char *what, const struct tool *t)
{
	static const char *const forms[] = {"raw", "cut", "pixels"};
	if (strcmp(what, "decode") == 0)
		return decode(t);
	if (t->out_width == 0)
		return strcmp(what, "cut") == 0 ? cut(t) : -EINVAL;
	enum prep_form form = PREP_RAW;
	for (size_t i = 0; i < ARRAY_LEN(forms); i++)
		if (strcmp(what, forms[i]) == 0)
			form = (enum prep_form)i;
	struct prep_image image;
	int rc = serve(t, form, &image);
	if (rc == 0)
		rc = strcmp(what, "tensor") == 0 ? tensor(&image)
						 : put(image.pixels, prep_image_bytes(&image));
	prep_image_fini(&image);
	return rc;
}

int main(int argc, char **argv)
{
	uint32_t n[6] = {0};
	if (argc != 6 && argc != 8) {
		fprintf(stderr, "usage: prep_tool WHAT X Y W H [OUTW OUTH]\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		n[i - 2] = (uint32_t)strtoul(argv[i], NULL, 10);
	uint8_t *data = malloc(FILE_MAX);
	if (data == NULL)
		return 1;
	struct tool t = {.file = {.data = data, .len = fread(data, 1, FILE_MAX, stdin)},
			 .rect = {.x = n[0], .y = n[1], .width = n[2], .height = n[3]},
			 .out_width = n[4],
			 .out_height = n[5]};
	int rc = run(argv[1], &t);
	free(data);
	if (rc < 0)
		fprintf(stderr, "%s\n", err_name(rc));
	return rc < 0;
}
