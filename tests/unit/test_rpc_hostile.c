// SPDX-License-Identifier: Apache-2.0
/*
 * Malformed and hostile peers, byte by byte: the peer gets an error or a closed connection, a
 * counter increases, memory stays within its limits, and other connections are not affected.
 */
#include "base/buf.h"
#include "rpc/counters.h"
#include "rpc/type.h"
#include "rpc_raw.h"

/* --- a stream that has lost its place -------------------------------------------------------- */

static void spoil_magic(struct raw_frame *f)
{
	f->bytes[0] ^= 1;
}

static void spoil_version(struct raw_frame *f)
{
	f->bytes[4] = 9;
	raw_seal(f->bytes);
}

static void spoil_header(struct raw_frame *f)
{
	f->bytes[17] ^= 0x40;
}

static void spoil_field(struct raw_frame *f)
{
	f->bytes[55] = 1;
	raw_seal(f->bytes);
}

static void spoil_body_len(struct raw_frame *f)
{
	f->h.body_len = 300 * 1024;
	frame_encode(f->bytes, &f->h);
}

static void spoil_payload_len(struct raw_frame *f)
{
	f->h.payload_len = UINT32_MAX;
	f->h.payload_crc = 1;
	frame_encode(f->bytes, &f->h);
}

static void spoil_kind(struct raw_frame *f)
{
	f->h.kind = FRAME_RESPONSE;
	frame_encode(f->bytes, &f->h);
}

static void a_bad_header_is_answered_with_a_goodbye_and_the_end(struct fixture *f)
{
	const struct rpc_counters *n = rpc_server_counters(f->server);
	const struct {
		void (*spoil)(struct raw_frame *f);
		const uint64_t *counter;
		int err;
	} cases[] = {
		{spoil_magic, &n->bad_magic, EPROTO},
		{spoil_version, &n->bad_version, EPROTO},
		{spoil_header, &n->bad_header_crc, EBADMSG},
		{spoil_field, &n->bad_field, EPROTO},
		{spoil_body_len, &n->too_large, EMSGSIZE},
		{spoil_payload_len, &n->too_large, EMSGSIZE},
		{spoil_kind, &n->unexpected_frame, EPROTO},
	};
	CHECK_RC(fixture_ping(f), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct rt_sock *s = raw_connect(f);
		raw_expect_alive(s, 1);
		uint64_t before = *cases[i].counter;
		struct raw_frame bad = raw_request(1, 2, 0);
		cases[i].spoil(&bad);
		raw_send_frame(s, &bad);
		struct frame_header h;
		char text[256];
		raw_recv(s, &h, text);
		CHECK(h.kind == FRAME_GOODBYE && h.status == (uint32_t)cases[i].err);
		CHECK(text[0] != 0);
		raw_expect_closed(s);
		rt_sock_close(s);
		CHECK(*cases[i].counter == before + 1);
		CHECK_RC(fixture_ping(f), 0);
	}
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
}

/* --- a frame that is wrong, in a stream that is whole ----------------------------------------- */

static void spoil_body(struct raw_frame *f)
{
	f->bytes[FRAME_HEADER_BYTES] ^= 1;
}

static void spoil_payload_crc(struct raw_frame *f)
{
	f->h.payload_crc ^= 1;
	frame_encode(f->bytes, &f->h);
}

static void spoil_message(struct raw_frame *f)
{
	uint8_t *body = f->bytes + FRAME_HEADER_BYTES;
	body[0] = 0x0b; /* starts a field of wire type group, which is not allowed */
	f->h.meta_crc = crc32c(0, body, f->h.body_len);
	frame_encode(f->bytes, &f->h);
}

static void spoil_context(struct raw_frame *f)
{
	f->h.context_len = f->h.body_len; /* the body is no context */
	f->h.body_len = 0;
	frame_encode(f->bytes, &f->h);
}

static void spoil_type(struct raw_frame *f)
{
	f->h.type = 4711;
	frame_encode(f->bytes, &f->h);
}

static void use_type_without_payload(struct raw_frame *f)
{
	f->h.type = type_fail.type;
	frame_encode(f->bytes, &f->h);
}

