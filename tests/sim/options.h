// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_SIM_OPTIONS_H
#define TESTS_SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bug.h"
#include "rt/sim.h"
#include "scenario.h"

struct options {
	const struct scenario *scenario;
	bool seeds_given;
	uint64_t seed_first;
	uint64_t seed_last;
	double minutes; /* time limit in minutes; 0: none */
	unsigned jobs;
	uint64_t spread; /* places of each column of a list; 0: all */
	const char
		*die; /* for tests: "abort", "address" or "hang" at the end of each seed; or NULL */
	double repeat; /* share of the seeds run twice, to compare their traces */
	enum bug bug;
	/* runs the scenario with each of its planted bugs and expects that each is found */
	bool plants;
	bool shrink;
	bool hunt;  /* stop at the first failure; without one the run has failed */
	bool swarm; /* draw which faults are on, and how hard, from the seed */
	bool rate_set[SIM_FAULT_COUNT];
	double rate[SIM_FAULT_COUNT]; /* rate of each fault; valid where rate_set is true */
	double scale;
	struct scenario_input limits;
	bool trace;
	bool json;
	char replay[512]; /* the options that a replay of a seed needs, as typed */
};

/* Exits with 2 and a message on bad usage, with 0 after --help or --list. */
void options_parse(struct options *o, int argc, char **argv);

/* Sets the configuration of the simulation for a seed, and the input of the scenario. */
void options_config(const struct options *o, uint64_t seed, struct sim_config *out,
		    struct scenario_input *input);

#endif
