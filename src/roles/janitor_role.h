// SPDX-License-Identifier: Apache-2.0
/* A janitor as a role of this process: its settings, and a fiber that runs the services until the process is asked to
 * stop. */
#ifndef ROLES_JANITOR_ROLE_H
#define ROLES_JANITOR_ROLE_H

#include "base/strbuf.h"
#include "roles/janitor_conf.h"

struct janitor;
struct ops_http;

struct janitor_role {
	struct janitor_conf conf;
	struct janitor *janitor; /* NULL unless it works */
	struct ops_http *http;   /* NULL unless it serves metrics */
	/* Called once when it works, with the address of its metrics or ""; may be NULL. */
	void (*ready)(void *ctx, const char *metrics);
	void *ctx;
	bool http_failed; /* rc is that of opening http */
	int rc;           /* how janitor_role_main ended */
};

/* Loads the settings. After an error err has one line, and there is nothing to free. */
int janitor_role_load(struct janitor_role *r, const char *config, struct strbuf *err);
void janitor_role_free(struct janitor_role *r);

/* The fiber: runs the janitor until the process is asked to stop, and sets r->rc. */
void janitor_role_main(void *role);
/* Appends why the role ended with an error; nothing after a request to stop. */
void janitor_role_why(const struct janitor_role *r, struct strbuf *out);

#endif
