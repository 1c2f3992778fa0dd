// SPDX-License-Identifier: Apache-2.0
#include "code/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "code/plan_impl.h"
#include "code/verify.h"

/* ---- steps ---- */

static void step_fini(struct plan_step *s)
{
	matrix_fini(&s->m);
	free(s->in);
}

static int step_init(struct plan_step *s, int n_in, int n_out)
{
	*s = (struct plan_step){0};
	s->in = malloc((size_t)(n_in + n_out) * sizeof(*s->in));
	if (s->in == NULL)
		return -ENOMEM;
	s->out = s->in + n_in;
	return matrix_init(&s->m, n_out, n_in);
}

/* A power of two is the moment to grow: the count itself says how much room there is. */
static int plan_grow(struct plan *p)
{
	if ((p->n_steps & (p->n_steps - 1)) != 0)
		return 0;
	size_t room = p->n_steps == 0 ? 1 : (size_t)p->n_steps * 2;
	struct plan_step *steps = realloc(p->steps, room * sizeof(*steps));
	if (steps == NULL)
		return -ENOMEM;
	p->steps = steps;
	return 0;
}

int draft_new_step(struct draft *d, int n_in, int n_out, struct plan_step **step)
{
	int err = plan_grow(d->plan);
	if (err != 0)
		return err;
	*step = &d->plan->steps[d->plan->n_steps++];
	return step_init(*step, n_in, n_out);
}

int draft_add_step(struct draft *d, const struct stripe_code *s, int first, int stride,
		   const int *sources, int n_sources, const int *targets, int n_targets)
{
	struct plan_step *step;
	int err = draft_new_step(d, n_sources, n_targets, &step);
	if (err == 0)
		err = gf_solve(s, sources, n_sources, targets, n_targets, step->m.coef);
	if (err != 0)
		return err;
	matrix_ready(&step->m);
	for (int i = 0; i < n_sources; i++)
		step->in[i] = first + sources[i] * stride;
	for (int i = 0; i < n_targets; i++)
		step->out[i] = first + targets[i] * stride;
	return 0;
}

/* ---- r and rs ---- */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int draft_order(const struct draft *d, int order[ENCODING_STRIPE_MAX])
{
	uint64_t key[ENCODING_STRIPE_MAX] = {0};
	size_t n = 0;
	for (int i = 0; i < d->c->total; i++)
		if (d->cost[i] != CHUNK_LOST)
			key[n++] = (uint64_t)d->cost[i] << 32 | (uint64_t)i;
	qsort(key, n, sizeof(key[0]), compare_u64);
	for (size_t i = 0; i < n; i++)
		order[i] = (int)(key[i] & UINT32_MAX);
	return (int)n;
}

/* Fewer than k chunks say nothing about any other, and any k say all: there are only two ways. */
int draft_rs(struct draft *d)
{
	const struct codec *c = d->c;
	struct stripe_code s = codec_stripe(c);
	int order[ENCODING_STRIPE_MAX], targets[ENCODING_STRIPE_MAX], n_targets = 0;
	int n = draft_order(d, order);
	uint64_t direct = 0, cheapest = 0;
	bool all_there = true;
	for (int i = 0; i < c->total; i++) {
		if (d->wanted[i]) {
			all_there = all_there && d->cost[i] != CHUNK_LOST;
			direct += d->cost[i];
		}
	}
	for (int i = 0; i < s.k && i < n; i++)
		cheapest += d->cost[order[i]];
	if (all_there && (n < s.k || direct <= cheapest)) {
		memcpy(d->read, d->wanted, (size_t)c->total * sizeof(*d->read));
		return 0;
	}
	if (n < s.k)
		return -ENODATA;
	for (int i = 0; i < s.k; i++)
		d->read[order[i]] = true;
	for (int i = 0; i < c->total; i++)
		if (d->wanted[i] && !d->read[i])
			targets[n_targets++] = i;
	return draft_add_step(d, &s, 0, 1, order, s.k, targets, n_targets);
}

/* ---- ranges ---- */

struct span {
	uint64_t from, to; /* empty when from == to */
};

static void span_cover(struct span *s, struct span other)
{
	if (s->from == s->to) {
		*s = other;
		return;
	}
	s->from = min_u64(s->from, other.from);
	s->to = max_u64(s->to, other.to);
}

/* What is wanted of a chunk: a part of it at each end of the range, all of it between. */
struct range {
	const struct encoding *e;
	uint64_t chunk_len;
	bool whole;        /* rebuild: whole chunks */
	uint64_t from, to; /* bytes of the block */
};

static struct span range_of_chunk(const struct range *r, int chunk)
{
	if (r->whole)
		return (struct span){0, r->chunk_len};
	uint64_t start = (uint64_t)encoding_data_index(r->e, chunk) * r->chunk_len;
	return (struct span){max_u64(r->from, start) - start,
			     min_u64(r->to, start + r->chunk_len) - start};
}

/* Steps work on all bytes that are wanted of any chunk that they make. */
static struct span steps_span(const struct draft *d, const struct range *r)
{
	struct span all = {0, 0};
	for (int i = 0; i < d->plan->n_steps; i++) {
		const struct plan_step *step = &d->plan->steps[i];
		for (int o = 0; o < step->m.rows; o++)
			if (d->wanted[step->out[o]])
				span_cover(&all, range_of_chunk(r, step->out[o]));
	}
	return all;
}

