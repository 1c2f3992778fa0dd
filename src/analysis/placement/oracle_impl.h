// SPDX-License-Identifier: Apache-2.0
/* The oracle's problem as a file for CBC, and its answer. */
#ifndef ANALYSIS_PLACEMENT_ORACLE_IMPL_H
#define ANALYSIS_PLACEMENT_ORACLE_IMPL_H

#include <stdio.h>

#include "analysis/placement/oracle.h"

struct cbc_order {
	const struct flow_job *jobs;
	size_t n;
	int64_t capacity;
	double gap, limit_s;
	bool relaxed; /* the linear relaxation */
};

/* Writes the problem in the LP format. Returns 0 or -EIO. */
int cbc_write(const struct cbc_order *o, FILE *out);

/* Reads a solution of CBC: the value of each of n jobs. Returns 0, -ENODATA for no solution, or -EILSEQ. */
int cbc_read(FILE *in, double *value, size_t n);

/* Solves with CBC in a temporary folder. Returns 0, -ENOENT, -ENODATA (none found in time), -EIO or -ENOMEM. */
int cbc_solve(const struct cbc_order *o, double *value);

#endif
