// SPDX-License-Identifier: Apache-2.0
#include "meta_client/meta_client.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/err.h"
#include "base/utf8.h"
#include "meta_client/impl.h"
#include "rpc/counters.h"
#include "rt/rt.h"

#define TRIES_MAX 64
#define MOVE_TIME_FACTOR 8
#define DAMAGED_MAX 4
#define PAUSE_MIN_MS 20ULL
#define PAUSE_MAX_MS 1000ULL

/* --- open, close -------------------------------------------------------------------------------- */

static int open_channels(struct meta_client *c, const struct meta_client_options *o)
{
	for (size_t i = 0; i < o->addr_count; i++) {
		int rc = rpc_channel_open(&c->channels[i], o->addrs[i], &o->channel);
		if (rc < 0)
			return rc;
		c->count++;
	}
	return 0;
}

int meta_client_open(struct meta_client **out, const struct meta_client_options *o)
{
	*out = NULL;
	if (o->addr_count == 0 || o->addr_count > META_CLIENT_SERVERS_MAX || o->tenant == NULL ||
	    o->cache_ttl_ns > META_CACHE_TTL_MAX)
		return -EINVAL;
	struct meta_client *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->timeout_ns = o->timeout_ns != 0 ? o->timeout_ns : 15 * NS_PER_S;
	c->try_ns = o->try_ns != 0 ? o->try_ns : 3 * NS_PER_S;
	c->busy_max = o->busy_max != 0 ? o->busy_max : 32;
	c->impatient = o->impatient;
	mc_cache_init(&c->cache, o->cache_bytes != 0 ? o->cache_bytes : 16 * MIB,
		      o->cache_ttl_ns != 0 ? o->cache_ttl_ns : 10 * NS_PER_S);
	mc_tokens_init(c);
	cluster_init(&c->cluster);
	rt_mutex_init(&c->map_turn);
	c->loop = rt_loop_self();
	int rc = context_new(&c->own, &(struct context){.tenant = o->tenant});
	if (rc == 0)
		rc = open_channels(c, o);
	/* Each client begins with a random server, which spreads many clients over the servers. */
	c->current = rt_random_u64() % o->addr_count;
	if (rc == 0 && o->shares)
		rc = mc_share_open(c, o->addrs);
	if (rc < 0) {
		meta_client_close(c);
		return rc;
	}
	assert(c->count == o->addr_count && c->current < c->count);
	*out = c;
	return 0;
}

void meta_client_close(struct meta_client *c)
{
	if (c == NULL)
		return;
	assert(rt_on_loop(c->loop));
	mc_share_close(c);
	assert(c->calls_active == 0);
	for (size_t i = 0; i < c->count; i++)
		rpc_channel_close(c->channels[i]);
	mc_cache_fini(&c->cache);
	mc_tokens_fini(c);
	cluster_fini(&c->cluster);
	free(c->loads);
	context_unref(c->own);
	free(c);
}

void meta_client_stats(const struct meta_client *c, struct meta_client_stats *out)
{
	*out = c->stats;
	out->cache_hits = c->cache.hits;
	out->cache_misses = c->cache.misses;
	out->cache_bytes = c->cache.bytes;
}

/* --- one request with its tries ------------------------------------------------------------------ */

/* The next step after a try. */
enum next_step {
	STEP_RETURN,      /* return the result to the caller */
	STEP_WAIT,        /* the server is busy: ask it again after a pause */
	STEP_NEXT_SERVER, /* the server cannot be reached or cannot serve: ask the next one */
};

/*
 * Returns the next step after a try with this result. An error with maybe_executed comes from the service, or from
 * a connection that was lost while the request was under way; without maybe_executed, the request was not
 * executed. -ENOENT of a connection means that its Unix socket does not exist.
 */
static enum next_step classify(int rc, const struct rpc_reply *reply, unsigned tries)
{
	switch (rc) {
	case -EAGAIN:
		return STEP_WAIT;
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ECONNABORTED:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -EPIPE:
	case -ESHUTDOWN:
	case -ETIMEDOUT:
	case -ETIME:
	case -EIO:
		return STEP_NEXT_SERVER;
	case -ENOENT:
		return reply->maybe_executed ? STEP_RETURN : STEP_NEXT_SERVER;
	case -EBADMSG: /* a frame was damaged in transit (a retry helps), or a record is damaged */
		return tries >= DAMAGED_MAX ? STEP_RETURN : STEP_NEXT_SERVER;
	default:
		return STEP_RETURN;
	}
}

static bool ever_connected(const struct meta_client *c)
{
	for (size_t i = 0; i < c->count; i++)
		if (rpc_channel_counters(c->channels[i])->connections > 0)
			return true;
	return false;
}

