// SPDX-License-Identifier: Apache-2.0
#include "tally/service.h"

#include <errno.h>

#include "rpc/server.h"
#include "rt/rt.h"
#include "rt/sync.h"
#include "tally/wire.h"

#define POOL_DEFAULT_BYTES (32 * MIB)

/* --- requests -------------------------------------------------------------------------------- */

/* With words for what the caller cannot know. */
static int change_result(struct rpc_request *r, int rc)
{
	if (rc == -EBUSY)
		return rpc_fail(
			r, rc,
			"too many clients are remembered; idle ones make room after a while, or "
			"raise sessions in [store]");
	return rc;
}

static int handle_add(struct rpc_request *r)
{
	const Terrane__Tally__AddRequest *q = rpc_body(r);
	Terrane__Tally__AddResponse *reply = rpc_reply_body(r);
	struct tally_change c = {.client_id = q->client_id, .seq = q->seq, .name = q->name};
	return change_result(r, tally_add(r->service, &c, q->delta, &reply->value));
}

static int handle_get(struct rpc_request *r)
{
	const Terrane__Tally__GetRequest *q = rpc_body(r);
	Terrane__Tally__GetResponse *reply = rpc_reply_body(r);
	return tally_get(r->service, q->name, &reply->value);
}

static int handle_put_blob(struct rpc_request *r)
{
	const Terrane__Tally__PutBlobRequest *q = rpc_body(r);
	struct tally_change c = {.client_id = q->client_id, .seq = q->seq, .name = q->name};
	return change_result(
		r, tally_put(r->service, &c, r->payload.buf, r->payload.len, r->payload.crc));
}

static int handle_end(struct rpc_request *r)
{
	const Terrane__Tally__EndRequest *q = rpc_body(r);
	return tally_end(r->service, q->client_id);
}

static int handle_get_blob(struct rpc_request *r)
{
	const Terrane__Tally__GetBlobRequest *q = rpc_body(r);
	struct tally_blob blob;
	int rc = tally_blob_find(r->service, q->name, &blob);
	if (rc < 0)
		return rc;
	struct buf *b = NULL;
	rc = rpc_reply_buf(r, blob.len, &b);
	if (rc == 0)
		rc = tally_blob_read(&blob, b->data);
	if (rc == 0)
		rpc_reply_payload_take(r,
				       (struct slice){.buf = b, .len = blob.len, .crc = blob.crc});
	else
		buf_unref(b);
	tally_blob_release(&blob);
	if (rc == -EBADMSG)
		return rpc_fail(r, rc, "the disk did not give back what was written");
	return rc;
}

static int handle_stat(struct rpc_request *r)
{
	Terrane__Tally__StatResponse *reply = rpc_reply_body(r);
	struct tally_stat s;
	tally_stat(r->service, &s);
	reply->counters = s.counters;
	reply->blobs = s.blobs;
	reply->live_bytes = s.live_bytes;
	reply->log_bytes = s.log_bytes;
	reply->sessions = s.sessions;
	reply->changes = s.changes;
	reply->commits = s.commits;
	reply->compactions = s.compactions;
	reply->failed = s.failed;
	return 0;
}

static const struct rpc_method methods[] = {
	{.type = &tally_type_add, .handle = handle_add},
	{.type = &tally_type_get, .handle = handle_get},
	{.type = &tally_type_put_blob, .handle = handle_put_blob},
	{.type = &tally_type_get_blob, .handle = handle_get_blob},
	{.type = &tally_type_stat, .handle = handle_stat},
	{.type = &tally_type_end, .handle = handle_end},
};

/* --- serving --------------------------------------------------------------------------------- */

/* Two things may end the service; each is waited for by a fiber. */
struct ending {
	struct tally *store;
	struct rt_cond wake;
	bool decided;
	int rc;
};

static void ending_decide(struct ending *e, int rc)
{
	if (e->decided)
		return;
	e->decided = true;
	e->rc = rc;
	rt_cond_broadcast(&e->wake);
}

static void await_shutdown(void *arg)
{
	struct ending *e = arg;
	rt_deadline_set(RT_NEVER);
	ending_decide(e, rt_shutdown_wait());
}

static void await_failure(void *arg)
{
	struct ending *e = arg;
	rt_deadline_set(RT_NEVER);
	int rc = tally_wait_failed(e->store);
	ending_decide(e, rc < 0 ? rc : -EIO);
}

static int await_ending(struct tally *store)
{
	struct ending e = {.store = store};
	struct rt_group g;
	rt_cond_init(&e.wake);
	rt_group_init(&g);
	int rc = rt_group_spawn(&g, "tally-shutdown", await_shutdown, &e);
	if (rc == 0)
		rc = rt_group_spawn(&g, "tally-failure", await_failure, &e);
	while (rc == 0 && !e.decided)
		rc = rt_cond_wait(&e.wake);
	rt_group_cancel(&g);
	rt_group_join(&g);
	return rc < 0 ? rc : e.rc;
}

static int serve_store(const struct tally_serve_options *o, struct tally *store,
		       struct rt_pool *pool)
{
	struct rpc_server *server = NULL;
	int rc = rpc_server_open(&server, o->listen,
				 &(struct rpc_server_options){
					 .methods = methods,
					 .method_count = ARRAY_LEN(methods),
					 .service = store,
					 .pool = pool,
					 .connections_max = o->connections_max,
					 .stall_ns = o->stall_ns,
				 });
	if (rc < 0)
		return rc;
	if (o->ready != NULL)
		rc = o->ready(o->ctx, rpc_server_addr(server), rpc_server_counters(server));
	if (rc == 0)
		rc = await_ending(store);
	if (o->ended != NULL)
		o->ended(o->ctx, rpc_server_counters(server));
	rpc_server_close(server, o->grace_ns);
	return rc;
}

int tally_serve(const struct tally_serve_options *o)
{
	struct tally *store = NULL;
	int rc = tally_open(&store, &o->store);
	if (rc < 0)
		return rc;
	struct rt_pool pool;
	rt_pool_init(&pool, o->pool_bytes != 0 ? o->pool_bytes : POOL_DEFAULT_BYTES);
	rc = serve_store(o, store, &pool);
	tally_close(store);
	rt_pool_fini(&pool);
	return rc;
}
