// SPDX-License-Identifier: Apache-2.0
#include "roles/cache_conf.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "auth/keys.h"
#include "base/base.h"
#include "cache/policies.h"
#include "roles/node_conf.h"
#include "roles/role_security.h"
#include "shift/ring.h"

#define PAYLOADS_SHARE \
	2 /* of the memory for bytes in flight: half for answers, half for reads of the disks */
#define SEGMENT_MIN (64 * KIB)
#define SEGMENT_MAX (4 * MIB)

static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const buckets[] = {
	"directory", "job",   "category", "file",
	"window",    "range", NULL}; /* in the order of enum cachenode_buckets */

const struct conf_key cache_conf_schema[] = {
	CONF_STRING("cache", "cluster", struct cache_conf, cluster, NULL, 32, 32,
		    "id of the cluster: 32 hexadecimal digits"),
	CONF_INT("cache", "id", struct cache_conf, node, NULL, 1, CONF_MAX,
		 "id of the node in the cluster; storage nodes and cache nodes share the numbers"),
	CONF_STRING("cache", "listen", struct cache_conf, listen, "127.0.0.1:7200", 1, 120,
		    "where to listen: HOST:PORT or unix:PATH"),
	CONF_STRING("cache", "metrics", struct cache_conf, metrics, "", 0, 70,
		    "where to serve /metrics and /healthz: HOST:PORT; empty: nowhere"),
	CONF_STRING("cache", "metadata", struct cache_conf, metadata, NULL, 1, 190,
		    "addresses of the metadata servers, separated by commas"),
	CONF_STRING("cache", "announce", struct cache_conf, announce, "", 0, 120,
		    "address for clients; empty: that of listen"),
	CONF_STRING("cache", "rack", struct cache_conf, rack, "rack1", 1, 63, "name of its rack"),
	CONF_STRING("cache", "name", struct cache_conf, name, "", 0, 63,
		    "name of the node; empty: node and its id"),
	CONF_INT("cache", "weight", struct cache_conf, weight, "4", 1, RING_WEIGHT_MAX,
		 "its weight in the ring: nodes with twice the flash have twice the weight; 4 and "
		 "more spread blocks more evenly"),
	CONF_SIZE("cache", "memory", struct cache_conf, pool_bytes, "256MiB",
		  PAYLOADS_SHARE *CACHENODE_POOL_MIN, 1024 * GIB,
		  "memory for bytes in flight, besides dram"),
	CONF_INT("cache", "connections", struct cache_conf, connections, "1024", 1, 100000,
		 "connections at the same time; more are refused"),
	CONF_DURATION("cache", "grace", struct cache_conf, grace_ns, "5s", 0, CONF_MAX,
		      "time for requests in flight after a request to stop"),
	CONF_STRING("cache", "path", struct cache_conf, path, NULL, 1, 1024,
		    "file or block device that holds the cache; a file is made"),
	CONF_SIZE("cache", "flash", struct cache_conf, flash_bytes, NULL, 16 * MIB, CONF_MAX,
		  "bytes of it that are used"),
	CONF_SIZE("cache", "dram", struct cache_conf, dram_bytes, "256MiB", 4 * MIB, 1024 * GIB,
		  "memory for segments in front of the flash; the index needs 32 bytes for each "
		  "segment on flash in addition"),
	CONF_SIZE("cache", "segment", struct cache_conf, segment_bytes, "256KiB", SEGMENT_MIN,
		  SEGMENT_MAX, "unit of the cache; another one empties it"),
	CONF_BOOL("cache", "format", struct cache_conf, format, "false",
		  "use path even if it holds something else, which is lost"),
	CONF_STRING("control", "policy", struct cache_conf, policy, "terrane", 1, 31,
		    "what is admitted and kept; \"terrane cachesim\" compares the policies"),
	CONF_CHOICE(
		"control", "buckets", struct cache_conf, buckets, "directory", buckets,
		"what the policy judges together: what is read of a directory, by a job, of a "
		"placement category, of a file, of a window (equal parts of a directory) or of a "
		"range (equal parts of each file); the last three in directories that registered "
		"jobs read"),
	CONF_INT("control", "bucket_parts", struct cache_conf, bucket_parts, "10", 1,
		 CACHENODE_BUCKET_PARTS_MAX, "number of windows or ranges"),
	CONF_SIZE("control", "write_limit", struct cache_conf, write_limit_bytes_s, "0", 0,
		  CONF_MAX,
		  "bytes per second that may be written to the flash, on average; 0: no limit. "
		  "For dynamic, historic, future and hybrid"),
	CONF_STRING("control", "min_threshold", struct cache_conf, min_threshold, "1.1", 1, 20,
		    "buckets whose priority is not above it are not admitted. For historic, future "
		    "and hybrid, as the rest"),
	CONF_STRING("control", "reinsert_offset", struct cache_conf, reinsert_offset, "0", 1, 20,
		    "what is evicted is written again if the priority of its bucket is so much "
		    "above the admit threshold; 0: never"),
	CONF_DURATION("control", "refresh", struct cache_conf, refresh_ns, "10s", 100 * NS_PER_MS,
		      3600 * NS_PER_S, "period in which priorities are computed"),
	CONF_DURATION("control", "history", struct cache_conf, history_ns, "6h", NS_PER_S,
		      30 * (86400 * NS_PER_S), "length of the request history window"),
	CONF_SIZE("control", "history_memory", struct cache_conf, history_bytes, "8MiB", 64 * KIB,
		  GIB, "its memory"),
	CONF_STRING("control", "shadow", struct cache_conf, shadow, "0", 1, 20,
		    "share of hits, 0 to 1, that are compared with the disks"),
	CONF_STRING("security", "credentials", struct cache_conf, credentials, "", 0, 1024,
		    "file with the credentials of the node, which only its owner may read; empty: "
		    "clients are not authenticated"),
	CONF_DURATION("security", "clock_skew", struct cache_conf, clock_skew_ns, "5m", 0,
		      TOKEN_SKEW_MAX_MS *NS_PER_MS,
		      "by how much the clock of the node may differ from those of the metadata "
		      "servers; tokens are accepted for so much longer"),
	ROLE_SECURITY_KEYS(struct cache_conf),
	ROLE_METRICS_KEY(struct cache_conf),
	ROLE_AUDIT_KEY(struct cache_conf),
	CONF_CHOICE("log", "level", struct cache_conf, log_level, "info", log_levels,
		    "what to log: this level and above"),
};

