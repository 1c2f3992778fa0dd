// SPDX-License-Identifier: Apache-2.0
/*
 * The upper bound of placement: the linear relaxation of the oracle's problem (section 3.1 of the BYOM paper), solved
 * as a flow of maximum gain. Theory in flow.c.
 */
#ifndef ANALYSIS_PLACEMENT_FLOW_H
#define ANALYSIS_PLACEMENT_FLOW_H

#include <stddef.h>
#include <stdint.h>

struct flow_job {
	double start_s, end_s; /* end_s > start_s */
	int64_t size;          /* above 0 */
	double gain;           /* savings when all of it is on flash */
};

struct flow_result {
	double gain;     /* of the optimum: no placement gains more */
	uint64_t pivots; /* steps of the simplex */
	double *share;   /* of each job on flash, 0 to 1 */
	/* The price of a byte on flash in the interval that begins at time_s[i], to the next one or the end. */
	double *time_s, *price;
	size_t times_n;
};

/*
 * Chooses the shares of jobs on flash that gain most, when at no time more than `capacity` bytes are used. Returns 0,
 * -EINVAL for jobs that are not sorted by start or a sum of sizes above 2^62, -ENOMEM, or -ETIME after too many pivots.
 */
int flow_solve(const struct flow_job *jobs, size_t n, int64_t capacity, struct flow_result *out);
void flow_fini(struct flow_result *r);

#define AUTO_FLOW __attribute__((cleanup(flow_fini)))

#endif
