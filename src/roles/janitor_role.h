// SPDX-License-Identifier: Apache-2.0
/* A janitor as a role of this process: its settings, and a fiber that runs the services until the process is asked to
 * stop. */
#ifndef ROLES_JANITOR_ROLE_H
#define ROLES_JANITOR_ROLE_H

#include "base/strbuf.h"
#include "roles/janitor_conf.h"
#include "secure/secure.h"

struct janitor;
struct ops_http;
struct rt_team;

struct janitor_role {
	struct janitor_conf conf;
	struct secure_self self; /* its credentials; empty: none */
	unsigned threads;        /* number of loops of a team of its own */
	/* Loops that several roles of the process share, set after janitor_role_load. NULL: one loop, or while
	 * janitor_role_main runs a team of its own. */
	struct rt_team *team;
	struct janitor *janitor; /* the services; NULL unless they run */
	char *bearer;            /* token of the metrics, in memory of secret_alloc; NULL: none */
	struct ops_http *http;   /* server of the metrics; NULL unless it runs */
	/* Called once when the services run, with the address of the metrics or ""; may be NULL. */
	void (*ready)(void *ctx, const char *metrics);
	void *ctx;
	bool http_failed; /* opening http failed, with the error rc */
	int rc;           /* result of janitor_role_main */
};

/* Loads the settings. After an error err has one line, and there is nothing to free. */
int janitor_role_load(struct janitor_role *r, const char *config, struct strbuf *err);
void janitor_role_free(struct janitor_role *r);

/* Runs in a fiber: runs the janitor until the process is asked to stop, and sets r->rc. */
void janitor_role_main(void *role);
/* Appends the reason why the role ended with an error; appends nothing if it ended by a request to stop. */
void janitor_role_why(const struct janitor_role *r, struct strbuf *out);

#endif
