// SPDX-License-Identifier: Apache-2.0
/*
 * The clairvoyant placement of whole jobs (section 3.1 of the BYOM paper), within a gap of the best one. Theory in
 * oracle.c.
 */
#ifndef ANALYSIS_PLACEMENT_ORACLE_H
#define ANALYSIS_PLACEMENT_ORACLE_H

#include <stdbool.h>

#include "analysis/placement/flow.h"

struct oracle_options {
	double gap;     /* a placement this close to its bound is good enough: 0.01 is 1% */
	double limit_s; /* for CBC; 0: do not call it */
};

struct oracle_result {
	bool *chosen; /* jobs on flash */
	double gain;
	double bound; /* no placement gains more: the linear relaxation */
	bool cbc;     /* CBC found the placement */
};

/*
 * Returns 0, also when the gap was not reached in time; the errors of flow_solve(); -ENOENT when CBC is needed and is
 * not installed; -EIO when it fails.
 */
int oracle_solve(const struct flow_job *jobs, size_t n, int64_t capacity,
		 const struct oracle_options *o, struct oracle_result *out);
void oracle_fini(struct oracle_result *r);

#endif
