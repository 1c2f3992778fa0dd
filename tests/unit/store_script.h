// SPDX-License-Identifier: Apache-2.0
/*
 * A script of operations on a disk of the simulator, and an observer who knows what was acknowledged.
 * Whatever happens to the script, each chunk must afterwards be as the last acknowledged operation
 * left it, or as the one that did not come to its end would have; and what was seen once stays so.
 */
#ifndef TESTS_STORE_SCRIPT_H
#define TESTS_STORE_SCRIPT_H

#include "rt/sim.h"
#include "store_fixture.h"

#define SCRIPT_CHUNKS 3

/* What can be seen of a chunk. */
struct seen {
	bool exists;
	bool sealed;
	uint64_t len;
	uint64_t epoch;
	uint64_t text;
};

struct script {
	/* set by the test */
	uint64_t seed;
	uint32_t open_chunks_max;
	bool may_fail;    /* operations may return errors */
	bool may_lie;     /* reads of the medium may be wrong, so that chunks look damaged */
	const char *what; /* for a message */
	uint64_t number;
	/* called by the process, life 1, 2, ... */
	void (*live)(struct script *sc, uint64_t life);
	void *ctx;

	struct sim *sim;
	struct sim_node *node;
	struct sim_disk *disk;
	struct seen before[SCRIPT_CHUNKS];
	struct seen after[SCRIPT_CHUNKS]; /* differs where an operation was under way */
	bool done;
	uint64_t done_life;
	int rc; /* of the operation that failed */
	unsigned rc_chunk;
};

#define SCRIPT_CHECK(sc, cond)                                        \
	do {                                                          \
		if (!(cond))                                          \
			script_failed(sc, __FILE__, __LINE__, #cond); \
	} while (0)

_Noreturn void script_failed(const struct script *sc, const char *file, int line, const char *cond);

struct chunk_id script_id(unsigned chunk);

/* Every kind of operation; lengths that cross pages and units, and some that do not. Stops at the first
 * that fails, or when the process is dead. */
void script_play(struct script *sc, struct store *s);

/* Opens the disk, which is formatted in life 1; NULL when the process is dead or, with may_fail, when
 * it could not be opened. */
struct store *script_open(struct script *sc, uint64_t life);

/* Checks all chunks and the list of them; from now on they must stay as they are. With may_fail a
 * chunk that cannot be looked at is passed over. */
void script_look(struct script *sc, struct store *s);

/* Starts the simulation; waits for the present life to come to its end; ends it. */
void script_begin(struct script *sc, const struct sim_config *config);
void script_finish(struct script *sc);
void script_end(struct script *sc);

#endif
