// SPDX-License-Identifier: Apache-2.0
/* Payloads that are received into the memory of the caller. */
#include "rpc/client_conn.h"
#include "rpc_raw.h"

#define LEN ((size_t)(600 * 1000))
#define FILLED 0xee

/* Memory for a payload, in pieces. */
struct memory {
	uint8_t *bytes;
	struct rpc_place list[200];
	struct rpc_places places;
};

static void memory_init(struct memory *m, size_t len, size_t pieces)
{
	m->bytes = malloc(len + 1);
	CHECK(m->bytes != NULL && pieces > 0 && pieces <= ARRAY_LEN(m->list));
	memset(m->bytes, FILLED, len + 1);
	size_t at = 0;
	for (size_t i = 0; i < pieces; i++) {
		/* pieces of different lengths, some of them empty */
		size_t n = i + 1 == pieces ? len - at : min_u64((len - at) / 3 * (i % 4), len / 40);
		m->list[i] = (struct rpc_place){.at = m->bytes + at, .len = n, .crc = 1};
		at += n;
	}
	m->places = (struct rpc_places){.list = m->list, .count = pieces};
}

static bool memory_has_blob(const struct memory *m, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (m->bytes[i] != (uint8_t)i)
			return false;
	return m->bytes[len] == FILLED;
}

static void a_payload_lands_in_the_memory_of_the_caller(struct fixture *f)
{
	static const size_t lens[] = {1, 100, 16000, 20000, LEN};
	static const size_t pieces[] = {1, 2, 7, 200};
	uint64_t placed = 0;
	for (size_t i = 0; i < ARRAY_LEN(lens) * ARRAY_LEN(pieces); i++) {
		size_t len = lens[i / ARRAY_LEN(pieces)];
		struct memory m;
		memory_init(&m, len, pieces[i % ARRAY_LEN(pieces)]);
		Terrane__Rpc__Tags q = tags_of(len, "");
		struct rpc_call call = fixture_call(&type_blob, &q);
		call.into = &m.places;
		AUTO_REPLY struct rpc_reply reply;
		CHECK_RC(rpc_call(f->channel, &call, &reply), 0);
		CHECK(reply.payload.buf == NULL && reply.payload.len == len);
		CHECK(reply.payload.crc == crc32c(0, m.bytes, len));
		CHECK(memory_has_blob(&m, len));
		for (size_t k = 0; k < m.places.count; k++)
			CHECK(m.list[k].crc == crc32c(0, m.list[k].at, m.list[k].len));
		placed += len;
		CHECK(rpc_channel_counters(f->channel)->placed_bytes == placed);
		free(m.bytes);
	}
	/* no buffer was taken for a payload */
	struct buf_stats st;
	buf_pool_stats(&f->pool.bufs, &st);
	CHECK(st.gets == 0);
}

static void a_payload_of_another_length_fails_only_its_call(struct fixture *f)
{
	struct memory m;
	memory_init(&m, 20000, 3);
	static const size_t wrong[] = {19999, 20001, LEN};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		Terrane__Rpc__Tags q = tags_of(wrong[i], "");
		struct rpc_call call = fixture_call(&type_blob, &q);
		call.into = &m.places;
		AUTO_REPLY struct rpc_reply reply;
		CHECK_RC(rpc_call(f->channel, &call, &reply), -EMSGSIZE);
		CHECK(m.bytes[0] == FILLED);
		CHECK_RC(fixture_ping(f), 0);
	}
	/* a response without a payload leaves the memory as it is */
	Terrane__Rpc__Tags q = tags_of(1, "");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.into = &m.places;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), 0);
	CHECK(reply.payload.len == 0 && m.bytes[0] == FILLED);
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
	free(m.bytes);
}

/* --- a peer that stops in the middle of a payload ----------------------------------------------- */

struct peer {
	struct fixture *f;
	struct rt_listener *listener;
	struct rt_sock *sock;
	struct memory memory;
	struct rpc_call call;
	Terrane__Rpc__Tags request;
	int rc;
	bool returned;
};

static void call_fiber(void *arg)
{
	struct peer *p = arg;
	AUTO_REPLY struct rpc_reply reply;
	p->rc = rpc_call(p->f->channel, &p->call, &reply);
	p->returned = true;
}

/* Makes the header of a response to the next request. */
static struct raw_frame peer_next(struct peer *p, size_t payload_len)
{
	struct frame_header h;
	char text[256];
	raw_recv(p->sock, &h, text);
	CHECK(h.kind == FRAME_REQUEST);
	struct raw_frame r = raw_request(h.type, h.id, payload_len);
	r.h.kind = FRAME_RESPONSE;
	frame_encode(r.bytes, &r.h);
	return r;
}

