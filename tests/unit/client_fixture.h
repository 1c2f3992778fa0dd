// SPDX-License-Identifier: Apache-2.0
/*
 * A simulated cluster for tests of the client: storage nodes with disks, each in a rack of its own,
 * and a process that runs the test; with fixture_run_all a metadata server too. Disk d of node n has
 * the number 10 * n + d + 1, in the folder /dD/s of the machine nN.
 */
#ifndef UNIT_CLIENT_FIXTURE_H
#define UNIT_CLIENT_FIXTURE_H

#include "check.h"
#include "client/block_read.h"
#include "client/block_write.h"
#include "client/engine.h"
#include "cluster/cluster.h"
#include "node/service.h"
#include "rt/sim.h"

#define FIXTURE_NODES_MAX 12
#define FIXTURE_DISKS_MAX 2

struct client_fixture;

struct fixture_node {
	struct client_fixture *fx;
	unsigned index;
	struct sim_node *node;
	struct sim_disk *disks[FIXTURE_DISKS_MAX];
	unsigned drive; /* how often its drive was replaced */
};

struct client_fixture {
	struct sim_config config;
	struct sim *sim;
	struct fixture_node nodes[FIXTURE_NODES_MAX];
	unsigned node_count;
	unsigned disk_count;  /* of each node */
	unsigned rack_nodes;  /* in a rack */
	unsigned flash_nodes; /* the second disk of so many nodes is flash */
	uint64_t disk_bytes;
	struct sim_node *client;
	struct sim_node *meta;  /* NULL: there is none */
	struct sim_node *other; /* a further process, for a test */
	bool pools;             /* the first disk of each node is a pool 2+1 of three folders, */
	bool wide;              /* or declustered over six, */
	/* with repair left to the janitor when the pool lost more than its code tolerates */
	bool outside;
	uint64_t sick; /* a disk whose node reports this state: */
	enum cluster_state sick_health;
	struct kv_mem *kv;
	struct kv *store; /* the metadata server's store */
	void (*body)(struct client_fixture *fx);
	bool done;
	/* Requests of the body to the world: see fixture_do. */
	void (*act)(struct client_fixture *fx, uint64_t arg);
	uint64_t act_arg;
	/* For the body: */
	struct cluster map;
	struct fabric fabric;
	struct engine *engine;
};

/* Runs the body with a cluster of so many nodes. */
void fixture_run(unsigned nodes, unsigned disks, void (*body)(struct client_fixture *fx));

/* Also starts a metadata server; nodes register themselves. */
void fixture_run_all(unsigned nodes, unsigned disks, void (*body)(struct client_fixture *fx));
/* A test in a cluster with metadata, whose body follows. */
#define CLIENT_TEST(name, nodes, disks)                     \
	static void name##_body(struct client_fixture *fx); \
	static void name(void **state)                      \
	{                                                   \
		(void)state;                                \
		fixture_run_all(nodes, disks, name##_body); \
	}                                                   \
	static void name##_body(struct client_fixture *fx)

/* Also puts several nodes into each rack, in order; or sets the size of the disks. */
void fixture_run_racks(unsigned nodes, unsigned rack_nodes,
		       void (*body)(struct client_fixture *fx));
void fixture_run_small(unsigned nodes, uint64_t disk_bytes,
		       void (*body)(struct client_fixture *fx));
/* Also gives each node two disks of that size (0: the usual); the second disk of the first nodes
 * is flash. */
void fixture_run_media(unsigned nodes, unsigned flash_nodes, uint64_t disk_bytes,
		       void (*body)(struct client_fixture *fx));
/* Also lets calls of the metadata store fail: fx->kv. */
void fixture_run_faulty(unsigned nodes, void (*body)(struct client_fixture *fx));
/* Also injects faults of the network, processes and disks, drawn from the seed. The metadata
 * server and the client have none, and no stored byte is lost permanently. fixture_quiet ends
 * them. */
void fixture_run_storm(unsigned nodes, uint64_t seed, void (*body)(struct client_fixture *fx));
void fixture_quiet(struct client_fixture *fx, uint64_t unused); /* an act */
/* Also uses a pool in place of each node's disk. */
void fixture_run_pools(unsigned nodes, void (*body)(struct client_fixture *fx));
/* Also uses a declustered pool 2+1 of six folders. */
void fixture_run_wide_pools(unsigned nodes, void (*body)(struct client_fixture *fx));
/* Also uses a pool 3+1 that leaves repair to the janitor when it lost more than its code
 * tolerates. */
void fixture_run_outside_pools(unsigned nodes, void (*body)(struct client_fixture *fx));
int fixture_engine_open(struct client_fixture *fx, const struct fabric_options *o,
			struct engine **out);

/* Calls act(b, arg) outside of every process and waits for its end. For the body. */
void fixture_do(struct client_fixture *fx, void (*act)(struct client_fixture *fx, uint64_t arg),
		uint64_t arg);

/* Acts. The argument is a disk; acts on a node take any disk of it. */
void fixture_kill_node(struct client_fixture *fx, uint64_t disk);  /* permanently */
void fixture_start_node(struct client_fixture *fx, uint64_t disk); /* restarts a killed node */
void fixture_add_node(struct client_fixture *fx, uint64_t unused); /* adds a node */
/* restarts a killed node with empty drives */
void fixture_new_drives(struct client_fixture *fx, uint64_t disk);
void fixture_cut_node(struct client_fixture *fx,
		      uint64_t disk); /* partitions the node until it is healed */
void fixture_heal(struct client_fixture *fx, uint64_t unused);

/* Flips a stored bit of a chunk. */
void fixture_flip(struct client_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t at);
/* Damages both headers of a chunk, so that its label is lost. */
void fixture_ruin(struct client_fixture *fx, uint64_t disk, struct chunk_id id);
/* Damages every row of a chunk in a pool. */
void fixture_ruin_rows(struct client_fixture *fx, uint64_t disk, struct chunk_id id);

/* The fabric of the body, with a map of the whole cluster. */
void fixture_fabric_open(struct client_fixture *fx, const struct fabric_options *o);
void fixture_fabric_close(struct client_fixture *fx);

/* Byte `at` of the endless text number `text`. */
uint8_t fixture_byte(uint64_t text, uint64_t at);
void fixture_fill(uint64_t text, uint64_t at, void *bytes, size_t len);
/* Returns whether the bytes are those of the text. */
bool fixture_same(uint64_t text, uint64_t at, const void *bytes, size_t len);

#endif