static void a_bad_request_is_refused_and_the_connection_lives(struct fixture *f)
{
	const struct rpc_counters *n = rpc_server_counters(f->server);
	const struct {
		void (*spoil)(struct raw_frame *f);
		const uint64_t *counter;
		int err;
	} cases[] = {
		{spoil_body, &n->bad_body_crc, EBADMSG},
		{spoil_payload_crc, &n->bad_payload_crc, EBADMSG},
		{spoil_message, &n->bad_body, EINVAL},
		{spoil_context, &n->bad_body, EINVAL},
		{spoil_type, &n->unknown_type, ENOSYS},
		{use_type_without_payload, &n->too_large, EMSGSIZE},
	};
	struct rt_sock *s = raw_connect(f);
	uint64_t requests = n->requests;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t before = *cases[i].counter;
		struct raw_frame bad = raw_request(1, 100 + i, 70000);
		cases[i].spoil(&bad);
		raw_send_frame(s, &bad);
		struct frame_header h;
		char text[256];
		raw_recv(s, &h, text);
		CHECK(h.kind == FRAME_RESPONSE && h.id == 100 + i);
		CHECK(h.status == (uint32_t)cases[i].err && h.flags == FRAME_NOT_EXECUTED);
		CHECK(text[0] != 0 && *cases[i].counter == before + 1);
		raw_expect_alive(s, 200 + i);
	}
	CHECK(n->requests == requests + ARRAY_LEN(cases));
	struct buf_stats stats;
	buf_pool_stats(&f->server_pool.bufs, &stats);
	CHECK(stats.in_use_bytes == 0);
	rt_sock_close(s);
}

static void a_malformed_body_is_not_sent_again(struct fixture *f)
{
	Terrane__Rpc__Tags q = tags_of(1, "\xff");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.retry = true;
	call.timeout_ns = 0;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), -EINVAL);
	CHECK(strstr(reply.error, "the body is malformed") != NULL && !reply.maybe_executed);
	CHECK(rpc_channel_counters(f->channel)->retries == 0);
	CHECK(rpc_server_counters(f->server)->bad_body == 1);
}

struct patient {
	struct fixture *f;
	const struct rpc_call *call;
	int rc;
	bool maybe_executed;
};

static void patient_main(void *arg)
{
	struct patient *p = arg;
	AUTO_REPLY struct rpc_reply reply;
	p->rc = rpc_call(p->f->channel, p->call, &reply);
	p->maybe_executed = reply.maybe_executed;
}

/* The checksum is wrong each time, as with a defective network card. */
static int call_with_bad_payload(struct fixture *f, uint64_t timeout_ns, struct rpc_reply *reply)
{
	AUTO_BUF struct buf *b = fixture_payload(f, 5000, 1);
	Terrane__Rpc__Tags q = tags_of(1, "");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.payload = slice_of(b);
	call.payload.crc ^= 1;
	call.retry = true;
	call.timeout_ns = timeout_ns;
	return rpc_call(f->channel, &call, reply);
}

static void retries_pause_and_when_time_runs_out_the_reason_is_told(struct fixture *f)
{
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(call_with_bad_payload(f, 3 * NS_PER_S, &reply), -EBADMSG);
	CHECK(strstr(reply.error, "the payload does not match its checksum") != NULL);
	/* In real time the last try may have been sent without an answer. */
	CHECK(!reply.maybe_executed || !fixture_is_simulated(f));
	CHECK(reply.message == NULL);
	/* 10, 20, 40, 80, then every 100 ms at most, each no less than half of that. */
	uint64_t retries = rpc_channel_counters(f->channel)->retries;
	CHECK(retries <= 65);
	CHECK(retries >= 25 || !fixture_is_simulated(f));
}

static void retries_end_also_without_a_deadline(struct fixture *f)
{
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(call_with_bad_payload(f, 0, &reply), -EBADMSG);
	CHECK(strstr(reply.error, "checksum (after 64 tries)") != NULL);
	CHECK(rpc_server_counters(f->server)->bad_payload_crc == RPC_TRIES_MAX);
	CHECK(rpc_channel_counters(f->channel)->retries == RPC_TRIES_MAX - 1);
}

/* The connection of the first try is lost and no second one is made: the call returns the error
 * of the first try. */
static void a_lost_try_is_told_when_no_other_can_be_made(struct fixture *f)
{
	Terrane__Rpc__Tags q = tags_of(60000, "");
	struct rpc_call call = fixture_call(&type_sleep, &q);
	call.retry = true;
	call.timeout_ns = 2 * NS_PER_S;
	struct patient p = {.f = f, .call = &call};
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "patient", patient_main, &p), 0);
	fixture_await(&f->service.sleeping, 1);
	f->service.deaf = true; /* the service does not answer when it is cancelled */
	fixture_stop_server(f, 0);
	rt_join(fiber);
	CHECK_RC(p.rc, -ECONNRESET);
	CHECK(p.maybe_executed);
}

