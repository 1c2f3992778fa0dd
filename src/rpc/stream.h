// SPDX-License-Identifier: Apache-2.0
/*
 * The two directions of a connection, the same for client and server.
 *
 * In: one fiber reads ahead into a small buffer, so that many small frames cost one receive, and
 * takes bulk data straight into its final place; only what was already read ahead is copied.
 *
 * Out: any fiber appends frames to a batch while a writer fiber sends the one before, so that all
 * frames that become ready meanwhile leave in one send. Both batches are bounded, in bytes of their
 * own and of the payloads they refer to; who finds no room waits. That, and the bounded batches, is
 * all the memory that a peer who does not read can take.
 *
 *     fibers --append--> [ fill ] --swap--> [ send ] --sendv--> socket
 */
#ifndef RPC_STREAM_H
#define RPC_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <protobuf-c/protobuf-c.h>

#include "base/context.h"
#include "base/list.h"
#include "base/slice.h"
#include "rpc/frame.h"
#include "rt/sync.h"

struct arena;
struct buf;
struct rpc_counters;
struct rt_pool;
struct rt_sock;

#define IN_BYTES ((size_t)(16 * KIB))
#define IN_PIECE_BYTES ((size_t)(256 * KIB)) /* bulk is checksummed while still in the cache */
#define IN_RATE_MIN ((uint64_t)(1 * MIB))    /* bytes a second, of bulk, beside stall_ns */

struct rpc_in {
	struct rt_sock *sock;
	uint8_t *bytes; /* [head, tail) is read ahead */
	size_t head;
	size_t tail;
	uint64_t stall_ns; /* the longest silence inside a frame; 0: any */
	uint64_t heard_ns; /* when something last came */
	size_t read_bytes; /* how much of the present or last in_read came, in whole pieces */
	bool cut;          /* the peer ended the stream inside a frame */
};

/* -ENOMEM. */
int in_init(struct rpc_in *in, struct rt_sock *sock, uint64_t stall_ns);
void in_fini(struct rpc_in *in);

/*
 * These wait and leave the fiber's deadline at RT_NEVER. -EPIPE: the peer ended the stream between
 * two frames; -ECONNRESET: inside one, or it broke; -ETIMEDOUT: silence inside a frame.
 */

/* Wait up to idle_ns (0: for ever) for a header; *at stays valid until the next call. -ETIME: none
 * began in time. */
int in_header(struct rpc_in *in, uint64_t idle_ns, const uint8_t **at);
/* The next len <= IN_BYTES bytes in one piece, valid until the next call. */
int in_view(struct rpc_in *in, size_t len, const uint8_t **at);
/* Wait until the next len <= IN_BYTES bytes are here, without taking them. */
int in_await(struct rpc_in *in, size_t len);
/* The next len bytes to dst, and their CRC. Each piece must come within stall_ns, and all within
 * stall_ns and len / IN_RATE_MIN together, so that many pieces buy no more time than few. */
int in_read(struct rpc_in *in, uint8_t *dst, size_t len, uint32_t *crc);
/* Drop the next len bytes, within the same times. */
int in_skip(struct rpc_in *in, size_t len);

#define OUT_BATCH_BYTES ((size_t)(16 * KIB))
#define OUT_SEGMENTS 64
#define OUT_BULK_BYTES ((size_t)(4 * MIB)) /* payload in a batch, unless it is a single one */

struct out_batch {
	uint8_t *bytes;
	size_t used;
	size_t bulk_bytes;
	int segment_count;
	int held_count;
	struct iovec segments[OUT_SEGMENTS];
	struct buf *held[OUT_SEGMENTS]; /* what segments point into, beside bytes */
};

struct rpc_out {
	struct rt_sock *sock;
	struct rt_pool *pool; /* for the rare body that does not fit a batch */
	struct rt_fiber *writer;
	struct out_batch batch[2];
	struct out_batch *fill;
	struct rt_cond room;
	struct rt_cond work;
	uint64_t stall_ns;    /* the longest that one batch may take to leave; 0: any */
	uint64_t since_ns;    /* when the batch that is being sent was begun */
	size_t sending_bytes; /* payload in it; 0: none is being sent */
	struct list watched;  /* with struct incoming */
	bool idle;            /* the writer waits for work */
	bool closing;
	int error;         /* why nothing can be sent any more */
	size_t peak_bytes; /* the most that was queued at once, with payloads */
	uint64_t sends;
};

/* Starts the writer. The socket must live until out_fini has returned. -ENOMEM, -EAGAIN. */
int out_init(struct rpc_out *o, struct rt_sock *sock, struct rt_pool *pool, uint64_t stall_ns);
/* Sends what is queued (at once gives it up when the stream is broken), then ends the writer.
 * Nobody may be inside out_frame or come there later. */
void out_fini(struct rpc_out *o);
/* Nothing more can be sent: wakes all who wait for room. The stream is shut down. */
void out_break(struct rpc_out *o, int error);

struct out_frame {
	struct frame_header head;      /* kind, flags, type, status, id; the rest is filled in */
	uint64_t deadline_ns;          /* becomes timeout_us; 0 or RT_NEVER: none */
	const struct context *context; /* NULL: none */
	const ProtobufCMessage *body;  /* NULL: empty */
	struct slice payload;          /* a reference is taken */
	bool no_wait;                  /* -EAGAIN instead of waiting */
};

/* Queue a frame. Waits for room. 0: queued as a whole; else nothing of it will be sent. -ECONNRESET
 * when the stream is broken; -EMSGSIZE. */
int out_frame(struct rpc_out *o, const struct out_frame *f);

/* Count a header that was refused. */
void rpc_count_fault(struct rpc_counters *c, enum frame_fault fault);

#endif
