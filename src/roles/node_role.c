// SPDX-License-Identifier: Apache-2.0
#include "roles/node_role.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/credentials.h"
#include "base/err.h"
#include "base/log.h"
#include "node/service.h"
#include "ops/http.h"
#include "roles/node_beat.h"
#include "roles/node_guard.h"
#include "roles/role_security.h"
#include "rt/call.h"
#include "rt/real.h"
#include "secure/audit_log.h"
#include "secure/tls.h"

/* The credentials must be those of this node: nobody else can prove its number. */
static int load_credentials(struct node_role *r, struct strbuf *err)
{
	char name[32];
	const struct node_conf *c = &r->conf;
	int rc = role_security_load(&r->self,
				    &(struct role_security){.credentials = c->credentials,
							    .certificates = c->certificates,
							    .tls = c->tls,
							    .server = true,
							    .section = "node",
							    .listen = c->listen,
							    .metrics = c->metrics,
							    .metrics_token = c->metrics_token,
							    .bearer = &r->bearer},
				    err);
	if (rc < 0 || r->self.credentials == NULL)
		return rc;
	snprintf(name, sizeof(name), "node-%ld", (long)r->conf.node);
	if (strcmp(r->self.credentials->identity, name) == 0)
		return 0;
	strbuf_printf(
		err,
		"%s: credentials of %s, not of %s; correct [security] credentials or [node] id",
		r->conf.credentials, r->self.credentials->identity, name);
	return -EINVAL;
}

int node_role_load(struct node_role *r, const char *config, struct strbuf *err)
{
	*r = (struct node_role){0};
	int rc = conf_load(config, node_conf_schema, node_conf_count, &r->conf, err);
	if (rc < 0)
		return rc;
	rc = rt_real_threads(r->conf.threads, &r->threads);
	if (rc < 0)
		strbuf_printf(err, "[node] threads = %s: must be a number from 1 to %d, or auto",
			      r->conf.threads, RT_TEAM_MAX);
	if (rc == 0)
		rc = load_credentials(r, err);
	if (rc == 0)
		rc = node_setup_init(&r->setup, &r->conf, err);
	if (rc < 0) {
		secure_self_close(&r->self);
		role_bearer_free(r->bearer);
		conf_free(node_conf_schema, node_conf_count, &r->conf);
	}
	return rc;
}

void node_role_free(struct node_role *r)
{
	assert(r->beat == NULL && r->http == NULL &&
	       r->guard == NULL); /* node_role_main returned */
	secure_self_close(&r->self);
	role_bearer_free(r->bearer);
	r->bearer = NULL;
	node_setup_fini(&r->setup);
	conf_free(node_conf_schema, node_conf_count, &r->conf);
}

/* --- the operator's endpoint ------------------------------------------------------------------ */

static int role_metrics(void *ctx, struct strbuf *out)
{
	struct node_role *r = ctx;
	int rc = node_metrics(r->node, out);
	if (rc == 0)
		rc = tls_metrics(r->self.tls, out);
	return rc < 0 ? rc : audit_log_metrics(r->audit, out);
}

/* Reports the health of the node for /healthz, which fails if no disk serves. The metrics tell which disks serve. */
static int role_health(void *ctx, struct strbuf *out)
{
	struct node_role *r = ctx;
	size_t serving = 0, all = 0;
	node_health(r->node, &serving, &all);
	int rc = strbuf_printf(out, "%zu of %zu disks serve\n", serving, all);
	return rc != 0 ? rc : serving > 0 || all == 0 ? 0 : -EIO;
}

static int open_http(struct node_role *r)
{
	if (r->conf.metrics[0] == 0)
		return 0;
	int rc = ops_http_open(&r->http, r->conf.metrics,
			       &(struct ops_http_options){.metrics = role_metrics,
							  .health = role_health,
							  .bearer = r->bearer,
							  .ctx = r});
	r->http_failed = rc < 0;
	return rc;
}

/* --- serving ---------------------------------------------------------------------------------- */

/* Starts the heartbeats, if the settings have the address of a metadata server. */
static int announce(struct node_role *r, const char *addr)
{
	const struct node_conf *c = &r->conf;
	const uint64_t *cluster = r->setup.options.disks.cluster;
	if (c->metadata[0] == 0)
		return 0;
	return node_beat_open(&r->beat, &(struct node_beat_options){
						.metadata = c->metadata,
						.cluster = {cluster[0], cluster[1]},
						.node = (uint64_t)c->node,
						.name = c->name,
						.rack = c->rack,
						.addr = c->announce[0] != 0 ? c->announce : addr,
						.self = r->guard != NULL ? &r->self : NULL,
						.team = r->team,
					});
}

