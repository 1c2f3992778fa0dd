// SPDX-License-Identifier: Apache-2.0
/*
 * The client of a storage node: a function for each request, over an rpc_channel. Each function
 * does what store/store.h says for the function of that name, with the additions of node.proto, and
 * returns its errors, those of rpc_call, and -EPROTO for a response that does not fit the request.
 *
 *     struct node_call c = {.channel = ch, .timeout_ns = NS_PER_S};
 *     int rc = node_put(&c, disk, id, &(struct node_put){.data = slice});
 *     if (rc == -EEXIST && ...)
 *
 * Each fiber uses its own node_call, for one call at a time; any number of them share the channel.
 * After each call the node_call holds the node's message and whether a change may have happened.
 */
#ifndef NODE_NODE_CLIENT_H
#define NODE_NODE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "node/wire.h"
#include "prep/op.h"
#include "rpc/client.h"

#define NODE_ERROR_MAX 200

struct node_call {
	struct rpc_channel *channel;
	uint64_t timeout_ns; /* 0: only the fiber's deadline applies */
	/* If the connection is lost, repeat the idempotent calls over a new one: get, stat,
	 * list, scan, seal, fence, disks, control, and those of pools except fail and replace. */
	bool retry;
	/* Token for the chunk of the request, or for new chunks on the disk of a put, reserve or release: NODE_TOKEN_BYTES.
	 * NULL: none. */
	const uint8_t *token;
	/* The fields below are set by each call: */
	/* after node_reserve: estimated time until the write would end */
	uint64_t eta_ns;
	/* after an error: pause that the node advises; 0: none */
	uint32_t retry_ms;
	/* false: the node certainly did not execute the request */
	bool maybe_executed;
	char error[NODE_ERROR_MAX]; /* text of the error; empty after success */
};

/* --- chunks ----------------------------------------------------------------------------------- */

struct node_put {
	/* contents of the chunk, up to NODE_BYTES_MAX; buf NULL: no data */
	struct slice data;
	uint64_t epoch;
	/* largest length of the chunk in bytes; 0: the length of the data */
	uint64_t capacity;
	bool open;
	uint64_t reservation; /* id of a reservation to use; 0: none */
	bool replace;         /* replaces an existing chunk atomically; pools refuse it */
	uint8_t label[STORE_LABEL_BYTES];
};

int node_put(struct node_call *c, uint64_t disk, struct chunk_id id, const struct node_put *p);

/* Appends bytes to an open chunk. off is the current length of the chunk. */
int node_append(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch,
		uint64_t off, struct slice data);

struct node_range {
	struct chunk_id id;
	uint64_t off;
	uint64_t len;
	const uint8_t *token; /* for the chunk: NODE_TOKEN_BYTES; NULL: none */
	/* The fields below are set by node_get: */
	int rc;       /* result of this range */
	uint32_t crc; /* CRC of the range; valid if rc is 0 */
};

/*
 * Reads n ranges of chunks of one disk: at most NODE_RANGES_MAX, with at most NODE_BYTES_MAX in
 * total. *out holds the ranges one after the other and the CRC of all of them; the caller owns the
 * reference. The bytes of a failed range are zeros. If all ranges failed out->len is 0 and the
 * call still returns 0. `into` is memory for exactly these bytes (struct rpc_call), then out->buf is NULL;
 * into NULL: the bytes are in a buffer.
 */
int node_get(struct node_call *c, uint64_t disk, struct node_range *ranges, size_t n,
	     const struct rpc_places *into, struct slice *out);

/* Reads one range of a chunk and returns the error of the range. into: memory for len bytes, or NULL. */
int node_get_one(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t off, uint64_t len,
		 uint8_t *into, struct slice *out);

/* The answer to a read with an operation. */
struct node_transformed {
	struct prep_result
		result;    /* what data holds: the result, or for any reason the file itself */
	struct slice data; /* its CRC was checked against that of the result */
	uint64_t cpu_ns;   /* processor time of the operation at the node */
};

/* Reads a range that is an image file, and has the node do an operation on it (prep/op.h). The caller owns out->data.buf
 * and passes the bytes to prep_finish. */
int node_transform(struct node_call *c, uint64_t disk, const struct node_range *range,
		   const struct prep_op *op, struct node_transformed *out);

/* Seals a chunk at len bytes. *after is the state of the sealed chunk; after may be NULL. */
int node_seal(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch, uint64_t len,
	      struct chunk_stat *after);
