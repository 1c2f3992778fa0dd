// SPDX-License-Identifier: Apache-2.0
/* Frames by hand, for tests of what a peer may do wrong. */
#ifndef TESTS_RPC_RAW_H
#define TESTS_RPC_RAW_H

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "rpc/body.h"
#include "rpc_fixture.h"
#include "rt/net.h"

struct raw_frame {
	struct frame_header h;
	uint8_t bytes[1024]; /* header and body */
	size_t len;
	size_t payload_len; /* number of zeroes that follow as the payload */
};

/* Returns a request to echo, with or without a payload of zeroes. */
static inline struct raw_frame raw_request(uint32_t type, uint64_t id, size_t payload_len)
{
	struct raw_frame f = {.payload_len = payload_len};
	Terrane__Rpc__Tags q = tags_of(id, "raw");
	uint8_t *body = f.bytes + FRAME_HEADER_BYTES;
	size_t body_len = terrane__rpc__tags__pack(&q, body);
	f.len = FRAME_HEADER_BYTES + body_len;
	f.h = (struct frame_header){.kind = FRAME_REQUEST,
				    .type = type,
				    .id = id,
				    .body_len = (uint32_t)body_len,
				    .meta_crc = crc32c(0, body, body_len),
				    .payload_len = (uint32_t)payload_len};
	uint32_t crc = 0;
	for (size_t i = 0; i < payload_len; i++)
		crc = crc32c(crc, "", 1);
	f.h.payload_crc = crc;
	frame_encode(f.bytes, &f.h);
	return f;
}

static inline void raw_seal(uint8_t *raw)
{
	uint32_t crc = crc32c(0, raw, 60);
	for (unsigned i = 0; i < 4; i++)
		raw[60 + i] = (uint8_t)(crc >> (8 * i));
}

static inline struct rt_sock *raw_connect(struct fixture *f)
{
	struct rt_sock *s = NULL;
	CHECK_RC(rt_connect(&s, f->addr), 0);
	return s;
}

static inline int raw_send(struct rt_sock *s, const void *bytes, size_t len)
{
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = len};
	return rt_sock_sendv(s, &iov, 1);
}

static inline void raw_send_frame(struct rt_sock *s, const struct raw_frame *f)
{
	CHECK_RC(raw_send(s, f->bytes, f->len), 0);
	if (f->payload_len > 0) {
		AUTO_FREE uint8_t *zeroes = calloc(1, f->payload_len);
		CHECK(zeroes != NULL);
		CHECK_RC(raw_send(s, zeroes, f->payload_len), 0);
	}
}

/*
 * Receives the next frame, which has no payload. Sets the text to the error in its body; empty: the
 * frame is no error.
 */
static inline void raw_recv(struct rt_sock *s, struct frame_header *h, char text[256])
{
	static const struct frame_limits limits = {.body_max = 4096, .payload_max = 1 << 20};
	uint8_t raw[FRAME_HEADER_BYTES];
	uint8_t body[4096];
	rt_deadline_set(rt_now_ns() + FIXTURE_PATIENCE_NS);
	CHECK_RC(rt_sock_recv(s, raw, sizeof(raw), sizeof(raw)), sizeof(raw));
	CHECK_RC(frame_decode(h, raw, &limits, NULL), 0);
	if (h->body_len > 0)
		CHECK_RC(rt_sock_recv(s, body, h->body_len, h->body_len), h->body_len);
	rt_deadline_set(RT_NEVER);
	CHECK(crc32c(0, body, h->body_len) == h->meta_crc);
	text[0] = 0;
	if (h->status == 0)
		return;
	Terrane__Rpc__ErrorBody *e = terrane__rpc__error_body__unpack(NULL, h->body_len, body);
	CHECK(e != NULL);
	snprintf(text, 256, "%s", e->message);
	terrane__rpc__error_body__free_unpacked(e, NULL);
}

static inline void raw_expect_closed(struct rt_sock *s)
{
	uint8_t byte;
	rt_deadline_set(rt_now_ns() + FIXTURE_PATIENCE_NS);
	int64_t n = rt_sock_recv(s, &byte, 1, 1);
	rt_deadline_set(RT_NEVER);
	CHECK(n == 0 || n == -ECONNRESET);
}

static inline void raw_expect_alive(struct rt_sock *s, uint64_t id)
{
	struct raw_frame good = raw_request(1, id, 0);
	struct frame_header h;
	char text[256];
	raw_send_frame(s, &good);
	raw_recv(s, &h, text);
	CHECK(h.kind == FRAME_RESPONSE && h.id == id && h.status == 0);
}

#endif
