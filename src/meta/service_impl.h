// SPDX-License-Identifier: Apache-2.0
/* Types and functions that only the files of the service use. */
#ifndef META_SERVICE_IMPL_H
#define META_SERVICE_IMPL_H

#include "base/map.h"
#include "meta/admit.h"
#include "meta/service.h"
#include "meta_api/wire.h"
#include "ops/hist.h"
#include "rpc/server.h"
#include "rt/call.h"
#include "rt/pool.h"
#include "rt/queue.h"
#include "rt/sync.h"
#include "sched/sched.h"
#include "secure/secure.h"

#define SERVICE_TENANTS_MAX 16384 /* largest number of tenants that the service caches */

/* A tenant in the service's cache. It never becomes stale: the id of a tenant never changes, and no id is used
 * twice. */
struct service_tenant {
	uint32_t id;
	char name[META_TENANT_NAME_MAX + 1];
};

struct service_method {
	struct hist time;
	uint64_t failures;
};

struct service_all;
struct block_memo;
struct issuer;
struct key_ring;

/*
 * The part of the service on one loop: what its requests use, and a server for its share of the connections. A fiber of
 * the loop opens and closes it (service_parts.c). Only `all`, `branch` and `loop` are for other loops, too.
 */
struct meta_service {
	struct service_all *all;
	struct rpc_branch *branch; /* where requests that are at home here run, and the server */
	struct rt_loop *loop;
	struct kv *kv;
	struct meta *meta;
	struct meta_map *map; /* of the first part; NULL in the others */
	/* admission to flash, of the first part; NULL in the others */
	struct service_place *place;
	/* backups, of the first part; NULL in the others */
	struct service_backup *backup;
	/* traffic groups, of the first part; NULL in the others */
	struct service_share *share;
	struct map tenants; /* hash of the name -> struct service_tenant */
	/* credentials of the metadata servers, which have the root of all secrets; NULL: clients are not authenticated */
	const struct credentials *root;
	struct policy *policy;       /* the identities; NULL without credentials */
	uint64_t policy_turn;        /* number of changes that the policy has */
	struct rt_mutex policy_load; /* held by the fiber that replaces the policy */
	struct secure_guard guard;   /* of the server */
	/* root keys of tokens, in memory of secret_alloc, and their issuer; NULL without credentials */
	struct key_ring *ring;
	struct issuer *issuer;
	uint64_t ring_turn;       /* turn of the note that the ring was made of */
	uint64_t refused;         /* number of requests that the policy refused */
	struct block_memo *memos; /* verdicts on blocks (service_block_access.c); NULL: none yet */
	/* metrics of each method, in the order of the table in service.c */
	struct service_method *methods;

	/* The life of a part (service_parts.c): */
	struct rt_port *team; /* where part_main runs */
	bool stop;
	struct rt_cond stopping;
	struct rt_msg opened;
	int part_rc; /* result of part_main; for the first loop once `ended` is set */
	/* For the first loop: */
	bool serving; /* `opened` arrived */
	bool ended;   /* part_main has returned */

	/* Only the first part uses the following fields: */
	uint64_t usage_ns;      /* interval of counting usage; 0: never */
	uint64_t usage_passes;  /* number of counts that this server completed */
	uint64_t usage_seconds; /* duration of the last count */
	struct rt_cond wake;    /* signalled when `ending` is set */
	bool ending;            /* meta_serve ends, with the result rc */
	int rc;
};

/* What the parts share. All is constant while they serve, or has a lock (rt/README.md, rule 14), but for the last
 * fields, which are for the first loop. */
struct service_all {
	const struct meta_serve_options *options;
	struct admit admit;
	struct sched *sched; /* turns at the store */
	struct rt_pool pool;
	struct rt_budget receiving;
	struct rt_port store; /* where transactions run: the loop of the kv, which is the first */
	struct meta_service *parts; /* the server of the first listens, and has the cluster map */
	struct rpc_branch *branches;
	unsigned part_count;
	/* the cluster map has cache nodes: sealed blocks get tokens for them. The first part sets it */
	_Atomic bool has_caches;
	struct rt_port own;     /* the team of a service without one: this loop */
	struct rt_group hosts;  /* fibers of part_host */
	struct rt_cond changed; /* a part serves or has ended */
	bool stopped;           /* all parts were told to stop */
	/* The cluster has flash, or files with a placement were created: outcomes are stored. For all loops. */
	_Atomic bool placing;
};

/* The layer of the id that ms_admit gets; id and layer determine the partition. */
enum service_layer { SERVICE_DIR, SERVICE_FILE, SERVICE_BLOCK };

