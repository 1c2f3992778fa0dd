// SPDX-License-Identifier: Apache-2.0
/*
 * A whole Terrane inside the simulator: metadata servers on one store, storage nodes in racks with disks or
 * local pools, janitors, and client processes that do everything a user can. What a seed draws is the plan;
 * everything that outlives a simulated process is the world.
 *
 *   cluster_world.c   the plan, and the processes of servers, nodes and janitors
 *   cluster_work.c    what clients do to files of their own,
 *   cluster_names.c   and to their names
 *   cluster_shared.c  what they do to logs and names that they share
 *   cluster_model.c   what may be seen (no Terrane in it)
 *   cluster_bounds.c  what processes may have and do at once
 *   cluster_check.c   the checker: waits for convergence, compares chunks with records,
 *   cluster_keep.c      looks at blocks under append,
 *   cluster_contents.c  and reads all
 *   cluster_watch.c   looks for chunks that are named and deleted, while faults last
 *   cluster.c         rounds of faults and healing
 *
 * Budget. One disk at a time is the victim: only it rots, lies (misdirected and stale reads and
 * writes) or dies, and only its node can be lost; a whole rack when all is whole, in the end. Every encoding in use bears that on top of what a quorum leaves out.
 * When all is whole again the next round has another victim. All other faults strike everywhere.
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

#define SLEEP_NS (30 * NS_PER_S)   /* at least; two epochs take about as long */
#define HOLD_NS (60 * NS_PER_S)    /* at least, and up to twice that */
#define ABSENCE_NS (20 * NS_PER_S) /* longer than a janitor waits before it repairs around a node */
#define NODES_MAX 24               /* with those that replace lost ones */
#define DISKS_MAX 2                /* of one node */
#define MEMBERS 3                  /* of a pool */
#define SERVERS_MAX 2
#define JANITORS_MAX 2
#define CLIENTS_MAX 3
#define SLEEPERS_MAX 2 /* in a round */
#define WORKERS 2      /* of one client, with files of their own */
#define FILES_MAX 160
#define DIRS_MAX 24
#define SHARED_LOGS 2
#define TENANT "default"
#define PARTITION_BITS 2
#define NODE_PORT 7000U

#define DISK_BYTES (256 * MIB)
#define BLOCK_BYTES (64 * KIB)
#define FILE_BYTES_MAX (3 * BLOCK_BYTES)
#define READ_ROOM (FILE_BYTES_MAX + 100000) /* a log is as long at most, with its last appends */
#define OP_TIMEOUT_MS 6000

/* --- what the seed draws ---------------------------------------------------------------------- */

/* What an operation does, instead of what is drawn. */
struct fixed {
	bool set;
	bool log; /* the file that it is done to */
	const char *encoding;
	uint64_t size;
};

struct plan {
	unsigned racks, nodes, disks; /* disks of each node */
	bool pools;                   /* the first disk of each node is a pool 2+1, */
	bool spares;                  /* with a drive to spare */
	unsigned flash_racks;         /* in so many racks the second disk of each node is flash */
	unsigned servers, janitors, clients;
	unsigned rounds;
	uint64_t faulty_ns; /* of each round */
	uint64_t pause_ns;  /* between two operations of a worker, at most */
	uint64_t grace_ns;
	uint64_t quota_bytes; /* 0: none */
	bool blackouts;       /* now and then all nodes lose power at once */
	bool drains;          /* an operator empties a node in the middle */
	bool compacts;        /* blocks that are mostly dead are written anew */
	bool policy;          /* what is sealed gets the last of the encodings by and by */
	unsigned method;      /* enum janitor_method */
	bool fast_janitors;   /* janitors come round every other second */
	bool strikes;         /* power fails when somebody was just told that it is done */
	bool freezes;         /* a server stands still when somebody renames */
	bool cuts;            /* somebody who writes is cut off from some nodes */
	bool absences;        /* a node stands still until others have done without it */
	/* Of a round: janitors or clients that stand still for longer than two epochs. */
	unsigned sleepers;
	bool holds;     /* a client holds a log open for a minute or two, and at rest */
	bool rack_lost; /* in the end, when all is whole, a rack of several nodes is lost */
	bool kills;     /* when all else is quiet a node is emptied, and janitors are killed */
	const char *encodings[6];
	unsigned encoding_count;
	struct kv_mem_options kv;
	uint32_t ops_off;
	unsigned ops_max; /* of a worker in a round */
};

/* --- the world -------------------------------------------------------------------------------- */

struct world;

/* How busy a process was when it was last looked at. */
struct last_look {
	uint64_t lives, waits, at_ns;
};

struct node_place {
	struct world *world;
	unsigned index, rack;
	struct sim_node *node;
	struct sim_disk *disks[DISKS_MAX];
	struct sim_disk *members[MEMBERS]; /* of the first disk, when it is a pool */
	bool replaced;
	struct last_look last;
};

struct role {
	struct world *world;
	unsigned index;
	struct sim_node *node;
	struct last_look last;
};

/* The files of one worker, and how far it is. */
struct worker_state {
	struct model_file files[FILES_MAX];
	unsigned count;
	struct model_dir dirs[DIRS_MAX]; /* but those at the top */
	unsigned dir_count;
	unsigned done;   /* operations in this round */
	unsigned rested; /* the last rest that it has come to */
	bool busy;       /* an operation is under way: after a crash it is in doubt */
	bool ready;      /* the directories at the top are made */
};

