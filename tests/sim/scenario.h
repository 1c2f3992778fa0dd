// SPDX-License-Identifier: Apache-2.0
/*
 * A scenario: what runs inside a simulation, and the invariants that must hold for every seed. The runner opens the
 * simulation with the seed and the faults, and closes it afterwards.
 */
#ifndef TESTS_SIM_SCENARIO_H
#define TESTS_SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bug.h"
#include "rt/sim.h"

/* The seed of a run, and limits on what it draws. 0: no limit. */
struct scenario_input {
	uint64_t seed;
	unsigned clients; /* largest number of clients */
	unsigned seconds; /* longest time with faults in a round */
	unsigned ops;     /* most operations of each worker in a round */
	unsigned rounds;  /* largest number of rounds of faults and healing */
	bool single;      /* the seed drew a single kind of fault */
	uint32_t ops_off; /* mask of kinds of operations that workers leave out */
};

#define SCENARIO_NOTES 40
#define SCENARIO_OPS_MAX 20 /* largest number of kinds of operations */
#define SCENARIO_ROW_MAX 256

struct scenario_result {
	char violation[256]; /* the violated invariant, as text; empty if all hold */
	/* The last requests of clients and their results: a ring of note_count lines. */
	char notes[SCENARIO_NOTES][160];
	uint64_t note_count;
	uint64_t operations; /* acknowledged operations of clients */
	uint64_t refused;    /* failed reads of the checker */
	uint64_t given_up;   /* pools that lost a drive, did not recover and were removed */
	uint64_t unjudged;   /* 1 if the search for one order of the history was given up */
	bool nothing;        /* the seed is past the end of its column of a list */
	uint64_t length;     /* length of a column of a list: see row */
};

struct scenario {
	const char *name;
	const char *doc;
	/* Changes the default rates of faults, before the simulation is opened. May be NULL. */
	void (*prepare)(const struct scenario_input *in, struct sim_config *config);
	void (*run)(struct sim *sim, const struct scenario_input *in, struct scenario_result *out);
	/* So much is lost that some reads must fail; a run of many seeds without a failed read fails. */
	bool refuses;
	/*
	 * If not 0, the seeds are a list of columns, in rows of this length: seed = depth * row + column + 1. A run
	 * of the first row (depth 0) reports how long its column is (length); a seed below that does nothing.
	 */
	unsigned row;
	/* The planted bugs that it finds, with BUG_NONE at the end. May be NULL. */
	const enum bug *bugs;
};

extern const struct scenario scenario_cluster;
extern const struct scenario scenario_meta;
extern const struct scenario scenario_over;
extern const struct scenario scenario_waits;

#endif
