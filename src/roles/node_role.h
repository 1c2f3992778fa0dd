// SPDX-License-Identifier: Apache-2.0
/*
 * A storage node as a role of this process: its settings, a fiber that serves until the process is asked to stop, and
 * its heartbeats to the metadata. Several nodes may run in one process.
 */
#ifndef ROLES_NODE_ROLE_H
#define ROLES_NODE_ROLE_H

#include "base/strbuf.h"
#include "node/service.h"
#include "roles/node_conf.h"
#include "secure/secure.h"

struct audit_log;
struct node_beat;
struct node_guard;
struct ops_http;
struct rt_team;

struct node_role {
	struct node_conf conf;
	struct node_setup setup;
	unsigned threads; /* number of loops of a team of its own */
	/* Loops that several roles of the process share, and the loop of the first disk. NULL: the role opens a team of its
	 * own. Set after node_role_load. */
	struct rt_team *team;
	unsigned first_loop;
	struct audit_log *audit;     /* NULL: none */
	struct secure_self self;     /* its credentials; empty: none */
	struct node_guard *guard;    /* NULL: clients are not authenticated */
	struct node_key_source keys; /* of the guard */
	struct node *node;           /* the node service while it runs, else NULL */
	struct node_beat *beat;
	char *bearer; /* token of the metrics, in memory of secret_alloc; NULL: none */
	struct ops_http *http;
	bool http_failed; /* opening http failed, with the error rc */
	/* Called once when the node serves, with its address and the address of its metrics or ""; may be NULL. */
	void (*ready)(void *ctx, const char *addr, const char *metrics);
	void *ctx;
	int rc; /* result of node_role_main */
};

/* Loads the settings. After an error err has one line, and there is nothing to free. */
int node_role_load(struct node_role *r, const char *config, struct strbuf *err);
void node_role_free(struct node_role *r);

/* Runs in a fiber: serves until the process is asked to stop, and sets r->rc. */
void node_role_main(void *role);
/* Appends the reason why the role ended with an error; appends nothing if it ended by a request to stop. */
void node_role_why(const struct node_role *r, struct strbuf *out);

/* Formats the empty folders of its settings as disks, or of one disk (0: all). In a fiber. Calls each, which may be NULL, for every disk; trouble
 * is NULL if the disk is ready. -ENODEV: some disk is not; -EINVAL: the settings have no such disk,
 * or it is a pool. */
int node_role_format(struct node_role *r, uint64_t only,
		     void (*each)(void *ctx, uint64_t disk, const char *trouble), void *ctx);

#endif
