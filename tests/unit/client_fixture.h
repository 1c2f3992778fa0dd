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
#include "meta/restored.h"
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
	unsigned drive; /* number of times that the disk's drive was replaced */
};

struct client_fixture {
	struct sim_config config;
	struct sim *sim;
	struct fixture_node nodes[FIXTURE_NODES_MAX];
	unsigned node_count;
	unsigned disk_count; /* number of disks of each node */
	unsigned rack_nodes; /* number of nodes of each rack */
	/* the second disk of this number of nodes is flash; the nodes are the first ones */
	unsigned flash_nodes;
	uint64_t disk_bytes;
	struct sim_node *client;
	struct sim_node *meta;  /* machine of the metadata server; NULL: the cluster has none */
	struct sim_node *other; /* machine of an additional process that a test may start */
	unsigned prep_cores;    /* of each node, for operations on images */
	bool pools;             /* the first disk of each node is a 2+1 pool of three folders */
	bool wide;              /* the pools are declustered over six folders */
	/* a pool that lost more than its code tolerates leaves all repair to the janitor */
	bool outside;
	uint64_t sick; /* id of a disk whose node reports the state below; 0: none */
	enum cluster_state sick_health;
	struct kv_mem *kv;
	struct kv *store;      /* store of the metadata server */
	struct kv_mem *backup; /* copy of the metadata; NULL: none */
	bool restored;         /* the server prepares a restored store before it serves */
	struct meta_restored_report report; /* of that */
	void (*body)(struct client_fixture *fx);
	bool done;
	/*
	 * A function that the body asks the test program to call outside of the simulation: see
	 * fixture_do.
	 */
	void (*act)(struct client_fixture *fx, uint64_t arg);
	uint64_t act_arg;
	/* For the body of the test: */
	struct cluster map;
	struct fabric fabric;
	struct engine *engine;
};

/* Runs the body in a cluster with this number of nodes and no metadata server. */
void fixture_run(unsigned nodes, unsigned disks, void (*body)(struct client_fixture *fx));

