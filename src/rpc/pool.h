// SPDX-License-Identifier: Apache-2.0
/*
 * A buffer pool whose callers wait while it is exhausted: the back-pressure of bulk data. Served
 * first come, first served, so that a large request is not starved by small ones.
 *
 * It belongs to one loop; buffers may be released on any thread.
 */
#ifndef RPC_POOL_H
#define RPC_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "rt/rt.h"
#include "rt/sync.h"

struct rpc_pool {
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

void rpc_pool_init(struct rpc_pool *p, uint64_t limit_bytes);
/* Every buffer must have come back and nobody be waiting. */
void rpc_pool_fini(struct rpc_pool *p);

/* Waits while exhausted. -EMSGSIZE when it could never fit, -ENOMEM. */
int rpc_pool_get(struct rpc_pool *p, size_t len, struct buf **out);

#endif
