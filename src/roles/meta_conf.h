// SPDX-License-Identifier: Apache-2.0
/* The settings of `terrane meta`. */
#ifndef ROLES_META_CONF_H
#define ROLES_META_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"

enum meta_engine { META_ENGINE_ROCKSDB, META_ENGINE_RADOS, META_ENGINE_MEM };

struct meta_conf {
	char *listen;
	char *metrics;
	uint64_t pool_bytes;
	int64_t connections;
	char *threads; /* number of loops, or "auto" */
	uint64_t grace_ns;
	bool format;
	char *cluster;
	char *tenant;
	int network_place;
	char *credentials;
	char *certificates;
	char *audit;
	int tls; /* enum tls_mode */
	char *metrics_token;
	char *identities;
	int engine;
	char *dir;
	uint64_t cache_bytes;
	uint64_t memtable_bytes;
	bool salvage;
	char *ceph_conf;
	char *ceph_user;
	char *pool;
	char *space;
	int64_t partition_bits;
	int64_t spread;
	uint64_t sealed_cache_bytes;
	uint64_t sealed_ttl_ns;
	int64_t partition_rate;
	int64_t partition_burst;
	int64_t price_goal;
	uint64_t price_settle_ns;
	uint64_t usage_ns;
	uint64_t beat_ns;
	uint64_t suspect_ns;
	uint64_t failed_ns;
	int log_level;
};

extern const struct conf_key meta_conf_schema[];
extern const size_t meta_conf_count;

#endif
