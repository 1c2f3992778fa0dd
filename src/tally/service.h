// SPDX-License-Identifier: Apache-2.0
/* A tally store behind a server. */
#ifndef TALLY_SERVICE_H
#define TALLY_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/counters.h"
#include "tally/tally.h"

struct tally_serve_options {
	const char *listen;
	struct tally_options store;
	uint64_t pool_bytes;    /* memory for blobs on their way; 0: 32 MiB */
	size_t connections_max; /* 0: the server's default */
	uint64_t stall_ns;      /* 0: the server's default */
	uint64_t grace_ns;      /* for requests under way at the end */
	/* Called once when requests are taken; the counters live until ended. An error ends it all. May be
	 * NULL. */
	int (*ready)(void *ctx, const char *addr, const struct rpc_counters *counters);
	/* Called at the end with what was counted. May be NULL. */
	void (*ended)(void *ctx, const struct rpc_counters *counters);
	void *ctx;
};

/*
 * Serve until the process is asked to stop: 0. -EIO when the store has failed and must be opened
 * again; -ECANCELED; else why it could not begin, as tally_open and rpc_server_open say.
 */
int tally_serve(const struct tally_serve_options *o);

#endif
