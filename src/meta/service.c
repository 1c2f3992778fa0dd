// SPDX-License-Identifier: Apache-2.0
#include "meta/service.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "kv/kv.h"
#include "meta/identity.h"
#include "meta/service_impl.h"
#include "rt/pool.h"
#include "rt/rt.h"

#define POOL_DEFAULT_BYTES (64 * MIB)
#define IN_FLIGHT_DEFAULT 1024
#define STORE_WATCH_NS (200 * NS_PER_MS)

/* --- the tenant of a request ------------------------------------------------------------------ */

bool ms_is_system(const char *name, uint32_t *acting_for)
{
	size_t len = strlen(META_SYSTEM);
	*acting_for = 0;
	if (strncmp(name, META_SYSTEM, len) != 0 || (name[len] != 0 && name[len] != ':'))
		return false;
	if (name[len] == 0)
		return true;
	char *end = NULL;
	unsigned long id = strtoul(name + len + 1, &end, 10);
	if (name[len + 1] < '1' || name[len + 1] > '9' || *end != 0 || id > UINT32_MAX)
		return false;
	*acting_for = (uint32_t)id;
	return true;
}

int ms_system(struct rpc_request *r)
{
	uint32_t tenant;
	if (ms_is_system(rt_context()->tenant, &tenant) && tenant == 0)
		return 0;
	return rpc_fail(r, -EPERM, "only \"" META_SYSTEM "\" may do this, not tenant \"%.64s\"",
			rt_context()->tenant);
}

int ms_find_tenant(struct meta_service *s, const char *name, uint32_t *id)
{
	uint64_t key = hash64(name, strlen(name), 0);
	struct service_tenant *known = map_get(&s->tenants, key);
	if (known != NULL && strcmp(known->name, name) == 0) {
		*id = known->id;
		return 0;
	}
	struct meta_tenant t;
	int rc = meta_tenant_find(s->meta, name, &t);
	if (rc < 0)
		return rc;
	*id = t.id;
	known = malloc(sizeof(*known));
	if (known == NULL)
		return 0;
	known->id = t.id;
	memcpy(known->name, t.name, sizeof(known->name));
	if (map_put(&s->tenants, key, known) < 0)
		free(known);
	return 0;
}

int ms_enter(struct rpc_request *r, struct meta_ctx *ctx)
{
	const char *name = rt_context()->tenant;
	if (ms_is_system(name, &ctx->tenant)) {
		if (ctx->tenant != 0)
			return 0;
		return rpc_fail(r, -EINVAL,
				"\"" META_SYSTEM
				"\" must name a tenant for this operation: use \"" META_SYSTEM
				":ID\"");
	}
	if (name[0] == 0)
		return rpc_fail(r, -EACCES,
				"the request names no tenant; set the tenant of the client");
	int rc = strlen(name) > META_TENANT_NAME_MAX
			 ? -ENOENT
			 : ms_find_tenant(r->service, name, &ctx->tenant);
	if (rc == -ENOENT || rc == -EINVAL || rc == -EILSEQ)
		return rpc_fail(
			r, -EACCES,
			"tenant \"%.64s\" does not exist; check the name, or create the tenant",
			name);
	return rc;
}

/* --- admission -------------------------------------------------------------------------------- */

static uint64_t partition_of(const struct meta *m, const struct meta_ctx *ctx,
			     enum service_layer layer, uint64_t id)
{
	switch (layer) {
	case SERVICE_DIR:
		return meta_partition_of_dir(m, ctx, id);
	case SERVICE_FILE:
		return meta_partition_of_file(m, ctx, id);
	default:
		return meta_partition_of_block(m, ctx, id);
	}
}

int ms_admit(struct rpc_request *r, const struct meta_ctx *ctx, enum service_layer layer,
	     uint64_t id, uint64_t cost)
{
	assert(layer <= SERVICE_BLOCK && cost > 0);
	struct meta_service *s = r->service;
	uint64_t partition = partition_of(s->meta, ctx, layer, id);
	r->retry_ms = admit_ask(&s->admit, partition, cost, rt_now_ns());
	if (r->retry_ms == 0)
		return 0;
	static const char *const what[] = {"directory", "file", "block"};
	return rpc_fail(
		r, -EAGAIN,
		"too many requests for this %s or others of its partition; try again in %u ms",
		what[layer], r->retry_ms);
}

