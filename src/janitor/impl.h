// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the janitor only. */
#ifndef JANITOR_IMPL_H
#define JANITOR_IMPL_H

#include "base/arena.h"
#include "base/bug.h"
#include "base/slice.h"
#include "janitor/janitor.h"
#include "janitor/stats.h"
#include "meta_api/placement.h"
#include "meta_client/meta_client.h"

#define JANITOR_SHARES 16 /* shares of the partitions; one lease covers a share */
#define JANITOR_SIGHTINGS_MAX 1000000
#define JANITOR_PACERS_MAX (CLUSTER_DISKS_MAX + CLUSTER_RACKS_MAX)

struct policy;

/* The media on which the chunks of a block belong. */
static inline enum cluster_media media_of(const struct meta_block *b)
{
	return bug_planted(BUG_MEDIA_FORGOTTEN) ? CLUSTER_MEDIA_DISK : b->media;
}

/* The use of a tenant at the last survey. */
struct tenant_use {
	struct meta_tenant tenant;
	struct meta_usage usage; /* files and bytes below the tenant's root directory */
};

/* A chunk or block that a sweep or survey has seen. */
struct sighting {
	uint64_t epoch;
	uint64_t last_epoch; /* collector's epoch when the chunk or block was last seen */
	uint64_t put;        /* put number of the chunk; 0: unknown, or a block */
};

/* Limits the bytes per second to or from a disk or rack: pacer_wait. */
struct pacer {
	/* monotonic time at which all admitted bytes have been moved at the rate */
	uint64_t free_ns;
};

/* Number of blocks that a round could not repair, by cause. */
struct stuck {
	uint64_t lost, no_room;
};

struct janitor {
	/* options of the caller, with each 0 replaced by its default */
	struct janitor_options opts;
	struct fabric fabric;
	struct meta_client *meta;
	const struct context *own; /* request context without a tenant */
	struct engine *engine; /* engine over fabric and meta that rewrites blocks of all tenants */
	uint64_t holder;
	struct map leases; /* hash of a lease's name -> struct held */
	/* hash of the id of a node or disk that is silent or reports errors -> struct since */
	struct map silences;
	struct map pacers;    /* hash of the id of a disk or rack -> struct pacer */
	struct map sightings; /* hash of (disk, chunk) -> struct sighting */
	struct map passes;    /* disk id -> struct pass */
	struct map drives;    /* disk id -> struct drive */
	uint64_t start_ns;
	/* The collector's epoch, and the time at which this janitor first saw it. */
	uint64_t epoch, epoch_ns, partitions;
	/* epoch in which each share was last walked for all kinds of garbage */
	uint64_t thorough_epoch[JANITOR_SHARES];
	struct pacer deletes;
	uint64_t *full; /* ids of the disks that were full at the last look, ascending: full.c */
	size_t full_count;
	uint64_t full_ns; /* time of the last look */
	/* Counts of all blocks by the last survey, and how evenly disks are filled: survey.c. */
	struct stats sums;
	struct stats_balance balance[CLUSTER_MEDIA_COUNT];
	char rack[64];   /* rack of this janitor; "": outside of all racks */
	unsigned others; /* other janitors that reported within the last minute: report.c */
	uint64_t note_turn;
	/* the running and the last repairs, in no order; an entry with disk 0 is unused */
	struct janitor_repair repairs[JANITOR_REPAIRS_MAX];
	struct policy *policies; /* the policies of all tenants, read from their notes (policy.c) */
	size_t policy_count;
	/* What the metadata service knows of placement categories, with its arena; now_s 0: nothing
	 * (demote.c). */
	struct meta_placement placement;
	struct arena placement_arena;
	struct map
		/* hash of (tenant, block) -> struct sighting of blocks compacted lately:
		 * compact.c */
		compacted;
	struct job_view *jobs; /* the jobs that count, for flash.c; NULL: not read yet */
	uint64_t survey_epoch;
	struct pacer rewrites;
	struct tenant_use *tenants; /* use of the tenants at the last survey */
	size_t tenant_count;
	uint64_t report_turn;
	/* Blocks that could not be repaired: in the last round that walked all records, in
	 * pools, and so far in the current round. */
	struct stuck stuck, stuck_pools, round_stuck;
	uint64_t
		round_dead; /* dead chunks that online disks could not delete in the current round */
	struct janitor_stats stats;
};

