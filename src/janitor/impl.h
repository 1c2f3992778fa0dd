// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the janitor only. */
#ifndef JANITOR_IMPL_H
#define JANITOR_IMPL_H

#include "base/slice.h"
#include "janitor/janitor.h"
#include "janitor/stats.h"
#include "meta_client/meta_client.h"

#define JANITOR_SHARES 16 /* of the partitions: what one lease covers */
#define JANITOR_SIGHTINGS_MAX 1000000
#define JANITOR_PACERS_MAX (CLUSTER_DISKS_MAX + CLUSTER_RACKS_MAX)

struct policy;

/* What a tenant uses, as it was last asked for. */
struct tenant_use {
	struct meta_tenant tenant;
	struct meta_usage usage; /* of its root */
};

/* Something seen, and in which epoch. */
struct sighting {
	uint64_t epoch;
	uint64_t last_epoch; /* when it was last seen */
	uint64_t put;        /* of a chunk: which one of that name; 0: it cannot be told */
};

/* Bytes that may go to or from something: see pace_wait. */
struct pacer {
	uint64_t free_ns; /* when all that was let through is done, at its rate */
};

/* Repairs that came to nothing, in one round. */
struct stuck {
	uint64_t lost, no_room;
};

struct janitor {
	struct janitor_options opts; /* without zeroes */
	struct fabric fabric;
	struct meta_client *meta;
	struct engine *engine; /* over both: rewrites blocks of all tenants */
	uint64_t holder;
	struct map leases;    /* hash of the name -> struct held */
	struct map unwell;    /* node or disk id, mixed -> struct since */
	struct map pacers;    /* disk or rack id, mixed -> struct pacer */
	struct map sightings; /* hash of (disk, chunk) -> struct sighting */
	struct map passes;    /* disk id -> struct pass */
	struct map drives;    /* disk id -> struct drive */
	uint64_t start_ns;
	/* The epoch, and since when it was seen. */
	uint64_t epoch, epoch_ns, partitions;
	uint64_t thorough_epoch[JANITOR_SHARES]; /* in which the seldom kinds were last walked */
	struct pacer deletes;
	/* What was last counted of all blocks, and how even it is: survey.c. */
	struct stats sums;
	struct stats_balance balance;
	char rack[64];   /* "": it stands in none */
	unsigned others; /* janitors that live besides this one: report.c */
	uint64_t note_turn;
	struct janitor_repair repairs[JANITOR_REPAIRS_MAX]; /* in no order; disk 0: none */
	struct policy *policies;                            /* policy.c */
	size_t policy_count;
	struct map
		compacted; /* hash of (tenant, block) -> struct sighting: the collector's by now */
	uint64_t survey_epoch;
	struct pacer rewrites;
	struct tenant_use *tenants; /* of the last survey */
	size_t tenant_count;
	uint64_t report_turn;
	/* As it is now: of the last look at all blocks, and of pools. The round's grow while it goes on. */
	struct stuck stuck, stuck_pools, round_stuck;
	struct janitor_stats stats;
};

/* --- janitor.c -------------------------------------------------------------------------------- */

/* A request for the system, or for it in the name of a tenant. */
struct errand {
	struct call call; /* for the fabric */
	char tenant[24];
};
void errand_init(struct janitor *j, struct errand *e, uint32_t tenant);
struct meta_call errand_meta(struct janitor *j, const struct errand *e);

/* Brings the map up to date. */
int janitor_map(struct janitor *j);

enum disk_fate { DISK_WELL, DISK_UNWELL, DISK_EMPTYING, DISK_LOST };
/* Of the map as it is now; a disk that is not there is lost. */
enum disk_fate disk_fate(struct janitor *j, uint64_t disk);
/* Notes since when nodes and disks are not well. */
void fates_note(struct janitor *j);

/* Whether the lease is this janitor's; keeps it when it is due. -EBUSY: another's. */
int lease_take(struct janitor *j, const char *name);
int lease_keep(struct janitor *j, const char *name);
void lease_drop(struct janitor *j, const char *name);

/* The partitions of a share. */
struct meta_walk share_walk(const struct janitor *j, unsigned share);
/* The share that this janitor's n-th turn is for: janitors begin at different ones. */
unsigned share_turn(const struct janitor *j, unsigned n);
/* Keeps the first error of a round. Whether to go on with the next share: one may fail alone. */
bool share_next(int rc, int *first);

/* Ids of all disks of the map, with their number; the caller frees. NULL: no memory. */
uint64_t *disk_ids(const struct janitor *j, size_t *n);

/* --- pace.c ----------------------------------------------------------------------------------- */

/* Waits for its turn to move so many bytes at the rate. */
int pacer_wait(struct pacer *p, uint64_t bytes, uint64_t bytes_per_s);
/* The same for a disk and the rack it is in, at the repair's share. */
int pace_disk(struct janitor *j, uint64_t disk, uint64_t bytes);
/* For the disk alone: bytes that do not leave its node. */
int pace_local(struct janitor *j, uint64_t disk, uint64_t bytes);
/* For bytes that go to a pool, of which each member moves member_bytes for them. */
int pace_pool(struct janitor *j, uint64_t disk, uint64_t bytes, uint64_t member_bytes);

