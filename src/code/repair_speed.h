// SPDX-License-Identifier: Apache-2.0
/*
 * How fast a repair can go when disks and racks give it so many bytes a second each.
 *
 * A repair is as slow as its busiest disk or rack. Loads are counted in bytes moved for each byte
 * rebuilt; a disk's reads and writes share its bandwidth, and so do bytes that leave and enter a
 * rack. repair_speed_disk() and repair_speed_pool() work from shares, as if choices spread
 * perfectly; repair_measure() carries out a plan and looks at the busiest disk and rack that there
 * really were.
 */
#ifndef CODE_REPAIR_SPEED_H
#define CODE_REPAIR_SPEED_H

#include "code/repair.h"

struct repair_bandwidth {
	double disk, rack; /* bytes a second that repair may use of each */
};

struct repair_speed {
	double bytes_per_s; /* rebuilt: the smaller of the two below */
	double disk_limit, rack_limit;
};

/*
 * One failed disk. Single-overlap is measured on a pool of few chunks, hence -ENOMEM; -EOPNOTSUPP
 * for an LRC, whose reads depend on which chunk is lost.
 */
int repair_speed_disk(const struct layout *l, const struct repair_policy *policy,
		      const struct repair_bandwidth *bandwidth, struct repair_speed *speed);

/*
 * What a catastrophic pool gets over the network, after pl + 1 of its disks failed at once; 0 for
 * codes without a network level and for an LRC.
 */
void repair_speed_pool(const struct layout *l, const struct repair_policy *policy,
		       const struct repair_bandwidth *bandwidth, struct repair_speed *speed);

/* Runs the whole plan: small layouts only. Speed counts every chunk that is written. -ENOMEM. */
int repair_measure(const struct failure *f, const struct repair_policy *policy,
		   const struct repair_bandwidth *bandwidth, struct repair_speed *speed,
		   struct repair_totals *totals);

#endif
