// SPDX-License-Identifier: Apache-2.0
/* Makes the plans of a stripe, fetches their ranges and begins hedges. stripe.h explains the
 * terms. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stripe/stripe.h"

/* cost that makes a hedge read a chunk only if the other chunks do not suffice */
#define COST_AVOID 1000000u
#define REPLANS_MAX 64

int stripe_init(struct stripe *s, const struct stripe_ops *ops, int n)
{
	assert(n > 0);
	assert(ops->plan != NULL && ops->fetch != NULL && ops->judge != NULL);
	assert(ops->memory != NULL && ops->release != NULL);
	*s = (struct stripe){.ops = ops, .n = n};
	rt_group_init(&s->fibers);
	rt_cond_init(&s->change);
	s->cost = calloc((size_t)n, sizeof(*s->cost));
	s->stored = calloc((size_t)n, sizeof(*s->stored));
	return s->cost == NULL || s->stored == NULL ? -ENOMEM : 0;
}

static void bytes_release(const struct stripe *s, struct stripe_bytes *b)
{
	if (b->hold != NULL)
		s->ops->release(b->hold);
	*b = (struct stripe_bytes){0};
}

void stripe_halt(struct stripe *s)
{
	rt_group_cancel(&s->fibers);
	rt_group_join(&s->fibers);
	for (const struct stripe_fetch *f = s->fetches; f != NULL; f = f->next)
		assert(f->done);
}

void stripe_fini(struct stripe *s)
{
	stripe_halt(s);
	while (s->fetches != NULL) {
		struct stripe_fetch *f = s->fetches;
		assert(f->done);
		s->fetches = f->next;
		bytes_release(s, &f->got);
		free(f);
	}
	for (int i = 0; s->windows != NULL && i < s->n; i++)
		bytes_release(s, &s->windows[i].bytes);
	free(s->windows);
	free(s->iov);
	free(s->sg);
	plan_close(s->plan);
	for (int i = 0; i < s->pending_count; i++)
		plan_close(s->pending[i]);
	free(s->cost);
	free(s->stored);
}

/* --- fetches ---------------------------------------------------------------------------------- */

struct stripe_fetch *stripe_fetch_find(const struct stripe *s, int chunk, uint64_t off,
				       uint64_t len)
{
	struct stripe_fetch *coming = NULL, *failed = NULL;
	for (struct stripe_fetch *f = s->fetches; f != NULL; f = f->next) {
		if (f->chunk != chunk || off < f->off || off + len > f->off + f->len)
			continue;
		if (f->done && f->rc == 0)
			return f;
		if (f->done)
			failed = f;
		else
			coming = f;
	}
	return coming != NULL ? coming : failed;
}

static struct stripe_fetch *fetch_new(struct stripe *s, int chunk, uint64_t off, uint64_t len)
{
	assert(chunk >= 0 && chunk < s->n);
	assert(off + len <= s->stored[chunk]);
	struct stripe_fetch *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return NULL;
	*f = (struct stripe_fetch){.stripe = s,
				   .chunk = chunk,
				   .off = off,
				   .len = len,
				   .start_ns = rt_now_ns(),
				   .next = s->fetches};
	s->fetches = f;
	return f;
}

static void fetch_fiber(void *arg)
{
	struct stripe_fetch *f = arg;
	struct stripe *s = f->stripe;
	f->rc = s->ops->fetch(s, f);
	assert(f->rc <= 0);
	assert(f->rc < 0 ? f->got.hold == NULL : f->got.data != NULL && f->got.len == f->len);
	f->done = true;
	rt_cond_broadcast(&s->change);
}

static int fetch_start(struct stripe *s, struct plan_read r)
{
	struct stripe_fetch *f = fetch_new(s, r.chunk, r.off, r.len);
	if (f == NULL)
		return -ENOMEM;
	if (r.len == 0)
		f->done = true;
	/* If there is no memory for another fiber, the fetch runs in the calling fiber. */
	else if (rt_group_spawn(&s->fibers, "fetch", fetch_fiber, f) < 0)
		fetch_fiber(f);
	return 0;
}

int stripe_give(struct stripe *s, int chunk, struct stripe_bytes bytes)
{
	assert(bytes.len == s->stored[chunk]);
	struct stripe_fetch *f = fetch_new(s, chunk, 0, bytes.len);
	if (f == NULL)
		return -ENOMEM;
	f->done = true;
	f->got = bytes;
	return 0;
}

/* --- plans ------------------------------------------------------------------------------------ */

struct plan_read stripe_plan_read(const struct stripe *s, const struct plan *p, int i)
{
	assert(i >= 0 && i < p->n_reads);
	struct plan_read r = p->reads[i];
	uint64_t stored = s->stored[r.chunk];
	r.off = min_u64(r.off, stored);
	r.len = min_u64(r.len, stored - r.off);
	return r;
}

static int plan_fetch(struct stripe *s, const struct plan *p)
{
	int rc = 0;
	for (int i = 0; rc == 0 && i < p->n_reads; i++) {
		struct plan_read r = stripe_plan_read(s, p, i);
		const struct stripe_fetch *f = stripe_fetch_find(s, r.chunk, r.off, r.len);
		if (f == NULL || (f->done && f->rc < 0))
			rc = fetch_start(s, r);
	}
	return rc;
}