/* Waits for a random time between ms / 2 and ms, so that clients that were refused at one time do not return
 * together. */
static int pause_ms(uint64_t ms)
{
	uint64_t ns = bug_planted(BUG_RETRY_AT_ONCE) ? 0 : ms * NS_PER_MS;
	return rt_sleep_ns(ns / 2 + rt_random_u64() % (ns / 2 + 1));
}

/* A request with the state of its tries. */
struct attempt {
	struct meta_call *call;
	const struct rpc_type *type;
	const ProtobufCMessage *request;
	struct rpc_reply *reply;
	unsigned tries;
	unsigned busy;   /* number of tries that a busy server refused */
	unsigned failed; /* number of tries after which the client chose the next server */
	bool doubt;      /* an earlier try may have been executed, or may still be executed */
	bool refused;    /* the last try was refused, and an earlier try may still be executed */
	uint64_t time_factor; /* factor for the time limits of the request */
};

/*
 * Returns whether an earlier copy of the request may have been executed, or could still be executed by another server,
 * although a server has refused a later copy with rc, because the state that caused the refusal has changed. This
 * cannot happen to creates, which store a refusal first (name_create.c), nor to changes of files and blocks: their
 * requests name the state that they expect. Except that a create whose path leads to another directory now (-ESTALE)
 * may have been executed when the path still led to its directory.
 */
static bool may_run_late(const struct rpc_type *t, int rc)
{
	return (t == &meta_type_create && rc == -ESTALE) || t == &meta_type_rename ||
	       t == &meta_type_move || t == &meta_type_link || t == &meta_type_remove ||
	       t == &meta_type_rmdir;
}

/* Returns whether the service executed or refused the request, so that rc is its result. */
static bool is_service_result(int rc, const struct rpc_reply *reply)
{
	return rc == 0 || (reply->maybe_executed && rc != -ECANCELED && rc != -EBADMSG);
}

static int try_once(struct attempt *a, enum next_step *v)
{
	struct meta_client *c = a->call->client;
	assert(c->current < c->count);
	struct rpc_call call = {
		.type = a->type,
		.request = a->request,
		.timeout_ns = c->count > 1 ? c->try_ns * a->time_factor : 0,
	};
	int rc = rpc_call(c->channels[c->current], &call, a->reply);
	*v = rc == 0 ? STEP_RETURN : classify(rc, a->reply, a->tries);
	if (*v == STEP_RETURN && is_service_result(rc, a->reply))
		a->doubt = a->refused = rc < 0 && a->doubt && may_run_late(a->type, rc);
	/* with STEP_WAIT, the server was busy and has changed nothing */
	else if (*v == STEP_NEXT_SERVER)
		a->doubt = a->doubt || a->reply->maybe_executed;
	return rc;
}

/* Waits as long as step v requires. Returns whether to try again. asked: index of the server of the last try. */
static bool try_again(struct attempt *a, enum next_step v, size_t asked)
{
	struct meta_client *c = a->call->client;
	if (v == STEP_RETURN || (++a->tries >= TRIES_MAX && !bug_planted(BUG_RETRY_AT_ONCE)))
		return false;
	if (v == STEP_WAIT) {
		uint64_t advised = a->reply->retry_ms != 0 ? a->reply->retry_ms : PAUSE_MIN_MS;
		if (++a->busy > c->busy_max)
			return false;
		c->stats.busy++;
		/* Wait for up to twice the time that the server advised, because pause_ms may halve it. */
		return pause_ms(min_u64(2 * advised, 2 * PAUSE_MAX_MS)) == 0;
	}
	/* If another fiber has changed to another server already, use that server. */
	if (asked == c->current && c->count > 1) {
		c->current = (c->current + 1) % c->count;
		c->stats.failovers++;
	}
	assert(c->count > 0);
	if (++a->failed % c->count != 0)
		return rt_deadline() == RT_NEVER || rt_now_ns() < rt_deadline();
	if (c->impatient && !a->doubt && !ever_connected(c))
		return false;
	unsigned rounds = (unsigned)(a->failed / c->count);
	uint64_t ms = PAUSE_MIN_MS << (rounds < 7 ? rounds : 7);
	return pause_ms(min_u64(ms, PAUSE_MAX_MS)) == 0;
}

static void error_set(struct meta_call *c, const char *text)
{
	snprintf(c->error, sizeof(c->error), "%s", text);
}

/* Sets *out to a reference to the fiber's context; if the context has no tenant, to a copy of the context with the
 * client's tenant. */
