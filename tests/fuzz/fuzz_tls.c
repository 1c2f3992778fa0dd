// SPDX-License-Identifier: Apache-2.0
/*
 * The handshake of a connection, TLS and keys, with a hostile network. Byte 0 chooses who gets the bytes that follow:
 *
 *     0  a server, from a client that knows nothing
 *     1  a client, from a server that knows nothing
 *     2  both ends of an honest connection, through a relay that changes it: three bytes each are the offset in what one
 *        side sends (2 bytes; its highest bit: what the server sends), and the bits to flip
 *
 * Nobody without a key is accepted, and no end accepts a handshake of which a byte was changed.
 */
#include "fuzz_sim.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/credentials.h"
#include "base/base.h"
#include "base/strbuf.h"
#include "rt/net.h"
#include "rt/rt.h"
#include "secure/secure.h"
#include "secure/tls.h"

#define SERVER 7
#define CHANGES_MAX 16
/* The minor version in the header of the first record, which TLS 1.3 ignores by its rules. */
#define UNPROTECTED 2
#define PATIENCE_NS (20 * NS_PER_S)

static const uint8_t secret[MAC_KEY_BYTES] = {4, 2};

/* Made once: keys cost more than a handshake. */
static struct secure_guard guard;
static struct secure_self self;

static int find(void *ctx, const char *name, struct session *out, uint8_t key[MAC_KEY_BYTES])
{
	if (strcmp(name, "alice") != 0)
		return -ENOENT;
	*out = (struct session){.identity = 1};
	snprintf(out->name, sizeof(out->name), "%s", name);
	return secure_key(secret, SERVER, key);
}

static void make_ends(void)
{
	static char authority[TLS_PEM_MAX], own[TLS_PEM_MAX], trusted[TLS_PEM_MAX];
	static char both[2 * TLS_PEM_MAX];
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	if (self.credentials != NULL)
		return;
	int64_t now_s = (int64_t)(rt_wall_ns() / NS_PER_S);
	int rc = tls_make_authority("fuzz", now_s, 3650, authority);
	if (rc == 0)
		rc = tls_make_certificate(authority, "node-7", now_s, 3650, own);
	if (rc == 0)
		rc = tls_public_part(authority, trusted);
	int len = snprintf(both, sizeof(both), "%s%s", own, trusted);
	if (rc == 0)
		rc = tls_open_text(&guard.tls, "server", both, (size_t)len, now_s, true, &err);
	if (rc == 0)
		rc = tls_open_text(&self.tls, "client", trusted, strlen(trusted), now_s, false,
				   &err);
	self.credentials = credentials_new();
	assert(rc == 0 && self.credentials != NULL);
	self.credentials->cluster_low = 1;
	self.credentials->version = 1;
	memcpy(self.credentials->secret, secret, sizeof(secret));
	snprintf(self.credentials->identity, sizeof(self.credentials->identity), "alice");
	guard.place = (struct hello_place){.cluster_low = 1, .server = SERVER};
	guard.find = find;
}

/* --- the ends -------------------------------------------------------------------------------------- */

struct end {
	const char *addr;             /* client: where to connect */
	struct rt_listener *listener; /* server */
	int rc;
};

static void server_end(void *arg)
{
	struct end *e = arg;
	struct secure_link link = {0};
	struct session session;
	rt_deadline_set(rt_now_ns() + PATIENCE_NS);
	e->rc = rt_accept(e->listener, &link.sock);
	if (e->rc < 0)
		return;
	e->rc = secure_accept(&link, &guard, &session);
	assert((e->rc == 0) == (session.identity == 1));
	secure_close(&link);
}

static void client_end(void *arg)
{
	struct end *e = arg;
	struct secure_link link = {0};
	rt_deadline_set(rt_now_ns() + PATIENCE_NS);
	e->rc = rt_connect(&link.sock, e->addr);
	if (e->rc < 0)
		return;
	e->rc = secure_connect(&link, &self, SERVER);
	secure_close(&link);
}

/* --- who stands between ------------------------------------------------------------------------------ */

struct input {
	const uint8_t *data;
	size_t size;
};

struct pipe {
	struct rt_sock *from, *to;
	const struct input *in;
	bool of_server;
	bool changed;
};

