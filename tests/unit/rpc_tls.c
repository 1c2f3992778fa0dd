// SPDX-License-Identifier: Apache-2.0
#include "rpc_tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "check.h"
#include "rt/rt.h"

static const uint8_t root[MAC_KEY_BYTES] = {4, 2};

static int find(void *ctx, const char *name, struct session *out, uint8_t key[MAC_KEY_BYTES])
{
	const struct tls_world *w = ctx;
	uint8_t secret[MAC_KEY_BYTES];
	if (strcmp(name, "alice") != 0)
		return -ENOENT;
	CHECK_EQ(secure_identity_secret(root, name, 3, secret), 0);
	CHECK_EQ(secure_key(secret, w->guard.place.server, key), 0);
	*out = (struct session){
		.identity = 11, .key_version = 3, .cluster_ops = 1u << OP_CLUSTER_READ};
	snprintf(out->name, sizeof(out->name), "%s", name);
	return 0;
}

struct secure_tls *tls_world_make(const char *authority, const char *trusted, bool server, int days)
{
	char own[TLS_PEM_MAX] = "", public[TLS_PEM_MAX], pem[2 * TLS_PEM_MAX];
	int64_t now_s = (int64_t)(rt_wall_ns() / NS_PER_S);
	struct secure_tls *t = NULL;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	if (server)
		CHECK_EQ(tls_make_certificate(authority, "node-7", now_s, days, own), 0);
	CHECK_EQ(tls_public_part(trusted, public), 0);
	int len = snprintf(pem, sizeof(pem), "%s%s", own, public);
	/* loaded as on the day before, so that certificates that have expired since can be tested */
	int rc = tls_open_text(&t, "test", pem, (size_t)len, now_s - 3600, server, &err);
	if (rc != 0)
		fprintf(stderr, "%s\n", strbuf_text(&err));
	CHECK_EQ(rc, 0);
	return t;
}

void tls_world_open(struct tls_world *w)
{
	int64_t now_s = (int64_t)(rt_wall_ns() / NS_PER_S);
	memset(w, 0, sizeof(*w));
	w->guard = (struct secure_guard){
		.place = {.cluster_high = 5, .cluster_low = 6, .server = TLS_WORLD_NODE},
		.decoy = {1, 2, 3},
		.find = find,
		.ctx = w,
	};
	struct credentials *c = credentials_new();
	CHECK(c != NULL);
	c->cluster_high = 5;
	c->cluster_low = 6;
	c->version = 3;
	snprintf(c->identity, sizeof(c->identity), "alice");
	CHECK_EQ(secure_identity_secret(root, "alice", 3, c->secret), 0);
	w->self.credentials = c;
	CHECK_EQ(tls_make_authority("test authority", now_s, 365, w->authority), 0);
	w->guard.tls = tls_world_make(w->authority, w->authority, true, 365);
	w->self.tls = tls_world_make(w->authority, w->authority, false, 365);
}

void tls_world_close(struct tls_world *w)
{
	secure_self_close(&w->self);
	tls_close(w->guard.tls);
}
