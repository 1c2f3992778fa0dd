// SPDX-License-Identifier: Apache-2.0
/* A metadata server as a role of this process: its settings, and a fiber that serves until the process is asked to stop,
 * or that formats or checks the store and ends. Only terraned links it, which has the engines. */
#ifndef ROLES_META_ROLE_H
#define ROLES_META_ROLE_H

#include "base/strbuf.h"
#include "cluster/cluster.h"
#include "meta/gc.h"
#include "roles/meta_conf.h"
#include "secure/secure.h"

struct audit_log;
struct kv;
struct kv_mem;
struct meta_service;
struct ops_http;
struct rt_team;

enum meta_role_task { META_ROLE_SERVE, META_ROLE_FORMAT, META_ROLE_CHECK };

struct meta_role {
	struct meta_conf conf;
	/* id of the cluster to make, 0: random; after a format the id of the new cluster */
	struct cluster_id id;
	unsigned threads; /* number of loops of a team of its own */
	/* Loops that several roles of the process share. NULL: the role opens a team of its own. Set after meta_role_load. */
	struct rt_team *team;
	struct audit_log *audit;      /* NULL: none */
	struct secure_self self;      /* credentials of the metadata servers; empty: none */
	struct kv *kv;                /* open store of the metadata, or NULL */
	struct kv_mem *mem;           /* store in memory, for the engine mem */
	struct meta_service *service; /* running service, or NULL */
	char *bearer; /* token of the metrics, in memory of secret_alloc; NULL: none */
	struct ops_http *http;
	enum meta_role_task task;
	/* Called once when the server serves, with its address and the address of its metrics or ""; may be NULL. */
	void (*ready)(void *ctx, const char *addr, const char *metrics);
	/* Waits until the server must end. NULL: until the process is asked to stop. */
	int (*stop)(void *ctx);
	void *ctx;
	/* Callbacks and counts of the check, for META_ROLE_CHECK. */
	struct meta_check_options check;
	struct meta_check_report report;
	/* The stage of meta_role_main that was entered last, for meta_role_why. */
	enum {
		STAGE_STORE,
		STAGE_FORMAT,
		STAGE_SERVE,
		STAGE_METRICS,
		STAGE_VERIFY,
		STAGE_CHECK
	} stage;
	int rc; /* result of meta_role_main */
};

/* Loads the settings. After an error err has one line, and there is nothing to free. */
int meta_role_load(struct meta_role *r, const char *config, struct strbuf *err);
void meta_role_free(struct meta_role *r);

/* Runs in a fiber: does r->task and sets r->rc. */
void meta_role_main(void *role);
/* Appends what failed, on which object and why. r->rc is an error. Errors: those of strbuf. */
int meta_role_why(const struct meta_role *r, struct strbuf *out);

#endif
