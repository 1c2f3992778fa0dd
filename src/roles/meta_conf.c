// SPDX-License-Identifier: Apache-2.0
#include "roles/meta_conf.h"

#include "base/base.h"
#include "meta/meta.h"
#include "roles/role_security.h"

#define META_THREADS "1"

static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const engines[] = {"rocksdb", "rados", "mem", NULL};
static const char *const placements[] = {"clustered", "declustered",
					 NULL}; /* in the order of enum place_kind */

const struct conf_key meta_conf_schema[] = {
	CONF_STRING("meta", "listen", struct meta_conf, listen, "127.0.0.1:7000", 1, 120,
		    "where to listen: HOST:PORT or unix:PATH"),
	CONF_STRING("meta", "metrics", struct meta_conf, metrics, "", 0, 70,
		    "where to serve /metrics and /healthz: HOST:PORT; empty: nowhere"),
	CONF_SIZE("meta", "memory", struct meta_conf, pool_bytes, "64MiB", 16 * MIB, 64 * GIB,
		  "memory for large requests in flight"),
	CONF_INT("meta", "connections", struct meta_conf, connections, "4096", 1, 100000,
		 "connections at the same time; more are refused"),
	CONF_STRING("meta", "threads", struct meta_conf, threads, META_THREADS, 1, 4,
		    "threads that serve; auto: the processors that the process may use"),
	CONF_DURATION("meta", "grace", struct meta_conf, grace_ns, "5s", 0, CONF_MAX,
		      "time for requests in flight after a request to stop"),
	CONF_BOOL("cluster", "format", struct meta_conf, format, "false",
		  "make a cluster if the store is empty"),
	CONF_STRING("cluster", "id", struct meta_conf, cluster, "", 0, 32,
		    "id of a cluster to make: 32 hexadecimal digits; empty: a random one"),
	CONF_STRING("cluster", "tenant", struct meta_conf, tenant, "default", 1, 64,
		    "the first tenant of a cluster to make"),
	CONF_CHOICE("cluster", "network", struct meta_conf, network_place, "declustered",
		    placements, "layout of the network stripes of MLEC in a cluster to make"),
	CONF_STRING(
		"security", "credentials", struct meta_conf, credentials, "", 0, 1024,
		"file with the root of all secrets, the same for all metadata servers; only its "
		"owner may read it; empty: clients are not authenticated"),
	ROLE_SECURITY_KEYS(struct meta_conf),
	ROLE_METRICS_KEY(struct meta_conf),
	ROLE_AUDIT_KEY(struct meta_conf),
	CONF_LIST(
		"security", "identity", struct meta_conf, identities, 100000,
		"a first identity of a cluster to make: janitor, node-NUMBER, cache-NUMBER; others "
		"become operators"),
	CONF_CHOICE("store", "engine", struct meta_conf, engine, "rocksdb", engines,
		    "rocksdb: one server with its own disk; rados: any number of servers; mem: "
		    "nothing is kept, for tests"),
	CONF_STRING("store", "dir", struct meta_conf, dir, "", 0, 400,
		    "rocksdb: folder of the store; its parent must exist"),
	CONF_SIZE("store", "cache", struct meta_conf, cache_bytes, "0", 0, 1024 * GIB,
		  "rocksdb: cache memory, 8MiB or more: half for rows, half for blocks, indexes "
		  "and filters; 0: an eighth of the machine's memory, 256MiB or more"),
	CONF_SIZE("store", "memtable", struct meta_conf, memtable_bytes, "32MiB", 1 * MIB, 1 * GIB,
		  "rocksdb: size of the memtable; bounds the time of a restart"),
	CONF_BOOL("store", "salvage", struct meta_conf, salvage, "false",
		  "rocksdb: truncate a damaged log at the damage; later changes are lost"),
	CONF_STRING("store", "ceph_conf", struct meta_conf, ceph_conf, "", 0, 400,
		    "rados: path of ceph.conf; empty: the default of librados"),
	CONF_STRING("store", "ceph_user", struct meta_conf, ceph_user, "", 0, 100,
		    "rados: Ceph user; empty: client.admin"),
	CONF_STRING("store", "pool", struct meta_conf, pool, "terrane", 1, 100,
		    "rados: name of the pool, which must be replicated"),
	CONF_STRING("store", "namespace", struct meta_conf, space, "terrane", 1, 100,
		    "rados: namespace in the pool"),
	CONF_INT("store", "partition_bits", struct meta_conf, partition_bits, "12", 0, 20,
		 "a new store gets 2^bits partitions in each layer"),
	CONF_INT("store", "spread", struct meta_conf, spread, "0", 0, 100000000,
		 "in a new store: number of names from which a directory is spread over several "
		 "partitions; 0: never for rocksdb, 20000 for rados"),
	CONF_SIZE("cache", "size", struct meta_conf, sealed_cache_bytes, "64MiB", 0, 1024 * GIB,
		  "memory for sealed metadata"),
	CONF_DURATION("cache", "ttl", struct meta_conf, sealed_ttl_ns, "10s", 0, META_CACHE_TTL_MAX,
		      "how long a removed sealed object may still be read from a cache"),
	CONF_INT("limits", "partition_rate", struct meta_conf, partition_rate, "50000", 0,
		 1000000000, "queries per second of one partition; 0: no limit"),
	CONF_INT("limits", "partition_burst", struct meta_conf, partition_burst, "0", 0, 1000000000,
		 "queries of one partition in a burst; 0: a quarter of partition_rate"),
	CONF_INT("placement", "goal", struct meta_conf, price_goal, "65", 1, 99,
		 "use of flash in percent at which the admission of categories stays as it is"),
	CONF_DURATION("placement", "settle", struct meta_conf, price_settle_ns, "8h", NS_PER_S,
		      30ULL * 86400 * NS_PER_S,
		      "time in which the admission follows a use above or below the goal"),
	CONF_DURATION("usage", "every", struct meta_conf, usage_ns, "1h", 0, CONF_MAX,
		      "longest interval between counts of the usage of directories, by one of the "
		      "servers; small trees are counted every minute; 0: never"),
	CONF_DURATION("nodes", "beat", struct meta_conf, beat_ns, "1s", 10 * NS_PER_MS,
		      3600 * NS_PER_S, "interval between heartbeats of a node"),
	CONF_DURATION("nodes", "suspect", struct meta_conf, suspect_ns, "5s", 50 * NS_PER_MS,
		      CONF_MAX,
		      "a node without heartbeat for so long is suspect: it gets no new chunks"),
	CONF_DURATION("nodes", "failed", struct meta_conf, failed_ns, "15m", 100 * NS_PER_MS,
		      CONF_MAX,
		      "a node without heartbeat for so long is failed: its chunks are rebuilt"),
	CONF_CHOICE("log", "level", struct meta_conf, log_level, "info", log_levels,
		    "what to log: this level and above"),
};

const size_t meta_conf_count = ARRAY_LEN(meta_conf_schema);
