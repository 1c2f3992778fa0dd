// SPDX-License-Identifier: Apache-2.0
#include "roles/janitor_role.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "janitor/janitor.h"
#include "meta_client/meta_client.h"
#include "ops/http.h"
#include "ops/prom.h"
#include "roles/role_security.h"
#include "rt/call.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "secure/tls.h"

int janitor_role_load(struct janitor_role *r, const char *config, struct strbuf *err)
{
	*r = (struct janitor_role){0};
	int rc = conf_load(config, janitor_conf_schema, janitor_conf_count, &r->conf, err);
	if (rc < 0)
		return rc;
	rc = rt_real_threads(r->conf.threads, &r->threads);
	if (rc < 0)
		strbuf_printf(err, "[janitor] threads = %s: must be a number from 1 to %d, or auto",
			      r->conf.threads, RT_TEAM_MAX);
	else
		rc = role_security_load(
			&r->self,
			&(struct role_security){.credentials = r->conf.credentials,
						.certificates = r->conf.certificates,
						.tls = r->conf.tls,
						.section = "janitor",
						.listen = "",
						.metrics = r->conf.metrics,
						.metrics_token = r->conf.metrics_token,
						.bearer = &r->bearer},
			err);
	if (rc < 0)
		janitor_role_free(r);
	return rc;
}

void janitor_role_free(struct janitor_role *r)
{
	assert(r->janitor == NULL && r->http == NULL); /* janitor_role_main returned */
	secure_self_close(&r->self);
	role_bearer_free(r->bearer);
	r->bearer = NULL;
	conf_free(janitor_conf_schema, janitor_conf_count, &r->conf);
}

static int open_janitor(struct janitor_role *r)
{
	assert(r->janitor == NULL && r->conf.metadata != NULL); /* loaded, and not running */
	const struct janitor_conf *c = &r->conf;
	const char *addrs[META_CLIENT_SERVERS_MAX];
	size_t n = 0;
	AUTO_FREE char *text = strdup(c->metadata);
	char *rest = text, *word;
	if (text == NULL)
		return -ENOMEM;
	while ((word = strtok_r(rest, ", \t", &rest)) != NULL && n < META_CLIENT_SERVERS_MAX)
		addrs[n++] = word;
	struct janitor_options o = {
		.addrs = addrs,
		.addr_count = n,
		.grace_ns = c->grace_ns,
		.lease_ns = c->lease_ns,
		.round_ns = c->round_ns,
		.look_ns = c->look_ns,
		.orphan_ns = c->orphan_ns,
		.delay_ns = c->delay_ns,
		.scrub_ns = c->scrub_ns,
		.survey_ns = c->survey_ns,
		.spread_percent = (unsigned)c->spread_percent,
		.dead_percent = (unsigned)c->dead_percent,
		.disk_bytes_per_s = c->disk_bytes_per_s,
		.rack_bytes_per_s = c->rack_bytes_per_s,
		.percent = (unsigned)c->percent,
		.parallel = (unsigned)c->parallel,
		.method = (enum janitor_method)c->method,
		.rack = c->rack,
		.deletes_per_s = (unsigned)c->deletes_per_s,
		.team = r->team,
		.fabric = {.memory_bytes = c->memory_bytes,
			   .self = r->self.credentials != NULL ? &r->self : NULL},
	};
	return janitor_open(&r->janitor, &o);
}

static int serve_metrics(void *ctx, struct strbuf *out)
{
	const struct janitor_role *r = ctx;
	struct rt_loop *loops[RT_TEAM_MAX] = {rt_loop_self()};
	unsigned count = r->team != NULL ? r->team->count : 1;
	assert(count > 0 && count <= RT_TEAM_MAX);
	for (unsigned i = 0; i < count && r->team != NULL; i++)
		loops[i] = r->team->ports[i].loop;
	int rc = janitor_metrics(r->janitor, out);
	if (rc == 0)
		rc = prom_loops(out, loops, count);
	return rc < 0 ? rc : tls_metrics(r->self.tls, out);
}

static void work(void *arg)
{
	struct janitor_role *r = arg;
	rt_background();
	(void)janitor_run(r->janitor);
}

static int work_until_stopped(struct janitor_role *r)
{
	assert(r->janitor != NULL && r->http == NULL);
	struct rt_fiber *fiber;
	if (r->conf.metrics[0] != 0) {
		int rc = ops_http_open(&r->http, r->conf.metrics,
				       &(struct ops_http_options){.metrics = serve_metrics,
								  .bearer = r->bearer,
								  .ctx = r});
		r->http_failed = rc < 0;
		if (rc < 0)
			return rc;
	}
	int rc = rt_spawn(&fiber, "janitor", work, r);
	if (rc < 0)
		return rc;
	log_info("janitor_ready", "metadata=%s", r->conf.metadata);
	if (r->ready != NULL)
		r->ready(r->ctx, r->http != NULL ? ops_http_addr(r->http) : "");
	rc = rt_shutdown_wait();
	log_info("janitor_stopping");
	rt_cancel(fiber);
	rt_join(fiber);
	return rc;
}

void janitor_role_main(void *role)
{
	struct janitor_role *r = role;
	struct rt_team own = {0};
	bool alone = r->team == NULL && r->threads > 1;
	r->rc = alone ? rt_team_open(&own, r->threads) : 0;
	if (r->rc < 0)
		return;
	if (alone)
		r->team = &own;
	struct rt_fiber *watch = NULL;
	r->rc = role_security_watch(&r->self, "janitor", &watch);
	if (r->rc == 0)
		r->rc = open_janitor(r);
	if (r->rc == 0)
		r->rc = work_until_stopped(r);
	role_security_unwatch(watch);
	ops_http_close(r->http);
	r->http = NULL;
	janitor_close(r->janitor);
	r->janitor = NULL;
	if (alone) {
		r->team = NULL;
		rt_team_close(&own);
	}
}

void janitor_role_why(const struct janitor_role *r, struct strbuf *out)
{
	if (r->rc == 0 || r->rc == -ECANCELED)
		return;
	if (r->http_failed)
		strbuf_printf(out, "cannot serve metrics on %s: %s", r->conf.metrics,
			      err_text(r->rc));
	else
		strbuf_printf(out, "cannot start the janitor for the metadata at %s: %s",
			      r->conf.metadata, err_text(r->rc));
}
