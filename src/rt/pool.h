// SPDX-License-Identifier: Apache-2.0
/*
 * A buffer pool whose callers wait while it is exhausted: the back-pressure of bulk data. Callers
 * are served in order of arrival, so that a large request is not starved by small ones.
 *
 * The loops of a process share a pool: fibers of any loop get buffers, and any thread releases them, so a buffer can be
 * handed over to another loop.
 */
#ifndef RT_POOL_H
#define RT_POOL_H

#include <stdatomic.h>

#include "base/buf.h"
#include "rt/queue.h"

struct rt_pool {
	struct buf_pool bufs;
	struct rt_queue queue;
	/* raised when a fiber begins to wait for a buffer */
	struct rt_event pressed;
	atomic_uint_fast64_t waits; /* number of calls that had to wait */
};

void rt_pool_init(struct rt_pool *p, uint64_t limit_bytes);
/* Frees the pool. All buffers must have been released, and no fiber may wait for one. */
void rt_pool_fini(struct rt_pool *p);

/*
 * Returns a buffer of len bytes in *out; waits while the pool is exhausted. Returns 0, -EMSGSIZE if
 * len is larger than the pool, or -ENOMEM.
 */
int rt_pool_get(struct rt_pool *p, size_t len, struct buf **out);

/* Returns the number of fibers that wait for buffers, on all loops. */
unsigned rt_pool_waiting(const struct rt_pool *p);

#endif
