// SPDX-License-Identifier: Apache-2.0
/*
 * A complete Terrane inside the simulator: metadata servers on one store, storage nodes in racks with disks or
 * local pools, janitors, and client processes that use every operation of a user. The plan is what the seed draws.
 * The world is the state that outlives the simulated processes.
 *
 *   cluster_world.c     the plan, and the processes of servers, nodes and janitors
 *   cluster_work.c      operations of clients on contents of files of their own
 *   cluster_names.c     operations of clients on names of files of their own
 *   cluster_shared.c    operations of clients on logs and names that all clients share
 *   cluster_secure.c    credentials; cluster_attack.c: a client that tries what it may not
 *   cluster_model.c     what clients may see (knows nothing of Terrane)
 *   cluster_bounds.c    limits of the resources of processes
 *   cluster_check.c     the checker: waits for convergence, compares chunks with records
 *   cluster_keep.c      the checker: blocks under append
 *   cluster_contents.c  the checker: reads everything
 *   cluster_placed.c    files with a placement category, and the check of their outcomes
 *   cluster_watch.c     looks for deleted chunks that a record names, while faults last
 *   cluster.c           rounds of faults and healing
 *
 * Limit of damage. In each round one disk is the victim: only this disk rots, lies (misdirected and stale reads and
 * writes) or dies, and only its node can be lost; at the end, after convergence, a rack can be lost too. Every
 * encoding in use tolerates that in addition to the chunks that a quorum leaves out. After the cluster has
 * converged the next round has another victim. All other faults strike everywhere.
 */
#ifndef TESTS_SIM_CLUSTER_H
#define TESTS_SIM_CLUSTER_H

#include "base/rng.h"
#include "client/engine.h"
#include "cluster_model.h"
#include "kv/mem.h"
#include "meta/gc.h"
#include "meta_client/meta_client.h"
#include "scenario.h"

#define SLEEP_NS (30 * NS_PER_S)   /* shortest sleep; two epochs take about as long */
#define HOLD_NS (60 * NS_PER_S)    /* shortest hold of a log; the longest is twice that */
#define ABSENCE_NS (20 * NS_PER_S) /* longer than the delay of a repair of a silent node */
#define NODES_MAX 24 /* largest number of nodes, including replacements of lost nodes */
#define DISKS_MAX 2  /* largest number of disks of one node */
#define MEMBERS 3    /* number of member disks of a pool */
#define LOOPS_MAX 4  /* largest number of loops of one process */
#define SERVERS_MAX 2
#define JANITORS_MAX 2
#define CLIENTS_MAX 3
#define SLEEPERS_MAX 2 /* largest number of processes that are paused for long in a round */
#define WORKERS 2      /* fibers of a client with files of their own */
#define FILES_MAX 160
#define DIRS_MAX 24
#define SHARED_LOGS 2
#define TENANT "default"
#define PARTITION_BITS 2
#define NODE_PORT 7000U

#define DISK_BYTES (256 * MIB)
#define BLOCK_BYTES (64 * KIB)
#define FILE_BYTES_MAX (3 * BLOCK_BYTES)
#define READ_ROOM (FILE_BYTES_MAX + 100000) /* most bytes of a log, with its last appends */
#define OP_TIMEOUT_MS 6000

/* --- what the seed draws ---------------------------------------------------------------------- */

/* Parameters of an operation; the seed draws them unless `set`. */
struct fixed {
	bool set;
	bool log; /* the operation works on a log, else on a sealed file */
	const char *encoding;
	uint64_t size;
};

