// SPDX-License-Identifier: Apache-2.0
#include "rt/pool.h"

#include <assert.h>
#include <errno.h>

static void pool_freed_here(struct rt_msg *msg)
{
	struct rt_pool *p = container_of(msg, struct rt_pool, msg);
	atomic_store(&p->posted, false);
	rt_cond_broadcast(&p->freed);
}

/*
 * Runs on the thread that released a buffer, and posts a message to the pool's loop if a fiber
 * waits there. A fiber sets `waited` before it tries the allocation again, so either the fiber gets
 * the buffer or this function sees `waited`.
 */
static void pool_on_free(void *ctx)
{
	struct rt_pool *p = ctx;
	if (!atomic_load(&p->waited))
		return;
	if (rt_loop_self() == p->loop)
		rt_cond_broadcast(&p->freed);
	else if (!atomic_exchange(&p->posted, true))
		rt_post(p->loop, &p->msg);
}

void rt_pool_init(struct rt_pool *p, uint64_t limit_bytes)
{
	*p = (struct rt_pool){.loop = rt_loop_self(), .msg.fn = pool_freed_here};
	buf_pool_init(&p->bufs, limit_bytes);
	buf_pool_on_free(&p->bufs, pool_on_free, p);
	rt_mutex_init(&p->turn);
	rt_cond_init(&p->freed);
	rt_cond_init(&p->pressed);
}

void rt_pool_fini(struct rt_pool *p)
{
	assert(p->waiting == 0);
	/*
	 * Wait for a posted message, which points into p: it arrives, or the process has crashed
	 * and it never arrives.
	 */
	while (atomic_load(&p->posted) && rt_yield() == 0)
		;
	buf_pool_fini(&p->bufs);
}

static int pool_get_in_turn(struct rt_pool *p, size_t len, struct buf **out)
{
	int rc = rt_mutex_lock(&p->turn);
	if (rc < 0)
		return rc;
	for (;;) {
		atomic_store(&p->waited, true);
		rc = buf_get(&p->bufs, len, out);
		if (rc != -ENOBUFS)
			break;
		rc = rt_cond_wait(&p->freed);
		if (rc < 0)
			break;
	}
	atomic_store(&p->waited, false);
	rt_mutex_unlock(&p->turn);
	return rc;
}

int rt_pool_get(struct rt_pool *p, size_t len, struct buf **out)
{
	*out = NULL;
	if (p->waiting == 0) {
		int rc = buf_get(&p->bufs, len, out);
		if (rc != -ENOBUFS)
			return rc;
	}
	p->waits++;
	p->waiting++;
	rt_cond_broadcast(&p->pressed);
	int rc = pool_get_in_turn(p, len, out);
	p->waiting--;
	return rc;
}
