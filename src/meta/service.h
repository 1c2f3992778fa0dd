// SPDX-License-Identifier: Apache-2.0
/*
 * The metadata service: it serves the metadata of a store over rpc. The caller owns the store. Several processes can
 * serve the same store if its engine allows this.
 *
 * The context of a request names its tenant; an unknown name is refused (-EACCES). The name "system" may do operations
 * that belong to no tenant, like creating tenants and changing the cluster map; "system:7" acts for tenant 7.
 *
 * With credentials (root) every client authenticates itself, and the policy decides on each request by the identity of its
 * connection (service_access.c), whatever tenant the context names. Without them everything is allowed.
 */
#ifndef META_SERVICE_H
#define META_SERVICE_H

#include <stdint.h>

#include "meta/map.h"
#include "meta/meta.h"

struct audit_log;
struct credentials;
struct kv;
struct rt_team;
struct secure_tls;
struct strbuf;
struct meta_service;

struct meta_serve_options {
	const char *listen;
	const struct credentials *
		root; /* of the metadata servers; outlives meta_serve; NULL: clients are not authenticated */
	struct secure_tls *tls;  /* outlives meta_serve; NULL: without TLS */
	struct audit_log *audit; /* outlives meta_serve; NULL: none */
	/* loops that serve; the first is the calling one, which opened the kv. Outlives meta_serve. NULL: this loop */
	struct rt_team *team;
	struct meta_options meta;
	struct meta_map_options map;
	uint64_t partition_rate; /* limit of queries per second of one partition; 0: no limit */
	/* number of queries of one partition that may come at once; 0: a quarter of partition_rate */
	uint64_t partition_burst;
	/* price of flash (placement/price.h): use at which it stays, in percent, and time in which it follows; 0: defaults */
	uint32_t price_goal_percent;
	uint64_t price_settle_ns;
	uint64_t usage_ns;   /* interval of counting the usage of directories; 0: never */
	uint64_t pool_bytes; /* memory for payloads and bodies of large requests; 0: 64 MiB */
	/* largest number of connections; 0: the default of rpc_server_open */
	size_t connections_max;
	/* largest number of concurrent requests of one connection; 0: 1024 */
	size_t in_flight_max;
	/* time after which a stalled connection is closed; 0: the default of rpc_server_open */
	uint64_t stall_ns;
	/* time that running requests get to finish after the process was asked to stop */
	uint64_t grace_ns;
	/* Waits until the server must end. NULL: rt_shutdown_wait, when the process is asked to stop. */
	int (*stop)(void *ctx);
	/* Called once when the server accepts requests; s is valid until `ended` is called. If it returns an error,
	 * meta_serve ends and returns this error. May be NULL. */
	int (*ready)(void *ctx, const char *addr, struct meta_service *s);
	/* Called when meta_serve ends, before the server is closed. May be NULL. */
	void (*ended)(void *ctx);
	void *ctx;
};

/*
 * Creates the cluster and its first tenant in a new store. *id is the id of the cluster: chosen at random if it is 0. If
 * the store already has a cluster, returns 0 and its id. Errors of meta_map_format, meta_open and meta_tenant_create.
 */
int meta_format(struct kv *kv, const struct meta_options *o, struct cluster_id *id,
		enum place_kind network_place, const char *tenant);

/* Writes the identities of a new cluster (identities_make in identity.h). Errors of meta_open and identities_make. */
int meta_format_identities(struct kv *kv, const struct meta_options *o, const char *names);

/*
 * Serves requests until the process is asked to stop, and returns 0. -EIO: the store has failed (kv_health), and the
 * process must be restarted; from the failure until the end every failed request returns -EIO, which makes clients
 * use another server. -ENOENT: the store has no cluster; errors of meta_open, meta_map_open and rpc_server_open.
 */
int meta_serve(struct kv *kv, const struct meta_serve_options *o);

/* Appends the metrics of the service as Prometheus text. On the loop of meta_serve; waits. -EMSGSIZE, -ENOMEM, errors of
 * rt_call. */
int meta_service_metrics(struct meta_service *s, struct strbuf *out);
/* Returns 0 while the service can serve requests. */
int meta_service_health(const struct meta_service *s);

#endif
