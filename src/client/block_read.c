// SPDX-License-Identifier: Apache-2.0
#include "client/block_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/err.h"
#include "client/decode.h"
#include "code/plan.h"

#define COST_PASSING 20000u /* it failed a moment ago */
#define COST_AVOID 1000000u /* there, but only when nothing else will do */
#define COST_JITTER 16u
#define BUDGET_WAIT_NS (5 * NS_PER_S)
#define REPLANS_MAX 64
#define HEDGES_MAX 4
#define PASSING_MAX 3 /* failures that may pass, after which a chunk counts as lost */
#define PASSING_PAUSE_NS (20 * NS_PER_MS)

struct reading {
	struct call *call;
	const struct block_at *b;
	const struct codec *codec;
	uint64_t off, len;
	uint64_t chunk_len;
	uint32_t *cost;        /* of each chunk */
	struct fetch *fetches; /* linked, newest first */
	struct rt_group fibers;
	struct rt_cond change;
	struct plan *plan;                  /* what to decode by, when it is all here */
	struct plan *tried[HEDGES_MAX + 1]; /* under way, the oldest first */
	int tried_count;
	int hedges;             /* begun since the last plan that was no hedge */
	uint64_t newest_ns;     /* when the newest of them began */
	uint8_t *failures;      /* of each chunk, that may pass */
	uint64_t read_bytes;    /* held at the gate of reads */
	uint64_t rebuild_bytes; /* held at the gate of rebuilds */
	struct block_news *news;
	int last_rc;
	uint64_t last_disk;
};

/* Another copy is not a rebuild, though the planner makes a step of it. */
static bool plan_computes(const struct reading *r, const struct plan *p)
{
	return p->n_steps > 0 && !r->b->shape.copies;
}

/* Memory for what a plan fetches beside the range itself, and for what it computes. */
static uint64_t plan_bytes(const struct reading *r, const struct plan *p)
{
	return (uint64_t)(r->b->shape.k + 1) * p->len;
}

/* --- fetching --------------------------------------------------------------------------------- */

static void fetch_note(struct reading *r, struct fetch *f, uint64_t disk)
{
	r->last_rc = f->rc;
	r->last_disk = disk;
	if (f->rc == -ENOENT || f->rc == -ENODEV)
		r->news->stale = true;
	if (disk_error_is_absence(f->rc))
		r->news->absent = true;
	bool bad = f->rc == -EBADMSG || f->rc == -ENOENT || f->rc == -ERANGE || f->rc == -ENODATA;
	if (!bad)
		return;
	r->call->fabric->stats.bad_chunks++;
	if (r->news->bad_count < BLOCK_BAD_MAX) {
		int i = r->news->bad_count++;
		r->news->bad[i].chunk = f->chunk;
		r->news->bad[i].disk = disk;
		r->news->bad[i].rc = f->rc;
	}
}

static void fetch_fiber(void *arg)
{
	struct fetch *f = arg;
	struct reading *r = f->owner;
	struct fabric *fab = r->call->fabric;
	uint64_t disk = r->b->disks[f->chunk];
	struct disk_use u;
	f->rc = disk_begin(r->call, disk, &u);
	if (f->rc == 0) {
		struct chunk_id id = {r->b->chunk_block, (uint32_t)f->chunk};
		u.node.timeout_ns = fab->opts.chunk_timeout_ns;
		fab->stats.chunk_reads++;
		f->rc = node_get_one(&u.node, disk, id, f->off, f->len, NULL, &f->got);
		if (f->rc == 0 && (f->got.buf == NULL || f->got.len != f->len))
			f->rc = -EPROTO;
		disk_end(r->call, &u, f->rc, f->rc == 0 ? f->len : 0);
	}
	if (f->rc == 0)
		fabric_tamper(fab, TAMPER_RECEIVED, f->got.buf->data + f->got.offset, f->len);
	else if (f->rc != -ECANCELED)
		fetch_note(r, f, disk);
	f->done = true;
	rt_cond_broadcast(&r->change);
}

