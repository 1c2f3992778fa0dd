// SPDX-License-Identifier: Apache-2.0
/*
 * The two directions of a connection, the same for client and server.
 *
 * In: one fiber reads ahead into a small buffer, so that many small frames cost one receive. It
 * receives bulk data directly into its final buffer; only the part that was read ahead is copied.
 *
 * Out: fibers append frames to one batch while the writer fiber sends the other, so that all frames
 * that became ready during a send leave together in the next. Both batches are bounded, in their
 * own bytes and in the payloads that they refer to, and fibers that find no room wait. So the
 * batches are all the memory that a peer which does not read can occupy.
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
#define IN_PIECE_BYTES  \
	((size_t)(256 * \
		  KIB)) /* bulk data is received in pieces, so that its CRC is computed while they are in the CPU cache */
#define IN_RATE_MIN ((uint64_t)(1 * MIB)) /* bytes a second of bulk data; adds to stall_ns */

struct rpc_in {
	struct rt_sock *sock;
	uint8_t *bytes; /* [head, tail) is read ahead */
	size_t head;
	size_t tail;
	uint64_t stall_ns; /* limit for silence inside a frame; 0: none */
	uint64_t heard_ns; /* time of the last received bytes */
	/* bytes of the current or last in_read that arrived, in complete pieces */
	size_t read_bytes;
	bool cut; /* the peer ended the stream inside a frame */
};

/* -ENOMEM. */
int in_init(struct rpc_in *in, struct rt_sock *sock, uint64_t stall_ns);
void in_fini(struct rpc_in *in);

/*
 * The following functions wait and set the fiber's deadline to RT_NEVER. -EPIPE: the peer ended the
 * stream between two frames; -ECONNRESET: it ended inside a frame or broke; -ETIMEDOUT: silence
 * inside a frame.
 */

/* Waits up to idle_ns (0: no limit) for a header; *at is valid until the next call. -ETIME: no
 * header began in time. */
int in_header(struct rpc_in *in, uint64_t idle_ns, const uint8_t **at);
/* Takes the next len <= IN_BYTES bytes, contiguous and valid until the next call. */
int in_view(struct rpc_in *in, size_t len, const uint8_t **at);
/* Waits until the next len <= IN_BYTES bytes have arrived, without taking them. */
int in_await(struct rpc_in *in, size_t len);
/* Reads the next len bytes to dst and returns their CRC. Each piece must arrive within stall_ns,
 * and all within stall_ns + len / IN_RATE_MIN, so that a slow sender gains no time from many
 * pieces. */
int in_read(struct rpc_in *in, uint8_t *dst, size_t len, uint32_t *crc);
/* Drops the next len bytes, with the same time limits. */
int in_skip(struct rpc_in *in, size_t len);

#define OUT_BATCH_BYTES ((size_t)(16 * KIB))
#define OUT_SEGMENTS 64
#define OUT_BULK_BYTES \
	((size_t)(4 * MIB)) /* limit for the payloads of a batch; a single one may be larger */

struct out_batch {
	uint8_t *bytes;
	size_t used;
	size_t bulk_bytes;
	int segment_count;
	int held_count;
	struct iovec segments[OUT_SEGMENTS];
	struct buf *held[OUT_SEGMENTS]; /* buffers that segments point into, besides bytes */
};

struct rpc_out {
	struct rt_sock *sock;
	struct rt_pool *pool; /* for a body larger than a batch */
	struct rt_fiber *writer;
	struct out_batch batch[2];
	struct out_batch *fill;
	struct rt_cond room;
	struct rt_cond work;
	uint64_t stall_ns;    /* limit for sending one batch; 0: none */
	uint64_t since_ns;    /* begin of the current send */
	size_t sending_bytes; /* payload of the batch being sent; 0: none */
	struct list watched;  /* link in struct incoming */
	bool idle;            /* the writer waits for work */
	bool closing;
	int error;         /* why the stream is broken; 0: it is not */
	size_t peak_bytes; /* largest number of bytes queued at once, with payloads */
	uint64_t sends;
};

/* Starts the writer. The socket must live until out_fini has returned. -ENOMEM, -EAGAIN. */
int out_init(struct rpc_out *o, struct rt_sock *sock, struct rt_pool *pool, uint64_t stall_ns);
/* Sends the queued frames, unless the stream is broken, then ends the writer. No fiber may be in
 * out_frame or call it later. */
void out_fini(struct rpc_out *o);
/* Breaks the stream: shuts the socket down and fails all fibers that wait for room. */
void out_break(struct rpc_out *o, int error);

struct out_frame {
	/* kind, flags, type, status and id; out_frame sets the other fields */
	struct frame_header head;
	uint64_t deadline_ns;          /* sent as timeout_us; 0 or RT_NEVER: none */
	const struct context *context; /* NULL: none */
	const ProtobufCMessage *body;  /* NULL: empty */
	struct slice payload;          /* out_frame takes its own reference */
	bool no_wait;                  /* return -EAGAIN instead of waiting */
};

/* Queues a frame; waits for room. After an error no part of it will be sent. -ECONNRESET: the
 * stream is broken; -EMSGSIZE. */
int out_frame(struct rpc_out *o, const struct out_frame *f);

/* Counts a refused header. */
void rpc_count_fault(struct rpc_counters *c, enum frame_fault fault);

#endif
