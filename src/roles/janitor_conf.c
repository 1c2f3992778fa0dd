// SPDX-License-Identifier: Apache-2.0
#include "roles/janitor_conf.h"

#include "base/base.h"
#include "meta_api/types.h"

#define DAY_NS (86400 * NS_PER_S)

static const char *const methods[] = {"r_min", "r_hyb", "r_fco", "r_all", NULL}; /* as janitor.h */
static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};

const struct conf_key janitor_conf_schema[] = {
	CONF_STRING("janitor", "metadata", struct janitor_conf, metadata, "127.0.0.1:7000", 1, 2000,
		    "addresses of the metadata servers, with commas between"),
	CONF_STRING("janitor", "metrics", struct janitor_conf, metrics, "", 0, 70,
		    "where to serve /metrics and /healthz: HOST:PORT; empty: nowhere"),
	CONF_STRING("janitor", "rack", struct janitor_conf, rack, "", 0, 63,
		    "the rack it stands in; empty: outside of all, so that all it moves crosses "
		    "racks"),
	CONF_SIZE("janitor", "memory", struct janitor_conf, memory_bytes, "640MiB", 64 * MIB,
		  64 * GIB, "for blocks under repair"),
	CONF_DURATION("janitor", "lease", struct janitor_conf, lease_ns, "1m", NS_PER_S, DAY_NS,
		      "after so long without a sign another takes over its work"),
	CONF_DURATION("janitor", "round", struct janitor_conf, round_ns, "30s", 100 * NS_PER_MS,
		      DAY_NS, "pause between rounds of collection and of repair"),
	CONF_DURATION("collection", "grace", struct janitor_conf, grace_ns, "1h", META_GRACE_MIN,
		      365 * DAY_NS,
		      "what was deleted or left behind is kept at least so long; longer than any "
		      "cache's ttl and than a write takes"),
	CONF_DURATION("collection", "orphans", struct janitor_conf, orphan_ns, "6h", NS_PER_S,
		      365 * DAY_NS, "between looks for chunks that no record knows"),
	CONF_INT("collection", "deletes", struct janitor_conf, deletes_per_s, "2000", 1, 10000000,
		 "chunks deleted each second, at most"),
	CONF_DURATION("repair", "delay", struct janitor_conf, delay_ns, "30m", NS_PER_S,
		      365 * DAY_NS,
		      "a silent node, or a disk with errors, counts as lost after so long; one "
		      "that is declared failed or gone at once"),
	CONF_DURATION("repair", "look", struct janitor_conf, look_ns, "10m", NS_PER_S, 365 * DAY_NS,
		      "between looks at all blocks for chunks reported as damaged"),
	CONF_SIZE("repair", "disk_rate", struct janitor_conf, disk_bytes_per_s, "100MiB", 1000,
		  1000 * GIB, "bytes that a disk can do in a second"),
	CONF_SIZE("repair", "rack_rate", struct janitor_conf, rack_bytes_per_s, "1GiB", 1000,
		  1000 * GIB, "bytes that a rack's uplink can do in a second"),
	CONF_INT("repair", "percent", struct janitor_conf, percent, "20", 1, 100,
		 "of both for repair"),
	CONF_INT("repair", "parallel", struct janitor_conf, parallel, "4", 1, 256,
		 "blocks at once"),
	CONF_CHOICE("repair", "method", struct janitor_conf, method, "r_min", methods,
		    "what crosses racks for a local pool that lost more than its code bears: as "
		    "little as makes it recoverable, what it cannot mend, all that failed, or all "
		    "it has; for the last two nodes need [disks] repair = outside"),
	CONF_DURATION("scrub", "period", struct janitor_conf, scrub_ns, "7d", NS_PER_S,
		      3650 * DAY_NS, "in which every chunk is verified"),
	CONF_DURATION("survey", "period", struct janitor_conf, survey_ns, "10m", NS_PER_S,
		      365 * DAY_NS,
		      "between counts of all blocks; after each, disks are evened out, blocks "
		      "compacted, and policies carried out"),
	CONF_INT("balance", "spread", struct janitor_conf, spread_percent, "10", 1, 1000,
		 "how uneven disks may be filled, in percent of the mean"),
	CONF_INT("compaction", "dead", struct janitor_conf, dead_percent, "50", 1, 99,
		 "percent of a block of many files that must be dead before it is compacted"),
	CONF_CHOICE("log", "level", struct janitor_conf, log_level, "info", log_levels,
		    "what to log: this level and above"),
};

const size_t janitor_conf_count = ARRAY_LEN(janitor_conf_schema);
