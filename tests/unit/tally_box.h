// SPDX-License-Identifier: Apache-2.0
/* A simulated node with one disk and a tally store on it, for the tests of tally. */
#ifndef UNIT_TALLY_BOX_H
#define UNIT_TALLY_BOX_H

#include "rpc_fixture.h"
#include "rt/sim.h"
#include "tally/tally.h"

#define SEED 1

struct box {
	struct sim_config config;
	struct sim *sim;
	struct sim_node *node;
	struct sim_disk *disk;
	void (*fn)(struct box *b);
	void *arg;
	struct tally_options options;
	struct tally *store;
	struct buf_pool pool;
	bool ended;
};

void box_open(struct box *b, uint64_t seed);
void box_build(struct box *b);
/* Runs fn as the node's process until it has returned. */
void box_run(struct box *b, void (*fn)(struct box *b));
void box_close(struct box *b);
/* All of these, with a fixed seed. */
void box_run_once(void (*fn)(struct box *b));
/* The process: calls b->fn. */
void box_main(void *box);

int add(struct box *b, uint64_t client, uint64_t seq, const char *name, int64_t delta,
	int64_t *value);
/* A blob of bytes made from version. */
struct buf *blob_of(struct box *b, size_t len, uint64_t version);
int put(struct box *b, uint64_t client, uint64_t seq, const char *name, size_t len,
	uint64_t version);
/* The blob must be that version, if the process lives long enough to read it. */
int read_blob(struct box *b, const char *name, size_t len, uint64_t version);
void check_blob(struct box *b, const char *name, size_t len, uint64_t version);
void check_value(struct box *b, const char *name, int64_t want);
void open_store(struct box *b);
void close_store(struct box *b);
void reopen_store(struct box *b);

#endif
