// SPDX-License-Identifier: Apache-2.0
#include "secure/secure.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/err.h"
#include "base/le.h"
#include "rt/net.h"
#include "rt/rt.h"
#include "secure/audit_log.h"
#include "secure/tls.h"

/* Longest time in which a refusal must leave. */
#define REFUSE_NS (100 * NS_PER_MS)
#define TLS_HANDSHAKE_RECORD 22
/* Longest record of a client that begins TLS where there is none; a ClientHello is shorter. */
#define RECORD_DROP_MAX ((size_t)4096)

/* --- bytes ------------------------------------------------------------------------------------ */

int64_t secure_recv(struct secure_link *l, void *buf, size_t len, size_t min)
{
	if (l->tls != NULL)
		return tls_link_recv(l->tls, buf, len, min);
	return rt_sock_recv(l->sock, buf, len, min);
}

int64_t secure_recvv(struct secure_link *l, const struct iovec *iov, int n)
{
	if (l->tls != NULL)
		return tls_link_recvv(l->tls, iov, n);
	return rt_sock_recvv(l->sock, iov, n);
}

int secure_sendv(struct secure_link *l, const struct iovec *iov, int n)
{
	if (l->tls != NULL)
		return tls_link_sendv(l->tls, iov, n);
	return rt_sock_sendv(l->sock, iov, n);
}

static void end_tls(struct secure_link *l)
{
	tls_link_close(l->tls);
	l->tls = NULL;
}

void secure_close(struct secure_link *l)
{
	assert(l->sock != NULL);
	end_tls(l);
	rt_sock_close(l->sock);
	l->sock = NULL;
}

/* Receives exactly len bytes. */
static int take(struct secure_link *l, uint8_t *buf, size_t len)
{
	int64_t n = secure_recv(l, buf, len, len);
	assert(n <= (int64_t)len);
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -ECONNRESET;
}

static int give(struct secure_link *l, const uint8_t *buf, size_t len)
{
	struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
	return secure_sendv(l, &iov, 1);
}

/* --- keys ------------------------------------------------------------------------------------- */

int secure_identity_secret(const uint8_t root[MAC_KEY_BYTES], const char *name, uint32_t version,
			   uint8_t out[MAC_KEY_BYTES])
{
	uint8_t text[IDENTITY_NAME_MAX + 1 + sizeof(version)];
	size_t len = strlen(name);
	assert(len > 0 && len <= IDENTITY_NAME_MAX && version > 0);
	memcpy(text, name, len + 1);
	put_u32(text + len + 1, version);
	return mac_derive(root, "terrane identity", text, len + 1 + sizeof(version), out);
}

int secure_key(const uint8_t secret[MAC_KEY_BYTES], uint64_t server, uint8_t out[MAC_KEY_BYTES])
{
	uint8_t id[sizeof(server)];
	put_u64(id, server);
	return mac_derive(secret, "terrane connection", id, sizeof(id), out);
}

/* --- client ----------------------------------------------------------------------------------- */

static int refused(enum hello_refusal reason)
{
	switch (reason) {
	case HELLO_NOT_HERE:
		return -EHOSTUNREACH;
	case HELLO_DENIED:
		return -EACCES;
	case HELLO_BUSY:
		return -ECONNREFUSED;
	case HELLO_USE_TLS:
	case HELLO_NO_TLS:
		return -EPROTONOSUPPORT;
	case HELLO_BAD_VERSION:
		break;
	}
	return -EPROTO;
}

/* Receives a message of this kind and length, or a refusal. */
static int expect(struct secure_link *l, enum hello_kind kind, uint8_t *buf, size_t len)
{
	enum hello_refusal reason = HELLO_DENIED;
	assert(len > HELLO_HEAD_BYTES);
	int rc = take(l, buf, HELLO_HEAD_BYTES);
	if (rc < 0)
		return rc;
	enum hello_kind got = hello_kind_of(buf, &reason);
	if (got == HELLO_REFUSE)
		return refused(reason);
	return got != kind ? -EPROTO : take(l, buf + HELLO_HEAD_BYTES, len - HELLO_HEAD_BYTES);
}

