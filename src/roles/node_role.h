// SPDX-License-Identifier: Apache-2.0
/*
 * A storage node as a role of this process: its settings, a fiber that serves until the process is asked
 * to stop, and its place in the cluster map. Several may run in one process.
 */
#ifndef ROLES_NODE_ROLE_H
#define ROLES_NODE_ROLE_H

#include "base/strbuf.h"
#include "node/service.h"
#include "roles/node_conf.h"

struct node_beat;
struct ops_http;

struct node_role {
	struct node_conf conf;
	struct node_setup setup;
	struct node *node; /* while it serves */
	struct node_beat *beat;
	struct ops_http *http;
	bool http_failed;
	/* Called once when it serves; may be NULL. */
	void (*ready)(void *ctx, const char *addr, const char *metrics);
	void *ctx;
	int rc;
};

/* From a file of settings. Errors with one line in err; then there is nothing to release. */
int node_role_load(struct node_role *r, const char *config, struct strbuf *err);
void node_role_free(struct node_role *r);

/* The fiber; ends with r->rc. */
void node_role_main(void *role);
/* What r->rc means, for a message: empty when it is well. */
void node_role_why(const struct node_role *r, struct strbuf *out);

/* Makes disks of the empty folders of its settings. In a fiber. -ENODEV: not all are ready. each, which may
 * be NULL, is told of every disk: trouble is NULL when it is ready. */
int node_role_format(struct node_role *r,
		     void (*each)(void *ctx, uint64_t disk, const char *trouble), void *ctx);

#endif
