// SPDX-License-Identifier: Apache-2.0
/*
 * A cache node as a role of this process: its settings, a fiber that serves until the process is asked to stop, and its
 * heartbeats to the metadata, through which clients find it.
 */
#ifndef ROLES_CACHE_ROLE_H
#define ROLES_CACHE_ROLE_H

#include "base/strbuf.h"
#include "roles/cache_conf.h"
#include "secure/secure.h"

struct audit_log;
struct node_beat;
struct node_guard;
struct ops_http;

struct cache_role {
	struct cache_conf conf;
	struct cache_setup setup;
	struct secure_self self;  /* its credentials; empty: none */
	struct audit_log *audit;  /* NULL: none */
	struct node_guard *guard; /* NULL: clients are not authenticated */
	struct cachenode *node;   /* while it serves, else NULL */
	struct node_beat *beat;
	char *bearer; /* token of the metrics, in memory of secret_alloc; NULL: none */
	struct ops_http *http;
	bool http_failed; /* opening http failed, with the error rc */
	/* Called once when the node serves, with its address and the address of its metrics or ""; may be NULL. */
	void (*ready)(void *ctx, const char *addr, const char *metrics);
	void *ctx;
	int rc; /* result of cache_role_main */
};

/* Loads the settings. After an error err has one line, and there is nothing to free. */
int cache_role_load(struct cache_role *r, const char *config, struct strbuf *err);
void cache_role_free(struct cache_role *r);

/* Runs in a fiber: serves until the process is asked to stop, and sets r->rc. */
void cache_role_main(void *role);
/* Appends the reason why the role ended with an error; appends nothing if it ended by a request to stop. */
void cache_role_why(const struct cache_role *r, struct strbuf *out);

#endif
