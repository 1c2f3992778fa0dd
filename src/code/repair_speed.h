// SPDX-License-Identifier: Apache-2.0
/*
 * The speed of a repair, given the bandwidth that each disk and rack gives to repair.
 *
 * The busiest disk or rack limits a repair. Loads are counted in bytes moved for each byte rebuilt;
 * a disk's reads and writes share its bandwidth, and so do bytes that leave and enter a rack.
 * repair_speed_disk() and repair_speed_pool() compute loads as if choices spread perfectly;
 * repair_measure() runs through a plan and takes the loads of its busiest disk and rack.
 */
#ifndef CODE_REPAIR_SPEED_H
#define CODE_REPAIR_SPEED_H

#include "code/repair.h"

struct repair_bandwidth {
	double disk, rack; /* bytes a second that repair may use of each disk, and of each rack */
};

struct repair_speed {
	/* bytes rebuilt in a second: the smaller of the two limits */
	double bytes_per_s;
	/* bytes rebuilt in a second as the disks, and the racks, limit it */
	double disk_limit, rack_limit;
};

/*
 * Computes the speed at which one failed disk is rebuilt. Returns 0, -EOPNOTSUPP for an LRC, whose
 * reads depend on which chunk is lost, or -ENOMEM: single-overlap is measured on a small pool.
 */
int repair_speed_disk(const struct layout *l, const struct repair_policy *policy,
		      const struct repair_bandwidth *bandwidth, struct repair_speed *speed);

/*
 * Computes the speed at which a catastrophic pool is rebuilt over the network after pl + 1 of its
 * disks failed at once; 0 for codes without a network level and for an LRC.
 */
void repair_speed_pool(const struct layout *l, const struct repair_policy *policy,
		       const struct repair_bandwidth *bandwidth, struct repair_speed *speed);

/*
 * Runs through all steps of a plan, which is fast only for small layouts, and computes its totals
 * and its speed in written bytes. Returns 0 or the errors of repair_plan_open().
 */
int repair_measure(const struct failure *f, const struct repair_policy *policy,
		   const struct repair_bandwidth *bandwidth, struct repair_speed *speed,
		   struct repair_totals *totals);

#endif
