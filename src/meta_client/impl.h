// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of meta_client/ only. */
#ifndef META_CLIENT_IMPL_H
#define META_CLIENT_IMPL_H

#include "base/list.h"
#include "meta_api/wire.h"
#include "meta_client/meta_client.h"
#include "rt/sync.h"

#define SCRATCH_BYTES (16 * KIB)
#define SCRATCH_LARGE ((size_t)(16 * MIB))

/* Sealed files and blocks, least recently used first out. */
struct meta_cache {
	struct map files, blocks; /* by id */
	struct list order;        /* oldest first */
	size_t bytes, bytes_max;
	uint64_t ttl_ns;
	uint64_t hits, misses;
};

void mc_cache_init(struct meta_cache *c, size_t bytes_max, uint64_t ttl_ns);
void mc_cache_fini(struct meta_cache *c);
/* What is not sealed, or not whole, is not kept. */
void mc_cache_put_file(struct meta_cache *c, const struct meta_file *f,
		       const struct meta_extent *extents, size_t n);
void mc_cache_put_block(struct meta_cache *c, const struct meta_block *b);
/* 0, -ENOENT: not here; -ENOMEM. */
int mc_cache_get_block(struct meta_cache *c, uint64_t id, struct arena *a, struct meta_block *out);
/* extents may be NULL; they are the cache's, valid until the next wait. */
int mc_cache_get_file(struct meta_cache *c, uint64_t id, struct meta_file *out,
		      const struct meta_extent **extents, size_t *n);
void mc_cache_drop_file(struct meta_cache *c, uint64_t id);
void mc_cache_drop_block(struct meta_cache *c, uint64_t id);

struct meta_client {
	struct rpc_channel *channels[META_CLIENT_SERVERS_MAX];
	size_t count;
	size_t current;            /* the server that is asked first */
	const struct context *own; /* its tenant, and nothing else */
	uint64_t timeout_ns, try_ns;
	unsigned busy_max;
	bool impatient;
	struct meta_cache cache;
	struct meta_client_stats stats;
	/* The map; map_turn is held while it is fetched. */
	struct cluster cluster;
	uint64_t map_ns; /* when it was last found to be up to date; 0: never */
	struct rt_mutex map_turn;
};

/* Asks, with all tries; reply is to be given to rpc_reply_fini in any case. */
int mc_call(struct meta_call *c, const struct rpc_type *type, const ProtobufCMessage *request,
	    struct rpc_reply *reply);
/* The same for answers that say nothing but 0. */
int mc_call_status(struct meta_call *c, const struct rpc_type *type,
		   const ProtobufCMessage *request);
/* An error of this side, with its words. */
int mc_fail(struct meta_call *c, int err);
/* An answer that does not make sense is the service's fault, not the caller's. */
int mc_response_error(struct meta_call *c, int err);
/* The cache, or NULL when this call must not use it. */
struct meta_cache *mc_cache(const struct meta_call *c);

/* A name as a request has it. -EILSEQ, -EINVAL, -ENAMETOOLONG (max), -ENOMEM, with the words. */
int mc_name(struct meta_call *c, struct arena *a, struct meta_name name, size_t max, char **out);

#endif
