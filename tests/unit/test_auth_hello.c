// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/hello.h"
#include "base/base.h"
#include "base/bug.h"
#include "base/le.h"
#include "base/rng.h"

#define NOW 1700000000000ULL
#define SKEW ((uint64_t)5 * 60 * 1000)
#define NODE 77

static const uint8_t alice_key[MAC_KEY_BYTES] = {1, 2, 3};

static int key_of(void *ctx, const struct hello_claim *claim, uint8_t key[MAC_KEY_BYTES])
{
	if (claim->kind == HELLO_TICKET) {
		struct ticket t;
		return ticket_open(ctx, claim->peer, claim->peer_len, NOW, SKEW, &t, key);
	}
	if (claim->peer_len != 5 || memcmp(claim->peer, "alice", 5) != 0)
		return -ENOENT;
	memcpy(key, alice_key, MAC_KEY_BYTES);
	return 0;
}

static const struct hello_server server = {
	.place = {.cluster_high = 5, .cluster_low = 6, .server = 7},
	.decoy = {9, 9},
	.key_of = key_of,
};

static struct hello_offer offer(const char *name, const uint8_t *key)
{
	struct hello_offer o = {
		.place = server.place,
		.kind = HELLO_NAME,
		.peer = (const uint8_t *)name,
		.peer_len = strlen(name),
		.nonce = {1},
	};
	memcpy(o.key, key, MAC_KEY_BYTES);
	return o;
}

/* A handshake whose messages a test may change on their way. */
struct exchange {
	struct hello client, server;
	uint8_t hello[HELLO_BYTES_MAX], challenge[HELLO_CHALLENGE_BYTES];
	uint8_t proof[HELLO_PROOF_BYTES], accept[HELLO_ACCEPT_BYTES];
	size_t hello_len;
};

static const uint8_t server_nonce[HELLO_NONCE_BYTES] = {2};

static int begin(struct exchange *x, const struct hello_offer *o)
{
	memset(x, 0, sizeof(*x));
	x->hello_len = hello_client_start(&x->client, o, x->hello);
	return 0;
}

static int challenge(struct exchange *x)
{
	return hello_server_start(&x->server, &server, x->hello, x->hello_len, server_nonce,
				  x->challenge);
}

static int finish(struct exchange *x)
{
	int rc = hello_client_prove(&x->client, x->challenge, x->proof);
	if (rc == 0)
		rc = hello_server_end(&x->server, x->proof, x->accept);
	return rc == 0 ? hello_client_end(&x->client, x->accept) : rc;
}

static int run(struct exchange *x, const struct hello_offer *o)
{
	begin(x, o);
	int rc = challenge(x);
	return rc == 0 ? finish(x) : rc;
}

static void both_ends_of_a_good_handshake_share_a_key(void **state)
{
	struct exchange x;
	uint8_t a[MAC_KEY_BYTES], b[MAC_KEY_BYTES], c[MAC_KEY_BYTES];
	struct hello_offer o = offer("alice", alice_key);
	assert_int_equal(run(&x, &o), 0);
	assert_int_equal(hello_session_key(&x.client, a), 0);
	assert_int_equal(x.server.done, true);
	assert_int_equal(x.client.len, x.server.len);
	assert_int_equal(hello_session_key(&x.server, b), 0);
	assert_memory_equal(a, b, sizeof(a));
	o.nonce[5]++;
	assert_int_equal(run(&x, &o), 0);
	assert_int_equal(hello_session_key(&x.client, c), 0);
	assert_memory_not_equal(a, c, sizeof(a));
	hello_wipe(&x.client);
	hello_wipe(&x.server);
}

