// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the service: what its files know of each other.
 *
 *   service.c         serving, the table of methods
 *   service_chunks.c  requests that change or describe chunks, reservations
 *   service_get.c     reading
 *   service_disks.c   requests about disks and pools
 *   metrics.c         what an operator sees
 */
#ifndef NODE_SERVICE_IMPL_H
#define NODE_SERVICE_IMPL_H

#include "node/service.h"
#include "rpc/server.h"
#include "rt/pool.h"

struct node {
	struct node_disks disks;
	struct rt_pool pool;
	struct rpc_server *server;
	uint64_t held_max; /* bytes of requests for one disk */
};

/* A request and the disk it is about. */
struct work {
	struct rpc_request *r;
	struct node *node;
	struct node_disk *disk;
	char group[SCHED_NAME_MAX + 1];
	enum sched_class class;
	uint64_t read_bytes; /* counted against the disk's part of the memory */
	uint64_t write_bytes;
};

/*
 * Finds the disk and keeps it open until work_end, which makes the words of an error and returns it.
 *
 *     struct work w;
 *     int rc = work_begin(&w, r, q->disk);
 *     if (rc == 0)
 *             rc = ...
 *     return work_end(&w, rc);
 */
int work_begin(struct work *w, struct rpc_request *r, uint64_t disk);
int work_end(struct work *w, int rc);

/* Counts payload against the disk's part of the memory. Who reads waits for room; who writes has brought
 * the bytes already, and is told -EAGAIN. */
int work_hold_read(struct work *w, uint64_t bytes);
int work_hold_write(struct work *w, uint64_t bytes);

struct sched_request work_request(const struct work *w, enum sched_kind kind, uint64_t bytes);

/* Runs fn(ctx, i) for i below n, some at a time, and waits for all. */
void work_fan(size_t n, void (*fn)(void *ctx, size_t i), void *ctx);

int handle_put(struct rpc_request *r);
int handle_append(struct rpc_request *r);
int handle_get(struct rpc_request *r);
int handle_seal(struct rpc_request *r);
int handle_fence(struct rpc_request *r);
int handle_delete(struct rpc_request *r);
int handle_stat(struct rpc_request *r);
int handle_list(struct rpc_request *r);
int handle_scan(struct rpc_request *r);
int handle_reserve(struct rpc_request *r);
int handle_release(struct rpc_request *r);
int handle_disks(struct rpc_request *r);
int handle_control(struct rpc_request *r);
int handle_pool_losses(struct rpc_request *r);
int handle_pool_patch(struct rpc_request *r);
int handle_pool_fail(struct rpc_request *r);
int handle_pool_replace(struct rpc_request *r);
int handle_pool_rebuild(struct rpc_request *r);

#endif