int ms_begin(struct rpc_request *r, struct meta_ctx *ctx, enum service_layer layer, uint64_t id,
	     uint64_t cost)
{
	int rc = ms_enter(r, ctx);
	return rc < 0 ? rc : ms_admit(r, ctx, layer, id, cost);
}

/* --- results ---------------------------------------------------------------------------------- */

/* Makes meta_serve end with this result; later calls have no effect. */
static void end_with(struct meta_service *s, int rc)
{
	if (s->ending)
		return;
	s->ending = true;
	s->rc = rc;
	rt_cond_broadcast(&s->wake);
}

/* Returns whether the engine of the store has failed. If it has, ends the service, so that its process is restarted. */
static bool store_failed(struct meta_service *s)
{
	int rc = kv_health(s->kv);
	if (rc == 0)
		return false;
	if (!s->ending)
		log_error("store_failed", "engine=%s err=%s", s->kv->ops->name, err_name(rc));
	end_with(s, -EIO);
	return true;
}

int ms_end(struct rpc_request *r, int rc)
{
	if (rc < 0 && r->error != NULL)
		return rc;
	if (rc == -EDQUOT)
		return rpc_fail(
			r, rc,
			"tenant \"%.64s\" is over its quota; delete files or raise the quota",
			rt_context()->tenant);
	if (rc == -EAGAIN) {
		r->retry_ms = 20;
		return rpc_fail(
			r, rc,
			"too many concurrent changes of the same directory or object; try again");
	}
	return rc;
}

/* --- the table -------------------------------------------------------------------------------- */

/* Runs a handler, and adds its time and result to the metrics of the method. */
static int timed(struct rpc_request *r, unsigned index, int (*handle)(struct rpc_request *r))
{
	assert(index < METHOD_COUNT);
	struct meta_service *s = r->service;
	uint64_t begin_ns = rt_now_ns();
	int rc = ms_access(r, index);
	if (rc == 0)
		rc = ms_turn(r, handle);
	assert(rc <= 0); /* META_RETRY and similar results do not leave src/meta */
	/* If the store has failed, any error may be wrong: -EIO makes the client ask another server. */
	if (rc < 0 && store_failed(s))
		rc = rpc_fail(r, -EIO,
			      "the store of this metadata server has failed; use another server");
	hist_add(&s->methods[index].time, rt_now_ns() - begin_ns);
	s->methods[index].failures += rc < 0;
	return rc;
}