static void a_wrong_key_and_an_unknown_name_look_the_same(void **state)
{
	struct exchange wrong, unknown;
	uint8_t key[MAC_KEY_BYTES] = {7};
	struct hello_offer a = offer("alice", key), b = offer("carol", key);
	begin(&wrong, &a);
	begin(&unknown, &b);
	assert_int_equal(challenge(&wrong), 0);
	assert_int_equal(challenge(&unknown), 0);
	assert_memory_equal(wrong.challenge, unknown.challenge, 40);
	assert_int_equal(finish(&wrong), -EACCES);
	assert_int_equal(finish(&unknown), -EACCES);
	/* a client that goes on without checking the server */
	wrong.proof[4] = unknown.proof[4] = HELLO_PROOF;
	memcpy(wrong.proof, "TRNH", 4);
	memcpy(unknown.proof, "TRNH", 4);
	assert_int_equal(hello_server_end(&wrong.server, wrong.proof, wrong.accept), -EACCES);
	assert_int_equal(hello_server_end(&unknown.server, unknown.proof, unknown.accept), -EACCES);
	/* the decoy of a name stays the same, so that asking twice tells nothing */
	struct exchange again;
	begin(&again, &b);
	assert_int_equal(challenge(&again), 0);
	assert_memory_equal(again.challenge, unknown.challenge, HELLO_CHALLENGE_BYTES);
}

/* Even the key of the decoy opens nothing. */
static void a_client_that_knows_the_decoy_is_refused(void **state)
{
	struct exchange x;
	uint8_t key[MAC_KEY_BYTES];
	assert_int_equal(mac_derive(server.decoy, "terrane decoy", "carol", 5, key), 0);
	struct hello_offer o = offer("carol", key);
	assert_int_equal(run(&x, &o), -EACCES);
}

static void a_server_that_does_not_know_the_key_is_refused(void **state)
{
	struct exchange x;
	/* this server does not know the name, so it answers with the proof of another key */
	struct hello_offer o = offer("carol", alice_key);
	begin(&x, &o);
	assert_int_equal(challenge(&x), 0);
	assert_int_equal(hello_client_prove(&x.client, x.challenge, x.proof), -EACCES);
}

/* Returns whether every changed byte of every message is found by one of the ends. */
static bool changes_are_found(void)
{
	const struct hello_offer o = offer("alice", alice_key);
	struct exchange x;
	bool held = run(&x, &o) == 0;
	const size_t hello_len = x.hello_len;
	for (size_t at = 0; at < hello_len + HELLO_CHALLENGE_BYTES; at++) {
		begin(&x, &o);
		if (at < hello_len)
			x.hello[at] ^= 1;
		int rc = challenge(&x);
		if (rc == 0 && at >= hello_len)
			x.challenge[at - hello_len] ^= 1;
		held = held && (rc != 0 || finish(&x) != 0);
	}
	for (size_t at = 0; at < HELLO_PROOF_BYTES + HELLO_ACCEPT_BYTES; at++) {
		begin(&x, &o);
		int rc = challenge(&x);
		rc = rc != 0 ? rc : hello_client_prove(&x.client, x.challenge, x.proof);
		if (rc == 0 && at < HELLO_PROOF_BYTES)
			x.proof[at] ^= 1;
		rc = rc != 0 ? rc : hello_server_end(&x.server, x.proof, x.accept);
		if (rc == 0 && at >= HELLO_PROOF_BYTES)
			x.accept[at - HELLO_PROOF_BYTES] ^= 1;
		held = held && (rc != 0 || hello_client_end(&x.client, x.accept) != 0);
	}
	return held;
}

/* Returns whether a client and a server of version 3 find that somebody made them speak version 1. */
static bool downgrades_are_found(void)
{
	struct hello_server newer = server;
	struct hello_offer o = offer("alice", alice_key);
	struct exchange x;
	newer.version_max = o.version_max = 3;
	begin(&x, &o);
	x.hello[6] = 1;
	bool held = hello_server_start(&x.server, &newer, x.hello, x.hello_len, server_nonce,
				       x.challenge) == 0 &&
		    x.server.version == 1;
	held = held && hello_client_prove(&x.client, x.challenge, x.proof) == -EACCES;
	begin(&x, &o);
	return held &&
	       hello_server_start(&x.server, &newer, x.hello, x.hello_len, server_nonce,
				  x.challenge) == 0 &&
	       finish(&x) == 0 && x.client.version == 3;
}