static void a_body_that_swells_is_refused(struct fixture *f)
{
	enum { BODY = 200 * 1024 };
	AUTO_FREE uint8_t *raw = malloc(FRAME_HEADER_BYTES + BODY);
	CHECK(raw != NULL);
	uint8_t *body = raw + FRAME_HEADER_BYTES;
	for (size_t i = 0; i < BODY; i += 2) {
		body[i] = 0x78;
		body[i + 1] = 1;
	}
	struct frame_header h = {.kind = FRAME_REQUEST,
				 .type = 1,
				 .id = 1,
				 .body_len = BODY,
				 .meta_crc = crc32c(0, body, BODY)};
	frame_encode(raw, &h);
	struct rt_sock *s = raw_connect(f);
	CHECK_RC(raw_send(s, raw, FRAME_HEADER_BYTES + BODY), 0);
	char text[256];
	raw_recv(s, &h, text);
	CHECK(h.status == EMSGSIZE && rpc_server_counters(f->server)->too_large == 1);
	raw_expect_alive(s, 2);
	rt_sock_close(s);
}

static void a_cancel_for_nothing_does_no_harm(struct fixture *f)
{
	struct rt_sock *s = raw_connect(f);
	struct raw_frame c = {.h = {.kind = FRAME_CANCEL, .id = 5}, .len = FRAME_HEADER_BYTES};
	frame_encode(c.bytes, &c.h);
	raw_send_frame(s, &c);
	raw_expect_alive(s, 5);
	rt_sock_close(s);
}

/* --- silence --------------------------------------------------------------------------------- */

static void half_a_frame_and_silence_is_closed(struct fixture *f)
{
	const struct rpc_counters *n = rpc_server_counters(f->server);
	struct raw_frame r = raw_request(1, 1, 70000);
	const size_t cuts[] = {1, FRAME_HEADER_BYTES - 1, FRAME_HEADER_BYTES, r.len - 1, r.len};
	for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
		struct rt_sock *s = raw_connect(f);
		CHECK_RC(raw_send(s, r.bytes, cuts[i]), 0);
		raw_expect_closed(s);
		rt_sock_close(s);
		CHECK(n->stalled_frames == i + 1);
		CHECK_RC(fixture_ping(f), 0);
	}
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
}

/* The peer closes the connection in the middle of a frame, long before the server would give up the rest. */
static void half_a_frame_and_the_end_is_a_cut_frame(struct fixture *f)
{
	fixture_stop_server(f, 0);
	f->stall_ns = 600 * NS_PER_S;
	fixture_start_server(f);
	const struct rpc_counters *n = rpc_server_counters(f->server);
	struct raw_frame r = raw_request(1, 1, 70000);
	const size_t cuts[] = {1, FRAME_HEADER_BYTES - 1, FRAME_HEADER_BYTES, r.len - 1, r.len};
	for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
		struct rt_sock *s = raw_connect(f);
		CHECK_RC(raw_send(s, r.bytes, cuts[i]), 0);
		CHECK_RC(rt_sleep_ns(20 * NS_PER_MS), 0);
		rt_sock_close(s);
		fixture_await(&n->cut_frames, i + 1);
	}
	CHECK(n->stalled_frames == 0);
}

static void silence_between_frames_is_fine(struct fixture *f)
{
	struct rt_sock *s = raw_connect(f);
	CHECK_RC(rt_sleep_ns(2 * FIXTURE_STALL_NS), 0);
	raw_expect_alive(s, 1);
	CHECK_RC(rt_sleep_ns(2 * FIXTURE_STALL_NS), 0);
	raw_expect_alive(s, 2);
	rt_sock_close(s);
}

/* --- too much -------------------------------------------------------------------------------- */