/* Whether bytes between the disk and this janitor cross racks. */
bool rack_crosses(const struct janitor *j, uint64_t disk);
/* Counts bytes that were read there, or written, for a repair, which may be NULL. */
void moved_note(struct janitor *j, struct janitor_repair *r, uint64_t disk, uint64_t bytes,
		bool write);

/* --- progress.c ------------------------------------------------------------------------------- */

/* The repair of this disk that is under way, or a new one. NULL: too many are. Stays where it is until its end. */
struct janitor_repair *repair_begin(struct janitor *j, uint64_t disk, bool pool);
struct janitor_repair *repair_under_way(struct janitor *j, uint64_t disk, bool pool);
void repair_end(struct janitor_repair *r);

/* --- look.c ----------------------------------------------------------------------------------- */

#define SHELF_MAX 256
#define BLANKS_MAX 64

/* One page of what is on a disk. */
struct shelf {
	struct janitor *j;
	struct errand errand;
	uint64_t disk;
	char lease[48];
	struct store_cursor at;
	uint64_t epoch; /* the collector's, read after the page was */
	struct chunk_id ids[SHELF_MAX];
	struct chunk_stat stat[SHELF_MAX];
	int rcs[SHELF_MAX];
	struct meta_found_chunk found[SHELF_MAX];
	bool wanted[SHELF_MAX];
	size_t place[SHELF_MAX];            /* of found[i] in ids */
	struct chunk_id blanks[BLANKS_MAX]; /* of all pages: too damaged to say whose they are */
	size_t blank_count;
};

/* The next page after s->at; how many. */
int64_t shelf_list(struct shelf *s, size_t max);
/* Of ids[0..n): fills stat and rcs. */
int shelf_stat(struct shelf *s, size_t n);

typedef int (*shelf_fn)(struct shelf *s, uint64_t arg);
/* Every disk that can be asked, a few at once, each under a lease "what/DISK". What goes wrong with one disk is
 * logged. */
int each_disk(struct janitor *j, const char *what, unsigned fibers, shelf_fn fn, uint64_t arg);
int some_disks(struct janitor *j, const char *what, unsigned fibers, shelf_fn fn, uint64_t arg,
	       const uint64_t *ids, size_t n);
#define RECORDS_MAX 64
/* b[i] is the record of the block on[i]; all of one tenant. Not 0 ends the walk. */
typedef int (*records_fn)(struct shelf *s, const struct meta_on_disk *on,
			  const struct meta_block *b, size_t n, void *ctx);
/* All records that name the disk. */
int records_of_disk(struct shelf *s, records_fn fn, void *ctx);
/* Some record wants it after all. */
void orphan_forget(struct shelf *s, struct chunk_id id);

/* --- blank.c ---------------------------------------------------------------------------------- */

void blanks_add(struct shelf *s, struct chunk_id id);
bool blank_is(const struct shelf *s, struct chunk_id id);
/* A records_fn: those that a record wants drop out, for scrub to find and repair to see to. */
int blanks_wanted(struct shelf *s, const struct meta_on_disk *on, const struct meta_block *b,
		  size_t n, void *unused);

/* --- missing.c -------------------------------------------------------------------------------- */

/* Says to the block's record that the chunk on this disk is not good. */
int shelf_report(struct shelf *s, uint32_t tenant, uint64_t block, struct chunk_id id);
/* Reports all chunks that should be on the disk and are not; adds their number. */
int missing_look(struct shelf *s, uint64_t *found);
/* The same for disks under whose number there is a new drive. */
int drives_look(struct janitor *j, uint64_t *found);

/* --- survey.c --------------------------------------------------------------------------------- */

#define SURVEY_SERVICES 3
#define SURVEY_BALANCE 0          /* the first of them */
#define JOBS_MAX ((size_t)100000) /* of a share; the rest comes with the next survey */

/* Blocks of a share that a service has asked for. */
struct job {
	uint32_t tenant;
	uint64_t block;
	uint64_t live_bytes; /* that its owners have */
	uint64_t kind;       /* hash of its encoding */
};

struct jobs {
	struct job *list;
	size_t count, cap, next;
	const char *lease;
	uint64_t end_ns;
	struct stats *stats; /* of the share: who moves chunks changes them */
	bool changed;        /* they were */
};

/* The next one, when the time is not over and the lease still ours; false at the end, or with an error in *rc.
 * Waits while there is something to repair. */
bool jobs_next(struct janitor *j, struct jobs *w, struct job *out, int *rc);

/* Each service: whether it wants a block, without waiting; and its work on those that it wanted. */
bool balance_wants(struct janitor *j, const struct meta_block_at *b);
int balance_run(struct janitor *j, struct jobs *w);
bool compact_wants(struct janitor *j, const struct meta_block_at *b);
int compact_run(struct janitor *j, struct jobs *w);
bool policy_wants(struct janitor *j, const struct meta_block_at *b);
int policy_run(struct janitor *j, struct jobs *w);

