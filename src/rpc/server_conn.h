// SPDX-License-Identifier: Apache-2.0
/* Inside the server: what server.c and server_conn.c share. */
#ifndef RPC_SERVER_CONN_H
#define RPC_SERVER_CONN_H

#include "base/list.h"
#include "base/map.h"
#include "rpc/counters.h"
#include "rpc/incoming.h"
#include "rpc/server.h"
#include "rpc/stream.h"

struct rpc_server {
	struct rpc_server_options opts; /* without zeroes */
	struct frame_limits limits;     /* the largest of any method */
	struct map types;               /* type -> struct rpc_method */
	struct rt_listener *listener;
	struct rt_fiber *acceptor;
	struct rt_group conn_fibers;
	struct list conns;
	size_t conn_count;
	struct rt_cond conn_gone;
	struct list free_requests; /* kept for reuse */
	size_t free_count;
	size_t in_flight;
	bool stopping;
	struct incoming incoming;
	struct rpc_counters counters;
	struct rpc_server_stats stats;
};

/*
 * A connection is a fiber that reads, a writer fiber (inside out), and a fiber for each request, all
 * of which have ended when the reading fiber returns and frees it.
 */
struct server_conn {
	struct rpc_server *server;
	struct rt_sock *sock;
	struct list link;
	struct rt_fiber *reader; /* NULL until it runs */
	struct rpc_in in;
	struct rpc_out out;
	struct rt_group handlers;
	struct list requests; /* in flight */
	size_t in_flight;
	size_t bulk_bytes;   /* payload that requests in flight hold */
	struct rt_cond room; /* in_flight or bulk_bytes went down */
};

/* Owns the socket. -ENOMEM, -EAGAIN. */
int server_conn_start(struct rpc_server *s, struct rt_sock *sock);
/* Read no more; the connection ends when its requests have. */
void server_conn_stop(struct server_conn *c);
/* Cancel the requests and break the stream. */
void server_conn_abort(struct server_conn *c);

void server_request_free(struct rpc_server *s, struct rpc_request *r);

#endif