static void connections_beyond_the_limit_are_told_and_closed(struct fixture *f)
{
	struct rt_sock *socks[FIXTURE_CONNECTIONS];
	for (size_t i = 0; i < ARRAY_LEN(socks); i++) {
		socks[i] = raw_connect(f);
		raw_expect_alive(socks[i], 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		struct rt_sock *s = raw_connect(f);
		struct frame_header h;
		char text[256];
		raw_recv(s, &h, text);
		CHECK(h.kind == FRAME_GOODBYE && h.status == EAGAIN);
		raw_expect_closed(s);
		rt_sock_close(s);
	}
	CHECK(rpc_server_counters(f->server)->refused_connections == 3);
	CHECK(fixture_ping(f) < 0);
	raw_expect_alive(socks[0], 2);
	rt_sock_close(socks[0]);
	uint64_t connections = rpc_server_counters(f->server)->connections;
	while (fixture_ping(f) < 0)
		CHECK_RC(rt_sleep_ns(10 * NS_PER_MS), 0);
	CHECK(rpc_server_counters(f->server)->connections == connections + 1);
	for (size_t i = 1; i < ARRAY_LEN(socks); i++)
		rt_sock_close(socks[i]);
}

static void a_thousand_connections_are_served_and_no_more(struct fixture *f)
{
	enum { MANY = 1000 };
	AUTO_FREE struct rt_sock **socks = calloc(MANY, sizeof(struct rt_sock *));
	CHECK(socks != NULL);
	fixture_stop_server(f, 0);
	f->connections_max = MANY;
	fixture_start_server(f);
	for (size_t i = 0; i < MANY; i++)
		socks[i] = raw_connect(f);
	for (size_t i = 0; i < MANY; i++)
		raw_expect_alive(socks[i], i + 1);
	CHECK(fixture_ping(f) < 0);
	CHECK(rpc_server_counters(f->server)->refused_connections == 1);
	for (size_t i = 0; i < MANY; i++)
		rt_sock_close(socks[i]);
	struct rpc_server_stats stats = {.connections = MANY};
	while (stats.connections > 0) {
		CHECK_RC(rt_sleep_ns(NS_PER_MS), 0);
		rpc_server_stats(f->server, &stats);
	}
}

/* Requests 64 MiB and reads nothing: the server holds a bounded part of it, for a bounded time. */
static void a_peer_that_does_not_read_takes_bounded_memory(struct fixture *f)
{
	struct rt_sock *s = raw_connect(f);
	for (unsigned i = 0; i < 64; i++) {
		struct raw_frame r = raw_request(type_blob.type, 1 * MIB, 0);
		raw_send_frame(s, &r);
	}
	for (unsigned i = 0; i < 5; i++) {
		CHECK_RC(rt_sleep_ns(FIXTURE_STALL_NS / 10), 0);
		CHECK_RC(fixture_ping(f), 0);
	}
	struct buf_stats pool;
	struct rpc_server_stats stats;
	buf_pool_stats(&f->server_pool.bufs, &pool);
	rpc_server_stats(f->server, &stats);
	CHECK(pool.peak_bytes <= FIXTURE_SHARE_BYTES + 2 * OUT_BULK_BYTES);
	CHECK(stats.share_peak_bytes <= FIXTURE_SHARE_BYTES);
	CHECK(stats.out_queue_peak <= 2 * (OUT_BULK_BYTES + OUT_BATCH_BYTES));
	fixture_await(&rpc_server_counters(f->server)->stalled_writes, 1);
	rt_sock_close(s);
	uint64_t end_ns = rt_now_ns() + FIXTURE_PATIENCE_NS;
	while (pool.in_use_bytes > 0 && rt_now_ns() < end_ns) {
		CHECK_RC(rt_sleep_ns(10 * NS_PER_MS), 0);
		buf_pool_stats(&f->server_pool.bufs, &pool);
	}
	CHECK(pool.in_use_bytes == 0);
}

static void a_flood_of_requests_runs_a_few_at_a_time(struct fixture *f)
{
	struct rt_sock *s = raw_connect(f);
	for (unsigned i = 0; i < 500; i++) {
		struct raw_frame r = raw_request(type_sleep.type, 50, 0);
		raw_send_frame(s, &r);
	}
	for (unsigned i = 0; i < 500; i++) {
		struct frame_header h;
		char text[256];
		raw_recv(s, &h, text);
		CHECK(h.status == 0);
	}
	struct rpc_server_stats stats;
	rpc_server_stats(f->server, &stats);
	CHECK(stats.in_flight_peak == FIXTURE_IN_FLIGHT);
	rt_sock_close(s);
}

/* --- a hostile server ------------------------------------------------------------------------ */

enum trick {
	TRICK_GARBAGE,
	TRICK_CUT,
	TRICK_WRONG_ID,
	TRICK_WRONG_TYPE,
	TRICK_BAD_BODY_CRC,
	TRICK_BAD_BODY,
	TRICK_TOO_LARGE,
	TRICK_BAD_PAYLOAD_CRC,
	TRICK_SILENCE,
	TRICK_COUNT,
	/* no answer on the first connection; on the second one the request is refused and was not executed */
	TRICK_LOST_THEN_REFUSED,
};

struct false_server {
	struct rt_listener *listener;
	enum trick trick;
	unsigned requests;
};

static void play_trick(struct rt_sock *s, enum trick trick, const struct frame_header *to)
{
	struct raw_frame r =
		raw_request(to->type, to->id, trick == TRICK_BAD_PAYLOAD_CRC ? 70000 : 0);
	r.h.kind = FRAME_RESPONSE;
	if (trick == TRICK_WRONG_ID)
		r.h.id += 100;
	if (trick == TRICK_WRONG_TYPE)
		r.h.type++;
	if (trick == TRICK_BAD_BODY_CRC)
		r.h.meta_crc ^= 1;
	if (trick == TRICK_BAD_PAYLOAD_CRC)
		r.h.payload_crc ^= 1;
	if (trick == TRICK_BAD_BODY)
		spoil_message(&r);
	if (trick == TRICK_TOO_LARGE)
		r.h.body_len = RPC_BODY_MAX + 1;
	frame_encode(r.bytes, &r.h);
	if (trick == TRICK_GARBAGE)
		memset(r.bytes, 0xee, r.len);
	if (trick == TRICK_CUT)
		r.len -= 3;
	if (trick != TRICK_SILENCE)
		raw_send_frame(s, &r);
}

static void refuse_unexecuted(struct rt_sock *s, const struct frame_header *to)
{
	struct raw_frame r = {.len = FRAME_HEADER_BYTES,
			      .h = {.kind = FRAME_RESPONSE,
				    .type = to->type,
				    .id = to->id,
				    .status = EPERM,
				    .flags = FRAME_NOT_EXECUTED}};
	frame_encode(r.bytes, &r.h);
	raw_send_frame(s, &r);
}

static void false_server_main(void *arg)
{
	static const struct frame_limits limits = {.body_max = 4096, .payload_max = 0};
	struct false_server *fs = arg;
	for (;;) {
		struct rt_sock *s = NULL;
		if (rt_accept(fs->listener, &s) < 0)
			return;
		uint8_t raw[FRAME_HEADER_BYTES];
		uint8_t body[4096];
		struct frame_header h;
		CHECK_RC(rt_sock_recv(s, raw, sizeof(raw), sizeof(raw)), sizeof(raw));
		CHECK_RC(frame_decode(&h, raw, &limits, NULL), 0);
		CHECK_RC(rt_sock_recv(s, body, h.body_len, h.body_len), h.body_len);
		fs->requests++;
		if (fs->trick == TRICK_LOST_THEN_REFUSED && fs->requests > 1)
			refuse_unexecuted(s, &h);
		else if (fs->trick != TRICK_LOST_THEN_REFUSED)
			play_trick(s, fs->trick, &h);
		if (fs->trick != TRICK_CUT &&
		    (fs->trick != TRICK_LOST_THEN_REFUSED || fs->requests > 1))
			(void)rt_sock_recv(s, body, 1, 1);
		rt_sock_close(s);
	}
}

/* Makes one call to a server that misbehaves as given. */
static void call_false_server(struct fixture *f, enum trick trick, int want)
{
	struct false_server fs = {.trick = trick};
	CHECK_RC(rt_listen(&fs.listener, f->addr), 0);
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "false-server", false_server_main, &fs), 0);
	fixture_open_channel(f);
	Terrane__Rpc__Tags q = tags_of(1, "");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.timeout_ns = want == -ETIME ? NS_PER_S : FIXTURE_PATIENCE_NS;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), want);
	CHECK(reply.maybe_executed && reply.message == NULL);
	if (trick == TRICK_SILENCE)
		CHECK(rpc_channel_counters(f->channel)->silent_peers == 1);
	if (trick == TRICK_WRONG_ID)
		CHECK(rpc_channel_counters(f->channel)->late == 1);
	fixture_close_channel(f);
	rt_cancel(fiber);
	rt_join(fiber);
	rt_listener_close(fs.listener);
}

