// SPDX-License-Identifier: Apache-2.0
/*
 * Passes over all chunks of a pool. A rebuild handles chunks in classes by the number of rows that
 * may be missing, highest first, so that the chunks closest to loss are rebuilt first. A pass lists
 * the rows of the members. Which rows of a chunk may be missing follows from its id and the pool
 * record alone, so chunks that lack no row are not read at all. A last pass looks up every chunk,
 * but only when members are behind or due, or when the record explains no missing rows. `parallel`
 * chunks are rebuilt at the same time.
 */
#include <assert.h>
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

/* State of the rebuild of one chunk by a fiber. */
struct rebuild_one {
	struct rebuild *b;
	struct chunk_id id;
};

/*
 * Deletes the rows and copies of a chunk that does not exist: unfinished deletes and puts left
 * them, or their members missed a delete.
 */
static void remove_garbage(struct pool *p, const struct pool_view *v)
{
	uint32_t left, removed;

	if (pool_remove_copies(p, &v->map, v->id, &removed) == 0)
		pool_remove_rows(p, &v->map, v->id, &left, &removed);
}

/*
 * Returns -EIO if a copy is not up to date. Its member is recorded as behind, but the rebuild is
 * not complete.
 */
static int check_copies(struct pool *p, struct pool_view *v)
{
	int rc = pool_lookup(p, v->id, v);

	for (uint32_t c = 0; rc == 0 && v->form == POOL_COPIES && c <= p->record.shape.p; c++)
		if (v->map.member[c] != POOL_NOWHERE && !pool_copy_is_current(v, c))
			rc = -EIO;
	return rc;
}

/*
 * Deletes the copies of a coded chunk from members that are behind and missed that the chunk was
 * coded. This must happen before the members become authoritative again.
 */
static int remove_old_copies(struct pool *p, const struct pool_view *v)
{
	bool behind = false;
	uint32_t removed;

	for (uint32_t c = 0; c <= p->record.shape.p; c++)
		behind = behind || pool_is_behind(&p->record, v->map.member[c]);
	return behind ? pool_remove_copies(p, &v->map, v->id, &removed) : 0;
}

static void rebuild_chunk(struct rebuild *b, struct chunk_id id)
{
	struct pool *p = b->pool;
	struct pool_view v;
	uint32_t written = 0, missing = 0;
	int rc = pool_lookup(p, id, &v);

	if (rc == -ENOENT) {
		remove_garbage(p, &v);
		return;
	}
	/*
	 * The label of any one row describes a chunk of length 0 completely, so the chunk is not
	 * lost.
	 */
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
	assert(b->working > 0 && b->working <= b->parallel);
	b->working--;
	rt_cond_signal(&b->idle);
}

/* Starts to rebuild a chunk as soon as fewer than b->parallel chunks are being rebuilt. */
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

/*
 * Returns whether a row may be missing: an event whose rows are not all rebuilt moved it, or its
 * member is down.
 */
static bool row_may_be_missing(const struct pool *p, const struct pool_map *map, uint32_t row)
{
	return map->moved[row] || map->member[row] == POOL_NOWHERE ||
	       p->members[map->member[row]] == NULL;
}

/*
 * Returns whether a chunk is in the class with `losses` possibly missing rows (more than p count as
 * p + 1) and is rebuilt when this member lists it. The id of the chunk selects one of the members
 * that should have a row, so that the chunk is rebuilt once although every member lists it. If the
 * selected member lacks its row, no list leads to the chunk: its put never completed, or members
 * are behind and the last pass finds it.
 */
static bool member_names_chunk(const struct pool *p, struct chunk_id id, uint32_t row,
			       uint32_t member, uint32_t losses)
{
	struct pool_map map;
	uint32_t width = pool_width(p), beyond = p->record.shape.p + 1, n = 0, candidates = 0;
	uint16_t members[POOL_ROWS_MAX];

	assert(losses > 0 && losses <= beyond);
	pool_map_chunk(&p->place, &p->record, id, &map);
	for (uint32_t r = 0; r < width; r++) {
		bool missing = row_may_be_missing(p, &map, r);
		n += missing;
		/* Copies are only on the members of the first p + 1 rows. */
		if (!missing && (row < POOL_ROWS_MAX || r < beyond))
			members[candidates++] = map.member[r];
	}
	if (candidates == 0 || losses != (n < beyond ? n : beyond))
		return false;
	return members[hash64_u64s(id.block, id.index) / 7 % candidates] == member;
}

