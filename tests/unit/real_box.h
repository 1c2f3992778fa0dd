// SPDX-License-Identifier: Apache-2.0
/*
 * A whole cluster in a process of its own, in the real world: a metadata server and storage nodes
 * with disks in memory, on loopback. For tests of the public library, which has its own thread and
 * may fork.
 */
#ifndef UNIT_REAL_BOX_H
#define UNIT_REAL_BOX_H

#include <sys/types.h>

struct real_box {
	pid_t pid;
	char dir[64];
	char cluster_file[96];
};

/* Starts it and waits until all nodes are registered. The caller must have no other threads yet. */
void real_box_start(struct real_box *b, unsigned nodes);
void real_box_stop(struct real_box *b);

#endif
