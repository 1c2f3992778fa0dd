// SPDX-License-Identifier: Apache-2.0
/*
 * A script of operations on a simulated disk, and an observer that knows what was acknowledged.
 * Whatever happens to the script, each chunk must afterwards be as the last acknowledged operation
 * left it, or as the interrupted operation would have left it; and a state that was seen once must
 * not change.
 */
#ifndef TESTS_STORE_SCRIPT_H
#define TESTS_STORE_SCRIPT_H

#include "rt/sim.h"
#include "store_fixture.h"

#define SCRIPT_CHUNKS 3

/* The observable state of a chunk. */
struct seen {
	bool exists;
	bool sealed;
	uint64_t len;
	uint64_t epoch;
	uint64_t text;
};

struct script {
	/* The test sets: */
	uint64_t seed;
	uint32_t open_chunks_max;
	bool may_fail; /* operations may return errors */
	bool may_lie;  /* reads of the medium may return wrong bytes, so chunks may look damaged */
	const char *what; /* description of the run, for messages of failed checks */
	uint64_t number;
	/*
	 * called by the simulated process each time it starts, with the number of the start (life):
	 * 1, 2, ...
	 */
	void (*live)(struct script *sc, uint64_t life);
	void *ctx;

	struct sim *sim;
	struct sim_node *node;
	struct sim_disk *disk;
	struct seen before[SCRIPT_CHUNKS];
	/*
	 * the state that the chunk may have as well, while the outcome of an operation is
	 * undecided; else equal to `before`
	 */
	struct seen after[SCRIPT_CHUNKS];
	bool done;
	uint64_t done_life;
	int rc; /* error of the operation that failed */
	unsigned rc_chunk;
};

struct chunk_id script_id(unsigned chunk);

/*
 * Runs every kind of operation, with lengths inside and across pages and units. Stops at the first
 * that fails, or when the process has crashed.
 */
void script_play(struct script *sc, struct store *s);

/*
 * Opens the disk, after formatting it in life 1. NULL when the process has crashed or, with
 * may_fail, when the disk could not be opened.
 */
struct store *script_open(struct script *sc, uint64_t life);

/*
 * Checks all chunks and their list; from now on their states must not change. With may_fail skips
 * chunks whose state cannot be determined.
 */
void script_look(struct script *sc, struct store *s);

/* Starts the simulation; waits until the current life ends; ends the simulation. */
void script_begin(struct script *sc, const struct sim_config *config);
void script_finish(struct script *sc);
void script_end(struct script *sc);

#endif
