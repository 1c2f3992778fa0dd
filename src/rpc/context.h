// SPDX-License-Identifier: Apache-2.0
/*
 * Who asks, on whose behalf, and for what: travels with every request, from the first client through
 * every service that works on its behalf. Strings are never NULL; empty means not said.
 */
#ifndef RPC_CONTEXT_H
#define RPC_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

struct arena;

enum rpc_traffic_class { RPC_CLASS_NONE, RPC_GOLD, RPC_SILVER, RPC_BRONZE };

struct rpc_context {
	const char *tenant;
	const char *traffic_group;
	enum rpc_traffic_class traffic_class;
	const uint8_t *token;
	size_t token_len;
	/* Tags, for the policies of the tiers; 0 and empty when not known. */
	uint64_t directory_id;
	const char *path;
	uint64_t job_id;
	uint32_t placement_category;
};

/* Nothing said. */
void rpc_context_init(struct rpc_context *c);

/* Bytes it takes on the wire; 0 when nothing is said. Write puts exactly so many. */
size_t rpc_context_size(const struct rpc_context *c);
size_t rpc_context_write(const struct rpc_context *c, uint8_t *out);

/* Strings and token are the arena's. -EBADMSG, -EMSGSIZE, -ENOMEM. */
int rpc_context_read(struct rpc_context *c, struct arena *a, const uint8_t *data, size_t len);

#endif
