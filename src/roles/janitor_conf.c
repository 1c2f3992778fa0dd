// SPDX-License-Identifier: Apache-2.0
#include "roles/janitor_conf.h"

#include "base/base.h"
#include "meta_api/types.h"
#include "roles/role_security.h"

#define JANITOR_THREADS "1"
#define DAY_NS (86400 * NS_PER_S)

static const char *const methods[] = {"r_min", "r_hyb", "r_fco", "r_all",
				      NULL}; /* in the order of enum janitor_method */
static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};

const struct conf_key janitor_conf_schema[] = {
	CONF_STRING("janitor", "metadata", struct janitor_conf, metadata, "127.0.0.1:7000", 1, 2000,
		    "addresses of the metadata servers, separated by commas"),
	CONF_STRING("janitor", "metrics", struct janitor_conf, metrics, "", 0, 70,
		    "where to serve /metrics and /healthz: HOST:PORT; empty: nowhere"),
	CONF_STRING("janitor", "rack", struct janitor_conf, rack, "", 0, 63,
		    "the rack of this machine; empty: none, so that all its traffic counts as "
		    "traffic between racks"),
	CONF_SIZE("janitor", "memory", struct janitor_conf, memory_bytes, "640MiB", 64 * MIB,
		  64 * GIB, "memory for blocks under repair"),
	CONF_STRING("janitor", "threads", struct janitor_conf, threads, JANITOR_THREADS, 1, 4,
		    "threads that move the bytes of repair and rebalancing; auto: the processors "
		    "that the process may use"),
	CONF_DURATION("janitor", "lease", struct janitor_conf, lease_ns, "1m", NS_PER_S, DAY_NS,
		      "another janitor takes over its work after so long without a renewal"),
	CONF_DURATION("janitor", "round", struct janitor_conf, round_ns, "30s", 100 * NS_PER_MS,
		      DAY_NS, "pause between rounds of collection and of repair"),
	CONF_DURATION(
		"collection", "grace", struct janitor_conf, grace_ns, "1h", META_GRACE_MIN,
		365 * DAY_NS,
		"grace period: deleted objects and garbage are kept at least so long; must be "
		"longer than the ttl of caches and than a write"),
	CONF_DURATION("collection", "orphans", struct janitor_conf, orphan_ns, "6h", NS_PER_S,
		      365 * DAY_NS,
		      "interval between searches for orphans, chunks that no record names"),
	CONF_INT("collection", "deletes", struct janitor_conf, deletes_per_s, "2000", 1, 10000000,
		 "chunks deleted per second, at most"),
	CONF_DURATION("repair", "delay", struct janitor_conf, delay_ns, "30m", NS_PER_S,
		      365 * DAY_NS,
		      "chunks of a suspect node or disk are rebuilt after so long; those of a "
		      "failed or removed one at once"),
	CONF_DURATION("repair", "look", struct janitor_conf, look_ns, "10m", NS_PER_S, 365 * DAY_NS,
		      "interval between searches of all blocks for chunks reported as damaged"),
	CONF_SIZE("repair", "disk_rate", struct janitor_conf, disk_bytes_per_s, "100MiB", 1000,
		  1000 * GIB, "bytes per second that a disk can read or write"),
	CONF_SIZE("repair", "rack_rate", struct janitor_conf, rack_bytes_per_s, "1GiB", 1000,
		  1000 * GIB, "bytes per second that the uplink of a rack can carry"),
	CONF_INT("repair", "percent", struct janitor_conf, percent, "20", 1, 100,
		 "percent of disk_rate and rack_rate that repair may use"),
	CONF_INT("repair", "parallel", struct janitor_conf, parallel, "4", 1, 256,
		 "blocks under repair at the same time"),
	CONF_CHOICE("repair", "method", struct janitor_conf, method, "r_min", methods,
		    "how to repair a local pool that lost more than its code tolerates. Read from "
		    "other racks: r_min as little as makes the pool recoverable, r_hyb what the "
		    "pool cannot rebuild, r_fco all failed chunks, r_all the whole pool; r_fco "
		    "and r_all need [disks] repair = outside on nodes"),
	CONF_DURATION("scrub", "period", struct janitor_conf, scrub_ns, "7d", NS_PER_S,
		      3650 * DAY_NS,
		      "time in which every chunk is read and compared with its checksum"),
	CONF_DURATION("survey", "period", struct janitor_conf, survey_ns, "10m", NS_PER_S,
		      365 * DAY_NS,
		      "interval between counts of all blocks; after each count the janitor "
		      "rebalances disks, compacts blocks and applies policies"),
	CONF_INT("balance", "spread", struct janitor_conf, spread_percent, "10", 1, 1000,
		 "rebalance when disks differ by more than this percent of their mean use"),
	CONF_INT("compaction", "dead", struct janitor_conf, dead_percent, "50", 1, 99,
		 "compact a packed block when this percent of it belongs to no file"),
	CONF_STRING("security", "credentials", struct janitor_conf, credentials, "", 0, 1024,
		    "file with the credentials of the janitor, which only its owner may read; "
		    "empty: none"),
	ROLE_SECURITY_KEYS(struct janitor_conf),
	ROLE_METRICS_KEY(struct janitor_conf),
	CONF_CHOICE("log", "level", struct janitor_conf, log_level, "info", log_levels,
		    "what to log: this level and above"),
};

const size_t janitor_conf_count = ARRAY_LEN(janitor_conf_schema);
