// SPDX-License-Identifier: Apache-2.0
/*
 * An operation on an image that a node may do for a client, what comes of it, and both on the wire.
 *
 * A client asks for the crop of an image, resized: as a file that is cut to it (PREP_CUT), or as pixels (PREP_PIXELS).
 * The server of the request may refuse, whatever its reason: then the result is the file itself (PREP_RAW) and says
 * why. prep_finish makes the same pixels of each of the three.
 */
#ifndef PREP_OP_H
#define PREP_OP_H

#include "prep/jpeg.h"

#define PREP_OP_BYTES 48     /* of an operation on the wire */
#define PREP_RESULT_BYTES 48 /* of the head of a result on the wire */
#define PREP_OUT_MAX 4096    /* largest side after resizing, in pixels */

enum prep_form {
	PREP_RAW,    /* the file as it is stored */
	PREP_CUT,    /* a JPEG file that holds the crop */
	PREP_PIXELS, /* the resized crop: R, G, B of each pixel */
};

/* Why a result is the file as it is stored. The numbers are part of the wire format. */
enum prep_reason {
	PREP_DONE = 0,        /* it is not: the operation was done */
	PREP_ASKED = 1,       /* the operation asked for it */
	PREP_DAMAGED = 2,     /* not a JPEG file, or a damaged one */
	PREP_UNSUPPORTED = 3, /* a kind of JPEG file that the operation does not take */
	PREP_TOO_LARGE = 4,   /* over a limit of pixels, memory or scans */
	PREP_OUTSIDE = 5,     /* the crop does not lie in the image */
	PREP_NO_GAIN = 6,     /* the result would not be smaller */
	PREP_TIME = 7,        /* the budget of time was used up */
	PREP_BUSY = 8,        /* no processor time or memory was free */
	PREP_DECODER = 9,     /* the decoders of the two sides differ */
	PREP_SCATTERED = 10,  /* the file is not in one place */
};
#define PREP_REASONS 11

struct prep_op {
	enum prep_form form;
	struct prep_rect crop;
	uint32_t out_width, out_height; /* pixels after resizing */
	uint64_t decoder;               /* fingerprint of the client's decoder (prep_fingerprint) */
};

struct prep_result {
	enum prep_form form;
	enum prep_reason reason;
	uint32_t source_crc;   /* CRC-32C of the file */
	uint32_t crc;          /* CRC-32C of the bytes of the result */
	uint64_t len;          /* of the bytes */
	struct prep_rect crop; /* in the file that the result holds; of PREP_PIXELS all of it */
	uint8_t *data; /* malloc'ed; NULL for PREP_RAW, whose bytes are those of the source */
};

/* Does an operation. `decoder` is this side's prep_fingerprint. Never fails: the result says why it is raw. */
void prep_serve(const struct prep_op *op, uint64_t decoder, const struct prep_limits *limits,
		struct prep_bytes file, struct prep_result *out);
/* Sets the result that sends the file as it is, with the checksum and the length of the file. */
void prep_refuse(const struct prep_op *op, enum prep_reason reason, uint32_t crc, uint64_t len,
		 struct prep_result *out);
void prep_result_fini(struct prep_result *result);

/* Makes the resized crop of an operation from a result and its bytes. -EBADMSG: the bytes do not match the result's
 * checksum or form; else the errors of prep_jpeg_decode. */
int prep_finish(const struct prep_op *op, const struct prep_result *result, struct prep_bytes bytes,
		const struct prep_limits *limits, struct prep_image *out);

/* Returns the reason as words for messages and metrics, such as "busy". */
const char *prep_reason_text(enum prep_reason reason);

/* Write and read the wire format: a version, then the fields, all integers little-endian. Reading returns -EPROTO for a
 * version, form or reason that is not known and for sizes out of range. */
void prep_op_put(const struct prep_op *op, uint8_t out[PREP_OP_BYTES]);
int prep_op_get(struct prep_op *op, struct prep_bytes in);
void prep_result_put(const struct prep_result *result, uint8_t out[PREP_RESULT_BYTES]);
int prep_result_get(struct prep_result *result, struct prep_bytes in);

#endif