/* Faults at a moment that matters, which only who works knows. */
enum requested_fault { REQUEST_NONE, REQUEST_POWER, REQUEST_FREEZE, REQUEST_CUT, REQUEST_SLEEP };

struct world {
	struct sim *sim;
	struct scenario_result *out;
	struct plan plan;
	bool over; /* over the budget */
	struct model model;
	struct kv_mem *kv;
	struct role servers[SERVERS_MAX], janitors[JANITORS_MAX], clients[CLIENTS_MAX];
	struct role checker, watcher;
	struct node_place nodes[NODES_MAX];
	unsigned node_count;
	struct worker_state worker_states[CLIENTS_MAX][WORKERS];
	struct shared_log logs[SHARED_LOGS];
	unsigned shared_rested[CLIENTS_MAX], holder_rested;
	struct contest *contest;
	struct engine *engines[CLIENTS_MAX]; /* of those that live */
	unsigned round;                      /* from 1 */
	bool working;                        /* else clients come to rest: */
	unsigned rests;                      /* so many times until now */
	bool last;                           /* no round follows */
	bool quota_set, policy_set;
	unsigned drained_round;         /* in which a node was last to be emptied */
	enum requested_fault requested; /* granted when this node has waited so often: */
	struct sim_node *requested_node;
	uint64_t requested_waits;
	uint64_t refused; /* reads of the checker */
	struct fixed fixed;
	unsigned slept;           /* so many processes were put to sleep in this round, */
	struct sim_node *sleeper; /* this one last */
	uint64_t end_ns;          /* of the faults of this round */
	bool away;                /* a node was sent away in this round, or several lost */
	uint64_t cut_ns;          /* until when somebody is cut off; 0: nobody */
	struct sim_node *frozen;  /* a server; then cut_ns is when the client is cut off from it, */
	uint64_t thaw_ns;         /* and until then it stands still */
	unsigned requested_count; /* so many in this round yet */
	uint64_t texts;           /* next content */
	struct rng rng;           /* of the scenario itself */
	void (*client)(void *role); /* what clients run */
	void *ctx;                  /* of the scenario */
	/* The checker's: */
	bool checked;
	unsigned fresh;                /* files that it has written */
	bool rack_loss_requested;      /* a rack is to be lost now */
	char lacking[VIOLATION_BYTES]; /* what is not converged yet, */
	uint64_t lacking_disk;         /* and which disk it names; 0: none */
	bool lacking_media;            /* it is a chunk on the wrong media */
};

/* cluster_world.c */
void plan_draw(struct plan *p, const struct scenario_input *in, bool over);
void world_build(struct world *w);
/* A new, empty node in the rack; NULL: there are too many. */
struct node_place *world_add_node(struct world *w, unsigned rack);
/* Of disk d of a node. */
/* Whether anything of a disk, or of the members of a pool, is damaged or gone. */
bool world_disk_damaged(const struct node_place *n, unsigned d);
/* Whether a disk is there, never lost anything that was synced, and never lied. */
bool world_disk_sound(const struct world *w, uint64_t disk);
bool world_disk_is_flash(const struct node_place *n, unsigned d);
uint64_t world_disk_id(const struct node_place *n, unsigned d);
void world_addrs(const struct world *w, char *out, size_t size); /* with commas between */

/* cluster.c */
/* A world with nothing in it but what every scenario needs; the plan is the caller's. */
struct world *world_new(struct sim *sim, struct scenario_result *out, uint64_t seed);
void world_free(struct world *w);
/* Clients come to rest, and the checker looks at everything. */
void world_heal(struct world *w);
/* The next fault, when the client has waited so often. Nothing when there were enough in this round. */
void world_request_fault(struct world *w, enum requested_fault fault, unsigned client,
			 unsigned waits);

/* cluster_work.c */
void client_main(void *role);
const struct fabric_options *world_fabric(void);
/* Tries until it has one, or is cancelled. */
int world_engine(struct world *w, struct engine **out);
/* One operation by its name, by the first worker of a client; what an earlier life was at is left. */
void work_one(struct world *w, struct engine *e, unsigned client, const char *name);
void work_set_in_doubt(struct world *w, unsigned client);
int world_meta(struct world *w, const char *tenant, struct rt_pool *pool, struct meta_client **out);
struct model_file *worker_file(struct world *w, unsigned client, unsigned worker, unsigned i);
/* Reads a file from its beginning; *bytes is the caller's to free. */
int64_t world_read(struct engine *e, const char *path, uint8_t **bytes, uint64_t room);

/* cluster_shared.c */
struct shared_worker {
	struct world *world;
	struct engine *engine;
	struct meta_client *meta;
	unsigned client; /* as a writer; who holds a log open has the next numbers */
};
void shared_main(void *shared_worker);
void holder_main(void *shared_worker);
struct contest *contest_new(void);
void contest_free(struct contest *c);
void contest_check(struct world *w);
/* With META_SYSTEM: what is sealed gets the encoding by and by. */
int world_policy(struct meta_call *c, const char *encoding);

/* cluster_bounds.c */
void bounds_look(struct world *w); /* what processes have, and have done since the last look */
void bounds_rest(struct world *w); /* clients at rest hold no memory */

/* cluster_check.c */
void checker_main(void *role);
/* Of the store itself, beside the servers. */
int world_meta_check(struct world *w, struct meta_check_report *out);

#endif
