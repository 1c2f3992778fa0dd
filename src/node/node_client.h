// SPDX-License-Identifier: Apache-2.0
/*
 * A storage node from the other side: a function for each request, over an rpc_channel. What they do and
 * return is in store/store.h, with what node.proto adds; beside that the errors of rpc_call, and -EPROTO for
 * an answer that makes no sense.
 *
 *     struct node_call c = {.channel = ch, .timeout_ns = NS_PER_S};
 *     int rc = node_put(&c, disk, id, &(struct node_put){.data = slice});
 *     if (rc == -EEXIST && ...)
 *
 * Each fiber has a node_call of its own, for one call after the other; any number share the channel. After
 * each it tells what the node said and whether a change may have happened.
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
	uint64_t timeout_ns; /* 0: only the fiber's deadline */
	/* Calls that can be repeated (get, stat, list, scan, seal, fence, disks, control and the
	 * pool's but fail and replace) are sent again over a new connection when theirs is lost. */
	bool retry;
	/* After each call: */
	uint64_t eta_ns;            /* of reserve: by when the write would be done, from now */
	uint32_t retry_ms;          /* after an error, what the node advises to wait; 0: nothing */
	bool maybe_executed;        /* false: the node has not changed anything */
	char error[NODE_ERROR_MAX]; /* in words; empty after success */
};

/* --- chunks ----------------------------------------------------------------------------------- */

struct node_put {
	struct slice data; /* up to NODE_BYTES_MAX; buf NULL: none */
	uint64_t epoch;
	uint64_t capacity; /* 0: as long as the data */
	bool open;
	uint64_t reservation; /* 0: none */
	bool replace;         /* takes the place of what is there, if anything; no pool does that */
	uint8_t label[STORE_LABEL_BYTES];
};

int node_put(struct node_call *c, uint64_t disk, struct chunk_id id, const struct node_put *p);

/* off is where the chunk ends. */
int node_append(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch,
		uint64_t off, struct slice data);

struct node_range {
	struct chunk_id id;
	uint64_t off;
	uint64_t len;
	/* Set by node_get: */
	int rc;       /* of this range */
	uint32_t crc; /* when it is 0 */
};

/*
 * Reads n ranges, up to NODE_RANGES_MAX with NODE_BYTES_MAX together, of chunks of one disk. *out are the
 * ranges one after the other with the CRC of all, the caller's reference; a range that failed has zeros.
 * When all failed out->buf is NULL and the call still returns 0. `into`, which may be NULL, is memory for
 * them, at least so long; after an error of the call itself it may still be written to: release it.
 */
int node_get(struct node_call *c, uint64_t disk, struct node_range *ranges, size_t n,
	     struct buf *into, struct slice *out);

/* One range, whose error is the call's. */
int node_get_one(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t off, uint64_t len,
		 struct buf *into, struct slice *out);

/* after may be NULL. */
int node_seal(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch, uint64_t len,
	      struct chunk_stat *after);
int node_fence(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch,
	       struct chunk_stat *after);

/* Up to NODE_NAMES_MAX chunks; the error of each in rcs. labels: NULL, or what each must still have to be deleted,
 * NULL for one that cannot be read; -ESTALE: it is another. */
int node_delete(struct node_call *c, uint64_t disk, const struct chunk_id *ids,
		const uint8_t *const *labels, size_t n, int *rcs);
int node_stat(struct node_call *c, uint64_t disk, const struct chunk_id *ids, size_t n,
	      struct chunk_stat *out, int *rcs);
/* One chunk, whose error is the call's. */
int node_delete_one(struct node_call *c, uint64_t disk, struct chunk_id id);
int node_delete_as(struct node_call *c, uint64_t disk, struct chunk_id id, const uint8_t *label);
int node_stat_one(struct node_call *c, uint64_t disk, struct chunk_id id, struct chunk_stat *out);

/* As store_list, at most NODE_LIST_MAX. */
int64_t node_list(struct node_call *c, uint64_t disk, struct store_cursor *at, struct chunk_id *out,
		  size_t max);
/* As store_scan, at most NODE_SCAN_MAX. */
int64_t node_scan(struct node_call *c, uint64_t disk, struct chunk_id id, struct store_range *bad,
		  size_t max);

/* Space and time on a disk for a put that comes soon: see ReserveRequest. -EAGAIN: ask another. */
int node_reserve(struct node_call *c, uint64_t disk, uint64_t bytes, uint64_t ttl_ns,
		 uint64_t *reservation);
int node_release(struct node_call *c, uint64_t disk, uint64_t reservation);

/* --- disks ------------------------------------------------------------------------------------ */

/* reply holds the DisksResponse: NODE_DISKS(reply). disk 0: all. Give reply to rpc_reply_fini. */
int node_disks(struct node_call *c, uint64_t disk, struct rpc_reply *reply);
#define NODE_DISKS(reply) ((const Terrane__Node__DisksResponse *)(reply)->message)

/* after may be NULL. */
int node_control(struct node_call *c, uint64_t disk, enum store_state state,
		 enum store_state *after);

/* --- pools ------------------------------------------------------------------------------------ */

/* As store_pool_losses; max at least POOL_CHUNK_LOSSES_MAX, at most NODE_LOSSES_MAX come. */
int64_t node_pool_losses(struct node_call *c, uint64_t disk, struct store_cursor *at,
			 struct store_pool_loss *out, size_t max);
/* As store_pool_failures. */
int64_t node_pool_failures(struct node_call *c, uint64_t disk, struct store_cursor *at,
			   struct store_pool_loss *out, size_t max);

struct node_piece_run {
	uint32_t row;
	uint64_t first_stripe;
	uint64_t stripes;
	uint64_t len; /* of its bytes in data */
	uint32_t crc;
};

/* As store_pool_patch; data are the bytes of the runs one after the other. */
int node_pool_patch(struct node_call *c, uint64_t disk, struct chunk_id id,
		    const struct node_piece_run *runs, size_t n, struct slice data);

int node_pool_fail(struct node_call *c, uint64_t disk, uint32_t member);
int node_pool_replace(struct node_call *c, uint64_t disk, uint32_t member);
int node_pool_rebuild(struct node_call *c, uint64_t disk, bool wait);

#endif
