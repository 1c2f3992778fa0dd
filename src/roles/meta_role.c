// SPDX-License-Identifier: Apache-2.0
#include "roles/meta_role.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "kv/mem.h"
#include "kv/rados.h"
#include "kv/rocksdb.h"
#include "meta/service.h"
#include "ops/http.h"
#include "roles/role_security.h"
#include "rt/call.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "secure/audit_log.h"
#include "secure/tls.h"

/* --- settings ------------------------------------------------------------------------------ */

/* Parses the id of a cluster; "" leaves *id 0. -EINVAL: the text is no id. */
static int parse_id(const char *text, struct cluster_id *id)
{
	if (text[0] == 0)
		return 0;
	if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
		return -EINVAL;
	char high[17] = {0};
	memcpy(high, text, 16);
	id->high = strtoull(high, NULL, 16);
	id->low = strtoull(text + 16, NULL, 16);
	return 0;
}

int meta_role_load(struct meta_role *r, const char *config, struct strbuf *err)
{
	*r = (struct meta_role){0};
	struct meta_conf *c = &r->conf;
	int rc = conf_load(config, meta_conf_schema, meta_conf_count, c, err);
	if (rc < 0)
		return rc;
	const char *wrong = NULL;
	if (rt_real_threads(c->threads, &r->threads) < 0)
		wrong = "threads in [meta] must be a number from 1 to 256, or auto";
	else if (parse_id(c->cluster, &r->id) < 0)
		wrong = "[cluster] id must be 32 hexadecimal digits, or empty";
	else if (c->engine == META_ENGINE_ROCKSDB && c->dir[0] == 0)
		wrong = "the engine rocksdb needs dir in [store], the folder of the store";
	if (wrong != NULL) {
		strbuf_printf(err, "%s: %s", config, wrong);
		rc = -EINVAL;
	} else {
		rc = role_security_load(&r->self,
					&(struct role_security){.credentials = c->credentials,
								.certificates = c->certificates,
								.tls = c->tls,
								.server = true,
								.section = "meta",
								.listen = c->listen,
								.metrics = c->metrics,
								.metrics_token = c->metrics_token,
								.bearer = &r->bearer},
					err);
	}
	if (rc < 0)
		meta_role_free(r);
	return rc;
}

void meta_role_free(struct meta_role *r)
{
	assert(r->kv == NULL && r->http == NULL); /* meta_role_main returned */
	secure_self_close(&r->self);
	role_bearer_free(r->bearer);
	r->bearer = NULL;
	conf_free(meta_conf_schema, meta_conf_count, &r->conf);
}

/* --- the store --------------------------------------------------------------------------------- */

static const char *or_null(const char *text)
{
	return text[0] != 0 ? text : NULL;
}

static int open_store(struct meta_role *r)
{
	assert(r->kv == NULL && r->mem == NULL);
	const struct meta_conf *c = &r->conf;
	bool only_existing = r->task == META_ROLE_CHECK;
	switch ((enum meta_engine)c->engine) {
	case META_ENGINE_ROCKSDB:
		return kv_rocksdb_open(
			&r->kv, &(struct kv_rocksdb_options){.dir = c->dir,
							     .cache_bytes = c->cache_bytes,
							     .memtable_bytes = c->memtable_bytes,
							     .salvage = c->salvage,
							     .only_existing = only_existing});
	case META_ENGINE_RADOS:
		return kv_rados_open(&r->kv,
				     &(struct kv_rados_options){.conf = or_null(c->ceph_conf),
								.user = or_null(c->ceph_user),
								.pool = c->pool,
								.space = c->space,
								.only_existing = only_existing});
	default:
		r->mem = kv_mem_new(&(struct kv_mem_options){.seed = rt_random_u64()});
		return r->mem == NULL ? -ENOMEM : kv_mem_open(&r->kv, r->mem);
	}
}

static void close_store(struct meta_role *r)
{
	if (r->kv != NULL)
		kv_close(r->kv);
	r->kv = NULL;
	if (r->mem != NULL)
		kv_mem_free(r->mem);
	r->mem = NULL;
}

/* --- the operator's endpoint ------------------------------------------------------------------- */

static int serve_metrics(void *ctx, struct strbuf *out)
{
	struct meta_role *r = ctx;
	int rc = meta_service_metrics(r->service, out);
	if (rc == 0)
		rc = tls_metrics(r->self.tls, out);
	return rc < 0 ? rc : audit_log_metrics(r->audit, out);
}

