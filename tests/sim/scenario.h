// SPDX-License-Identifier: Apache-2.0
/*
 * A scenario: what runs inside a simulation, and what must hold whatever the seed. The runner opens
 * the simulation with the seed and the faults and closes it afterwards.
 */
#ifndef TESTS_SIM_SCENARIO_H
#define TESTS_SIM_SCENARIO_H

#include <stdint.h>

#include "rt/sim.h"

struct scenario_result {
	char violation[256]; /* what did not hold, for a person; empty when all did */
	uint64_t operations; /* acknowledged to clients */
};

struct scenario {
	const char *name;
	const char *doc;
	void (*run)(struct sim *sim, struct scenario_result *out);
};

extern const struct scenario scenario_meta;
extern const struct scenario scenario_tally;

#endif
