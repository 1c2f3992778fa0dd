// SPDX-License-Identifier: Apache-2.0
#include "cluster_secure.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/credentials.h"
#include "base/arena.h"
#include "meta/identity.h"
#include "meta/meta.h"
#include "meta/service.h"

#define NAMES_BYTES 512

bool secrets_by_seed(uint64_t seed)
{
	return mix_u64(seed ^ 0x736563757265ULL) % 2 == 0;
}

static struct credentials *make(const char *name)
{
	struct credentials *c = credentials_new();
	if (c == NULL)
		abort();
	c->cluster_high = c->cluster_low = 1;
	c->version = 1;
	snprintf(c->identity, sizeof(c->identity), "%s", name);
	return c;
}

static void add(struct world_secrets *s, const char *name)
{
	assert(s->count < SELVES);
	struct credentials *c = make(name);
	if (secure_identity_secret(s->root->secret, name, 1, c->secret) < 0)
		abort();
	s->selves[s->count++].credentials = c;
}

void secrets_open(struct world *w)
{
	if (!w->plan.secured)
		return;
	struct world_secrets *s = calloc(1, sizeof(*s));
	if (s == NULL)
		abort();
	s->root = make("meta");
	memset(s->root->secret, 0x3c, sizeof(s->root->secret) - 1);
	add(s, "admin");
	add(s, "janitor");
	add(s, CHECKER);
	add(s, ATTACKER);
	for (unsigned i = 1; i <= NODES_MAX; i++) {
		char name[16];
		snprintf(name, sizeof(name), "node-%u", i);
		add(s, name);
	}
	w->secrets = s;
}

void secrets_close(struct world *w)
{
	struct world_secrets *s = w->secrets;
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->count; i++)
		credentials_free(s->selves[i].credentials);
	credentials_free(s->root);
	free(s);
	w->secrets = NULL;
}

const struct secure_self *secrets_self(const struct world *w, const char *name)
{
	static const struct secure_self none = {0};
	const struct world_secrets *s = w->secrets;
	for (size_t i = 0; s != NULL && i < s->count; i++)
		if (strcmp(s->selves[i].credentials->identity, name) == 0)
			return &s->selves[i];
	assert(s == NULL);
	return &none;
}

const struct credentials *secrets_root(const struct world *w)
{
	return w->secrets != NULL ? w->secrets->root : NULL;
}

/* Makes a grant the only one of an identity, unless it has it. */
static int give(struct meta *m, const char *name, const struct grant *g)
{
	struct arena a;
	struct stored_identity *s = malloc(sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	arena_init(&a, MIB);
	int rc = identity_read(m, name, &a, s);
	bool has = false;
	for (size_t i = 0; rc == 0 && i < s->grant_count; i++)
		has = has || s->grants[i].id == g->id;
	if (rc == 0 && !has) {
		s->grants[0] = *g;
		s->grant_count = 1;
		rc = identity_write(m, s);
	}
	arena_fini(&a);
	free(s);
	return rc;
}

int secrets_format(struct world *w, struct kv *kv, const struct meta_options *o)
{
	if (w->secrets == NULL)
		return 0;
	char names[NAMES_BYTES] = "admin janitor " CHECKER " " ATTACKER;
	for (unsigned i = 1; i <= NODES_MAX; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), " node-%u", i);
	struct meta *m = NULL;
	int rc = meta_format_identities(kv, o, names);
	if (rc == 0)
		rc = meta_open(&m, kv, o);
	if (rc < 0)
		return rc;
	const struct meta_tenant evil = {.id = ATTACKER_TENANT_ID, .name = ATTACKER_TENANT};
	rc = meta_tenant_create(m, &evil);
	if (rc == -EEXIST)
		rc = 0;
	const struct grant own = {.id = 100,
				  .role = ROLE_READ_WRITE,
				  .tenant = ATTACKER_TENANT_ID,
				  .prefix = "/",
				  .prefix_len = 1};
	if (rc == 0)
		rc = give(m, ATTACKER, &own);
	meta_close(m);
	/* Another server may write the same at the same time. */
	return rc == -ESTALE ? 0 : rc;
}
