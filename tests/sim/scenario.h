// SPDX-License-Identifier: Apache-2.0
/*
 * A scenario: what runs inside a simulation, and what must hold whatever the seed. The runner opens
 * the simulation with the seed and the faults and closes it afterwards.
 */
#ifndef TESTS_SIM_SCENARIO_H
#define TESTS_SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bug.h"
#include "rt/sim.h"

/* What a run is to be like. Zero in a limit: as the seed draws it. */
struct scenario_input {
	uint64_t seed;
	unsigned clients; /* at most so many, */
	unsigned seconds; /* so long under faults, */
	unsigned ops;     /* so many changes by each worker, */
	unsigned rounds;  /* of faults and healing */
	bool single;      /* one kind of fault alone was drawn */
	uint32_t ops_off; /* kinds of operations left out, a bit each */
};

#define SCENARIO_NOTES 40
#define SCENARIO_OPS_MAX 20 /* kinds of operations */
#define SCENARIO_ROW_MAX 256

struct scenario_result {
	char violation[256]; /* what did not hold, for a person; empty when all did */
	/* The last things that clients did and were told: a ring. */
	char notes[SCENARIO_NOTES][160];
	uint64_t note_count;
	uint64_t operations; /* acknowledged to clients */
	uint64_t refused;    /* reads at the end that failed */
	uint64_t given_up; /* pools without a drive that never became whole, and were taken away */
	uint64_t unjudged; /* histories in which the search for one order was given up */
	bool nothing;      /* the seed was past the end of what there is to try */
	uint64_t length;   /* of a list: see row */
};

struct scenario {
	const char *name;
	const char *doc;
	/* Before the simulation is opened: other rates than the default ones. May be NULL. */
	void (*prepare)(const struct scenario_input *in, struct sim_config *config);
	void (*run)(struct sim *sim, const struct scenario_input *in, struct scenario_result *out);
	/* So much is lost that reads must fail now and then: that none does is a failure of the run. */
	bool refuses;
	/*
	 * Not 0: the seeds are a list in columns, with rows of so many places. The first row says how long each column
	 * is below it (length); what is further down is nothing.
	 */
	unsigned row;
	/* Planted bugs that it finds, BUG_NONE at the end. */
	const enum bug *bugs;
};

extern const struct scenario scenario_cluster;
extern const struct scenario scenario_meta;
extern const struct scenario scenario_over;
extern const struct scenario scenario_waits;

#endif