/* The reads, from the marks of the draft. used: chunks that a step takes in. */
static int fill_reads(struct draft *d, const struct range *r, const bool *used)
{
	struct plan *p = d->plan;
	struct span steps = steps_span(d, r);
	p->off = steps.from;
	p->len = steps.to - steps.from;
	for (int i = 0; i < p->total; i++)
		p->n_reads += d->read[i];
	p->reads = malloc((size_t)p->n_reads * sizeof(*p->reads));
	if (p->reads == NULL)
		return -ENOMEM;
	int n = 0;
	for (int i = 0; i < p->total; i++) {
		if (!d->read[i])
			continue;
		struct span span = {0, 0};
		if (d->wanted[i])
			span = range_of_chunk(r, i);
		if (used[i])
			span_cover(&span, steps);
		p->reads[n++] = (struct plan_read){i, span.from, span.to - span.from};
		p->cost += d->cost[i];
	}
	return 0;
}

/* ---- making plans ---- */

static int draft_finish(struct draft *d, const struct range *r, bool *used)
{
	for (int i = 0; i < d->plan->n_steps; i++)
		for (int j = 0; j < d->plan->steps[i].m.cols; j++)
			used[d->plan->steps[i].in[j]] = true;
	return fill_reads(d, r, used);
}

static int draft_choose(struct draft *d)
{
	switch (d->c->e.kind) {
	case ENCODING_LRC:
		return draft_lrc(d);
	case ENCODING_MLEC:
		return draft_mlec(d);
	default:
		return draft_rs(d);
	}
}

/* marks: three arrays of bools, one for each chunk; the first says what is wanted. */
static int plan_make(const struct codec *c, const uint32_t *cost, const struct range *r,
		     bool *marks, struct plan **out)
{
	struct plan *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	p->kernel = c->kernel;
	p->total = c->total;
	struct draft d = {c, cost, marks, marks + c->total, p};
	int err = draft_choose(&d);
	if (err == 0)
		err = draft_finish(&d, r, marks + 2 * c->total);
	if (err != 0) {
		plan_close(p);
		return err;
	}
	*out = p;
	return 0;
}

int plan_rebuild(const struct codec *c, uint64_t chunk_len, const uint32_t *cost, const int *wanted,
		 int n_wanted, struct plan **out)
{
	if (chunk_len == 0 || n_wanted < 1)
		return -EINVAL;
	AUTO_FREE bool *marks = calloc((size_t)c->total, 3 * sizeof(*marks));
	if (marks == NULL)
		return -ENOMEM;
	for (int i = 0; i < n_wanted; i++) {
		if (wanted[i] < 0 || wanted[i] >= c->total || marks[wanted[i]])
			return -EINVAL;
		marks[wanted[i]] = true;
	}
	struct range r = {&c->e, chunk_len, .whole = true};
	return plan_make(c, cost, &r, marks, out);
}

int plan_range(const struct codec *c, uint64_t chunk_len, const uint32_t *cost, uint64_t off,
	       uint64_t len, struct plan **out)
{
	uint64_t block, end;
	if (chunk_len == 0)
		return -EINVAL;
	if (__builtin_mul_overflow(chunk_len, (uint64_t)c->data, &block))
		return -EOVERFLOW;
	if (len == 0 || __builtin_add_overflow(off, len, &end) || end > block)
		return -ERANGE;
	AUTO_FREE bool *marks = calloc((size_t)c->total, 3 * sizeof(*marks));
	if (marks == NULL)
		return -ENOMEM;
	for (uint64_t d = off / chunk_len; d <= (end - 1) / chunk_len; d++)
		marks[encoding_data_chunk(&c->e, (int)d)] = true;
	struct range r = {&c->e, chunk_len, .from = off, .to = end};
	return plan_make(c, cost, &r, marks, out);
}

void plan_close(struct plan *p)
{
	if (p == NULL)
		return;
	for (int i = 0; i < p->n_steps; i++)
		step_fini(&p->steps[i]);
	free(p->steps);
	free(p->reads);
	free(p);
}

/* ---- running them ---- */

/* The outputs of a step follow its inputs in memory. */
static int plan_check(const struct plan *p, const struct sg *chunks)
{
	int err = 0;
	for (int i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];
		for (int j = 0; j < s->m.cols + s->m.rows && err == 0; j++)
			err = sg_check(&chunks[s->in[j]], p->len, false);
	}
	return err;
}

static struct product step_product(const struct plan_step *s)
{
	return (struct product){&s->m, s->in, s->out};
}

int plan_run(const struct plan *p, const struct sg *chunks)
{
	int err = plan_check(p, chunks);
	for (int i = 0; i < p->n_steps && err == 0; i++) {
		struct product product = step_product(&p->steps[i]);
		sg_dot(p->kernel, &product, p->len, chunks);
	}
	return err;
}

int plan_verify(const struct plan *p, const struct sg *chunks)
{
	int err = plan_check(p, chunks);
	for (int i = 0; i < p->n_steps && err == 0; i++) {
		struct product product = step_product(&p->steps[i]);
		err = verify_product(p->kernel, &product, p->len, chunks);
	}
	return err;
}
