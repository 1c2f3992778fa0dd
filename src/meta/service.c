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
#include "ops/prom.h"
#include "rt/pool.h"
#include "rt/rt.h"

#define POOL_DEFAULT_BYTES (64 * MIB)
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

uint32_t ms_known_tenant(const struct meta_service *s, const char *name)
{
	const struct service_tenant *known = map_get(&s->tenants, hash64(name, strlen(name), 0));
	return known != NULL && strcmp(known->name, name) == 0 ? known->id : 0;
}

int ms_find_tenant(struct meta_service *s, const char *name, uint32_t *id)
{
	struct service_tenant *known;
	struct meta_tenant t;
	*id = ms_known_tenant(s, name);
	if (*id != 0)
		return 0;
	int rc = meta_tenant_find(s->meta, name, &t);
	if (rc < 0)
		return rc;
	*id = t.id;
	known = malloc(sizeof(*known));
	if (known == NULL)
		return 0;
	known->id = t.id;
	memcpy(known->name, t.name, sizeof(known->name));
	if (map_put(&s->tenants, hash64(name, strlen(name), 0), known) < 0)
		free(known);
	return 0;
}

int ms_enter(struct rpc_request *r, struct meta_ctx *ctx)
{
	const char *name = rt_context()->tenant;
	ctx->over = NULL;
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

uint64_t ms_partition(const struct meta *m, const struct meta_ctx *ctx, enum service_layer layer,
		      uint64_t id)
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
	uint64_t partition = ms_partition(s->meta, ctx, layer, id);
	r->retry_ms = admit_ask(&s->all->admit, partition, cost, rt_now_ns());
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

/* Makes meta_serve end with this result; later calls have no effect. On the first loop. */
static void end_with(struct meta_service *s, int rc)
{
	if (s->ending)
		return;
	s->ending = true;
	s->rc = rc;
	rt_cond_broadcast(&s->wake);
}

/* Returns whether the engine of the store has failed. If it has, the first part ends the service, so that its process is
 * restarted: at once, or when it looks at the store (watch_store). */
static bool store_failed(struct meta_service *s)
{
	int rc = kv_health(s->kv);
	if (rc == 0)
		return false;
	if (s != s->all->parts)
		return true;
	if (!s->ending)
		log_error("store_failed", "engine=%s err=%s", s->kv->ops->name, err_name(rc));
	end_with(s, -EIO);
	return true;
}

/* Refuses a request over the quota, with the numbers. */
static int over_quota(struct rpc_request *r)
{
	const char *name = rt_context()->tenant;
	struct meta_tenant t;
	if (meta_tenant_find(ms_meta(r), name, &t) < 0)
		return rpc_fail(r, -EDQUOT, "tenant \"%.64s\" is over its quota", name);
	return rpc_fail(
		r, -EDQUOT,
		"tenant \"%.64s\" is over its quota: %lu of %lu bytes are used, without %lu bytes "
		"of "
		"deleted files that wait to be freed; delete files or raise the quota. Files "
		"deleted within the last minute may still count",
		name, t.used_bytes, t.quota_bytes, t.waiting_bytes);
}

int ms_end(struct rpc_request *r, int rc)
{
	if (rc < 0 && r->error != NULL)
		return rc;
	if (rc == -EDQUOT)
		return over_quota(r);
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
	struct meta_service *s = ms_here(((struct meta_service *)r->service)->all);
	uint64_t begin_ns = rt_now_ns();
	r->service = s; /* the request may have come in on another loop */
	int rc = ms_access(r, index);
	if (rc == 0) {
		rc = ms_turn(r, handle);
		ms_audit(r, index, rc);
	}
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
const struct rpc_method ms_methods[METHOD_COUNT] = {META_TYPES(METHOD_ENTRY)};

/* --- metrics ---------------------------------------------------------------------------------- */

/* Sums over the parts. */
struct totals {
	struct service_method methods[METHOD_COUNT];
	struct meta_stats meta; /* but cache_bytes: the cache is that of all */
	struct kv_stats kv;
	uint64_t refused;
};

static void add_part(struct meta_service *s, void *arg)
{
	struct totals *t = arg;
	struct meta_stats m;
	const struct kv_stats *kv = &s->kv->stats;
	meta_stats(s->meta, &m);
	t->meta.cache_hits += m.cache_hits;
	t->meta.cache_misses += m.cache_misses;
	t->meta.retries += m.retries;
	t->meta.cache_bytes = m.cache_bytes;
	t->kv.gets += kv->gets;
	t->kv.scans += kv->scans;
	t->kv.txns += kv->txns;
	t->kv.batches += kv->batches;
	t->kv.unknown += kv->unknown;
	t->refused += s->refused;
	for (size_t i = 0; i < METHOD_COUNT; i++) {
		hist_merge(&t->methods[i].time, &s->methods[i].time);
		t->methods[i].failures += s->methods[i].failures;
	}
}

static int print_methods(const struct totals *t, struct strbuf *out)
{
	int rc = strbuf_printf(out, "# HELP terrane_meta_request_seconds duration of requests\n"
				    "# TYPE terrane_meta_request_seconds histogram\n");
	for (size_t i = 0; rc == 0 && i < METHOD_COUNT; i++) {
		char labels[64];
		if (t->methods[i].time.count == 0)
			continue;
		snprintf(labels, sizeof(labels), "op=\"%s\"", ms_methods[i].type->name + 5);
		rc = hist_prometheus(&t->methods[i].time, "terrane_meta_request_seconds", labels,
				     out);
	}
	if (rc == 0)
		rc = strbuf_printf(
			out,
			"# HELP terrane_meta_request_failures_total requests refused or failed\n"
			"# TYPE terrane_meta_request_failures_total counter\n");
	for (size_t i = 0; rc == 0 && i < METHOD_COUNT; i++)
		if (t->methods[i].failures > 0)
			rc = strbuf_printf(out,
					   "terrane_meta_request_failures_total{op=\"%s\"} %lu\n",
					   ms_methods[i].type->name + 5, t->methods[i].failures);
	return rc;
}

static int print_numbers(struct meta_service *s, const struct totals *t, struct strbuf *out)
{
	const struct cluster *c = meta_map_cluster(s->map);
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} all[] = {
		{"map_version", "gauge", "version of the cluster map", c->version},
		{"map_nodes", "gauge", "nodes in the map", map_count(&c->nodes)},
		{"map_disks", "gauge", "disks in the map", map_count(&c->disks)},
		{"admission_refused_total", "counter",
		 "requests refused by the rate limit of a partition", s->all->admit.refused},
		{"access_refused_total", "counter", "requests that the policy refused", t->refused},
		{"cache_hits_total", "counter", "sealed records found in the cache",
		 t->meta.cache_hits},
		{"cache_misses_total", "counter", "sealed records not found in the cache",
		 t->meta.cache_misses},
		{"cache_bytes", "gauge", "bytes in the cache of sealed records",
		 t->meta.cache_bytes},
		{"retries_total", "counter", "transactions retried after a concurrent change",
		 t->meta.retries},
		{"usage_passes_total", "counter", "counts of directory usage by this server",
		 s->usage_passes},
		{"usage_seconds", "gauge", "duration of the last count of usage", s->usage_seconds},
		{"kv_gets_total", "counter", "reads of single keys from the store", t->kv.gets},
		{"kv_scans_total", "counter", "scans of key ranges of the store", t->kv.scans},
		{"kv_txns_total", "counter", "transactions of the store", t->kv.txns},
		{"kv_batches_total", "counter", "group commits of the store", t->kv.batches},
		{"kv_unknown_total", "counter", "transactions left in doubt", t->kv.unknown},
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

/* How busy the loops are. */
static int print_loops(const struct service_all *all, struct strbuf *out)
{
	struct rt_loop *loops[RT_TEAM_MAX];
	for (unsigned i = 0; i < all->part_count; i++)
		loops[i] = all->parts[i].loop;
	return prom_loops(out, loops, all->part_count);
}

int meta_service_metrics(struct meta_service *s, struct strbuf *out)
{
	AUTO_FREE struct totals *t = calloc(1, sizeof(*t));
	int rc = t == NULL ? -ENOMEM : ms_each_part(s->all, add_part, t);
	if (rc == 0)
		rc = print_methods(t, out);
	if (rc == 0)
		rc = print_numbers(s, t, out);
	if (rc == 0)
		rc = ms_backup_metrics(&s->all->parts[0], out);
	return rc < 0 ? rc : print_loops(s->all, out);
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
	const struct meta_serve_options *o = s->all->options;
	end_with(s, o->stop != NULL ? o->stop(o->ctx) : rt_shutdown_wait());
}

/* Fiber: detects a failed store even if no request fails, because a background transaction may be the first to fail. */
static void watch_store(void *arg)
{
	struct meta_service *s = arg;
	rt_background();
	while (!store_failed(s) && rt_sleep_ns(STORE_WATCH_NS) == 0)
		;
}

int ms_await_end(struct meta_service *s)
{
	struct rt_group g;
	rt_group_init(&g);
	int rc = rt_group_spawn(&g, "meta-shutdown", await_shutdown, s);
	if (rc == 0)
		rc = rt_group_spawn(&g, "meta-store", watch_store, s);
	if (rc == 0)
		rc = rt_group_spawn(&g, "meta-share", ms_share_watch, s);
	if (rc == 0)
		rc = rt_group_spawn(&g, "meta-backup", ms_backup_make, s);
	if (rc == 0 && s->usage_ns != 0)
		rc = rt_group_spawn(&g, "meta-usage", ms_count_usage, s);
	while (rc == 0 && !s->ending)
		rc = rt_cond_wait(&s->wake);
	rt_group_cancel(&g);
	rt_group_join(&g);
	assert(rc < 0 || s->ending);
	return rc < 0 ? rc : s->rc;
}

static int all_open(struct service_all *all, struct kv *kv)
{
	const struct meta_serve_options *o = all->options;
	struct meta_service *first = &all->parts[0];
	first->kv = kv;
	first->usage_ns = o->usage_ns;
	rt_cond_init(&first->wake);
	int rc = admit_init(&all->admit, o->partition_rate, o->partition_burst);
	if (rc == 0)
		rc = sched_open(&sched_metadata, &all->sched);
	if (rc == 0)
		rc = ms_share_open(first);
	if (rc == 0)
		rc = ms_place_open(first, o);
	if (rc == 0)
		rc = ms_backup_open(first);
	if (rc == 0)
		rc = meta_open(&first->meta, kv, &o->meta);
	return rc < 0 ? rc : meta_map_open(&first->map, kv, &o->map);
}

static void all_fini(struct service_all *all)
{
	meta_map_close(all->parts[0].map);
	ms_share_close(&all->parts[0]);
	ms_place_close(&all->parts[0]);
	ms_backup_close(&all->parts[0]);
	sched_close(all->sched);
	meta_close(all->parts[0].meta);
	admit_fini(&all->admit);
	free(all->parts);
	free(all->branches);
}

int meta_serve(struct kv *kv, const struct meta_serve_options *o)
{
	struct service_all all = {.options = o};
	uint64_t pool_bytes = o->pool_bytes != 0 ? o->pool_bytes : POOL_DEFAULT_BYTES;
	all.part_count = o->team != NULL ? o->team->count : 1;
	all.parts = calloc(all.part_count, sizeof(all.parts[0]));
	all.branches = calloc(all.part_count, sizeof(all.branches[0]));
	if (all.parts == NULL || all.branches == NULL) {
		free(all.parts);
		free(all.branches);
		return -ENOMEM;
	}
	int rc = all_open(&all, kv);
	if (rc == 0) {
		rt_pool_init(&all.pool, pool_bytes);
		rt_budget_init(&all.receiving, rpc_receive_limit(pool_bytes), false);
		rc = ms_parts_serve(&all);
		rt_budget_fini(&all.receiving);
		rt_pool_fini(&all.pool);
	}
	all_fini(&all);
	return rc;
}
