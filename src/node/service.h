// SPDX-License-Identifier: Apache-2.0
/*
 * A storage node as an RPC service.
 *
 * A request waits for its turn at the disk (sched/sched.h) in the traffic group and class of its
 * context; Silver if the context has no class. Received bytes are compared with their CRC by rpc
 * and again by the store before the node acknowledges them. Sent bytes are read directly into the
 * buffer that is sent, with a CRC that is combined from stored ones.
 *
 * Clients. With a guard every client authenticates itself. Requests about disks and about the chunks of all tenants need a
 * role (the table in service.c); requests for a chunk that the client names need a token for it (access.h).
 *
 * Several loops. Each loop of the team has a share of the disks and of the connections (service_parts.c); a request
 * runs on the loop of its disk.
 *
 * Memory. Payloads live in one pool of pool_bytes. If there are several disks, reads of one disk
 * hold at most a quarter of the pool, and so do writes, so that a disk that hangs leaves memory for
 * the others. Reads wait for room; writes are refused with -EAGAIN. rpc limits the memory that slow
 * clients hold and evicts them when others wait.
 */
#ifndef NODE_SERVICE_H
#define NODE_SERVICE_H

#include "base/strbuf.h"
#include "node/disks.h"

struct node;
struct rt_team;
struct secure_guard;

/* Where a node gets the keys with which it checks tokens (node/access.h). */
struct node_key_source {
	/* Fills in the generations of each pair, whose verifier is a disk; leaves a pair without any if there is no key for the
	 * disk yet. On the first loop; may wait. */
	int (*get)(void *ctx, struct key_pair *pairs, size_t n);
	void *ctx;
	uint64_t skew_ms; /* allowance for the clock of the issuer; at most TOKEN_SKEW_MAX_MS */
};

struct node_serve_options {
	const char *listen;
	/* The loops that the node uses; node_serve runs on the first. NULL: only this one. Outlives node_serve. */
	struct rt_team *team;
	/* loop of the first disk, so that the nodes of a process spread their disks; any number */
	unsigned first_loop;
	struct node_disks_options disks;
	/* what the node demands of its clients, on every loop; NULL: clients are not authenticated */
	const struct secure_guard *guard;
	const struct node_key_source *keys; /* not NULL if there is a guard */
	uint64_t pool_bytes;    /* memory for payloads; at least NODE_POOL_MIN; 0: 512 MiB */
	unsigned prep_cores;    /* operations on images at the same time; 0: none */
	size_t connections_max; /* 0: the server's default */
	uint64_t stall_ns;      /* 0: the server's default */
	uint64_t grace_ns;      /* time at shutdown for running requests to end */
	/* Called once when the node accepts requests; an error ends node_serve. May be NULL. */
	int (*ready)(void *ctx, struct node *n, const char *addr);
	/* Called before the shutdown if ready returned 0. May be NULL, may wait. */
	void (*ended)(void *ctx);
	void *ctx;
};

/* Smallest value of pool_bytes. Received payloads use at most half of the pool, so half must hold
 * the largest payload. */
#define NODE_POOL_MIN (2 * (uint64_t)NODE_BYTES_MAX)

/* Serves until the process is asked to stop, then returns 0. Returns the error that prevented
 * the start, or -ECANCELED. */
int node_serve(const struct node_serve_options *o);

/* Prints all metrics as Prometheus text. Waits. On the first loop. -EMSGSIZE, -ENOMEM, errors of rt_call. */
int node_metrics(struct node *n, struct strbuf *out);

/* Counts the disks that are not failed, and all disks. Waits. On the first loop. */
void node_health(struct node *n, size_t *serving, size_t *all);

#endif
