// SPDX-License-Identifier: Apache-2.0
/*
 * A buffer pool whose callers wait while it is exhausted: the back-pressure of bulk data. Callers
 * are served in order of arrival, so that a large request is not starved by small ones.
 *
 * The pool belongs to one loop; its buffers may be released on any thread.
 */
#ifndef RT_POOL_H
#define RT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "rt/rt.h"
#include "rt/sync.h"

struct rt_pool {
	struct buf_pool bufs;
	struct rt_loop *loop;
	struct rt_mutex turn; /* held by the fiber that gets the next free buffer */
	struct rt_cond freed;
	/* signalled when a fiber begins to wait for a buffer or for the turn */
	struct rt_cond pressed;
	unsigned waiting;
	/*
	 * Tells the loop that other threads released buffers; one message reports any number of
	 * buffers.
	 */
	struct rt_msg msg;
	atomic_bool waited;
	atomic_bool posted;
	uint64_t waits; /* number of calls that had to wait */
};

void rt_pool_init(struct rt_pool *p, uint64_t limit_bytes);
/* Frees the pool. All buffers must have been released, and no fiber may wait for one. */
void rt_pool_fini(struct rt_pool *p);

/*
 * Returns a buffer of len bytes in *out; waits while the pool is exhausted. Returns 0, -EMSGSIZE if
 * len is larger than the pool, or -ENOMEM.
 */
int rt_pool_get(struct rt_pool *p, size_t len, struct buf **out);

#endif