/* Returns 0 and sets *complete, or returns the error of a fetch that keeps the plan from
 * completing. */
static int plan_progress(const struct stripe *s, const struct plan *p, bool *complete)
{
	*complete = true;
	for (int i = 0; i < p->n_reads; i++) {
		struct plan_read r = stripe_plan_read(s, p, i);
		const struct stripe_fetch *f = stripe_fetch_find(s, r.chunk, r.off, r.len);
		if (f != NULL && f->done && f->rc < 0)
			return f->rc;
		*complete = *complete && f != NULL && f->done;
	}
	return 0;
}

static int plan_begin(struct stripe *s, struct plan *p)
{
	assert(s->pending_count <= STRIPE_HEDGES_MAX);
	s->pending[s->pending_count++] = p;
	s->newest_ns = rt_now_ns();
	return plan_fetch(s, p);
}

static int plan_next(struct stripe *s)
{
	assert(s->pending_count == 0);
	struct plan *p = NULL;
	s->hedges = 0;
	int rc = s->ops->plan(s, s->cost, &p);
	if (rc == 0 && s->ops->admit != NULL)
		rc = s->ops->admit(s, &p, false);
	if (rc == 0)
		return plan_begin(s, p);
	plan_close(p);
	return rc;
}

/* Makes a plan that avoids the chunks whose fetches still run. -ENODATA: no such plan exists. */
static int plan_around(struct stripe *s, struct plan **out)
{
	AUTO_FREE uint32_t *cost = malloc((size_t)s->n * sizeof(*cost));
	if (cost == NULL)
		return -ENOMEM;
	memcpy(cost, s->cost, (size_t)s->n * sizeof(*cost));
	for (const struct stripe_fetch *f = s->fetches; f != NULL; f = f->next)
		if (!f->done && cost[f->chunk] != CHUNK_LOST)
			cost[f->chunk] = COST_AVOID;
	int rc = s->ops->plan(s, cost, out);
	if (rc == 0 && (*out)->cost >= COST_AVOID) {
		plan_close(*out);
		*out = NULL;
		return -ENODATA;
	}
	return rc;
}

static int hedge_start(struct stripe *s)
{
	struct plan *p = NULL;
	s->hedges++;
	int rc = plan_around(s, &p);
	if (rc == -ENODATA)
		return 0;
	if (rc == 0 && s->ops->admit != NULL)
		rc = s->ops->admit(s, &p, true);
	if (rc == 0)
		return plan_begin(s, p);
	plan_close(p);
	return rc == -EBUSY ? 0 : rc;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Waits until a fetch is done, or begins a hedge when it is time. */
static int change_wait(struct stripe *s)
{
	bool hedges = s->ops->hedge_at_ns != NULL && s->pending_count <= STRIPE_HEDGES_MAX;
	uint64_t at_ns = hedges ? s->ops->hedge_at_ns(s) : RT_NEVER;
	uint64_t before_ns = rt_deadline_narrow(at_ns);
	int rc = rt_cond_wait(&s->change);
	rt_deadline_set(before_ns);
	if (rc == -ETIME && rt_now_ns() >= at_ns && rt_now_ns() < before_ns)
		return hedge_start(s);
	return rc;
}

/* Returns whether a plan is complete, and moves it to s->plan. Closes plans that cannot
 * complete; *why is the error of the last one. */
static bool plan_complete(struct stripe *s, int *why)
{
	assert(s->plan == NULL);
	for (int i = 0; i < s->pending_count;) {
		struct plan *p = s->pending[i];
		bool complete;
		int rc = plan_progress(s, p, &complete);
		if (rc == 0 && !complete) {
			i++;
			continue;
		}
		memmove(&s->pending[i], &s->pending[i + 1],
			(size_t)(--s->pending_count - i) * sizeof(struct plan *));
		if (rc == 0) {
			s->plan = p;
			return true;
		}
		plan_close(p);
		*why = rc;
	}
	return false;
}

/* Sets *judged if a fetch had failed since the last call; the judge slot may have waited then. */
static int failures_judge(struct stripe *s, bool *judged)
{
	int rc = 0;
	*judged = false;
	for (struct stripe_fetch *f = s->fetches; rc == 0 && f != NULL; f = f->next) {
		if (f->judged || !f->done || f->rc == 0)
			continue;
		uint32_t cost = s->cost[f->chunk];
		f->judged = *judged = true;
		rc = s->ops->judge(s, f, &cost);
		if (s->cost[f->chunk] != CHUNK_LOST)
			s->cost[f->chunk] = cost;
	}
	return rc;
}

int stripe_gather(struct stripe *s)
{
	assert(s->plan == NULL && s->pending_count == 0);
	int replans = 0, why = 0;
	int rc = plan_next(s);
	while (rc == 0) {
		bool judged;
		if (plan_complete(s, &why))
			return 0;
		rc = failures_judge(s, &judged);
		/* Fetches may have ended while the judge slot waited: look again before waiting for them. */
		if (rc < 0 || judged)
			continue;
		if (s->pending_count > 0) {
			rc = change_wait(s);
			continue;
		}
		assert(why < 0);
		rc = replans++ == REPLANS_MAX ? why : plan_next(s);
	}
	return rc;
}
