// SPDX-License-Identifier: Apache-2.0
/*
 * Passes over all chunks of a pool. A rebuild first takes those that have lost p rows or more, then those
 * with fewer: the nearer a chunk is to loss, the sooner it is safe. A pass lists what the members have;
 * how many rows of a chunk went with members follows from its id, without asking anybody, so that a
 * rebuild reads of other chunks not even a head. Only when members are behind, or nothing else is known
 * to be missing, does a last pass look at every chunk. Some chunks are worked on at a time, side by side.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

#define PAGE_IDS 256
#define PARALLEL_MAX 1024
#define PUTS_WAIT_NS (10 * NS_PER_S)

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

/* What deletes and puts that were cut short have left, and deletes that members missed. */
static void remove_rubbish(struct pool *p, const struct pool_view *v)
{
	uint32_t left, were;

	if (pool_remove_copies(p, &v->map, v->id, &were) == 0)
		pool_remove_rows(p, &v->map, v->id, &left, &were);
}

/* Members that could not be brought level: they are behind, but that is no reason to be content. */
static int check_copies(struct pool *p, struct pool_view *v)
{
	int rc = pool_lookup(p, v->id, v);

	for (uint32_t c = 0; rc == 0 && v->form == POOL_COPIES && c <= p->record.shape.p; c++)
		if (v->map.member[c] != POOL_NOWHERE && !pool_copy_is_current(v, c))
			rc = -EIO;
	return rc;
}

/* Who is behind may have a copy left of a chunk that is coded, and will be believed again. */
static int remove_old_copies(struct pool *p, const struct pool_view *v)
{
	bool behind = false;
	uint32_t were;

	for (uint32_t c = 0; c <= p->record.shape.p; c++)
		behind = behind || pool_is_behind(&p->record, v->map.member[c]);
	return behind ? pool_remove_copies(p, &v->map, v->id, &were) : 0;
}

