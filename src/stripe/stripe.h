// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a stripe: the chunks of one codeword. A source (struct stripe_ops) fetches each chunk.
 *
 *   plan      the plan slot chooses which ranges to fetch and what to compute from them (code/plan.h)
 *   fetch     a fiber fetches each range of the plan; ranges that were fetched before are used again
 *   re-plan   a failed fetch raises the cost of its chunk and a new plan is made. When a plan is slow, a
 *             hedge runs beside it: a second plan that avoids the chunks that have not arrived. The first
 *             complete plan is used
 *   compute   runs the steps of that plan, on a thread of the offload pool when they touch much memory
 *   verify    plan_verify checks the results; the inputs are compared again with the checksums that
 *             arrived with them
 *
 * A chunk may be a file on a disk of another node, a row of a pool member, or several ranges of one chunk
 * joined together: the source decides. Example: rs:4+2, chunk 1 of 4 is wanted and its disk is offline.
 * Plan {1} fails, cost[1] becomes CHUNK_LOST, plan {0, 2, 3, 4} completes, chunk 1 is computed.
 *
 * Invariants:
 *   1. The stripe never writes to fetched bytes.
 *   2. The checksum of computed bytes is taken before plan_verify accepts them. So a reader can compare
 *      each part with a checksum that is older than the verification of its bytes.
 *   3. A chunk whose cost is CHUNK_LOST stays lost for this stripe.
 *   4. After stripe_fini no fiber of the stripe runs, and all memory is released or was taken.
 *
 * One fiber owns a stripe; its fetches run on the same loop.
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

/* Bytes in memory, with the checksum that arrived with them or was taken when they were
 * computed. */
struct stripe_bytes {
	uint8_t *data;
	uint64_t len;
	uint32_t crc;
	void *hold; /* argument of ops->release; NULL: another object owns the memory */
};

/* A range of a chunk, while it is fetched and afterwards. */
struct stripe_fetch {
	struct stripe *stripe;
	int chunk;
	uint64_t off, len;
	uint64_t start_ns;
	bool done;
	bool judged;             /* ops->judge was called for its failure */
	int rc;                  /* result of the fetch: 0 or an error; valid when done */
	struct stripe_bytes got; /* fetched bytes, valid when done and rc is 0; empty for len 0 */
	/* set by the source: the memory of its user that the bytes are received into; NULL: none */
	uint8_t *place;
	struct stripe_fetch *next;
};

struct stripe_ops {
	/* Makes a plan for the wanted range from a cost array: s->cost, or the costs of a hedge.
	 * Does not wait. Errors of plan_range and plan_rebuild; -ENODATA: too few chunks are
	 * left. */
	int (*plan)(struct stripe *s, const uint32_t *cost, struct plan **out);
	/* Fetches bytes [off, off + len), len > 0, of the chunk into f->got. Runs in its own
	 * fiber and may wait. After an error f->got must be empty. */
	int (*fetch)(struct stripe *s, struct stripe_fetch *f);
	/* Called once for each failed fetch before the next plan: sets *cost, the cost of its
	 * chunk from now on. May wait. An error ends the read. */
	int (*judge)(struct stripe *s, const struct stripe_fetch *f, uint32_t *cost);
	/* Admits a plan before it begins, and may replace *p by another plan. May wait, unless
	 * the plan is a hedge. -EBUSY for a hedge: the hedge is skipped. Any other error ends
	 * the read. NULL: every plan is admitted. */
	int (*admit)(struct stripe *s, struct plan **p, bool hedge);
	/* Returns the time at which to begin a hedge; RT_NEVER: not before another fetch ends.
	 * NULL: never. */
	uint64_t (*hedge_at_ns)(const struct stripe *s);
	/* Allocates memory in *out for len bytes of a chunk that will be computed. May wait. */
	int (*memory)(struct stripe *s, uint64_t len, struct stripe_bytes *out);
	/* Releases memory by its hold, which is not NULL: that of f->got or of *out of the
	 * memory slot. */
	void (*release)(void *hold);
	/* Called on any thread with computed bytes before their checksum is taken, so that a
	 * test can change them. NULL: nothing. */
	void (*computed)(struct stripe *s, uint8_t *bytes, uint64_t len);
};