static int serve_health(void *ctx, struct strbuf *out)
{
	struct meta_role *r = ctx;
	int rc = meta_service_health(r->service);
	int printed = strbuf_printf(out, "%s\n", rc == 0 ? "serving" : err_text(rc));
	return printed < 0 ? printed : rc;
}

/* --- serving ----------------------------------------------------------------------------------- */

static int serve_ready(void *ctx, const char *addr, struct meta_service *service)
{
	struct meta_role *r = ctx;
	assert(r->stage == STAGE_SERVE && r->http == NULL && service != NULL);
	r->service = service;
	if (r->conf.metrics[0] != 0) {
		int rc = ops_http_open(&r->http, r->conf.metrics,
				       &(struct ops_http_options){.metrics = serve_metrics,
								  .health = serve_health,
								  .bearer = r->bearer,
								  .ctx = r});
		if (rc < 0) {
			r->stage = STAGE_METRICS;
			return rc;
		}
	}
	log_info("meta_ready", "addr=%s", addr);
	if (r->ready != NULL)
		r->ready(r->ctx, addr, r->http != NULL ? ops_http_addr(r->http) : "");
	return 0;
}

static int serve_stop(void *ctx)
{
	struct meta_role *r = ctx;
	return r->stop != NULL ? r->stop(r->ctx) : rt_shutdown_wait();
}

static void serve_ended(void *ctx)
{
	struct meta_role *r = ctx;
	log_info("meta_stopping");
	ops_http_close(r->http);
	r->http = NULL;
}

static struct meta_options layer_options(const struct meta_conf *c)
{
	struct meta_options o;
	meta_options_init(&o);
	o.partition_bits = (unsigned)c->partition_bits;
	o.spread_entries = (uint64_t)c->spread;
	if (c->spread == 0 && c->engine == META_ENGINE_RADOS)
		o.spread_entries = 20000;
	o.cache_bytes = c->sealed_cache_bytes;
	o.cache_ttl_ns = c->sealed_ttl_ns;
	return o;
}

static int serve_store(struct meta_role *r)
{
	const struct meta_conf *c = &r->conf;
	struct meta_serve_options o = {
		.listen = c->listen,
		.root = r->self.credentials,
		.tls = r->self.tls,
		.meta = layer_options(c),
		.map = {.beat_ns = c->beat_ns,
			.suspect_ns = c->suspect_ns,
			.failed_ns = c->failed_ns},
		.partition_rate = (uint64_t)c->partition_rate,
		.partition_burst = (uint64_t)c->partition_burst,
		.price_goal_percent = (uint32_t)c->price_goal,
		.price_settle_ns = c->price_settle_ns,
		.usage_ns = c->usage_ns,
		.pool_bytes = c->pool_bytes,
		.connections_max = (size_t)c->connections,
		.grace_ns = c->grace_ns,
		.stop = serve_stop,
		.ready = serve_ready,
		.ended = serve_ended,
		.ctx = r,
	};
	assert(r->task == META_ROLE_SERVE && r->kv != NULL);
	r->stage = STAGE_SERVE;
	struct rt_team own = {0};
	bool alone = r->team == NULL && r->threads > 1;
	int rc = alone ? rt_team_open(&own, r->threads) : 0;
	if (rc < 0)
		return rc;
	o.team = alone ? &own : r->team;
	struct rt_fiber *watch = NULL;
	rc = role_security_watch(&r->self, "meta", &watch);
	if (rc == 0)
		rc = role_audit_open(&r->audit, c->audit);
	o.audit = r->audit;
	if (rc == 0)
		rc = meta_serve(r->kv, &o);
	audit_log_close(r->audit);
	r->audit = NULL;
	role_security_unwatch(watch);
	if (alone)
		rt_team_close(&own);
	return rc;
}

static int format_store(struct meta_role *r)
{
	assert(r->task != META_ROLE_CHECK); /* a check changes nothing */
	struct meta_options o = layer_options(&r->conf);
	r->stage = STAGE_FORMAT;
	int rc = meta_format(r->kv, &o, &r->id, (enum place_kind)r->conf.network_place,
			     r->conf.tenant);
	if (rc < 0 || r->conf.identities == NULL)
		return rc;
	return meta_format_identities(r->kv, &o, r->conf.identities);
}

