// SPDX-License-Identifier: Apache-2.0
/*
 * Layout of the messages, little-endian:
 *
 *     every message  0 'T' 'R' 'N' 'H'   4 kind   5..7 below
 *     HELLO      5 lowest version  6 highest version  7 mode (0: no TLS)   8 length of the peer's name, 2 bytes
 *                10 kind of the name  11 zero  12 cluster, 16 bytes  28 nonce, 32 bytes  60 server id  68 name or ticket
 *     CHALLENGE  5 version  6 mode  7 zero   8 nonce, 32 bytes  40 proof, 32 bytes
 *     PROOF      5..7 zero   8 proof, 32 bytes
 *     ACCEPT     5..7 zero   8 proof, 32 bytes
 *     REFUSE     5 reason  6..7 zero
 */
#include "auth/hello.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "auth/secret.h"
#include "base/base.h"
#include "base/bug.h"
#include "base/le.h"

#define MODE_PLAIN 0
#define CHALLENGE_SIGNED ((size_t)40)

static const uint8_t magic[4] = {'T', 'R', 'N', 'H'};

static void head(uint8_t *out, enum hello_kind kind, uint8_t a, uint8_t b, uint8_t c)
{
	memcpy(out, magic, sizeof(magic));
	out[4] = (uint8_t)kind;
	out[5] = a;
	out[6] = b;
	out[7] = c;
}

void hello_refuse(enum hello_refusal reason, uint8_t out[HELLO_HEAD_BYTES])
{
	assert(reason >= HELLO_NOT_HERE && reason <= HELLO_NO_TLS);
	head(out, HELLO_REFUSE, (uint8_t)reason, 0, 0);
}

enum hello_kind hello_kind_of(const uint8_t in[HELLO_HEAD_BYTES], enum hello_refusal *refusal)
{
	if (memcmp(in, magic, sizeof(magic)) != 0 || in[4] < HELLO_HELLO || in[4] > HELLO_REFUSE)
		return 0;
	if (in[4] == HELLO_REFUSE) {
		if (in[5] < HELLO_NOT_HERE || in[5] > HELLO_NO_TLS)
			return 0;
		*refusal = (enum hello_refusal)in[5];
	}
	return (enum hello_kind)in[4];
}

void hello_wipe(struct hello *h)
{
	secret_wipe(h, sizeof(*h));
}

static void text_add(struct hello *h, const uint8_t *bytes, size_t len)
{
	assert(len <= sizeof(h->text) - h->len);
	memcpy(h->text + h->len, bytes, len);
	h->len += len;
}

/* Computes the proof of one end over all messages so far. */
static int prove(const struct hello *h, const char *label, uint8_t out[MAC_BYTES])
{
	_Static_assert(sizeof(h->text) <= MAC_CONTEXT_MAX, "mac_derive takes all messages");
	uint8_t text[sizeof(h->text)];
	memcpy(text, h->text, h->len);
	if (bug_planted(BUG_DOWNGRADE))
		memset(text + 5, 0, 3);
	return mac_derive(h->key, label, text, h->len, out);
}

static const char *client_label(void)
{
	return bug_planted(BUG_REFLECTION) ? "terrane server proof" : "terrane client proof";
}

/* --- client ----------------------------------------------------------------------------------- */

size_t hello_client_start(struct hello *h, const struct hello_offer *o,
			  uint8_t out[HELLO_BYTES_MAX])
{
	assert(o->peer_len > 0 && o->peer_len <= HELLO_PEER_MAX);
	assert(o->kind == HELLO_NAME || o->kind == HELLO_TICKET);
	memset(h, 0, sizeof(*h));
	memcpy(h->key, o->key, sizeof(h->key));
	h->version = o->version_max == 0 ? HELLO_VERSION : o->version_max;
	head(out, HELLO_HELLO, HELLO_VERSION, h->version, MODE_PLAIN);
	put_u16(out + 8, (uint16_t)o->peer_len);
	out[10] = (uint8_t)o->kind;
	out[11] = 0;
	put_u64(out + 12, o->place.cluster_high);
	put_u64(out + 20, o->place.cluster_low);
	memcpy(out + 28, o->nonce, HELLO_NONCE_BYTES);
	put_u64(out + 60, o->place.server);
	memcpy(out + HELLO_FIXED_BYTES, o->peer, o->peer_len);
	text_add(h, out, HELLO_FIXED_BYTES + o->peer_len);
	return h->len;
}

