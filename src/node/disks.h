// SPDX-License-Identifier: Apache-2.0
/*
 * The disks of a node: from configuration to stores, and what becomes of them.
 *
 * A disk is a folder, or a pool over several folders; both are one store with one scheduler. What a folder
 * must be is known before it is opened: its superblock names cluster, node and disk. A folder of another
 * cluster is foreign, one of this cluster with other numbers is in the wrong slot: neither is used, and
 * neither is one that is missing or broken. The node serves the others.
 *
 *      absent ---(opened)---> online <--> full          what is not open answers -ENODEV
 *        ^                     |  ^
 *        |             (error) v  | (a probe went well)
 *     (reopened              suspect ---(more errors)---> failed
 *      by control)                                          |
 *        +--------------------------------------------------+
 *
 * Each disk has a fiber, its keeper, that looks at it every probe_ns: an absent disk is opened when it has
 * come, a suspect one probed, a folder that is no longer what was opened (unmounted, swapped) failed. One
 * that failed because its device or folder was gone is opened again when that is back. One that failed
 * otherwise stays so until an operator orders it online. A disk that hangs holds up nobody else: who asks
 * for its state has the last one known after a second, as suspect.
 *
 * Formatting. An empty folder may be a mount point without its disk. So it becomes a disk only when the
 * node starts with leave to format, and then a member, spare or cache only along with a pool or disk that
 * is all new; or by `terrane node format`. Never while the node runs.
 *
 * Pools. A pool opens without members that are absent, as long as its code bears it. A member that comes
 * later, or comes back, joins: its superblock and its record of the pool must be those of the member.
 * One that is absent or failed for give_up_ns is replaced by a spare (a formatted, empty disk of the
 * configuration's number) when there is one, else given up when the pool is declustered or
 * single-overlap. This happens only while no more members are out than the code bears, given up and not
 * yet rebuilt ones included: beyond that the pool waits for disks to come back, or for an operator. A
 * member that was given up while it was absent returns with all it has when it comes back, and one that
 * an operator gave up when the pool is ordered online; several do one after the other. After each of these a rebuild runs in
 * the background: each chunk of it is a Bronze request of the group REBUILD_GROUP to the pool's
 * scheduler, at most rebuild_bytes_per_s and, on each member, rebuild_member_bytes_per_s.
 *
 * A flash folder in front of a disk or pool caches its hot chunks. One that is absent is done without, until the
 * disk is opened again.
 */
#ifndef NODE_DISKS_H
#define NODE_DISKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "node/disk_sched.h"
#include "node/wire.h"
#include "rt/rt.h"
#include "rt/sync.h"
#include "store/drive.h"
#include "store/pool.h"

#define REBUILD_GROUP "rebuild"
#define FILL_GROUP "flash" /* reads that fill caches */
#define NODE_TROUBLE_MAX 160
#define NODE_PATH_MAX 400

/* A folder, and the number its superblock must have. */
struct node_folder {
	uint64_t disk;
	const char *path;
};

/* Strings are borrowed for as long as the disks are open. */
struct node_disk_spec {
	uint64_t disk;
	const struct drive_spec *emulate; /* the speed to have; NULL: its own */
	const struct sched_config *sched; /* NULL: sched_hdd */
	bool is_flash;                    /* its media: flash; else disk */
	bool mem;                         /* in memory, for tests: no folder */
	uint64_t mem_bytes;
	/* One folder, or the members of a pool in order. */
	const struct node_folder *folders;
	uint32_t folder_count;
	bool pool;
	struct store_pool_shape shape; /* id and members are set from the above */
	const struct node_folder *spares;
	uint32_t spare_count;
	/* A cache of hot chunks in front of it (store/flash.h). */
	const struct node_folder *flash; /* NULL: none */
	uint64_t flash_bytes;
	uint64_t flash_write_bytes_per_s;
};

struct node_weight {
	const char *group;
	uint32_t weight;
};

struct node_disks_options {
	uint64_t cluster[2];
	uint64_t node;
	const struct node_disk_spec *disks;
	size_t disk_count;
	const struct node_weight *weights; /* of traffic groups, on every disk */
	size_t weight_count;
	bool format;       /* make disks of empty folders at a first start, see above */
	bool format_all;   /* of all there are, by order, and keep nothing */
	uint32_t fan_bits; /* of those: 2^fan_bits directories for chunks; 0: 8 */
	uint64_t keep_free_bytes;
	uint32_t sharers;             /* disks that lie on one filesystem with each; 0: none do */
	uint32_t open_chunks_max;     /* of each folder; 0: the store's default */
	uint32_t errors_max;          /* of each folder in an hour; 0: 10 */
	uint64_t probe_ns;            /* 0: 10 s */
	uint64_t give_up_ns;          /* 0: 10 min */
	uint64_t rebuild_bytes_per_s; /* of each pool, written; 0: no limit */
	/* That a rebuild may read and write on each member, on average over them; 0: no limit. */
	uint64_t rebuild_member_bytes_per_s;
	bool repair_outside;       /* see store_pool_set_external_repair */
	uint32_t rebuild_parallel; /* chunks at a time; 0: 3 for each member, 8 to 128 */
};

