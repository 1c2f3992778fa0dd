// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the service only. */
#ifndef META_SERVICE_IMPL_H
#define META_SERVICE_IMPL_H

#include "base/map.h"
#include "meta/admit.h"
#include "meta/service.h"
#include "meta_api/wire.h"
#include "ops/hist.h"
#include "rpc/server.h"
#include "rt/sync.h"

#define SERVICE_TENANTS_MAX 16384 /* tenants that the service caches */

/* A cached tenant. It never becomes stale: the id of a tenant never changes, and no id is used twice. */
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
	struct map tenants; /* hash of the name -> struct service_tenant */
	struct rpc_server *server;
	struct service_method *methods; /* as in the table of service.c */
	uint64_t usage_ns;              /* interval of counting usage; 0: never */
	uint64_t usage_passes;          /* counts that this server completed */
	uint64_t usage_seconds;         /* duration of the last one */
	struct rt_cond wake;            /* signalled when `ending` is set */
	bool ending;                    /* meta_serve is to end with rc */
	int rc;
};

/* The layer of the id in ms_admit, by which the partition is found. */
enum service_layer { SERVICE_DIR, SERVICE_FILE, SERVICE_BLOCK };

/* Finds the tenant of a request. -EACCES: there is no such tenant; -EINVAL: "system" without a tenant. */
int ms_enter(struct rpc_request *r, struct meta_ctx *ctx);
/* Counts the request's cost in the partition of the id. -EAGAIN: the partition has had too many requests. */
int ms_admit(struct rpc_request *r, const struct meta_ctx *ctx, enum service_layer layer,
	     uint64_t id, uint64_t cost);
/* ms_enter, then ms_admit. */
int ms_begin(struct rpc_request *r, struct meta_ctx *ctx, enum service_layer layer, uint64_t id,
	     uint64_t cost);
/* meta_resolve; counts one query in the partition of each directory that it reads. */
int ms_resolve(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t dir,
	       struct meta_name path, struct meta_entry *out);
/* Returns -EPERM unless the request's tenant is "system". */
int ms_system(struct rpc_request *r);
/* Returns the result of an operation, after setting an error text where the code alone is not clear to the client. */
int ms_end(struct rpc_request *r, int rc);

static inline struct meta *ms_meta(const struct rpc_request *r)
{
	return ((struct meta_service *)r->service)->meta;
}

static inline struct meta_map *ms_map(const struct rpc_request *r)
{
	return ((struct meta_service *)r->service)->map;
}

/* service_usage.c: the fiber that counts the usage of directories. */
void ms_count_usage(void *service);

#define SERVICE_HANDLER(number, lower, in, out) int ms_handle_##lower(struct rpc_request *r);
META_TYPES(SERVICE_HANDLER)
#undef SERVICE_HANDLER

#endif
