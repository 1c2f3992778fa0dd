// SPDX-License-Identifier: Apache-2.0
/*
 * The disks of a node: opens the stores of the configuration and keeps track of their states.
 *
 * A disk is a folder, or a pool over several folders; either is one store with one scheduler. The
 * superblock of a folder names its cluster, node and disk and is compared with the configuration
 * before the folder is opened. The node does not use a folder that is missing or damaged, belongs
 * to another cluster, or has other numbers than the configuration (it is in the wrong slot). It
 * serves the remaining disks.
 *
 *      absent ---(opened)---> online <--> full          a disk that is not open answers -ENODEV
 *        ^                     |  ^
 *        |             (error) v  | (a probe succeeded)
 *     (reopened              suspect ---(more errors)---> failed
 *      by control)                                          |
 *        +--------------------------------------------------+
 *
 * Each disk has a keeper, a fiber that checks it every probe_ns. The keeper opens an absent disk
 * when its folder appears, probes a suspect one, and marks a disk failed whose folder is no longer
 * the one that was opened (unmounted or swapped). It reopens a disk that failed because its device
 * or folder was missing when that is there again. A disk that failed for another reason stays
 * failed until an operator orders it online. A disk that hangs delays no other: a request for its
 * state gets the last known state after a second, as suspect.
 *
 * Formatting. An empty folder may be a mount point whose disk is not mounted. So the node formats
 * an empty folder only at its start and if the option `format` is set, and a member, spare or cache
 * only together with a pool or disk that is completely new. `terrane node format` formats as well.
 * A running node never formats.
 *
 * Pools. A pool opens without its absent members as long as its code tolerates their number. A
 * member whose folder appears later joins if its superblock and its pool record are those of the
 * member. A member that is absent or failed for give_up_ns is replaced by a spare (a formatted,
 * empty disk with the number of the configuration) if there is one; otherwise it is given up if the
 * pool is declustered or single-overlap. Both happen only while the number of members that are out,
 * including given-up ones that are not yet rebuilt, is within the code's tolerance. Beyond that the
 * pool waits until members return or an operator acts. A member that was given up while it was
 * absent returns with its rows when its folder appears again; a member that an operator gave up
 * returns when the operator orders the pool online. Several members return one after the other.
 * After each of these changes a rebuild runs in the background: each chunk of it is a Bronze
 * request of the group REBUILD_GROUP to the pool's scheduler, limited to rebuild_bytes_per_s in
 * total and to rebuild_member_bytes_per_s on each member.
 *
 * A flash folder in front of a disk or pool caches its hot chunks. If it is absent the disk works
 * without a cache until it is opened again.
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

/* A folder and the disk id that its superblock must have. */
struct node_folder {
	uint64_t disk;
	const char *path;
};

/* The strings must live as long as the disks are open. */
struct node_disk_spec {
	uint64_t disk;
	const struct drive_spec *emulate; /* the drive to emulate; NULL: none */
	const struct sched_config *sched; /* NULL: sched_hdd */
	bool is_flash;                    /* its media: flash; else disk */
	bool mem;                         /* in memory, for tests: no folder */
	uint64_t mem_bytes;
	/* One folder, or the members of a pool in order. */
	const struct node_folder *folders;
	uint32_t folder_count;
	bool pool;
	struct store_pool_shape shape; /* id and members are set from the fields above */
	const struct node_folder *spares;
	uint32_t spare_count;
	/* Cache of hot chunks in front of the disk (store/flash.h). */
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
	const struct node_weight *weights; /* weights of traffic groups, on every disk */
	size_t weight_count;
	bool format; /* format empty folders at the start, see above */
	/* format every folder and start no keepers: `terrane node format` */
	bool format_all;
	uint32_t fan_bits; /* for format: 2^fan_bits directories for chunks; 0: 8 */
	uint64_t keep_free_bytes;
	uint32_t sharers;         /* disks that share one filesystem; 0: none do */
	uint32_t open_chunks_max; /* limit for each folder; 0: the store's default */
	uint32_t errors_max;      /* errors of a folder in an hour until it is failed; 0: 10 */
	uint64_t probe_ns;        /* 0: 10 s */
	uint64_t give_up_ns;      /* 0: 10 min */
	/* limit for the bytes that a pool's rebuild writes; 0: none */
	uint64_t rebuild_bytes_per_s;
	/* Limit for the bytes that a rebuild reads and writes on each member, on average over
	 * the members; 0: none. */
	uint64_t rebuild_member_bytes_per_s;
	bool repair_outside; /* see store_pool_set_external_repair */
	/* chunks rebuilt at a time; 0: 3 for each member, at least 8 and at most 128 */
	uint32_t rebuild_parallel;
};

/* The current state of a folder. */
struct node_slot {
	struct node_disk *disk;
	const struct node_folder *folder;
	struct store *store;      /* NULL: absent, or the store belongs to the disk or pool */
	uint64_t created_wall_ns; /* format time of the disk that was opened last; 0: none yet */
	uint64_t down_ns;         /* time since which it is absent or failed; 0: it is neither */
	/* the pool's member is being replaced and may be another disk than the folder's */
	bool changing;
	bool checking;          /* a fiber checks the folder */
	uint64_t checking_ns;   /* begin of that check */
	enum store_state state; /* at the end of the last check */
	bool swapped;           /* the keeper failed it because the folder held another disk */
	bool vanished;          /* it failed because its device or folder was missing */
	bool may_return;        /* given up while its folder was missing */
	bool ordered_out;       /* given up by an operator */
	char trouble[NODE_TROUBLE_MAX];
};

