// SPDX-License-Identifier: Apache-2.0
/* Private to the server: shared by server.c and server_conn.c. */
#ifndef RPC_SERVER_CONN_H
#define RPC_SERVER_CONN_H

#include "base/list.h"
#include "base/map.h"
#include "rpc/counters.h"
#include "rpc/incoming.h"
#include "rpc/server.h"
#include "rpc/stream.h"
#include "secure/secure.h"

struct rpc_server {
	/* options of the server, with defaults in place of zeros */
	struct rpc_server_options opts;
	/* for each part of a frame, the maximum over all methods */
	struct frame_limits limits;
	struct map types;             /* type number -> struct rpc_method */
	struct rt_listener *listener; /* NULL: a server of a branch */
	struct rt_fiber *acceptor;    /* NULL: it has stopped */
	struct rpc_branch *branches;
	size_t branch_count;
	struct rt_group conn_fibers;
	struct list conns;
	size_t conn_count;
	size_t handshakes; /* connections in their handshake, without those cut off */
	struct rt_cond conn_gone;
	struct list free_requests; /* ended requests, kept for reuse */
	size_t free_count;
	size_t in_flight;
	bool stopping;
	struct incoming incoming;
	struct rpc_counters counters;
	struct rpc_server_stats stats;
};

/* A connection has a reader fiber, a writer fiber (in `out`) and a fiber for each request. The
 * reader frees the connection after the other fibers have ended. */
struct server_conn {
	struct rpc_server *server;
	struct secure_link wire;
	struct session session; /* valid once the client is authenticated */
	bool open;              /* the handshake has succeeded, or the server has no guard */
	bool handshaking;       /* counted in server->handshakes */
	struct list link;
	struct rt_fiber *reader; /* reader fiber; NULL until it runs */
	struct rpc_in in;
	struct rpc_out out;
	struct rt_group handlers;
	struct list requests; /* requests in flight (struct rpc_request) */
	size_t in_flight;
	struct rt_cond room; /* signalled when in_flight decreases */
	/* memory charged to the connection's share; handlers on other loops charge it, too */
	struct rt_budget share;
};

/* Starts serving a connection. Takes over the socket, also after an error. -ENOMEM, -EAGAIN. */
int server_conn_start(struct rpc_server *s, struct rt_sock *sock);
/* Stops reading; the connection ends when its requests have ended. */
void server_conn_stop(struct server_conn *c);
/* Cancels the requests of the connection and breaks its stream. */
void server_conn_abort(struct server_conn *c);

void server_request_free(struct rpc_server *s, struct rpc_request *r);

#endif