const size_t cache_conf_count = ARRAY_LEN(cache_conf_schema);

static int refuse(struct strbuf *err, const char *key, const char *value, const char *why)
{
	strbuf_clear(err);
	strbuf_printf(err, "%s = %s: %s", key, value, why);
	return -EINVAL;
}

static int number(const char *key, const char *text, double most, double *out, struct strbuf *err)
{
	char *end = NULL;
	*out = strtod(text, &end);
	if (end == text || *end != '\0' || !(*out >= 0) || !(*out <= most))
		return refuse(err, key, text,
			      most <= 1 ? "must be a number from 0 to 1"
					: "must be a number from 0 to a million");
	return 0;
}

static int split_addrs(struct cache_setup *s, const struct cache_conf *c, struct strbuf *err)
{
	char *rest, *word;
	s->servers = strdup(c->metadata);
	if (s->servers == NULL)
		return -ENOMEM;
	rest = s->servers;
	while ((word = strtok_r(rest, ", \t", &rest)) != NULL) {
		if (s->options.addr_count == META_CLIENT_SERVERS_MAX)
			return refuse(err, "[cache] metadata", c->metadata, "too many addresses");
		s->addrs[s->options.addr_count++] = word;
	}
	if (s->options.addr_count == 0)
		return refuse(err, "[cache] metadata", c->metadata, "the addresses are missing");
	return 0;
}

static int engine_options(struct cache_engine_options *e, const struct cache_conf *c,
			  struct strbuf *err)
{
	*e = (struct cache_engine_options){.path = c->path,
					   .flash_bytes = c->flash_bytes,
					   .segment_bytes = (uint32_t)c->segment_bytes,
					   .dram_bytes = c->dram_bytes,
					   .policy = c->policy,
					   .write_limit_bytes_s = c->write_limit_bytes_s,
					   .refresh_ms = c->refresh_ns / NS_PER_MS,
					   .history_ms = c->history_ns / NS_PER_MS,
					   .history_bytes = c->history_bytes,
					   .format = c->format};
	if (c->segment_bytes % CACHE_PAGE_BYTES != 0)
		return refuse(err, "[cache] segment", "SIZE", "must be a multiple of 4KiB");
	if (cache_policy_find(c->policy) == NULL)
		return refuse(
			err, "[control] policy", c->policy,
			"must be one of lru fifo sieve s3fifo wtinylfu admit-all reject-first "
			"dynamic expert historic future hybrid terrane");
	int rc =
		number("[control] min_threshold", c->min_threshold, 999999, &e->min_threshold, err);
	if (rc == 0)
		rc = number("[control] reinsert_offset", c->reinsert_offset, 999999,
			    &e->reinsert_offset, err);
	return rc == 0 ? role_cluster_id("cache", c->cluster, e->owner, err) : rc;
}

int cache_setup_init(struct cache_setup *s, const struct cache_conf *c, struct strbuf *err)
{
	*s = (struct cache_setup){0};
	s->options = (struct cachenode_options){
		.node = (uint64_t)c->node,
		.listen = c->listen,
		.addrs = s->addrs,
		.fabric = {.memory_bytes = c->pool_bytes / PAYLOADS_SHARE},
		.buckets = (enum cachenode_buckets)c->buckets,
		.bucket_parts = (uint32_t)c->bucket_parts,
		.skew_ms = c->clock_skew_ns / NS_PER_MS,
		.pool_bytes = c->pool_bytes / PAYLOADS_SHARE,
		.connections_max = (size_t)c->connections,
		.grace_ns = c->grace_ns,
	};
	int rc = engine_options(&s->options.engine, c, err);
	if (rc == 0)
		rc = number("[control] shadow", c->shadow, 1, &s->options.shadow, err);
	if (rc == 0)
		rc = split_addrs(s, c, err);
	if (rc < 0)
		cache_setup_fini(s);
	return rc;
}

void cache_setup_fini(struct cache_setup *s)
{
	free(s->servers);
	*s = (struct cache_setup){0};
}
