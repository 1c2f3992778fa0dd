// SPDX-License-Identifier: Apache-2.0
/* How busy the threads of a process were in the last minutes, as processes report it. */
#ifndef CLUSTER_LOAD_H
#define CLUSTER_LOAD_H

#include <stdint.h>

#include "cluster/cluster.pb-c.h"

#define CLUSTER_FIBER_MAX 31 /* length of the name of a fiber */
#define CLUSTER_LOOPS_MAX 256

struct cluster_load {
	uint32_t loops;                           /* number of threads; 0: the load is not known */
	uint32_t busy_permille, busiest_permille; /* mean of all threads, and the busiest one */
	/* longest time for which one fiber kept a thread from all other work, and its name */
	uint64_t longest_ns;
	char longest_fiber[CLUSTER_FIBER_MAX + 1];
};

/* m may be NULL: the load is not known. -EBADMSG: a number is out of range, or the name is too long or has other
 * than printable characters; *l is then not known. */
int cluster_load_read(struct cluster_load *l, const Terrane__Cluster__Load *m);
/* m refers to the name in l. */
void cluster_load_write(Terrane__Cluster__Load *m, const struct cluster_load *l);

#endif
