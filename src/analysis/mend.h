// SPDX-License-Identifier: Apache-2.0
/*
 * What a repair takes: bytes rebuilt, bandwidth, bytes across racks, time. For one failed disk, and
 * for a local pool that pl + 1 disks failing at once have made catastrophic, by each of the four
 * methods (table 3.2 and figures 3.6, 3.8 and 3.9 of the MLEC study). All from the planners of
 * src/code: counts of chunks (repair_count.h) and loads of disks and racks (repair_speed.h).
 *
 * Times are of the repair alone, without the time until a failure is noticed.
 *
 * A pool is repaired in two stages: what has to come over the network, then what the pool can do by
 * itself. R_ALL and R_FCO have only the first. The second stage reads and writes inside the pool:
 * a clustered one writes to the replacements of its failed disks, another spreads over all that are
 * left. For single-overlap the spread is as uneven as it is measured to be for one disk.
 */
#ifndef ANALYSIS_MEND_H
#define ANALYSIS_MEND_H

#include "analysis/system.h"

struct mend_disk {
	double bytes;       /* rebuilt */
	double bytes_per_s; /* 0: there is no repair */
	double cross_bytes; /* between racks */
	double seconds;     /* infinite: there is no repair */
	double reads_per_chunk;
	double cross_bytes_per_day; /* in the whole system, for failing disks alone */
};

struct mend_pool {
	enum repair_method method;
	double network_bytes;       /* rebuilt over the network */
	double network_bytes_per_s; /* of that */
	double local_bytes;         /* rebuilt inside */
	double cross_bytes;
	double network_s, local_s;
};

struct mend {
	struct mend_disk disk;
	uint32_t failed;     /* disks of the pool: pl + 1 */
	double catastrophic; /* probability that so many random ones of a pool break it */
	double pool_bytes;   /* of a pool's disks */
	bool has_pool;       /* two levels: the four below are set */
	struct mend_pool pool[4];
};

/* As planned here, or with the paper's bandwidths (system_pool_speed()). 0 or -ENOMEM. */
int mend_study(const struct system *sys, bool as_paper, struct mend *m);

/* Chunks read to rebuild one, on average over the chunks of a stripe; 0: nothing to read from. */
double mend_reads_per_chunk(const struct encoding *e);

#endif
