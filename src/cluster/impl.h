// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of cluster/ only. */
#ifndef CLUSTER_IMPL_H
#define CLUSTER_IMPL_H

#include "cluster/choose.h"

/* A disk as choosing sees it: flat, with its domains as indexes. Gone disks have no candidate. */
struct cluster_candidate {
	uint64_t id;
	uint64_t hash;
	uint32_t rack, node; /* indexes from 0 */
	uint32_t position;
	uint32_t weight;
	uint16_t local_k, local_p;
	uint8_t media;
	bool pool;
	bool online;
	uint8_t share;        /* how many shuffles it takes part in */
	uint8_t step, offset; /* which: see takes_part() */
};

void cluster_drop_orders(struct cluster *c);

/* What a choice is made from; see choose.c. */
struct choosing {
	struct cluster *cluster;
	const struct cluster_want *want;
	struct cluster_choice *out;
	uint64_t block_hash;
	uint32_t shuffle;
	const uint32_t *order; /* candidates */
	uint16_t *rack_used, *node_used;
	uint8_t *unavailable; /* of a candidate: taken, kept, excluded or not fit */
	uint32_t taken;       /* with those kept */
	uint32_t needed;      /* the same, in the end */
	bool pools;           /* choose pools, of the want's local shape if it is mlec */
};

bool candidate_takes_part(const struct cluster_candidate *s, uint32_t shuffle);
void choosing_take(struct choosing *ch, uint32_t candidate);
/* pool.c: false when there are too few racks for groups. */
bool choose_network_pool(struct choosing *ch, int *rc);

#endif