static void a_false_server_harms_only_the_call(struct fixture *f)
{
	static const int wanted[TRICK_COUNT] = {
		[TRICK_GARBAGE] = -ECONNRESET,   [TRICK_CUT] = -ECONNRESET,
		[TRICK_WRONG_ID] = -ETIME,       [TRICK_WRONG_TYPE] = -ECONNRESET,
		[TRICK_BAD_BODY_CRC] = -EBADMSG, [TRICK_BAD_BODY] = -EBADMSG,
		[TRICK_TOO_LARGE] = -ECONNRESET, [TRICK_BAD_PAYLOAD_CRC] = -EBADMSG,
		[TRICK_SILENCE] = -ETIME,
	};
	fixture_stop_server(f, 0);
	fixture_close_channel(f);
	for (enum trick t = 0; t < TRICK_COUNT; t++)
		call_false_server(f, t, wanted[t]);
}

/* The first try of a repeated call may have been executed, whatever is known of the last one. */
static void a_try_in_doubt_is_not_forgotten_over_the_next_one(struct fixture *f)
{
	struct false_server fs = {.trick = TRICK_LOST_THEN_REFUSED};
	fixture_stop_server(f, 0);
	fixture_close_channel(f);
	CHECK_RC(rt_listen(&fs.listener, f->addr), 0);
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "false-server", false_server_main, &fs), 0);
	fixture_open_channel(f);
	Terrane__Rpc__Tags q = tags_of(1, "");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.timeout_ns = FIXTURE_PATIENCE_NS;
	call.retry = true;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), -EPERM);
	CHECK(fs.requests == 2 && reply.maybe_executed);
	fixture_close_channel(f);
	rt_cancel(fiber);
	rt_join(fiber);
	rt_listener_close(fs.listener);
}

