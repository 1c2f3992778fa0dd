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
 * or folder was missing when the device or folder is present again. A disk that failed for another
 * reason stays failed until an operator orders it online. A disk that hangs delays no other: a
 * request for its state gets the last known state after a second, as suspect.
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
 * total and to rebuild_member_bytes_per_s for each member.
 *
 * A flash folder in front of a disk or pool caches its hot chunks. If the flash folder is absent
 * the disk works without a cache until the disk is opened again.
 */
#ifndef NODE_DISKS_H
#define NODE_DISKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "node/access.h"
#include "node/wire.h"
#include "rt/rt.h"
#include "rt/sync.h"
#include "sched/sched.h"
#include "store/drive.h"
#include "store/pool.h"

#define REBUILD_GROUP "rebuild"
#define FILL_GROUP "flash" /* traffic group of the reads that fill caches */
#define NODE_TROUBLE_MAX 160
#define NODE_PATH_MAX 400

/* A folder and the disk id that its superblock must have. */
struct node_folder {
	uint64_t disk;
	const char *path;
};

/* The configuration of one disk. The strings must live as long as the disks are open. */
struct node_disk_spec {
	uint64_t disk;
	const struct drive_spec *emulate; /* the drive to emulate; NULL: none */
	const struct sched_config *sched; /* NULL: sched_hdd */
	bool is_flash;                    /* the media of the disk is flash; false: disk */
	/* keeps chunks in memory only, for tests; needs no folder */
	bool mem;
	uint64_t mem_bytes;
	/* The folder of the disk, or the folders of a pool's members in order. */
	const struct node_folder *folders;
	uint32_t folder_count;
	bool pool;
	struct store_pool_shape shape; /* id and members are set from the fields above */
	const struct node_folder *spares;
	uint32_t spare_count;
	/* Folder of the cache of hot chunks in front of the disk (store/flash.h). */
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
	/* format empty folders at the start, as the comment on top of this file says */
	bool format;
	/* format every folder and start no keepers: `terrane node format` */
	bool format_all;
	uint32_t fan_bits; /* for format: 2^fan_bits directories for chunks; 0: 8 */
	uint64_t keep_free_bytes;
	/* number of disks that share one filesystem; 0: each has its own */
	uint32_t sharers;
	/* limit for the open chunks of each folder; 0: the store's default */
	uint32_t open_chunks_max;
	/* errors within an hour after which a folder is marked failed; 0: 10 */
	uint32_t errors_max;
	/* time between two checks of a disk by its keeper; 0: 10 s */
	uint64_t probe_ns;
	/* time after which an absent or failed member is replaced or given up; 0: 10 min */
	uint64_t give_up_ns;
	/* limit for the bytes that a pool's rebuild writes; 0: none */
	uint64_t rebuild_bytes_per_s;
	/* Limit for the bytes that a rebuild reads and writes on each member, on average over
	 * the members; 0: none. */
	uint64_t rebuild_member_bytes_per_s;
	bool repair_outside; /* passed to store_pool_set_external_repair of each pool */
	/* chunks rebuilt at a time; 0: 3 for each member, at least 8 and at most 128 */
	uint32_t rebuild_parallel;
};

/* The current state of a folder. */
struct node_slot {
	struct node_disk *disk;
	const struct node_folder *folder;
	/* NULL: absent, or the store belongs to the disk or pool */
	struct store *store;
	/* format time of the disk that was last opened in the folder; 0: none was */
	uint64_t created_wall_ns;
	/* time since which the folder is absent or failed; 0: it is neither */
	uint64_t down_ns;
	/* the pool's member is being replaced, so it may be another disk than the disk in the
	 * folder */
	bool changing;
	bool checking;          /* a fiber checks the folder */
	uint64_t checking_ns;   /* begin of the running check */
	enum store_state state; /* state at the end of the last check */
	/* the keeper marked the disk failed because the folder held another disk */
	bool swapped;
	/* the disk failed because its device or folder was missing */
	bool vanished;
	bool may_return;  /* the member was given up while its folder was missing */
	bool ordered_out; /* an operator gave the member up */
	char trouble[NODE_TROUBLE_MAX];
};

/* The last known information about a disk. */
struct node_gauge {
	struct store_info info;
	bool asking;        /* a fiber calls store_info */
	uint64_t asking_ns; /* begin of the running call of store_info */
	struct rt_cond answered;
};

