// SPDX-License-Identifier: Apache-2.0
/*
 * Pool memory for what is still on its way in: a server must give it before the bytes came, to peers
 * that may be slow or never send them. And memory for what is on its way out, to peers that may be
 * slow to read. So that these cannot keep the memory from others,
 *
 *   1. a reader gets memory only when the first part of its bytes is here (INCOMING_FIRST_BYTES);
 *   2. readers of all connections together hold at most half of the pool; who finds no room waits, first
 *      come, first served;
 *   3. while anybody waits, for this or for the pool, the reader that is furthest behind is evicted: its
 *      connection ends. It is behind when no whole piece (IN_PIECE_BYTES) came for
 *      INCOMING_GRACE_NS, or when it holds its memory for longer than that and the part of
 *      INCOMING_SPAN_NS that corresponds to what came. So under pressure a silent peer loses its
 *      memory after the first time, and nobody has it for longer than both together;
 *   4. the same holds for who does not read: a batch that is being sent is behind after
 *      INCOMING_GRACE_NS and its payload at INCOMING_RATE_OUT;
 *   5. also when nobody waits a whole read, and the sending of a batch, has a deadline.
 *
 * Example: 1 MiB of which 512 KiB came may take 0.5 s + 8 s / 2, but no more than 0.5 s for a piece.
 */
#ifndef RPC_INCOMING_H
#define RPC_INCOMING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "rpc/stream.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "rt/sync.h"

#define INCOMING_FIRST_BYTES ((size_t)(4 * KIB))
#define INCOMING_GRACE_NS (500 * NS_PER_MS)
#define INCOMING_SPAN_NS (8 * NS_PER_S)
#define INCOMING_RATE_OUT ((uint64_t)(8 * MIB)) /* bytes a second */

struct incoming {
	struct rt_pool *pool;
	uint64_t limit_bytes;
	uint64_t held_bytes;
	uint64_t peak_bytes;
	struct rt_mutex turn; /* held by the one who is next */
	struct rt_cond freed;
	unsigned waiting;
	struct list readers; /* struct incoming_reader that hold memory */
	struct list outs;    /* struct rpc_out */
	struct rt_fiber *watch;
};

/* -ENOMEM, -EAGAIN. */
int incoming_init(struct incoming *g, struct rt_pool *pool);
/* Nobody may be reading, no out be watched. */
void incoming_fini(struct incoming *g);

/* Under pressure the stream is broken with -EAGAIN when its peer reads too slowly. */
void incoming_watch_out(struct incoming *g, struct rpc_out *o);
void incoming_unwatch_out(struct rpc_out *o);

/*
 * The next len bytes of in to a buffer of their own, and their CRC. Waits. The errors of in_read and
 * of rt_pool_get; -EAGAIN: evicted, the calling fiber is cancelled. After an error *out may be set.
 */
int incoming_read(struct incoming *g, struct rpc_in *in, size_t len, struct buf **out,
		  uint32_t *crc);

#endif