int hello_client_prove(struct hello *h, const uint8_t in[HELLO_CHALLENGE_BYTES],
		       uint8_t out[HELLO_PROOF_BYTES])
{
	uint8_t want[MAC_BYTES];
	enum hello_refusal unused;
	assert(h->len >= HELLO_FIXED_BYTES && !h->done);
	if (hello_kind_of(in, &unused) != HELLO_CHALLENGE || in[5] < HELLO_VERSION ||
	    in[5] > h->version || in[6] != MODE_PLAIN || in[7] != 0)
		return -EPROTO;
	h->version = in[5];
	text_add(h, in, CHALLENGE_SIGNED);
	int rc = prove(h, "terrane server proof", want);
	if (rc < 0)
		return rc;
	if (!secret_equal(want, in + CHALLENGE_SIGNED, MAC_BYTES))
		return -EACCES;
	if (!bug_planted(BUG_REFLECTION))
		text_add(h, in + CHALLENGE_SIGNED, MAC_BYTES);
	head(out, HELLO_PROOF, 0, 0, 0);
	rc = prove(h, client_label(), out + HELLO_HEAD_BYTES);
	text_add(h, out, HELLO_PROOF_BYTES);
	return rc;
}

static bool proof_shape(const uint8_t *in, enum hello_kind kind)
{
	enum hello_refusal unused;
	return hello_kind_of(in, &unused) == kind && in[5] == 0 && in[6] == 0 && in[7] == 0;
}

int hello_client_end(struct hello *h, const uint8_t in[HELLO_ACCEPT_BYTES])
{
	uint8_t want[MAC_BYTES];
	if (!proof_shape(in, HELLO_ACCEPT))
		return -EPROTO;
	int rc = prove(h, "terrane accept", want);
	if (rc == 0 && !secret_equal(want, in + HELLO_HEAD_BYTES, MAC_BYTES))
		rc = -EACCES;
	h->done = rc == 0;
	return rc;
}

/* --- server ----------------------------------------------------------------------------------- */

int64_t hello_server_rest(const uint8_t in[HELLO_FIXED_BYTES])
{
	enum hello_refusal unused;
	size_t len = get_u16(in + 8);
	bool kind = in[10] == HELLO_NAME || in[10] == HELLO_TICKET;
	if (hello_kind_of(in, &unused) != HELLO_HELLO || !kind || in[11] != 0 || len == 0 ||
	    len > HELLO_PEER_MAX)
		return -EPROTO;
	return (int64_t)len;
}

struct hello_claim hello_server_claim(const uint8_t *in, size_t len)
{
	assert(len > HELLO_FIXED_BYTES && len <= HELLO_BYTES_MAX);
	return (struct hello_claim){
		.kind = (enum hello_peer)in[10],
		.peer = in + HELLO_FIXED_BYTES,
		.peer_len = len - HELLO_FIXED_BYTES,
	};
}

static int server_check(const struct hello_server *s, const uint8_t *in, size_t len)
{
	if (len < HELLO_FIXED_BYTES || len > HELLO_BYTES_MAX ||
	    hello_server_rest(in) != (int64_t)(len - HELLO_FIXED_BYTES) || in[7] != MODE_PLAIN)
		return -EPROTO;
	if (get_u64(in + 12) != s->place.cluster_high || get_u64(in + 20) != s->place.cluster_low ||
	    get_u64(in + 60) != s->place.server)
		return -EHOSTUNREACH;
	uint8_t own_max = s->version_max == 0 ? HELLO_VERSION : s->version_max;
	return in[5] > own_max || in[5] > in[6] || in[6] < HELLO_VERSION ? -EOPNOTSUPP : 0;
}

/* Finds the key, or makes one up that no client knows. */
static int server_key(struct hello *h, const struct hello_server *s, const uint8_t *in, size_t len)
{
	struct hello_claim claim = hello_server_claim(in, len);
	uint8_t decoy[MAC_KEY_BYTES];
	int rc = mac_derive(s->decoy, "terrane decoy", claim.peer, claim.peer_len, decoy);
	if (rc < 0)
		return rc;
	rc = s->key_of(s->ctx, &claim, h->key);
	h->known = rc == 0;
	if (!h->known)
		memcpy(h->key, decoy, sizeof(h->key));
	secret_wipe(decoy, sizeof(decoy));
	return rc == 0 || rc == -ENOENT || rc == -ESTALE || rc == -EACCES ? 0 : rc;
}

