// SPDX-License-Identifier: Apache-2.0
/*
 * The background services: garbage collection, repair and drain, deletion of orphans, scrub, survey.
 * Straight-line code in fibers, which the simulator runs unchanged.
 *
 * A janitor keeps no state that must survive it. Any number run at once; they divide the work by
 * leases (meta/gc.h) of shares of the partitions, or of disks. A lease saves double work and protects
 * nothing: each step below is right when two janitors do it at the same time, and when one stops in
 * the middle.
 *
 *   collection  meta_gc_step over all kinds of garbage and all partitions. Dead chunks past their
 *               grace are deleted on their disks, then forgotten, which gives the tenant its quota
 *               back. A janitor that has seen an epoch for the whole grace, on its own monotonic
 *               clock, advances it. Full disks come first, and a disk that becomes full starts a round
 *               (full.c); neither changes what is dead.
 *   repair      blocks with a chunk on a lost disk (reverse index), and blocks with missing or damaged
 *               chunks (a walk of all records). Over all shares, blocks that tolerate no further loss
 *               come first, then the others, fewest tolerated losses first. The round begins again if
 *               another disk is lost. A chunk is computed from the cheapest sufficient set and put on a
 *               disk that cluster_choose names; then the record is changed, then the old chunk is
 *               deleted. An interrupted repair leaves an orphan.
 *   pools       rows that a pool cannot rebuild by itself are sent to it from other racks: as many as
 *               the method says (pools.c).
 *   orphans     chunks on disks that no record names, by their labels. Deleted if they were orphans in
 *               two sweeps with at least one whole grace between.
 *   scrub       every chunk is read and verified by its node. A damaged or missing chunk is reported to
 *               the block's record, and so repaired. The position of a pass is kept in the metadata.
 *
 *   flash       decides how much of the cache nodes' flash each training job's data set gets (flash.c).
 *
 *   survey      one walk of all records: it counts them (stats.h) and finds work for the next three.
 *   balance     moves chunks from full disks to empty ones, to where their block would be written
 *               today (balance.c).
 *   compact     copies what files own of mostly dead blocks to new blocks (compact.c).
 *   policy      gives sealed replicated blocks the encoding of a policy (policy.c).
 *
 * Lost disks. At once: a disk that an operator declared gone, or that its node reports as failed.
 * After delay_ns on this janitor's clock: a disk of a silent node, or with errors. Chunks of a
 * draining disk or node are good sources and are moved. Open blocks are left to their writers: a
 * writer ends a block that lacks a replica, mostly within half a minute and also without appends, if
 * there are disks for another block (client/log.c). Until then, and after the death of a writer until
 * a client opens or seals the log, such blocks are counted as degraded and not repaired.
 */
#ifndef JANITOR_JANITOR_H
#define JANITOR_JANITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "client/fabric.h"

struct janitor;
struct rt_team;

/* The rows that are sent to a pool that lost more than its code tolerates: pools.c. */
enum janitor_method { JANITOR_R_MIN, JANITOR_R_HYB, JANITOR_R_FCO, JANITOR_R_ALL };
/* Returns "r_min", "r_hyb", "r_fco" or "r_all". */
const char *janitor_method_name(enum janitor_method method);

struct janitor_options {
	const char *const *addrs; /* addresses of the metadata servers; copied */
	size_t addr_count;
	/* grace period of deleted objects; longer than any cache_ttl_ns of meta.h; 0: 1 h */
	uint64_t grace_ns;
	uint64_t lease_ns; /* duration of a lease; 0: 1 min */
	/* pause between rounds of collection and repair; collection does not wait for its end when a disk becomes full;
	 * 0: 30 s */
	uint64_t round_ns;
	uint64_t look_ns;   /* time between walks of all records by repair; 0: 10 min */
	uint64_t orphan_ns; /* time between sweeps for orphans; 0: 6 h */
	/* time after which a silent node or a disk with errors counts as lost; 0: 30 min */
	uint64_t delay_ns;
	uint64_t scrub_ns;  /* period in which every chunk is verified; 0: 7 days */
	uint64_t survey_ns; /* time between surveys; 0: 10 min */
	/* difference from the mean fill, in percent, that rebalancing leaves; 0: 10 */
	unsigned spread_percent;
	/* percent of a block's bytes that no file owns from which the block is compacted; 0: 50 */
	unsigned dead_percent;
	uint64_t disk_bytes_per_s; /* bandwidth of a disk in bytes per second; 0: 100 MB/s */
	uint64_t rack_bytes_per_s; /* bandwidth of a rack's uplink in bytes per second; 0: 1 GB/s */
	unsigned percent;          /* percent of both bandwidths that repair may use; 0: 20 */
	unsigned parallel;         /* number of blocks that are repaired at the same time; 0: 4 */
	/* largest number of dead chunks that are deleted per second; 0: 2000 */
	unsigned deletes_per_s;
	/* largest number of degraded blocks that a round of repair lists; 0: 200000 */
	size_t list_max;
	enum janitor_method method;
	const char *
		/* rack of this janitor, copied; NULL or "": outside of all racks, so that all
		 * its bytes cross racks */
		rack;
	struct fabric_options fabric;
	/* Loops over which the bytes of repair and rebalancing are spread; the first is the janitor's. Outlives the janitor.
	 * NULL: its loop alone. */
	struct rt_team *team;
};

