// SPDX-License-Identifier: Apache-2.0
/* Authenticated connections: both ends prove their keys, and whoever does not gets nothing but an end. */
#include "auth/credentials.h"
#include "rpc/counters.h"
#include "rpc_raw.h"
#include "secure/secure.h"

#define CLUSTER_HIGH 5
#define CLUSTER_LOW 6
#define NODE 7

static const uint8_t root[MAC_KEY_BYTES] = {4, 2};

/* A server that knows "alice" by the keys of the root. */
struct world {
	struct secure_guard guard;
	struct secure_self self;
	struct credentials *credentials;
	uint64_t finds;
	int find_rc;      /* error of every lookup; 0: none */
	uint8_t extra;    /* added to the key: the server does not know the right one */
	uint64_t find_ns; /* duration of a lookup */
	uint64_t unproved;
};

static int find(void *ctx, const char *name, struct session *out, uint8_t key[MAC_KEY_BYTES])
{
	struct world *w = ctx;
	uint8_t secret[MAC_KEY_BYTES];
	w->finds++;
	int rc = w->find_ns != 0 ? rt_sleep_ns(w->find_ns) : w->find_rc;
	if (rc != 0)
		return rc;
	if (strcmp(name, "alice") != 0)
		return -ENOENT;
	CHECK_RC(secure_identity_secret(root, name, 3, secret), 0);
	CHECK_RC(secure_key(secret, w->guard.place.server, key), 0);
	key[0] = (uint8_t)(key[0] + w->extra);
	*out = (struct session){
		.identity = 11, .key_version = 3, .cluster_ops = 1u << OP_CLUSTER_READ};
	snprintf(out->name, sizeof(out->name), "%s", name);
	return 0;
}

/* The key that the server kept was old; now it asks for the right one. */
static void unproved(void *ctx, const char *name)
{
	struct world *w = ctx;
	CHECK(strcmp(name, "alice") == 0);
	w->unproved++;
	w->extra = 0;
}

/* Restarts the server with a guard, and opens a channel with the credentials of alice, version 3. */
static void begin(struct fixture *f, struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->guard = (struct secure_guard){
		.place = {.cluster_high = CLUSTER_HIGH, .cluster_low = CLUSTER_LOW, .server = NODE},
		.decoy = {1, 2, 3},
		.find = find,
		.ctx = w,
	};
	w->credentials = credentials_new();
	CHECK(w->credentials != NULL);
	w->credentials->cluster_high = CLUSTER_HIGH;
	w->credentials->cluster_low = CLUSTER_LOW;
	w->credentials->version = 3;
	snprintf(w->credentials->identity, sizeof(w->credentials->identity), "alice");
	CHECK_RC(secure_identity_secret(root, "alice", 3, w->credentials->secret), 0);
	w->self.credentials = w->credentials;
	fixture_close_channel(f);
	fixture_stop_server(f, 0);
	f->guard = &w->guard;
	f->self = &w->self;
	f->server_id = NODE;
	fixture_start_server(f);
	fixture_open_channel(f);
}

static void end(struct fixture *f, struct world *w)
{
	fixture_close_channel(f);
	fixture_stop_server(f, 0);
	credentials_free(w->credentials);
}

static uint64_t requests(const struct fixture *f)
{
	return rpc_server_counters(f->server)->requests;
}

/* --- good and bad credentials ----------------------------------------------------------------- */

static void a_request_has_the_identity_that_the_client_proved(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	CHECK_RC(fixture_ping(f), 0);
	CHECK_RC(fixture_ping(f), 0);
	CHECK(strcmp(f->service.who, "alice") == 0);
	CHECK(w.finds == 1); /* once for a connection, not for a request */
	CHECK(rpc_server_counters(f->server)->refused_handshakes == 0);
	end(f, &w);
}