/* --- janitor.c -------------------------------------------------------------------------------- */

/* A request of the janitor, in the name of a tenant or of no tenant (tenant 0). */
struct tenant_call {
	struct call call; /* state of the requests to disks: options and error text */
};
/* Makes the fiber carry the janitor's context, in the name of the tenant. Returns the previous
 * context, for rt_context_leave. Without memory for it, the context is that of no tenant:
 * services refuse requests that need one. */
const struct context *tenant_call_init(struct janitor *j, struct tenant_call *e, uint32_t tenant);
struct meta_call tenant_call_meta(struct janitor *j, const struct tenant_call *e);

/* Fetches the cluster map unless it is recent, and notes which disks and nodes are silent. */
int janitor_map(struct janitor *j);

enum disk_fate { DISK_ONLINE, DISK_SUSPECT, DISK_DRAINING, DISK_LOST };
/* Returns the state of a disk by the current map; DISK_LOST for a disk that is not in the map. */
enum disk_fate disk_fate(struct janitor *j, uint64_t disk);
/* Notes the time at which nodes and disks became silent, or began to report errors. */
void silences_note(struct janitor *j);

/* lease_take takes or renews a lease; lease_keep renews it when a third of its time is over.
 * -EBUSY: another janitor has it. */
int lease_take(struct janitor *j, const char *name);
int lease_keep(struct janitor *j, const char *name);
void lease_drop(struct janitor *j, const char *name);

/* Returns a walk over the partitions of a share. */
struct meta_walk share_walk(const struct janitor *j, unsigned share);
/*
 * Returns the share to work on as the n-th of a round. Janitors begin at different shares, so that
 * they rarely meet.
 */
unsigned share_turn(const struct janitor *j, unsigned n);
/*
 * Stores the first error of a round in *first. Returns whether the round continues with the next
 * share: true, unless the fiber was cancelled or memory ran out.
 */
bool share_next(int rc, int *first);

/* Returns the ids of all disks of the map and their number; the caller frees. NULL: no memory. */
uint64_t *disk_ids(const struct janitor *j, size_t *n);

/* --- pace.c ----------------------------------------------------------------------------------- */

/* Waits until `bytes` may be moved at the rate, and counts them. */
int pacer_wait(struct pacer *p, uint64_t bytes, uint64_t bytes_per_s);
/* Waits until `bytes` may be moved to or from the disk and across its rack's uplink at the
 * rate that repair may use (pace.c). */
int pace_disk(struct janitor *j, uint64_t disk, uint64_t bytes);
/* Waits until `bytes` may be read from the disk at the rate that repair may use; for bytes
 * that do not leave the disk's node. */
int pace_local(struct janitor *j, uint64_t disk, uint64_t bytes);
/* Waits until `bytes` may be sent to a pool at the rate that repair may use; each member of
 * the pool reads or writes member_bytes for them. */
int pace_pool(struct janitor *j, uint64_t disk, uint64_t bytes, uint64_t member_bytes);

/* Returns whether bytes that this janitor reads from or writes to the disk cross racks. */
bool rack_crosses(const struct janitor *j, uint64_t disk);
/* Counts bytes read from or written to the disk, for the janitor and for r (may be NULL). */
void moved_note(struct janitor *j, struct janitor_repair *r, uint64_t disk, uint64_t bytes,
		bool write);

/* --- progress.c ------------------------------------------------------------------------------- */

/* Returns the running repair of this disk or pool, or starts one. NULL: JANITOR_REPAIRS_MAX are
 * running. The pointer is valid until repair_end. */