static void role_ended(void *ctx)
{
	struct node_role *r = ctx;
	log_info("node_stopping", "node=%ld", r->conf.node);
	node_beat_close(r->beat);
	r->beat = NULL;
	ops_http_close(r->http);
	r->http = NULL;
	r->node = NULL; /* http read it */
}

static int role_ready(void *ctx, struct node *n, const char *addr)
{
	struct node_role *r = ctx;
	assert(n != NULL && r->http == NULL && r->beat == NULL);
	r->node = n;
	int rc = open_http(r);
	if (rc == 0)
		rc = announce(r, addr);
	if (rc < 0) {
		role_ended(r);
		return rc;
	}
	size_t serving = 0, all = 0;
	node_health(n, &serving, &all);
	log_info("node_ready", "node=%ld addr=%s disks=%zu serving=%zu", r->conf.node, addr, all,
		 serving);
	if (r->ready != NULL)
		r->ready(r->ctx, addr, r->http != NULL ? ops_http_addr(r->http) : "");
	return 0;
}

static int open_guard(struct node_role *r, struct node_serve_options *o)
{
	if (r->self.credentials == NULL)
		return 0;
	int rc = node_guard_open(&r->guard,
				 &(struct node_guard_options){.self = &r->self,
							      .node = (uint64_t)r->conf.node,
							      .audit = r->audit,
							      .metadata = r->conf.metadata});
	if (rc < 0)
		return rc;
	r->keys = (struct node_key_source){.get = node_guard_keys,
					   .ctx = r->guard,
					   .skew_ms = r->conf.clock_skew_ns / NS_PER_MS};
	o->guard = node_guard_of(r->guard);
	o->keys = &r->keys;
	return 0;
}

void node_role_main(void *role)
{
	struct node_role *r = role;
	assert(r->node == NULL && r->setup.options.listen != NULL);
	struct node_serve_options o = r->setup.options;
	struct rt_team own = {0};
	bool alone = r->team == NULL && r->threads > 1;
	r->rc = alone ? rt_team_open(&own, r->threads) : 0;
	if (r->rc < 0)
		return;
	if (alone)
		r->team = &own;
	o.team = r->team;
	o.first_loop = r->first_loop;
	o.ready = role_ready;
	o.ended = role_ended;
	o.ctx = r;
	struct rt_fiber *watch = NULL;
	r->rc = role_audit_open(&r->audit, r->conf.audit);
	if (r->rc == 0)
		r->rc = open_guard(r, &o);
	if (r->rc == 0)
		r->rc = role_security_watch(&r->self, r->conf.name, &watch);
	if (r->rc == 0)
		r->rc = node_serve(&o);
	role_security_unwatch(watch);
	node_guard_close(r->guard);
	r->guard = NULL;
	audit_log_close(r->audit);
	r->audit = NULL;
	if (alone) {
		r->team = NULL;
		rt_team_close(&own);
	}
}

void node_role_why(const struct node_role *r, struct strbuf *out)
{
	if (r->rc >= 0)
		return;
	if (r->http_failed)
		strbuf_printf(out, "cannot serve metrics on %s: %s", r->conf.metrics,
			      err_text(r->rc));
	else
		strbuf_printf(out, "cannot serve node %ld on %s: %s", (long)r->conf.node,
			      r->conf.listen, err_text(r->rc));
}

/* --- formatting ------------------------------------------------------------------------------- */

/* Opens all disks with format_all: that formats empty folders. The trouble of a disk that is not open afterwards is the
 * reason. */
int node_role_format(struct node_role *r, uint64_t only,
		     void (*each)(void *ctx, uint64_t disk, const char *trouble), void *ctx)
{
	struct node_disks disks;
	struct node_disks_options o = r->setup.options.disks;
	o.format_all = true;
	if (only != 0) {
		size_t i = 0;
		while (i < o.disk_count && o.disks[i].disk != only)
			i++;
		if (i == o.disk_count || o.disks[i].pool)
			return -EINVAL;
		o.disks += i;
		o.disk_count = 1;
	}
	int rc = node_disks_open(&disks, &o);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < disks.count; i++) {
		const struct node_disk *d = &disks.disks[i];
		bool open = d->store != NULL;
		if (each != NULL)
			each(ctx, d->spec->disk, open ? NULL : d->trouble);
		if (!open)
			rc = -ENODEV;
	}
	node_disks_close(&disks);
	return rc;
}
