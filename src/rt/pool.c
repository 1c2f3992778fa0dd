// SPDX-License-Identifier: Apache-2.0
#include "rt/pool.h"

#include <assert.h>
#include <errno.h>

/*
 * Runs on the thread that released a buffer. A fiber that waits is counted in `waiting` before it tries the
 * allocation again, so either the fiber gets the buffer or this function sees it.
 */
static void pool_on_free(void *ctx)
{
	struct rt_pool *p = ctx;
	if (atomic_load(&p->queue.waiting) > 0)
		rt_queue_serve(&p->queue);
}

static bool pool_serve(struct rt_queue *q, struct rt_waiter *w)
{
	struct rt_pool *p = container_of(q, struct rt_pool, queue);
	struct buf *b = NULL;
	w->rc = buf_get(&p->bufs, w->amount, &b);
	w->result = b;
	return w->rc != -ENOBUFS;
}

void rt_pool_init(struct rt_pool *p, uint64_t limit_bytes)
{
	*p = (struct rt_pool){0};
	buf_pool_init(&p->bufs, limit_bytes);
	buf_pool_on_free(&p->bufs, pool_on_free, p);
	rt_queue_init(&p->queue, pool_serve, false);
	rt_event_init(&p->pressed);
}

void rt_pool_fini(struct rt_pool *p)
{
	rt_event_fini(&p->pressed);
	rt_queue_fini(&p->queue);
	buf_pool_fini(&p->bufs);
}

static void pool_waits(void *ctx)
{
	struct rt_pool *p = ctx;
	atomic_fetch_add(&p->waits, 1);
	rt_event_raise(&p->pressed);
}

int rt_pool_get(struct rt_pool *p, size_t len, struct buf **out)
{
	*out = NULL;
	if (atomic_load(&p->queue.waiting) == 0) {
		int rc = buf_get(&p->bufs, len, out);
		if (rc != -ENOBUFS)
			return rc;
	}
	struct rt_waiter w = {.amount = len};
	int rc = rt_queue_wait(&p->queue, &w, pool_waits, p);
	if (rc == 0)
		*out = w.result;
	return rc;
}

unsigned rt_pool_waiting(const struct rt_pool *p)
{
	return atomic_load(&p->queue.waiting);
}
