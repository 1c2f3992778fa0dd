// SPDX-License-Identifier: Apache-2.0
/*
 * The background services: collection of garbage, repair and drain, removal of chunks that no record
 * knows, scrubbing. Plain code in fibers: the simulator runs it as it is.
 *
 * A janitor keeps nothing that must survive it. Any number run at once; they share the work by leases
 * (meta/gc.h), one share of the partitions, or one disk, at a time. A lease is advice that saves double
 * work: each step below is right when two do it at the same moment, or when one stops in the middle.
 *
 *   collection  meta_gc_step over all kinds and partitions; dead chunks past their grace are deleted on
 *               their disks, then forgotten, which gives the tenant its quota back. The epoch is advanced by
 *               whoever has seen it for the whole grace on its own monotonic clock.
 *   repair      blocks with a chunk on a lost disk (reverse index), and blocks with missing or damaged
 *               chunks (a walk of all). Those that bear no further loss come first, in all shares, then
 *               the rest, by what they still bear; also when a further disk is lost meanwhile. A chunk is computed from the cheapest set that suffices
 *               and goes to a disk that cluster_choose names; then the record is changed, then the old
 *               chunk is deleted. An interrupted repair leaves a chunk that no record knows.
 *   pools       what a pool cannot repair by itself, and lists, is brought from other racks: as much as the
 *               method says (pools.c).
 *   orphans     chunks on disks, by their labels, that no record wants: deleted when they were so at two
 *               looks with at least one whole grace between.
 *   scrub       every chunk is read and verified by its node; what is damaged, or not there, is reported to
 *               the block's record, and so repaired. Where a pass stands is kept in the metadata.
 *
 *   survey      one walk of all blocks: they are counted (stats.h), and those that the next three want are
 *               seen to.
 *   balance     chunks go from full disks to empty ones, to where their block would be written today
 *               (balance.c).
 *   compact     what lives of blocks that are mostly dead goes to new ones (compact.c).
 *   policy      sealed copies become what a policy of the tenant or directory says (policy.c).
 *
 * Which disks are lost. At once: a disk that is gone by an operator's wish, or that its node says has
 * failed. After delay_ns on this janitor's clock: everything else that is not well (a silent node, a disk
 * with errors). A disk or node that is draining counts as to be emptied: its chunks are good sources, and
 * move. Open blocks are left to their writers, who end one that lacks a copy, in half a minute mostly and
 * also when nobody appends, if there are disks for another (client/log.c). Until then, and of a writer that
 * died until somebody opens or seals the log, they are counted as degraded and not repaired.
 */
#ifndef JANITOR_JANITOR_H
#define JANITOR_JANITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "client/fabric.h"
#include "cluster/choose.h"

struct janitor;

/* What crosses racks for a pool that lost more than its code bears: pools.c. */
enum janitor_method { JANITOR_R_MIN, JANITOR_R_HYB, JANITOR_R_FCO, JANITOR_R_ALL };
const char *janitor_method_name(enum janitor_method method); /* "r_min" and so on */

struct janitor_options {
	const char *const *addrs; /* of the metadata servers, copied */
	size_t addr_count;
	uint64_t grace_ns;         /* 0: 1 h; longer than any cache_ttl_ns of meta.h */
	uint64_t lease_ns;         /* 0: 1 min */
	uint64_t round_ns;         /* pause between rounds of collection and repair; 0: 30 s */
	uint64_t look_ns;          /* between walks of all blocks for damage; 0: 10 min */
	uint64_t orphan_ns;        /* between looks at what is on the disks; 0: 6 h */
	uint64_t delay_ns;         /* before what is silent counts as lost; 0: 30 min */
	uint64_t scrub_ns;         /* in which every chunk is verified; 0: 7 days */
	uint64_t survey_ns;        /* between counts of all blocks, with what follows; 0: 10 min */
	unsigned spread_percent;   /* of the mean: how uneven disks may be; 0: 10 */
	unsigned dead_percent;     /* of a block: from then on it is compacted; 0: 50 */
	uint64_t disk_bytes_per_s; /* what a disk can do; 0: 100 MB/s */
	uint64_t rack_bytes_per_s; /* what a rack's uplink can do; 0: 1 GB/s */
	unsigned percent;          /* of those for repair; 0: 20 */
	unsigned parallel;         /* blocks repaired at once; 0: 4 */
	unsigned deletes_per_s;    /* chunks deleted by collection; 0: 2000 */
	size_t list_max;           /* degraded blocks that a round of repair lists; 0: 200000 */
	enum janitor_method method;
	const char *
		rack; /* that it stands in, copied; NULL or "": in none, so that all it moves crosses */
	struct fabric_options fabric;
};

