// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of repairs: bytes rebuilt, bandwidth, bytes across racks, time. For one failed disk, and
 * for a local pool that is catastrophic because pl + 1 disks failed at once, by each of the four
 * methods (table 3.2 and figures 3.6, 3.8 and 3.9 of the MLEC dissertation, README.md). All numbers
 * come from the planners of src/code: counts of chunks (repair_count.h) and loads of disks and
 * racks (repair_speed.h).
 *
 * Times are those of the repair alone, without the time until a failure is detected.
 *
 * A pool is repaired in two stages: first over the network, then from its own chunks. R_ALL and
 * R_FCO have only the first stage. The second stage reads and writes inside the pool: a clustered
 * pool writes to the replacements of its failed disks, other pools spread the writes over all
 * working disks. In a single-overlap pool the load is assumed to be as uneven as it is measured to
 * be for one disk.
 */
#ifndef ANALYSIS_REPAIR_COST_H
#define ANALYSIS_REPAIR_COST_H

#include "analysis/system.h"

struct repair_cost_disk {
	double bytes;       /* bytes rebuilt */
	double bytes_per_s; /* bytes rebuilt in a second; 0: the data cannot be rebuilt */
	double cross_bytes; /* bytes sent between racks */
	double seconds;     /* duration of the repair; infinite: the data cannot be rebuilt */
	double reads_per_chunk;
	/* bytes between racks in the system, for single failed disks only */
	double cross_bytes_per_day;
};

struct repair_cost_pool {
	enum repair_method method;
	double network_bytes;       /* bytes rebuilt over the network */
	double network_bytes_per_s; /* bytes that the network stage rebuilds in a second */
	double local_bytes;         /* bytes rebuilt inside the pool */
	double cross_bytes;
	double network_s, local_s;
};

struct repair_cost {
	struct repair_cost_disk disk;
	uint32_t failed; /* number of failed disks of the pool: pl + 1 */
	/* probability that `failed` random disks of a pool make it catastrophic */
	double catastrophic;
	double pool_bytes; /* total size of the disks of a pool */
	bool has_pool;     /* the code has two levels: the following four are set */
	struct repair_cost_pool pool[4];
};

/* Computes the cost of repairs as planned by src/code, or with the bandwidths of the MLEC
 * dissertation (system_pool_speed()). Returns 0 or -ENOMEM. */
int repair_cost_find(const struct system *sys, bool as_paper, struct repair_cost *m);

#endif
