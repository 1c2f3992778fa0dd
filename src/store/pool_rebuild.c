// SPDX-License-Identifier: Apache-2.0
/*
 * Passes over all chunks of a pool. A rebuild first takes those that have lost p rows, then those with
 * fewer: the nearer a chunk is to loss, the sooner it is safe. A pass lists what the members have; how
 * many rows of a chunk are missing follows from its members, without asking them, so passes over
 * chunks of other classes are cheap. Some chunks are worked on at a time, side by side.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

#define PAGE_IDS 256
#define PARALLEL_MAX 1024

struct rebuild {
	struct pool *pool;
	struct store_pool_progress *progress;
	struct rt_cond idle;
	uint32_t working;
	uint32_t parallel;
};

/* A chunk that a fiber works on. */
struct rebuild_one {
	struct rebuild *b;
	struct chunk_id id;
};

/* Rows that may be missing: sent elsewhere by events that are not settled, or on members that are down. */
static uint32_t suspects(const struct pool *p, struct chunk_id id)
{
	struct pool_map map;
	uint32_t n = 0;

	pool_map_chunk(&p->place, &p->record, id, &map);
	for (uint32_t r = 0; r < pool_width(p); r++)
		n += map.moved[r] || map.member[r] == POOL_NOWHERE ||
		     p->members[map.member[r]] == NULL;
	return n;
}

static void rebuild_chunk(struct rebuild *b, struct chunk_id id)
{
	struct pool *p = b->pool;
	struct pool_view v;
	uint32_t written = 0, missing = 0;
	int rc = pool_look(p, id, &v);

	if (rc == -ENOENT)
		return;
	/* A chunk without bytes is all in the label of any row. */
	if (rc == -ENODATA && v.geo.len == 0)
		rc = 0;
	if (rc == -ENODATA) {
		b->progress->lost++;
		return;
	}
	for (uint32_t r = 0; rc == 0 && v.form == POOL_CODED && r < pool_width(p); r++)
		missing += v.row_rc[r] != 0;
	if (rc == 0 && (missing > 0 || (v.form == POOL_COPIES && pool_is_incomplete(p, &v)) ||
			(v.form == POOL_COPIES && v.copies_unknown > 0)))
		rc = pool_complete(p, &v, &written);
	b->progress->rebuilt += written;
	b->progress->bytes += written * v.geo.row_len;
	if (rc == -ENODATA)
		b->progress->lost++;
	else if (rc != 0)
		b->progress->failed += missing > written ? missing - written : 1;
}

static void rebuild_work(void *arg)
{
	struct rebuild_one *one = arg;
	struct rebuild *b = one->b;
	struct pool_hold hold;

	if (pool_hold(b->pool, &hold, one->id) != 0) {
		b->progress->failed++;
		return;
	}
	rt_shield_enter();
	rebuild_chunk(b, one->id);
	rt_shield_leave();
	pool_release(b->pool, &hold);
}

static void rebuild_fiber(void *arg)
{
	struct rebuild_one *one = arg;
	struct rebuild *b = one->b;
	struct pool *p = b->pool;

	if (p->pace == NULL)
		rebuild_work(one);
	else if (p->pace(p->pace_ctx, rebuild_work, one) != 0)
		b->progress->failed++;
	free(one);
	b->working--;
	rt_cond_signal(&b->idle);
}

/* Starts work on a chunk as soon as there is room for one more. */
static int rebuild_start(struct rebuild *b, struct rt_group *g, struct chunk_id id)
{
	while (b->working >= b->parallel) {
		int rc = rt_cond_wait(&b->idle);
		if (rc != 0)
			return rc;
	}
	struct rebuild_one *one = malloc(sizeof(*one));
	if (one == NULL)
		return -ENOMEM;
	*one = (struct rebuild_one){.b = b, .id = id};
	b->working++;
	b->progress->chunks++;
	if (rt_group_spawn(g, "rebuild", rebuild_fiber, one) != 0)
		rebuild_fiber(one);
	return 0;
}

/* Which pass a chunk belongs to: by its losses, those beyond p first of all, whole ones in the last. */
static uint32_t pass_of(const struct pool *p, struct chunk_id id)
{
	uint32_t n = suspects(p, id);

	return n > p->record.shape.p ? p->record.shape.p + 1 : n == 0 ? 1 : n;
}

static int rebuild_pass(struct rebuild *b, uint32_t pass)
{
	struct store_cursor at = {0};
	struct rt_group g;
	AUTO_FREE struct chunk_id *ids = calloc(PAGE_IDS, sizeof(*ids));
	int64_t n = 0;
	int rc = ids != NULL ? 0 : -ENOMEM;

	rt_group_init(&g);
	while (rc == 0 && (n = pool_page(b->pool, &at, ids, PAGE_IDS)) > 0) {
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			if (pass_of(b->pool, ids[i]) == pass)
				rc = rebuild_start(b, &g, ids[i]);
		}
	}
	rt_group_join(&g);
	return rc != 0 ? rc : (int)n;
}

void store_pool_pace(struct store *s, int (*pace)(void *ctx, void (*work)(void *arg), void *arg),
		     void *ctx)
{
	struct pool *p = pool_of(s);

	p->pace = pace;
	p->pace_ctx = ctx;
}