static void pipe_main(void *arg)
{
	struct pipe *p = arg;
	uint8_t bytes[2048], received[sizeof(bytes)];
	size_t at = 0;
	int64_t n;
	while ((n = rt_sock_recv(p->from, bytes, sizeof(bytes), 1)) > 0) {
		memcpy(received, bytes, (size_t)n);
		for (size_t i = 1; i + 3 <= p->in->size && i < 1 + 3 * CHANGES_MAX; i += 3) {
			const uint8_t *c = p->in->data + i;
			size_t where = (size_t)(c[0] & 0x7f) << 8 | c[1];
			if (((c[0] & 0x80) != 0) != p->of_server || where < at ||
			    where >= at + (size_t)n || where == UNPROTECTED)
				continue;
			bytes[where - at] ^= c[2];
		}
		/* Compares the bytes, because two changes of the same byte can undo each other. */
		if (memcmp(bytes, received, (size_t)n) != 0)
			p->changed = true;
		at += (size_t)n;
		struct iovec iov = {bytes, (size_t)n};
		if (rt_sock_sendv(p->to, &iov, 1) < 0)
			break;
	}
	rt_sock_shutdown(p->to);
}

/* Returns whether a byte was changed. */
static bool relay(struct rt_listener *here, const char *server, const struct input *in)
{
	struct rt_fiber *back = NULL;
	struct pipe up = {.in = in}, down = {.in = in, .of_server = true};
	int rc = rt_accept(here, &up.from);
	if (rc == 0)
		rc = rt_connect(&up.to, server);
	assert(rc == 0);
	down.from = up.to;
	down.to = up.from;
	rc = rt_spawn(&back, "back", pipe_main, &down);
	assert(rc == 0);
	pipe_main(&up);
	rt_join(back);
	rt_sock_close(up.from);
	rt_sock_close(up.to);
	return up.changed || down.changed;
}

/* Sends the bytes, and reads what comes until the end. */
static void talk_take(struct rt_sock *s, const struct input *in)
{
	uint8_t bytes[512];
	struct iovec iov = {(void *)(uintptr_t)(in->data + 1), in->size - 1};
	if (in->size == 1 || rt_sock_sendv(s, &iov, 1) == 0)
		while (rt_sock_recv(s, bytes, sizeof(bytes), 1) > 0)
			;
	rt_sock_close(s);
}

static void fuzz_main(void *arg)
{
	const struct input *in = arg;
	struct rt_listener *server = NULL, *between = NULL;
	struct rt_fiber *fibers[2] = {NULL, NULL};
	struct rt_sock *s = NULL;
	make_ends();
	int rc = rt_listen(&server, "n1:7000");
	if (rc == 0)
		rc = rt_listen(&between, "n1:7001");
	assert(rc == 0);
	struct end accepting = {.listener = server}, connecting = {.addr = "n1:7001"};
	if (in->data[0] != 1)
		rc = rt_spawn(&fibers[0], "server", server_end, &accepting);
	if (rc == 0 && in->data[0] != 0)
		rc = rt_spawn(&fibers[1], "client", client_end, &connecting);
	assert(rc == 0);
	rt_deadline_set(rt_now_ns() + PATIENCE_NS);
	bool changed = true;
	if (in->data[0] == 0) {
		rc = rt_connect(&s, "n1:7000");
		assert(rc == 0);
		talk_take(s, in);
	} else if (in->data[0] == 1) {
		rc = rt_accept(between, &s);
		assert(rc == 0);
		talk_take(s, in);
	} else {
		changed = relay(between, "n1:7000", in);
	}
	for (int i = 0; i < 2; i++)
		if (fibers[i] != NULL)
			rt_join(fibers[i]);
	if (in->data[0] == 2 && !changed)
		assert(accepting.rc == 0 && connecting.rc == 0);
	else
		assert(fibers[0] == NULL || fibers[1] == NULL || accepting.rc < 0 ||
		       connecting.rc < 0);
	assert(in->data[0] == 2 || (fibers[0] != NULL ? accepting.rc < 0 : connecting.rc < 0));
	rt_listener_close(server);
	rt_listener_close(between);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .size = size};
	if (size == 0 || size > 4096 || data[0] > 2)
		return 0;
	fuzz_in_sim(fuzz_main, &in, 120);
	return 0;
}
