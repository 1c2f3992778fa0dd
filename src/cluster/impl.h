// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of cluster/ only. */
#ifndef CLUSTER_IMPL_H
#define CLUSTER_IMPL_H

#include "cluster/choose.h"

/* A disk of the map that is not gone, with what a choice needs of the disk, its node and its rack. */
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
	uint8_t share;        /* number of shuffles that the disk takes part in */
	uint8_t step, offset; /* determine in which ones; see candidate_takes_part() */
};

/* Frees the candidates and orders; the next choice makes them again. */
void cluster_drop_orders(struct cluster *c);

/* State of one choice; see choose.c. */
struct choosing {
	struct cluster *cluster;
	const struct cluster_want *want;
	struct cluster_choice *out;
	uint64_t block_hash;
	uint32_t shuffle;
	const uint32_t *order; /* candidates */
	uint16_t *rack_used, *node_used;
	uint8_t *unavailable; /* of a candidate: taken, kept, excluded or not fit */
	uint32_t taken;       /* disks kept and chosen so far */
	uint32_t needed;      /* value of taken at which the choice is complete */
	bool pools; /* choose among pools (of mlec: those of the local shape), not among drives */
};

/* Returns whether the disk takes part in a shuffle; see choose.c. */
bool candidate_takes_part(const struct cluster_candidate *s, uint32_t shuffle);
/* Adds a candidate to the choice. It must be available, and the choice not complete. */
void choosing_take(struct choosing *ch, uint32_t candidate);
/* pool.c: chooses the disks of one network pool; *rc is -ENOMEM then, or unchanged. Returns false, without
 * having chosen, if there are too few racks for a group. */
bool choose_network_pool(struct choosing *ch, int *rc);

#endif