struct janitor_stats {
	uint64_t rounds, epochs;    /* of collection; epochs that this janitor advanced */
	uint64_t marked, collected; /* rows of metadata */
	uint64_t chunks_deleted;    /* dead ones */
	uint64_t orphans_seen, orphans_deleted, unlabelled;
	uint64_t repair_rounds;
	uint64_t blocks_waiting; /* of the share under repair, now */
	uint64_t chunks_repaired, chunks_moved;
	uint64_t repair_read_bytes, repair_written_bytes;
	uint64_t repair_cross_bytes; /* of both: between a rack and another, or the janitor */
	uint64_t sources_bad;        /* chunks that were to be read and could not be */
	uint64_t no_room, lost_blocks, failed; /* blocks that could not be repaired, and why */
	uint64_t stuck_lost, stuck_no_room;    /* of them: at the last look at all blocks */
	uint64_t repaired_ns;                  /* wall clock of the last chunk; 0: none yet */
	uint64_t open_blocks;                  /* left to their writers */
	uint64_t overtaken; /* blocks that were deleted, or repaired by another, meanwhile */
	uint64_t leases_lost;
	uint64_t janitors; /* that live, this one included */
	uint64_t surveys, chunks_balanced, balanced_bytes;
	uint64_t blocks_compacted, compacted_bytes; /* old blocks; what lived of them */
	uint64_t compact_overtaken;                 /* extents that were changed meanwhile */
	uint64_t blocks_reencoded, reencoded_bytes;
	uint64_t pool_patches,
		pool_patch_bytes; /* chunks of pools made whole, and what was brought */
	uint64_t scrubbed_chunks, scrubbed_bytes, scrub_passes, damage_found;
	uint64_t scrub_oldest_ns; /* no chunk of the cluster was verified longer ago than this */
};

/* The repair of a disk or of a pool, as far as this janitor does it. */
struct janitor_repair {
	uint64_t disk; /* 0: none */
	bool pool; /* what a pool cannot mend; else everything is made anew, or moved, off the disk */
	enum janitor_method method;   /* of a pool */
	uint64_t begin_ns, end_ns;    /* on its clock; end_ns 0: under way */
	uint64_t total, done, failed; /* blocks that have something there */
	uint64_t read_bytes, written_bytes;
	uint64_t cross_bytes;     /* that went from a rack to another, or to or from the janitor */
	uint64_t predicted_bytes; /* the same by the planners of code/, for what was done */
};
#define JANITOR_REPAIRS_MAX 32

/* -EINVAL, -ENOMEM and what meta_client_open says. */
int janitor_open(struct janitor **out, const struct janitor_options *o);
/* Nothing of it may be running. NULL is fine. */
void janitor_close(struct janitor *j);

/* Does everything, for ever; waits, until it is cancelled: -ECANCELED, or what ended it. */
int janitor_run(struct janitor *j);

void janitor_stats(const struct janitor *j, struct janitor_stats *out);
/* The last repairs, oldest first, at most JANITOR_REPAIRS_MAX; returns how many. */
size_t janitor_repairs(const struct janitor *j, struct janitor_repair *out);
/* Prometheus text. -EMSGSIZE, -ENOMEM. */
int janitor_metrics(const struct janitor *j, struct strbuf *out);

/*
 * One round of each, for janitor_run and tests; all wait. 0 also when others hold leases, or when single
 * blocks and disks failed (that is counted); an error when the metadata cannot be reached, or fails for
 * a share: then the others were gone through.
 */
int janitor_collect(struct janitor *j);
int janitor_repair(struct janitor *j,
		   bool look); /* look: at all blocks too; also with new drives */
int janitor_pools(struct janitor *j);
int janitor_orphans(struct janitor *j);
int janitor_survey(struct janitor *j);
int janitor_report(struct janitor *j);                  /* of itself, for terrane status */
int janitor_scrub(struct janitor *j, uint64_t pass_ns); /* over how long; 0: as fast as it goes */

#endif
