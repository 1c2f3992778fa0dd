// SPDX-License-Identifier: Apache-2.0
/*
 * Pool memory for payloads that are being received or sent. A server must allocate the buffer of a
 * payload before its bytes arrive, and the peer may send them slowly or never; responses hold
 * memory until the peer reads them. These rules keep slow peers from holding the memory that other
 * requests need:
 *
 *   1. A reader gets memory only after the first INCOMING_FIRST_BYTES of its bytes arrived.
 *   2. The readers of all connections together hold at most half of the pool; further readers wait
 *      in order of arrival.
 *   3. While a fiber waits for this memory or for the pool, the reader that is furthest behind is
 *      evicted: its connection ends. A reader is behind if no complete piece (IN_PIECE_BYTES)
 *      arrived for INCOMING_GRACE_NS, or if it has held its memory for longer than
 *      INCOMING_GRACE_NS plus the part of INCOMING_SPAN_NS that corresponds to the bytes that
 *      arrived. So under memory pressure a silent peer loses its memory after INCOMING_GRACE_NS,
 *      and every peer after the sum of both.
 *   4. The same holds for peers that do not read: a batch being sent is behind after
 *      INCOMING_GRACE_NS plus the time of its payload at INCOMING_RATE_OUT.
 *   5. Each complete read, and the sending of each batch, has a deadline also without memory
 *      pressure.
 *
 * Example: a reader of 1 MiB that has received 512 KiB is behind after 0.5 s + 8 s / 2, or 0.5 s
 * after its last piece.
 */
#ifndef RPC_INCOMING_H
#define RPC_INCOMING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "rpc/stream.h"
#include "rt/pool.h"
#include "rt/queue.h"
#include "rt/rt.h"

#define INCOMING_FIRST_BYTES ((size_t)(4 * KIB))
#define INCOMING_GRACE_NS (500 * NS_PER_MS)
#define INCOMING_SPAN_NS (8 * NS_PER_S)
#define INCOMING_RATE_OUT ((uint64_t)(8 * MIB)) /* slowest allowed sending, in bytes per second */

struct incoming {
	struct rt_pool *pool;
	struct rt_budget *budget; /* memory of payloads that are being received, on all loops */
	struct rt_budget own;     /* the budget of a server that shares none */
	struct rt_event_sub pressed;
	struct list readers; /* readers of this loop that hold memory (struct incoming_reader) */
	struct list outs;    /* the watched streams (struct rpc_out) */
	struct rt_fiber *watch;
};

/* Initializes the state for one pool and a budget; NULL: a budget of its own, half of the pool.
 * -ENOMEM, -EAGAIN. */
int incoming_init(struct incoming *g, struct rt_pool *pool, struct rt_budget *budget);
/* Releases the state. No reader may run and no rpc_out may be watched. */
void incoming_fini(struct incoming *g);

/* Watches a stream: under memory pressure it is broken with -EAGAIN if its peer reads too
 * slowly. */
void incoming_watch_out(struct incoming *g, struct rpc_out *o);
void incoming_unwatch_out(struct rpc_out *o);

/*
 * Reads the next len bytes of `in` into a new buffer and returns their CRC, with pieces as for in_read. Errors of
 * in_read and of rt_pool_get; -EAGAIN: the reader was evicted, and the calling fiber is cancelled. After an error *out
 * may be set.
 */
int incoming_read(struct incoming *g, struct rpc_in *in, size_t len, struct buf **out,
		  uint32_t *pieces, uint32_t *crc);

#endif
