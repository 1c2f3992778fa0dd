// SPDX-License-Identifier: Apache-2.0
#include "code/plan.h"

#include <assert.h>
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
	assert(n_in >= 1 && n_out >= 1);
	*s = (struct plan_step){0};
	s->in = malloc((size_t)(n_in + n_out) * sizeof(*s->in));
	if (s->in == NULL)
		return -ENOMEM;
	s->out = s->in + n_in;
	return matrix_init(&s->m, n_out, n_in);
}

/*
 * Makes room for one more step. The capacity of the array is always a power of two, so the array
 * grows when the count of steps is a power of two.
 */
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

int draft_add_step(struct draft *d, const struct stripe_code *s, const struct step_chunks *c)
{
	struct plan_step *step;
	int err = draft_new_step(d, c->n_sources, c->n_targets, &step);
	if (err == 0)
		err = gf_solve(s, c->sources, c->n_sources, c->targets, c->n_targets, step->m.coef);
	if (err != 0)
		return err;
	matrix_ready(&step->m);
	for (int i = 0; i < c->n_sources; i++)
		step->in[i] = c->first + c->sources[i] * c->stride;
	for (int i = 0; i < c->n_targets; i++)
		step->out[i] = c->first + c->targets[i] * c->stride;
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

/*
 * Plans for a code in which fewer than k chunks determine no other chunk, and any k determine all.
 * The planner compares two ways: read the wanted chunks themselves, or read the k cheapest.
 */
static int draft_rs(struct draft *d)
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
	return draft_add_step(d, &s,
			      &(struct step_chunks){.stride = 1,
						    .sources = order,
						    .n_sources = s.k,
						    .targets = targets,
						    .n_targets = n_targets});
}

/* ---- ranges ---- */

static uint64_t span_end(const struct plan_span *s)
{
	return s->off + s->len;
}

static void span_cover(struct plan_span *s, const struct plan_span *other)
{
	uint64_t end = max_u64(span_end(s), span_end(other));
	s->off = min_u64(s->off, other->off);
	s->len = end - s->off;
}

/*
 * Adds a span and merges spans that touch. The spans of one range are the end of a chunk, the front
 * of another and whole chunks, or a piece of a single chunk; so two spans are always enough.
 */
static void spans_add(struct plan_spans *s, struct plan_span more)
{
	int kept = 0;
	assert(more.len > 0);
	for (int i = 0; i < s->n; i++) {
		if (s->at[i].off <= span_end(&more) && more.off <= span_end(&s->at[i]))
			span_cover(&more, &s->at[i]);
		else
			s->at[kept++] = s->at[i];
	}
	assert(kept < 2); /* two spans are always enough */
	if (kept == 1 && more.off < s->at[0].off) {
		s->at[1] = s->at[0];
		s->at[0] = more;
	} else {
		s->at[kept] = more;
	}
	s->n = kept + 1;
}

static void spans_add_all(struct plan_spans *s, const struct plan_spans *other)
{
	for (int i = 0; i < other->n; i++)
		spans_add(s, other->at[i]);
}

/* The wanted bytes: all bytes of the wanted chunks, or a range of the block. */
struct range {
	const struct encoding *e;
	uint64_t chunk_len;
	bool all_bytes;    /* plan_rebuild(): all bytes of the wanted chunks */
	uint64_t from, to; /* otherwise the range of the block, in bytes; `to` is exclusive */
};

static struct plan_span range_of_chunk(const struct range *r, int chunk)
{
	if (r->all_bytes)
		return (struct plan_span){0, r->chunk_len};
	uint64_t start = (uint64_t)encoding_data_index(r->e, chunk) * r->chunk_len;
	uint64_t from = max_u64(r->from, start), to = min_u64(r->to, start + r->chunk_len);
	assert(from < to); /* the chunk is wanted */
	return (struct plan_span){from - start, to - from};
}

/*
 * Fills need[chunk] with the bytes of each chunk that the caller or a later step uses: a step
 * needs of its inputs the same bytes that are needed of its outputs. The function visits the steps
 * from the last to the first.
 */
static void fill_spans(struct draft *d, const struct range *r, struct plan_spans *need)
{
	struct plan *p = d->plan;
	struct plan_spans hull = {0};
	for (int i = 0; i < p->total; i++)
		if (d->wanted[i])
			spans_add(&need[i], range_of_chunk(r, i));
	for (int i = p->n_steps - 1; i >= 0; i--) {
		struct plan_step *step = &p->steps[i];
		for (int o = 0; o < step->m.rows; o++)
			spans_add_all(&step->spans, &need[step->out[o]]);
		for (int j = 0; j < step->m.cols; j++)
			spans_add_all(&need[step->in[j]], &step->spans);
		spans_add_all(&hull, &step->spans);
	}
	if (hull.n == 2)
		span_cover(&hull.at[0], &hull.at[1]);
	p->off = hull.at[0].off;
	p->len = hull.at[0].len;
}

