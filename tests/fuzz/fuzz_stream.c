// SPDX-License-Identifier: Apache-2.0
/*
 * A connection with arbitrary bytes. Byte 0 chooses the reader: 0 a server, 1 a client that waits for an answer.
 * Then come frames, each 12 bytes that describe its header, and the bytes that follow the header:
 *
 *      0 kind   1 flags   2,3 type   4 status   5 id   6 length of the context   7,8 of the body   9,10 of the payload
 *      11 bit 0: the header is 64 bytes that follow instead; 1: wrong CRC of context and body; 2: of the payload
 *
 * Lengths may exceed the input: then the connection ends there. Afterwards the server must serve the next client,
 * and the client's call must end.
 */
#include "fuzz_sim.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/base.h"
#include "base/crc.h"
#include "base/log.h"
#include "rpc/client.h"
#include "rpc/frame.h"
#include "rpc/rpc.pb-c.h"
#include "rpc/server.h"
#include "rpc/type.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define WORDS 12
#define FRAMES_MAX 32
#define ADDR "n1:7000"

struct input {
	const uint8_t *data;
	size_t size;
	bool done;
};

#define TYPE(number, text)                                                                  \
	.type = (number), .name = (text), .request = &terrane__rpc__error_body__descriptor, \
	.response = &terrane__rpc__tags__descriptor, .request_max = 1024, .response_max = 1024

/* A service with and without a payload. */
static const struct rpc_type type_ask = {TYPE(0x101, "ask")};
static const struct rpc_type type_get = {TYPE(0x102, "get")};
static const struct rpc_type type_put = {TYPE(0x103, "put"), .request_payload_max = 1 * MIB};

static int answer(struct rpc_request *r)
{
	(void)r; /* the reply is at its defaults */
	return 0;
}

static const struct rpc_method methods[] = {
	{&type_ask, answer},
	{&type_get, answer},
	{&type_put, answer},
};

static int send_bytes(struct rt_sock *s, const uint8_t *at, size_t len)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)at, .iov_len = len};
	return len == 0 ? 0 : rt_sock_sendv(s, &iov, 1);
}

static uint32_t get_u16(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8;
}

/* Sends one frame of the input, which may be cut short. Returns the number of input bytes used. */
static size_t send_frame(struct rt_sock *s, const uint8_t *at, size_t left, int *rc)
{
	uint8_t raw[FRAME_HEADER_BYTES];
	struct frame_header h = {.kind = at[0],
				 .flags = at[1],
				 .type = get_u16(at + 2),
				 .status = at[4],
				 .id = at[5],
				 .timeout_us = NS_PER_S / NS_PER_US,
				 .context_len = at[6],
				 .body_len = get_u16(at + 7),
				 .payload_len = get_u16(at + 9)};
	const uint8_t *bytes = at + WORDS;
	left -= WORDS;
	if ((at[11] & 1) != 0) {
		size_t len = min_u64(left, sizeof(raw));
		*rc = send_bytes(s, bytes, len);
		return WORDS + len;
	}
	size_t meta = min_u64(left, h.context_len + h.body_len);
	size_t payload = min_u64(left - meta, h.payload_len);
	h.meta_crc = crc32c(0, bytes, meta) ^ (at[11] >> 1 & 1);
	h.payload_crc = crc32c(0, bytes + meta, payload) ^ (at[11] >> 2 & 1);
	frame_encode(raw, &h);
	*rc = send_bytes(s, raw, sizeof(raw));
	if (*rc == 0)
		*rc = send_bytes(s, bytes, meta + payload);
	return WORDS + meta + payload;
}

static void send_all(struct rt_sock *s, const struct input *in)
{
	size_t at = 1;
	int rc = 0;
	for (int i = 0; rc == 0 && i < FRAMES_MAX && in->size - at >= WORDS; i++)
		at += send_frame(s, in->data + at, in->size - at, &rc);
}

static int call_get(const char *addr, struct rt_pool *pool)
{
	struct rpc_channel *ch = NULL;
	Terrane__Rpc__ErrorBody q = TERRANE__RPC__ERROR_BODY__INIT;
	struct rpc_reply reply;
	q.message = (char *)"n";
	int rc = rpc_channel_open(&ch, addr, &(struct rpc_channel_options){.pool = pool});
	assert(rc == 0);
	rc = rpc_call(ch,
		      &(struct rpc_call){
			      .type = &type_get, .request = &q.base, .timeout_ns = 5 * NS_PER_S},
		      &reply);
	rpc_reply_fini(&reply);
	rpc_channel_close(ch);
	return rc;
}

static void fuzz_server(struct input *in, struct rt_pool *pool)
{
	struct rpc_server *server = NULL;
	struct rt_sock *s = NULL;
	int rc = rpc_server_open(&server, ADDR,
				 &(struct rpc_server_options){.methods = methods,
							      .method_count = ARRAY_LEN(methods),
							      .pool = pool});
	assert(rc == 0);
	rc = rt_connect(&s, rpc_server_addr(server));
	assert(rc == 0);
	send_all(s, in);
	rt_sock_shutdown(s);
	rc = call_get(rpc_server_addr(server), pool);
	assert(rc == 0);
	rt_sock_close(s);
	rpc_server_close(server, NS_PER_S);
}

struct peer {
	struct input *in;
	struct rt_listener *listener;
};

static void peer_main(void *arg)
{
	struct peer *p = arg;
	struct rt_sock *s = NULL;
	/* Accepts a connection each time the client connects. */
	while (rt_accept(p->listener, &s) == 0) {
		send_all(s, p->in);
		rt_sock_shutdown(s);
		rt_sock_close(s);
	}
}

static void fuzz_client(struct input *in, struct rt_pool *pool)
{
	struct peer p = {.in = in};
	struct rt_fiber *peer = NULL;
	int rc = rt_listen(&p.listener, ADDR);
	if (rc == 0)
		rc = rt_spawn(&peer, "peer", peer_main, &p);
	assert(rc == 0);
	rc = call_get(rt_listener_addr(p.listener), pool);
	assert(rc <= 0);
	rt_cancel(peer);
	rt_join(peer);
	rt_listener_close(p.listener);
}

static void process_main(void *arg)
{
	struct input *in = arg;
	struct rt_pool pool;
	rt_pool_init(&pool, 16 * MIB);
	if (in->data[0] % 2 == 0)
		fuzz_server(in, &pool);
	else
		fuzz_client(in, &pool);
	rt_pool_fini(&pool);
	in->done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .size = size};
	if (size < 1)
		return 0;
	fuzz_in_sim(process_main, &in, 600);
	assert(in.done);
	return 0;
}
