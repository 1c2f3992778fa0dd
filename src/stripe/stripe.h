// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a stripe: the chunks of one codeword, each of which can be fetched from somewhere.
 *
 *   plan      the caller's plan slot chooses what to fetch and what to compute (code/plan.h)
 *   fetch     every range of the plan in a fiber of its own; ranges that are here already are used again
 *   re-plan   a failed fetch changes the cost of its chunk, and a new plan is made; beside a slow plan a
 *             hedge runs, a plan around the chunks that have not come; the first complete plan wins
 *   compute   the steps of that plan, on a thread of the offload pool when they are large
 *   verify    results by plan_verify, inputs once more against the checksums they came with
 *
 * The chunks may be files on disks of other nodes, rows on the members of a pool, or the same ranges of
 * chunks put one after the other: the source decides. Example: rs:4+2, chunk 1 of 4 wanted, its disk is
 * away. Plan {1} fails, cost[1] = CHUNK_LOST, plan {0, 2, 3, 4} comes, chunk 1 is computed.
 *
 * Invariants:
 *   1. Bytes that a fetch brought are never written to.
 *   2. The checksum of computed bytes is taken before plan_verify says that the bytes are right. So every
 *      part that is handed out can be compared with a checksum that is older than its verification.
 *   3. A chunk whose cost is CHUNK_LOST stays lost for this stripe.
 *   4. After stripe_fini no fiber of the stripe runs, and all memory has been released or taken.
 *
 * A stripe belongs to one fiber; its fetches run on the same loop.
 */
#ifndef STRIPE_STRIPE_H
#define STRIPE_STRIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "code/plan.h"
#include "rt/rt.h"
#include "rt/sync.h"

#define STRIPE_HEDGES_MAX 4

struct stripe;

/* Bytes in memory and the checksum they were read or computed with. */
struct stripe_bytes {
	uint8_t *data;
	uint64_t len;
	uint32_t crc;
	void *hold; /* given to ops->release; NULL: the memory belongs to somebody else */
};

/* A range of a chunk that is being fetched, or was. */
struct stripe_fetch {
	struct stripe *stripe;
	int chunk;
	uint64_t off, len;
	uint64_t start_ns;
	bool done;
	bool judged;             /* ops->judge has seen its failure */
	int rc;                  /* when done */
	struct stripe_bytes got; /* when done and rc is 0; empty for len 0 */
	struct stripe_fetch *next;
};

struct stripe_ops {
	/* Makes a plan for what is wanted from s->cost or, for a hedge, another cost array. Does not wait. Errors
	 * of plan_range and plan_rebuild; -ENODATA: too few chunks are left. */
	int (*plan)(struct stripe *s, const uint32_t *cost, struct plan **out);
	/* Fetches bytes [off, off + len), len > 0, of the chunk into f->got. Runs in a fiber of its own and waits.
	 * After an error f->got is empty. */
	int (*fetch)(struct stripe *s, struct stripe_fetch *f);
	/* Called once for each failed fetch before the next plan is made: *cost is the cost of its chunk from now
	 * on. May wait. An error ends the read. */
	int (*judge)(struct stripe *s, const struct stripe_fetch *f, uint32_t *cost);
	/* Called before a plan begins. May wait, unless it is for a hedge. May put another plan in the place of *p.
	 * -EBUSY for a hedge: the hedge is left out. Any other error ends the read. NULL: plans are free. */
	int (*admit)(struct stripe *s, struct plan **p, bool hedge);
	/* When to begin a hedge; RT_NEVER: not before another fetch ends. NULL: never. */
	uint64_t (*hedge_at_ns)(const struct stripe *s);
	/* Memory for len bytes of a chunk that is to be computed. May wait. */
	int (*memory)(struct stripe *s, uint64_t len, struct stripe_bytes *out);
	/* Releases f->got.hold or memory's out->hold, which is not NULL. */
	void (*release)(void *hold);
	/* Called on any thread with computed bytes before they are summed; a test may change them. NULL: nothing. */
	void (*computed)(struct stripe *s, uint8_t *bytes, uint64_t len);
};

/* The bytes [plan->off, plan->off + plan->len) of a chunk that steps read or write. */
struct stripe_window {
	struct stripe_bytes bytes; /* len: what the chunk has of the window */
	bool used;
	bool output;
};

struct stripe {
	const struct stripe_ops *ops;
	int n;          /* chunks of the code */
	bool copies;    /* every chunk has the same bytes: any of them serves for another */
	uint32_t *cost; /* of each chunk, as for plans; the caller sets it before stripe_gather */
	uint64_t *
		stored; /* bytes that each chunk has; the rest of a short chunk counts as zeros. The caller
			   * sets it before stripe_gather */
	/* Of the stripe itself: */
	struct stripe_fetch *fetches; /* newest first */
	struct rt_group fibers;
	struct rt_cond change;                       /* a fetch is done */
	struct plan *pending[STRIPE_HEDGES_MAX + 1]; /* under way, oldest first */
	int pending_count;
	int hedges;         /* begun since the last plan that is no hedge */
	uint64_t newest_ns; /* when the newest plan began */
	struct plan *plan;  /* the complete one, after stripe_gather */
	struct stripe_window *windows;
	struct iovec *iov;
	struct sg *sg;
};

/* -ENOMEM. Call stripe_fini after an error, too. */
int stripe_init(struct stripe *s, const struct stripe_ops *ops, int n);
/* Cancels and joins fetches under way, releases memory. */
void stripe_fini(struct stripe *s);

/* The whole of a chunk is in memory already, which stays valid until stripe_fini. -ENOMEM. */
int stripe_give(struct stripe *s, int chunk, struct stripe_bytes bytes);

/* Plans and fetches until one plan has all its ranges. Waits. Errors of the plan, judge and admit slots; the
 * error of the last fetch when too many plans failed. */
int stripe_gather(struct stripe *s);

/* Computes and verifies what the plan does not read as it is. Waits. -EBADMSG: bytes changed in memory;
 * -ENOMEM; errors of the memory slot. */
int stripe_compute(struct stripe *s);

/* Whether the plan computes. Reading another copy does not, though the planner makes a step of it. */
static inline bool stripe_computes(const struct stripe *s, const struct plan *p)
{
	return p->n_steps > 0 && !s->copies;
}

/* A part of bytes that were fetched or computed. */
struct stripe_part {
	const uint8_t *data;
	uint64_t before, len, behind; /* bytes of the whole in front of the part, in it, after it */
	uint32_t whole_crc;
};

/* Bytes [off, off + len) of the chunk, or of any chunk if it is -1; after stripe_compute. false: they were
 * neither fetched nor computed. */
bool stripe_part_find(const struct stripe *s, int chunk, uint64_t off, uint64_t len,
		      struct stripe_part *out);
/* Whether `crc`, taken of a copy of the part, is right: together with the bytes around the part it must give the
 * checksum of the whole. */
bool stripe_part_verify(const struct stripe_part *p, uint32_t crc);

/* Moves the whole of a chunk out, with its hold; *computed: it was not fetched. -ENODATA: it is not here. */
int stripe_take(struct stripe *s, int chunk, struct stripe_bytes *out, bool *computed);

/* --- between the files of this module --------------------------------------------------------- */

/* A fetch that holds the range and is done; else one under way; else a failed one; else NULL. */
struct stripe_fetch *stripe_fetch_find(const struct stripe *s, int chunk, uint64_t off,
				       uint64_t len);
/* What the chunk has of the plan's read i. */
struct plan_read stripe_plan_read(const struct stripe *s, const struct plan *p, int i);

#endif
