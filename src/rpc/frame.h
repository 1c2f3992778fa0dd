// SPDX-License-Identifier: Apache-2.0
/*
 * The frame, the unit of the wire format, and pure functions to encode and decode its header.
 *
 * Layout. A frame is four parts without padding between them:
 *
 *     header (64 bytes) | context (context_len) | body (body_len) | payload (payload_len)
 *
 * The context is a Context message of rpc.proto, the body the message of the request's type, the
 * payload raw bytes. All numbers of the header are little-endian:
 *
 *     offset size
 *          0    4  magic        "TRPC"
 *          4    1  version      1
 *          5    1  kind         enum frame_kind
 *          6    2  flags        enum frame_flags
 *          8    4  type         which request; a response repeats it
 *         12    4  status       0, or the errno of a failed response or goodbye
 *         16    8  id           chosen by the client, repeated by the response and the cancel
 *         24    8  timeout_us   of a request: how long the client waits; 0 is for ever
 *         32    4  context_len  at most FRAME_CONTEXT_MAX
 *         36    4  body_len
 *         40    4  payload_len
 *         44    4  meta_crc     CRC-32C of context and body
 *         48    4  payload_crc  CRC-32C of the payload; 0 when it is empty
 *         52    8  zero
 *         60    4  header_crc   CRC-32C of bytes 0..59
 *
 * The deadline is sent as a duration because the clocks of two machines differ. The network delay
 * is not subtracted, so a server may work a little longer than its client waits, and shorter at
 * most by the drift of the clocks.
 *
 * Example: a request of type 7 with no context, a body of 10 bytes and no payload is 74 bytes; its
 * receiver reads 64, checks header_crc, learns that 10 follow, checks them against meta_crc.
 *
 * Invariants
 *   1. Lengths are used only after header_crc matched and they were compared with limits. After a
 *      bad header the begin of the next frame is unknown, so the connection must be closed.
 *   2. With an intact header the end of the frame is known, so an error after the header (a CRC, a
 *      body that does not parse, an unknown type) affects that frame only.
 *   3. A cancel has no context, body or payload; only a request has a context or a timeout; only
 *      responses and goodbyes have a status.
 *   4. Bytes and flags without a meaning are zero, and a receiver refuses other values, so that a
 *      new version can give them a meaning.
 *
 * The place of magic, version and header_crc and the size of the header must never change, so that
 * a receiver can report the version mismatch to any sender.
 */
#ifndef RPC_FRAME_H
#define RPC_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_BYTES 64
#define FRAME_CONTEXT_MAX 8192
#define FRAME_VERSION 1

enum frame_kind {
	FRAME_REQUEST = 1,
	FRAME_RESPONSE = 2,
	FRAME_CANCEL = 3,  /* the client no longer waits for this id */
	FRAME_GOODBYE = 4, /* the last frame of a connection; status and body say why */
};

enum frame_flags {
	FRAME_NOT_EXECUTED = 1 << 0, /* of a failed response: the handler never ran */
	FRAME_FLAGS_ALL = FRAME_NOT_EXECUTED,
};

struct frame_header {
	enum frame_kind kind;
	uint32_t flags;
	uint32_t type;
	uint32_t status;
	uint64_t id;
	uint64_t timeout_us;
	uint32_t context_len;
	uint32_t body_len;
	uint32_t payload_len;
	uint32_t meta_crc;
	uint32_t payload_crc;
};

/* The largest parts that a receiver accepts; the context is always limited to FRAME_CONTEXT_MAX. */
struct frame_limits {
	uint32_t body_max;
	uint32_t payload_max;
};

/* The reasons why a receiver refuses a header, for counters and messages. */
enum frame_fault {
	FRAME_OK,
	FRAME_BAD_MAGIC,
	FRAME_BAD_VERSION,
	FRAME_BAD_CRC,
	FRAME_BAD_FIELD,
	FRAME_TOO_LARGE,
};

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const struct frame_header *h);

/*
 * Checks and decodes a header. -EPROTO: wrong magic or version, or a field violates an invariant;
 * -EBADMSG: the CRC does not match; -EMSGSIZE: a part is beyond the limits. *fault is set to the
 * reason; fault may be NULL.
 */
int frame_decode(struct frame_header *h, const uint8_t in[FRAME_HEADER_BYTES],
		 const struct frame_limits *limits, enum frame_fault *fault);

/* Returns the reason as one phrase for people; never NULL. */
const char *frame_fault_text(enum frame_fault fault);

#endif