/* Returns whether an attacker without a key gets in by sending the server's proof back. */
static bool reflections_are_found(void)
{
	struct exchange x;
	const struct hello_offer o = offer("alice", alice_key);
	begin(&x, &o);
	bool held = challenge(&x) == 0;
	memcpy(x.proof, x.challenge, 8);
	x.proof[4] = HELLO_PROOF;
	x.proof[5] = x.proof[6] = x.proof[7] = 0;
	memcpy(x.proof + 8, x.challenge + 40, MAC_BYTES);
	return held && hello_server_end(&x.server, x.proof, x.accept) == -EACCES;
}

static bool (*const properties[])(void) = {changes_are_found, downgrades_are_found,
					   reflections_are_found};

static size_t broken(void)
{
	size_t count = 0;
	for (size_t i = 0; i < ARRAY_LEN(properties); i++)
		count += !properties[i]();
	return count;
}

static void changed_downgraded_and_reflected_messages_are_found(void **state)
{
	assert_int_equal(broken(), 0);
}

static void every_planted_bug_of_handshakes_is_found(void **state)
{
#ifdef TERRANE_PLANTED_BUGS
	static const enum bug bugs[] = {BUG_REFLECTION, BUG_DOWNGRADE};
	for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
		bug_plant(bugs[i]);
		size_t found = broken();
		bug_plant(BUG_NONE);
		assert_int_not_equal(found, 0);
	}
#else
	skip();
#endif
}

static void a_recorded_handshake_cannot_be_played_again(void **state)
{
	struct exchange x;
	const struct hello_offer o = offer("alice", alice_key);
	static const uint8_t other_nonce[HELLO_NONCE_BYTES] = {3};
	struct hello again;
	uint8_t out[HELLO_CHALLENGE_BYTES], accept[HELLO_ACCEPT_BYTES];
	assert_int_equal(run(&x, &o), 0);
	assert_int_equal(
		hello_server_start(&again, &server, x.hello, x.hello_len, other_nonce, out), 0);
	assert_int_equal(hello_server_end(&again, x.proof, accept), -EACCES);
}

static void a_hello_for_another_server_is_refused(void **state)
{
	struct exchange x;
	for (int i = 0; i < 3; i++) {
		struct hello_offer o = offer("alice", alice_key);
		o.place.cluster_high += i == 0;
		o.place.cluster_low += i == 1;
		o.place.server += i == 2;
		begin(&x, &o);
		assert_int_equal(challenge(&x), -EHOSTUNREACH);
	}
}

static void malformed_messages_are_refused(void **state)
{
	struct exchange x;
	const struct hello_offer o = offer("alice", alice_key);
	enum hello_refusal reason;
	uint8_t refuse[HELLO_HEAD_BYTES];
	begin(&x, &o);
	assert_int_equal(hello_server_rest(x.hello), 5);
	put_u16(x.hello + 8, 0);
	assert_int_equal(hello_server_rest(x.hello), -EPROTO);
	put_u16(x.hello + 8, HELLO_PEER_MAX + 1);
	assert_int_equal(hello_server_rest(x.hello), -EPROTO);
	put_u16(x.hello + 8, HELLO_PEER_MAX);
	assert_int_equal(challenge(&x), -EPROTO); /* shorter than it says */
	begin(&x, &o);
	x.hello[7] = 1; /* an unknown mode */
	assert_int_equal(challenge(&x), -EPROTO);
	begin(&x, &o);
	x.hello[5] = 2; /* only newer versions */
	x.hello[6] = 3;
	assert_int_equal(challenge(&x), -EOPNOTSUPP);
	hello_refuse(HELLO_USE_TLS, refuse);
	assert_int_equal(hello_kind_of(refuse, &reason), HELLO_REFUSE);
	assert_int_equal(reason, HELLO_USE_TLS);
	refuse[5] = 200;
	assert_int_equal(hello_kind_of(refuse, &reason), 0);
}

/* --- tickets ---------------------------------------------------------------------------------- */

static const uint8_t root[MAC_KEY_BYTES] = {4, 5, 6};

