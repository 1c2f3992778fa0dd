// SPDX-License-Identifier: Apache-2.0
/* What traffic groups used since the process began, added up over schedulers and classes. */
#ifndef SCHED_USAGE_H
#define SCHED_USAGE_H

#include "sched/sched.h"

/* Groups beyond this number are added up as SCHED_GROUP_OTHER. */
#define SCHED_USAGE_MAX 1024

struct sched_usage {
	char group[SCHED_NAME_MAX + 1];
	uint64_t requests; /* ended requests that had a slice */
	uint64_t
		refused; /* requests that were refused, cancelled or late before their first slice */
	uint64_t bytes;
	uint64_t disk_ns;
	uint64_t waiting; /* requests that wait now */
};

struct sched_usages {
	size_t count;
	struct sched_usage list[SCHED_USAGE_MAX]; /* in order of names */
};

/* Adds the groups of a scheduler, on any loop. A group whose entry was reused starts with new counters, so a sum may
 * become smaller. */
void sched_usage_add(struct sched *s, struct sched_usages *all);

#endif
