// SPDX-License-Identifier: Apache-2.0
/* Peers that send or read slowly must not hold the server's memory while others need it. */
#include "base/buf.h"
#include "rpc/counters.h"
#include "rpc/type.h"
#include "rpc_raw.h"

/* A server with a long stall_ns, so that only memory pressure evicts. */
static void restart_patient(struct fixture *f, uint64_t stall_ns)
{
	fixture_stop_server(f, 0);
	f->connections_max = 64;
	f->stall_ns = stall_ns;
	fixture_start_server(f);
}

struct starver {
	struct fixture *f;
	size_t first_bytes; /* number of bytes of the payload of 1 MiB that are sent at once */
	size_t piece_bytes; /* bytes sent after each pause; 0: none */
	uint64_t pause_ns;
	size_t sent_bytes;
	uint64_t lasted_ns;
};

/* Sends the payload of a request slowly until the server closes the connection. */
static void starver_main(void *arg)
{
	struct starver *v = arg;
	struct raw_frame r = raw_request(type_echo.type, 1, 0);
	AUTO_FREE uint8_t *zeroes = calloc(1, 1 * MIB);
	CHECK(zeroes != NULL);
	r.h.payload_len = 1 * MIB;
	frame_encode(r.bytes, &r.h);
	struct rt_sock *s = raw_connect(v->f);
	uint64_t start = rt_now_ns();
	int rc = raw_send(s, r.bytes, r.len);
	if (rc == 0)
		rc = raw_send(s, zeroes, v->first_bytes);
	v->sent_bytes = v->first_bytes;
	while (rc == 0 && v->piece_bytes > 0 && v->sent_bytes + v->piece_bytes < 1 * MIB) {
		rc = rt_sleep_ns(v->pause_ns);
		if (rc == 0)
			rc = raw_send(s, zeroes, v->piece_bytes);
		v->sent_bytes += v->piece_bytes;
	}
	uint8_t rest[256];
	while (rc == 0 && rt_sock_recv(s, rest, sizeof(rest), 1) > 0)
		;
	v->lasted_ns = rt_now_ns() - start;
	rt_sock_close(s);
}

/* Fetches three blobs on its own connection; returns the longest time of one. */
static uint64_t three_blobs_take(struct fixture *f)
{
	struct rpc_channel *ch = NULL;
	CHECK_RC(rpc_channel_open(&ch, f->addr, &(struct rpc_channel_options){.pool = &f->pool}),
		 0);
	AUTO_BUF struct buf *b = fixture_payload(f, 1 * MIB, 7);
	uint64_t longest = 0;
	for (unsigned i = 0; i < 3; i++) {
		Terrane__Rpc__Tags q = tags_of(i, "blob");
		struct rpc_call call = fixture_call(&type_echo, &q);
		call.payload = slice_of(b);
		uint64_t start = rt_now_ns();
		AUTO_REPLY struct rpc_reply reply;
		CHECK_RC(rpc_call(ch, &call, &reply), 0);
		CHECK(reply.payload.len == b->len);
		longest = max_u64(longest, rt_now_ns() - start);
	}
	rpc_channel_close(ch);
	return longest;
}

/* Forty clients send headers of 1 MiB each to a server with 16 MiB, and then stop or send
 * slowly: other clients are served. */
static void slow_senders_do_not_keep_the_memory(struct fixture *f)
{
	static const struct starver kinds[] = {
		{.first_bytes = 1000},
		{.first_bytes = 100000},
		{.first_bytes = 100000, .piece_bytes = 1000, .pause_ns = 100 * NS_PER_MS},
		{.first_bytes = 300000, .piece_bytes = 10000, .pause_ns = 1 * NS_PER_S},
	};
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		restart_patient(f, 30 * NS_PER_S);
		struct starver starvers[40];
		struct rt_group g;
		rt_group_init(&g);
		for (size_t i = 0; i < ARRAY_LEN(starvers); i++) {
			starvers[i] = kinds[k];
			starvers[i].f = f;
			CHECK_RC(rt_group_spawn(&g, "starver", starver_main, &starvers[i]), 0);
		}
		CHECK_RC(rt_sleep_ns(200 * NS_PER_MS), 0);
		CHECK(three_blobs_take(f) < 9 * NS_PER_S);
		struct rpc_server_stats stats;
		rpc_server_stats(f->server, &stats);
		CHECK(stats.incoming_peak_bytes <= 8 * MIB);
		/* A connection that holds no memory is not evicted. */
		uint64_t evicted = rpc_server_counters(f->server)->evicted;
		CHECK(kinds[k].first_bytes == 1000 ? evicted == 0 : evicted >= 8);
		CHECK(rpc_server_counters(f->server)->stalled_frames == 0);
		rt_group_cancel(&g);
		rt_group_join(&g);
	}
}

