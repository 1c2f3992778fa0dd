// SPDX-License-Identifier: Apache-2.0
/*
 * The client side: a channel is an address and at most one connection to it, made when the first
 * call needs it and again after it was lost. Many fibers call at once; answers come in any order.
 *
 *     AUTO_REPLY struct rpc_reply reply;
 *     int rc = rpc_call(channel, &(struct rpc_call){.type = &node_type_stat, .request = &q.base,
 *                                                   .timeout_ns = NS_PER_S}, &reply);
 *     if (rc == 0)
 *             printf("%lu\n", ((const Terrane__Node__StatResponse *)reply.message)->chunks[0]->len);
 *
 * A call carries the context of the fiber that makes it (rt_context).
 *
 * What a call returns, beside what the service answers:
 *   never sent                     -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT or what rt_connect says
 *   sent, the connection was lost  -ECONNRESET
 *   sent, no answer in time        -ETIME
 *   the fiber was cancelled        -ECANCELED, which no answer is
 *   an answer that is not whole    -EBADMSG, -EMSGSIZE
 * After any error reply.maybe_executed tells whether the service may have executed the request.
 *
 * With retry a call whose connection was lost or whose bytes were damaged is sent again, with the same
 * bytes, after a pause that grows (backoff_min_ns to backoff_max_ns), until its deadline, at most
 * RPC_TRIES_MAX times; waiting for a connection does not count. When the time runs out after a try
 * failed, the call returns how that try failed, with its words, rather than -ETIME. Only for requests
 * that the service executes once however often they come.
 *
 * A channel belongs to the loop it was opened on.
 */
#ifndef RPC_CLIENT_H
#define RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/slice.h"

struct rpc_counters;
struct rpc_type;
struct rt_pool;

#define RPC_TRIES_MAX 64

struct rpc_channel;

struct rpc_channel_options {
	struct rt_pool *pool;        /* for payloads of responses */
	uint64_t connect_timeout_ns; /* 0: 5 s */
	uint64_t stall_ns;       /* silence inside a frame, or a peer that does not read; 0: 30 s */
	uint64_t silence_ns;     /* a call ran out of time and nothing at all came for so long: the
			      * connection is given up; 0: 2 s */
	uint64_t backoff_min_ns; /* before the second attempt to connect or to call; 0: 20 ms */
	uint64_t backoff_max_ns; /* 0: 2 s */
	size_t calls_max;        /* under way at once, more wait; 0: 4096 */
};

/* The options are copied; makes no connection yet. -EINVAL, -ENOMEM, -EAGAIN. */
int rpc_channel_open(struct rpc_channel **out, const char *addr,
		     const struct rpc_channel_options *o);
/* No fiber may be in a call. */
void rpc_channel_close(struct rpc_channel *ch);

const struct rpc_counters *rpc_channel_counters(const struct rpc_channel *ch);
/* The most that was queued for sending at once, with payloads. */
size_t rpc_channel_out_peak(const struct rpc_channel *ch);

struct rpc_call {
	const struct rpc_type *type;
	const ProtobufCMessage *request;
	struct slice payload;  /* a failed call may still be sending it: do not change it then */
	struct buf *reply_buf; /* receive the response's payload here; NULL: in one from the pool.
				   * After a failed call it may still be written to: release it */
	uint64_t timeout_ns;   /* 0: only the fiber's deadline */
	bool retry;
};

struct rpc_reply {
	const void *message;  /* the type's response; NULL after an error */
	struct slice payload; /* the reply's reference; buf is NULL when there is none */
	const char *error;    /* the service's words after an error; never NULL */
	uint32_t retry_ms;    /* after an error: what the service advises to wait; 0: nothing */
	bool maybe_executed;
	struct arena arena;
};

/* As if a call had failed before it was sent. */
void rpc_reply_init(struct rpc_reply *reply);

/* Waits. Always fills reply, which must be given to rpc_reply_fini. */
int rpc_call(struct rpc_channel *ch, const struct rpc_call *call, struct rpc_reply *reply);
void rpc_reply_fini(struct rpc_reply *reply);

/* A local declared AUTO_REPLY is released when its scope ends; it must have been through rpc_call. */
#define AUTO_REPLY __attribute__((cleanup(rpc_reply_fini)))

#endif
