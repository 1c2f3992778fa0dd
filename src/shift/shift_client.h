// SPDX-License-Identifier: Apache-2.0
/* The client of a cache node: a function for each request, over an rpc_channel. */
#ifndef SHIFT_SHIFT_CLIENT_H
#define SHIFT_SHIFT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/client.h"
#include "shift/wire.h"

/* Bytes [off, off + len) of a sealed block. */
struct shift_get {
	uint64_t block;
	uint64_t off, len; /* len from 1 to SHIFT_GET_MAX */
	uint32_t tenant;
	const uint8_t *token; /* SHIFT_TOKEN_BYTES; NULL: none */
	/* SHA-256 of the bytes, CONTENT_DIGEST_BYTES: asks by content, len at most CONTENT_BYTES_MAX; NULL: by block */
	const uint8_t *digest;
	/* The node may be silent for this time at most, in each of the requests that this get sends. */
	uint64_t timeout_ns;
};

/*
 * Reads into the places, whose lengths add up to len, and sets their crc. While the node fetches the bytes it says so
 * within half the timeout, and is asked again: so a get may take as long as the deadline of the fiber, but a node that
 * does not answer costs one timeout. -ENOENT: not here; -ETIME, -ECONNREFUSED and the other errors of rpc_call: the node
 * is dead or slow; -EACCES, -EKEYEXPIRED: the token was refused; -EPROTO.
 */
int shift_get(struct rpc_channel *channel, const struct shift_get *g,
	      const struct rpc_places *into);

/* reply->message is a Terrane__Shift__StatusResponse; the caller frees the reply, also after an error. */
int shift_status(struct rpc_channel *channel, uint32_t buckets_max, uint64_t timeout_ns,
		 struct rpc_reply *reply);

/* Changes a parameter of the control plane (shift.proto). -EINVAL: there is no such parameter, or the value is out of
 * range; reply->error says so. The caller frees the reply. */
int shift_tune(struct rpc_channel *channel, const char *name, double value, uint64_t timeout_ns,
	       struct rpc_reply *reply);

#endif
