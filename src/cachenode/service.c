// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "cachenode/impl.h"
#include "client/engine.h"
#include "meta_client/meta_client.h"
#include "rt/rt.h"
#include "secure/session.h"

/* --- get ------------------------------------------------------------------------------------------ */

/* Sets bucket and position. A block of a directory that registered jobs read belongs to that directory, whatever the tags
 * say, and its place there is known. */
static void locate(const struct cachenode *n, uint32_t tenant, struct cache_get *g)
{
	const struct context_tags *tags = &rt_context()->tags;
	const struct dirmap_block *b;
	switch (n->buckets) {
	case CACHENODE_BY_JOB:
		g->bucket = tags->job_id;
		return;
	case CACHENODE_BY_CATEGORY:
		g->bucket = tags->placement_category;
		return;
	default:
		b = dirmap_find(&n->jobs.places, tenant, g->name.block);
		g->bucket = b != NULL ? b->dir->id : tags->directory_id;
		uint64_t at = g->off / n->o->engine.segment_bytes;
		if (b == NULL || at >= b->segments)
			return;
		g->position = b->first + (uint32_t)at;
		g->bucket = node_jobs_bucket(n, b, g->position);
	}
}

static int get_from(const struct cachenode *n, const Terrane__Shift__GetRequest *q,
		    struct cache_get *g)
{
	if (q->length == 0 || q->length > SHIFT_GET_MAX || q->offset > UINT64_MAX - q->length ||
	    q->wait_ms > SHIFT_WAIT_MAX_MS || q->tenant == 0)
		return -EINVAL;
	/* The tenant is part of the name: its blocks are never those of another. */
	*g = (struct cache_get){
		.name = {.block = q->block, .part = q->tenant},
		.off = q->offset,
		.len = q->length,
		.position = CACHE_NONE,
		.job = node_jobs_number(&n->jobs, q->tenant, rt_context()->tags.job_id),
		.again = q->again,
		.defer = !q->again};
	locate(n, q->tenant, g);
	return 0;
}

/* Reads what is here into a new answer. -EINPROGRESS: it is being fetched, or is to be; -ENOENT. */
static int get_here(struct rpc_request *r, const struct cache_get *g, struct slice *out)
{
	struct cachenode *n = r->service;
	struct buf *b;
	int rc = rpc_reply_buf(r, g->len, &b);
	if (rc < 0)
		return rc;
	*out = (struct slice){.buf = b, .len = g->len};
	rc = cache_engine_get(n->cache, g, NULL, NULL, b->data, &out->crc);
	if (rc != 0)
		buf_unref(b);
	return rc;
}

/* Waits until the segments are fetched; starts a fetch if there is none. -ETIME: they are coming. */
static int get_fetched(struct rpc_request *r, struct cache_get *g, uint32_t tenant,
		       struct slice *out)
{
	struct cachenode *n = r->service;
	struct fetch *f = fetch_find(n, g);
	int rc = f == NULL ? fetch_start(n, g, tenant, &f) : 0;
	if (rc == 0)
		rc = fetch_wait(f, g, out);
	if (rc == 0 && out->buf != NULL)
		return 0;
	if (rc < 0)
		return rc == -ETIME ? -ETIME : rc == -ECANCELED ? rc : -ENOENT;
	g->again = true;
	g->defer = false;
	return get_here(r, g, out);
}

struct tallied {
	struct tally *of[2]; /* of the bucket and of the job */
};

static struct tallied tallied_of(struct cachenode *n, const struct cache_get *g)
{
	return (struct tallied){
		{tally_of(&n->bucket_tallies, 0, g->bucket),
		 tally_of(&n->job_tallies, (uint32_t)g->name.part, rt_context()->tags.job_id)}};
}

void cachenode_count(struct cachenode *n, const struct cache_get *g, int rc, bool fetched)
{
	struct tallied t = tallied_of(n, g);
	n->data += rc == 0;
	n->coming += rc == -ETIME;
	n->not_here += rc == -ENOENT;
	for (size_t i = 0; i < ARRAY_LEN(t.of) && rc != -ETIME; i++) {
		t.of[i]->requested += g->len;
		t.of[i]->hit += rc == 0 && !fetched ? g->len : 0;
		t.of[i]->fetched += rc == 0 && fetched ? g->len : 0;
		t.of[i]->refused += rc != 0 ? g->len : 0;
	}
}