struct log_seen {
	unsigned info;
	unsigned debug;
};

static void see_log(void *ctx, const char *line, size_t len)
{
	struct log_seen *seen = ctx;
	if (memmem(line, len, "rpc_connection_lost", 19) == NULL)
		return;
	seen->info += memmem(line, len, "info ", 5) != NULL;
	seen->debug += memmem(line, len, "debug ", 6) != NULL;
}

/* The call fails with -ECONNRESET, which the caller reports. */
static void a_loss_that_a_caller_is_told_of_is_not_logged_as_news(struct fixture *f)
{
	struct log_seen seen = {0};
	struct log_config config = {.level = LOG_DEBUG, .ctx = &seen, .write = see_log};
	fixture_stop_server(f, 0);
	fixture_close_channel(f);
	log_setup(&config);
	call_false_server(f, TRICK_GARBAGE, -ECONNRESET);
	log_setup(NULL);
	log_set_level(LOG_ERROR);
	CHECK(seen.info == 0 && seen.debug == 1);
}

int main(void)
{
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
		IN_EVERY_WORLD(a_bad_header_is_answered_with_a_goodbye_and_the_end),
		IN_EVERY_WORLD(a_bad_request_is_refused_and_the_connection_lives),
		IN_EVERY_WORLD(a_malformed_body_is_not_sent_again),
		IN_EVERY_WORLD(retries_pause_and_when_time_runs_out_the_reason_is_told),
		IN_WORLD(retries_end_also_without_a_deadline, "sim"),
		IN_WORLD(a_lost_try_is_told_when_no_other_can_be_made, "sim"),
		IN_EVERY_WORLD(a_body_that_swells_is_refused),
		IN_EVERY_WORLD(a_cancel_for_nothing_does_no_harm),
		IN_EVERY_WORLD(half_a_frame_and_silence_is_closed),
		IN_EVERY_WORLD(half_a_frame_and_the_end_is_a_cut_frame),
		IN_EVERY_WORLD(silence_between_frames_is_fine),
		IN_EVERY_WORLD(connections_beyond_the_limit_are_told_and_closed),
		IN_WORLD(a_thousand_connections_are_served_and_no_more, "sim"),
		IN_EVERY_WORLD(a_peer_that_does_not_read_takes_bounded_memory),
		IN_EVERY_WORLD(a_flood_of_requests_runs_a_few_at_a_time),
		IN_EVERY_WORLD(a_false_server_harms_only_the_call),
		IN_EVERY_WORLD(a_try_in_doubt_is_not_forgotten_over_the_next_one),
		IN_EVERY_WORLD(a_loss_that_a_caller_is_told_of_is_not_logged_as_news),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
