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
struct rpc_places;
struct rt_fiber;
struct rt_pool;
struct secure_link;

#define IN_BYTES ((size_t)(16 * KIB))
/* Bulk data is received in pieces of this size, so that the CRC of a piece is computed while the
 * piece is in the CPU cache. */
#define IN_PIECE_BYTES ((size_t)(256 * KIB))
/* Slowest allowed receiving of bulk data, in bytes per second; the time that this rate allows adds
 * to stall_ns. */
#define IN_RATE_MIN ((uint64_t)(1 * MIB))

struct rpc_in {
	struct secure_link *link;
	uint8_t *bytes; /* read-ahead buffer; [head, tail) is filled */
	size_t head;
	size_t tail;
	uint64_t stall_ns; /* limit for silence inside a frame; 0: none */
	uint64_t heard_ns; /* time of the last received bytes */
	/* bytes received by the current or last in_read, in complete pieces, or in_places */
	size_t read_bytes;
	/* the memory of in_places must not be used any more; set by in_leave */
	bool left;
	bool cut; /* the peer ended the stream inside a frame */
};

/* Initializes the receiving side of a connection. -ENOMEM. */
int in_init(struct rpc_in *in, struct secure_link *link, uint64_t stall_ns);
void in_fini(struct rpc_in *in);

/*
 * The following functions wait and set the fiber's deadline to RT_NEVER. -EPIPE: the peer ended the
 * stream between two frames; -ECONNRESET: it ended inside a frame or broke; -ETIMEDOUT: silence
 * inside a frame.
 */

/* Waits up to idle_ns (0: no limit) for a header; *at is valid until the next call. -ETIME: no
 * header began in time. */
int in_header(struct rpc_in *in, uint64_t idle_ns, const uint8_t **at);
/* Takes the next len <= IN_BYTES bytes. *at points to them; they are contiguous and valid until the
 * next call. */
int in_view(struct rpc_in *in, size_t len, const uint8_t **at);
/* Waits until the next len <= IN_BYTES bytes have arrived, without taking them. */
int in_await(struct rpc_in *in, size_t len);
/*
 * Reads the next len bytes to dst and returns their CRC. Each piece must arrive within stall_ns, and all within
 * stall_ns + len / IN_RATE_MIN, so that a slow sender gains no time from many pieces. pieces: also receives the CRCs of
 * the pieces (crc_pieces_add), zeroed by the caller; NULL: not wanted.
 */
int in_read(struct rpc_in *in, uint8_t *dst, size_t len, uint32_t *pieces, uint32_t *crc);
/*
 * Reads the next bytes to the places, with their CRCs, and returns the CRC of all in *crc. Time limits are those of
 * in_read. -EINTR: in_leave was called; the stream continues after read_bytes of the bytes.
 */
int in_places(struct rpc_in *in, const struct rpc_places *places, uint32_t *crc);
/* Makes in_places, which runs in the fiber `reader`, return without using its memory again. */
void in_leave(struct rpc_in *in, struct rt_fiber *reader);
/* Receives and drops the next len bytes, with the time limits of in_read. */
int in_skip(struct rpc_in *in, size_t len);

#define OUT_BATCH_BYTES ((size_t)(16 * KIB))
#define OUT_SEGMENTS 64
/* Limit for the payloads of a batch, in bytes; a single payload may be larger. */
#define OUT_BULK_BYTES ((size_t)(4 * MIB))

struct out_batch {
	uint8_t *bytes;
	size_t used;
	size_t bulk_bytes;
	int segment_count;
	int held_count;
	struct iovec segments[OUT_SEGMENTS];
	/* references to the buffers that segments point into, besides `bytes` */
	struct buf *held[OUT_SEGMENTS];
};

struct rpc_out {
	struct secure_link *link;
	struct rt_pool *pool; /* memory for a body larger than a batch */
	struct rt_fiber *writer;
	struct out_batch batch[2];
	struct out_batch *fill;
	struct rt_cond room;
	struct rt_cond work;
	uint64_t stall_ns; /* limit for sending one batch; 0: none */
	uint64_t since_ns; /* begin time of the current send */
	/* payload bytes of the batch being sent; 0: none is being sent */
	size_t sending_bytes;
	struct list watched; /* link in struct incoming */
	bool idle;           /* the writer waits for work */
	bool closing;
	int error;         /* error that broke the stream; 0: the stream is not broken */
	size_t peak_bytes; /* largest number of bytes queued at once, with payloads */
	uint64_t sends;
};

/* Initializes the sending side of a connection and starts the writer fiber. The link must live until
 * out_fini has returned. -ENOMEM, -EAGAIN. */
int out_init(struct rpc_out *o, struct secure_link *link, struct rt_pool *pool, uint64_t stall_ns);
/* Sends the queued frames, unless the stream is broken, then ends the writer. No fiber may be in
 * out_frame or call it later. */
void out_fini(struct rpc_out *o);
/* Breaks the stream: shuts the socket down and fails all fibers that wait for room. */
void out_break(struct rpc_out *o, int error);

struct out_frame {
	/* kind, flags, type, status and id; out_frame sets the other fields */
	struct frame_header head;
	/* deadline of the request, sent as timeout_us; 0 or RT_NEVER: none */
	uint64_t deadline_ns;
	const struct context *context; /* NULL: none */
	const ProtobufCMessage *body;  /* NULL: empty */
	struct slice payload;          /* out_frame takes its own reference */
	bool no_wait;                  /* return -EAGAIN instead of waiting for room */
};

/* Queues a frame for sending; waits for room in the batch. After an error no part of the frame will
 * be sent. -ECONNRESET: the stream is broken; -EMSGSIZE: the frame is too large. */
int out_frame(struct rpc_out *o, const struct out_frame *f);

/* Adds a refused header to the counter of its fault. */
void rpc_count_fault(struct rpc_counters *c, enum frame_fault fault);

#endif
