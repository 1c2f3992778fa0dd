// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the service: shared by its files.
 *
 *   service.c         the server, the table of methods, begin and end of requests
 *   service_chunks.c  requests that change or describe chunks; reservations
 *   service_get.c     reads
 *   service_disks.c   requests about disks and pools
 *   metrics.c         metrics and health
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
	/* limit in bytes for the payload of one disk's reads, and as much for its writes */
	uint64_t held_max;
};

/* A request that runs and the disk that it uses. */
struct work {
	struct rpc_request *r;
	struct node *node;
	struct node_disk *disk;
	char group[SCHED_NAME_MAX + 1];
	enum sched_class class;
	/* payload bytes of this request that are counted in disk->read_bytes */
	uint64_t read_bytes;
	/* payload bytes of this request that are counted in disk->write_bytes */
	uint64_t write_bytes;
};

/*
 * work_begin finds the disk and keeps it open until work_end, which sets the text of an error and
 * returns rc.
 *
 *     struct work w;
 *     int rc = work_begin(&w, r, q->disk);
 *     if (rc == 0)
 *             rc = ...
 *     return work_end(&w, rc);
 */
int work_begin(struct work *w, struct rpc_request *r, uint64_t disk);
int work_end(struct work *w, int rc);

/* Count payload against the disk's limit until work_end. A read waits for room. A write, whose
 * bytes are already in memory, is refused with -EAGAIN. */
int work_hold_read(struct work *w, uint64_t bytes);
int work_hold_write(struct work *w, uint64_t bytes);

/* Returns the request to the disk's scheduler, in the group and class of the work. */
struct sched_request work_request(const struct work *w, enum sched_kind kind, uint64_t bytes);

/* Runs fn(ctx, i) for all i below n, a few in parallel, and waits for all. */
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
