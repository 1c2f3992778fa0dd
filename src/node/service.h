// SPDX-License-Identifier: Apache-2.0
/*
 * A storage node behind a server.
 *
 * A request waits for its turn at the disk (disk_sched.h) in the traffic group and class that its context
 * names; Silver when it names none. Bytes that come in were compared with their CRC by rpc and are again by
 * the store, before anything is acknowledged; bytes that go out are read straight into the buffer that is
 * sent, with the CRC that follows from those they came in with.
 *
 * Memory. Payloads live in one pool of pool_bytes. Reads of one disk hold at most a quarter of it, and so do
 * writes, when there are several disks, so that one that hangs does not take it from the others: reads wait
 * for room, writes are answered -EAGAIN. Slow clients are rpc's business: what they hold is bounded, and taken from them when
 * others wait.
 */
#ifndef NODE_SERVICE_H
#define NODE_SERVICE_H

#include "base/strbuf.h"
#include "node/disks.h"

struct node;

struct node_serve_options {
	const char *listen;
	struct node_disks_options disks;
	uint64_t pool_bytes;    /* for payloads on their way; at least NODE_POOL_MIN; 0: 512 MiB */
	size_t connections_max; /* 0: the server's default */
	uint64_t stall_ns;      /* 0: the server's default */
	uint64_t grace_ns;      /* for requests under way at the end */
	/* Called once when requests are taken: an error ends it. May be NULL. */
	int (*ready)(void *ctx, struct node *n, const char *addr);
	/* Called before the end when ready was and returned 0. May be NULL, may wait. */
	void (*ended)(void *ctx);
	void *ctx;
};

/* A payload of the largest size comes in through half of the pool. */
#define NODE_POOL_MIN (2 * (uint64_t)NODE_BYTES_MAX)

/* Serve until the process is asked to stop: 0. Else why it could not begin, or -ECANCELED. */
int node_serve(const struct node_serve_options *o);

/* Everything as Prometheus text. Waits. -EMSGSIZE, -ENOMEM. */
int node_metrics(struct node *n, struct strbuf *out);

/* How many disks answer, of how many. Waits. */
void node_health(struct node *n, size_t *serving, size_t *all);

#endif
