// SPDX-License-Identifier: Apache-2.0
/*
 * Repair plans: for a set of failed disks, the steps that bring every chunk back, as a stream.
 *
 * A step decodes one codeword. A network step rebuilds chunks of one row of a network stripe from
 * net.k other columns of that row; a local step rebuilds chunks of one column from local.k other
 * rows of it, inside its rack. The four methods (section 3.2.4 of the MLEC paper) differ in what
 * goes over the network once a pool is catastrophic:
 *
 *   R_ALL   every chunk of the pool, failed or not: the pool is a black box
 *   R_FCO   the failed chunks only
 *   R_HYB   the failed chunks of lost local stripes; the others are repaired inside the pool
 *   R_MIN   of a lost local stripe only as many chunks as make it locally recoverable; the rest of
 *           it, and the others, are repaired inside the pool
 *
 * Pools that are not catastrophic are always repaired inside.
 *
 * Order: passes. First the network stripes with the most lost columns, down to one; then local
 * stripes with pl failed chunks, down to one. So each step of the first kind takes a network stripe
 * away from data loss, and R_MIN's second halves run together with the local stripes that are as
 * endangered as they. Within a pass: by pool, then by local stripe. A pass looks at the stripes
 * anew, so a plan needs no memory that grows with the disks.
 *
 * Rows decide: a step is possible when at most pn chunks of the row (or pl of the column) are
 * missing at that moment, and chunks that earlier steps rebuilt count as there. A stripe with more
 * than pn lost columns is planned as long as rows and columns can be peeled off; only when that
 * gets stuck does the plan say REPAIR_LOST. (The paper calls it lost at once. R_ALL, which knows
 * nothing of rows, still does.)
 *
 * Where rebuilt chunks go: in a clustered pool to the replacement of the failed disk; else to spare
 * space on a disk of the same pool without a chunk of this local stripe; R_ALL under a declustered
 * network rebuilds the column in another pool, in a rack without a column of this stripe. All are
 * chosen by hash, so load spreads and the same plan chooses the same disks again.
 *
 * Which copy counts: R_ALL also rewrites chunks whose disk works. Their old copy stays, and is the
 * one that other plans read and count on. When its disk fails, later plans count the rewritten copy
 * as the chunk, if its disk works. So to give up a pool after R_ALL, name its other disks as failed:
 * nothing is rebuilt twice. Until then a column may lie in two racks, and a local step that finds it
 * so crosses racks (and says so); no other local step does.
 *
 * An LRC has no plans here, since it has no failure classes (failure.h); plan.h plans its stripes.
 *
 * Plans do no I/O and know no time. Everything is a function of layout, failed disks, policy and
 * the past: how far earlier plans got before more disks failed.
 */
#ifndef CODE_REPAIR_H
#define CODE_REPAIR_H

#include "code/failure.h"

enum repair_method { REPAIR_ALL, REPAIR_FCO, REPAIR_HYB, REPAIR_MIN };

/* Where network codewords are decoded: decides which bytes cross racks. */
enum repair_site {
	REPAIR_AT_RACK,   /* in the rack that the (first) rebuilt chunk is written to */
	REPAIR_AT_SERVER, /* outside the racks: every read and the write cross; the paper's count */
};

struct repair_policy {
	enum repair_method method;
	enum repair_site site;
	bool parity_inside; /* no parity of a pool over the network when its data rows will do: the pool
			     * encodes it */
};

/* A position in a plan: everything before it was handed out. All zero is the beginning. */
struct repair_cursor {
	uint32_t pass;
	uint32_t pool; /* index among the affected pools */
	uint64_t local_stripe;
	uint32_t step;
};

/*
 * An earlier plan, for failed disks that are failed still, whose steps before `reached` were
 * carried out. Chunks that it rebuilt count as lost again only when the disk they went to has
 * failed since.
 *
 * A failed disk that plans write to is its replacement. When a replacement fails as well, the set
 * of failed disks stays the same: `again` names such disks, of those that had failed already when
 * this past was planned, and all that this past and earlier ones wrote to them is lost.
 */
struct repair_past {
	const struct failure *failure;
	struct repair_policy policy;
	struct repair_cursor reached;
	const struct repair_past *past; /* or NULL */
	const uint32_t *again;          /* disks that failed again after `reached`, in any order */
	uint32_t again_n;
};

enum repair_kind { REPAIR_NETWORK, REPAIR_LOCAL, REPAIR_LOST };

#define REPAIR_SPARE UINT64_MAX /* slot of a chunk that lives in spare space */

struct repair_chunk {
	uint32_t column, row; /* which chunk of the stripe */
	uint32_t disk;        /* where it is read or written */
	uint64_t slot;        /* there, or REPAIR_SPARE */
	bool crosses;         /* its bytes cross racks */
};

struct repair_step {
	enum repair_kind kind;
	uint64_t stripe;
	uint32_t line;         /* the row (network) or column (local) that is decoded */
	uint32_t lost_columns; /* of the stripe, before any repair */
	uint32_t failed;       /* local: failed chunks of the column when the step runs */
	uint32_t reads_n, writes_n;
	uint32_t crossing; /* chunks that cross racks */
	struct repair_chunk reads[ENCODING_STRIPE_MAX];
	struct repair_chunk writes[ENCODING_STRIPE_MAX];
};

struct repair_plan;

/*
 * `failure` and `past` must outlive the plan. -EINVAL for an unknown method or site, or a past
 * whose disks are not all failed now, that has another layout, or whose disks that failed again
 * had not failed before; -ENOMEM.
 */
int repair_plan_open(struct repair_plan **plan, const struct failure *failure,
		     const struct repair_policy *policy, const struct repair_past *past);
void repair_plan_close(struct repair_plan *plan);

/* The next step; false at the end. REPAIR_LOST has no reads or writes. */
bool repair_plan_next(struct repair_plan *plan, struct repair_step *step);

/* What was handed out so far, and to go on from there, in this or an equal plan. */
struct repair_cursor repair_plan_tell(const struct repair_plan *plan);
void repair_plan_seek(struct repair_plan *plan, const struct repair_cursor *cursor);

struct repair_totals {
	uint64_t net_steps, local_steps, lost_stripes;
	uint64_t net_reads, net_writes; /* chunks */
	uint64_t local_reads, local_writes;
	uint64_t cross_reads, cross_writes; /* those of the chunks above that cross racks */
};

void repair_totals_add(struct repair_totals *totals, const struct repair_step *step);

/* "R_ALL" and so on. */
const char *repair_method_name(enum repair_method method);

#endif
