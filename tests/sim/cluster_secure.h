// SPDX-License-Identifier: Apache-2.0
/*
 * A simulated cluster with credentials, and an attacker among its clients.
 *
 * Half of all seeds have one. Servers, nodes, janitors and clients authenticate themselves, and nodes demand tokens. The
 * attacker has valid credentials, and a grant to read and write in a tenant of its own. It also knows everything that a
 * leak could tell: the ids of all blocks and chunks, and where they are. It tries to read, change and name them, with
 * tokens of its own, forged ones and none, at nodes and at the metadata. It also has the token keys of one disk, as after
 * a leak, and signs tokens with them that other disks, or a later time, must refuse. Every success is a violation of I12:
 * accesses across tenants = 0. It also replaces the keys of all tokens now and then, as an operator would. What it puts
 * into its own tenant must stay readable, so that a cluster that refuses all does not pass.
 *
 * Wall clocks of such clusters are set wrong by minutes only: beyond the allowed difference a node refuses valid tokens.
 */
#ifndef TESTS_SIM_CLUSTER_SECURE_H
#define TESTS_SIM_CLUSTER_SECURE_H

#include "cluster.h"
#include "secure/secure.h"

#define ATTACKER "mallory"
#define ATTACKER_TENANT "evil"
#define ATTACKER_TENANT_ID 2U
#define CHECKER "checker" /* knows all: operator, janitor, and administrator of the first tenant */
/* Largest error of a wall clock: two of them differ by less than TOKEN_CLOCK_SKEW_MS. */
#define SECURED_CLOCK_NS (130 * NS_PER_S)
#define SELVES (NODES_MAX + 4)

struct kv;
struct meta_options;

/* Credentials of all processes. */
struct world_secrets {
	struct credentials *root;
	struct secure_self selves[SELVES];
	size_t count;
};

/* Returns whether the clusters of a seed have credentials. */
bool secrets_by_seed(uint64_t seed);
/* Makes the credentials; does nothing if the plan has none. */
void secrets_open(struct world *w);
void secrets_close(struct world *w);
/* Returns the identity of this name; empty credentials if the cluster has none. */
const struct secure_self *secrets_self(const struct world *w, const char *name);
/* Returns the credentials of the metadata servers; NULL: there are none. */
const struct credentials *secrets_root(const struct world *w);
/* Writes the identities and the attacker's tenant to the store, unless they are there. */
int secrets_format(struct world *w, struct kv *kv, const struct meta_options *o);

/* cluster_attack.c: a process that tries what it may not. */
void attacker_main(void *role);

#endif