static void wrong_credentials_run_nothing(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	w.credentials->secret[31] ^= 1;
	CHECK_RC(fixture_ping_apart(f), -EACCES);
	/* the version before, and a name that does not exist, look the same */
	CHECK_RC(secure_identity_secret(root, "alice", 2, w.credentials->secret), 0);
	CHECK_RC(fixture_ping_apart(f), -EACCES);
	CHECK_RC(secure_identity_secret(root, "carol", 3, w.credentials->secret), 0);
	snprintf(w.credentials->identity, sizeof(w.credentials->identity), "carol");
	CHECK_RC(fixture_ping_apart(f), -EACCES);
	CHECK(requests(f) == 0);
	fixture_await(&rpc_server_counters(f->server)->refused_handshakes, 3);
	end(f, &w);
}

static void a_refused_call_with_retry_ends_at_once(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	w.credentials->secret[0] ^= 1;
	Terrane__Rpc__Tags q = tags_of(1, "x");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.retry = true;
	call.timeout_ns = 3600 * NS_PER_S;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), -EACCES);
	CHECK(strstr(reply.error, "credentials") != NULL && !reply.maybe_executed);
	end(f, &w);
}

static void a_server_that_does_not_know_the_key_gets_no_request(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	w.extra = 1;
	CHECK_RC(fixture_ping(f), -EACCES);
	CHECK(requests(f) == 0);
	end(f, &w);
}

static void replaced_credentials_are_accepted_at_the_second_try(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	w.extra = 1;
	w.guard.unproved = unproved;
	CHECK_RC(fixture_ping(f), 0);
	CHECK(w.unproved == 1 && w.finds == 2);
	/* wrong ones are not, and are not tried for ever */
	w.credentials->secret[0] ^= 1;
	CHECK_RC(fixture_ping_apart(f), -EACCES);
	fixture_await(&w.unproved, 3);
	CHECK(w.finds == 4);
	end(f, &w);
}

static void a_node_cannot_pass_for_another(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	f->server_id = NODE + 1;
	CHECK_RC(fixture_ping_apart(f), -EHOSTUNREACH);
	/* The node claims to be the other one, but has the key that alice uses towards itself. */
	uint8_t own[MAC_KEY_BYTES], other[MAC_KEY_BYTES];
	CHECK_RC(secure_key(w.credentials->secret, NODE, own), 0);
	CHECK_RC(secure_key(w.credentials->secret, NODE + 1, other), 0);
	w.extra = (uint8_t)(own[0] - other[0]);
	CHECK(memcmp(own, other, sizeof(own)) != 0);
	w.guard.place.server = NODE + 1;
	CHECK_RC(fixture_ping_apart(f), w.extra == 0 ? 0 : -EACCES);
	w.guard.place.server = NODE;
	w.credentials->cluster_low++;
	f->server_id = NODE;
	CHECK_RC(fixture_ping_apart(f), -EHOSTUNREACH);
	CHECK(requests(f) == 0);
	end(f, &w);
}

static void a_lookup_that_fails_is_tried_again(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	w.find_rc = -ETIMEDOUT;
	CHECK_RC(fixture_ping_apart(f), -ECONNREFUSED);
	w.find_rc = 0;
	CHECK_RC(fixture_ping_apart(f), 0);
	end(f, &w);
}

/* --- one end without credentials -------------------------------------------------------------- */

static void a_client_without_credentials_gets_nothing(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	f->self = NULL;
	CHECK(fixture_ping_apart(f) < 0);
	struct rt_sock *s = raw_connect(f);
	struct raw_frame frame = raw_request(1, 1, 0);
	CHECK_RC(raw_send(s, frame.bytes, frame.len), 0);
	raw_expect_closed(s);
	rt_sock_close(s);
	CHECK(requests(f) == 0 && w.finds == 0);
	end(f, &w);
}

static void a_server_without_credentials_gets_no_request(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	fixture_close_channel(f);
	fixture_stop_server(f, 0);
	f->guard = NULL;
	fixture_start_server(f);
	fixture_open_channel(f);
	CHECK_RC(fixture_ping(f), -EPROTO);
	CHECK(requests(f) == 0);
	end(f, &w);
}

/* --- messages by hand -------------------------------------------------------------------------- */

