// SPDX-License-Identifier: Apache-2.0
#include "roles/node_guard.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "meta_client/identity.h"
#include "meta_client/meta_client.h"
#include "rt/call.h"
#include "rt/pool.h"
#include "rt/sync.h"

#define POOL_BYTES (1 * MIB)
#define CALL_NS (5 * NS_PER_S)
/* How long an unknown name is remembered, so that a flood of such names does not reach the metadata. */
#define UNKNOWN_NS (1 * NS_PER_S)

/* What is known about a name. In memory of secret_alloc with all others. */
struct known {
	char name[IDENTITY_NAME_MAX + 1];
	bool there; /* the identity exists */
	struct session session;
	uint8_t key[MAC_KEY_BYTES];
	uint64_t asked_ns; /* time of the answer */
	bool asking;
	bool ask_again; /* a client did not prove the key: it may be old */
};

struct node_guard {
	struct secure_guard base;
	struct node_guard_options o;
	char what[32];       /* the node, for the audit log */
	struct rt_port port; /* the loop of the guard */
	struct rt_pool pool;
	char *metadata;
	struct meta_client *client; /* NULL: there are no metadata servers */
	struct map names;           /* hash of the name -> struct known */
	uint64_t seed;
	struct rt_cond answered;
};

/* --- answers of the metadata ------------------------------------------------------------------- */

static int take(const struct node_guard *g, const struct meta_identity_key *answer, struct known *k)
{
	char purpose[sizeof(IDENTITY_WRAP_KEY) + IDENTITY_NAME_MAX];
	snprintf(purpose, sizeof(purpose), IDENTITY_WRAP_KEY "%s", k->name);
	int rc = secure_unwrap(g->o.self->credentials->secret, purpose, answer->key, k->key);
	if (rc < 0)
		return rc;
	k->session = (struct session){.identity = answer->identity,
				      .key_version = answer->version,
				      .cluster_ops = answer->cluster_ops};
	memcpy(k->session.name, k->name, sizeof(k->name));
	k->there = true;
	return 0;
}

/*
 * Asks the metadata for a name. Clients that do not prove a key cause a question a second at most: later lookups wait for the
 * next one, because the credentials may have been replaced right after the last.
 */
static int ask(struct node_guard *g, struct known *k)
{
	struct meta_identity_key answer;
	struct meta_call call = {.client = g->client, .timeout_ns = CALL_NS};
	uint64_t age_ns = k->ask_again ? rt_elapsed_ns(k->asked_ns) : UNKNOWN_NS;
	assert(!k->asking);
	k->asking = true;
	int rc = age_ns < UNKNOWN_NS ? rt_sleep_ns(UNKNOWN_NS - age_ns) : 0;
	k->ask_again = false;
	if (rc == 0)
		rc = meta_client_identity_key(&call, k->name, &answer);
	k->asking = false;
	if (rc == 0)
		rc = take(g, &answer, k);
	else if (rc == -ENOENT)
		k->there = false;
	if (rc == 0 || rc == -ENOENT)
		k->asked_ns = rt_now_ns();
	else if (rc != -ECANCELED)
		log_warn("identity_not_found", "name=%s err=%s", k->name, err_name(rc));
	rt_cond_broadcast(&g->answered);
	return rc;
}

/* --- the table ------------------------------------------------------------------------------------- */

static bool fresh(const struct known *k)
{
	return k->asked_ns != 0 && !k->ask_again &&
	       rt_elapsed_ns(k->asked_ns) < (k->there ? GUARD_FRESH_NS : UNKNOWN_NS);
}

static void forget(struct node_guard *g, uint64_t key, struct known *k)
{
	map_remove(&g->names, key);
	secret_free(k, sizeof(*k));
}

/* Makes room: forgets names that are not in use, unknown ones first. */
static void evict(struct node_guard *g)
{
	struct known *victim = NULL;
	uint64_t key = 0;
	map_for_each(&g->names, it) {
		struct known *k = it.value;
		if (k->asking)
			continue;
		if (victim == NULL || (victim->there && !k->there) ||
		    (victim->there == k->there && k->asked_ns < victim->asked_ns)) {
			victim = k;
			key = it.key;
		}
	}
	if (victim != NULL)
		forget(g, key, victim);
}

static int entry_of(struct node_guard *g, const char *name, struct known **out)
{
	uint64_t key = hash64(name, strlen(name), g->seed);
	struct known *k = map_get(&g->names, key);
	if (k != NULL && strcmp(k->name, name) != 0) {
		if (k->asking)
			return -EAGAIN;
		forget(g, key, k);
		k = NULL;
	}
	if (k == NULL) {
		if (map_count(&g->names) >= GUARD_NAMES_MAX)
			evict(g);
		k = secret_alloc(sizeof(*k));
		if (k == NULL)
			return -ENOMEM;
		snprintf(k->name, sizeof(k->name), "%s", name);
		int rc = map_put(&g->names, key, k);
		if (rc < 0) {
			secret_free(k, sizeof(*k));
			return rc == -ENOSPC ? -EAGAIN : rc;
		}
	}
	*out = k;
	return 0;
}

/* --- lookups --------------------------------------------------------------------------------------- */

struct lookup {
	struct node_guard *g;
	const char *name;
	struct session *session;
	uint8_t *key;
	int rc;
};

