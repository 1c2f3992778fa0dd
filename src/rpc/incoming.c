// SPDX-License-Identifier: Apache-2.0
#include "rpc/incoming.h"

#include <assert.h>
#include <errno.h>

#include "rpc/server.h"

/* pause after an eviction, so that the freed memory reaches the waiting fiber before the next
 * eviction */
#define SETTLE_NS (1 * NS_PER_MS)

/* One read in progress; lives on the stack of its fiber. */
struct incoming_reader {
	struct list link;
	struct rt_fiber *fiber;
	const struct rpc_in *in;
	size_t len;
	uint64_t since_ns;
	bool evicted;
};

/* --- eviction -------------------------------------------------------------------------------- */

/* Returns the time at which the reader is behind if no more bytes arrive. */
static uint64_t reader_due_ns(const struct incoming_reader *r)
{
	assert(r->len > 0 && r->in->read_bytes <= r->len);
	uint64_t pace_ns = r->since_ns + INCOMING_SPAN_NS * r->in->read_bytes / r->len;
	uint64_t heard_ns = max_u64(r->since_ns, r->in->heard_ns);
	return min_u64(pace_ns, heard_ns) + INCOMING_GRACE_NS;
}

static struct incoming_reader *incoming_worst(struct incoming *g)
{
	struct incoming_reader *worst = NULL;
	struct incoming_reader *r;
	list_for_each_entry(r, &g->readers, link) {
		if (!r->evicted && (worst == NULL || reader_due_ns(r) < reader_due_ns(worst)))
			worst = r;
	}
	return worst;
}

static uint64_t out_due_ns(const struct rpc_out *o)
{
	return o->since_ns + INCOMING_GRACE_NS + o->sending_bytes * NS_PER_S / INCOMING_RATE_OUT;
}

static struct rpc_out *outgoing_worst(struct incoming *g)
{
	struct rpc_out *worst = NULL;
	struct rpc_out *o;
	list_for_each_entry(o, &g->outs, watched) {
		if (o->sending_bytes > 0 && o->error == 0 &&
		    (worst == NULL || out_due_ns(o) < out_due_ns(worst)))
			worst = o;
	}
	return worst;
}

static int incoming_watch(struct incoming *g)
{
	if (rt_budget_waiting(g->budget) == 0 && rt_pool_waiting(g->pool) == 0)
		return rt_cond_wait(&g->pressed.raised);
	struct incoming_reader *reader = incoming_worst(g);
	struct rpc_out *out = outgoing_worst(g);
	uint64_t reader_due = reader != NULL ? reader_due_ns(reader) : RT_NEVER;
	uint64_t out_due = out != NULL ? out_due_ns(out) : RT_NEVER;
	uint64_t due = min_u64(reader_due, out_due);
	uint64_t now = rt_now_ns();
	if (due > now) /* a reader that starts during the wait can be due earlier */
		return rt_sleep_ns(min_u64(due - now, INCOMING_GRACE_NS));
	assert(reader != NULL || out != NULL);
	if (out_due < reader_due) {
		out_break(out, -EAGAIN);
	} else {
		reader->evicted = true;
		rt_cancel(reader->fiber);
	}
	return rt_sleep_ns(SETTLE_NS);
}

static void incoming_main(void *arg)
{
	rt_background();
	while (incoming_watch(arg) == 0)
		;
}

int incoming_init(struct incoming *g, struct rt_pool *pool, struct rt_budget *budget)
{
	*g = (struct incoming){.pool = pool, .budget = budget != NULL ? budget : &g->own};
	rt_budget_init(&g->own, rpc_receive_limit(pool->bufs.stats.limit_bytes), false);
	list_init(&g->readers);
	list_init(&g->outs);
	rt_event_subscribe(&pool->pressed, &g->pressed);
	return rt_spawn(&g->watch, "rpc-incoming", incoming_main, g);
}

void incoming_fini(struct incoming *g)
{
	if (g->pool == NULL)
		return;
	assert(list_empty(&g->readers) && list_empty(&g->outs));
	if (g->watch != NULL) {
		rt_cancel(g->watch);
		rt_join(g->watch);
	}
	rt_event_unsubscribe(&g->pressed);
	rt_budget_fini(&g->own);
	g->pool = NULL;
}

void incoming_watch_out(struct incoming *g, struct rpc_out *o)
{
	assert(o->watched.next == NULL || list_empty(&o->watched));
	list_push_back(&g->outs, &o->watched);
}

void incoming_unwatch_out(struct rpc_out *o)
{
	list_remove(&o->watched);
}

/* --- memory ---------------------------------------------------------------------------------- */

static void incoming_pressed(void *ctx)
{
	struct incoming *g = ctx;
	rt_event_raise(&g->pool->pressed);
}

/* --- reading --------------------------------------------------------------------------------- */

static int incoming_read_into(struct incoming *g, struct rpc_in *in, struct buf *b, size_t len,
			      uint32_t *pieces, uint32_t *crc)
{
	struct incoming_reader r = {
		.fiber = rt_self(), .in = in, .len = len, .since_ns = rt_now_ns()};
	assert(b->cap >= len);
	in->read_bytes = 0;
	list_push_back(&g->readers, &r.link);
	int rc = in_read(in, b->data, len, pieces, crc);
	list_remove(&r.link);
	return r.evicted ? -EAGAIN : rc;
}

int incoming_read(struct incoming *g, struct rpc_in *in, size_t len, struct buf **out,
		  uint32_t *pieces, uint32_t *crc)
{
	size_t bytes = buf_cap_for(len);
	*out = NULL;
	int rc = in_await(in, min_u64(len, INCOMING_FIRST_BYTES));
	if (rc == 0)
		rc = rt_budget_take(g->budget, bytes, incoming_pressed, g);
	if (rc < 0)
		return rc;
	rc = rt_pool_get(g->pool, len, out);
	if (rc == 0)
		rc = incoming_read_into(g, in, *out, len, pieces, crc);
	rt_budget_give(g->budget, bytes);
	return rc;
}