#define METHOD_TIMED(number, lower, in, out)                        \
	static int timed_##lower(struct rpc_request *r)             \
	{                                                           \
		return timed(r, METHOD_##lower, ms_handle_##lower); \
	}
META_TYPES(METHOD_TIMED)

#define METHOD_ENTRY(number, lower, in, out) {.type = &meta_type_##lower, .handle = timed_##lower},
static const struct rpc_method methods[] = {META_TYPES(METHOD_ENTRY)};

/* --- metrics ---------------------------------------------------------------------------------- */

static_assert(ARRAY_LEN(methods) == METHOD_COUNT, "one row for each method");

static int print_methods(const struct meta_service *s, struct strbuf *out)
{
	int rc = strbuf_printf(out, "# HELP terrane_meta_request_seconds duration of requests\n"
				    "# TYPE terrane_meta_request_seconds histogram\n");
	for (size_t i = 0; rc == 0 && i < METHOD_COUNT; i++) {
		char labels[64];
		if (s->methods[i].time.count == 0)
			continue;
		snprintf(labels, sizeof(labels), "op=\"%s\"", methods[i].type->name + 5);
		rc = hist_prometheus(&s->methods[i].time, "terrane_meta_request_seconds", labels,
				     out);
	}
	if (rc == 0)
		rc = strbuf_printf(
			out,
			"# HELP terrane_meta_request_failures_total requests refused or failed\n"
			"# TYPE terrane_meta_request_failures_total counter\n");
	for (size_t i = 0; rc == 0 && i < METHOD_COUNT; i++)
		if (s->methods[i].failures > 0)
			rc = strbuf_printf(out,
					   "terrane_meta_request_failures_total{op=\"%s\"} %lu\n",
					   methods[i].type->name + 5, s->methods[i].failures);
	return rc;
}

static int print_numbers(struct meta_service *s, struct strbuf *out)
{
	struct meta_stats m;
	meta_stats(s->meta, &m);
	const struct cluster *c = meta_map_cluster(s->map);
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} all[] = {
		{"map_version", "gauge", "version of the cluster map", c->version},
		{"map_nodes", "gauge", "nodes in the map", map_count(&c->nodes)},
		{"map_disks", "gauge", "disks in the map", map_count(&c->disks)},
		{"admission_refused_total", "counter",
		 "requests refused by the rate limit of a partition", s->admit.refused},
		{"access_refused_total", "counter", "requests that the policy refused", s->refused},
		{"cache_hits_total", "counter", "sealed records found in the cache", m.cache_hits},
		{"cache_misses_total", "counter", "sealed records not found in the cache",
		 m.cache_misses},
		{"cache_bytes", "gauge", "bytes in the cache of sealed records", m.cache_bytes},
		{"retries_total", "counter", "transactions retried after a concurrent change",
		 m.retries},
		{"usage_passes_total", "counter", "counts of directory usage by this server",
		 s->usage_passes},
		{"usage_seconds", "gauge", "duration of the last count of usage", s->usage_seconds},
		{"kv_gets_total", "counter", "reads of single keys from the store",
		 s->kv->stats.gets},
		{"kv_scans_total", "counter", "scans of key ranges of the store",
		 s->kv->stats.scans},
		{"kv_txns_total", "counter", "transactions of the store", s->kv->stats.txns},
		{"kv_batches_total", "counter", "group commits of the store", s->kv->stats.batches},
		{"kv_unknown_total", "counter", "transactions left in doubt", s->kv->stats.unknown},
	};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(all); i++)
		rc = strbuf_printf(out,
				   "# HELP terrane_meta_%s %s\n# TYPE terrane_meta_%s %s\n"
				   "terrane_meta_%s %lu\n",
				   all[i].name, all[i].help, all[i].name, all[i].type, all[i].name,
				   all[i].value);
	return rc;
}

int meta_service_metrics(struct meta_service *s, struct strbuf *out)
{
	int rc = print_methods(s, out);
	return rc < 0 ? rc : print_numbers(s, out);
}

int meta_service_health(const struct meta_service *s)
{
	if (s->ending)
		return s->rc < 0 ? s->rc : -ESHUTDOWN;
	return kv_health(s->kv) < 0 ? -EIO : 0;
}

/* --- formatting ------------------------------------------------------------------------------- */