struct node_rebuild {
	/* fiber of the running rebuild, or of an ended one that was not joined yet; NULL: none */
	struct rt_fiber *fiber;
	bool running;
	bool stopping;
	bool repeat;       /* a rebuild was requested while one runs */
	uint64_t retry_ns; /* earliest time at which the keeper starts the next rebuild */
	int last_rc;
	uint64_t ended;
	uint64_t due;   /* value of `ended` from which another member may return */
	uint64_t rows;  /* rows written by the rebuilds that ended */
	uint64_t bytes; /* bytes written by the rebuilds that ended */
	/* progress of the running rebuild, or of the last one */
	struct store_pool_progress progress;
	/* part of progress that was charged to the rate limits */
	uint64_t charged_rows, charged_bytes;
	/* time at which the rate limits let the rebuild of the next chunk start */
	uint64_t next_ns;
	uint64_t last_cost_ns; /* time that the rate limits charged for the last chunk */
	struct rt_cond changed;
};

struct node_disk {
	struct node_disks *owner;
	const struct node_disk_spec *spec;
	struct sched *sched;
	struct store *store; /* NULL: absent */
	/* store of a pool, also when a cache is in front of it; NULL: the disk is no pool */
	struct store *pool;
	struct store *cache; /* equal to store if store is a cache; else NULL */
	char trouble[NODE_TROUBLE_MAX];
	unsigned users; /* calls between node_disk_use and node_disk_done, and the rebuild */
	bool closing;   /* node_disk_use waits until the disk is open again or absent */
	struct rt_cond idle;
	struct rt_cond settled;
	struct node_gauge gauge;
	struct rt_fiber *keeper;
	struct rt_cond checked;
	/* held while members are replaced, given up or returned */
	struct rt_mutex members;
	bool fresh;                  /* this start of the node formatted the whole disk */
	bool overdrawn;              /* more members are out than the code tolerates */
	enum store_state ordered;    /* state of the last order; initially online */
	enum store_state order_done; /* state of the last order that was carried out */
	uint64_t orders;             /* number of orders */
	struct node_slot *slots;     /* array of slots, one for each folder of the disk */
	struct node_slot *spares;
	struct node_slot flash;
	struct node_rebuild rebuild;
	uint64_t read_bytes;  /* payload of reads in progress or waiting for memory */
	uint64_t write_bytes; /* payload of writes in progress */
	struct rt_cond room;
	struct node_access access; /* keys of tokens, labels of chunks */
	struct list changes;       /* puts and label-checked deletes in progress (struct change) */
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

/* Returns -EINVAL if the options are inconsistent, else 0. */
int node_disks_check(const struct node_disks_options *o);
/* Opens the disks that can be opened; a disk that cannot be opened is absent, with the reason in
 * the log. -EINVAL: the options are inconsistent; -ENOMEM, -EAGAIN. */
int node_disks_open(struct node_disks *d, const struct node_disks_options *o);
/* Closes all disks and frees the set. No disk may be in use. */
void node_disks_close(struct node_disks *d);

/*
 * Finds a disk by its id and keeps it open until node_disk_done. Waits while the disk is being
 * reopened. -ENODEV: no disk has this id (*out is NULL), or the disk is absent (*out is set, and
 * its field trouble holds the reason).
 */
int node_disk_use(struct node_disks *d, uint64_t disk, struct node_disk **out);
void node_disk_done(struct node_disk *d);

/* Returns the disk with this id, also if the disk is absent; NULL: no disk has this id. */
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
 * store_pool_give_up. The caller holds the disk between node_disk_use and node_disk_done. */
int node_pool_give_up(struct node_disk *d, uint32_t member);
/*
 * Replaces a member by the disk in the member's folder, if that disk is empty, or by a spare.
 * -ENOENT: the folder has no empty disk and there is no spare; -EBUSY: the member has not failed.
 */
int node_pool_renew(struct node_disk *d, uint32_t member);
/* Starts a rebuild; if a rebuild runs, another one follows it. -EAGAIN: the disk is being closed;
 * the keeper starts the rebuild after the disk is open again. */
int node_pool_start_rebuild(struct node_disk *d);
/* Waits until no rebuild of the pool runs and returns the result of the last rebuild. */
int node_pool_await_rebuild(struct node_disk *d);

#endif