static void rebuild_chunk(struct rebuild *b, struct chunk_id id)
{
	struct pool *p = b->pool;
	struct pool_view v;
	uint32_t written = 0, missing = 0;
	int rc = pool_lookup(p, id, &v);

	if (rc == -ENOENT) {
		remove_rubbish(p, &v);
		return;
	}
	/* A chunk without bytes is all in the label of any row. */
	if (rc == -ENODATA && v.form == POOL_CODED && v.geo.len == 0)
		rc = 0;
	if (rc == -ENODATA) {
		b->progress->lost++;
		return;
	}
	for (uint32_t r = 0; rc == 0 && v.form == POOL_CODED && r < pool_width(p); r++)
		missing += v.row_rc[r] != 0;
	if (rc == 0 && (missing > 0 || v.form == POOL_COPIES))
		rc = pool_rebuild_missing(p, &v, &written);
	if (rc == 0 && v.form == POOL_COPIES)
		rc = check_copies(p, &v);
	if (rc == 0 && v.form == POOL_CODED)
		rc = remove_old_copies(p, &v);
	if (rc == 0 || rc == -ENODATA)
		pool_note_damaged(p, id, rc == -ENODATA);
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
	struct pool_chunk_lock hold;

	if (pool_lock_chunk(b->pool, &hold, one->id) != 0) {
		b->progress->failed++;
		return;
	}
	rt_shield_enter();
	rebuild_chunk(b, one->id);
	rt_shield_leave();
	pool_unlock_chunk(b->pool, &hold);
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

/* --- finding chunks ---------------------------------------------------------------------------- */

/* Rows that may be missing: sent elsewhere by events that are not settled, or on members that are down. */
static bool is_suspect(const struct pool *p, const struct pool_map *map, uint32_t row)
{
	return map->moved[row] || map->member[row] == POOL_NOWHERE ||
	       p->members[map->member[row]] == NULL;
}

/*
 * May the chunk have lost so many rows (more than p count as p + 1), and is it this member that is to name
 * it? One of those that should have a row does, drawn by the chunk's id. When it lacks its row, the chunk
 * is not found: it was never put as a whole, or members are behind and the last pass finds it.
 */
static bool suffers(const struct pool *p, struct chunk_id id, uint32_t row, uint32_t member,
		    uint32_t losses)
{
	struct pool_map map;
	uint32_t width = pool_width(p), beyond = p->record.shape.p + 1, n = 0, good = 0;
	uint16_t members[POOL_ROWS_MAX];

	pool_map_chunk(&p->place, &p->record, id, &map);
	for (uint32_t r = 0; r < width; r++) {
		bool suspect = is_suspect(p, &map, r);
		n += suspect;
		/* Copies are only where the first rows are. */
		if (!suspect && (row < POOL_ROWS_MAX || r < beyond))
			members[good++] = map.member[r];
	}
	if (good == 0 || losses != (n < beyond ? n : beyond))
		return false;
	return members[hash64_u64s(id.block, id.index) / 7 % good] == member;
}

#define LISTER_IDS 64

/*
 * Names chunks of one class, taking from all members in turn: what one member has all needs that member,
 * and the others would wait for it.
 */
struct lister {
	struct pool *pool;
	uint64_t *failed; /* members that could not be listed */
	uint32_t losses;
	uint32_t turn;
	uint32_t ended;
	struct lister_member {
		struct store_cursor at;
		struct chunk_id ids[LISTER_IDS];
		uint32_t n, next;
		bool ended;
	} members[];
};

/* The next names of a member, if it has any. */
static int lister_fill(struct lister *l, uint32_t member)
{
	struct lister_member *m = &l->members[member];

	m->n = 0;
	m->next = 0;
	while (m->n == 0 && !m->ended) {
		int64_t got = pool_member_list(l->pool, member, &m->at, m->ids, LISTER_IDS);
		if (got == -ECANCELED || got == -ETIME)
			return (int)got;
		/* One that cannot be listed is passed over, but then this was not all. */
		*l->failed += got < 0;
		m->ended = got <= 0;
		l->ended += m->ended;
		for (int64_t i = 0; i < got; i++) {
			struct chunk_id id = {.block = m->ids[i].block,
					      .index = m->ids[i].index >> 8};
			if (id.block <= POOL_BLOCK_MAX &&
			    suffers(l->pool, id, m->ids[i].index & 0xff, member, l->losses))
				m->ids[m->n++] = id;
		}
	}
	return 0;
}

/* 1 and the next chunk, 0 at the end. */
static int lister_next(struct lister *l, struct chunk_id *id)
{
	uint32_t members = l->pool->record.shape.members;

	while (l->ended < members) {
		struct lister_member *m = &l->members[l->turn];
		if (m->next == m->n && !m->ended) {
			int rc = lister_fill(l, l->turn);
			if (rc != 0)
				return rc;
		}
		l->turn = (l->turn + 1) % members;
		if (m->next < m->n) {
			*id = m->ids[m->next++];
			return 1;
		}
	}
	return 0;
}

/* Chunks that may have lost so many rows. */
static int rebuild_class(struct rebuild *b, uint32_t losses)
{
	uint32_t members = b->pool->record.shape.members;
	AUTO_FREE struct lister *l = calloc(1, sizeof(*l) + members * sizeof(struct lister_member));
	struct chunk_id id;
	struct rt_group g;
	int rc;

	if (l == NULL)
		return -ENOMEM;
	l->pool = b->pool;
	l->failed = &b->progress->failed;
	l->losses = losses;
	rt_group_init(&g);
	while ((rc = lister_next(l, &id)) > 0) {
		rc = rebuild_start(b, &g, id);
		if (rc != 0)
			break;
	}
	rt_group_join(&g);
	return rc;
}

/* 1 when there is a chunk with more losses than the code bears, 0 when there is none. */
static int any_lost(struct pool *p, uint64_t *failed)
{
	uint32_t members = p->record.shape.members;
	AUTO_FREE struct lister *l = calloc(1, sizeof(*l) + members * sizeof(struct lister_member));
	struct chunk_id id = {0};
	int rc;

	if (l == NULL)
		return -ENOMEM;
	l->pool = p;
	l->failed = failed;
	l->losses = p->record.shape.p + 1;
	while ((rc = lister_next(l, &id)) > 0) {
		struct pool_view v;
		rc = pool_lookup(p, id, &v);
		if (rc == -ENODATA && (v.form != POOL_CODED || v.geo.len > 0))
			return 1;
		if (rc == -ECANCELED || rc == -ETIME)
			return rc;
	}
	return rc;
}

/* All chunks there are. */
static int rebuild_all(struct rebuild *b)
{
	struct store_cursor at = {0};
	struct rt_group g;
	AUTO_FREE struct chunk_id *ids = calloc(PAGE_IDS, sizeof(*ids));
	int64_t n = 0;
	int rc = ids != NULL ? 0 : -ENOMEM;

	rt_group_init(&g);
	while (rc == 0 && (n = pool_page(b->pool, &at, ids, PAGE_IDS, &b->progress->failed)) > 0)
		for (int64_t i = 0; rc == 0 && i < n; i++)
			rc = rebuild_start(b, &g, ids[i]);
	rt_group_join(&g);
	return rc != 0 ? rc : (int)n;
}

/*
 * Removes what members have of chunks whose rows and copies have all come to be elsewhere: when an event
 * sends them there again, they would be taken for what they no longer are. What events sent elsewhere
 * that came after the first `events` is not there yet: nothing is removed any more.
 */
static int remove_left_behind(struct pool *p, uint32_t member, uint32_t events,
			      struct store_pool_progress *progress)
{
	struct store_cursor at = {0};
	AUTO_FREE struct chunk_id *ids = calloc(PAGE_IDS, sizeof(*ids));
	int64_t n;

	if (ids == NULL)
		return -ENOMEM;
	while ((n = pool_member_list(p, member, &at, ids, PAGE_IDS)) > 0) {
		for (int64_t i = 0; i < n; i++) {
			struct chunk_id id = {.block = ids[i].block, .index = ids[i].index >> 8};
			struct pool_map map;
			uint32_t row = ids[i].index % POOL_ROWS_MAX;
			if (p->record.event_count != events)
				return 0;
			if (id.block > POOL_BLOCK_MAX)
				continue;
			pool_map_chunk(&p->place, &p->record, id, &map);
			if (row >= pool_width(p) || map.member[row] == member)
				continue;
			struct pool_job j = {.pool = p,
					     .call = POOL_DELETE,
					     .member = (uint16_t)member,
					     .id = ids[i]};
			pool_jobs_run(&j, 1);
			progress->failed += j.rc != 0 && j.rc != -ENOENT;
		}
	}
	progress->failed += n < 0 && n != -ECANCELED && n != -ETIME;
	return n == -ECANCELED || n == -ETIME ? (int)n : 0;
}

void store_pool_set_pace(struct store *s,
			 int (*pace)(void *ctx, void (*work)(void *arg), void *arg), void *ctx)
{
	struct pool *p = pool_of(s);

	p->pace = pace;
	p->pace_ctx = ctx;
}

void store_pool_set_external_repair(struct store *s, bool outside)
{
	pool_of(s)->outside = outside;
}

/* Are there members whose rows went elsewhere, or that are down? */
static bool rows_are_suspect(const struct pool *p)
{
	bool down = false;

	for (uint32_t m = 0; m < p->record.shape.members; m++)
		down = down || p->members[m] == NULL;
	return down || p->record.settled < p->record.event_count;
}

/*
 * A chunk that is put where its rows belonged before an event may not be there yet to be listed. For one
 * that takes long the others do not wait, but then this was not all.
 */
static void await_puts(struct pool *p, struct store_pool_progress *progress)
{
	uint64_t before_ns = rt_deadline_narrow(rt_now_ns() + PUTS_WAIT_NS);

	progress->failed += pool_wait_for_locked(p) != 0;
	rt_deadline_set(before_ns);
}

int store_pool_rebuild(struct store *s, uint32_t parallel, struct store_pool_progress *out)
{
	struct pool *p = pool_of(s);
	struct rebuild b = {.pool = p, .progress = out, .parallel = parallel};
	uint32_t events = p->record.event_count;
	AUTO_FREE uint32_t *missed = malloc(sizeof(p->missed));

	memset(out, 0, sizeof(*out));
	if (missed == NULL)
		return -ENOMEM;
	memcpy(missed, p->missed, sizeof(p->missed));
	if (parallel == 0 || parallel > PARALLEL_MAX)
		return -EINVAL;
	if (p->admin_state == STORE_FAILED)
		return -EIO;
	rt_cond_init(&b.idle);
	if (p->record.settled < events)
		await_puts(p, out);
	int rc = 0;
	bool suspects = rows_are_suspect(p);
	if (suspects && p->outside) {
		rc = any_lost(p, &out->failed);
		if (rc == 1)
			out->lost = 1;
		if (rc != 0)
			return rc < 0 ? rc : -ENODATA;
	}
	for (uint32_t n = p->record.shape.p + 1; suspects && rc == 0 && n > 0; n--)
		rc = rebuild_class(&b, n);
	if (rc == 0 && (!suspects || store_pool_behind_count(s) > 0 || pool_any_due(&p->record))) {
		out->lost = 0; /* it meets them again */
		rc = rebuild_all(&b);
	}
	bool moved = p->record.settled < p->record.event_count;
	for (uint32_t m = 0; moved && m < p->record.shape.members; m++)
		if (rc == 0 && out->lost == 0 && out->failed == 0)
			rc = remove_left_behind(p, m, events, out);
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
	return pool_record_rebuilt(p, events, missed);
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
	l->need = l->lost_rows > v->geo.p ? l->lost_rows - v->geo.p : 0;
}

/* The stripes of a chunk that lost more than so many rows, in runs; runs beyond the room are joined, as if all
 * of it were lost. */
static size_t chunk_losses(const struct pool_view *v, const struct pool_damage *d, uint32_t borne,
			   struct store_pool_loss *out)
{
	size_t n = 0;

	for (uint64_t s = 0; s < d->stripes; s++) {
		struct store_pool_loss l;
		loss_fill(&l, v, d, s);
		if (l.lost_rows <= borne)
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
			last->need = last->lost_rows > v->geo.p ? last->lost_rows - v->geo.p : 0;
		}
	}
	return n;
}