/* Answers from the engine, waiting for a fetch until the deadline of the fiber. */
static int get(struct rpc_request *r, const Terrane__Shift__GetRequest *q, struct cache_get *g,
	       struct slice *out)
{
	struct cachenode *n = r->service;
	bool fetched = q->again;
	enum worth_rule rule = node_jobs_rule(&n->jobs, q->tenant, rt_context()->tags.job_id,
					      g->name.block, g->off);
	int rc = -EINPROGRESS;
	/* Without `defer` what is missing is not offered to the policy; a fetch for other jobs serves this one, too. */
	if (rule == WORTH_SERVE && !q->again)
		g->defer = fetch_find(n, g) != NULL;
	if (rule == WORTH_PASS)
		rc = -ENOENT;
	else if (!q->again || fetch_find(n, g) == NULL)
		rc = get_here(r, g, out);
	if (rc == -EINPROGRESS) {
		fetched = true;
		rc = get_fetched(r, g, q->tenant, out);
	}
	cachenode_count(n, g, rc, fetched);
	if (rc == 0 && !fetched)
		shadow_maybe(n, g, q->tenant, out->crc);
	return rc;
}

static int handle_get(struct rpc_request *r)
{
	struct cachenode *n = r->service;
	const Terrane__Shift__GetRequest *q = rpc_body(r);
	Terrane__Shift__GetResponse *p = rpc_reply_body(r);
	struct content_claim claim;
	struct cache_get g;
	struct slice out;
	int rc = get_from(n, q, &g), bad = 0;
	bool by_content = content_claim_of(q, &claim, &bad);
	if (rc < 0)
		return rpc_fail(r, rc, "a get has 1 byte to 4 MiB of a block of a tenant");
	if (bad < 0)
		return rpc_fail(r, bad, "a digest has 32 bytes, and its range at most 4 MiB - 32");
	rc = cachenode_may_read(n, r, q);
	if (rc < 0)
		return rpc_fail(r, rc, "the token does not open block %016lx here", q->block);
	uint64_t before_ns = rt_deadline_narrow(rt_now_ns() + q->wait_ms * NS_PER_MS);
	rc = by_content ? content_get(r, &claim, &g, &out) : get(r, q, &g, &out);
	rt_deadline_set(before_ns);
	p->result = rc == 0        ? TERRANE__SHIFT__GET_RESULT__DATA
		    : rc == -ETIME ? TERRANE__SHIFT__GET_RESULT__COMING
				   : TERRANE__SHIFT__GET_RESULT__NOT_HERE;
	if (rc == 0)
		rpc_reply_payload_take(r, out);
	return rc == -ECANCELED ? rc : 0;
}

/* --- serving -------------------------------------------------------------------------------------- */

static int only_for(struct rpc_request *r, enum auth_op op, int (*handle)(struct rpc_request *r))
{
	if (session_may(rpc_session(r), op))
		return handle(r);
	return rpc_fail(r, -EACCES, "permission denied");
}

static int handle_status(struct rpc_request *r)
{
	return only_for(r, OP_CLUSTER_READ, cachenode_handle_status);
}

static int handle_tune(struct rpc_request *r)
{
	return only_for(r, OP_CLUSTER_WRITE, cachenode_handle_tune);
}

static const struct rpc_method methods[] = {
	{.type = &shift_type_get, .handle = handle_get},
	{.type = &shift_type_status, .handle = handle_status},
	{.type = &shift_type_tune, .handle = handle_tune},
};

static int open_client(struct cachenode *n)
{
	const struct cachenode_options *o = n->o;
	char why[FABRIC_ERROR_MAX] = "";
	int rc = meta_client_open(
		&n->meta, &(struct meta_client_options){.addrs = o->addrs,
							.addr_count = o->addr_count,
							.tenant = META_SYSTEM,
							.channel = {.pool = &n->fabric.shared->pool,
								    .self = o->fabric.self}});
	if (rc == 0)
		rc = engine_open_over(
			&n->engine,
			&(struct engine_options){.tenant = META_SYSTEM, .traffic_group = "cache"},
			&n->fabric, n->meta, why);
	return rc;
}

