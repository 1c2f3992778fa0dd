// SPDX-License-Identifier: Apache-2.0
#include "roles/cache_role.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/credentials.h"
#include "base/err.h"
#include "base/log.h"
#include "ops/http.h"
#include "roles/node_beat.h"
#include "roles/node_guard.h"
#include "roles/role_security.h"
#include "secure/audit_log.h"
#include "secure/tls.h"

/* The credentials must be those of this node: nobody else can prove its number. */
static int load_credentials(struct cache_role *r, struct strbuf *err)
{
	char name[32];
	const struct cache_conf *c = &r->conf;
	int rc = role_security_load(&r->self,
				    &(struct role_security){.credentials = c->credentials,
							    .certificates = c->certificates,
							    .tls = c->tls,
							    .server = true,
							    .section = "cache",
							    .listen = c->listen,
							    .metrics = c->metrics,
							    .metrics_token = c->metrics_token,
							    .bearer = &r->bearer},
				    err);
	if (rc < 0 || r->self.credentials == NULL)
		return rc;
	snprintf(name, sizeof(name), "cache-%ld", (long)c->node);
	if (strcmp(r->self.credentials->identity, name) == 0)
		return 0;
	strbuf_printf(
		err,
		"%s: credentials of %s, not of %s; correct [security] credentials or [cache] id",
		c->credentials, r->self.credentials->identity, name);
	return -EINVAL;
}

int cache_role_load(struct cache_role *r, const char *config, struct strbuf *err)
{
	*r = (struct cache_role){0};
	int rc = conf_load(config, cache_conf_schema, cache_conf_count, &r->conf, err);
	if (rc < 0)
		return rc;
	rc = load_credentials(r, err);
	if (rc == 0)
		rc = cache_setup_init(&r->setup, &r->conf, err);
	if (rc < 0) {
		secure_self_close(&r->self);
		role_bearer_free(r->bearer);
		conf_free(cache_conf_schema, cache_conf_count, &r->conf);
	}
	return rc;
}

void cache_role_free(struct cache_role *r)
{
	assert(r->node == NULL && r->http == NULL && r->guard == NULL); /* its main returned */
	secure_self_close(&r->self);
	role_bearer_free(r->bearer);
	r->bearer = NULL;
	cache_setup_fini(&r->setup);
	conf_free(cache_conf_schema, cache_conf_count, &r->conf);
}

/* --- the operator's endpoint ------------------------------------------------------------------ */

static int role_metrics(void *ctx, struct strbuf *out)
{
	const struct cache_role *r = ctx;
	int rc = cachenode_metrics(r->node, out);
	if (rc == 0)
		rc = tls_metrics(r->self.tls, out);
	return rc < 0 ? rc : audit_log_metrics(r->audit, out);
}

static int role_health(void *ctx, struct strbuf *out)
{
	const struct cache_role *r = ctx;
	bool healthy = cachenode_healthy(r->node);
	int rc = strbuf_puts(out, healthy ? "the flash device serves\n"
					  : "the flash device failed repeatedly; it is tried again "
					    "in a minute\n");
	return rc != 0 ? rc : healthy ? 0 : -EIO;
}

static int open_http(struct cache_role *r)
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

static const struct secure_self *self_of(const struct cache_role *r)
{
	return r->self.credentials != NULL ? &r->self : NULL;
}

static int announce(struct cache_role *r, const char *addr)
{
	const struct cache_conf *c = &r->conf;
	const uint64_t *cluster = r->setup.options.engine.owner;
	return node_beat_open(&r->beat, &(struct node_beat_options){
						.metadata = c->metadata,
						.cluster = {cluster[0], cluster[1]},
						.node = (uint64_t)c->node,
						.name = c->name,
						.rack = c->rack,
						.addr = c->announce[0] != 0 ? c->announce : addr,
						.cache_weight = (uint32_t)c->weight,
						.self = self_of(r),
					});
}

static void role_ended(void *ctx)
{
	struct cache_role *r = ctx;
	log_info("cache_stopping", "node=%ld", (long)r->conf.node);
	node_beat_close(r->beat);
	r->beat = NULL;
	ops_http_close(r->http);
	r->http = NULL;
	r->node = NULL; /* http read it */
}

static int role_ready(void *ctx, struct cachenode *n, const char *addr)
{
	struct cache_role *r = ctx;
	assert(n != NULL && r->http == NULL && r->beat == NULL);
	r->node = n;
	int rc = open_http(r);
	if (rc == 0)
		rc = announce(r, addr);
	if (rc < 0) {
		role_ended(r);
		return rc;
	}
	struct cache_engine_stats s;
	cache_engine_stats(cachenode_engine(n), &s);
	log_info("cache_ready", "node=%ld addr=%s segments=%lu restored=%lu", (long)r->conf.node,
		 addr, (unsigned long)s.segments_max, (unsigned long)s.restored);
	if (r->ready != NULL)
		r->ready(r->ctx, addr, r->http != NULL ? ops_http_addr(r->http) : "");
	return 0;
}

static int open_guard(struct cache_role *r, struct cachenode_options *o)
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
	o->guard = node_guard_of(r->guard);
	o->keys = node_guard_keys;
	o->keys_ctx = r->guard;
	o->fabric.self = &r->self;
	return 0;
}

void cache_role_main(void *role)
{
	struct cache_role *r = role;
	assert(r->node == NULL && r->setup.options.listen != NULL);
	struct cachenode_options o = r->setup.options;
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
		r->rc = cachenode_serve(&o);
	role_security_unwatch(watch);
	node_guard_close(r->guard);
	r->guard = NULL;
	audit_log_close(r->audit);
	r->audit = NULL;
}

void cache_role_why(const struct cache_role *r, struct strbuf *out)
{
	const struct cache_conf *c = &r->conf;
	if (r->rc >= 0 || r->rc == -ECANCELED)
		return;
	if (r->http_failed)
		strbuf_printf(out, "cannot serve metrics on %s: %s", c->metrics, err_text(r->rc));
	else if (r->rc == -ENOTEMPTY)
		strbuf_printf(out,
			      "%s holds something that is no cache; set [cache] format = true "
			      "to overwrite it",
			      c->path);
	else if (r->rc == -EPERM)
		strbuf_printf(out, "%s is the cache of another cluster", c->path);
	else if (r->rc == -EBUSY)
		strbuf_printf(out, "another process uses the cache %s", c->path);
	else if (r->rc == -EINVAL)
		strbuf_printf(out, "[cache] flash is too small for 4 regions of 8 segments; raise "
				   "it, or lower segment");
	else
		strbuf_printf(out, "cannot serve cache node %ld on %s with %s: %s", (long)c->node,
			      c->listen, c->path, err_text(r->rc));
}
