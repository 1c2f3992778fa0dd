// SPDX-License-Identifier: Apache-2.0
/* A janitor as a role of this process: its settings, and a fiber that works until the process is asked to
 * stop. */
#ifndef ROLES_JANITOR_ROLE_H
#define ROLES_JANITOR_ROLE_H

#include "base/strbuf.h"
#include "roles/janitor_conf.h"

struct janitor;
struct ops_http;

struct janitor_role {
	struct janitor_conf conf;
	struct janitor *janitor; /* while it works */
	struct ops_http *http;
	/* Called once when it works; may be NULL. */
	void (*ready)(void *ctx, const char *metrics);
	void *ctx;
	bool http_failed;
	int rc;
};

/* From a file of settings. Errors with one line in err; then there is nothing to release. */
int janitor_role_load(struct janitor_role *r, const char *config, struct strbuf *err);
void janitor_role_free(struct janitor_role *r);

/* The fiber; ends with r->rc. */
void janitor_role_main(void *role);
/* What r->rc means, for a message: empty when it is well. */
void janitor_role_why(const struct janitor_role *r, struct strbuf *out);

#endif
