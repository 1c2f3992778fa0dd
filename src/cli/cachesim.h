// SPDX-License-Identifier: Apache-2.0
/* What the parts of `terrane cachesim` share: its command line, and printing results. */
#ifndef CLI_CACHESIM_H
#define CLI_CACHESIM_H

#include "analysis/cache/cachesim.h"
#include "analysis/cache/power.h"
#include "cli/cli.h"

#define CACHESIM_POLICIES_MAX 64u

struct cachesim_args {
	const char *workload;
	const char *policies[CACHESIM_POLICIES_MAX];
	uint32_t policies_n;
	const char *plot;
	const char *power_file; /* NULL: none */
	bool json, csv, quiet, seeded;
	uint64_t seed;
	uint32_t nodes, threads;
};

/* Parses the command line. Returns CLI_GO_ON or the exit status. */
int cachesim_args(int argc, char **argv, struct cachesim_args *out);

/* Print "terrane cachesim: ..." on standard error; return CLI_FAILED and CLI_USAGE. */
int cachesim_fail(const char *fmt, ...) PRINTF(1, 2);
int cachesim_refuse(const char *fmt, ...) PRINTF(1, 2);

/* Prints the results in the form that the arguments ask for, and writes the plot. power: of the storage tier, or NULL.
 * Returns the exit status. */
int cachesim_show(const struct cachesim_args *a, const struct workload *w,
		  const struct power *power, const struct cachesim_result *results, uint32_t n);

#endif