/* Only what lacks rows is read, and of that only what may be lost because others are rotten. */
static int64_t losses_of(struct pool *p, struct chunk_id id, bool all, struct store_pool_loss *out)
{
	struct pool_view v;
	struct pool_damage d = {0};
	int rc = pool_lookup(p, id, &v);
	int64_t n = 0;

	if (rc == -ENOENT || (rc == 0 && v.form == POOL_COPIES))
		return 0;
	if (rc == -ENODATA && v.form == POOL_COPIES) {
		out[0] = (struct store_pool_loss){.id = id, .open = true};
		return 1;
	}
	if (rc != 0 && rc != -ENODATA)
		return rc;
	if (rc == 0 && v.present == pool_width(p))
		return 0;
	/* Where rot decides nothing any more, it is found when the chunk is patched. Where it would, a rebuild that is
	 * due finds it, and notes it: nothing is read twice. */
	bool decided = all || v.present + p->record.shape.p < pool_width(p) ||
		       (p->record.settled < p->record.event_count && !pool_may_be_damaged(p, id));
	rc = decided ? pool_missing(p, &v, &d) : pool_inspect(p, &v, &d);
	if (rc == 0 && (all ? d.any : d.lost))
		n = (int64_t)chunk_losses(&v, &d, all ? 0 : p->record.shape.p, out);
	pool_damage_free(&d);
	return rc != 0 ? rc : n;
}

