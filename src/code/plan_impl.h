// SPDX-License-Identifier: Apache-2.0
/* Declarations that the planners share, private to src/code. */
#ifndef CODE_PLAN_IMPL_H
#define CODE_PLAN_IMPL_H

#include "code/codec_impl.h"
#include "code/plan.h"

/* The working state of a planner. */
struct draft {
	const struct codec *c;
	const uint32_t *cost; /* by chunk number */
	bool *wanted;         /* by chunk number */
	bool *read;           /* by chunk number: the plan reads it */
	struct plan *plan;    /* the plan to which steps are appended */
};

/*
 * Appends a step to the plan, which owns it. The caller fills in its coefficients and chunk numbers
 * and then calls matrix_ready(). Returns 0 or -ENOMEM.
 */
int draft_new_step(struct draft *d, int n_in, int n_out, struct plan_step **step);

/*
 * The chunks that a step reads and computes, as positions in a stripe: position i is chunk first +
 * i * stride.
 */
struct step_chunks {
	int first, stride;
	const int *sources;
	int n_sources;
	const int *targets;
	int n_targets;
};

/* Appends the step of code s that computes the targets from the sources. Returns 0, -ENODATA or -ENOMEM. */
int draft_add_step(struct draft *d, const struct stripe_code *s, const struct step_chunks *c);

/*
 * Lists the readable chunks in `order`, by cost, then by number. Returns the number of readable
 * chunks.
 */
int draft_order(const struct draft *d, int order[ENCODING_STRIPE_MAX]);

int draft_lrc(struct draft *d);
int draft_mlec(struct draft *d);

#endif