/* Finds the tenant of a request. -EACCES: there is no such tenant; -EINVAL: "system" without a tenant. */
int ms_enter(struct rpc_request *r, struct meta_ctx *ctx);
/* Adds the request's cost to the admission limit of the id's partition. -EAGAIN: the partition has had too many
 * requests. */
int ms_admit(struct rpc_request *r, const struct meta_ctx *ctx, enum service_layer layer,
	     uint64_t id, uint64_t cost);
/* Calls ms_enter, then ms_admit. */
int ms_begin(struct rpc_request *r, struct meta_ctx *ctx, enum service_layer layer, uint64_t id,
	     uint64_t cost);
/* Resolves a path like meta_resolve; counts one query in the partition of each directory that it reads. */
int ms_resolve(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t dir,
	       struct meta_name path, struct meta_entry *out);
/* Returns -EPERM unless the request's tenant is "system". */
int ms_system(struct rpc_request *r);
/* Returns rc, the result of an operation. Sets an error text first if the code alone is not clear to the client. */
int ms_end(struct rpc_request *r, int rc);

/* Like ms_end; -EDQUOT gets a text about the directory quota in *over, if it has one (service_quota.c). */
int ms_end_over(struct rpc_request *r, const struct meta_over *over, int rc);
/* Converts a tenant to a message. -ENOMEM. */
int ms_tenant_set(struct rpc_request *r, const struct meta_tenant *t, Terrane__Meta__Tenant **out);

static inline struct meta *ms_meta(const struct rpc_request *r)
{
	return ((struct meta_service *)r->service)->meta;
}

/* Returns the cluster map. Its requests are at home on the first loop (ms_home). */
static inline struct meta_map *ms_map(const struct rpc_request *r)
{
	return ((struct meta_service *)r->service)->map;
}

/* --- parts (service_parts.c, service_home.c) --- */

/* Returns the part of the calling loop. */
struct meta_service *ms_here(struct service_all *all);
/* Runs fn(part) for each part on its loop, one after the other. Errors of rt_call, after which it calls no more. */
int ms_each_part(struct service_all *all, void (*fn)(struct meta_service *part, void *arg),
		 void *arg);
/* Returns the port of the loop where a request is handled; NULL: where it came in. */
struct rt_port *ms_home(struct rpc_request *r);
/* Runs all parts: starts them, calls `ready`, waits for the end, stops them. */
int ms_parts_serve(struct service_all *all);
/* Waits until the first part is told to end, and returns the result of meta_serve. */
int ms_await_end(struct meta_service *first);
/* Returns the kv partition of an object. */
uint64_t ms_partition(const struct meta *m, const struct meta_ctx *ctx, enum service_layer layer,
		      uint64_t id);

/* --- identities (service_identity.c, service_access.c) --- */

/* Sets up the guard and loads the policy. root NULL: clients are not authenticated, and everything is allowed. Errors of
 * identities_load. */
int ms_identities_open(struct meta_service *s, const struct credentials *root);
void ms_identities_close(struct meta_service *s);
/* Fiber that follows the changes of other servers. */
void ms_identities_watch(void *service);
/* Reads the policy again if identities were changed. Errors of the store. */
int ms_identities_follow(struct meta_service *s);
/* Returns the session of the client; NULL where clients are not authenticated. */
static inline const struct session *ms_session(const struct rpc_request *r)
{
	const struct meta_service *s = r->service;
	return s->root != NULL ? rpc_session(r) : NULL;
}

/* Returns whether the client is the service of this node. */
bool ms_is_node(const struct session *s, uint64_t node);

/* Returns whether a grant of the client allows an operation somewhere in a tenant; everywhere in it. */
bool ms_any_grant(struct rpc_request *r, uint32_t tenant, enum auth_op op);
bool ms_whole_grant(struct rpc_request *r, uint32_t tenant, enum auth_op op);
/* Decides on an operation in a directory. -EACCES; errors of the store. */
int ms_dir_allows(struct rpc_request *r, uint32_t tenant, enum auth_op op, uint64_t dir);

/* --- blocks and grants for a part of a tenant (service_block_access.c) --- */

/* What the tokens of a block open: bytes [first, first + count); count TOKEN_ALL_BYTES: all, and the parities. */
struct block_opening {
	unsigned rights;
	uint64_t first, count;
};

/* Decides what the client gets of a block; wanted is a byte that it shall get. -EACCES: nothing; errors of the store. */
int ms_block_opens(struct rpc_request *r, const struct meta_ctx *ctx, const struct meta_block *b,
		   uint64_t wanted, struct block_opening *out);