struct janitor_repair *repair_begin(struct janitor *j, uint64_t disk, bool pool);
struct janitor_repair *repair_under_way(struct janitor *j, uint64_t disk, bool pool);
void repair_end(struct janitor_repair *r);

/* --- look.c ----------------------------------------------------------------------------------- */

#define DISK_PAGE_MAX 256
#define BLANKS_MAX 64

/* One page of the chunks on a disk, and the state of the walk over that disk. */
struct disk_page {
	struct janitor *j;
	struct tenant_call request;
	uint64_t disk;
	char lease[48];
	struct store_cursor at;
	uint64_t epoch; /* the collector's epoch, read after the page */
	struct chunk_id ids[DISK_PAGE_MAX];
	struct chunk_stat stat[DISK_PAGE_MAX];
	int rcs[DISK_PAGE_MAX];
	struct meta_found_chunk found[DISK_PAGE_MAX];
	bool wanted[DISK_PAGE_MAX];
	size_t place[DISK_PAGE_MAX]; /* index in `ids` of the chunk found[i] */
	/* chunks of all pages so far whose label is unreadable */
	struct chunk_id blanks[BLANKS_MAX];
	size_t blank_count;
};

/* Lists the next page after s->at into s->ids. Returns the number of chunks. */
int64_t page_list(struct disk_page *s, size_t max);
/* Requests the stat of the chunks ids[0..n) from the node: fills stat and rcs. */
int page_stat(struct disk_page *s, size_t n);

typedef int (*disk_fn)(struct disk_page *s, uint64_t arg);
/* Calls fn for every reachable disk, for `fibers` disks at once, each under the lease "what/DISK".
 * The error of one disk is logged and does not stop the others. */
int each_disk(struct janitor *j, const char *what, unsigned fibers, disk_fn fn, uint64_t arg);
int some_disks(struct janitor *j, const char *what, unsigned fibers, disk_fn fn, uint64_t arg,
	       const uint64_t *ids, size_t n);
#define RECORDS_MAX 64
/* Function that records_of_disk calls with n rows of the reverse index of one tenant and the
 * Block records that they name: b[i] belongs to on[i]. A result other than 0 ends the walk. */
typedef int (*records_fn)(struct disk_page *s, const struct meta_on_disk *on,
			  const struct meta_block *b, size_t n, void *ctx);
/* Calls fn for all Block records that place a chunk on the disk. */
int records_of_disk(struct disk_page *s, records_fn fn, void *ctx);
/* Forgets that the chunk was seen as an orphan: a record names it. */
void orphan_forget(struct disk_page *s, struct chunk_id id);

/* --- blank.c ---------------------------------------------------------------------------------- */

void blanks_add(struct disk_page *s, struct chunk_id id);
bool blank_is(const struct disk_page *s, struct chunk_id id);
/* Removes from s->blanks the chunks that the n records name (a records_fn). Such chunks are
 * not orphans: scrub reports them and repair replaces them. */
int blanks_wanted(struct disk_page *s, const struct meta_on_disk *on, const struct meta_block *b,
		  size_t n, void *unused);

/* --- missing.c -------------------------------------------------------------------------------- */

/* Marks the chunk on this disk as damaged in the block's record. -ESTALE: the record names another
 * place by now. */
int chunk_report(struct disk_page *s, uint32_t tenant, uint64_t block, struct chunk_id id);
/* Reports as damaged all chunks that records place on the disk and that the disk lacks or
 * holds with other contents; adds their number to *found. */
int missing_look(struct disk_page *s, uint64_t *found);
/* Runs missing_look for all disks whose drive was replaced under the same disk id; sets *found
 * to the number of chunks reported. */
int drives_look(struct janitor *j, uint64_t *found);

/* --- survey.c --------------------------------------------------------------------------------- */

#define SURVEY_SERVICES 4
#define SURVEY_BALANCE 0 /* index of the balance service */
/* largest number of jobs per share and service; the next survey finds the others */
#define JOBS_MAX ((size_t)100000)

