// SPDX-License-Identifier: Apache-2.0
/* Inside the client: what client.c (calls) and client_conn.c (connections) share. */
#ifndef RPC_CLIENT_CONN_H
#define RPC_CLIENT_CONN_H

#include "base/list.h"
#include "base/map.h"
#include "rpc/client.h"
#include "rpc/counters.h"
#include "rpc/stream.h"
#include "rt/net.h"

/* A call that was given to a connection; lives on the stack of its fiber. */
struct client_call {
	const struct rpc_call *args;
	struct rpc_reply *reply;
	uint64_t id;
	struct list link; /* in conn->pending */
	struct rt_cond wake;
	bool done;
	bool lost;     /* the connection or the answer was: a retry may help */
	bool executed; /* for all we know */
	int rc;
};

/*
 * Counted by the fiber that reads it and by every call that uses it, because a call may look at it
 * once more after it was lost.
 */
struct client_conn {
	struct rpc_channel *channel;
	unsigned refs;
	struct rt_sock *sock;
	struct rpc_in in;
	struct rpc_out out;
	struct map calls;              /* id -> struct client_call */
	struct list pending;           /* the same, oldest first */
	struct rt_cond slot;           /* calls has room again */
	struct client_call *receiving; /* whose payload is being read; NULL when it gave up */
	uint64_t asked_ns; /* since when an answer is awaited; starts anew with each; 0: none is */
	bool lost;
	bool heard; /* at least one whole response came */
};

struct rpc_channel {
	char addr[RT_ADDR_MAX];
	struct rpc_channel_options opts; /* without zeroes */
	struct rt_fiber *fiber;
	struct client_conn *conn; /* NULL: not connected */
	struct rt_cond work;      /* for the channel's fiber: someone waits for a connection */
	struct rt_cond changed;   /* for callers: connected, or failed to */
	unsigned wanted;          /* callers that wait for a connection */
	unsigned callers;
	unsigned failures; /* in a row */
	uint64_t failures_total;
	uint64_t not_before_ns; /* the next attempt */
	int last_error;         /* of connecting; 0 after success */
	uint64_t next_id;
	size_t out_peak;
	struct rpc_counters counters;
};

/* The channel's fiber. */
void client_channel_main(void *channel);

/* How long to pause after so many failures: longer after each, up to a bound, and not all clients for
 * the same time. */
uint64_t client_backoff_ns(const struct rpc_channel *ch, unsigned failures);

void client_conn_unref(struct client_conn *c);

#endif