static int fetch_start(struct reading *r, int chunk, uint64_t off, uint64_t len)
{
	struct fetch *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	*f = (struct fetch){.owner = r,
			    .chunk = chunk,
			    .off = off,
			    .len = len,
			    .start_ns = rt_now_ns(),
			    .next = r->fetches};
	r->fetches = f;
	if (len == 0) {
		f->done = true;
		return 0;
	}
	int rc = rt_group_spawn(&r->fibers, "fetch", fetch_fiber, f);
	if (rc < 0) {
		f->done = true;
		f->rc = rc;
	}
	return rc;
}

/* --- plans ------------------------------------------------------------------------------------ */

static struct plan_read plan_part(const struct reading *r, const struct plan *p, int i)
{
	/* Copies are whole whatever the planner thinks of short chunks. */
	return r->b->shape.copies ? p->reads[i] : plan_read_within(p, i, r->b->len);
}

static int plan_fetch(struct reading *r, const struct plan *p)
{
	int rc = 0;
	for (int i = 0; rc == 0 && i < p->n_reads; i++) {
		struct plan_read part = plan_part(r, p, i);
		const struct fetch *f = fetch_find(r->fetches, part.chunk, part.off, part.len);
		if (f == NULL || (f->done && f->rc < 0))
			rc = fetch_start(r, part.chunk, part.off, part.len);
	}
	return rc;
}

/* 1: all is here; 0: not yet; else why it will not be. */
static int plan_progress(const struct reading *r, const struct plan *p)
{
	bool all = true;
	for (int i = 0; i < p->n_reads; i++) {
		struct plan_read part = plan_part(r, p, i);
		const struct fetch *f = fetch_find(r->fetches, part.chunk, part.off, part.len);
		if (f != NULL && f->done && f->rc < 0)
			return f->rc;
		all = all && f != NULL && f->done;
	}
	return all ? 1 : 0;
}

static int plan_make(struct reading *r, const uint32_t *cost, struct plan **out)
{
	return plan_range(r->codec, r->chunk_len, cost, r->off, r->len, out);
}

/* A disk that is busy or away now may be back in a moment. */
static bool failure_may_pass(int rc)
{
	return rc == -EAGAIN || rc == -EDQUOT || rc == -ETIME || disk_error_is_absence(rc);
}

/*
 * What failed fetches say about their chunks. One that may pass makes the chunk dear, so that
 * another way is taken if there is one to be had; one that will not, or too many of them, mean that
 * it is lost.
 */
static void plan_learn(struct reading *r)
{
	for (struct fetch *f = r->fetches; f != NULL; f = f->next) {
		if (f->known || !f->done || f->rc >= 0 || f->rc == -ECANCELED)
			continue;
		f->known = true;
		bool passes = failure_may_pass(f->rc) && ++r->failures[f->chunk] < PASSING_MAX;
		if (r->cost[f->chunk] != CHUNK_LOST)
			r->cost[f->chunk] = passes ? COST_PASSING : CHUNK_LOST;
	}
}

/* What a hedge reads around: whatever of the plan has not come. */
static int plan_around(struct reading *r, struct plan **out)
{
	AUTO_FREE uint32_t *cost = malloc((size_t)r->b->shape.n * sizeof(*cost));
	if (cost == NULL)
		return -ENOMEM;
	memcpy(cost, r->cost, (size_t)r->b->shape.n * sizeof(*cost));
	for (const struct fetch *f = r->fetches; f != NULL; f = f->next)
		if (!f->done && cost[f->chunk] != CHUNK_LOST)
			cost[f->chunk] = COST_AVOID;
	int rc = plan_make(r, cost, out);
	if (rc == 0 && (*out)->cost >= COST_AVOID) {
		plan_close(*out);
		*out = NULL;
		return -ENODATA; /* there is no way around */
	}
	return rc;
}

static int rebuild_enter(struct reading *r, const struct plan *p)
{
	uint64_t bytes = plan_bytes(r, p);
	if (r->rebuild_bytes > 0)
		return 0; /* room for one plan is enough: the next one uses what this one fetched */
	int rc = gate_enter(&r->call->fabric->rebuilds, bytes);
	if (rc == 0)
		r->rebuild_bytes = bytes;
	return rc;
}

/* Whether a hedge that computes may go ahead: it never waits. */
static bool hedge_afford(struct reading *r, const struct plan *p)
{
	struct fabric *f = r->call->fabric;
	if (!plan_computes(r, p))
		return true;
	if (r->rebuild_bytes == 0) {
		if (!gate_try(&f->rebuilds, plan_bytes(r, p)))
			return false;
		r->rebuild_bytes = plan_bytes(r, p);
	}
	return budget_try(&f->budget);
}