/* A block that a service of the survey wants to work on. */
struct job {
	uint32_t tenant;
	uint64_t block;
	uint64_t live_bytes; /* bytes of the block that files own */
	uint64_t kind; /* hash of the block's encoding: blocks of one kind are compacted together */
};

struct jobs {
	struct job *list;
	size_t count, cap, next;
	const char *lease;
	uint64_t end_ns;
	struct stats *stats; /* counts of the share's blocks; moving a chunk changes them */
	bool changed;        /* the counts changed after their note was written */
};

/* Takes the next job; first waits, at most until w->end_ns, while blocks wait for repair. Returns false with *rc 0 at
 * the end of the list or after w->end_ns, and with *rc < 0 if the lease could not be kept. */
bool jobs_next(struct janitor *j, struct jobs *w, struct job *out, int *rc);

/* Each service of the survey: NAME_wants returns whether it has work on a block, without waiting;
 * NAME_run does the work on those blocks. */
bool balance_wants(struct janitor *j, const struct meta_block_at *b);
int balance_run(struct janitor *j, struct jobs *w);
bool compact_wants(struct janitor *j, const struct meta_block_at *b);
int compact_run(struct janitor *j, struct jobs *w);
bool policy_wants(struct janitor *j, const struct meta_block_at *b);
int policy_run(struct janitor *j, struct jobs *w);
bool demote_wants(struct janitor *j, const struct meta_block_at *b);
int demote_run(struct janitor *j, struct jobs *w);
/* Reads the ages at which files have outlived their class; without flash there is nothing to read. */
int demote_load(struct janitor *j);

/* Reads the records of n blocks of one tenant. */
int rewrite_records(struct janitor *j, uint32_t tenant, const uint64_t *blocks, size_t n,
		    struct arena *a, struct meta_block *out);
/* Waits until `bytes` of the n blocks in b may be rewritten at the rate that repair may use.
 * The disks that hold the blocks are charged for the reads and, as an estimate, for the
 * writes, which go to as many disks. */
int rewrite_wait(struct janitor *j, const struct meta_block *b, size_t n, uint64_t bytes);
/* Prepares a call for rewriting blocks: sets its quorum to all chunks and shortens the fiber's
 * deadline. Returns the old deadline, which the caller restores with rt_deadline_set. */
uint64_t rewrite_call(struct tenant_call *e);

/* Reads the policies from their notes; called before a survey. */
int policies_load(struct janitor *j);

/* --- full.c ----------------------------------------------------------------------------------- */

/* Reads from the map which disks are full. Sets *more to whether one is that was not at the last look. */
int full_look(struct janitor *j, bool *more);
/* The same at most every 5 s: whether one more disk is full. False after an error. */
bool full_more(struct janitor *j);
/* Returns whether the disk was full at the last look. */
bool full_is(const struct janitor *j, uint64_t disk);
/* Waits for pause_ns, or until one more disk is full. Errors of rt_sleep_ns. */
int full_wait(struct janitor *j, uint64_t pause_ns);

/* --- flash.c ---------------------------------------------------------------------------------- */

/* Forgets the jobs. */
void flash_close(struct janitor *j);

/* --- health.c --------------------------------------------------------------------------------- */

/* Counts a block as degraded, unreachable or lost, if it is. */
void health_count(struct janitor *j, const struct meta_block *b, struct stats *s);
/*
 * Returns a number that is different after disks came or went, or chunks were repaired. The counts
 * of the last survey are then out of date.
 */
uint64_t health_mark(const struct janitor *j);

/* --- report.c --------------------------------------------------------------------------------- */

/* Deletes the notes in which this janitor reports about itself. */
void report_drop(struct janitor *j);

/* --- tell.c ----------------------------------------------------------------------------------- */

/* Write and delete the note with this janitor's repairs, which `terrane repair status` reads. */
int repairs_publish(struct janitor *j, struct meta_call *m);
void repairs_unpublish(struct meta_call *m, uint64_t holder);

/* --- rebuild.c -------------------------------------------------------------------------------- */