int store_pool_rebuild(struct store *s, uint32_t parallel, struct store_pool_progress *out)
{
	struct pool *p = pool_of(s);
	struct rebuild b = {.pool = p, .progress = out, .parallel = parallel};
	uint32_t events = p->record.event_count;

	memset(out, 0, sizeof(*out));
	if (parallel == 0 || parallel > PARALLEL_MAX)
		return -EINVAL;
	if (p->wanted == STORE_FAILED)
		return -EIO;
	rt_cond_init(&b.idle);
	int rc = 0;
	for (uint32_t pass = p->record.shape.p + 1; rc == 0 && pass > 0; pass--)
		rc = rebuild_pass(&b, pass);
	if (rc != 0)
		return rc;
	log_info("pool_rebuilt",
		 "pool=%" PRIu64 " chunks=%" PRIu64 " rows=%" PRIu64 " failed=%" PRIu64
		 " lost=%" PRIu64,
		 p->record.shape.id, out->chunks, out->rebuilt, out->failed, out->lost);
	if (out->lost > 0)
		return -ENODATA;
	if (out->failed > 0)
		return -EIO;
	return pool_rebuilt(p, events);
}

/* --- losses ----------------------------------------------------------------------------------- */

static void loss_fill(struct store_pool_loss *l, const struct pool_view *v,
		      const struct pool_damage *d, uint64_t stripe)
{
	*l = (struct store_pool_loss){
		.id = v->id,
		.chunk_len = v->geo.len,
		.first_stripe = stripe,
		.stripes = 1,
		.k = v->geo.k,
		.piece_bytes = (uint32_t)v->geo.piece,
	};
	for (uint32_t r = 0; r < d->width; r++) {
		if (d->bad[stripe * d->width + r] == 0)
			continue;
		l->lost[r / 32] |= UINT32_C(1) << (r % 32);
		l->lost_rows++;
	}
	l->need = l->lost_rows - v->geo.p;
}

/* The lost stripes of a chunk in runs; runs beyond the room are joined, as if all of it were lost. */
static size_t chunk_losses(const struct pool_view *v, const struct pool_damage *d,
			   struct store_pool_loss *out)
{
	size_t n = 0;

	for (uint64_t s = 0; s < d->stripes; s++) {
		struct store_pool_loss l;
		loss_fill(&l, v, d, s);
		if (l.lost_rows <= v->geo.p)
			continue;
		struct store_pool_loss *last = n > 0 ? &out[n - 1] : NULL;
		bool joins = last != NULL && last->first_stripe + last->stripes == s &&
			     memcmp(last->lost, l.lost, sizeof(l.lost)) == 0;
		if (joins) {
			last->stripes++;
		} else if (n < POOL_CHUNK_LOSSES_MAX) {
			out[n++] = l;
		} else {
			last->stripes = s - last->first_stripe + 1;
			last->lost_rows = 0;
			for (uint32_t r = 0; r < d->width; r++) {
				last->lost[r / 32] |= l.lost[r / 32] & UINT32_C(1) << (r % 32);
				last->lost_rows += last->lost[r / 32] >> (r % 32) & 1U;
			}
			last->need = last->lost_rows - v->geo.p;
		}
	}
	return n;
}

/* Only what is not whole is read. */
static int64_t losses_of(struct pool *p, struct chunk_id id, struct store_pool_loss *out)
{
	struct pool_view v;
	struct pool_damage d = {0};
	int rc = pool_look(p, id, &v);
	int64_t n = 0;

	if (rc == -ENOENT || (rc == 0 && v.form == POOL_COPIES))
		return 0;
	if (rc != 0 && rc != -ENODATA)
		return rc == -ECANCELED || rc == -ETIME ? rc : 0;
	if (rc == 0 && v.present == pool_width(p))
		return 0;
	rc = pool_inspect(p, &v, &d);
	if (rc == 0 && d.lost)
		n = (int64_t)chunk_losses(&v, &d, out);
	pool_damage_free(&d);
	return rc != 0 ? rc : n;
}

int64_t store_pool_losses(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			  size_t max)
{
	struct pool *p = pool_of(s);
	size_t chunks = max / POOL_CHUNK_LOSSES_MAX;
	int64_t count = 0;

	if (max < POOL_CHUNK_LOSSES_MAX)
		return -EINVAL;
	if (p->wanted == STORE_FAILED)
		return -EIO;
	if (chunks > PAGE_IDS)
		chunks = PAGE_IDS;
	AUTO_FREE struct chunk_id *ids = calloc(chunks, sizeof(*ids));
	if (ids == NULL)
		return -ENOMEM;
	while (count == 0) {
		int64_t n = pool_page(p, at, ids, chunks);
		if (n <= 0)
			return n;
		for (int64_t i = 0; i < n; i++) {
			int64_t found = losses_of(p, ids[i], out + count);
			if (found < 0)
				return found;
			count += found;
		}
	}
	return count;
}

struct store_range store_pool_piece(const struct store_pool_loss *loss, uint64_t stripe,
				    uint32_t row)
{
	struct pool_geo g;

	pool_geo_init(&g, loss->k, 0, loss->piece_bytes, loss->chunk_len);
	if (stripe >= g.stripes || row >= g.k)
		return (struct store_range){0};
	return pool_geo_bytes(&g, stripe, row);
}