/* Reads the records of blocks of one tenant that are to be rewritten. */
int rewrite_records(struct janitor *j, uint32_t tenant, const uint64_t *blocks, size_t n,
		    struct arena *a, struct meta_block *out);
/* Waits for its turn to write so many bytes of these blocks anew, at the share of repair. The disks that have them
 * pay for what is read, and for what is written: that goes to as many others, and in the mean to these. */
int rewrite_wait(struct janitor *j, const struct meta_block *b, size_t n, uint64_t bytes);
/* A call that rewrites blocks of the tenant; narrows the fiber's deadline, which it returns for rt_deadline_set. */
uint64_t rewrite_call(struct janitor *j, struct errand *e, uint32_t tenant);

/* What the notes say now: before a survey. */
int policies_load(struct janitor *j);

/* --- health.c --------------------------------------------------------------------------------- */

/* Counts a sealed block that lacks something as degraded, out of reach or lost. */
void health_count(struct janitor *j, const struct meta_block *b, struct stats *s);
/* Another when disks came or went, or something was repaired: then what was counted is out of date. */
uint64_t health_mark(const struct janitor *j);

/* --- report.c --------------------------------------------------------------------------------- */

/* Takes away what this janitor has told of itself. */
void report_drop(struct janitor *j);

/* --- tell.c ----------------------------------------------------------------------------------- */

/* Writes down the repairs at hand, where `terrane repair status` looks; takes that away. */
int repairs_tell(struct janitor *j, struct meta_call *m);
void repairs_untell(struct meta_call *m, uint64_t holder);

/* --- rebuild.c -------------------------------------------------------------------------------- */

/* What is wrong with a block. */
struct damage {
	int bad;  /* chunks that are missing, damaged, lost or to be moved */
	int lost; /* of them: that cannot be read where they are */
	int more; /* further losses that are surely tolerated; -1: too much is lost already */
};
int block_damage(struct janitor *j, const struct meta_block *b, struct damage *out);

struct pool_case;
struct repair_work {
	uint32_t tenant;
	uint64_t block;
	struct meta_block *record;     /* as read before, its chunks are changed; NULL: read now */
	const struct pool_case *pool;  /* nothing on it counts as good; NULL: none */
	struct janitor_repair *repair; /* its bytes are counted for that one; may be NULL */
};
/* Rebuilds or moves all chunks of a block that are missing, damaged, or on a disk that is lost or to be emptied. If
 * that fails with w->record, the record is read and the block repaired by what it says now. 0 also when there is
 * nothing to do any more; -ENOSPC no room; -ENODATA too few chunks are left; -EAGAIN the block is open. */
int block_repair(struct janitor *j, const struct repair_work *w);

/* Ascending ranges of a chunk, computed from the same ranges of others, one after the other. *out is the
 * caller's reference. -E2BIG: too many. */
int pieces_rebuild(struct janitor *j, uint32_t tenant, const struct meta_block *b, int chunk,
		   const struct store_range *ranges, size_t n, struct janitor_repair *repair,
		   struct slice *out);

/* Puts a chunk that is made of a sealed block's bytes: whoever puts it puts the same. One that is there already may be
 * about to be deleted, so this takes its place: *met. -EEXIST: a pool has one, and it is left to the orphans. */
int chunk_put(struct janitor *j, struct call *call, uint64_t disk, struct chunk_id id,
	      const struct node_put *p, bool *met);

/* A chunk that is to be deleted when its record does not name it any more: which put it is, seen before. */
struct chunk_seen {
	int rc; /* 0, or why its label is not known */
	uint8_t label[STORE_LABEL_BYTES];
};
void chunk_see(struct janitor *j, uint64_t disk, struct chunk_id id, struct chunk_seen *out);
/* Deletes what was seen, or could not be read. 0 also when it is not there any more; -ESTALE another put is; or why
 * nothing was seen. */
int chunk_delete(struct janitor *j, uint64_t disk, struct chunk_id id,
		 const struct chunk_seen *seen);

/* --- pools.c and pools_patch.c ---------------------------------------------------------------------------- */

struct pool_case {
	uint64_t disk;
	uint32_t k, p, members, piece_bytes;
	bool clustered;
	char lease[48];
	bool taken; /* the lease is this janitor's */
	struct janitor_repair *repair;
};

/* Asks the pool c->disk what it is like. */
int pool_case_shape(struct janitor *j, struct pool_case *c);
/* Brings for the losses of one chunk what the method says, or less when the chunk is no longer there. */
int pool_chunk_patch(struct janitor *j, const struct pool_case *c,
		     const struct store_pool_loss *losses, size_t n);
/* Brings a whole column, of which the pool writes what it lacks. */
int pool_column_patch(struct janitor *j, const struct pool_case *c, struct chunk_id id,
		      const struct slice *column);

#endif