int hello_server_start(struct hello *h, const struct hello_server *s, const uint8_t *in, size_t len,
		       const uint8_t nonce[HELLO_NONCE_BYTES], uint8_t out[HELLO_CHALLENGE_BYTES])
{
	memset(h, 0, sizeof(*h));
	int rc = server_check(s, in, len);
	if (rc == 0)
		rc = server_key(h, s, in, len);
	if (rc < 0)
		return rc;
	uint8_t own_max = s->version_max == 0 ? HELLO_VERSION : s->version_max;
	h->version = own_max < in[6] ? own_max : in[6];
	head(out, HELLO_CHALLENGE, h->version, MODE_PLAIN, 0);
	memcpy(out + HELLO_HEAD_BYTES, nonce, HELLO_NONCE_BYTES);
	text_add(h, in, len);
	text_add(h, out, CHALLENGE_SIGNED);
	rc = prove(h, "terrane server proof", out + CHALLENGE_SIGNED);
	if (!bug_planted(BUG_REFLECTION))
		text_add(h, out + CHALLENGE_SIGNED, MAC_BYTES);
	return rc;
}

int hello_server_end(struct hello *h, const uint8_t in[HELLO_PROOF_BYTES],
		     uint8_t out[HELLO_ACCEPT_BYTES])
{
	uint8_t want[MAC_BYTES];
	assert(h->len > HELLO_FIXED_BYTES && !h->done);
	if (!proof_shape(in, HELLO_PROOF))
		return -EPROTO;
	int rc = prove(h, client_label(), want);
	if (rc < 0)
		return rc;
	bool equal = secret_equal(want, in + HELLO_HEAD_BYTES, MAC_BYTES);
	if (!equal || !h->known)
		return -EACCES;
	text_add(h, in, HELLO_PROOF_BYTES);
	head(out, HELLO_ACCEPT, 0, 0, 0);
	rc = prove(h, "terrane accept", out + HELLO_HEAD_BYTES);
	h->done = rc == 0;
	return rc;
}

int hello_session_key(const struct hello *h, uint8_t out[MAC_KEY_BYTES])
{
	assert(h->done);
	return prove(h, "terrane session", out);
}

/* --- tickets ---------------------------------------------------------------------------------- */

#define TICKET_VERSION 1

static int ticket_key(const uint8_t node_key[MAC_KEY_BYTES], const uint8_t bytes[TICKET_BYTES],
		      uint8_t out[MAC_KEY_BYTES])
{
	return mac_derive(node_key, "terrane ticket", bytes, TICKET_BYTES, out);
}

int ticket_make(const struct key_ring *r, struct ticket *t, uint8_t out[TICKET_BYTES],
		uint8_t key[MAC_KEY_BYTES])
{
	uint8_t node_key[MAC_KEY_BYTES];
	t->generation = r->issuing.number;
	int rc = key_ring_derive(r, t->generation, TOKEN_CHUNK, t->verifier, node_key);
	if (rc < 0)
		return rc;
	memset(out, 0, TICKET_BYTES);
	out[0] = TICKET_VERSION;
	put_u32(out + 4, t->generation);
	put_u64(out + 8, t->verifier);
	put_u64(out + 16, t->subject);
	put_u64(out + 24, t->expires_ms);
	memcpy(out + 32, t->nonce, sizeof(t->nonce));
	rc = ticket_key(node_key, out, key);
	secret_wipe(node_key, sizeof(node_key));
	return rc;
}

int ticket_open(const struct key_pair *own, const uint8_t *bytes, size_t len, uint64_t now_ms,
		uint64_t skew_ms, struct ticket *t, uint8_t key[MAC_KEY_BYTES])
{
	assert(own->layer == TOKEN_CHUNK);
	if (len != TICKET_BYTES || bytes[0] != TICKET_VERSION || bytes[1] != 0 || bytes[2] != 0 ||
	    bytes[3] != 0)
		return -EACCES;
	*t = (struct ticket){
		.generation = get_u32(bytes + 4),
		.verifier = get_u64(bytes + 8),
		.subject = get_u64(bytes + 16),
		.expires_ms = get_u64(bytes + 24),
	};
	memcpy(t->nonce, bytes + 32, sizeof(t->nonce));
	if (t->verifier != own->verifier)
		return -EACCES;
	if (t->expires_ms < now_ms && now_ms - t->expires_ms > skew_ms)
		return -ESTALE;
	if (t->expires_ms > now_ms && t->expires_ms - now_ms > TOKEN_LIFE_MAX_MS + skew_ms)
		return -EACCES;
	for (size_t i = 0; i < ARRAY_LEN(own->generation); i++)
		if (own->generation[i].number != 0 && own->generation[i].number == t->generation)
			return ticket_key(own->generation[i].key, bytes, key);
	return -ESTALE;
}
