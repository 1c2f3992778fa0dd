// SPDX-License-Identifier: Apache-2.0
/* The requests of a storage node, shared by client and service: numbers and limits. */
#ifndef NODE_WIRE_H
#define NODE_WIRE_H

#include "node/node.pb-c.h"
#include "rpc/type.h"
#include "store/pool.h"
#include "store/store.h"

#define NODE_RANGES_MAX 1024 /* limit for the ranges of one get */
#define NODE_NAMES_MAX 1024  /* limit for the chunks of one delete or stat */
#define NODE_LIST_MAX 4096   /* limit for the chunks in one response of list */
#define NODE_SCAN_MAX 1024   /* limit for the damaged ranges in one response of scan */
#define NODE_LOSSES_MAX 256  /* limit for the losses in one response of pool_losses */
#define NODE_RUNS_MAX 4096   /* limit for the runs of one pool_patch */
#define NODE_DISKS_MAX 256   /* limit for the disks of one node */
#define NODE_TOKEN_BYTES 80  /* bytes of a token (auth/token.h) */
/* Largest payload of a put, append, get or patch. */
#define NODE_BYTES_MAX RPC_PAYLOAD_MAX

extern const struct rpc_type node_type_put, node_type_append, node_type_get, node_type_seal,
	node_type_fence, node_type_delete, node_type_stat, node_type_list, node_type_scan,
	node_type_reserve, node_type_release, node_type_disks, node_type_control,
	node_type_pool_losses, node_type_pool_patch, node_type_pool_fail, node_type_pool_replace,
	node_type_pool_rebuild, node_type_transform, node_type_usage;

/* Convert messages to the types of store.h. The message of a peer may hold any values. -EINVAL: a
 * part is missing or a value is out of range. */
int node_chunk_from(struct chunk_id *out, const Terrane__Node__ChunkName *m);
int node_cursor_from(struct store_cursor *out, const Terrane__Node__Cursor *m);
int node_stat_from(struct chunk_stat *out, const Terrane__Node__ChunkStat *m);
int node_loss_from(struct store_pool_loss *out, const Terrane__Node__PoolLoss *m);
int node_label_from(uint8_t out[STORE_LABEL_BYTES], const ProtobufCBinaryData *m);
int node_state_from(enum store_state *out, Terrane__Node__DiskState m);

/* Convert the types of store.h to messages. */
void node_chunk_to(Terrane__Node__ChunkName *m, struct chunk_id id);
/* Converts a cursor to a message. `last` is the memory for m->last, owned by the caller. */
void node_cursor_to(Terrane__Node__Cursor *m, Terrane__Node__ChunkName *last,
		    const struct store_cursor *at);
/* Converts the description of a chunk to a message. m->label points into st. */
void node_stat_to(Terrane__Node__ChunkStat *m, const struct chunk_stat *st);

#endif
