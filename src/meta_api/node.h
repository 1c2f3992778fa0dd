// SPDX-License-Identifier: Apache-2.0
/* The report of a node about itself and its disks, sent when it starts and with each heartbeat (meta/map.h). */
#ifndef META_API_NODE_H
#define META_API_NODE_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "cluster/load.h"

#define META_MAP_NODE_DISKS_MAX 512

struct meta_map_disk {
	uint64_t id;
	enum cluster_media media;
	struct rs_shape local; /* code of a pool; {0, 0}: the disk is not a pool */
	uint64_t capacity_bytes;
	uint64_t used_bytes;
	enum cluster_state
		health; /* online, full, suspect or failed; any other value counts as failed */
	/* creation time of the drive, wall clock (see cluster_disk); 0: not known */
	uint64_t created_ns;
};

struct meta_map_node {
	uint64_t id;
	uint64_t incarnation; /* random number, drawn when the node's process started, not 0 */
	const char *name;
	const char *rack;
	const char *addr;
	const struct meta_map_disk *disks;
	size_t disk_count;
	uint32_t cache_weight; /* of a cache node, only with the registration; 0: a storage node */
	struct cluster_load load; /* only with heartbeats */
};

#endif