/* Sets the part of a chunk that an opening gives. -EACCES: none. */
int ms_chunk_opens(const struct meta_block *b, const struct block_opening *o, size_t chunk,
		   uint64_t *first, uint64_t *count);
/* Decides on a request that names a block by its id: OP_READ needs the right to one file of the block, OP_WRITE to all
 * of them. -EACCES; errors of the store. */
int ms_block_allows(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t block,
		    enum auth_op op);
/* Checks that the client has allocated the blocks in which a request makes extents or owners. -EACCES; errors of the
 * store. */
int ms_block_uses(struct rpc_request *r, const struct meta_ctx *ctx, unsigned method);
/* Returns what the record of a block that the client allocates has as its writer. */
uint64_t ms_block_writer(struct rpc_request *r, uint32_t tenant);

/* --- tokens (service_token.c) --- */

/* Tells all parts whether there are cache nodes. On the first part. */
void ms_caches_follow(struct meta_service *first);

/* Reads the generations of keys; nothing without credentials. Errors of the store; -ENOMEM, -EIO. */
int ms_tokens_open(struct meta_service *s);
void ms_tokens_close(struct meta_service *s);
/* Follows changes of the generations, and carries rotations on. */
void ms_tokens_follow(struct meta_service *s);
/* Converts a block to a message like meta_wire_block_set, with tokens for its chunks if the client needs them. wanted is
 * a byte that the tokens shall open, if they cannot open all. -EACCES: the client may read no file of the block. */
int ms_block_set(struct rpc_request *r, const struct meta_ctx *ctx, meta_msg_block *m,
		 const struct meta_block *b, uint64_t wanted);

#define METHOD_INDEX(number, lower, in, out) METHOD_##lower,
enum { META_TYPES(METHOD_INDEX) METHOD_COUNT };
#undef METHOD_INDEX

extern const struct rpc_method ms_methods[METHOD_COUNT];

/* Asserts that every request has a rule. */
void ms_access_check(void);
/* Decides whether the client may send this request. -EACCES, whatever the reason; errors of the store. */
int ms_access(struct rpc_request *r, unsigned method);
/* Makes the identity of the request an administrator of the tenant that it created. Logs if it cannot. */
void ms_grant_creator(struct rpc_request *r, uint32_t tenant);
/* Adds a record of an operator's command to the audit log. */
void ms_audit(struct rpc_request *r, unsigned method, int rc);
/* Returns the id of a tenant that this part has in its cache; 0: it does not. */
uint32_t ms_known_tenant(const struct meta_service *s, const char *name);
/* Finds the id of a tenant by its name. Errors of meta_tenant_find. */
int ms_find_tenant(struct meta_service *s, const char *name, uint32_t *id);
/* Returns whether a name is "system" (sets *acting_for to 0) or "system:N" (sets *acting_for to N). */
bool ms_is_system(const char *name, uint32_t *acting_for);

/* Runs the handler when it is the request's turn (service_turn.c). -EAGAIN: too many requests of its group wait. */
int ms_turn(struct rpc_request *r, int (*handle)(struct rpc_request *r));

/* The groups of the cluster and the counters of their clients (service_share.c). -ENOMEM. */
int ms_share_open(struct meta_service *s);
void ms_share_close(struct meta_service *s);
/* Reads the groups from the store, and gives them to the scheduler if they have changed. */
int ms_share_load(struct meta_service *s);
/* Fiber that keeps the groups up to date. */
void ms_share_watch(void *service);

/* Backups of the store (service_backup.c). -ENOMEM. */
int ms_backup_open(struct meta_service *s);
void ms_backup_close(struct meta_service *s);
/* Fiber that makes the backups that requests ask for. */
void ms_backup_make(void *service);
/* Appends the metrics of the last backup. Errors of strbuf. */
int ms_backup_metrics(const struct meta_service *s, struct strbuf *out);

/* Admission to flash (service_place.c). -ENOMEM. */
int ms_place_open(struct meta_service *s, const struct meta_serve_options *o);
void ms_place_close(struct meta_service *s);
/* Takes the room on flash from the cluster map, and reads new outcomes. Called twice a second on the first loop. */
void ms_place_tick(struct meta_service *s);
/* Stores the outcome of a file that was removed, if it has a placement. */
void ms_place_removed(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t file);

/* Fiber that counts the usage of directories (service_usage.c). */
void ms_count_usage(void *service);

#define SERVICE_HANDLER(number, lower, in, out) int ms_handle_##lower(struct rpc_request *r);
META_TYPES(SERVICE_HANDLER)
#undef SERVICE_HANDLER

#endif
