// SPDX-License-Identifier: Apache-2.0
/*
 * A buffer pool whose callers wait while it is exhausted: the back-pressure of bulk data. Served
 * first come, first served, so that a large request is not starved by small ones.
 *
 * It belongs to one loop; buffers may be released on any thread.
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
	struct rt_mutex turn; /* held by the one who is next */
	struct rt_cond freed;
	struct rt_cond pressed; /* somebody began to wait, for this or behind it */
	unsigned waiting;
	/* Buffers freed by other threads: one message is enough for any number. */
	struct rt_msg msg;
	atomic_bool waited;
	atomic_bool posted;
	uint64_t waits; /* how often a caller had to wait */
};

void rt_pool_init(struct rt_pool *p, uint64_t limit_bytes);
/* Every buffer must have come back and nobody be waiting. */
void rt_pool_fini(struct rt_pool *p);

/* Waits while exhausted. -EMSGSIZE when it could never fit, -ENOMEM. */
int rt_pool_get(struct rt_pool *p, size_t len, struct buf **out);

#endif
