// SPDX-License-Identifier: Apache-2.0
/* How busy the loops of a process were in the last one to two minutes, or since they began. */
#ifndef RT_LOAD_H
#define RT_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "rt/rt.h"

#define RT_FIBER_NAME_MAX 31 /* length of the name of a fiber in reports; longer names are cut */

struct rt_recent {
	uint64_t span_ns; /* the time that the numbers are about */
	uint64_t busy_ns; /* part of it for which the loop was awake */
};

/* Returns how busy a loop was; zeros in the simulator. On any loop of the process. */
void rt_loop_recent(struct rt_loop *loop, struct rt_recent *out);

/* The loops of a process together. */
struct rt_load_sum {
	unsigned loops;
	unsigned busy_permille,
		busiest_permille; /* share of the time awake: mean of all loops, and the largest */
	/* longest run of a fiber without a wait on any loop (struct rt_load), and its name */
	uint64_t longest_ns;
	char longest_name[RT_FIBER_NAME_MAX + 1];
};

void rt_load_sum(struct rt_loop *const *loops, size_t count, struct rt_load_sum *out);

#endif
