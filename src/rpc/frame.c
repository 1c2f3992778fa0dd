// SPDX-License-Identifier: Apache-2.0
#include "rpc/frame.h"

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/le.h"

#define FRAME_MAGIC 0x43505254u /* "TRPC" */
#define FRAME_CRC_AT 60

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const struct frame_header *h)
{
	put_u32(out, FRAME_MAGIC);
	out[4] = FRAME_VERSION;
	out[5] = (uint8_t)h->kind;
	put_u16(out + 6, (uint16_t)h->flags);
	put_u32(out + 8, h->type);
	put_u32(out + 12, h->status);
	put_u64(out + 16, h->id);
	put_u64(out + 24, h->timeout_us);
	put_u32(out + 32, h->context_len);
	put_u32(out + 36, h->body_len);
	put_u32(out + 40, h->payload_len);
	put_u32(out + 44, h->meta_crc);
	put_u32(out + 48, h->payload_crc);
	put_u64(out + 52, 0);
	put_u32(out + FRAME_CRC_AT, crc32c(0, out, FRAME_CRC_AT));
}

static int frame_refuse(enum frame_fault *out, enum frame_fault fault, int err)
{
	if (out != NULL)
		*out = fault;
	return err;
}

/* Checks invariants 3 and 4 of frame.h. */
static int frame_fields_ok(const struct frame_header *h)
{
	if (h->flags & ~(uint32_t)FRAME_FLAGS_ALL)
		return 0;
	if ((h->context_len == 0 && h->body_len == 0 && h->meta_crc != 0) ||
	    (h->payload_len == 0 && h->payload_crc != 0))
		return 0;
	switch (h->kind) {
	case FRAME_REQUEST:
		return h->status == 0 && h->flags == 0;
	case FRAME_RESPONSE:
		return h->context_len == 0 && h->timeout_us == 0;
	case FRAME_CANCEL:
		return h->status == 0 && h->flags == 0 && h->timeout_us == 0 &&
		       h->context_len == 0 && h->body_len == 0 && h->payload_len == 0;
	case FRAME_GOODBYE:
		return h->flags == 0 && h->timeout_us == 0 && h->context_len == 0 &&
		       h->payload_len == 0;
	}
	return 0;
}

int frame_decode(struct frame_header *h, const uint8_t in[FRAME_HEADER_BYTES],
		 const struct frame_limits *limits, enum frame_fault *fault)
{
	if (get_u32(in) != FRAME_MAGIC)
		return frame_refuse(fault, FRAME_BAD_MAGIC, -EPROTO);
	if (in[4] != FRAME_VERSION)
		return frame_refuse(fault, FRAME_BAD_VERSION, -EPROTO);
	if (get_u32(in + FRAME_CRC_AT) != crc32c(0, in, FRAME_CRC_AT))
		return frame_refuse(fault, FRAME_BAD_CRC, -EBADMSG);
	*h = (struct frame_header){
		.kind = in[5],
		.flags = get_u16(in + 6),
		.type = get_u32(in + 8),
		.status = get_u32(in + 12),
		.id = get_u64(in + 16),
		.timeout_us = get_u64(in + 24),
		.context_len = get_u32(in + 32),
		.body_len = get_u32(in + 36),
		.payload_len = get_u32(in + 40),
		.meta_crc = get_u32(in + 44),
		.payload_crc = get_u32(in + 48),
	};
	if (get_u64(in + 52) != 0 || !frame_fields_ok(h))
		return frame_refuse(fault, FRAME_BAD_FIELD, -EPROTO);
	if (h->context_len > FRAME_CONTEXT_MAX || h->body_len > limits->body_max ||
	    h->payload_len > limits->payload_max)
		return frame_refuse(fault, FRAME_TOO_LARGE, -EMSGSIZE);
	return frame_refuse(fault, FRAME_OK, 0);
}

const char *frame_fault_text(enum frame_fault fault)
{
	switch (fault) {
	case FRAME_OK:
		return "no fault";
	case FRAME_BAD_MAGIC:
		return "the bytes are not a frame of this protocol";
	case FRAME_BAD_VERSION:
		return "the frame has an unsupported protocol version";
	case FRAME_BAD_CRC:
		return "the frame's header does not match its checksum";
	case FRAME_BAD_FIELD:
		return "the frame's header has inconsistent fields";
	case FRAME_TOO_LARGE:
		return "the frame is larger than allowed";
	}
	return "unknown fault";
}
