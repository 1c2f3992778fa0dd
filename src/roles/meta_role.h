// SPDX-License-Identifier: Apache-2.0
/* A metadata server as a role of this process: its settings, and a fiber that serves until the process is
 * asked to stop; or one that formats or checks its store, and ends. Of terraned only: it has the engines. */
#ifndef ROLES_META_ROLE_H
#define ROLES_META_ROLE_H

#include "base/strbuf.h"
#include "cluster/cluster.h"
#include "meta/gc.h"
#include "roles/meta_conf.h"

struct kv;
struct kv_mem;
struct meta_service;
struct ops_http;

enum meta_role_task { META_ROLE_SERVE, META_ROLE_FORMAT, META_ROLE_CHECK };

struct meta_role {
	struct meta_conf conf;
	struct cluster_id id; /* to make */
	struct kv *kv;
	struct kv_mem *mem;
	struct meta_service *service;
	struct ops_http *http;
	enum meta_role_task task;
	/* Called once when it serves; may be NULL. */
	void (*ready)(void *ctx, const char *addr, const char *metrics);
	void *ctx;
	/* Of a check: its callbacks, and what it found. */
	struct meta_check_options check;
	struct meta_check_report report;
	/* Where it ended, for the message: */
	enum {
		STAGE_STORE,
		STAGE_FORMAT,
		STAGE_SERVE,
		STAGE_METRICS,
		STAGE_VERIFY,
		STAGE_CHECK
	} stage;
	int rc;
};

/* From a file of settings. Errors with one line in err; then there is nothing to release. */
int meta_role_load(struct meta_role *r, const char *config, struct strbuf *err);
void meta_role_free(struct meta_role *r);

/* The fiber; ends with r->rc. */
void meta_role_main(void *role);
/* What r->rc means when it is an error. */
int meta_role_why(const struct meta_role *r, struct strbuf *out);

#endif
