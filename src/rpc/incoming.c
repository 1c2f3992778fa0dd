// SPDX-License-Identifier: Apache-2.0
#include "rpc/incoming.h"

#include <assert.h>
#include <errno.h>

#define WATCH_NS (100 * NS_PER_MS) /* how often to look for pressure while someone is behind */
#define SETTLE_NS (1 * NS_PER_MS)  /* for the memory of an evicted reader to reach who waits */

/* One read under way; lives on the stack of its fiber. */
struct incoming_reader {
	struct list link;
	struct rt_fiber *fiber;
	const struct rpc_in *in;
	size_t len;
	uint64_t since_ns;
	bool evicted;
};

/* --- eviction -------------------------------------------------------------------------------- */

/* Until when it is on its pace, unless more comes. */
static uint64_t reader_due_ns(const struct incoming_reader *r)
{
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

static int incoming_watch(struct incoming *g)
{
	struct incoming_reader *worst = incoming_worst(g);
	if (worst == NULL)
		return rt_cond_wait(&g->began);
	uint64_t now = rt_now_ns();
	uint64_t due = reader_due_ns(worst);
	if (due > now)
		return rt_sleep_ns(due - now);
	if (g->waiting == 0 && g->pool->waiting == 0)
		return rt_sleep_ns(WATCH_NS);
	worst->evicted = true;
	rt_cancel(worst->fiber);
	return rt_sleep_ns(SETTLE_NS);
}

static void incoming_main(void *arg)
{
	rt_deadline_set(RT_NEVER);
	while (incoming_watch(arg) == 0)
		;
}

int incoming_init(struct incoming *g, struct rpc_pool *pool)
{
	*g = (struct incoming){.pool = pool, .limit_bytes = pool->bufs.stats.limit_bytes / 2};
	rt_mutex_init(&g->turn);
	rt_cond_init(&g->freed);
	list_init(&g->readers);
	rt_cond_init(&g->began);
	return rt_spawn(&g->watch, "rpc-incoming", incoming_main, g);
}

void incoming_fini(struct incoming *g)
{
	assert(list_empty(&g->readers) && g->held_bytes == 0);
	if (g->watch == NULL)
		return;
	rt_cancel(g->watch);
	rt_join(g->watch);
	g->watch = NULL;
}

/* --- memory ---------------------------------------------------------------------------------- */

/* One alone may be larger than the limit. */
static bool incoming_fits(const struct incoming *g, size_t bytes)
{
	return g->held_bytes == 0 || g->held_bytes + bytes <= g->limit_bytes;
}

static int incoming_await(struct incoming *g, size_t bytes)
{
	int rc = rt_mutex_lock(&g->turn);
	if (rc < 0)
		return rc;
	while (rc == 0 && !incoming_fits(g, bytes))
		rc = rt_cond_wait(&g->freed);
	rt_mutex_unlock(&g->turn);
	return rc;
}

static int incoming_take(struct incoming *g, size_t bytes)
{
	if (g->waiting > 0 || !incoming_fits(g, bytes)) {
		g->waiting++;
		int rc = incoming_await(g, bytes);
		g->waiting--;
		if (rc < 0)
			return rc;
	}
	g->held_bytes += bytes;
	g->peak_bytes = max_u64(g->peak_bytes, g->held_bytes);
	return 0;
}

static void incoming_give(struct incoming *g, size_t bytes)
{
	g->held_bytes -= bytes;
	rt_cond_broadcast(&g->freed);
}

/* --- reading --------------------------------------------------------------------------------- */

static int incoming_read_into(struct incoming *g, struct rpc_in *in, struct buf *b, size_t len,
			      uint32_t *crc)
{
	struct incoming_reader r = {
		.fiber = rt_self(), .in = in, .len = len, .since_ns = rt_now_ns()};
	in->read_bytes = 0;
	list_push_back(&g->readers, &r.link);
	rt_cond_signal(&g->began);
	int rc = in_read(in, b->data, len, crc);
	list_remove(&r.link);
	return r.evicted ? -EAGAIN : rc;
}

int incoming_read(struct incoming *g, struct rpc_in *in, size_t len, struct buf **out,
		  uint32_t *crc)
{
	size_t bytes = buf_cap_for(len);
	*out = NULL;
	int rc = in_await(in, min_u64(len, INCOMING_FIRST_BYTES));
	if (rc == 0)
		rc = incoming_take(g, bytes);
	if (rc < 0)
		return rc;
	rc = rpc_pool_get(g->pool, len, out);
	if (rc == 0)
		rc = incoming_read_into(g, in, *out, len, crc);
	incoming_give(g, bytes);
	return rc;
}