struct plan {
	unsigned racks, nodes, disks;       /* racks, nodes, and disks of each node */
	bool pools;                         /* the only disk of each node is a pool 2+1 */
	bool spares;                        /* each pool has a spare drive */
	unsigned loops[NODES_MAX];          /* loops of each node */
	unsigned client_loops[CLIENTS_MAX]; /* loops of each client */
	unsigned server_loops[SERVERS_MAX]; /* loops of each metadata server */
	unsigned janitor_loops[JANITORS_MAX];
	unsigned flash_racks; /* racks in which the second disk of each node is flash */
	bool placed; /* the metadata service decides on the media of some files by their category */
	unsigned servers, janitors, clients;
	unsigned rounds;
	uint64_t faulty_ns; /* time with faults in each round */
	uint64_t pause_ns;  /* longest pause between two operations of a worker */
	uint64_t grace_ns;
	uint64_t quota_bytes; /* quota of the clients' tenant in bytes; 0: none */
	uint64_t files_max;   /* quota of its files and directories; 0: none */
	bool blackouts;       /* all nodes, or all of a rack, lose power at once at random times */
	bool secured;         /* processes have credentials, and one is an attacker */
	bool drains;          /* an operator drains a node in each round */
	bool compacts;        /* janitors compact blocks */
	bool policy;          /* a policy re-encodes sealed files to the last of the encodings */
	unsigned method;      /* enum janitor_method: how pools are repaired */
	bool fast_janitors;   /* janitors begin a round every second or two */
	bool strikes;         /* all nodes lose power right after an acknowledgement */
	bool freezes;         /* a metadata server stands still during a rename */
	bool cuts;            /* a client that writes is cut off from some nodes */
	bool absences;        /* a node stands still until janitors repaired around it */
	/* Number of janitors or clients that stand still for longer than two epochs, in a round. */
	unsigned sleepers;
	bool holds; /* a client holds a log open for one or two minutes of faults, and at rest */
	bool rack_lost; /* after the last convergence a rack of several nodes is lost */
	bool kills;     /* without other faults a node is drained while janitors are killed */
	const char *encodings[6];
	unsigned encoding_count;
	struct kv_mem_options kv;
	uint32_t ops_off;
	unsigned ops_max; /* operations of a worker in a round */
};

/* --- the world -------------------------------------------------------------------------------- */

struct world;

/* Load of a process when it was last checked. */
struct last_look {
	uint64_t lives, waits, at_ns;
};

struct node_place {
	struct world *world;
	unsigned index, rack;
	struct sim_node *node;
	struct sim_disk *disks[DISKS_MAX];
	struct sim_disk *members[MEMBERS]; /* NULL unless the disk is a pool */
	bool replaced;
	struct last_look last;
};

struct role {
	struct world *world;
	unsigned index;
	struct sim_node *node;
	struct last_look last;
};

/* The files and directories of one worker, and its progress. */
struct worker_state {
	struct model_file files[FILES_MAX];
	unsigned count;
	struct model_dir dirs[DIRS_MAX]; /* without the two top directories */
	unsigned dir_count;
	unsigned done;   /* number of operations that the client has ended in this round */
	unsigned rested; /* number of the last rest that it reached: world.rests */
	bool busy;       /* an operation is running; after a crash it is in doubt */
	bool ready;      /* the two top directories exist */
};

/* Faults that a worker requests at a moment that only it knows. */
enum requested_fault { REQUEST_NONE, REQUEST_POWER, REQUEST_FREEZE, REQUEST_CUT, REQUEST_SLEEP };

struct world {
	struct sim *sim;
	struct scenario_result *out;
	struct plan plan;
	/* more damage happened than the encodings tolerate, so contents are not checked */
	bool over;
	struct model model;
	struct kv_mem *kv;
	struct role servers[SERVERS_MAX], janitors[JANITORS_MAX], clients[CLIENTS_MAX];
	struct role checker, watcher, attacker;
	struct world_secrets *secrets; /* NULL: the cluster has no credentials */
	struct node_place nodes[NODES_MAX];
	unsigned node_count;
	struct worker_state worker_states[CLIENTS_MAX][WORKERS];
	struct shared_log logs[SHARED_LOGS];
	unsigned shared_rested[CLIENTS_MAX], holder_rested;
	struct contest *contest;
	struct engine *engines[CLIENTS_MAX]; /* NULL while the client does not run */
	unsigned round;                      /* number of the current round, from 1 */
	bool working;                        /* clients work; else they come to rest */
	unsigned rests;                      /* number of rests until now */
	bool last;                           /* this is the last round */
	bool quota_set, policy_set;
	bool files_bounded; /* the first count of the quota of files ended before the quota was exceeded */
	unsigned drained_round;         /* the round in which a node was last drained */
	enum requested_fault requested; /* strikes when the node has waited requested_waits times */
	struct sim_node *requested_node;
	uint64_t requested_waits;
	uint64_t refused; /* number of failed reads of the checker */
	struct fixed fixed;
	unsigned slept;           /* number of processes put to sleep in this round */
	struct sim_node *sleeper; /* the process that was paused last */
	uint64_t end_ns;          /* end of the faults of this round */
	bool away;       /* a node was paused for long in this round, or several were lost */
	uint64_t cut_ns; /* time of the next change of a cut; 0: none */
	struct sim_node *frozen;  /* paused server; the client is cut off from it at cut_ns */
	uint64_t thaw_ns;         /* time at which its pause ends */
	unsigned requested_count; /* number of faults that workers requested in this round */
	uint64_t texts;           /* number of the next content to write */
	struct rng rng; /* draws the decisions of the scenario; the simulator has its own */
	void (*client)(void *role); /* main function of clients */
	void *ctx;                  /* state of the scenario */
	/* State of the checker: */
	bool checked;
	unsigned fresh;                /* number of files that it has written */
	bool rack_loss_requested;      /* the checker waits for the loss of a rack */
	char lacking[VIOLATION_BYTES]; /* what has not converged yet */
	uint64_t lacking_disk;         /* the disk that `lacking` names; 0: none */
	bool lacking_media;            /* `lacking` is a misplaced chunk */
};

