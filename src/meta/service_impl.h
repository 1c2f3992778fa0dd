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

#define SERVICE_TENANTS_MAX 16384 /* names that are remembered */

/* A name that a tenant has. Ids of tenants never change and are never given again. */
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
	uint64_t usage_ns;              /* between two counts of usage; 0: never */
	uint64_t usage_passes, usage_seconds;
	/* The end: */
	struct rt_cond wake;
	bool decided;
	int rc;
};

/*
 * What a handler begins with: who asks, and whether the partition takes the query. Then the id that the
 * cost is counted for chooses the partition.
 */
enum service_layer { SERVICE_DIR, SERVICE_FILE, SERVICE_BLOCK };

int ms_enter(struct rpc_request *r, struct meta_ctx *ctx);
int ms_admit(struct rpc_request *r, const struct meta_ctx *ctx, enum service_layer layer,
	     uint64_t id, uint64_t cost);
/* Both. */
int ms_begin(struct rpc_request *r, struct meta_ctx *ctx, enum service_layer layer, uint64_t id,
	     uint64_t cost);
/* meta_resolve, with one query for each step, counted for the directory that is read. */
int ms_resolve(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t dir,
	       struct meta_name path, struct meta_entry *out);
/* -EPERM unless the system asks. */
int ms_system(struct rpc_request *r);
/* The result of an operation, with words for what the caller cannot know. */
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
