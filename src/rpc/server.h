// SPDX-License-Identifier: Apache-2.0
/*
 * The service side: a listener, and for each request a fiber that runs the method's handler.
 *
 *     static int handle_add(struct rpc_request *r)
 *     {
 *             const AddRequest *q = rpc_body(r);
 *             AddResponse *reply = rpc_reply_body(r);
 *             if (q->name[0] == 0)
 *                     return rpc_fail(r, -EINVAL, "a counter needs a name");
 *             return counter_add(r->service, q->name, q->delta, &reply->value);
 *     }
 *
 * A handler runs with the client's deadline and carries the context that came with the request (rt_context); it is cancelled when the client cancels or is gone. It
 * may answer in its own time; answers overtake each other. Everything it may use is bounded: what
 * does not fit waits in the client.
 *
 * A server belongs to the loop it was opened on.
 */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/context.h"
#include "base/list.h"
#include "base/slice.h"

struct buf;
struct rpc_counters;
struct rpc_type;
struct rt_fiber;
struct rt_pool;
struct rpc_server;
struct server_conn;

struct rpc_request {
	const struct rpc_type *type;
	void *service;        /* as given to rpc_server_open */
	struct slice payload; /* borrowed: the handler keeps it with buf_ref */
	/* The rest is the server's; use the functions below. */
	ProtobufCMessage *body;
	ProtobufCMessage *reply;
	struct slice reply_payload;
	struct arena arena;
	char *error;
	uint32_t retry_ms; /* told with an error: try again after so long. 0: nothing is said */
	const struct rpc_method *method;
	struct server_conn *conn;
	const struct context *context; /* a reference; the handler's fiber carries it */
	struct rt_fiber *fiber;        /* NULL until it runs */
	struct list link;              /* in conn->requests, or in the server's free list */
	uint64_t id;
	uint64_t deadline_ns;
	size_t bulk_bytes; /* counted against the connection's share */
	bool cancelled;
};

static inline const void *rpc_body(const struct rpc_request *r)
{
	return r->body;
}

/* The response, at its defaults: fill it in, with strings from rpc_alloc or that outlive the call. */
static inline void *rpc_reply_body(struct rpc_request *r)
{
	return r->reply;
}

/* Memory that lives as long as the request; NULL beyond its limit. */
void *rpc_alloc(struct rpc_request *r, size_t len);

/* A buffer for the reply's payload; its reference is the caller's. Waits for the connection's share
 * and the pool. -EMSGSIZE, -ENOMEM. */
int rpc_reply_buf(struct rpc_request *r, size_t len, struct buf **out);

/* Answer with this payload, too; takes over the reference. */
void rpc_reply_payload_take(struct rpc_request *r, struct slice payload);

/* Remember a message for the client and return err. */
int rpc_fail(struct rpc_request *r, int err, const char *fmt, ...) PRINTF(3, 4);

struct rpc_method {
	const struct rpc_type *type;
	/* Runs in its own fiber. 0, or -errno that the client gets. */
	int (*handle)(struct rpc_request *r);
};

struct rpc_server_options {
	const struct rpc_method *methods; /* must outlive the server, like what it points to */
	size_t method_count;
	void *service;
	struct rt_pool *pool;   /* for payloads */
	size_t connections_max; /* 0: 1024 */
	size_t in_flight_max;   /* requests of one connection; 0: 256 */
	size_t share_bytes; /* payload and large bodies that requests of one connection hold; 0: a
			     * quarter of the pool */
	uint64_t stall_ns;  /* silence inside a frame, or a peer that does not read; 0: 30 s */
	uint64_t idle_ns;   /* silence between frames; 0: for ever */
};

/* Waits. The error of rt_listen; -EINVAL: a table that breaks the limits or names a type twice. */
int rpc_server_open(struct rpc_server **out, const char *addr, const struct rpc_server_options *o);

/*
 * Accept nothing more, give requests that run grace_ns to end by themselves, then cancel them; say
 * goodbye to every client; leave nothing behind.
 */
void rpc_server_close(struct rpc_server *s, uint64_t grace_ns);

/* The address clients connect to. */
const char *rpc_server_addr(const struct rpc_server *s);
const struct rpc_counters *rpc_server_counters(const struct rpc_server *s);

struct rpc_server_stats {
	size_t connections;
	size_t in_flight;
	size_t in_flight_peak;      /* over all connections */
	size_t out_queue_peak;      /* bytes, of one connection */
	size_t share_peak_bytes;    /* of one connection */
	size_t incoming_peak_bytes; /* held for what was on its way in, over all connections */
};
void rpc_server_stats(const struct rpc_server *s, struct rpc_server_stats *out);

#endif
