// SPDX-License-Identifier: Apache-2.0
/*
 * The tie between a storage node and the metadata: a fiber that registers the node, then reports its disks
 * as often as it is told. The node knows nothing of it: its disks are asked for over its own address, as
 * anybody would.
 *
 * While no metadata server can be reached, or another process has registered as the same node, it keeps trying. When
 * the servers are another cluster's it stops, and the log says why; the node serves on.
 */
#ifndef ROLES_NODE_BEAT_H
#define ROLES_NODE_BEAT_H

#include <stdbool.h>
#include <stdint.h>

struct node_beat;

/* Strings are copied. */
struct node_beat_options {
	const char *metadata; /* addresses of the metadata servers, with commas between */
	uint64_t cluster[2];
	uint64_t node;
	const char *name; /* empty: nodeID */
	const char *rack;
	const char *addr; /* where clients reach the node */
};

/* Starts the fiber. -EINVAL: no or too many addresses; -ENOMEM, -EAGAIN. */
int node_beat_open(struct node_beat **out, const struct node_beat_options *o);
/* Waits. NULL is fine. */
void node_beat_close(struct node_beat *b);

#endif
