// SPDX-License-Identifier: Apache-2.0
/*
 * Handshakes with a peer that sends arbitrary bytes: the first byte chooses which end we are. A peer without a key is
 * never accepted, whatever it sends.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "auth/hello.h"
#include "fuzz.h"

static int key_of(void *ctx, const struct hello_claim *claim, uint8_t key[MAC_KEY_BYTES])
{
	assert(claim->peer_len > 0 && claim->peer_len <= HELLO_PEER_MAX);
	if (claim->peer_len != 1 || claim->peer[0] != 'a')
		return -ENOENT;
	memset(key, 3, MAC_KEY_BYTES);
	return 0;
}

/* The input after its first byte, in pieces. */
struct input {
	const uint8_t *at;
	size_t left;
};

static void take(struct input *in, void *out, size_t len)
{
	size_t n = len < in->left ? len : in->left;
	memset(out, 0, len);
	memcpy(out, in->at, n);
	in->at += n;
	in->left -= n;
}

static void as_server(struct input *in)
{
	const struct hello_server s = {.key_of = key_of, .decoy = {5}};
	uint8_t hello[HELLO_BYTES_MAX], challenge[HELLO_CHALLENGE_BYTES], nonce[HELLO_NONCE_BYTES];
	uint8_t proof[HELLO_PROOF_BYTES], accept[HELLO_ACCEPT_BYTES];
	struct hello h;
	memset(nonce, 9, sizeof(nonce));
	take(in, hello, HELLO_FIXED_BYTES);
	int64_t rest = hello_server_rest(hello);
	assert(rest == -EPROTO || (rest > 0 && rest <= (int64_t)HELLO_PEER_MAX));
	if (rest < 0)
		return;
	take(in, hello + HELLO_FIXED_BYTES, (size_t)rest);
	if (hello_server_start(&h, &s, hello, HELLO_FIXED_BYTES + (size_t)rest, nonce, challenge) <
	    0)
		return;
	take(in, proof, sizeof(proof));
	int rc = hello_server_end(&h, proof, accept);
	assert((rc == -EACCES || rc == -EPROTO) && !h.done);
	(void)rc;
}

static void as_client(struct input *in)
{
	struct hello_offer o = {.kind = HELLO_NAME, .peer = (const uint8_t *)"a", .peer_len = 1};
	uint8_t hello[HELLO_BYTES_MAX], challenge[HELLO_CHALLENGE_BYTES], proof[HELLO_PROOF_BYTES];
	struct hello h;
	enum hello_refusal reason;
	memset(o.key, 3, sizeof(o.key));
	size_t len = hello_client_start(&h, &o, hello);
	assert(len == HELLO_FIXED_BYTES + 1);
	(void)len;
	take(in, challenge, sizeof(challenge));
	(void)hello_kind_of(challenge, &reason);
	int rc = hello_client_prove(&h, challenge, proof);
	assert((rc == -EACCES || rc == -EPROTO) && !h.done);
	(void)rc;
}

static void as_node(struct input *in)
{
	const struct key_pair own = {.layer = TOKEN_CHUNK,
				     .generation = {{.number = 1, .key = {1}}}};
	uint8_t bytes[TICKET_BYTES], key[MAC_KEY_BYTES];
	struct ticket t;
	size_t len = in->left < TICKET_BYTES ? in->left : TICKET_BYTES;
	take(in, bytes, sizeof(bytes));
	(void)ticket_open(&own, bytes, len, 1000, 10, &t, key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct input in = {.at = data + 1, .left = size - 1};
	if (data[0] % 3 == 0)
		as_server(&in);
	else if (data[0] % 3 == 1)
		as_client(&in);
	else
		as_node(&in);
	return 0;
}