int node_fence(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch,
	       struct chunk_stat *after);

/*
 * Delete or describe up to NODE_NAMES_MAX chunks; rcs[i] is 0 or the error of chunk i. labels is
 * NULL, or for each chunk the label that it must have to be deleted, or NULL to delete it only if
 * it is unreadable; -ESTALE: it has another label.
 */
int node_delete(struct node_call *c, uint64_t disk, const struct chunk_id *ids,
		const uint8_t *const *labels, size_t n, int *rcs);
int node_stat(struct node_call *c, uint64_t disk, const struct chunk_id *ids, size_t n,
	      struct chunk_stat *out, int *rcs);
/* Deletes one chunk and returns its error. */
int node_delete_one(struct node_call *c, uint64_t disk, struct chunk_id id);
int node_delete_as(struct node_call *c, uint64_t disk, struct chunk_id id, const uint8_t *label);
int node_stat_one(struct node_call *c, uint64_t disk, struct chunk_id id, struct chunk_stat *out);

/* Lists chunks as store_list does, at most NODE_LIST_MAX per call. */
int64_t node_list(struct node_call *c, uint64_t disk, struct store_cursor *at, struct chunk_id *out,
		  size_t max);
/* Verifies a chunk as store_scan does and returns at most NODE_SCAN_MAX damaged ranges. */
int64_t node_scan(struct node_call *c, uint64_t disk, struct chunk_id id, struct store_range *bad,
		  size_t max);

/* Reserves space and time on a disk for a put that follows soon, see ReserveRequest. -EAGAIN: the
 * disk is too busy; the caller asks another disk. */
int node_reserve(struct node_call *c, uint64_t disk, uint64_t bytes, uint64_t ttl_ns,
		 uint64_t *reservation);
int node_release(struct node_call *c, uint64_t disk, uint64_t reservation);

/* --- use by traffic group --------------------------------------------------------------------- */

#define NODE_USAGE_MAX 1024
#define NODE_GROUP_MAX 160

/* What a traffic group used of the disks of a node since the node began; a value may become smaller. */
struct node_usage {
	char group[NODE_GROUP_MAX];
	uint64_t requests, refused, bytes, disk_ns;
	uint64_t waiting; /* requests that wait now */
};

/* Returns the number of groups, at most NODE_USAGE_MAX. */
int64_t node_usage(struct node_call *c, struct node_usage out[NODE_USAGE_MAX]);

/* --- disks ------------------------------------------------------------------------------------ */

/* Describes a disk, or all if disk is 0. NODE_DISKS(reply) is the response; the caller ends it
 * with rpc_reply_fini. */
int node_disks(struct node_call *c, uint64_t disk, struct rpc_reply *reply);
#define NODE_DISKS(reply) ((const Terrane__Node__DisksResponse *)(reply)->message)

/*
 * Gives a disk the order to change to a state. *after is the state that follows; after may be NULL.
 */
int node_control(struct node_call *c, uint64_t disk, enum store_state state,
		 enum store_state *after);

/* --- pools ------------------------------------------------------------------------------------ */

/* Lists chunks with lost rows as store_pool_losses does. max must be at least
 * POOL_CHUNK_LOSSES_MAX; at most NODE_LOSSES_MAX are returned. */
int64_t node_pool_losses(struct node_call *c, uint64_t disk, struct store_cursor *at,
			 struct store_pool_loss *out, size_t max);
/* Lists failures as store_pool_failures does, with the limits of node_pool_losses. */
int64_t node_pool_failures(struct node_call *c, uint64_t disk, struct store_cursor *at,
			   struct store_pool_loss *out, size_t max);

struct node_piece_run {
	uint32_t row;
	uint64_t first_stripe;
	uint64_t stripes;
	uint64_t len; /* length of the run in bytes */
	uint32_t crc;
};

/* Writes runs of bytes of a chunk as store_pool_patch does. data holds the bytes of the runs one
 * after the other. */
int node_pool_patch(struct node_call *c, uint64_t disk, struct chunk_id id,
		    const struct node_piece_run *runs, size_t n, struct slice data);

int node_pool_fail(struct node_call *c, uint64_t disk, uint32_t member);
int node_pool_replace(struct node_call *c, uint64_t disk, uint32_t member);
int node_pool_rebuild(struct node_call *c, uint64_t disk, bool wait);

#endif