/* cluster_world.c */
void plan_draw(struct plan *p, const struct scenario_input *in, bool over);
void world_build(struct world *w);
/* Adds and starts an empty node in the rack; NULL when there are NODES_MAX. */
struct node_place *world_add_node(struct world *w, unsigned rack);
/* Returns whether disk d of the node, or a member if it is a pool, is damaged or lost. */
bool world_disk_damaged(const struct node_place *n, unsigned d);
/* Returns whether a disk exists, has all synced data and never returned wrong bytes. */
bool world_disk_sound(const struct world *w, uint64_t disk);
bool world_disk_is_flash(const struct node_place *n, unsigned d);
uint64_t world_disk_id(const struct node_place *n, unsigned d);
void world_addrs(const struct world *w, char *out,
		 size_t size); /* addresses of the metadata servers, separated by commas */

/* cluster.c */
/* Returns a world without processes; the caller fills the plan. */
struct world *world_new(struct sim *sim, struct scenario_result *out, uint64_t seed);
void world_free(struct world *w);
/* Lets clients come to rest, and runs the checker to its end. */
void world_heal(struct world *w);
/*
 * Requests a fault for when the client has waited `waits` more times. Does nothing if the round had REQUESTED_MAX.
 */
void world_request_fault(struct world *w, enum requested_fault fault, unsigned client,
			 unsigned waits);

/* cluster_work.c */
void client_main(void *role);
/* Returns the options of clients with this identity. */
struct fabric_options world_fabric(const struct world *w, const char *identity);
/* Opens an engine; retries until it succeeds or the fiber is cancelled. */
int world_engine(struct world *w, unsigned loops, struct engine **out);
int world_engine_as(struct world *w, unsigned loops, const char *tenant, const char *identity,
		    struct engine **out);
/* Runs the operation of this name as the first worker of a client. */
void work_one(struct world *w, struct engine *e, unsigned client, const char *name);
/* Marks the operations in doubt that a crash of the client interrupted. */
void work_set_in_doubt(struct world *w, unsigned client);
int world_meta(struct world *w, const char *tenant, struct rt_pool *pool, struct meta_client **out);
int world_meta_as(struct world *w, const char *tenant, const char *identity, struct rt_pool *pool,
		  struct meta_client **out);
struct model_file *worker_file(struct world *w, unsigned client, unsigned worker, unsigned i);
/* Reads up to `room` bytes from the beginning of a file; the caller frees *bytes. */
int64_t world_read(struct engine *e, const char *path, uint8_t **bytes, uint64_t room);

/* cluster_shared.c */
struct shared_worker {
	struct world *world;
	struct engine *engine;
	struct meta_client *meta;
	unsigned client; /* number as a writer: of the holder of a log, client + CLIENTS_MAX */
};
void shared_main(void *shared_worker);
void holder_main(void *shared_worker);
struct contest *contest_new(void);
void contest_free(struct contest *c);
void contest_check(struct world *w);
/* Sets a policy that re-encodes sealed files, as META_SYSTEM. */
int world_policy(struct meta_call *c, const char *encoding);

/* cluster_bounds.c */
void bounds_look(
	struct world
		*w); /* checks the resources of processes, and their waits since the last call */
void bounds_rest(struct world *w); /* checks that clients at rest hold no memory */

/* cluster_check.c */
void checker_main(void *role);
/* Runs meta_check on the store, without the servers. */
int world_meta_check(struct world *w, struct meta_check_report *out);

#endif
