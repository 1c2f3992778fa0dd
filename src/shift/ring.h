// SPDX-License-Identifier: Apache-2.0
/*
 * The consistent-hash ring of cache nodes: which of them caches a block. A pure function of the list of nodes, so that all
 * clients with the same list agree without asking anyone.
 *
 * A node of weight w stands at w * RING_POINTS places of the circle of 64-bit numbers, at hashes of its id. A block belongs
 * to the node of the first point at or after the hash of its id. When a node joins or leaves, or its weight changes, only
 * blocks that it gets or loses move: with n equal nodes, about 1/n of all.
 *
 * With RING_POINTS points for a unit of weight the share of a node differs from its weight's part by a standard deviation
 * of about 1 / sqrt(w * RING_POINTS) of it: 6% for w = 1. Use weights of 4 and more, such as flash in units of 250 GB, for
 * 3% and less.
 */
#ifndef SHIFT_RING_H
#define SHIFT_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_POINTS 256u
#define RING_NODES_MAX 1024u
#define RING_WEIGHT_MAX 64u

struct ring_node {
	uint64_t id;
	uint32_t weight; /* 0: it caches nothing */
};

struct ring {
	struct ring_point {
		uint64_t at;
		uint32_t node; /* place in the list */
	} * points;            /* in order of `at` */
	uint32_t n;
};

/* The order of the nodes does not matter. -EINVAL: too many nodes, a weight above RING_WEIGHT_MAX, or an id twice;
 * -ENOMEM. */
int ring_init(struct ring *r, const struct ring_node *nodes, size_t n);
void ring_fini(struct ring *r);

/* Returns the place in the list of the node that caches the block; -ENOENT: no node has a weight. */
int64_t ring_find(const struct ring *r, uint64_t block);

#endif