/* Begins a call with memory for the payload, and sends the first half of its response. */
static void peer_begin(struct peer *p, struct fixture *f, struct rt_fiber **caller)
{
	*p = (struct peer){.f = f};
	fixture_stop_server(f, 0);
	CHECK_RC(rt_listen(&p->listener, f->addr), 0);
	memory_init(&p->memory, LEN, 5);
	p->request = tags_of(LEN, "");
	p->call = fixture_call(&type_blob, &p->request);
	p->call.into = &p->memory.places;
	CHECK_RC(rt_spawn(caller, "caller", call_fiber, p), 0);
	CHECK_RC(rt_accept(p->listener, &p->sock), 0);
	struct raw_frame r = peer_next(p, LEN);
	AUTO_FREE uint8_t *zeroes = calloc(1, LEN);
	CHECK(zeroes != NULL);
	CHECK_RC(raw_send(p->sock, r.bytes, r.len), 0);
	CHECK_RC(raw_send(p->sock, zeroes, LEN / 2), 0);
	while (f->channel->conn->in.read_bytes == 0 || f->channel->conn->placing == NULL)
		CHECK_RC(rt_sleep_ns(NS_PER_MS), 0);
}

static void peer_end(struct peer *p)
{
	fixture_close_channel(p->f);
	rt_sock_close(p->sock);
	rt_listener_close(p->listener);
}

static void memory_is_free_when_a_cancelled_call_returns(struct fixture *f)
{
	struct peer p;
	struct rt_fiber *caller;
	peer_begin(&p, f, &caller);
	rt_cancel(caller);
	rt_join(caller);
	CHECK_RC(p.rc, -ECANCELED);
	/* A receive into the memory would be an access to freed memory from now on. */
	free(p.memory.bytes);

	/* The connection goes on after the rest of the payload. */
	AUTO_FREE uint8_t *zeroes = calloc(1, LEN);
	CHECK(zeroes != NULL);
	struct frame_header h;
	char text[256];
	raw_recv(p.sock, &h, text);
	CHECK(h.kind == FRAME_CANCEL);
	CHECK_RC(raw_send(p.sock, zeroes, LEN - LEN / 2), 0);
	memory_init(&p.memory, 1000, 3);
	CHECK_RC(rt_spawn(&caller, "caller", call_fiber, &p), 0);
	struct raw_frame r = peer_next(&p, 1000);
	raw_send_frame(p.sock, &r);
	rt_join(caller);
	CHECK_RC(p.rc, 0);
	CHECK(p.memory.bytes[0] == 0 && p.memory.bytes[999] == 0);
	CHECK(p.memory.bytes[1000] == FILLED);
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
	free(p.memory.bytes);
	peer_end(&p);
}

struct cancelled_call {
	struct fixture *f;
	struct memory memory;
	int rc;
};

static void cancelled_fiber(void *arg)
{
	struct cancelled_call *c = arg;
	Terrane__Rpc__Tags q = tags_of(LEN, "");
	struct rpc_call call = fixture_call(&type_blob, &q);
	call.into = &c->memory.places;
	AUTO_REPLY struct rpc_reply reply;
	c->rc = rpc_call(c->f->channel, &call, &reply);
}

static void a_call_with_memory_is_cancelled_at_any_moment(struct fixture *f)
{
	struct cancelled_call c = {.f = f};
	unsigned ended = 0, cancelled = 0;
	CHECK_RC(fixture_ping(f), 0);
	for (unsigned i = 0; i < 40; i++) {
		struct rt_fiber *caller = NULL;
		memory_init(&c.memory, LEN, 200);
		CHECK_RC(rt_spawn(&caller, "caller", cancelled_fiber, &c), 0);
		CHECK_RC(rt_sleep_ns(i * 50ULL * NS_PER_US), 0);
		rt_cancel(caller);
		rt_join(caller);
		CHECK(c.rc == 0 || c.rc == -ECANCELED);
		CHECK(c.rc != 0 || memory_has_blob(&c.memory, LEN));
		ended += c.rc == 0;
		cancelled += c.rc != 0;
		/* a receive into the memory would be an access to freed memory from now on */
		free(c.memory.bytes);
		CHECK_RC(fixture_ping(f), 0);
	}
	CHECK(cancelled > 0 && (ended > 0 || !fixture_is_simulated(f)));
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
}

static void a_lost_connection_ends_a_call_with_memory(struct fixture *f)
{
	struct peer p;
	struct rt_fiber *caller;
	peer_begin(&p, f, &caller);
	rt_sock_shutdown(p.sock);
	rt_join(caller);
	CHECK_RC(p.rc, -ECONNRESET);
	free(p.memory.bytes);
	peer_end(&p);
}

static void changed_bytes_end_a_call_with_memory(struct fixture *f)
{
	struct peer p;
	struct rt_fiber *caller;
	peer_begin(&p, f, &caller);
	AUTO_FREE uint8_t *zeroes = calloc(1, LEN);
	CHECK(zeroes != NULL);
	zeroes[77] = 1;
	CHECK_RC(raw_send(p.sock, zeroes, LEN - LEN / 2), 0);
	rt_join(caller);
	CHECK_RC(p.rc, -EBADMSG);
	CHECK(rpc_channel_counters(f->channel)->bad_payload_crc == 1);
	free(p.memory.bytes);
	peer_end(&p);
}

int main(void)
{
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
		IN_TLS_TOO(a_payload_lands_in_the_memory_of_the_caller),
		IN_TLS_TOO(a_payload_of_another_length_fails_only_its_call),
		IN_EVERY_WORLD(memory_is_free_when_a_cancelled_call_returns),
		IN_TLS_TOO(a_call_with_memory_is_cancelled_at_any_moment),
		IN_EVERY_WORLD(a_lost_connection_ends_a_call_with_memory),
		IN_EVERY_WORLD(changed_bytes_end_a_call_with_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
