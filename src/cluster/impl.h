// SPDX-License-Identifier: Apache-2.0
/* Types and functions that only the files of cluster/ use. */
#ifndef CLUSTER_IMPL_H
#define CLUSTER_IMPL_H

#include "cluster/choose.h"

/* A disk of the map that is not gone, with the values of the disk, its node and its rack that a choice needs. */
struct cluster_candidate {
	uint64_t id;
	uint64_t hash;
	uint32_t rack, node; /* indexes of its rack and node, from 0 */
	uint32_t position;
	uint32_t weight;
	uint16_t local_k, local_p;
	uint8_t media;
	bool pool;
	bool online;
	uint8_t share; /* number of shuffles that the disk takes part in */
	/* determine the shuffles that the disk takes part in; see candidate_takes_part() */
	uint8_t step, offset;
};

/* State of one choice of disks; see choose.c. */
struct choosing {
	struct cluster *cluster;
	const struct cluster_want *want;
	struct cluster_choice *out;
	uint64_t block_hash;
	uint32_t shuffle;
	const uint32_t *order; /* indexes of the candidates in the order of the block's shuffle */
	uint16_t *rack_used, *node_used;
	uint8_t *unavailable; /* by candidate: taken, kept, excluded or not suitable */
	uint32_t taken;       /* number of disks kept and chosen so far */
	uint32_t needed;      /* value of taken at which the choice is complete */
	bool pools; /* choose among pools (for mlec: those of the local shape), not among drives */
};

/* Adds a candidate to the choice. The candidate must be available, and the choice must not be complete. */
void choosing_take(struct choosing *ch, uint32_t candidate);
/* Chooses the disks of one network pool (pool.c). Sets *rc to -ENOMEM if memory is missing, else leaves *rc
 * unchanged. Returns false, without having chosen a disk, if there are too few racks for a group. */
bool choose_network_pool(struct choosing *ch, int *rc);

#endif