#define LISTER_IDS 64
#define LISTER_CHUNK 1 /* returned by lister_next: *id is a chunk */

/*
 * Iterates over the chunks of one class, taking them from the lists of all members in turn. Chunks
 * from the list of one member all have rows on that member; rebuilding them one after the other
 * would keep that member busy while other members are idle.
 */
struct lister {
	struct pool *pool;
	uint64_t *failed; /* number of members that could not be listed */
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

/* Reads the next part of the list of a member's chunks, unless the list has ended. */
static int lister_fill(struct lister *l, uint32_t member)
{
	struct lister_member *m = &l->members[member];

	m->n = 0;
	m->next = 0;
	while (m->n == 0 && !m->ended) {
		int64_t got = pool_member_list(l->pool, member, &m->at, m->ids, LISTER_IDS);
		if (got == -ECANCELED || got == -ETIME)
			return (int)got;
		/*
		 * A member that cannot be listed is skipped, and the rebuild counts as incomplete.
		 */
		*l->failed += got < 0;
		m->ended = got <= 0;
		l->ended += m->ended;
		for (int64_t i = 0; i < got; i++) {
			struct chunk_id id = {.block = m->ids[i].block,
					      .index = m->ids[i].index >> 8};
			if (id.block <= POOL_BLOCK_MAX &&
			    member_names_chunk(l->pool, id, m->ids[i].index & 0xff, member,
					       l->losses))
				m->ids[m->n++] = id;
		}
	}
	return 0;
}

/* Sets *id to the next chunk of the class. Returns LISTER_CHUNK, 0 at the end, or an error. */
static int lister_next(struct lister *l, struct chunk_id *id)
{
	uint32_t members = l->pool->record.shape.members;

	assert(l->ended <= members && l->turn < members);
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
			return LISTER_CHUNK;
		}
	}
	return 0;
}

/* Rebuilds the chunks that may have lost `losses` rows. */
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
	while ((rc = lister_next(l, &id)) == LISTER_CHUNK) {
		rc = rebuild_start(b, &g, id);
		if (rc != 0)
			break;
	}
	rt_group_join(&g);
	assert(b->working == 0);
	return rc;
}

/* Sets *lost to whether a chunk has more losses than the code tolerates. */
static int any_lost(struct pool *p, uint64_t *failed, bool *lost)
{
	uint32_t members = p->record.shape.members;
	AUTO_FREE struct lister *l = calloc(1, sizeof(*l) + members * sizeof(struct lister_member));
	struct chunk_id id = {0};
	int rc = 0;

	if (l == NULL)
		return -ENOMEM;
	l->pool = p;
	l->failed = failed;
	l->losses = p->record.shape.p + 1;
	*lost = false;
	while (!*lost && (rc = lister_next(l, &id)) == LISTER_CHUNK) {
		struct pool_view v;
		rc = pool_lookup(p, id, &v);
		*lost = rc == -ENODATA && (v.form != POOL_CODED || v.geo.len > 0);
		if (rc == -ECANCELED || rc == -ETIME)
			return rc;
	}
	return *lost ? 0 : rc;
}

/* Looks up every chunk of the pool and rebuilds those that lack rows or copies. */
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
	assert(b->working == 0);
	return rc != 0 ? rc : (int)n;
}

/*
 * Deletes the rows and copies that a member stores although events have assigned them to other
 * members. If a later event assigned them to this member again, they would be mistaken for current
 * ones. Stops when an event was added after the first `events`: the rows that this event moved are
 * not rebuilt yet, and the old rows may still be needed.
 */
