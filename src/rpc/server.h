// SPDX-License-Identifier: Apache-2.0
/*
 * The service side: a listener, and a fiber for each request, which runs the handler of its method.
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
 * A handler runs with the deadline of the client and carries the context of the request
 * (rt_context). It is cancelled when the client cancels the request or the connection is lost.
 * Handlers may end in any order. All resources of a connection are bounded; further requests wait
 * at the client.
 *
 * A server belongs to the loop it was opened on. A role with several loops opens one on each: the first listens and
 * spreads the connections over all (rpc_server_spread), the others have no address. The service may name the port where
 * a request is handled (rpc_server_options.home): then the handler runs on the loop of that port, with the body, payload
 * and arena of the request, while the fiber of the request waits on the loop of the connection.
 */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/context.h"
#include "base/list.h"
#include "base/slice.h"
#include "rt/call.h"

struct buf;
struct rpc_counters;
struct rpc_type;
struct rt_budget;
struct rt_fiber;
struct rt_pool;
struct rpc_server;
struct secure_guard;
struct server_conn;
struct session;

struct rpc_request {
	const struct rpc_type *type;
	void *service; /* object of the service, as given to rpc_server_open */
	/* payload of the request, valid until the handler returns; a handler that needs it longer
	 * calls buf_ref */
	struct slice payload;
	/* The fields below are private to the server, but for retry_ms; handlers use the functions
	 * below. */
	ProtobufCMessage *body;
	ProtobufCMessage *reply;
	struct slice reply_payload;
	struct arena arena;
	uint32_t *pieces; /* CRCs of the pieces of the payload, owned; NULL: rpc_payload_pieces */
	char *error;
	uint32_t retry_ms; /* advised pause before a retry, sent with an error; 0: none */
	const struct rpc_method *method;
	struct server_conn *conn;
	const struct context *context; /* owned reference; the handler's fiber carries it */
	struct rt_fiber *fiber;        /* fiber of the handler; NULL until it runs */
	/* link in conn->requests or in the server's free list */
	struct list link;
	uint64_t id;
	uint64_t deadline_ns;
	size_t bulk_bytes; /* bytes of this request charged to the connection's share */
	bool cancelled;
};

static inline const void *rpc_body(const struct rpc_request *r)
{
	return r->body;
}

/* Returns the response message, with all fields at their defaults. The handler fills it with
 * strings from rpc_alloc or constants. */
static inline void *rpc_reply_body(struct rpc_request *r)
{
	return r->reply;
}

/* Returns the CRCs of the pieces of the payload (CRC_PIECE_BYTES), which were taken when it was received and agree with
 * its CRC; they live as long as the request. NULL: there was no memory for them. */
const uint32_t *rpc_payload_pieces(const struct rpc_request *r);

/* Allocates memory that lives as long as the request. NULL: the limit of the request is reached, or
 * the process is out of memory. */
void *rpc_alloc(struct rpc_request *r, size_t len);

/* Allocates a buffer for the payload of the response; the caller owns its reference. Waits for
 * the connection's share and the pool. -EMSGSIZE, -ENOMEM. */
int rpc_reply_buf(struct rpc_request *r, size_t len, struct buf **out);

/* Sets the payload of the response; takes over the caller's reference to its buffer. */
void rpc_reply_payload_take(struct rpc_request *r, struct slice payload);

/* Sets the error text for the client and returns err. */
int rpc_fail(struct rpc_request *r, int err, const char *fmt, ...) PRINTF(3, 4);

/* Returns the authenticated session of the request's connection, valid until the handler returns; NULL: the server has no
 * guard. */
const struct session *rpc_session(const struct rpc_request *r);
/* Returns the address of the client. */
const char *rpc_peer(const struct rpc_request *r);

struct rpc_method {
	const struct rpc_type *type;
	/* Executes a request, in a fiber of its own. Returns 0, or -errno for the client. */
	int (*handle)(struct rpc_request *r);
};

/* A server on another loop that serves connections which the first server accepts. Its memory outlives both. */
struct rpc_branch {
	struct rt_port port;       /* on the loop of the server; closed before the server is */
	struct rpc_server *server; /* only for that loop; NULL: not open */
	atomic_size_t connections;
};

/* Returns how many bytes of a pool of limit_bytes the payloads that are being received may hold. */
static inline uint64_t rpc_receive_limit(uint64_t limit_bytes)
{
	return limit_bytes / 2;
}

struct rpc_server_options {
	/* table of the methods; must outlive the server, with all that it points to */
	const struct rpc_method *methods;
	size_t method_count;
	void *service;
	/* Returns the port where the request is handled; NULL: here. The port must outlive the server. The slot may
	 * be NULL. */
	struct rt_port *(*home)(struct rpc_request *r);
	/* what the server demands of its clients; must outlive it. NULL: it authenticates nobody. */
	const struct secure_guard *guard;
	size_t handshakes_max; /* limit for connections in their handshake; 0: 128, but an eighth of connections_max */
	uint64_t handshake_ns; /* limit for the duration of a handshake; 0: 10 s */
	struct rt_pool *pool;  /* memory for payloads */
	/* Memory of payloads that are being received, in buffers of the pool; servers that share the pool share it.
	 * NULL: this server is the only one. */
	struct rt_budget *receiving;
	struct rpc_branch *branch; /* the server is that of a branch; NULL: it is not */
	size_t connections_max; /* limit for connections at a time, with those of branches; 0: 1024 */
	/* limit for the requests of one connection in flight; 0: 256 */
	size_t in_flight_max;
	/* limit for the payloads and large bodies of one connection; 0: a quarter of the pool */
	size_t share_bytes;
	/* limit for silence inside a frame, and for a peer that does not read; 0: 30 s */
	uint64_t stall_ns;
	uint64_t idle_ns; /* limit for silence between frames; 0: none */
};

/* Opens a server; may wait. addr NULL: a server of a branch, which does not listen. Errors of rt_listen; -EINVAL: the
 * methods exceed the limits, or two have the same type. */
int rpc_server_open(struct rpc_server **out, const char *addr, const struct rpc_server_options *o);

/* From now on hands each new connection to the server, of s and the branches, that has the fewest. The array is borrowed
 * until rpc_server_stop. */
void rpc_server_spread(struct rpc_server *s, struct rpc_branch *branches, size_t count);

/* Stops accepting; may wait. rpc_server_close does so, too. */
void rpc_server_stop(struct rpc_server *s);

/*
 * Stops accepting, waits up to grace_ns for running requests, then cancels them. Sends a goodbye to
 * every client and frees the server.
 */
void rpc_server_close(struct rpc_server *s, uint64_t grace_ns);

/* Returns the address that clients connect to. */
const char *rpc_server_addr(const struct rpc_server *s);
const struct rpc_counters *rpc_server_counters(const struct rpc_server *s);

struct rpc_server_stats {
	size_t connections;
	size_t in_flight;
	/* largest number of requests in flight at once, over all connections */
	size_t in_flight_peak;
	/* largest number of bytes queued for sending on one connection */
	size_t out_queue_peak;
	/* largest number of bytes charged to the share of one connection */
	size_t share_peak_bytes;
	/* largest memory of payloads being received at once, over all connections */
	size_t incoming_peak_bytes;
};
void rpc_server_stats(struct rpc_server *s, struct rpc_server_stats *out);

#endif
