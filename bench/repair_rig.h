// SPDX-License-Identifier: Apache-2.0
/*
 * A cluster in simulated time for `./dev bench repair`: racks of one node each, whose disk is a local pool of
 * emulated drives, the metadata, a client and a janitor, all of them the production code.
 *
 * Everything is a thousandth: a drive of 200 KB/s with rows of 16 KiB stands for one of 200 MB/s with rows of
 * 16 MiB. Times are those of the large one, bytes a thousandth of its. Drives have no seek, which would not
 * shrink with the rows.
 */
#ifndef BENCH_REPAIR_RIG_H
#define BENCH_REPAIR_RIG_H

#include "client/engine.h"
#include "janitor/janitor.h"
#include "node/service.h"

#define RIG_NODES_MAX 8
#define RIG_MEMBERS_MAX 24
#define RIG_SPARES 2
#define RIG_ROW_BYTES ((uint64_t)(16 * KIB))
#define RIG_DISK_RATE 200000 /* bytes a second of a drive */
#define RIG_RACK_RATE 100000 /* and of the uplink of a rack */
#define RIG_PERCENT 20

struct rig;

struct rig_node {
	struct rig *rig;
	unsigned index;
};

struct rig {
	/* What is asked for. */
	const char *scheme; /* "c/d": the network's placement, the pools' */
	unsigned nodes, members, k, p;
	unsigned net_k, net_p;
	unsigned blocks;
	enum janitor_method method;
	void (*body)(struct rig *r);
	void *ctx;
	/* The body's: */
	struct engine *engine;
	struct rig_node node[RIG_NODES_MAX];
	bool done;
};

/* Runs the body beside the cluster, in simulated time. */
void rig_run(struct rig *r);

/* The disk whose pool is to be hurt. */
#define RIG_DISK 11

/* Blocks in one file. */
void rig_write(struct rig *r);
uint64_t rig_block_bytes(const struct rig *r);

/* Gives up so many members of the pool at once, and replaces them where it is clustered. */
void rig_fail(struct rig *r, unsigned members);
/* How many stripes of the pool have lost 0, 1, ... rows: count[k + p + 1]. */
void rig_count(struct rig *r, double *count);
/* Waits until the pool has rebuilt what it can: as node_pool_rebuild. */
int rig_settle(struct rig *r);

struct janitor *rig_janitor(const struct rig *r);

#endif