/* A client that follows the protocol up to its proof. */
struct by_hand {
	struct rt_sock *sock;
	struct hello h;
	uint8_t hello[HELLO_BYTES_MAX], challenge[HELLO_CHALLENGE_BYTES], proof[HELLO_PROOF_BYTES];
	size_t hello_len;
};

static void hand_begin(struct fixture *f, struct world *w, struct by_hand *b)
{
	struct hello_offer o = {.place = w->guard.place,
				.kind = HELLO_NAME,
				.peer = (const uint8_t *)"alice",
				.peer_len = 5,
				.nonce = {9}};
	memset(b, 0, sizeof(*b));
	CHECK_RC(secure_key(w->credentials->secret, NODE, o.key), 0);
	b->sock = raw_connect(f);
	b->hello_len = hello_client_start(&b->h, &o, b->hello);
}

static void hand_prove(struct by_hand *b)
{
	CHECK_RC(raw_send(b->sock, b->hello, b->hello_len), 0);
	CHECK_RC(rt_sock_recv(b->sock, b->challenge, sizeof(b->challenge), sizeof(b->challenge)),
		 sizeof(b->challenge));
	CHECK_RC(hello_client_prove(&b->h, b->challenge, b->proof), 0);
}

/* Expects a refusal or an end, and no ACCEPT. */
static void hand_expect_refusal(struct by_hand *b)
{
	uint8_t head[HELLO_HEAD_BYTES];
	enum hello_refusal why;
	int64_t n = rt_sock_recv(b->sock, head, sizeof(head), sizeof(head));
	CHECK(n < (int64_t)sizeof(head) || hello_kind_of(head, &why) == HELLO_REFUSE);
	rt_sock_close(b->sock);
}

static void a_recorded_handshake_opens_nothing(struct fixture *f)
{
	struct world w;
	struct by_hand first, again;
	uint8_t accept[HELLO_ACCEPT_BYTES];
	begin(f, &w);
	hand_begin(f, &w, &first);
	hand_prove(&first);
	CHECK_RC(raw_send(first.sock, first.proof, sizeof(first.proof)), 0);
	CHECK_RC(rt_sock_recv(first.sock, accept, sizeof(accept), sizeof(accept)), sizeof(accept));
	CHECK_RC(hello_client_end(&first.h, accept), 0);
	raw_expect_alive(first.sock, 5);
	rt_sock_close(first.sock);
	hand_begin(f, &w, &again);
	hand_prove(&again);
	CHECK_RC(raw_send(again.sock, first.proof, sizeof(first.proof)), 0);
	hand_expect_refusal(&again);
	CHECK(requests(f) == 1);
	end(f, &w);
}

static void every_truncated_and_every_changed_hello_is_refused(struct fixture *f)
{
	struct world w;
	struct by_hand b;
	begin(f, &w);
	for (size_t cut = 0; cut < HELLO_FIXED_BYTES + 5; cut += 3) {
		hand_begin(f, &w, &b);
		CHECK_RC(raw_send(b.sock, b.hello, cut), 0);
		rt_sock_close(b.sock);
	}
	for (size_t at = 0; at < HELLO_FIXED_BYTES + 5; at++) {
		hand_begin(f, &w, &b);
		b.hello[at] ^=
			at == 8 ? 1
				: 0x11; /* at 8: a shorter name, so that the server does not wait for more */
		CHECK_RC(raw_send(b.sock, b.hello, b.hello_len), 0);
		int64_t n =
			rt_sock_recv(b.sock, b.challenge, sizeof(b.challenge), sizeof(b.challenge));
		if (n == (int64_t)sizeof(b.challenge))
			CHECK(hello_client_prove(&b.h, b.challenge, b.proof) < 0);
		rt_sock_close(b.sock);
	}
	CHECK_RC(fixture_ping(f), 0);
	CHECK(requests(f) == 1);
	end(f, &w);
}

