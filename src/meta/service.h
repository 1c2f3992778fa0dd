// SPDX-License-Identifier: Apache-2.0
/*
 * The metadata behind a server. The store is the caller's; any number of services, in any number of
 * processes, may serve the same one when its engine allows.
 *
 * Who asks is the tenant of the request's context, by name; a name that no tenant has is refused
 * (-EACCES). "system" may do what is no tenant's: make tenants, change the cluster map; "system:7" acts
 * for tenant 7. (Whether one may call oneself so is for signed tokens to say.)
 */
#ifndef META_SERVICE_H
#define META_SERVICE_H

#include <stdint.h>

#include "meta/map.h"
#include "meta/meta.h"

struct kv;
struct strbuf;
struct meta_service;

struct meta_serve_options {
	const char *listen;
	struct meta_options meta;
	struct meta_map_options map;
	uint64_t partition_rate;  /* queries a second of one partition; 0: any */
	uint64_t partition_burst; /* 0: a quarter of that */
	uint64_t usage_ns;        /* between two counts of the usage of directories; 0: never */
	uint64_t pool_bytes;      /* memory for large requests on their way; 0: 64 MiB */
	size_t connections_max;   /* 0: the server's default */
	size_t in_flight_max;     /* of one connection; 0: 1024 */
	uint64_t stall_ns;        /* 0: the server's default */
	uint64_t grace_ns;        /* for requests under way at the end */
	/* Called once when requests are taken; the service holds until ended. An error ends it at once,
	 * and is returned. May be NULL. */
	int (*ready)(void *ctx, const char *addr, struct meta_service *s);
	/* Called at the end, before anything is closed. May be NULL. */
	void (*ended)(void *ctx);
	void *ctx;
};

/*
 * Makes the cluster and its first tenant in a store that is new: 0; also when it is there already, then
 * its id is returned. The errors of meta_map_format, meta_open and meta_tenant_create.
 */
int meta_format(struct kv *kv, const struct meta_options *o, struct cluster_id *id,
		enum place_kind network_place, const char *tenant);

/*
 * Serves until the process is asked to stop: 0. -EIO: the store has failed (kv_health), whoever met it, and
 * the process must be started again; until it has ended every error is -EIO, by which clients go on to
 * another server. -ENOENT: there is no cluster in the store; else why it could not begin, as meta_open,
 * meta_map_open and rpc_server_open say.
 */
int meta_serve(struct kv *kv, const struct meta_serve_options *o);

/* Prometheus text. -EMSGSIZE, -ENOMEM. */
int meta_service_metrics(struct meta_service *s, struct strbuf *out);
/* 0 while it serves. */
int meta_service_health(const struct meta_service *s);

#endif