/* Also starts a metadata server; nodes register themselves. */
void fixture_run_all(unsigned nodes, unsigned disks, void (*body)(struct client_fixture *fx));
/* Defines a test in a cluster with metadata; its body follows. */
#define CLIENT_TEST(name, nodes, disks)                     \
	static void name##_body(struct client_fixture *fx); \
	static void name(void **state)                      \
	{                                                   \
		(void)state;                                \
		fixture_run_all(nodes, disks, name##_body); \
	}                                                   \
	static void name##_body(struct client_fixture *fx)

/*
 * Like fixture_run_all; also puts several nodes into each rack, in order, or sets the size of the
 * disks.
 */
void fixture_run_racks(unsigned nodes, unsigned rack_nodes,
		       void (*body)(struct client_fixture *fx));
void fixture_run_small(unsigned nodes, uint64_t disk_bytes,
		       void (*body)(struct client_fixture *fx));
/*
 * Like fixture_run_all; also gives each node two disks of that size (0: DISK_BYTES), the second of
 * which is flash on the first nodes.
 */
void fixture_run_media(unsigned nodes, unsigned flash_nodes, uint64_t disk_bytes,
		       void (*body)(struct client_fixture *fx));
/* Like fixture_run_all; also lets calls of the metadata store fail: fx->kv. */
void fixture_run_faulty(unsigned nodes, void (*body)(struct client_fixture *fx));
/*
 * Like fixture_run_all; also gives every packet the same latency, half of FIXTURE_TRIP_NS, and
 * makes the disks much faster: so the duration of a call divided by FIXTURE_TRIP_NS is the number
 * of its sequential round trips.
 */
#define FIXTURE_TRIP_NS (100 * NS_PER_MS)
void fixture_run_steady(unsigned nodes, void (*body)(struct client_fixture *fx));
/* Like fixture_run_all, with disks of 2 GiB that take this long for a MiB. */
void fixture_run_paced(unsigned nodes, uint64_t disk_ns_per_mib,
		       void (*body)(struct client_fixture *fx));
/*
 * Like fixture_run_all; also injects faults of the network, processes and disks, drawn from the
 * seed. The metadata server and the client get no faults, and no stored byte is lost permanently.
 * fixture_quiet ends the faults.
 */
void fixture_run_storm(unsigned nodes, uint64_t seed, void (*body)(struct client_fixture *fx));
/* Ends all faults. A function for fixture_do. */
void fixture_quiet(struct client_fixture *fx, uint64_t unused);
/*
 * Like fixture_run_all, or with pools as fixture_run_pools, with nodes that do operations on images; a
 * seed other than 0 injects faults as fixture_run_storm does.
 */
void fixture_run_prep(unsigned nodes, bool pools, uint64_t seed,
		      void (*body)(struct client_fixture *fx));
/* Like fixture_run_all, with a pool in place of each node's disk. */
void fixture_run_pools(unsigned nodes, void (*body)(struct client_fixture *fx));
/* Like fixture_run_all, with a declustered 2+1 pool of six folders in place of each node's disk. */
void fixture_run_wide_pools(unsigned nodes, void (*body)(struct client_fixture *fx));
/*
 * Like fixture_run_all, with a 3+1 pool that leaves repair to the janitor when it lost more than
 * its code tolerates.
 */
void fixture_run_outside_pools(unsigned nodes, void (*body)(struct client_fixture *fx));
/* Loops of the engines that fixture_engine_open opens. With several, all of them get work. */
extern unsigned fixture_loops;
int fixture_several_loops(void **state);
int fixture_one_loop(void **state);
/* The rows of a test that runs on one loop and on several. */
#define ON_LOOPS(test)                                                                         \
	cmocka_unit_test(test),                                                                \
	{                                                                                      \
#test "_on_several_loops", test, fixture_several_loops, fixture_one_loop, NULL \
	}

int fixture_engine_open(struct client_fixture *fx, const struct fabric_options *o,
			struct engine **out);

/*
 * Calls act(fx, arg) outside of every simulated process and waits until it has returned. For the
 * body of the test.
 */
void fixture_do(struct client_fixture *fx, void (*act)(struct client_fixture *fx, uint64_t arg),
		uint64_t arg);

/*
 * Functions for fixture_do. The argument is the number of a disk; functions that concern a node
 * take any disk of it.
 */
/* kills the node; it does not restart by itself */
void fixture_kill_node(struct client_fixture *fx, uint64_t disk);
void fixture_start_node(struct client_fixture *fx, uint64_t disk); /* restarts a killed node */
void fixture_add_node(struct client_fixture *fx, uint64_t unused); /* adds a node */
/* restarts a killed node with empty drives */
void fixture_new_drives(struct client_fixture *fx, uint64_t disk);
/* cuts the node off the network until the network is healed */
void fixture_cut_node(struct client_fixture *fx, uint64_t disk);
void fixture_heal(struct client_fixture *fx, uint64_t unused);

/* Copies the metadata; stops its server; goes back to the copy, and starts the server as after a restore. */
void fixture_backup(struct client_fixture *fx, uint64_t unused);
void fixture_stop_meta(struct client_fixture *fx, uint64_t unused);
void fixture_restore(struct client_fixture *fx, uint64_t unused);

/* Flips a bit of a chunk on its disk. */
void fixture_flip(struct client_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t at);
/* Damages both headers of a chunk on its disk, so that its label is unreadable. */
void fixture_ruin(struct client_fixture *fx, uint64_t disk, struct chunk_id id);
/* Damages every row of a chunk in a pool. */
void fixture_ruin_rows(struct client_fixture *fx, uint64_t disk, struct chunk_id id);

/* Initializes a fabric for the body, with a map of all nodes and disks. */
void fixture_fabric_open(struct client_fixture *fx, const struct fabric_options *o);
void fixture_fabric_close(struct client_fixture *fx);

/*
 * Returns the byte at position `at` of text number `text`; each text is an endless sequence of
 * bytes.
 */
uint8_t fixture_byte(uint64_t text, uint64_t at);
void fixture_fill(uint64_t text, uint64_t at, void *bytes, size_t len);
/* Returns whether the bytes are those of the text. */
bool fixture_same(uint64_t text, uint64_t at, const void *bytes, size_t len);

#endif
