// SPDX-License-Identifier: Apache-2.0
/*
 * Cuts a JPEG file: a smaller file with the DCT blocks around a rectangle, without decoding pixels. The rectangle has
 * the same pixels in both files.
 */
#ifndef PREP_CUT_H
#define PREP_CUT_H

#include "prep/jpeg.h"

struct prep_cut {
	uint8_t *data; /* the new file; malloc'ed */
	size_t len;
	struct prep_rect rect; /* the rectangle in the new file */
};

/* Cuts a file. -EOVERFLOW: the new file is not smaller; -ENOTSUP also for a progressive file that lacks scans, because
 * decoders smooth such a file after its scans; else the errors of prep_jpeg_decode. */
int prep_cut(struct prep_bytes file, const struct prep_limits *limits, const struct prep_rect *rect,
	     struct prep_cut *out);

/* Sets *out to the rectangle of whole MCUs that a cut keeps: those of the rectangle and one more on each side. */
void prep_cut_area(const struct prep_jpeg_info *info, const struct prep_rect *rect,
		   struct prep_rect *out);

#endif
