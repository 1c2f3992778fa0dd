// SPDX-License-Identifier: Apache-2.0
/*
 * The whole system simulated, failure by failure, for a mission (a year, say) at a time.
 *
 * First all failures of the mission are drawn, or taken from a trace, and sorted. Then each is
 * applied: the state of its pool (or group of disks, for codes on one level) is advanced to that
 * time, through detections and repairs, and the disk fails there. If that loses local stripes, the
 * pool is catastrophic and fails at the network level in the same way. If that loses network
 * stripes, data is lost and the mission ends. Between failures a state changes deterministically,
 * so a year of 57,600 disks costs no more than its 576 failures. Only network pools of the same
 * racks (clustered networks) are advanced together: while n of them repair and each alone would
 * take the part `load` of the racks' bandwidth (level.h), each repairs at 1 / (n * load) of its
 * rate.
 *
 * Failures are exponential (a constant rate), Weibull (infant mortality below shape 1, wear above;
 * all disks new when the mission begins), or those of a trace, the same in every mission: then the
 * only random event is whether stripes with enough losses exist.
 */
#ifndef ANALYSIS_FLEET_H
#define ANALYSIS_FLEET_H

#include "analysis/damage.h"
#include "analysis/trace.h"

struct fleet_failures {
	/* shape of the Weibull distribution of lifetimes; 1: exponential */
	double shape;
	const struct trace *trace; /* failures to apply instead of random ones, or NULL */
};

struct fleet_mission {
	bool lost;
	double lost_at_s;
	uint64_t failures, catastrophes;
};

struct fleet;

/*
 * Opens a simulation for one thread. `failures` may be NULL, for exponential lifetimes. A disk's
 * hazard over its first year sums to the system's AFR whatever the shape. The system and the trace
 * must outlive the simulation; disks of the trace must be in the system. Returns 0, the errors of
 * level_of_disks() or -ENOMEM.
 */
int fleet_open(struct fleet **fleet, const struct system *sys, bool as_paper,
	       const struct fleet_failures *failures, double mission_s);
void fleet_close(struct fleet *fleet);

/* Simulates one mission, which begins without failures. Returns 0 or -ENOMEM. */
int fleet_run(struct fleet *fleet, struct rng *rng, struct fleet_mission *out);

#endif
