// SPDX-License-Identifier: Apache-2.0
/* The settings of `terrane cache`, and the options of the cache node that follow from them. */
#ifndef ROLES_CACHE_CONF_H
#define ROLES_CACHE_CONF_H

#include <stdint.h>

#include "base/conf.h"
#include "cachenode/cachenode.h"
#include "meta_client/meta_client.h"

struct cache_conf {
	char *cluster;
	int64_t node;
	char *listen;
	char *metrics;
	char *metrics_token;
	char *metadata;
	char *announce;
	char *rack;
	char *name;
	int64_t weight;
	uint64_t pool_bytes;
	int64_t connections;
	uint64_t grace_ns;
	char *path;
	uint64_t flash_bytes;
	uint64_t dram_bytes;
	uint64_t segment_bytes;
	bool format;
	char *policy;
	int buckets; /* enum cachenode_buckets */
	int64_t bucket_parts;
	uint64_t write_limit_bytes_s;
	char *min_threshold;
	char *reinsert_offset;
	uint64_t refresh_ns;
	uint64_t history_ns;
	uint64_t history_bytes;
	char *shadow;
	char *credentials;
	uint64_t clock_skew_ns;
	char *certificates;
	char *audit;
	int tls; /* enum tls_mode */
	int log_level;
};

extern const struct conf_key cache_conf_schema[];
extern const size_t cache_conf_count;

/* Options made of the settings. */
struct cache_setup {
	struct cachenode_options options;
	char *servers; /* copy of the addresses, in pieces */
	const char *addrs[META_CLIENT_SERVERS_MAX];
};

/* c must outlive s. -EINVAL with one line in err, -ENOMEM; then there is nothing to free. */
int cache_setup_init(struct cache_setup *s, const struct cache_conf *c, struct strbuf *err);
void cache_setup_fini(struct cache_setup *s);

#endif
