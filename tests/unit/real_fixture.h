// SPDX-License-Identifier: Apache-2.0
/* A real cluster in a process of its own: a metadata server and storage nodes with disks in
 * memory, on loopback. For tests of the public library, which has its own thread and may fork. */
#ifndef UNIT_REAL_FIXTURE_H
#define UNIT_REAL_FIXTURE_H

#include <sys/types.h>

struct real_fixture {
	pid_t pid;
	char dir[64];
	char cluster_file[96];
};

/* Starts the cluster and waits until all nodes are registered. The caller must have no other
 * threads yet. */
void real_fixture_start(struct real_fixture *fx, unsigned nodes);
void real_fixture_stop(struct real_fixture *fx);

#endif
