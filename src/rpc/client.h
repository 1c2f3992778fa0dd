// SPDX-License-Identifier: Apache-2.0
/*
 * The client side. A channel is an address and at most one connection to it. The first call
 * connects, and a call after a lost connection connects again. Many fibers may call at once;
 * responses come in any order.
 *
 *     AUTO_REPLY struct rpc_reply reply;
 *     int rc = rpc_call(channel, &(struct rpc_call){.type = &node_type_stat, .request = &q.base,
 *                                                   .timeout_ns = NS_PER_S}, &reply);
 *     if (rc == 0)
 *             printf("%lu\n", ((const Terrane__Node__StatResponse
 *             *)reply.message)->chunks[0]->len);
 *
 * A call carries the context of the fiber that makes it (rt_context).
 *
 * Errors of a call, besides those that the service returns:
 *   request not sent               -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT or another of
 *   rt_connect or secure_connect; -EACCES and -EPROTO are not retried: the credentials are not valid, or the server is not
 *   the one that the channel names
 *   sent, the connection was lost  -ECONNRESET
 *   sent, no response in time      -ETIME
 *   the fiber was cancelled        -ECANCELED, which no service returns
 *   a damaged or too large answer  -EBADMSG, -EMSGSIZE
 * After an error reply.maybe_executed is false if the service certainly did not execute the
 * request.
 *
 * With retry, a call whose connection was lost or whose bytes were damaged is sent again with the
 * same bytes, after a back-off that grows from backoff_min_ns to backoff_max_ns, until its deadline
 * and at most RPC_TRIES_MAX times; waiting for a connection is not a try. If the deadline passes
 * after a failed try, the call returns the error and the text of that try instead of -ETIME. Only
 * for requests that may be executed several times with one effect.
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
struct secure_self;
struct rt_pool;

#define RPC_TRIES_MAX 64

struct rpc_channel;

struct rpc_channel_options {
	struct rt_pool *pool; /* memory for the payloads of responses */
	/* identity of this process; NULL: the server is one that authenticates nobody. It must outlive the channel. */
	const struct secure_self *self;
	uint64_t server; /* id of the node that the server must prove to be; 0: a metadata server */
	uint64_t connect_timeout_ns; /* limit for one attempt to connect; 0: 5 s */
	/* limit for silence inside a frame, and for a peer that does not read; 0: 30 s */
	uint64_t stall_ns;
	/* a call that meets its deadline closes the connection if no byte came for this time; 0: 2
	 * s */
	uint64_t silence_ns;
	uint64_t backoff_min_ns; /* first back-off, of connecting and of calls; 0: 20 ms */
	uint64_t backoff_max_ns; /* largest back-off, of connecting and of calls; 0: 2 s */
	/* limit for the calls in progress; further calls wait; 0: 4096 */
	size_t calls_max;
};

/* Makes a channel to an address. Copies the options and does not connect yet. -EINVAL: addr is too
 * long; -ENOMEM, -EAGAIN. */
int rpc_channel_open(struct rpc_channel **out, const char *addr,
		     const struct rpc_channel_options *o);
/* Closes the connection and frees the channel. No call may be in progress. ch may be NULL. */
void rpc_channel_close(struct rpc_channel *ch);

const struct rpc_counters *rpc_channel_counters(const struct rpc_channel *ch);
/* Returns the largest number of bytes that were queued for sending at once, with payloads. */
size_t rpc_channel_out_peak(const struct rpc_channel *ch);

/* A piece of memory for a payload. */
struct rpc_place {
	uint8_t *at;
	size_t len;
	uint32_t crc; /* CRC of the received bytes, taken in this memory; set by rpc_call */
};

struct rpc_places {
	struct rpc_place *list;
	size_t count;
};

struct rpc_call {
	const struct rpc_type *type;
	const ProtobufCMessage *request;
	/* payload of the request; the caller must not change it after an error, because the writer
	 * may still send it */
	struct slice payload;
	/*
	 * memory of the caller that receives the payload of the response, in order; NULL: a buffer from
	 * the pool. The response has a payload of that length, or none. When rpc_call returns, nothing
	 * writes to the memory any more; after an error its contents are undefined.
	 */
	const struct rpc_places *into;
	uint64_t timeout_ns; /* 0: only the fiber's deadline applies */
	bool retry;
};

struct rpc_reply {
	/* response message of the request's type; NULL after an error */
	const void *message;
	/* payload of the response, owned by the reply; buf NULL: none, or it is in call.into; then len and
	 * crc are set */
	struct slice payload;
	const char *error; /* text of the error; "" after success; never NULL */
	uint32_t retry_ms; /* after an error: pause that the service advises; 0: none */
	bool maybe_executed;
	struct arena arena;
};

/* Initializes a reply as that of a call that failed before its request was sent. */
void rpc_reply_init(struct rpc_reply *reply);

/* Sends a request and waits for its response. Always fills reply; the caller must call
 * rpc_reply_fini. */
int rpc_call(struct rpc_channel *ch, const struct rpc_call *call, struct rpc_reply *reply);
void rpc_reply_fini(struct rpc_reply *reply);

/* A local declared AUTO_REPLY is released when its scope ends; rpc_call or rpc_reply_init must
 * have filled it. */
#define AUTO_REPLY __attribute__((cleanup(rpc_reply_fini)))

#endif