/* Without budget: chunks that failed in passing are tried again, after a pause, as long as that
 * helps. */
static int plan_direct(struct reading *r, struct plan **p)
{
	AUTO_FREE uint32_t *cost = malloc((size_t)r->b->shape.n * sizeof(*cost));
	if (cost == NULL)
		return -ENOMEM;
	int failures = 0;
	for (int i = 0; i < r->b->shape.n; i++) {
		cost[i] = r->cost[i] == CHUNK_LOST ? CHUNK_LOST : 1;
		failures = r->failures[i] > failures ? r->failures[i] : failures;
	}
	struct plan *direct = NULL;
	int rc = plan_make(r, cost, &direct);
	if (rc < 0 || direct->n_steps > 0) {
		plan_close(direct);
		return -ENODATA;
	}
	plan_close(*p);
	*p = direct;
	return failures == 0 ? 0 : rt_sleep_ns(PASSING_PAUSE_NS << failures);
}

/* A plan that computes costs budget. Without any, a chunk that may be there is tried first. */
static int plan_afford(struct reading *r, struct plan **p)
{
	struct budget *b = &r->call->fabric->budget;
	if (!plan_computes(r, *p))
		return 0;
	if (budget_try(b))
		return rebuild_enter(r, *p);
	int rc = plan_direct(r, p);
	if (rc != -ENODATA)
		return rc;
	rc = budget_take(b, BUDGET_WAIT_NS);
	if (rc == -EBUSY) {
		r->call->fabric->stats.refused_rebuilds++;
		call_fail(r->call, rc,
			  "too many reads have to be rebuilt from other chunks: "
			  "disks are down or overloaded, try again later");
	}
	return rc < 0 ? rc : rebuild_enter(r, *p);
}

static int plan_begin(struct reading *r, struct plan *p)
{
	r->tried[r->tried_count++] = p;
	r->newest_ns = rt_now_ns();
	return plan_fetch(r, p);
}