/* The last known information about a disk. */
struct node_gauge {
	struct store_info info;
	bool asking;        /* a fiber calls store_info */
	uint64_t asking_ns; /* begin of that call */
	struct rt_cond answered;
};

struct node_rebuild {
	struct rt_fiber *fiber; /* NULL: none to join */
	bool running;
	bool stopping;
	bool repeat;       /* a rebuild was requested while one runs */
	uint64_t retry_ns; /* earliest time at which the keeper starts the next */
	int last_rc;
	uint64_t ended;
	uint64_t due;   /* value of `ended` from which another member may return */
	uint64_t rows;  /* written by the rebuilds that ended */
	uint64_t bytes; /* written by the rebuilds that ended */
	struct store_pool_progress progress;  /* of the running rebuild, or of the last */
	uint64_t charged_rows, charged_bytes; /* part of progress that the limits have charged */
	/* time at which the limits let the next chunk start */
	uint64_t next_ns;
	uint64_t last_cost_ns; /* time that the limits charged for the last chunk */
	struct rt_cond changed;
};

struct node_disk {
	struct node_disks *owner;
	const struct node_disk_spec *spec;
	struct sched *sched;
	struct store *store; /* NULL: absent */
	struct store *pool;  /* of a pool: its store, also when a cache is in front of it */
	struct store *cache; /* equals store if that is a cache; else NULL */
	char trouble[NODE_TROUBLE_MAX];
	unsigned users; /* calls between node_disk_use and node_disk_done, and the rebuild */
	bool closing;   /* node_disk_use waits until the disk is open again or absent */
	struct rt_cond idle;
	struct rt_cond settled;
	struct node_gauge gauge;
	struct rt_fiber *keeper;
	struct rt_cond checked;
	struct rt_mutex members;     /* held while members are replaced, given up or returned */
	bool fresh;                  /* completely formatted by this start */
	bool overdrawn;              /* more members are out than the code tolerates */
	enum store_state ordered;    /* state of the last order; initially online */
	enum store_state order_done; /* state of the last order that was carried out */
	uint64_t orders;             /* number of orders */
	struct node_slot *slots;     /* one for each folder */
	struct node_slot *spares;
	struct node_slot flash;
	struct node_rebuild rebuild;
	uint64_t read_bytes;  /* payload of reads in progress or waiting for memory */
	uint64_t write_bytes; /* payload of writes in progress */
	struct rt_cond room;
	struct list changes; /* struct change: puts and label-checked deletes in progress */
	struct rt_cond changed;
};

struct node_disks {
	struct node_disks_options options;
	struct node_disk *disks;
	size_t count;
	struct rt_group helpers; /* fibers that check one folder and may hang in it */
	bool starting;
	bool closing;
};

/*
 * Opens the disks that can be opened; the others are absent, with the reason in the log. -EINVAL:
 * the options are inconsistent; -ENOMEM, -EAGAIN.
 */
int node_disks_open(struct node_disks *d, const struct node_disks_options *o);
/* No disk may be in use. */
void node_disks_close(struct node_disks *d);

/*
 * Finds a disk by its id and keeps it open until node_disk_done. Waits while the disk is being
 * reopened. -ENODEV: there is no disk of this id (*out is NULL), or it is absent (*out is set, and
 * its trouble says why).
 */
int node_disk_use(struct node_disks *d, uint64_t disk, struct node_disk **out);
void node_disk_done(struct node_disk *d);

/* Returns the disk of this id, also if it is absent; NULL: there is none. */
struct node_disk *node_disk_find(struct node_disks *d, uint64_t disk);

/* Returns state, space and error counts; the state of an absent disk is failed. Waits at most a
 * second for a disk that hangs: then the numbers are the last known ones and the state is
 * suspect. */
void node_disk_info(struct node_disk *d, struct store_info *out);

/* Carries out an operator's order. Online reopens a failed or absent disk, and returns failed
 * and given-up members of a pool that are present. Errors of store_control; -ENODEV: the disk
 * cannot be opened; -EBUSY: a later order replaced this one. */
int node_disk_control(struct node_disk *d, enum store_state state);

/* --- pools ------------------------------------------------------------------------------------ */

/* Gives up a member and starts a rebuild. -EOPNOTSUPP: the disk is no pool; the errors of
 * store_pool_give_up. The caller is between node_disk_use and _done. */
int node_pool_give_up(struct node_disk *d, uint32_t member);
/* Replaces a member by the disk in its folder, if that is empty, or by a spare. -ENOENT: there
 * is neither; -EBUSY: the member has not failed. */
int node_pool_renew(struct node_disk *d, uint32_t member);
/* Starts a rebuild, or lets another follow the running one. -EAGAIN: the disk is being closed;
 * the keeper starts the rebuild after it is open again. */
int node_pool_start_rebuild(struct node_disk *d);
/* Waits until no rebuild runs and returns the result of the last. */
int node_pool_await_rebuild(struct node_disk *d);

#endif
