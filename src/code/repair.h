// SPDX-License-Identifier: Apache-2.0
/*
 * Repair plans: for a set of failed disks, the stream of steps that rebuild every lost chunk.
 *
 * A step decodes one codeword. A network step rebuilds chunks of one row of a network stripe from
 * net.k other columns of that row; a local step rebuilds chunks of one column from local.k other
 * rows of it, inside its rack. The four methods (section 3.2.4 of the MLEC dissertation,
 * src/analysis/README.md) differ in which chunks go over the network once a pool is catastrophic:
 *
 *   R_ALL   every chunk of the pool, failed or not: R_ALL does not use which disks of it failed
 *   R_FCO   the failed chunks only
 *   R_HYB   the failed chunks of lost local stripes; other failed chunks are repaired inside the pool
 *   R_MIN   of a lost local stripe only as many chunks as make it locally recoverable; other failed
 *           chunks are repaired inside the pool
 *
 * Pools that are not catastrophic are always repaired from their own chunks.
 *
 * Order: passes. First the network stripes with the most lost columns, down to one; then local
 * stripes with pl failed chunks, down to one. So each step of a network pass moves a network stripe
 * away from data loss, and the local steps of R_MIN run in the pass of the local stripes with as
 * many failed chunks. Within a pass: by pool, then by local stripe. Every pass scans the stripes
 * again, so a plan needs no memory that grows with the disks.
 *
 * Feasible steps: a step is possible when at most pn chunks of the row (or pl of the column) are
 * missing at that moment; chunks that earlier steps rebuilt are not missing. A stripe with more
 * than pn lost columns is planned as long as rows and columns can be peeled off; the plan reports
 * REPAIR_LOST only when no line can be decoded. (The dissertation counts such a stripe as lost at
 * once; so does R_ALL, which rebuilds whole columns.)
 *
 * Where rebuilt chunks go: in a clustered pool to the replacement of the failed disk; else to spare
 * space on a disk of the same pool without a chunk of this local stripe; R_ALL under a declustered
 * network rebuilds the column in another pool, in a rack without a column of this stripe. Disks are
 * chosen by hash, so load spreads and the same plan chooses the same disks again.
 *
 * Which copy is read: R_ALL also rewrites chunks whose disk works. The old copy stays, and later
 * plans read it while its disk works. When that disk fails, later plans use the rewritten copy
 * instead, if its disk works. So to give up a pool after R_ALL, name its other disks as failed:
 * nothing is rebuilt twice. Until then a column may lie in two racks, and a local step of such a
 * column crosses racks (and counts that in `crossing`); no other local step does.
 *
 * An LRC has no plans here, since it has no failure classes (failure.h); plan.h plans its stripes.
 *
 * Plans do no I/O and read no clock. A plan is a function of layout, failed disks, policy and the
 * past: how far earlier plans got before more disks failed.
 */
#ifndef CODE_REPAIR_H
#define CODE_REPAIR_H

#include "code/failure.h"

enum repair_method { REPAIR_ALL, REPAIR_FCO, REPAIR_HYB, REPAIR_MIN };

/* Where network codewords are decoded. It decides which bytes cross racks. */
enum repair_site {
	REPAIR_AT_RACK, /* in the rack that the first rebuilt chunk of the step is written to */
	/*
	 * on a server outside the racks, as in the dissertation: every read and every write crosses
	 * racks
	 */
	REPAIR_AT_SERVER,
};

struct repair_policy {
	enum repair_method method;
	enum repair_site site;
	bool parity_inside; /* rebuild local parities from the data rows inside the pool, and over the
			     * network only when that is not enough */
};

/* A position in a plan: all steps before it were returned. All zero is the beginning. */
struct repair_cursor {
	uint32_t pass;
	uint32_t pool; /* index of the pool in failure->pools */
	uint64_t local_stripe;
	uint32_t step;
};

/*
 * An earlier plan whose failed disks are still failed and whose steps before `reached` were carried
 * out. A chunk that it rebuilt is lost again only when the disk it was written to has failed since.
 *
 * A plan that writes to a failed disk writes to the replacement of that disk. When a replacement
 * fails, the set of failed disks does not change. `failed_again` lists the disks of this past's failure
 * whose replacement failed; all chunks that this past and earlier ones wrote to them are lost.
 */
struct repair_past {
	const struct failure *failure;
	struct repair_policy policy;
	struct repair_cursor reached;
	const struct repair_past *past; /* an earlier plan before this one, or NULL */
	const uint32_t
		*failed_again; /* disks whose replacement failed after `reached`, any order */
	uint32_t failed_again_n;
};

enum repair_kind { REPAIR_NETWORK, REPAIR_LOCAL, REPAIR_LOST };

#define REPAIR_SPARE UINT64_MAX /* `slot` of a chunk that is in spare space */

struct repair_chunk {
	uint32_t column, row; /* column and row of the chunk in the network stripe */
	uint32_t disk;        /* the disk that is read or written */
	uint64_t slot;        /* slot of the disk, or REPAIR_SPARE */
	bool crosses;         /* the bytes of the chunk cross racks */
};

struct repair_step {
	enum repair_kind kind;
	uint64_t stripe;
	uint32_t line; /* the row (network) or column (local) that is decoded */
	/* number of lost columns of the stripe before the first step of the plan */
	uint32_t lost_columns;
	/* local steps: number of failed chunks of the column before the step */
	uint32_t failed;
	uint32_t reads_n, writes_n;
	uint32_t crossing; /* number of chunks that cross racks */
	struct repair_chunk reads[ENCODING_STRIPE_MAX];
	struct repair_chunk writes[ENCODING_STRIPE_MAX];
};

struct repair_plan;

/*
 * Opens a plan. `failure` and `past` (may be NULL) must outlive the plan. Returns 0, -ENOMEM, or
 * -EINVAL for an unknown method or site, and for a past that has another layout, whose failed disks
 * are not all in `failure`, or whose list `failed_again` names a disk that is not among its failed
 * disks.
 */
int repair_plan_open(struct repair_plan **plan, const struct failure *failure,
		     const struct repair_policy *policy, const struct repair_past *past);
void repair_plan_close(struct repair_plan *plan);

/*
 * Writes the next step to *step. Returns false at the end. A step of kind REPAIR_LOST reports a
 * stripe that cannot be rebuilt and has no reads or writes.
 */
bool repair_plan_next(struct repair_plan *plan, struct repair_step *step);

/*
 * Return the position behind the last returned step, and continue from such a position, in this
 * or an equal plan.
 */
struct repair_cursor repair_plan_tell(const struct repair_plan *plan);

struct repair_totals {
	uint64_t net_steps, local_steps, lost_stripes;
	uint64_t net_reads, net_writes; /* number of chunks */
	uint64_t local_reads, local_writes;
	uint64_t cross_reads, cross_writes; /* number of the chunks above that cross racks */
};

void repair_totals_add(struct repair_totals *totals, const struct repair_step *step);

/* Returns "R_ALL", "R_FCO", "R_HYB" or "R_MIN". */
const char *repair_method_name(enum repair_method method);

#endif