/* A folder as it is now. */
struct node_slot {
	struct node_disk *disk;
	const struct node_folder *folder;
	struct store *store;      /* NULL: absent. A member's belongs to the pool */
	uint64_t created_wall_ns; /* of the disk that was opened last; 0: none yet */
	uint64_t down_ns;         /* since when it is absent or failed; 0: it is not */
	bool changing;            /* the pool's member may be another disk than the folder's */
	bool checking;            /* a fiber looks at it, */
	uint64_t checking_ns;     /* since then */
	enum store_state state;   /* as it was when it was looked at last */
	bool swapped;             /* the keeper failed it: the folder was another's */
	bool gone;                /* it failed because it was no longer there */
	bool may_return;          /* given up while it was gone */
	bool ordered_out;         /* given up by an operator */
	char trouble[NODE_TROUBLE_MAX];
};

/* What a disk said of itself last. */
struct node_gauge {
	struct store_info info;
	bool asking;        /* a fiber does, */
	uint64_t asking_ns; /* since then */
	struct rt_cond told;
};

struct node_rebuild {
	struct rt_fiber *fiber; /* NULL: none under way */
	bool running;
	bool stopping;
	bool again;        /* something happened meanwhile */
	uint64_t retry_ns; /* before that the keeper does not try again */
	int last_rc;
	uint64_t ended;
	uint64_t due;  /* so many must have ended before another member returns */
	uint64_t rows; /* of those that ended; the rest of the same */
	uint64_t bytes;
	struct store_pool_progress progress;  /* of the one under way, or of the last */
	uint64_t charged_rows, charged_bytes; /* of it: paid for */
	uint64_t next_ns;                     /* when the limits let the next chunk begin */
	uint64_t last_cost_ns;                /* of a chunk */
	struct rt_cond changed;
};

struct node_disk {
	struct node_disks *owner;
	const struct node_disk_spec *spec;
	struct sched *sched;
	struct store *store; /* NULL: absent */
	struct store *pool;  /* of a pool: the pool itself, also when a cache is in front of it */
	struct store *cache; /* the store, when it is a cache */
	char trouble[NODE_TROUBLE_MAX];
	unsigned users;
	bool closing; /* who comes waits until it is open again, or absent */
	struct rt_cond idle;
	struct rt_cond settled;
	struct node_gauge gauge;
	struct rt_fiber *keeper;
	struct rt_cond checked;
	struct rt_mutex members;  /* held by who puts members in their places or takes them out */
	bool fresh;               /* all of it was formatted just now */
	bool overdrawn;           /* more members are out than the code bears */
	enum store_state ordered; /* online, or draining or failed by an operator */
	enum store_state obeyed;  /* of the orders: the last that was carried out */
	uint64_t orders;          /* that were given */
	struct node_slot *slots;  /* for each folder */
	struct node_slot *spares;
	struct node_slot flash;
	struct node_rebuild rebuild;
	uint64_t read_bytes;  /* payload of reads that are under way, or wait for memory */
	uint64_t write_bytes; /* and of writes */
	struct rt_cond room;
	struct list changes; /* puts, and deletes of one certain put, that are under way */
	struct rt_cond changed;
};

struct node_disks {
	struct node_disks_options options;
	struct node_disk *disks;
	size_t count;
	struct rt_group helpers; /* fibers that look at one folder, and may hang there */
	bool starting;
	bool closing;
};

/*
 * Opens what can be opened; the rest is absent, with its reason in the log. -EINVAL for options that
 * contradict themselves, -ENOMEM, -EAGAIN.
 */
int node_disks_open(struct node_disks *d, const struct node_disks_options *o);
/* Nobody may use a disk. */
void node_disks_close(struct node_disks *d);

/*
 * A disk by its number, open until node_disk_done. Waits while it is being opened anew. -ENODEV when there
 * is none of that number, or it is absent (then *out is set, for its trouble).
 */
int node_disk_use(struct node_disks *d, uint64_t disk, struct node_disk **out);
void node_disk_done(struct node_disk *d);

/* Even when it is absent; NULL when there is none. */
struct node_disk *node_disk_find(struct node_disks *d, uint64_t disk);

/* State, space and errors; an absent disk is failed. Waits, for one that hangs a second at most: then the
 * numbers are old and the state is suspect. */
void node_disk_info(struct node_disk *d, struct store_info *out);

/* An operator's order. For online a failed or absent disk is opened anew, and a pool takes back members that
 * failed, or were given up, and are there. As store_control; -ENODEV; -EBUSY when
 * another order was given meanwhile. */
int node_disk_control(struct node_disk *d, enum store_state state);

/* --- pools ------------------------------------------------------------------------------------ */

/* -EOPNOTSUPP for a disk that is no pool; else as the store's. The disk is in use. */
int node_pool_give_up(struct node_disk *d, uint32_t member);
/* -ENOENT when there is neither a fresh folder nor a spare. */
int node_pool_renew(struct node_disk *d, uint32_t member);
/* Starts one, or has the one under way followed by another. -EAGAIN while the disk is being closed: when it is
 * open again the keeper starts what is due. */
int node_pool_start_rebuild(struct node_disk *d);
/* Waits until none is under way; the result of the last. */
int node_pool_await_rebuild(struct node_disk *d);

#endif
