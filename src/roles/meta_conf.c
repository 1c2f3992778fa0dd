// SPDX-License-Identifier: Apache-2.0
#include "roles/meta_conf.h"

#include "base/base.h"
#include "meta/meta.h"

static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const engines[] = {"rocksdb", "rados", "mem", NULL};
static const char *const placements[] = {"clustered", "declustered", NULL}; /* as code/place.h */

const struct conf_key meta_conf_schema[] = {
	CONF_STRING("meta", "listen", struct meta_conf, listen, "127.0.0.1:7000", 1, 120,
		    "where to listen: HOST:PORT or unix:PATH"),
	CONF_STRING("meta", "metrics", struct meta_conf, metrics, "", 0, 70,
		    "where to serve /metrics and /healthz: HOST:PORT; empty: nowhere"),
	CONF_SIZE("meta", "memory", struct meta_conf, pool_bytes, "64MiB", 16 * MIB, 64 * GIB,
		  "for large requests on their way"),
	CONF_INT("meta", "connections", struct meta_conf, connections, "4096", 1, 100000,
		 "connections at once; more are refused"),
	CONF_DURATION("meta", "grace", struct meta_conf, grace_ns, "5s", 0, CONF_MAX,
		      "for requests under way when asked to stop"),
	CONF_BOOL("cluster", "format", struct meta_conf, format, "false",
		  "make a cluster when the store is empty"),
	CONF_STRING("cluster", "id", struct meta_conf, cluster, "", 0, 32,
		    "of a cluster that is made: 32 hexadecimal digits; empty: drawn"),
	CONF_STRING("cluster", "tenant", struct meta_conf, tenant, "default", 1, 64,
		    "the first tenant of a cluster that is made"),
	CONF_CHOICE("cluster", "network", struct meta_conf, network_place, "declustered",
		    placements, "how MLEC's network stripes lie, in a cluster that is made"),
	CONF_CHOICE("store", "engine", struct meta_conf, engine, "rocksdb", engines,
		    "rocksdb: one server, on its own disk; rados: any number; mem: for tests"),
	CONF_STRING("store", "dir", struct meta_conf, dir, "", 0, 400,
		    "rocksdb: the folder of the data; its parent must exist"),
	CONF_SIZE("store", "cache", struct meta_conf, cache_bytes, "0", 0, 1024 * GIB,
		  "rocksdb: memory for rows, and for blocks, indexes and filters, half for each, "
		  "8MiB or more; 0: an eighth of the machine's, 256MiB or more"),
	CONF_SIZE("store", "memtable", struct meta_conf, memtable_bytes, "32MiB", 1 * MIB, 1 * GIB,
		  "rocksdb: what is not yet in tables; bounds the time of a restart"),
	CONF_BOOL("store", "salvage", struct meta_conf, salvage, "false",
		  "rocksdb: cut a damaged log off at the damage, and lose what follows"),
	CONF_STRING("store", "ceph_conf", struct meta_conf, ceph_conf, "", 0, 400,
		    "rados: path of ceph.conf; empty: where librados looks"),
	CONF_STRING("store", "ceph_user", struct meta_conf, ceph_user, "", 0, 100,
		    "rados: who to be; empty: client.admin"),
	CONF_STRING("store", "pool", struct meta_conf, pool, "terrane", 1, 100,
		    "rados: the pool, replicated"),
	CONF_STRING("store", "namespace", struct meta_conf, space, "terrane", 1, 100,
		    "rados: the namespace in the pool"),
	CONF_INT("store", "partition_bits", struct meta_conf, partition_bits, "12", 0, 20,
		 "2^bits partitions of each layer, in a store that is new"),
	CONF_INT("store", "spread", struct meta_conf, spread, "0", 0, 100000000,
		 "names of one directory in one partition, about, before it is spread over "
		 "several, in a store that is new; 0: rocksdb never, rados 20000"),
	CONF_SIZE("cache", "size", struct meta_conf, sealed_cache_bytes, "64MiB", 0, 1024 * GIB,
		  "memory for sealed metadata"),
	CONF_DURATION("cache", "ttl", struct meta_conf, sealed_ttl_ns, "10s", 0, META_CACHE_TTL_MAX,
		      "how long something sealed may be seen after it was removed"),
	CONF_INT("limits", "partition_rate", struct meta_conf, partition_rate, "50000", 0,
		 1000000000, "queries a second of one partition; 0: any number"),
	CONF_INT("limits", "partition_burst", struct meta_conf, partition_burst, "0", 0, 1000000000,
		 "queries of one partition at once; 0: a quarter of the rate"),
	CONF_DURATION("usage", "every", struct meta_conf, usage_ns, "1h", 0, CONF_MAX,
		      "how often the usage of directories (du) is counted, by one of the servers; "
		      "0: never"),
	CONF_DURATION("nodes", "beat", struct meta_conf, beat_ns, "1s", 10 * NS_PER_MS,
		      3600 * NS_PER_S, "how often nodes are to report"),
	CONF_DURATION("nodes", "suspect", struct meta_conf, suspect_ns, "5s", 50 * NS_PER_MS,
		      CONF_MAX, "a node silent for so long gets no new chunks"),
	CONF_DURATION("nodes", "failed", struct meta_conf, failed_ns, "15m", 100 * NS_PER_MS,
		      CONF_MAX, "a node silent for so long is repaired without"),
	CONF_CHOICE("log", "level", struct meta_conf, log_level, "info", log_levels,
		    "what to log: this level and above"),
};

const size_t meta_conf_count = ARRAY_LEN(meta_conf_schema);