/* How many chunks of a block need repair and how many more losses the block tolerates. */
struct damage {
	int bad;  /* chunks that are missing, damaged, or on disks that are lost or to be emptied */
	int lost; /* chunks among `bad` that cannot be read from their disk */
	/* number of further chunk losses, whichever they are, that the block tolerates; -1:
	 * too many chunks are lost already */
	int more;
};
int block_damage(struct janitor *j, const struct meta_block *b, struct damage *out);

struct pool_case;
struct repair_work {
	uint32_t tenant;
	uint64_t block;
	/* Block record that the caller has read; block_repair changes its chunks. NULL:
	 * block_repair reads the record */
	struct meta_block *record;
	/* pool whose chunks are all rebuilt or moved; NULL: no pool */
	const struct pool_case *pool;
	struct janitor_repair *repair; /* repair to which the moved bytes are added; may be NULL */
};
/* Rebuilds or moves all chunks of a block that are missing, damaged, or on a disk that is lost
 * or being drained. If that fails with w->record, reads the current record and tries again with
 * it. 0 also if nothing is left to do; -ENOSPC: no disk has room; -ENODATA: too few chunks are
 * left; -EAGAIN: the block is open. */
int block_repair(struct janitor *j, const struct repair_work *w);

struct pieces_want {
	uint32_t tenant;
	const struct meta_block *block;
	int chunk;
	const struct store_range *ranges; /* byte ranges of the chunk to compute, ascending */
	size_t range_count;
	struct janitor_repair *repair; /* repair to which the moved bytes are added; may be NULL */
};

/* Computes ranges of a chunk from the same ranges of other chunks. *out holds them one after the
 * other and is the caller's reference. -E2BIG: too many ranges; -EBADMSG: a range is beyond the end
 * of the chunk, so the caller has another length of it than the record. */
int pieces_rebuild(struct janitor *j, const struct pieces_want *w, struct slice *out);

/* Puts a chunk of a sealed block; every janitor that computes it puts the same bytes. A chunk of
 * that name that is on the disk already may be about to be deleted, so the new put replaces it,
 * and *met is set. -EEXIST: a pool has such a chunk and cannot replace it; the sweep of orphans
 * deletes it. */
int chunk_put(struct janitor *j, struct call *call, uint64_t disk, struct chunk_id id,
	      const struct node_put *p, bool *met);

/* The label of a chunk, read while the chunk's record still names it. A later delete passes
 * the label, so that only this put of the chunk is deleted. */
struct chunk_seen {
	int rc; /* 0, or the error of reading the label */
	uint8_t label[STORE_LABEL_BYTES];
};
void chunk_see(struct janitor *j, uint64_t disk, struct chunk_id id, struct chunk_seen *out);
/* Deletes the chunk if its label is still the one in `seen`, or if chunk_see found the label
 * unreadable. 0 also when the chunk is missing; -ESTALE: the chunk was put again since;
 * otherwise the error with which chunk_see failed. */
int chunk_delete(struct janitor *j, uint64_t disk, struct chunk_id id,
		 const struct chunk_seen *seen);

/* --- pools.c and pools_patch.c ---------------------------------------------------------------------------- */

struct pool_case {
	uint64_t disk;
	uint32_t k, p, members, piece_bytes;
	bool clustered;
	char lease[48];
	bool taken; /* this janitor has the lease */
	struct janitor_repair *repair;
};

/* Reads the code and geometry of the pool c->disk. */
int pool_case_shape(struct janitor *j, struct pool_case *c);
/* Computes the lost rows of one chunk that opts.method selects (pools.c) and sends them to the
 * pool. 0 also when the pool does not hold the chunk any more. */
int pool_chunk_patch(struct janitor *j, const struct pool_case *c,
		     const struct store_pool_loss *losses, size_t n);
/* Sends a complete column to the pool, which writes only the rows that it lacks. */
int pool_column_patch(struct janitor *j, const struct pool_case *c, struct chunk_id id,
		      const struct slice *column);

#endif