static int remove_misplaced(struct pool *p, uint32_t member, uint32_t events,
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

void store_pool_set_external_repair(struct store *s, bool external)
{
	pool_of(s)->external_repair = external;
}

/* Returns whether events moved rows that are not rebuilt yet, or members are down. */
static bool rows_may_be_missing(const struct pool *p)
{
	bool down = false;

	for (uint32_t m = 0; m < p->record.shape.members; m++)
		down = down || p->members[m] == NULL;
	return down || p->record.settled < p->record.event_count;
}

/*
 * Waits for the puts in progress: such a put may write rows to the members that had them before an
 * event, and members do not list these rows yet. If a put takes longer than PUTS_WAIT_NS, the
 * rebuild starts without waiting for it and counts as incomplete.
 */
static void wait_for_puts(struct pool *p, struct store_pool_progress *progress)
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
	AUTO_FREE uint32_t *missed = malloc(sizeof(p->missed_count));

	memset(out, 0, sizeof(*out));
	if (missed == NULL)
		return -ENOMEM;
	memcpy(missed, p->missed_count, sizeof(p->missed_count));
	if (parallel == 0 || parallel > PARALLEL_MAX)
		return -EINVAL;
	if (p->admin_state == STORE_FAILED)
		return -EIO;
	rt_cond_init(&b.idle);
	if (p->record.settled < events)
		wait_for_puts(p, out);
	int rc = 0;
	bool may_lack_rows = rows_may_be_missing(p);
	if (may_lack_rows && p->external_repair) {
		bool lost;
		rc = any_lost(p, &out->failed, &lost);
		if (rc != 0)
			return rc;
		if (lost) {
			out->lost = 1;
			return -ENODATA;
		}
	}
	for (uint32_t n = p->record.shape.p + 1; may_lack_rows && rc == 0 && n > 0; n--)
		rc = rebuild_class(&b, n);
	if (rc == 0 &&
	    (!may_lack_rows || store_pool_behind_count(s) > 0 || pool_any_due(&p->record))) {
		out->lost = 0; /* the pass over all chunks counts the lost chunks again */
		rc = rebuild_all(&b);
	}
	bool moved = p->record.settled < p->record.event_count;
	for (uint32_t m = 0; moved && m < p->record.shape.members; m++)
		if (rc == 0 && out->lost == 0 && out->failed == 0)
			rc = remove_misplaced(p, m, events, out);
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
	assert(stripe < d->stripes && d->width == v->geo.k + v->geo.p);
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

/*
 * Lists the stripes of a chunk that lost more than `tolerated` rows, as runs of stripes with the
 * same lost rows. When `out` is full, its last run is extended to the end of the losses and lists
 * every row that is lost in any of its stripes.
 */
static size_t chunk_losses(const struct pool_view *v, const struct pool_damage *d,
			   uint32_t tolerated, struct store_pool_loss *out)
{
	size_t n = 0;

	for (uint64_t s = 0; s < d->stripes; s++) {
		struct store_pool_loss l;
		loss_fill(&l, v, d, s);
		if (l.lost_rows <= tolerated)
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

/*
 * Lists the losses of one chunk. Reads no row of a chunk that has all rows, and scans rows for
 * damage only if damage can change which rows are lost.
 */
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
	/*
	 * Do not scan if more than p rows are missing, because store_pool_patch will find further
	 * damage, or if a rebuild is due, because the rebuild will find damage and note it. In both
	 * cases a scan here would read the rows twice.
	 */
	bool decided = all || v.present + p->record.shape.p < pool_width(p) ||
		       (p->record.settled < p->record.event_count && !pool_may_be_damaged(p, id));
	rc = decided ? pool_damage_from_view(p, &v, &d) : pool_damage_scan(p, &v, &d);
	if (rc == 0 && (all ? d.any : d.lost))
		n = (int64_t)chunk_losses(&v, &d, all ? 0 : p->record.shape.p, out);
	pool_damage_free(&d);
	return rc != 0 ? rc : n;
}

/*
 * The search for the losses of one chunk; it runs side by side for all chunks of a page of the
 * list.
 */
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
		/* The losses of this chunk are unknown, so the list must not end as complete. */
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