/* Verifies the files of the engine, then checks the records in them. */
static int check_store(struct meta_role *r)
{
	assert(r->task == META_ROLE_CHECK && r->kv != NULL);
	struct meta *m = NULL;
	struct meta_options o = layer_options(&r->conf);
	uint64_t keys = 0;
	o.cache_bytes = 0;
	o.only_existing = true;
	r->stage = STAGE_VERIFY;
	int rc = r->conf.engine == META_ENGINE_ROCKSDB ? kv_rocksdb_verify(r->kv, &keys) : 0;
	if (rc != 0)
		return rc;
	r->stage = STAGE_CHECK;
	rc = meta_open(&m, r->kv, &o);
	if (rc == 0)
		rc = meta_check(m, &r->check, &r->report);
	meta_close(m);
	return rc;
}

/* Makes a cluster if the settings ask for it, and serves. */
static int make_and_serve(struct meta_role *r)
{
	int rc = r->conf.format || r->conf.engine == META_ENGINE_MEM ? format_store(r) : 0;
	return rc == 0 ? serve_store(r) : rc;
}

void meta_role_main(void *role)
{
	struct meta_role *r = role;
	r->stage = STAGE_STORE;
	r->rc = open_store(r);
	if (r->rc == 0)
		r->rc = r->task == META_ROLE_FORMAT  ? format_store(r)
			: r->task == META_ROLE_CHECK ? check_store(r)
						     : make_and_serve(r);
	close_store(r);
}

/* --- what went wrong ---------------------------------------------------------------------------- */

static int store_failed(const struct meta_conf *c, int rc, struct strbuf *out)
{
	const char *what = c->engine == META_ENGINE_RADOS ? c->pool : c->dir;
	switch (rc) {
	case -EBUSY:
		return strbuf_printf(out, "cannot open %s: another process serves it", what);
	case -EBADMSG:
		return strbuf_printf(out,
				     "cannot open %s: its files are damaged or not Terrane's; the "
				     "log above names "
				     "the file. Restore a copy, or see [store] salvage",
				     what);
	case -ENOENT:
		return strbuf_printf(out, "cannot open %s: %s does not exist; create it first",
				     what,
				     c->engine == META_ENGINE_RADOS ? "the pool" : "its parent");
	case -ETIMEDOUT:
		return strbuf_printf(
			out, "cannot open the pool %s: no monitor of the Ceph cluster answers",
			what);
	default:
		return strbuf_printf(out, "cannot open %s: %s", what, err_text(rc));
	}
}

int meta_role_why(const struct meta_role *r, struct strbuf *out)
{
	assert(r->rc != 0);
	const struct meta_conf *c = &r->conf;
	switch (r->stage) {
	case STAGE_STORE:
		if (r->rc == -ENOENT && r->task == META_ROLE_CHECK)
			return strbuf_printf(out, "cannot check %s: it has no metadata store",
					     c->engine == META_ENGINE_RADOS ? c->pool : c->dir);
		return store_failed(c, r->rc, out);
	case STAGE_FORMAT:
		return strbuf_printf(out, "cannot make a cluster in the store %s: %s",
				     c->engine == META_ENGINE_RADOS ? c->pool : c->dir,
				     err_text(r->rc));
	case STAGE_METRICS:
		return strbuf_printf(out, "cannot serve metrics on %s: %s", c->metrics,
				     err_text(r->rc));
	case STAGE_VERIFY:
		return strbuf_printf(out,
				     "cannot read the files in %s: %s; the log above names them. "
				     "Restore a copy",
				     c->dir, err_text(r->rc));
	case STAGE_CHECK:
		return r->rc == -ENOENT
			       ? strbuf_printf(
					 out, "cannot check the metadata: the store has no cluster")
			       : strbuf_printf(out, "cannot check all of the metadata: %s",
					       err_text(r->rc));
	default:
		break;
	}
	if (r->rc == -ENOENT)
		return strbuf_printf(
			out, "cannot serve: the store has no cluster; make one with terrane meta "
			     "format, or with format = true in [cluster]");
	if (r->rc == -EIO)
		return strbuf_printf(
			out, "the disk of the store failed; repair it or restore a copy, then "
			     "start the server again");
	return strbuf_printf(out, "cannot serve on %s: %s", c->listen, err_text(r->rc));
}