struct janitor_stats {
	/*
	 * number of rounds of collection without an error; number of epochs that this janitor
	 * advanced
	 */
	uint64_t rounds, epochs;
	bool held; /* collection is held: an operator ordered it, or the metadata was restored */
	/* number of metadata rows marked as garbage, and of rows deleted */
	uint64_t marked, collected;
	uint64_t chunks_deleted; /* number of dead chunks that were deleted */
	/* number of dead chunks that online disks could not delete, in the last complete round */
	uint64_t stuck_dead;
	uint64_t orphans_seen, orphans_deleted, unlabelled;
	uint64_t repair_rounds;
	uint64_t blocks_waiting; /* blocks that are queued in the running round of repair */
	uint64_t chunks_repaired, chunks_moved;
	uint64_t repair_read_bytes, repair_written_bytes;
	uint64_t repair_cross_bytes; /* bytes read and written for repair that crossed racks */
	uint64_t sources_bad;        /* number of chunks that repair could not read */
	/* blocks that could not be repaired: no disk for a chunk, too few chunks left, other
	 * errors */
	uint64_t no_room, lost_blocks, failed;
	/* lost_blocks and no_room as found by the last repair round that walked all records */
	uint64_t stuck_lost, stuck_no_room;
	/* wall clock when the last chunk was repaired; 0: none yet */
	uint64_t repaired_ns;
	/* open blocks on lost disks, left to their writers */
	uint64_t open_blocks;
	uint64_t overtaken; /* blocks that were deleted or changed during their repair */
	uint64_t leases_lost;
	uint64_t janitors; /* live janitors, this one included */
	uint64_t surveys, chunks_balanced, balanced_bytes;
	/*
	 * number of blocks replaced by compaction; bytes of these blocks that files owned, which
	 * were copied
	 */
	uint64_t blocks_compacted, compacted_bytes;
	/*
	 * number of extents that were not moved, because their file changed during the compaction
	 */
	uint64_t compact_overtaken;
	uint64_t blocks_reencoded, reencoded_bytes;
	/* blocks that were moved from flash to disk because they outlived their class */
	uint64_t blocks_demoted, demoted_bytes;
	uint64_t flash_verdicts; /* verdicts for jobs that were written */
	uint64_t pool_patches,
		/* chunks of pools that were patched, and the bytes sent for them */
		pool_patch_bytes;
	uint64_t scrubbed_chunks, scrubbed_bytes, scrub_passes, damage_found;
	/* upper bound of the time since the least recently verified chunk was verified */
	uint64_t scrub_oldest_ns;
};

/* The repair of a disk or of a pool by this janitor. */
struct janitor_repair {
	uint64_t disk; /* id of the disk or pool; 0: the entry is unused */
	/* true: the rows that a pool cannot rebuild. false: all chunks of the disk are rebuilt
	 * elsewhere or moved */
	bool pool;
	enum janitor_method method; /* which rows are sent to the pool */
	/* begin and end on the janitor's monotonic clock; end_ns 0: still running */
	uint64_t begin_ns, end_ns;
	/* number of blocks with a chunk on the disk or pool: all, repaired, failed */
	uint64_t total, done, failed;
	uint64_t read_bytes, written_bytes;
	uint64_t cross_bytes; /* bytes that were sent between racks */
	/* bytes that the repair plans (src/code) of the finished blocks predicted for the same */
	uint64_t predicted_bytes;
};
#define JANITOR_REPAIRS_MAX 32

/* Creates a janitor; janitor_run starts its services. -EINVAL: invalid options; -ENOMEM; and
 * the errors of meta_client_open. */
int janitor_open(struct janitor **out, const struct janitor_options *o);
/* Frees a janitor. No round of it may be running. Ignores NULL. */
void janitor_close(struct janitor *j);

/* Runs all services until the fiber is cancelled: -ECANCELED, or the error that ended it. */
int janitor_run(struct janitor *j);

void janitor_stats(const struct janitor *j, struct janitor_stats *out);
/* Copies the running and the last repairs to out, which has room for JANITOR_REPAIRS_MAX,
 * oldest first. Returns their number. */
size_t janitor_repairs(const struct janitor *j, struct janitor_repair *out);
/* Appends the janitor's metrics as Prometheus text to out. -EMSGSIZE, -ENOMEM. */
int janitor_metrics(const struct janitor *j, struct strbuf *out);

/* Each of the functions below runs one round of a service, for janitor_run and tests, and
 * waits for it. 0 also when other janitors hold leases, or when single blocks and disks failed
 * (which the counters show). An error when the metadata cannot be reached, or fails for a
 * share; the other shares were done in the latter case. */
int janitor_collect(struct janitor *j);
int janitor_repair(struct janitor *j,
		   /*
		    * look: also walk all Block records. Does so in any case when a replaced drive
		    * lacks chunks.
		    */
		   bool look);
int janitor_pools(struct janitor *j);
int janitor_orphans(struct janitor *j);
int janitor_survey(struct janitor *j);
/* Without cache nodes it does nothing. */
int janitor_flash(struct janitor *j);
/* Writes this janitor's report, which `terrane status` shows. */
int janitor_report(struct janitor *j);
/* pass_ns: time that a pass over all chunks may take; 0: as fast as possible */
int janitor_scrub(struct janitor *j, uint64_t pass_ns);

#endif