static int make_tenant(struct kv *kv, const struct meta_options *o, const char *name)
{
	struct meta *m = NULL;
	struct meta_tenant t = {.id = 1};
	if (strlen(name) > META_TENANT_NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(t.name, name, strlen(name) + 1);
	int rc = meta_open(&m, kv, o);
	if (rc == 0)
		rc = meta_tenant_create(m, &t);
	meta_close(m);
	return rc == -EEXIST ? 0 : rc;
}

static int read_id(struct kv *kv, struct cluster_id *id)
{
	struct meta_map *m = NULL;
	int rc = meta_map_open(&m, kv, &(struct meta_map_options){0});
	if (rc == 0)
		*id = meta_map_cluster(m)->id;
	meta_map_close(m);
	return rc;
}

int meta_format_identities(struct kv *kv, const struct meta_options *o, const char *names)
{
	struct meta *m = NULL;
	int rc = meta_open(&m, kv, o);
	if (rc == 0)
		rc = identities_make(m, names);
	meta_close(m);
	return rc;
}

int meta_format(struct kv *kv, const struct meta_options *o, struct cluster_id *id,
		enum place_kind network_place, const char *tenant)
{
	if (strncmp(tenant, META_SYSTEM, strlen(META_SYSTEM)) == 0)
		return -EINVAL;
	if (id->high == 0 && id->low == 0)
		*id = (struct cluster_id){.high = rt_random_u64(), .low = rt_random_u64() | 1};
	/* Create the tenant before the ClusterRecord, so that a store with a ClusterRecord always has its first
	 * tenant. */
	int rc = make_tenant(kv, o, tenant);
	if (rc == 0)
		rc = meta_map_format(kv, *id, network_place);
	return rc == 0 || rc == -EEXIST ? read_id(kv, id) : rc;
}

/* --- serving ---------------------------------------------------------------------------------- */

static void await_shutdown(void *arg)
{
	struct meta_service *s = arg;
	rt_background();
	end_with(s, rt_shutdown_wait());
}

/* Fiber: detects a failed store even if no request fails, because a background transaction may be the first to fail. */
static void watch_store(void *arg)
{
	struct meta_service *s = arg;
	rt_background();
	while (!store_failed(s) && rt_sleep_ns(STORE_WATCH_NS) == 0)
		;
}

static int await_end(struct meta_service *s)
{
	struct rt_group g;
	rt_group_init(&g);
	int rc = rt_group_spawn(&g, "meta-shutdown", await_shutdown, s);
	if (rc == 0)
		rc = rt_group_spawn(&g, "meta-store", watch_store, s);
	if (rc == 0)
		rc = rt_group_spawn(&g, "meta-share", ms_share_watch, s);
	if (rc == 0 && s->usage_ns != 0)
		rc = rt_group_spawn(&g, "meta-usage", ms_count_usage, s);
	if (rc == 0 && s->root != NULL)
		rc = rt_group_spawn(&g, "meta-identities", ms_identities_watch, s);
	while (rc == 0 && !s->ending)
		rc = rt_cond_wait(&s->wake);
	rt_group_cancel(&g);
	rt_group_join(&g);
	assert(rc < 0 || s->ending);
	return rc < 0 ? rc : s->rc;
}

static int serve(struct meta_service *s, const struct meta_serve_options *o, struct rt_pool *pool)
{
	int rc = rpc_server_open(&s->server, o->listen,
				 &(struct rpc_server_options){
					 .methods = methods,
					 .method_count = ARRAY_LEN(methods),
					 .service = s,
					 .guard = s->root != NULL ? &s->guard : NULL,
					 .pool = pool,
					 .connections_max = o->connections_max,
					 .in_flight_max = o->in_flight_max != 0 ? o->in_flight_max
										: IN_FLIGHT_DEFAULT,
					 .stall_ns = o->stall_ns,
				 });
	if (rc < 0)
		return rc;
	if (o->ready != NULL)
		rc = o->ready(o->ctx, rpc_server_addr(s->server), s);
	if (rc == 0)
		rc = await_end(s);
	if (o->ended != NULL)
		o->ended(o->ctx);
	rpc_server_close(s->server, o->grace_ns);
	return rc;
}

static void service_fini(struct meta_service *s)
{
	ms_identities_close(s);
	meta_map_close(s->map);
	ms_share_close(s);
	sched_close(s->sched);
	meta_close(s->meta);
	admit_fini(&s->admit);
	map_for_each(&s->tenants, it)
		free(it.value);
	map_fini(&s->tenants);
	free(s->methods);
}

int meta_serve(struct kv *kv, const struct meta_serve_options *o)
{
	struct meta_service s = {.kv = kv, .usage_ns = o->usage_ns};
	struct rt_pool pool;
	rt_cond_init(&s.wake);
	map_init(&s.tenants, SERVICE_TENANTS_MAX);
	s.methods = calloc(METHOD_COUNT, sizeof(*s.methods));
	int rc = s.methods == NULL ? -ENOMEM
				   : admit_init(&s.admit, o->partition_rate, o->partition_burst);
	if (rc == 0)
		rc = sched_open(&sched_metadata, &s.sched);
	if (rc == 0)
		rc = ms_share_open(&s);
	if (rc == 0)
		rc = meta_open(&s.meta, kv, &o->meta);
	if (rc == 0)
		rc = meta_map_open(&s.map, kv, &o->map);
	if (rc == 0)
		rc = ms_identities_open(&s, o->root);
	if (rc == 0) {
		rt_pool_init(&pool, o->pool_bytes != 0 ? o->pool_bytes : POOL_DEFAULT_BYTES);
		rc = serve(&s, o, &pool);
		rt_pool_fini(&pool);
	}
	service_fini(&s);
	return rc;
}
