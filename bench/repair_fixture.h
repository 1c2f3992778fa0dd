// SPDX-License-Identifier: Apache-2.0
/*
 * A cluster in simulated time for `./dev bench repair`: racks of one node each, whose disk is a local pool of
 * emulated drives, the metadata, a client and a janitor, all of them the production code.
 *
 * Everything is a thousandth: a drive of 200 KB/s with rows of 16 KiB stands for one of 200 MB/s with rows of
 * 16 MiB. Times are those of the large one, bytes a thousandth of its. Drives have no seek, which would not
 * shrink with the rows.
 */
#ifndef BENCH_REPAIR_FIXTURE_H
#define BENCH_REPAIR_FIXTURE_H

#include "client/engine.h"
#include "janitor/janitor.h"
#include "node/service.h"

#define FIXTURE_NODES_MAX 8
#define FIXTURE_MEMBERS_MAX 24
#define FIXTURE_SPARES 2
#define FIXTURE_ROW_BYTES ((uint64_t)(16 * KIB))
#define FIXTURE_DISK_RATE 200000 /* bytes a second of a drive */
#define FIXTURE_RACK_RATE 100000 /* and of the uplink of a rack */
#define FIXTURE_PERCENT 20

struct repair_fixture;

struct fixture_node {
	struct repair_fixture *fx;
	unsigned index;
};

struct repair_fixture {
	/* What is asked for. */
	const char *scheme; /* "c/d": the network's placement, the pools' */
	unsigned nodes, members, k, p;
	unsigned net_k, net_p;
	unsigned blocks;
	enum janitor_method method;
	void (*body)(struct repair_fixture *fx);
	void *ctx;
	/* The body's: */
	struct engine *engine;
	struct fixture_node node[FIXTURE_NODES_MAX];
	bool done;
};

/* Runs the body beside the cluster, in simulated time. */
void fixture_run(struct repair_fixture *fx);

/* The disk whose pool is to be hurt. */
#define FIXTURE_DISK 11

/* Blocks in one file. */
void fixture_write(struct repair_fixture *fx);
uint64_t fixture_block_bytes(const struct repair_fixture *fx);

/* Gives up so many members of the pool at once, and replaces them where it is clustered. */
void fixture_fail(struct repair_fixture *fx, unsigned members);
/* How many stripes of the pool have lost 0, 1, ... rows: count[k + p + 1]. */
void fixture_count(struct repair_fixture *fx, double *count);
/* Waits until the pool has rebuilt what it can: as node_pool_rebuild. */
int fixture_settle(struct repair_fixture *fx);

struct janitor *fixture_janitor(const struct repair_fixture *fx);

#endif
