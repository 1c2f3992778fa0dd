// SPDX-License-Identifier: Apache-2.0
/*
 * Heartbeats of a storage node: a fiber that registers the node with the metadata, then reports its disks at the
 * interval that the metadata returns. The node does not know of the metadata: the fiber asks it for its disks over the
 * address that clients use.
 *
 * The fiber tries again while no metadata server can be reached, and while another process is registered as the same
 * node. It ends, with the reason in the log, when the servers serve another cluster or refuse the node's settings; the
 * node serves on.
 */
#ifndef ROLES_NODE_BEAT_H
#define ROLES_NODE_BEAT_H

#include <stdbool.h>
#include <stdint.h>

struct node_beat;
struct rt_team;
struct secure_self;

/* Options of the heartbeats. The strings are copied. */
struct node_beat_options {
	const char *metadata; /* addresses of the metadata servers, separated by commas */
	uint64_t cluster[2];
	uint64_t node;
	const char *name; /* empty: "node" and its id */
	const char *rack;
	const char *addr;               /* address for clients */
	uint32_t cache_weight;          /* of a cache node, which has no disks; 0: a storage node */
	const struct secure_self *self; /* identity of the node; outlives the fiber; NULL: none */
	/* loops of the node's process, whose load is reported; outlives the fiber; NULL: that of the caller */
	const struct rt_team *team;
};

/* Starts the fiber. -EINVAL: the options have no address or too many addresses; -ENOMEM, -EAGAIN. */
int node_beat_open(struct node_beat **out, const struct node_beat_options *o);
/* Ends the fiber, waits for it and frees b, which may be NULL. */
void node_beat_close(struct node_beat *b);

#endif
