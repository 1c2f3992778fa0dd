// SPDX-License-Identifier: Apache-2.0
/* Private to the client: shared by client.c (calls) and client_conn.c (connections). */
#ifndef RPC_CLIENT_CONN_H
#define RPC_CLIENT_CONN_H

#include <errno.h>

#include "base/list.h"
#include "base/map.h"
#include "rpc/client.h"
#include "rpc/counters.h"
#include "rpc/stream.h"
#include "rt/net.h"
#include "secure/secure.h"

/* A call on a connection; lives on the stack of its fiber. */
struct client_call {
	const struct rpc_call *args;
	struct rpc_reply *reply;
	uint64_t id;
	struct list link; /* link in conn->pending */
	struct rt_cond wake;
	bool done; /* the call has ended and rc is set */
	/* the connection was lost or the response was damaged, so a retry may succeed */
	bool lost;
	bool executed; /* the service may have executed the request */
	int rc;
};

/* A connection. The channel's fiber and every call that uses the connection hold a reference,
 * because a call may use it after it was lost. */
struct client_conn {
	struct rpc_channel *channel;
	unsigned refs;
	struct secure_link wire;
	struct rpc_in in;
	struct rpc_out out;
	struct map calls;    /* id -> struct client_call */
	struct list pending; /* the calls of the map `calls`, oldest first */
	struct rt_cond slot; /* signalled when a call leaves `calls` */
	/* call whose response is being read; NULL: none, or it has ended */
	struct client_call *receiving;
	/* call whose memory the reader receives the payload into; NULL: none */
	const struct client_call *placing;
	struct rt_cond placed; /* signalled when `placing` has become NULL */
	/* time since which the client waits for a response, restarted by each response; 0: no call
	 * waits for a response */
	uint64_t asked_ns;
	bool lost;
	bool heard; /* at least one complete response was received */
};

struct rpc_channel {
	char addr[RT_ADDR_MAX];
	/* options of the channel, with defaults in place of zeros */
	struct rpc_channel_options opts;
	struct rt_fiber *fiber;
	struct client_conn *conn; /* NULL: not connected */
	/* wakes the channel's fiber when a caller waits for a connection */
	struct rt_cond work;
	/* wakes callers when the channel has connected or an attempt failed */
	struct rt_cond changed;
	unsigned wanted;   /* callers that wait for a connection */
	unsigned callers;  /* calls in progress */
	unsigned failures; /* consecutive failed attempts to connect */
	uint64_t failures_total;
	uint64_t not_before_ns; /* earliest time of the next attempt to connect */
	int last_error;         /* error of the last attempt to connect; 0 after success */
	uint64_t next_id;
	size_t out_peak;
	struct rpc_counters counters;
};

/* Runs as the channel's fiber: connects, reads responses and completes calls until the channel is
 * closed. */
void client_channel_main(void *channel);

/* Returns the back-off after `failures` consecutive failures. It doubles up to backoff_max_ns
 * and has a random part, so that clients do not retry together. */
uint64_t client_backoff_ns(const struct rpc_channel *ch, unsigned failures);

void client_conn_unref(struct client_conn *c);

/* Returns whether connecting failed because one end does not accept the other, so that another try cannot succeed. */
static inline bool client_refused(const struct rpc_channel *ch, int rc)
{
	return ch->opts.self != NULL && (rc == -EACCES || rc == -EPROTO || rc == -EPROTONOSUPPORT);
}

#endif