static int context_with_tenant(const struct meta_client *c, const struct context **out)
{
	const struct context *now = rt_context();
	if (now->tenant[0] != 0 || now == context_empty()) {
		*out = context_ref(now == context_empty() ? c->own : now);
		return 0;
	}
	struct context like = *now;
	like.tenant = c->own->tenant;
	return context_new(out, &like);
}

/* Waits until the quota of the traffic group has room for the request, and makes the fiber carry the class that the
 * request then has. */
static int admit(struct meta_call *c, const struct rpc_type *type, const ProtobufCMessage *request)
{
	enum traffic_class as;
	if (c->client->share == NULL || type == &meta_type_map_get)
		return 0;
	int rc = meta_client_admit(c->client, META_QUERIES, meta_wire_queries(type, request), &as);
	if (rc == 0)
		rc = mc_share_class(as);
	if (rc == 0)
		return 0;
	mc_fail(c, rc);
	if (rc == -ETIME || rc == -EAGAIN)
		error_set(c, "the traffic group has used its quota of metadata queries; raise "
			     "the quota (terrane group set) or the time limit");
	return rc;
}

int mc_call(struct meta_call *c, const struct rpc_type *type, const ProtobufCMessage *request,
	    struct rpc_reply *reply)
{
	assert(c->client != NULL && rt_on_loop(c->client->loop));
	assert(type != NULL && request != NULL);
	struct attempt a = {.call = c, .type = type, .request = request, .reply = reply};
	/* A move copies all extents of the file, which can take long; a retry continues where the previous try
	 * ended. */
	a.time_factor = type == &meta_type_move ? MOVE_TIME_FACTOR : 1;
	const struct context *mine;
	int named = context_with_tenant(c->client, &mine);
	if (named < 0) {
		rpc_reply_init(reply);
		return mc_fail(c, named);
	}
	AUTO_RT_CONTEXT const struct context *before_call = rt_context_enter(mine);
	context_unref(mine);
	assert(rt_context()->tenant[0] != 0);
	uint64_t timeout_ns =
		c->timeout_ns != 0 ? c->timeout_ns : c->client->timeout_ns * a.time_factor;
	uint64_t before = rt_deadline_narrow(rt_now_ns() + timeout_ns);
	AUTO_RT_CONTEXT const struct context *before_share = rt_context_enter(rt_context());
	int admitted = admit(c, type, request);
	if (admitted < 0) {
		rt_deadline_set(before);
		rpc_reply_init(reply);
		return admitted;
	}
	c->client->stats.calls++;
	c->client->calls_active++;
	for (;;) {
		enum next_step v;
		size_t asked = c->client->current;
		int rc = try_once(&a, &v);
		if (rc == 0 || !try_again(&a, v, asked)) {
			rt_deadline_set(before);
			assert(c->client->calls_active > 0);
			c->client->calls_active--;
			c->in_doubt = rc < 0 && a.doubt;
			error_set(c, rc < 0 ? reply->error : "");
			if (a.refused)
				error_set(c,
					  "the metadata service refused a retry; the first try may "
					  "still be executed");
			return a.refused ? -ETIME : rc;
		}
		c->client->stats.retries++;
		rpc_reply_fini(reply);
	}
}

int mc_call_status(struct meta_call *c, const struct rpc_type *type,
		   const ProtobufCMessage *request)
{
	AUTO_REPLY struct rpc_reply reply;
	return mc_call(c, type, request, &reply);
}

int mc_fail(struct meta_call *c, int err)
{
	assert(err < 0);
	c->in_doubt = false;
	error_set(c, err_text(err));
	return err;
}

int mc_response_error(struct meta_call *c, int err)
{
	assert(err <= 0);
	if (err == 0)
		return 0;
	error_set(c,
		  err == -EINVAL ? "the metadata service sent an invalid response" : err_text(err));
	return err == -EINVAL ? -EPROTO : err;
}

struct meta_cache *mc_cache(const struct meta_call *c)
{
	assert(rt_on_loop(c->client->loop));
	const char *tenant = rt_context()->tenant;
	bool own = tenant[0] == 0 || strcmp(tenant, c->client->own->tenant) == 0;
	return own ? &c->client->cache : NULL;
}

int mc_name(struct meta_call *c, struct arena *a, struct meta_name name, size_t max, char **out)
{
	if (name.len > max)
		return mc_fail(c, -ENAMETOOLONG);
	if (name.len > 0 && memchr(name.text, 0, name.len) != NULL)
		return mc_fail(c, -EINVAL);
	for (size_t at = 0, step; at < name.len; at += step) {
		step = utf8_char_len(name.text + at, name.len - at);
		if (step == 0)
			return mc_fail(c, -EILSEQ);
	}
	*out = meta_wire_name(a, name);
	return *out == NULL ? mc_fail(c, -ENOMEM) : 0;
}
