// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the service: shared by its files.
 *
 *   service.c         the server, the table of methods, begin and end of requests
 *   service_chunks.c  requests that change or describe chunks; reservations
 *   service_get.c     reads
 *   service_prep.c    reads with an operation on the bytes
 *   service_disks.c   requests about disks and pools
 *   service_keys.c    the keys of tokens
 *   service_parts.c   the parts of a node on several loops
 *   metrics.c         metrics and health
 */
#ifndef NODE_SERVICE_IMPL_H
#define NODE_SERVICE_IMPL_H

#include <stdatomic.h>

#include "node/service.h"
#include "prep/op.h"
#include "rpc/server.h"
#include "rt/call.h"
#include "rt/pool.h"

/*
 * What one loop of the node holds: its share of the disks, and a server for its share of the connections. A fiber of
 * the loop opens and closes it (part_main). Only `branch` is for other loops, too.
 */
struct node_part {
	struct node *node;
	struct rpc_branch
		*branch;      /* where requests for the part's disks run, and the part's server */
	struct rt_port *team; /* where part_main runs */
	struct node_disks disks;
	struct node_disk_spec *specs; /* the part's share of the node's */
	bool stop;
	struct rt_cond stopping;
	struct rt_msg opened;
	int rc; /* result of part_main; for the first loop once `ended` is set */

	/* For the first loop: */
	bool serving; /* `opened` arrived */
	bool ended;   /* part_main has returned */
};

/* Operations on images (prep/) for clients. Any loop uses it. */
struct node_prep {
	struct sched *cores; /* turns at the processors; NULL: the node has none for operations */
	uint64_t decoder;    /* fingerprint of this node's decoder */
	atomic_ullong results[PREP_REASONS]; /* by reason */
	atomic_ullong source_bytes, sent_bytes, cpu_ns;
};

/* A node. All but its parts is constant while it serves, or has a lock (rt/README.md, rule 14). */
struct node {
	const struct node_serve_options *options;
	struct rt_pool pool;
	struct rt_budget receiving;
	struct node_prep prep;
	struct node_part *parts; /* the server of the first listens */
	unsigned part_count;
	struct rpc_branch *branches; /* one for each part */
	struct rt_port own;          /* the team of a node without one: this loop */
	struct rt_group hosts;    /* fibers of part_host; on the first loop, as are the next two */
	struct rt_cond changed;   /* a part serves or has ended */
	bool stopped;             /* all parts were told to stop */
	struct rt_group watch;    /* fiber that follows the keys of tokens */
	_Atomic bool keys_wanted; /* a token of an unknown generation arrived; any loop sets it */
	/* limit in bytes for the payload of one disk's reads, and as much for its writes */
	uint64_t held_max;
};

/* Returns the part of the calling loop. */
struct node_part *node_part_here(struct node *n);
/* Returns the part that has the disk; NULL: the node has no such disk. On any loop. */
struct node_part *node_part_of(struct node *n, uint64_t disk);
/* Runs fn(arg) on the loop of a part; errors of rt_call. */
int node_part_call(struct node_part *p, void (*fn)(void *), void *arg);

/* --- service_parts.c: the parts of a node on the loops of its team ------------------------------ */

extern const struct rpc_method node_methods[];
extern const size_t node_method_count;

/* Opens the parts, and waits until all serve. After an error node_parts_end is still due. */
int node_parts_start(struct node *n);
/* Stops the servers of all parts, with the time of grace of the options for running requests. */
void node_parts_stop(struct node *n);
/* Closes all parts and frees them. */
void node_parts_end(struct node *n);
/* Returns the port where a request is handled: that of its disk's part. */
struct rt_port *node_home(struct rpc_request *r);

/* --- service_prep.c ----------------------------------------------------------------------------- */

/* Opens the processors for operations, with the weights of the disks; without cores every file is sent as it is. After an
 * error, too, node_prep_close is called. */
int node_prep_open(struct node_prep *p, const struct node_serve_options *o);
void node_prep_close(struct node_prep *p);
/* Prints the metrics of operations. */
int node_prep_print(struct node_prep *p, struct strbuf *out);
/* --- service_keys.c ------------------------------------------------------------------------------ */

/* Fiber of the first loop that keeps the keys of all disks up to date. */
void node_keys_main(void *node);
/* Makes it ask for the keys soon. On any loop. */
void node_keys_wanted(struct node *n);

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

/* Reads a range in turns at the disk, if the token allows it. `to` has room for its length; *crc becomes that of its bytes.
 * -EINVAL, -EOVERFLOW, -ERANGE: the range is invalid; errors of access_chunk, sched_begin and store_get. */
int work_read(struct work *w, const Terrane__Node__ReadRange *m, const struct access_token *token,
	      uint8_t *to, uint32_t *crc);

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
int handle_usage(struct rpc_request *r);
int handle_control(struct rpc_request *r);
int handle_pool_losses(struct rpc_request *r);
int handle_pool_patch(struct rpc_request *r);
int handle_pool_fail(struct rpc_request *r);
int handle_pool_replace(struct rpc_request *r);
int handle_pool_rebuild(struct rpc_request *r);
int handle_transform(struct rpc_request *r);

#endif
