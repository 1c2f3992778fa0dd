// SPDX-License-Identifier: Apache-2.0
/* What the planners share. Not for use outside src/code. */
#ifndef CODE_PLAN_IMPL_H
#define CODE_PLAN_IMPL_H

#include "code/codec_impl.h"
#include "code/plan.h"

/* A plan in the making. */
struct draft {
	const struct codec *c;
	const uint32_t *cost;
	bool *wanted; /* by chunk number */
	bool *read;
	struct plan *plan; /* gets the steps */
};

/*
 * Adds a step with its coefficients and chunk numbers yet to be filled in, and matrix_ready() to be
 * called then. 0 or -ENOMEM. The plan owns it either way.
 */
int draft_new_step(struct draft *d, int n_in, int n_out, struct plan_step **step);

/*
 * Adds the step that makes `targets` from `sources`, given as places in the stripe of code s, which
 * sit at chunk first + place * stride. 0, -ENODATA, -ENOMEM.
 */
int draft_add_step(struct draft *d, const struct stripe_code *s, int first, int stride,
		   const int *sources, int n_sources, const int *targets, int n_targets);

/* The chunks that can be read, cheapest first, then by number. Returns how many. */
int draft_order(const struct draft *d, int order[ENCODING_STRIPE_MAX]);

/* Each fills d->read and adds the steps. 0, -ENODATA, -ENOMEM. */
int draft_rs(struct draft *d);
int draft_lrc(struct draft *d);
int draft_mlec(struct draft *d);

#endif