/* The plan that what is known asks for. */
static int plan_first(struct reading *r)
{
	struct plan *p = NULL;
	r->hedges = 0;
	int rc = plan_make(r, r->cost, &p);
	if (rc == 0)
		rc = plan_afford(r, &p);
	if (rc == 0)
		return plan_begin(r, p);
	plan_close(p);
	if (rc == -ENODATA)
		return call_fail(r->call, rc,
				 "block %016llx: too few of its chunks can be read; disk %llu: %s",
				 (unsigned long long)r->b->block, (unsigned long long)r->last_disk,
				 r->last_rc == 0 ? "not in the map" : err_text(r->last_rc));
	return rc;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* When the newest plan counts as slow, and another may be tried beside it. */
static uint64_t hedge_at_ns(const struct reading *r)
{
	int width = r->call->hedge == 0 ? 1 : r->call->hedge;
	if (r->call->hedge == UINT16_MAX || r->hedges >= width || r->tried_count > HEDGES_MAX)
		return RT_NEVER;
	uint64_t slow_ns = r->call->hedge_ns;
	for (const struct fetch *f = r->fetches; f != NULL && r->call->hedge_ns == 0; f = f->next)
		if (!f->done && f->start_ns >= r->newest_ns)
			slow_ns = max_u64(slow_ns, pace_slow_ns(&r->call->fabric->pace, f->len));
	return slow_ns == 0 ? RT_NEVER : r->newest_ns + slow_ns;
}

static int hedge_start(struct reading *r)
{
	r->hedges++;
	struct plan *p = NULL;
	int rc = plan_around(r, &p);
	if (rc == -ENODATA)
		return 0;
	if (rc < 0)
		return rc;
	if (!hedge_afford(r, p)) {
		r->call->fabric->stats.refused_rebuilds++;
		plan_close(p);
		return 0;
	}
	r->call->fabric->stats.hedged_reads++;
	return plan_begin(r, p);
}

/* Until something has happened, or the newest plan has become slow. */
static int reading_wait(struct reading *r)
{
	uint64_t at_ns = hedge_at_ns(r);
	uint64_t before_ns = rt_deadline_narrow(at_ns);
	int rc = rt_cond_wait(&r->change);
	rt_deadline_set(before_ns);
	if (rc == -ETIME && rt_now_ns() >= at_ns && rt_now_ns() < before_ns)
		return hedge_start(r);
	return rc;
}

/* Whether one of the plans is complete (1, then it is r->plan). Those that cannot be are
 * dropped. */
static int reading_look(struct reading *r, int *why)
{
	for (int i = 0; i < r->tried_count;) {
		struct plan *p = r->tried[i];
		int rc = plan_progress(r, p);
		if (rc == 0) {
			i++;
			continue;
		}
		memmove(&r->tried[i], &r->tried[i + 1],
			(size_t)(--r->tried_count - i) * sizeof(struct plan *));
		if (rc == 1) {
			r->plan = p;
			return 1;
		}
		plan_close(p);
		*why = rc;
	}
	return 0;
}

/* Returns with a complete plan in r->plan, or an error. */
static int reading_run(struct reading *r)
{
	int rc = plan_first(r);
	int replans = 0;
	while (rc == 0) {
		int why = 0;
		if (reading_look(r, &why) == 1)
			return 0;
		plan_learn(r);
		if (r->tried_count > 0) {
			rc = reading_wait(r);
			continue;
		}
		if (why == -ECANCELED || replans++ == REPLANS_MAX)
			return why;
		rc = plan_first(r);
	}
	return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int reading_init(struct reading *r, struct call *c, const struct block_at *b,
			const bool *avoid)
{
	rt_group_init(&r->fibers);
	rt_cond_init(&r->change);
	r->chunk_len = shape_chunk_len(&b->shape, b->len);
	int rc = codecs_get(&c->fabric->codecs, &b->shape, &r->codec);
	if (rc < 0)
		return rc;
	r->cost = calloc((size_t)b->shape.n, sizeof(*r->cost));
	r->failures = calloc((size_t)b->shape.n, sizeof(*r->failures));
	if (r->cost == NULL || r->failures == NULL)
		return -ENOMEM;
	rc = gate_enter(&c->fabric->reads, r->len);
	if (rc < 0)
		return rc;
	r->read_bytes = r->len;
	for (int i = 0; i < b->shape.n; i++) {
		bool bad = b->disks[i] == 0 || (avoid != NULL && avoid[i]);
		r->cost[i] = bad ? CHUNK_LOST : disk_cost(c->fabric, b->disks[i]);
		/* Copies are all the same: readers should not all go to the first one. */
		if (b->shape.copies && r->cost[i] != CHUNK_LOST)
			r->cost[i] += (uint32_t)(rt_random_u64() % COST_JITTER);
	}
	return 0;
}

static void reading_fini(struct reading *r)
{
	rt_group_cancel(&r->fibers);
	rt_group_join(&r->fibers);
	while (r->fetches != NULL) {
		struct fetch *f = r->fetches;
		r->fetches = f->next;
		buf_unref(f->got.buf);
		free(f);
	}
	plan_close(r->plan);
	for (int i = 0; i < r->tried_count; i++)
		plan_close(r->tried[i]);
	free(r->cost);
	free(r->failures);
	if (!bug_planted(BUG_GATE_LEAK))
		gate_leave(&r->call->fabric->rebuilds, r->rebuild_bytes);
	gate_leave(&r->call->fabric->reads, r->read_bytes);
}

int stripe_read(struct call *c, const struct block_at *b, uint64_t off, uint64_t len,
		const struct sink *sink, const bool *avoid, uint32_t *crc, struct block_news *news)
{
	struct reading r = {.call = c, .b = b, .off = off, .len = len, .news = news};
	*news = (struct block_news){0};
	int rc = reading_init(&r, c, b, avoid);
	if (rc == 0)
		rc = reading_run(&r);
	if (rc == 0) {
		struct decode d = {
			.call = c,
			.b = b,
			.plan = r.plan,
			.fetches = r.fetches,
			.off = off,
			.len = len,
			.sink = sink,
		};
		rc = decode_run(&d, crc);
		if (plan_computes(&r, r.plan))
			c->fabric->stats.rebuilt_reads++;
		else
			budget_earn(&c->fabric->budget);
	}
	reading_fini(&r);
	return rc;
}
