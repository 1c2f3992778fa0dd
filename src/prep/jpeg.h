// SPDX-License-Identifier: Apache-2.0
/*
 * JPEG files in memory: what one holds, and the pixels of a rectangle of it. Pixels are those of libjpeg's accurate
 * settings (integer DCT, smooth chroma upsampling, 8 bits), which Pillow and torchvision use, too.
 *
 * Refused with -ENOTSUP: four components, 12 bits, arithmetic coding, a rotation in EXIF (readers disagree on whether
 * to obey it), sampling factors other than 1 and 2. A file that libjpeg decodes with a warning is damaged (-EBADMSG).
 */
#ifndef PREP_JPEG_H
#define PREP_JPEG_H

#include <stddef.h>
#include <stdint.h>

#include "prep/image.h"

struct prep_limits {
	uint64_t pixels_max; /* of an image */
	size_t memory_max;   /* bytes that one call takes beside its input, about */
	uint32_t
		scans_max; /* of a progressive file: a few bytes of each cost as much as a whole image */
	/* Asked for each row of blocks: true ends the call with -ETIME. NULL: never. */
	bool (*stop)(void *ctx);
	void *stop_ctx;
};

/* The limits of a storage node and of a client: 64 and 512 million pixels. */
extern const struct prep_limits prep_limits_node, prep_limits_client;

struct prep_bytes {
	const uint8_t *data;
	size_t len;
};

struct prep_jpeg_info {
	uint32_t width, height;         /* pixels */
	uint32_t mcu_width, mcu_height; /* of an interleaved MCU, in pixels */
	uint32_t components;            /* 1 or 3 */
	bool progressive;
};

/* Reads the headers of a file. -EBADMSG: not a JPEG file or damaged; -ENOTSUP; -EFBIG: over a limit; -ENOMEM. */
int prep_jpeg_inspect(struct prep_bytes file, const struct prep_limits *limits,
		      struct prep_jpeg_info *out);

/* Decodes a rectangle of a file into an image of its size. Skips what the rectangle does not need. Errors are those of
 * prep_jpeg_inspect, -EINVAL if the rectangle does not lie in the image and -ETIME if the caller stopped it. */
int prep_jpeg_decode(struct prep_bytes file, const struct prep_limits *limits,
		     const struct prep_rect *rect, struct prep_image *out);

#endif
