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

struct meta_service {
	struct kv *kv;
	struct meta *meta;
	struct meta_map *map;
	struct admit admit;
	struct sched *sched; /* turns at the store */
	struct service_share *share;
	struct map tenants; /* hash of the name -> struct service_tenant */
	struct rpc_server *server;
	/* credentials of the metadata servers, which have the root of all secrets; NULL: clients are not authenticated */
	const struct credentials *root;
	struct policy *policy;       /* the identities; NULL without credentials */
	uint64_t policy_turn;        /* number of changes that the policy has */
	struct rt_mutex policy_load; /* held by the fiber that replaces the policy */
	struct secure_guard guard;   /* of the server */
	uint64_t refused;            /* number of requests that the policy refused */
	/* metrics of each method, in the order of the table in service.c */
	struct service_method *methods;
	uint64_t usage_ns;      /* interval of counting usage; 0: never */
	uint64_t usage_passes;  /* number of counts that this server completed */
	uint64_t usage_seconds; /* duration of the last count */
	struct rt_cond wake;    /* signalled when `ending` is set */
	bool ending;            /* meta_serve ends, with the result rc */
	int rc;
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

static inline struct meta *ms_meta(const struct rpc_request *r)
{
	return ((struct meta_service *)r->service)->meta;
}

static inline struct meta_map *ms_map(const struct rpc_request *r)
{
	return ((struct meta_service *)r->service)->map;
}

/* --- identities (service_identity.c, service_access.c) --- */

/* Sets up the guard and loads the policy. root NULL: clients are not authenticated, and everything is allowed. Errors of
 * identities_load. */
int ms_identities_open(struct meta_service *s, const struct credentials *root);
void ms_identities_close(struct meta_service *s);
/* Fiber that follows the changes of other servers. */
void ms_identities_watch(void *service);
/* Reads the policy again if identities were changed. Errors of the store. */
int ms_identities_follow(struct meta_service *s);
/* Returns whether the client is the service of this node. */
bool ms_is_node(const struct session *s, uint64_t node);

#define METHOD_INDEX(number, lower, in, out) METHOD_##lower,
enum { META_TYPES(METHOD_INDEX) METHOD_COUNT };
#undef METHOD_INDEX

/* Asserts that every request has a rule. */
void ms_access_check(void);
/* Decides whether the client may send this request. -EACCES, whatever the reason; errors of the store. */
int ms_access(struct rpc_request *r, unsigned method);
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

/* Fiber that counts the usage of directories (service_usage.c). */
void ms_count_usage(void *service);

#define SERVICE_HANDLER(number, lower, in, out) int ms_handle_##lower(struct rpc_request *r);
META_TYPES(SERVICE_HANDLER)
#undef SERVICE_HANDLER

#endif