/* Lists the needed spans of the chunks that the draft reads. */
static int fill_reads(struct draft *d, const struct plan_spans *need)
{
	struct plan *p = d->plan;
	int n = 0;
	for (int i = 0; i < p->total; i++)
		p->n_reads += d->read[i] ? need[i].n : 0;
	/* at least one chunk is wanted, and every chunk depends on at least one read */
	assert(p->n_reads > 0);
	p->reads = malloc((size_t)p->n_reads * sizeof(*p->reads));
	if (p->reads == NULL)
		return -ENOMEM;
	for (int i = 0; i < p->total; i++) {
		if (!d->read[i])
			continue;
		for (int s = 0; s < need[i].n; s++)
			p->reads[n++] = (struct plan_read){i, need[i].at[s].off, need[i].at[s].len};
		assert(d->cost[i] != CHUNK_LOST && need[i].n > 0);
		p->cost += d->cost[i];
	}
	return 0;
}

/* ---- making plans ---- */

static int draft_finish(struct draft *d, const struct range *r)
{
	AUTO_FREE struct plan_spans *need = calloc((size_t)d->plan->total, sizeof(*need));
	if (need == NULL)
		return -ENOMEM;
	fill_spans(d, r, need);
	return fill_reads(d, need);
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

/*
 * Makes a plan for the wanted bytes r. `marks` holds two arrays of one bool per chunk: the wanted
 * chunks, and room for the chunks to read.
 */
static int plan_make(const struct codec *c, const uint32_t *cost, const struct range *r,
		     bool *marks, struct plan **out)
{
	struct plan *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	p->kernel = c->kernel;
	p->e = c->e;
	p->chunk_len = r->chunk_len;
	p->total = c->total;
	struct draft d = {c, cost, marks, marks + c->total, p};
	int err = draft_choose(&d);
	if (err == 0)
		err = draft_finish(&d, r);
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
	AUTO_FREE bool *marks = calloc((size_t)c->total, 2 * sizeof(*marks));
	if (marks == NULL)
		return -ENOMEM;
	for (int i = 0; i < n_wanted; i++) {
		if (wanted[i] < 0 || wanted[i] >= c->total || marks[wanted[i]])
			return -EINVAL;
		marks[wanted[i]] = true;
	}
	struct range r = {&c->e, chunk_len, .all_bytes = true};
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
	AUTO_FREE bool *marks = calloc((size_t)c->total, 2 * sizeof(*marks));
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

/*
 * Checks the buffers of all steps of the plan. In each step s->out follows s->in in memory, so one
 * loop visits both. Returns 0, -EINVAL or -EOVERFLOW.
 */
static int plan_check(const struct plan *p, const struct sg *chunks)
{
	int err = 0;
	for (int i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];
		for (int j = 0; j < s->m.cols + s->m.rows && err == 0; j++)
			err = sg_check(&chunks[s->in[j]], p->len,
				       encoding_data_index(&p->e, s->in[j]) >= 0);
	}
	for (int i = 0; i < p->n_steps && err == 0; i++) {
		struct product product = {&p->steps[i].m, p->steps[i].in, p->steps[i].out, 0};
		err = sg_overlaps(&product, chunks) ? -EINVAL : 0;
	}
	return err;
}

static struct product step_product(const struct plan *p, const struct plan_step *s, int span)
{
	assert(s->spans.at[span].off >= p->off && span_end(&s->spans.at[span]) <= p->off + p->len);
	return (struct product){&s->m, s->in, s->out, s->spans.at[span].off - p->off};
}

/* Computes each output separately, as many bytes as its buffer has. */
static void run_short(const struct plan *p, const struct product *all, size_t end,
		      const struct sg *chunks)
{
	size_t cols = (size_t)all->m->cols;
	for (int i = 0; i < all->m->rows; i++) {
		size_t at = (size_t)i * cols, have = sg_bytes(&chunks[all->out[i]]);
		struct matrix row = {1, all->m->cols, all->m->coef + at,
				     all->m->tables + at * TABLE_BYTES};
		struct product one = {&row, all->in, &all->out[i], all->off};
		if (have > one.off)
			sg_dot(p->kernel, &one, min_u64(have, end) - one.off, chunks);
	}
}

static void run_product(const struct plan *p, const struct product *product, size_t len,
			const struct sg *chunks)
{
	size_t end = product->off + len;
	for (int i = 0; i < product->m->rows; i++) {
		if (sg_bytes(&chunks[product->out[i]]) < end) {
			run_short(p, product, end, chunks);
			return;
		}
	}
	sg_dot(p->kernel, product, len, chunks);
}

int plan_run(const struct plan *p, const struct sg *chunks)
{
	int err = plan_check(p, chunks);
	for (int i = 0; i < p->n_steps && err == 0; i++) {
		const struct plan_step *s = &p->steps[i];
		for (int j = 0; j < s->spans.n; j++) {
			struct product product = step_product(p, s, j);
			run_product(p, &product, s->spans.at[j].len, chunks);
		}
	}
	return err;
}

int plan_verify(const struct plan *p, const struct sg *chunks)
{
	int err = plan_check(p, chunks);
	for (int i = 0; i < p->n_steps && err == 0; i++) {
		const struct plan_step *s = &p->steps[i];
		for (int j = 0; j < s->spans.n && err == 0; j++) {
			struct product product = step_product(p, s, j);
			err = verify_product(p->kernel, &product, s->spans.at[j].len, chunks);
		}
	}
	return err;
}