/* No other request needs the memory: a slow sender is allowed, up to the deadline of the
 * complete payload. */
static void a_payload_in_slow_pieces_is_closed_in_the_end(struct fixture *f)
{
	restart_patient(f, 4 * NS_PER_S);
	struct starver slow = {
		.f = f, .first_bytes = 1000, .piece_bytes = 100 * KIB, .pause_ns = 1 * NS_PER_S};
	starver_main(&slow);
	CHECK(slow.sent_bytes > 400 * KIB && slow.sent_bytes < 800 * KIB);
	CHECK(slow.lasted_ns >= 5 * NS_PER_S && slow.lasted_ns < 8 * NS_PER_S);
	CHECK(rpc_server_counters(f->server)->stalled_frames == 1);
	CHECK(rpc_server_counters(f->server)->evicted == 0);
}

/* Requests blobs of 1 MiB and reads nothing, or a little after each pause, until the server
 * closes the connection. */
struct deaf {
	struct fixture *f;
	size_t piece_bytes;
	uint64_t pause_ns;
};

static void deaf_main(void *arg)
{
	struct deaf *v = arg;
	struct rt_sock *s = raw_connect(v->f);
	uint8_t piece[4096];
	int64_t rc = 0;
	for (uint64_t id = 1; rc == 0 && id <= 4; id++) {
		struct raw_frame r = raw_request(type_blob.type, 1 * MIB, 0);
		r.h.id = id;
		frame_encode(r.bytes, &r.h);
		rc = raw_send(s, r.bytes, r.len);
	}
	do {
		rc = rt_sleep_ns(v->pause_ns);
		if (rc == 0 && v->piece_bytes > 0)
			rc = rt_sock_recv(s, piece, v->piece_bytes, 1) > 0 ? 0 : -EPIPE;
	} while (rc == 0);
	rt_sock_close(s);
}

/* Forty clients request 4 MiB each from a server with 16 MiB and do not read: other clients are
 * served. */
static void slow_readers_do_not_keep_the_memory(struct fixture *f)
{
	static const struct deaf kinds[] = {
		{.pause_ns = 1 * NS_PER_S},
		{.pause_ns = 10 * NS_PER_MS, .piece_bytes = 1000},
	};
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		restart_patient(f, 30 * NS_PER_S);
		struct deaf deaf[40];
		struct rt_group g;
		rt_group_init(&g);
		for (size_t i = 0; i < ARRAY_LEN(deaf); i++) {
			deaf[i] = kinds[k];
			deaf[i].f = f;
			CHECK_RC(rt_group_spawn(&g, "deaf", deaf_main, &deaf[i]), 0);
		}
		CHECK_RC(rt_sleep_ns(200 * NS_PER_MS), 0);
		CHECK(three_blobs_take(f) < 20 * NS_PER_S);
		CHECK(rpc_server_counters(f->server)->evicted >= 4);
		CHECK(rpc_server_counters(f->server)->stalled_writes == 0);
		rt_group_cancel(&g);
		rt_group_join(&g);
	}
}

int main(void)
{
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
		IN_WORLD(slow_senders_do_not_keep_the_memory, "sim"),
		IN_WORLD(a_payload_in_slow_pieces_is_closed_in_the_end, "sim"),
		IN_WORLD(slow_readers_do_not_keep_the_memory, "sim"),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