/* The bytes [plan->off, plan->off + plan->len) of a chunk, as input or output of steps. */
struct stripe_window {
	/* memory of the window; its len counts the stored bytes of the chunk inside the window */
	struct stripe_bytes bytes;
	bool used;
	bool output;
};

struct stripe {
	const struct stripe_ops *ops;
	int n; /* chunks of the code */
	/* all chunks are replicas with the same bytes, so any of them can be read in place of
	 * another */
	bool copies;
	uint32_t *cost; /* n costs for plan_range; the caller sets them before stripe_gather */
	/* n stored lengths in bytes, set by the caller before stripe_gather; a short chunk is
	 * padded with zeros */
	uint64_t *stored;
	/* Private to src/stripe: */
	struct stripe_fetch *fetches; /* all fetches so far, newest first */
	struct rt_group fibers;
	struct rt_cond change; /* signalled when a fetch is done */
	/* plans that are being fetched, oldest first */
	struct plan *pending[STRIPE_HEDGES_MAX + 1];
	int pending_count;
	int hedges;         /* hedges begun since the last ordinary plan */
	uint64_t newest_ns; /* start of the newest plan */
	struct plan *plan;  /* the complete plan; set by stripe_gather */
	struct stripe_window *windows;
	struct iovec *iov;
	struct sg *sg;
};

/* Initializes a stripe of n chunks. -ENOMEM. The caller calls stripe_fini after an error, too. */
int stripe_init(struct stripe *s, const struct stripe_ops *ops, int n);
/* Cancels and joins the running fetches and releases all memory. */
void stripe_fini(struct stripe *s);

/* Provides a complete chunk that is in memory already; the bytes stay valid until stripe_fini.
 * -ENOMEM. */
int stripe_give(struct stripe *s, int chunk, struct stripe_bytes bytes);

/* Plans and fetches until all ranges of one plan are fetched. Waits. Errors of the plan, judge
 * and admit slots; the error of the last fetch after too many plans. */
int stripe_gather(struct stripe *s);

/* Cancels and joins the fetches that still run, those of plans that were not used. Afterwards no fetch writes to its
 * place. */
void stripe_halt(struct stripe *s);

/* Computes and verifies the outputs of the plan. Waits. -EBADMSG: bytes changed in memory;
 * -ENOMEM; errors of the memory slot. */
int stripe_compute(struct stripe *s);

/* Returns whether the plan computes bytes. Reading another replica does not, although the
 * planner makes a step of it. */
static inline bool stripe_computes(const struct stripe *s, const struct plan *p)
{
	return p->n_steps > 0 && !s->copies;
}

/* A part of a run of bytes that was fetched or computed and has one checksum. */
struct stripe_part {
	const uint8_t *data;
	uint64_t before, len, after; /* bytes of the run before the part, in it and after it */
	uint32_t run_crc;
};

/* Finds bytes [off, off + len) of the chunk, or of any chunk if it is -1 (only with copies).
 * Call after stripe_compute. Returns false if they were neither fetched nor computed. */
bool stripe_part_find(const struct stripe *s, int chunk, uint64_t off, uint64_t len,
		      struct stripe_part *out);
/* Returns whether crc, taken of a copy of the part, is right: combined with the checksums of the
 * bytes around the part it must give run_crc. */
bool stripe_part_verify(const struct stripe_part *p, uint32_t crc);

/* Moves a complete chunk with its hold to *out; *computed: it was computed, not fetched.
 * -ENODATA: it was neither. */
int stripe_take(struct stripe *s, int chunk, struct stripe_bytes *out, bool *computed);

/* --- between the files of this module --------------------------------------------------------- */

/* Returns a fetch that covers the range: a successful one if there is one, else a running one,
 * else a failed one, else NULL. */
struct stripe_fetch *stripe_fetch_find(const struct stripe *s, int chunk, uint64_t off,
				       uint64_t len);
/* Returns read i of the plan, cut to the stored length of its chunk. */
struct plan_read stripe_plan_read(const struct stripe *s, const struct plan *p, int i);

#endif