static int client_talk(struct secure_link *l, struct hello *h, const struct hello_offer *offer)
{
	uint8_t message[HELLO_BYTES_MAX];
	uint8_t challenge[HELLO_CHALLENGE_BYTES], proof[HELLO_PROOF_BYTES];
	int rc = give(l, message, hello_client_start(h, offer, message));
	if (rc == 0)
		rc = expect(l, HELLO_CHALLENGE, challenge, sizeof(challenge));
	if (rc == 0)
		rc = hello_client_prove(h, challenge, proof);
	if (rc == 0)
		rc = give(l, proof, sizeof(proof));
	if (rc == 0)
		rc = expect(l, HELLO_ACCEPT, message, HELLO_ACCEPT_BYTES);
	if (rc == 0)
		rc = hello_client_end(h, message);
	assert(rc != 0 || h->done);
	return rc;
}

static int connect_tls(struct secure_link *l, const struct secure_self *self)
{
	uint8_t refusal[HELLO_HEAD_BYTES] = {0};
	enum hello_refusal reason = HELLO_DENIED;
	if (self->tls == NULL)
		return 0;
	int rc = tls_link_open(&l->tls, self->tls, l->sock, false, refusal);
	if (rc != -ECONNREFUSED || refusal[0] == 0)
		return rc;
	return hello_kind_of(refusal, &reason) == HELLO_REFUSE ? refused(reason) : -EPROTO;
}

int secure_connect(struct secure_link *l, const struct secure_self *self, uint64_t server)
{
	const struct credentials *c = self->credentials;
	struct hello h = {0};
	struct hello_offer offer = {
		.place = {.cluster_high = c->cluster_high,
			  .cluster_low = c->cluster_low,
			  .server = server},
		.kind = HELLO_NAME,
		.peer = (const uint8_t *)c->identity,
		.peer_len = strlen(c->identity),
	};
	assert(offer.peer_len > 0 && offer.peer_len <= IDENTITY_NAME_MAX);
	rt_random_secret(offer.nonce, sizeof(offer.nonce));
	int rc = connect_tls(l, self);
	if (rc == 0)
		rc = secure_key(c->secret, server, offer.key);
	if (rc == 0 && l->tls != NULL)
		rc = tls_link_bind(l->tls, offer.key);
	if (rc == 0)
		rc = client_talk(l, &h, &offer);
	secret_wipe(&offer, sizeof(offer));
	hello_wipe(&h);
	return rc;
}

/* --- server ----------------------------------------------------------------------------------- */

/* The identity that a client claims. Its key was looked up before the challenge is computed. */
struct claimed {
	uint8_t key[MAC_KEY_BYTES];
	int rc;                           /* 0: there is such an identity */
	char name[IDENTITY_NAME_MAX + 1]; /* empty: the handshake did not come so far */
};

static int claimed_key(void *ctx, const struct hello_claim *claim, uint8_t key[MAC_KEY_BYTES])
{
	const struct claimed *c = ctx;
	memcpy(key, c->key, MAC_KEY_BYTES);
	return c->rc;
}

static int look_up(const struct secure_guard *g, const struct hello_claim *claim,
		   struct session *out, struct claimed *c)
{
	char *name = c->name;
	c->rc = -ENOENT;
	if (claim->kind != HELLO_NAME || claim->peer_len > IDENTITY_NAME_MAX ||
	    memchr(claim->peer, 0, claim->peer_len) != NULL)
		return 0;
	memcpy(name, claim->peer, claim->peer_len);
	if (identity_name_check(name) < 0) {
		name[0] = '\0';
		return 0;
	}
	c->rc = g->find(g->ctx, name, out, c->key);
	if (c->rc == 0) {
		assert(strcmp(out->name, name) == 0 && out->identity != 0);
		return 0;
	}
	return c->rc == -ENOENT || c->rc == -ECANCELED ? 0 : -EAGAIN;
}

/* Reads the rest of a TLS record: a socket that is closed with unread bytes would lose the refusal that follows. */
static int drop_record(struct secure_link *l, const uint8_t *begin)
{
	uint8_t bytes[256];
	size_t have = HELLO_FIXED_BYTES, len = 5 + ((size_t)begin[3] << 8 | begin[4]);
	int rc = 0;
	while (rc == 0 && have < len && have < RECORD_DROP_MAX) {
		size_t n = min_u64(sizeof(bytes), len - have);
		rc = take(l, bytes, n);
		have += n;
	}
	return rc < 0 ? rc : -EPROTONOSUPPORT;
}