static void frames_before_the_proof_are_not_read(struct fixture *f)
{
	struct world w;
	struct by_hand b;
	struct raw_frame frame = raw_request(1, 1, 0);
	begin(f, &w);
	hand_begin(f, &w, &b);
	CHECK_RC(raw_send(b.sock, b.hello, b.hello_len), 0);
	CHECK_RC(raw_send(b.sock, frame.bytes, frame.len), 0);
	CHECK_RC(rt_sock_recv(b.sock, b.challenge, sizeof(b.challenge), sizeof(b.challenge)),
		 sizeof(b.challenge));
	hand_expect_refusal(&b);
	CHECK(requests(f) == 0);
	end(f, &w);
}

/* --- floods ------------------------------------------------------------------------------------ */

static void a_flood_of_silent_connections_delays_nobody(struct fixture *f)
{
	struct world w;
	struct rt_sock *silent[64];
	f->connections_max = 64;
	begin(f, &w);
	for (size_t i = 0; i < ARRAY_LEN(silent); i++)
		silent[i] = raw_connect(f);
	CHECK_RC(fixture_ping(f), 0);
	struct rpc_server_stats stats;
	rpc_server_stats(f->server, &stats);
	/* 8 handshakes at a time; the connection of the channel, and those cut off that have not ended yet */
	fixture_await(&rpc_server_counters(f->server)->evicted_handshakes, 56);
	for (size_t i = 0; i < ARRAY_LEN(silent); i++)
		rt_sock_close(silent[i]);
	CHECK_RC(fixture_ping(f), 0);
	end(f, &w);
}

static void a_slow_handshake_is_ended(struct fixture *f)
{
	struct world w;
	struct by_hand b;
	begin(f, &w);
	hand_begin(f, &w, &b);
	uint64_t begin_ns = rt_now_ns();
	for (size_t i = 0; i < b.hello_len; i++) {
		if (raw_send(b.sock, b.hello + i, 1) < 0)
			break;
		if (rt_sleep_ns(NS_PER_S) < 0)
			break;
	}
	raw_expect_closed(b.sock);
	rt_sock_close(b.sock);
	CHECK(rt_now_ns() - begin_ns < 120 * NS_PER_S);
	CHECK(rpc_server_counters(f->server)->refused_handshakes == 1);
	end(f, &w);
}

static void a_server_stops_in_the_middle_of_handshakes(struct fixture *f)
{
	struct world w;
	begin(f, &w);
	w.find_ns = 3600 * NS_PER_S;
	struct rt_sock *silent = raw_connect(f);
	struct by_hand b;
	hand_begin(f, &w, &b);
	CHECK_RC(raw_send(b.sock, b.hello, b.hello_len), 0);
	fixture_await(&w.finds, 1);
	w.find_ns = 0;
	fixture_close_channel(f);
	fixture_stop_server(f, 0);
	raw_expect_closed(silent);
	raw_expect_closed(b.sock);
	rt_sock_close(silent);
	rt_sock_close(b.sock);
	credentials_free(w.credentials);
}

int main(void)
{
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
		IN_EVERY_WORLD(a_request_has_the_identity_that_the_client_proved),
		IN_EVERY_WORLD(wrong_credentials_run_nothing),
		IN_EVERY_WORLD(a_refused_call_with_retry_ends_at_once),
		IN_EVERY_WORLD(a_server_that_does_not_know_the_key_gets_no_request),
		IN_EVERY_WORLD(replaced_credentials_are_accepted_at_the_second_try),
		IN_EVERY_WORLD(a_node_cannot_pass_for_another),
		IN_EVERY_WORLD(a_lookup_that_fails_is_tried_again),
		IN_EVERY_WORLD(a_client_without_credentials_gets_nothing),
		IN_EVERY_WORLD(a_server_without_credentials_gets_no_request),
		IN_EVERY_WORLD(a_recorded_handshake_opens_nothing),
		IN_EVERY_WORLD(every_truncated_and_every_changed_hello_is_refused),
		IN_EVERY_WORLD(frames_before_the_proof_are_not_read),
		IN_EVERY_WORLD(a_flood_of_silent_connections_delays_nobody),
		IN_WORLD(a_slow_handshake_is_ended, "sim"),
		IN_WORLD(a_server_stops_in_the_middle_of_handshakes, "sim"),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
