// SPDX-License-Identifier: Apache-2.0
/*
 * The guard of a storage node: finds the keys of its clients. The node's own key follows from its credentials; the metadata
 * servers give those of other identities, for this node alone. They stay in memory for GUARD_FRESH_NS; while no metadata
 * server answers, for GUARD_STALE_NS, so that clients that the node knows are served on. A client that does not prove the key makes the node ask again, at most
 * once a second for each name, so that replaced credentials are known at their second try.
 *
 * Memory and requests are bounded: GUARD_NAMES_MAX names, unknown ones included, and one request for a name at a time.
 */
#ifndef ROLES_NODE_GUARD_H
#define ROLES_NODE_GUARD_H

#include "base/base.h"
#include "secure/secure.h"

#define GUARD_FRESH_NS (30 * NS_PER_S)
#define GUARD_STALE_NS (3600 * NS_PER_S)
#define GUARD_NAMES_MAX 16384

struct node_guard;

struct node_guard_options {
	const struct secure_self *self; /* credentials of the node; outlives the guard */
	uint64_t node;
	struct audit_log *audit; /* gets refused logins; outlives the guard; NULL: none */
	const char *
		metadata; /* addresses of the metadata servers, separated by commas; empty: there are none */
};

/* Opens the guard on this loop. -EINVAL: too many addresses; -ENOMEM, -EAGAIN. */
int node_guard_open(struct node_guard **out, const struct node_guard_options *o);
/* No server may use it. g may be NULL. */
void node_guard_close(struct node_guard *g);

/* Returns what servers of the node demand, on any loop. */
const struct secure_guard *node_guard_of(const struct node_guard *g);

struct key_pair;
/* Gets the keys of the node's disks from the metadata (struct node_key_source), on the loop of the guard. Without metadata
 * servers there are none. Errors of meta_client_token_keys. */
int node_guard_keys(void *guard, struct key_pair *pairs, size_t n);

#endif