static int open_server(struct cachenode *n)
{
	const struct cachenode_options *o = n->o;
	return rpc_server_open(&n->server, o->listen,
			       &(struct rpc_server_options){.methods = methods,
							    .method_count = ARRAY_LEN(methods),
							    .service = n,
							    .guard = o->guard,
							    .pool = &n->pool,
							    .connections_max = o->connections_max});
}

static int start_fibers(struct cachenode *n)
{
	int rc = 0;
	if (n->o->guard != NULL)
		rc = rt_group_spawn(&n->fibers, "cache-keys", cachenode_keys_main, n);
	if (rc == 0)
		rc = rt_group_spawn(&n->fibers, "cache-jobs", node_jobs_main, n);
	return rc == 0 ? rt_group_spawn(&n->fibers, "cache-leases", node_jobs_leases_main, n) : rc;
}

static int open_engine(struct cachenode *n)
{
	struct cache_engine_options engine = n->o->engine;
	int rc = node_jobs_open(&n->jobs, engine.segment_bytes);
	engine.jobs = &n->jobs.view;
	return rc == 0 ? cache_engine_open(&n->cache, &engine) : rc;
}

static int serve(struct cachenode *n)
{
	const struct cachenode_options *o = n->o;
	int rc = start_fibers(n);
	if (rc == 0)
		rc = o->ready != NULL ? o->ready(o->ctx, n, rpc_server_addr(n->server)) : 0;
	if (rc < 0)
		return rc;
	rc = rt_shutdown_wait();
	if (o->ended != NULL)
		o->ended(o->ctx);
	return rc;
}

/* Closes what was opened, in the reverse order. */
static void shut(struct cachenode *n)
{
	rt_shield_enter();
	n->closing = true;
	if (n->server != NULL)
		rpc_server_close(n->server, n->o->grace_ns);
	rt_group_cancel(&n->fibers);
	rt_group_join(&n->fibers);
	assert(list_empty(&n->fetches) && n->comparing == 0);
	if (n->cache != NULL)
		cache_engine_close(n->cache);
	node_jobs_close(&n->jobs);
	fabric_quiet(&n->fabric);
	engine_close(n->engine);
	meta_client_close(n->meta);
	fabric_fini(&n->fabric);
	rt_shield_leave();
	if (n->keyed)
		token_keys_fini(&n->keys);
	tallies_fini(&n->bucket_tallies);
	tallies_fini(&n->job_tallies);
	content_fini(n);
	rt_pool_fini(&n->pool);
}

int cachenode_serve(const struct cachenode_options *o)
{
	struct cachenode n = {.o = o,
			      .shadow = o->shadow,
			      .buckets = o->buckets,
			      .bucket_parts = o->bucket_parts != 0 ? o->bucket_parts
								   : CACHENODE_BUCKET_PARTS};
	assert(o->node != 0 && o->engine.segment_bytes != 0);
	assert((o->guard == NULL) == (o->keys == NULL));
	if (o->pool_bytes < CACHENODE_POOL_MIN)
		return -EINVAL;
	rt_pool_init(&n.pool, o->pool_bytes);
	list_init(&n.fetches);
	rt_group_init(&n.fibers);
	tallies_init(&n.bucket_tallies);
	tallies_init(&n.job_tallies);
	content_init(&n, o->engine.flash_bytes / o->engine.segment_bytes + 1);
	int rc = fabric_init(&n.fabric, &o->fabric);
	if (rc == 0)
		rc = open_client(&n);
	if (rc == 0)
		rc = open_engine(&n);
	if (rc == 0)
		rc = open_server(&n);
	if (rc == 0)
		rc = serve(&n);
	shut(&n);
	return rc;
}

bool cachenode_healthy(const struct cachenode *n)
{
	struct cache_engine_stats s;
	cache_engine_stats(n->cache, &s);
	return !s.suspended;
}

struct cache_engine *cachenode_engine(struct cachenode *n)
{
	return n->cache;
}