static int own(struct lookup *l)
{
	const struct credentials *c = l->g->o.self->credentials;
	*l->session = (struct session){.identity = 1,
				       .key_version = c->version,
				       .cluster_ops = 1u << OP_CLUSTER_READ | 1u << OP_HEARTBEAT};
	snprintf(l->session->name, sizeof(l->session->name), "%s", c->identity);
	return secure_key(c->secret, l->g->o.node, l->key);
}

static int look_up(struct lookup *l)
{
	struct node_guard *g = l->g;
	struct known *k = NULL;
	if (strcmp(l->name, g->o.self->credentials->identity) == 0)
		return own(l);
	if (g->client == NULL)
		return -ENOENT;
	int rc = entry_of(g, l->name, &k);
	if (rc < 0)
		return rc;
	if (k->asking)
		while ((rc = rt_cond_wait(&g->answered)) == 0) {
			/* the entry may have been replaced while this fiber waited */
			rc = entry_of(g, l->name, &k);
			if (rc < 0 || !k->asking)
				break;
		}
	if (rc == 0 && !fresh(k))
		rc = ask(g, k);
	bool usable = k->asked_ns != 0 && rt_elapsed_ns(k->asked_ns) < GUARD_STALE_NS;
	if (rc == -ECANCELED || (rc < 0 && rc != -ENOENT && !(usable && k->there)))
		return rc;
	if (!k->there)
		return -ENOENT;
	*l->session = k->session;
	memcpy(l->key, k->key, MAC_KEY_BYTES);
	return 0;
}

static void look_up_here(void *arg)
{
	struct lookup *l = arg;
	l->rc = look_up(l);
}

static int find(void *ctx, const char *name, struct session *out, uint8_t key[MAC_KEY_BYTES])
{
	struct lookup l = {.g = ctx, .name = name, .session = out, .key = key};
	int rc = rt_call(&l.g->port, "guard", look_up_here, &l);
	return rc != 0 ? rc : l.rc;
}

static void unproved_here(void *arg)
{
	const struct lookup *l = arg;
	struct known *k = map_get(&l->g->names, hash64(l->name, strlen(l->name), l->g->seed));
	if (k != NULL && !k->asking && strcmp(k->name, l->name) == 0 && k->there)
		k->ask_again = true;
}

static void unproved(void *ctx, const char *name)
{
	struct lookup l = {.g = ctx, .name = name};
	(void)rt_call(&l.g->port, "guard", unproved_here, &l);
}

/* --- open, close --------------------------------------------------------------------------------------- */

static int connect_metadata(struct node_guard *g)
{
	const char *addrs[META_CLIENT_SERVERS_MAX];
	size_t n = 0;
	char *save = NULL;
	for (char *word = strtok_r(g->metadata, ", ", &save); word != NULL;
	     word = strtok_r(NULL, ", ", &save)) {
		if (n == META_CLIENT_SERVERS_MAX)
			return -EINVAL;
		addrs[n++] = word;
	}
	if (n == 0)
		return 0;
	return meta_client_open(
		&g->client,
		&(struct meta_client_options){.addrs = addrs,
					      .addr_count = n,
					      .tenant = META_SYSTEM,
					      .channel = {.pool = &g->pool, .self = g->o.self}});
}

int node_guard_open(struct node_guard **out, const struct node_guard_options *o)
{
	const struct credentials *c = o->self->credentials;
	struct node_guard *g = calloc(1, sizeof(*g));
	*out = NULL;
	if (g == NULL)
		return -ENOMEM;
	assert(c != NULL && o->node != 0);
	g->o = *o;
	g->base = (struct secure_guard){.place = {.cluster_high = c->cluster_high,
						  .cluster_low = c->cluster_low,
						  .server = o->node},
					.find = find,
					.unproved = unproved,
					.ctx = g,
					.tls = o->self->tls,
					.audit = o->audit,
					.what = g->what};
	snprintf(g->what, sizeof(g->what), "node %lu", o->node);
	rt_random_secret(g->base.decoy, sizeof(g->base.decoy));
	rt_random_secret(&g->seed, sizeof(g->seed));
	rt_port_init(&g->port, rt_loop_self());
	rt_pool_init(&g->pool, POOL_BYTES);
	rt_cond_init(&g->answered);
	map_init(&g->names, GUARD_NAMES_MAX);
	g->metadata = strdup(o->metadata);
	int rc = g->metadata != NULL ? connect_metadata(g) : -ENOMEM;
	if (rc < 0) {
		node_guard_close(g);
		return rc;
	}
	*out = g;
	return 0;
}

void node_guard_close(struct node_guard *g)
{
	if (g == NULL)
		return;
	rt_port_close(&g->port);
	meta_client_close(g->client);
	map_for_each(&g->names, it)
		secret_free(it.value, sizeof(struct known));
	map_fini(&g->names);
	rt_pool_fini(&g->pool);
	free(g->metadata);
	secret_wipe(g, sizeof(*g));
	free(g);
}

const struct secure_guard *node_guard_of(const struct node_guard *g)
{
	return &g->base;
}

int node_guard_keys(void *guard, struct key_pair *pairs, size_t n)
{
	struct node_guard *g = guard;
	struct meta_call call = {.client = g->client, .timeout_ns = CALL_NS};
	return g->client == NULL
		       ? 0
		       : meta_client_token_keys(&call, g->o.self->credentials->secret, pairs, n);
}
