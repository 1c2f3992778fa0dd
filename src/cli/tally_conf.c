// SPDX-License-Identifier: Apache-2.0
#include "cli/tally_conf.h"

#include "base/base.h"
#include "cli/cmd_tally.h"

static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};

const struct conf_key tally_conf_schema[] = {
	CONF_STRING("server", "listen", struct tally_conf, listen, TALLY_ADDR_DEFAULT, 1, 120,
		    "where to listen: HOST:PORT or unix:PATH"),
	CONF_STRING("server", "metrics", struct tally_conf, metrics, "", 0, 70,
		    "where to serve /metrics and /healthz: HOST:PORT; empty: nowhere"),
	CONF_INT("server", "connections", struct tally_conf, connections, "1024", 1, 100000,
		 "connections at once; more are refused"),
	CONF_SIZE("server", "memory", struct tally_conf, pool_bytes, "32MiB", 4 * MIB, 64 * GIB,
		  "for blobs on their way in and out"),
	CONF_DURATION("server", "grace", struct tally_conf, grace_ns, "5s", 0, CONF_MAX,
		      "for requests under way when asked to stop"),
	CONF_STRING("store", "dir", struct tally_conf, dir, "", 0, 400,
		    "the directory that holds the data; it must exist"),
	CONF_SIZE("store", "size", struct tally_conf, size_bytes, "64MiB", 1 * MIB, 16 * GIB,
		  "the most data to hold"),
	CONF_SIZE("store", "compact", struct tally_conf, compact_bytes, "4MiB", 64 * KIB, 16 * GIB,
		  "a log shorter than this is not compacted"),
	CONF_INT("store", "sessions", struct tally_conf, sessions, "4096", 1, 1000000,
		 "clients that are remembered, so that what they retry is applied once"),
	CONF_DURATION("store", "session_idle", struct tally_conf, session_idle_ns, "1h",
		      1 * NS_PER_S, CONF_MAX, "a client idle for so long may be forgotten"),
	CONF_CHOICE("log", "level", struct tally_conf, log_level, "info", log_levels,
		    "what to log: this level and above"),
};

const size_t tally_conf_count = ARRAY_LEN(tally_conf_schema);
