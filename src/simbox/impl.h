// SPDX-License-Identifier: Apache-2.0
/* Private to simbox: simbox.c has the run and its jobs, fill.c their data, roles.c the processes of the cluster. */
#ifndef SIMBOX_IMPL_H
#define SIMBOX_IMPL_H

#include "kv/mem.h"
#include "rt/sim.h"
#include "simbox/simbox.h"

#define SIMBOX_META "meta:7100"
#define SIMBOX_TENANT "default"
#define SIMBOX_OPEN_RATE ((uint64_t)1 << 40) /* bytes per second of a link before training begins */
#define SIMBOX_CLUSTER_ID \
	{                 \
		1, 2      \
	}

struct simbox_node {
	struct simbox *box;
	unsigned index;
};

struct simbox {
	const struct simbox_conf *conf;
	uint64_t seed;
	struct train_run *run;
	struct simbox_result *result;
	struct strbuf *err;
	struct sim *sim;
	struct kv_mem *kv;
	struct sim_link *racks[SIMBOX_RACKS_MAX], *cluster, *client; /* NULL: no cap */
	struct simbox_node nodes[SIMBOX_NODES_MAX];
	uint64_t drive_bytes; /* size of a simulated drive */
	uint64_t begin_ns;    /* of training, on the trainer's clock; 0: not yet */
	bool trained, done;
	int rc;
};

/* Returns the id of a disk or pool of a node. */
static inline uint64_t simbox_disk_id(unsigned node, unsigned disk)
{
	return 100 * ((uint64_t)node + 1) + disk;
}

/* Writes the data of every job. Errors with a line in b->err. */
int simbox_fill(struct simbox *b);
/* Returns whether an earlier job has the same data. */
bool simbox_filled_before(const struct train_run *r, size_t i);
/* Adds and starts metadata server, nodes and janitor. */
void simbox_roles_start(struct simbox *b);
/* Fiber: lets drives of the first pool fail, and observes their repair until it is cancelled. */
void simbox_operate(void *arg);

#endif
