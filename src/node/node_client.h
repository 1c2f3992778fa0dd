// SPDX-License-Identifier: Apache-2.0
/*
 * The client of a storage node: a function for each request, over an rpc_channel. Each does what
 * store/store.h says for the call of that name, with the additions of node.proto, and returns its
 * errors, those of rpc_call, and -EPROTO for a response that does not fit the request.
 *
 *     struct node_call c = {.channel = ch, .timeout_ns = NS_PER_S};
 *     int rc = node_put(&c, disk, id, &(struct node_put){.data = slice});
 *     if (rc == -EEXIST && ...)
 *
 * Each fiber uses its own node_call, for one call at a time; any number of them share the channel.
 * After each call it holds the node's message and whether a change may have happened.
 */
#ifndef NODE_NODE_CLIENT_H
#define NODE_NODE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "node/wire.h"
#include "rpc/client.h"

#define NODE_ERROR_MAX 200

struct node_call {
	struct rpc_channel *channel;
	uint64_t timeout_ns; /* 0: only the fiber's deadline applies */
	/* If the connection is lost, repeat the idempotent calls over a new one: get, stat,
	 * list, scan, seal, fence, disks, control, and those of pools except fail and replace. */
	bool retry;
	/* Set by each call: */
	uint64_t eta_ns;            /* of reserve: estimated time until the write would end */
	uint32_t retry_ms;          /* after an error: pause that the node advises; 0: none */
	bool maybe_executed;        /* false: the node certainly did not execute the request */
	char error[NODE_ERROR_MAX]; /* text of the error; empty after success */
};

/* --- chunks ----------------------------------------------------------------------------------- */

struct node_put {
	struct slice data; /* up to NODE_BYTES_MAX; buf NULL: no data */
	uint64_t epoch;
	uint64_t capacity; /* 0: the length of the data */
	bool open;
	uint64_t reservation; /* 0: none */
	bool replace;         /* replaces an existing chunk atomically; pools refuse it */
	uint8_t label[STORE_LABEL_BYTES];
};

int node_put(struct node_call *c, uint64_t disk, struct chunk_id id, const struct node_put *p);

/* off is the current length of the chunk. */
int node_append(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch,
		uint64_t off, struct slice data);

struct node_range {
	struct chunk_id id;
	uint64_t off;
	uint64_t len;
	/* Set by node_get: */
	int rc;       /* of this range */
	uint32_t crc; /* of the range; valid if rc is 0 */
};

/*
 * Reads n ranges of chunks of one disk: at most NODE_RANGES_MAX, with at most NODE_BYTES_MAX in
 * total. *out holds the ranges one after the other with the CRC of all of them, as a reference of
 * the caller; a failed range is zeros. If all ranges failed out->buf is NULL and the call still
 * returns 0. `into` (may be NULL) is the memory for the ranges and at least as long. After an error
 * of the call the receive may still write to it: release it.
 */
int node_get(struct node_call *c, uint64_t disk, struct node_range *ranges, size_t n,
	     struct buf *into, struct slice *out);

/* Reads one range and returns its error. */
int node_get_one(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t off, uint64_t len,
		 struct buf *into, struct slice *out);

/* after may be NULL. */
int node_seal(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch, uint64_t len,
	      struct chunk_stat *after);
int node_fence(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch,
	       struct chunk_stat *after);

/* Delete or describe up to NODE_NAMES_MAX chunks; rcs[i] is the error of chunk i. labels: NULL,
 * or for each chunk the label that it must have to be deleted, or NULL to delete it only if it
 * is unreadable; -ESTALE: it has another label. */
int node_delete(struct node_call *c, uint64_t disk, const struct chunk_id *ids,
		const uint8_t *const *labels, size_t n, int *rcs);
int node_stat(struct node_call *c, uint64_t disk, const struct chunk_id *ids, size_t n,
	      struct chunk_stat *out, int *rcs);
/* For one chunk, whose error is returned. */
int node_delete_one(struct node_call *c, uint64_t disk, struct chunk_id id);
int node_delete_as(struct node_call *c, uint64_t disk, struct chunk_id id, const uint8_t *label);
int node_stat_one(struct node_call *c, uint64_t disk, struct chunk_id id, struct chunk_stat *out);

/* As store_list, at most NODE_LIST_MAX. */
int64_t node_list(struct node_call *c, uint64_t disk, struct store_cursor *at, struct chunk_id *out,
		  size_t max);
/* As store_scan, at most NODE_SCAN_MAX. */
int64_t node_scan(struct node_call *c, uint64_t disk, struct chunk_id id, struct store_range *bad,
		  size_t max);

/* Reserves space and time on a disk for a put that follows soon, see ReserveRequest. -EAGAIN:
 * the disk is too busy; ask another. */
int node_reserve(struct node_call *c, uint64_t disk, uint64_t bytes, uint64_t ttl_ns,
		 uint64_t *reservation);
int node_release(struct node_call *c, uint64_t disk, uint64_t reservation);

/* --- disks ------------------------------------------------------------------------------------ */

/* Describes a disk, or all if disk is 0. NODE_DISKS(reply) is the response; the caller ends it
 * with rpc_reply_fini. */
int node_disks(struct node_call *c, uint64_t disk, struct rpc_reply *reply);
#define NODE_DISKS(reply) ((const Terrane__Node__DisksResponse *)(reply)->message)

/* after may be NULL. */
int node_control(struct node_call *c, uint64_t disk, enum store_state state,
		 enum store_state *after);

/* --- pools ------------------------------------------------------------------------------------ */

/* As store_pool_losses. max must be at least POOL_CHUNK_LOSSES_MAX; at most NODE_LOSSES_MAX are
 * returned. */
int64_t node_pool_losses(struct node_call *c, uint64_t disk, struct store_cursor *at,
			 struct store_pool_loss *out, size_t max);
/* As store_pool_failures. */
int64_t node_pool_failures(struct node_call *c, uint64_t disk, struct store_cursor *at,
			   struct store_pool_loss *out, size_t max);

struct node_piece_run {
	uint32_t row;
	uint64_t first_stripe;
	uint64_t stripes;
	uint64_t len; /* in bytes of the data */
	uint32_t crc;
};

/* As store_pool_patch. data holds the bytes of the runs one after the other. */
int node_pool_patch(struct node_call *c, uint64_t disk, struct chunk_id id,
		    const struct node_piece_run *runs, size_t n, struct slice data);

int node_pool_fail(struct node_call *c, uint64_t disk, uint32_t member);
int node_pool_replace(struct node_call *c, uint64_t disk, uint32_t member);
int node_pool_rebuild(struct node_call *c, uint64_t disk, bool wait);

#endif
