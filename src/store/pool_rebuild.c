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