static int server_talk(struct secure_link *l, const struct secure_guard *g, struct hello *h,
		       struct claimed *c, struct session *out)
{
	uint8_t message[HELLO_BYTES_MAX], challenge[HELLO_CHALLENGE_BYTES];
	uint8_t nonce[HELLO_NONCE_BYTES];
	int rc = take(l, message, HELLO_FIXED_BYTES);
	if (rc < 0)
		return rc;
	int64_t rest = hello_server_rest(message);
	if (rest < 0 && l->tls == NULL && message[0] == TLS_HANDSHAKE_RECORD)
		return drop_record(l, message);
	if (rest < 0)
		return (int)rest;
	assert((size_t)rest <= HELLO_PEER_MAX);
	rc = take(l, message + HELLO_FIXED_BYTES, (size_t)rest);
	if (rc < 0)
		return rc;
	size_t len = HELLO_FIXED_BYTES + (size_t)rest;
	struct hello_claim claim = hello_server_claim(message, len);
	rc = look_up(g, &claim, out, c);
	if (rc == 0 && l->tls != NULL)
		rc = tls_link_bind(l->tls, c->key);
	if (rc < 0)
		return rc;
	struct hello_server s = {.place = g->place, .key_of = claimed_key, .ctx = c};
	memcpy(s.decoy, g->decoy, sizeof(s.decoy));
	rt_random_secret(nonce, sizeof(nonce));
	rc = hello_server_start(h, &s, message, len, nonce, challenge);
	secret_wipe(&s, sizeof(s));
	if (rc == 0)
		rc = give(l, challenge, sizeof(challenge));
	if (rc == 0)
		rc = take(l, message, HELLO_PROOF_BYTES);
	if (rc == 0)
		rc = hello_server_end(h, message, challenge);
	if (rc == 0)
		rc = give(l, challenge, HELLO_ACCEPT_BYTES);
	assert(rc != 0 || (h->done && c->rc == 0));
	return rc;
}

/* Tells the client the reason of a refusal, if it is one that helps and gives nothing away. */
static void tell(struct secure_link *l, int rc, bool tls)
{
	uint8_t bytes[HELLO_HEAD_BYTES];
	enum hello_refusal reason = HELLO_DENIED;
	if (rc == -EHOSTUNREACH)
		reason = HELLO_NOT_HERE;
	else if (rc == -EOPNOTSUPP)
		reason = HELLO_BAD_VERSION;
	else if (rc == -EAGAIN)
		reason = HELLO_BUSY;
	else if (rc == -EPROTONOSUPPORT)
		reason = tls ? HELLO_USE_TLS : HELLO_NO_TLS;
	else if (rc != -EACCES)
		return;
	hello_refuse(reason, bytes);
	uint64_t before = rt_deadline_narrow(rt_now_ns() + REFUSE_NS);
	(void)give(l, bytes, sizeof(bytes));
	rt_deadline_set(before);
}

void secure_refuse_busy(struct secure_link *l)
{
	tell(l, -EAGAIN, false);
	secure_close(l);
}

static void audit_refusal(const struct secure_link *l, const struct secure_guard *g,
			  const struct claimed *c, int rc)
{
	const char *why = rc == -EACCES            ? "wrong credentials"
			  : rc == -EHOSTUNREACH    ? "for another server or cluster"
			  : rc == -EPROTONOSUPPORT ? "one end uses TLS, the other does not"
			  : rc == -ETIME           ? "too slow"
			  : rc == -ECONNRESET      ? "ended by the client"
						   : err_name(rc);
	if (rc != -ECANCELED)
		audit_log_add(g->audit, &(struct audit_record){.event = AUDIT_LOGIN_REFUSED,
							       .who = c->name,
							       .from = rt_sock_peer(l->sock),
							       .what = g->what,
							       .outcome = "refused",
							       .detail = why});
}

int secure_accept(struct secure_link *l, const struct secure_guard *g, struct session *out)
{
	struct hello h = {0};
	struct claimed c = {.rc = -ENOENT};
	*out = (struct session){0};
	int rc = g->tls == NULL ? 0 : tls_link_open(&l->tls, g->tls, l->sock, true, NULL);
	if (rc < 0)
		end_tls(l); /* a refusal goes out without TLS, or not at all */
	else
		rc = server_talk(l, g, &h, &c, out);
	secret_wipe(c.key, sizeof(c.key));
	hello_wipe(&h);
	if (rc < 0) {
		audit_refusal(l, g, &c, rc);
		if (out->identity != 0 && g->unproved != NULL)
			g->unproved(g->ctx, out->name);
		*out = (struct session){0};
		if (rc == -EPROTONOSUPPORT || g->tls == NULL || l->tls != NULL)
			tell(l, rc, g->tls != NULL);
	}
	return rc;
}