static void pair_of(uint64_t node, struct key_pair *out)
{
	struct key_ring ring;
	assert_int_equal(key_ring_init(&ring, 1, root), 0);
	assert_int_equal(key_ring_pair(&ring, TOKEN_CHUNK, node, out), 0);
}

static struct ticket ticket_for(uint64_t node, uint8_t bytes[TICKET_BYTES], uint8_t *key)
{
	struct key_ring ring;
	struct ticket t = {.verifier = node, .subject = 3, .expires_ms = NOW + 1000, .nonce = {1}};
	assert_int_equal(key_ring_init(&ring, 1, root), 0);
	assert_int_equal(ticket_make(&ring, &t, bytes, key), 0);
	return t;
}

static int login(uint64_t ticket_node, uint64_t server_node, size_t flipped)
{
	struct exchange x;
	struct key_pair own;
	uint8_t bytes[TICKET_BYTES];
	struct hello_server node = server;
	struct hello_offer o = {.place = server.place, .kind = HELLO_TICKET, .nonce = {1}};
	ticket_for(ticket_node, bytes, o.key);
	if (flipped < TICKET_BYTES)
		bytes[flipped] ^= 1;
	o.peer = bytes;
	o.peer_len = TICKET_BYTES;
	pair_of(server_node, &own);
	node.ctx = &own;
	begin(&x, &o);
	int rc = hello_server_start(&x.server, &node, x.hello, x.hello_len, server_nonce,
				    x.challenge);
	return rc == 0 ? finish(&x) : rc;
}

static void a_ticket_opens_its_node_and_no_other(void **state)
{
	assert_int_equal(login(NODE, NODE, SIZE_MAX), 0);
	assert_int_equal(login(NODE, NODE + 1, SIZE_MAX), -EACCES);
	for (size_t at = 0; at < TICKET_BYTES; at++)
		assert_int_equal(login(NODE, NODE, at), -EACCES);
}

static void a_ticket_dies_after_its_expiry_and_the_skew(void **state)
{
	struct key_pair own;
	uint8_t bytes[TICKET_BYTES], key[MAC_KEY_BYTES], want[MAC_KEY_BYTES];
	struct ticket t = ticket_for(NODE, bytes, want), got;
	pair_of(NODE, &own);
	assert_int_equal(
		ticket_open(&own, bytes, TICKET_BYTES, t.expires_ms + SKEW, SKEW, &got, key), 0);
	assert_memory_equal(key, want, sizeof(key));
	assert_int_equal(got.subject, 3);
	assert_int_equal(
		ticket_open(&own, bytes, TICKET_BYTES, t.expires_ms + SKEW + 1, SKEW, &got, key),
		-ESTALE);
	assert_int_equal(ticket_open(&own, bytes, TICKET_BYTES,
				     t.expires_ms - TOKEN_LIFE_MAX_MS - SKEW - 1, SKEW, &got, key),
			 -EACCES);
	assert_int_equal(ticket_open(&own, bytes, TICKET_BYTES - 1, NOW, SKEW, &got, key), -EACCES);
	own.generation[0].number = 2;
	assert_int_equal(ticket_open(&own, bytes, TICKET_BYTES, NOW, SKEW, &got, key), -ESTALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_of_a_good_handshake_share_a_key),
		cmocka_unit_test(a_wrong_key_and_an_unknown_name_look_the_same),
		cmocka_unit_test(a_client_that_knows_the_decoy_is_refused),
		cmocka_unit_test(a_server_that_does_not_know_the_key_is_refused),
		cmocka_unit_test(changed_downgraded_and_reflected_messages_are_found),
		cmocka_unit_test(every_planted_bug_of_handshakes_is_found),
		cmocka_unit_test(a_recorded_handshake_cannot_be_played_again),
		cmocka_unit_test(a_hello_for_another_server_is_refused),
		cmocka_unit_test(malformed_messages_are_refused),
		cmocka_unit_test(a_ticket_opens_its_node_and_no_other),
		cmocka_unit_test(a_ticket_dies_after_its_expiry_and_the_skew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