/* A chunk of a page; those of a page are looked at side by side. */
struct loss_look {
	struct pool *pool;
	struct chunk_id id;
	bool all;
	struct store_pool_loss *out;
	int64_t found;
};

static void loss_look(void *arg)
{
	struct loss_look *l = arg;
	l->found = losses_of(l->pool, l->id, l->all, l->out);
}

static int64_t losses_page(struct pool *p, struct store_cursor *at, bool all,
			   struct loss_look *looks, size_t n, struct store_pool_loss *out)
{
	struct rt_group g;
	int64_t count = 0;

	rt_group_init(&g);
	for (size_t i = 0; i < n; i++) {
		looks[i].pool = p;
		looks[i].all = all;
		looks[i].out = out + i * POOL_CHUNK_LOSSES_MAX;
		if (rt_group_spawn(&g, "losses", loss_look, &looks[i]) != 0)
			loss_look(&looks[i]);
	}
	rt_group_join(&g);
	for (size_t i = 0; i < n; i++) {
		int64_t found = looks[i].found;
		if (found == -ECANCELED || found == -ETIME || found == -ENOMEM)
			return found;
		/* What cannot be told now is not passed over in silence. */
		if (found < 0)
			pool_page_set_incomplete(p, at);
		for (int64_t k = 0; k < found; k++)
			out[count++] = looks[i].out[k];
	}
	return count;
}

static int64_t losses_list(struct store *s, struct store_cursor *at, bool all,
			   struct store_pool_loss *out, size_t max)
{
	struct pool *p = pool_of(s);
	size_t chunks = max / POOL_CHUNK_LOSSES_MAX;
	int64_t count = 0;

	if (max < POOL_CHUNK_LOSSES_MAX)
		return -EINVAL;
	if (p->admin_state == STORE_FAILED)
		return -EIO;
	if (chunks > PAGE_IDS)
		chunks = PAGE_IDS;
	AUTO_FREE struct chunk_id *ids = calloc(chunks, sizeof(*ids));
	AUTO_FREE struct loss_look *looks = calloc(chunks, sizeof(*looks));
	if (ids == NULL || looks == NULL)
		return -ENOMEM;
	while (count == 0) {
		int64_t n = pool_page(p, at, ids, chunks, NULL);
		if (n <= 0)
			return n;
		for (int64_t i = 0; i < n; i++)
			looks[i].id = ids[i];
		count = losses_page(p, at, all, looks, (size_t)n, out);
	}
	return count;
}

int64_t store_pool_losses(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			  size_t max)
{
	return losses_list(s, at, false, out, max);
}

int64_t store_pool_failures(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			    size_t max)
{
	return losses_list(s, at, true, out, max);
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
