// SPDX-License-Identifier: Apache-2.0
/*
 * A client of the tally service. Changes are retried until the time is up and are applied once; they
 * go one after the other, in the order in which fibers ask.
 */
#ifndef TALLY_TALLY_CLIENT_H
#define TALLY_TALLY_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "rpc/client.h"
#include "tally/tally.h"

struct tally_client;

struct tally_client_options {
	struct rpc_channel_options channel;
	uint64_t client_id;  /* 0: drawn at random. Two clients must never share one */
	uint64_t timeout_ns; /* of each call; 0: 10 s */
	/* Until there was a connection, fail when there is none, instead of trying for timeout_ns. */
	bool impatient;
};

int tally_client_open(struct tally_client **out, const char *addr,
		      const struct tally_client_options *o);
/* Waits: ends the client's session when it can. */
void tally_client_close(struct tally_client *c);

/* These wait. The errors of rpc_call and of tally.h; the words that came with the last one are in
 * tally_client_error. */
int tally_client_add(struct tally_client *c, const char *name, int64_t delta, int64_t *value);
int tally_client_get(struct tally_client *c, const char *name, int64_t *value);
/* The first len bytes of b with their CRC-32C. */
int tally_client_put(struct tally_client *c, const char *name, struct buf *b, size_t len,
		     uint32_t crc);
/* *out is the caller's reference, with len set; NULL for an empty blob. */
int tally_client_get_blob(struct tally_client *c, const char *name, struct buf **out);
int tally_client_stat(struct tally_client *c, struct tally_stat *out);

/* Of the last change, when it failed: whether it may have been applied, or may yet be. */
bool tally_client_in_doubt(const struct tally_client *c);
const char *tally_client_error(const struct tally_client *c);
const struct rpc_counters *tally_client_counters(const struct tally_client *c);

#endif
