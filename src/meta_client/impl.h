// SPDX-License-Identifier: Apache-2.0
/* Types and functions that only the files of meta_client/ use. */
#ifndef META_CLIENT_IMPL_H
#define META_CLIENT_IMPL_H

#include "base/arena.h"
#include "base/list.h"
#include "cluster/load.h"
#include "meta_api/attr.h"
#include "meta_api/wire.h"
#include "meta_client/meta_client.h"
#include "rt/sync.h"

/* Size limit of the arena in which a stub builds its request. */
#define SCRATCH_BYTES (16 * KIB)
#define SCRATCH_LARGE ((size_t)(16 * MIB))

struct rt_loop;

/* Cache of sealed files and blocks. The least recently used entry is evicted first. */
struct meta_cache {
	struct map files, blocks; /* id -> struct cache_entry */
	struct list order;        /* entries, least recently used first */
	size_t bytes, bytes_max;
	uint64_t ttl_ns; /* age at which an entry is no longer used */
	uint64_t hits, misses;
};

void mc_cache_init(struct meta_cache *c, size_t bytes_max, uint64_t ttl_ns);
void mc_cache_fini(struct meta_cache *c);
/* Adds a file to the cache, or replaces it. Does nothing unless the file is sealed and `extents` has all of its
 * extents. */
void mc_cache_put_file(struct meta_cache *c, const struct meta_file *f,
		       const struct meta_extent *extents, size_t n);
/* Adds a block to the cache, or replaces it. Does nothing unless the block is sealed. */
void mc_cache_put_block(struct meta_cache *c, const struct meta_block *b);
/* Copies a block to out; its chunks are in the arena. -ENOENT: the cache does not have it; -ENOMEM. */
int mc_cache_get_block(struct meta_cache *c, uint64_t id, struct arena *a, struct meta_block *out);
/* Copies a file to out. *extents points into the cache and is valid until the next wait. -ENOENT: the cache
 * does not have the file. */
int mc_cache_get_file(struct meta_cache *c, uint64_t id, struct meta_file *out,
		      const struct meta_extent **extents, size_t *n);
void mc_cache_drop_file(struct meta_cache *c, uint64_t id);
void mc_cache_drop_block(struct meta_cache *c, uint64_t id);

struct mc_load {
	uint64_t node; /* 0: the metadata server that answered */
	struct cluster_load load;
};

struct meta_client {
	struct rpc_channel *channels[META_CLIENT_SERVERS_MAX];
	size_t count;              /* number of servers */
	size_t current;            /* index of the server that gets the next request */
	const struct context *own; /* a context with the client's tenant and nothing else */
	struct rt_loop *loop;      /* loop that the client belongs to */
	size_t calls_active;       /* number of requests without a result so far */
	uint64_t timeout_ns, try_ns;
	unsigned busy_max;
	bool impatient;
	struct meta_cache cache;
	struct meta_client_stats stats;
	/* The client's copy of the cluster map; a fiber holds map_turn while it fetches the map. */
	struct cluster cluster;
	uint64_t map_ns; /* last time at which the map was up to date; 0: never */
	struct rt_mutex map_turn;
	/* loads of the processes in the last answer with usage */
	struct mc_load *loads;
	size_t load_count;
	struct mc_share *share; /* NULL: the client does not share */
	struct map disk_tokens; /* disk -> struct disk_token (tokens.c) */
};

/* Tokens (tokens.c). */
void mc_tokens_init(struct meta_client *c);
void mc_tokens_fini(struct meta_client *c);

/* Sharing (share.c). */
/* addrs: the addresses of the client's servers. -ENOMEM, -EAGAIN. */
int mc_share_open(struct meta_client *c, const char *const *addrs);
void mc_share_close(struct meta_client *c);
/* Makes the fiber carry its context with this class. -ENOMEM. */
int mc_share_class(enum traffic_class as);

/* Sends a request, with retries, and waits for the result. Sets c->error and c->in_doubt. The caller must give
 * reply to rpc_reply_fini, also after an error. */
int mc_call(struct meta_call *c, const struct rpc_type *type, const ProtobufCMessage *request,
	    struct rpc_reply *reply);
/* Sends a request like mc_call; for requests whose response has only a status. */
int mc_call_status(struct meta_call *c, const struct rpc_type *type,
		   const ProtobufCMessage *request);
/* Ends a call with an error that the client, not the server, has detected: sets c->error, and returns err. */
int mc_fail(struct meta_call *c, int err);
/* Ends a call after its response was checked with the result err. Unless err is 0, sets c->error. Returns err, but
 * -EPROTO for -EINVAL, because an invalid response is a fault of the service and not of the caller. */
int mc_response_error(struct meta_call *c, int err);
/* Returns the cache, or NULL if the fiber's context is of another tenant. */
struct meta_cache *mc_cache(const struct meta_call *c);

/* Copies a name into a request. -ENAMETOOLONG: the name is longer than max; -EINVAL: the name has a null byte; -EILSEQ:
 * the name is not UTF-8; -ENOMEM. Sets c->error. */
int mc_name(struct meta_call *c, struct arena *a, struct meta_name name, size_t max, char **out);
/* Checks attributes and converts them to a message. */
int mc_attrs(struct meta_call *c, struct arena *a, const struct meta_attrs *from,
	     meta_msg_attrs **out);

#endif
