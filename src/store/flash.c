// SPDX-License-Identifier: Apache-2.0
#include "store/flash.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "rt/rt.h"
#include "rt/sync.h"
#include "store/flash_heat.h"
#include "store/format.h"

#define CHUNK_MAX_DEFAULT (16 * MIB)
#define CHUNKS_MAX_DEFAULT 16384
#define VISITS_DEFAULT 3
#define FILLS_MAX_DEFAULT 2
#define BURST_SECONDS 600
#define FAILURES_MAX 4
#define SUSPEND_NS (60 * NS_PER_S)
#define LIST_PAGE 256

/* A chunk of the index: it may be read from the fast store. */
struct entry {
	struct list link; /* link in flash.recent */
	struct chunk_id id;
	uint64_t len;
	uint64_t epoch;
	uint32_t crc;
	bool verified; /* the slow store has confirmed, in this run, that it has the same chunk */
};

struct fill {
	struct list link; /* link in flash.fills */
	struct flash *flash;
	struct chunk_id id;
	uint32_t heat;
	/* the chunk was deleted during the fill: do not cache the bytes that were read */
	bool cancelled;
};

struct flash {
	struct store base;
	struct store *slow, *fast;
	struct store_flash_options options;
	struct store_flash_stats stats;
	struct flash_heat heat;
	struct map index;   /* hash of the chunk id -> struct entry */
	struct list recent; /* struct entry, most recently read first */
	struct list fills;  /* struct fill: fills in progress */
	uint32_t fill_count;
	struct rt_group group; /* group of the fibers that run fills */
	struct rt_cond filled;
	uint64_t tokens; /* tokens of the write budget: bytes that may be written now */
	uint64_t earned_ns;
	uint32_t failures; /* number of consecutive failures of the fast store */
	uint64_t suspended_until_ns;
	uint64_t
		/*
		 * time before which no fill starts: the fast store ran out of space although
		 * capacity_bytes was not used up
		 */
		full_until_ns;
	bool failed; /* an operator set the state to failed (control) */
	bool closing;
};

static struct flash *flash_of(struct store *s)
{
	return container_of(s, struct flash, base);
}

static uint64_t cost_of(uint64_t len)
{
	return CHUNK_SLOTS_BYTES +
	       (len + CHUNK_PAGE_BYTES - 1) / CHUNK_PAGE_BYTES * CHUNK_PAGE_BYTES;
}

/* --- the index -------------------------------------------------------------------------------- */

static uint64_t key_of(struct chunk_id id)
{
	return hash64_u64s(id.block, id.index);
}

static struct entry *entry_find(const struct flash *f, struct chunk_id id)
{
	struct entry *e = map_get(&f->index, key_of(id));

	return e != NULL && chunk_id_equal(e->id, id) ? e : NULL;
}

static int entry_add(struct flash *f, struct chunk_id id, const struct chunk_stat *st,
		     bool verified)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return -ENOMEM;
	*e = (struct entry){
		.id = id, .len = st->len, .epoch = st->epoch, .crc = st->crc, .verified = verified};
	int rc = map_put(&f->index, key_of(id), e);
	if (rc != 0) {
		free(e);
		return rc;
	}
	list_push_front(&f->recent, &e->link);
	f->stats.used_bytes += cost_of(e->len);
	return 0;
}

/* Removes a chunk from the index. Returns whether the index had it. */
static bool entry_drop(struct flash *f, struct chunk_id id)
{
	struct entry *e = entry_find(f, id);

	if (e == NULL)
		return false;
	map_remove(&f->index, key_of(id));
	list_remove(&e->link);
	assert(f->stats.used_bytes >= cost_of(e->len));
	f->stats.used_bytes -= cost_of(e->len);
	free(e);
	return true;
}

static bool is_filling(const struct flash *f, struct chunk_id id)
{
	const struct fill *fill;

	list_for_each_entry(fill, &f->fills, link) {
		if (chunk_id_equal(fill->id, id))
			return true;
	}
	return false;
}

/* --- the device ------------------------------------------------------------------------------- */

static bool is_suspended(const struct flash *f)
{
	return f->suspended_until_ns > 0 && rt_now_ns() < f->suspended_until_ns;
}

/* Updates failure counts and suspension of the fast store from rc, the result of a call to it. */
static void note_fast_result(struct flash *f, int rc)
{
	switch (rc) {
	case 0:
	case -ENOENT:
	case -EEXIST:
	case -ERANGE:
	case -EOVERFLOW:
		f->failures = 0;
		f->suspended_until_ns = 0;
		return;
	case -ECANCELED:
	case -ETIME:
	case -ENOMEM:
		return;
	case -ENOSPC:
		f->full_until_ns = rt_now_ns() + SUSPEND_NS;
		return;
	default:
		break;
	}
	f->stats.failures++;
	/* Damaged bytes (-EBADMSG) concern one chunk, other errors the whole fast store. */
	if (rc == -EBADMSG || ++f->failures < FAILURES_MAX)
		return;
	/* after the suspension, a single failure suspends the fast store again */
	f->failures = FAILURES_MAX - 1;
	f->suspended_until_ns = rt_now_ns() + SUSPEND_NS;
	log_warn("flash_suspended", "err=%s", err_name(rc));
}

/* Deletes the fast store's copy of a chunk that is not in the index. */
static void fast_delete(struct flash *f, struct chunk_id id)
{
	rt_shield_enter();
	note_fast_result(f, store_delete(f->fast, id));
	rt_shield_leave();
}

/* --- filling ---------------------------------------------------------------------------------- */

static bool budget_take(struct flash *f, uint64_t bytes)
{
	uint64_t now_ns = rt_now_ns();
	unsigned __int128 earned = (unsigned __int128)(now_ns - f->earned_ns) *
				   f->options.write_bytes_per_s / (unsigned __int128)NS_PER_S;

	/*
	 * If less than one byte was earned, earned_ns stays as it is, so that the fraction is not
	 * lost.
	 */
	if (earned > 0) {
		assert(f->tokens <= f->options.burst_bytes);
		uint64_t room = f->options.burst_bytes - f->tokens;
		f->tokens += earned > room ? room : (uint64_t)earned;
		f->earned_ns = now_ns;
	}
	if (f->tokens < bytes) {
		f->stats.over_budget++;
		return false;
	}
	f->tokens -= bytes;
	return true;
}

static bool has_room(const struct flash *f, uint64_t cost)
{
	return map_count(&f->index) < f->options.chunks_max &&
	       f->stats.used_bytes + cost <= f->options.capacity_bytes;
}

/*
 * Returns the least recently read chunk if it is less hot than `heat`. Otherwise moves that chunk
 * to the front of `recent` and returns NULL.
 */
static struct entry *eviction_candidate(struct flash *f, uint32_t heat)
{
	struct list *last = list_last(&f->recent);

	if (last == NULL)
		return NULL;
	struct entry *e = list_entry(last, struct entry, link);
	if (flash_heat_of(&f->heat, e->id) < heat)
		return e;
	list_remove(last);
	list_push_front(&f->recent, last);
	return NULL;
}

static bool make_room(struct flash *f, uint64_t cost, uint32_t heat)
{
	while (!has_room(f, cost)) {
		struct entry *e = eviction_candidate(f, heat);
		if (e == NULL)
			return false;
		struct chunk_id id = e->id;
		entry_drop(f, id);
		f->stats.evicted++;
		fast_delete(f, id);
	}
	return true;
}

static int fast_put(struct flash *f, struct chunk_id id, const struct chunk_stat *st,
		    const void *bytes)
{
	struct iovec piece;
	struct store_put put = {
		.data = store_data_of(&piece, bytes, st->len, st->crc),
		.epoch = st->epoch,
	};

	memcpy(put.label, st->label, sizeof(put.label));
	int rc = store_put(f->fast, id, &put);
	/* The fast store still has the chunk, because an earlier delete failed. */
	if (rc == -EEXIST) {
		fast_delete(f, id);
		rc = store_put(f->fast, id, &put);
	}
	note_fast_result(f, rc);
	return rc;
}

struct slow_get {
	struct flash *f;
	struct chunk_id id;
	uint8_t *bytes;
	uint64_t len;
	uint32_t crc;
	int rc;
};

static void slow_get_run(void *arg)
{
	struct slow_get *g = arg;

	g->rc = store_get(g->f->slow, g->id, 0, g->bytes, g->len, &g->crc);
}

static int slow_get(struct slow_get *g)
{
	const struct store_flash_options *o = &g->f->options;

	if (o->pace == NULL) {
		slow_get_run(g);
		return g->rc;
	}
	int rc = o->pace(o->pace_ctx, g->len, slow_get_run, g);
	return rc != 0 ? rc : g->rc;
}

/*
 * Reads a chunk and its stat from the slow store for a fill. Returns NULL when the chunk should not
 * be cached.
 */
static uint8_t *slow_read(struct flash *f, const struct fill *fill, struct chunk_stat *st)
{
	if (store_stat(f->slow, fill->id, st) != 0 || !st->sealed || st->len == 0 ||
	    st->len > f->options.chunk_max)
		return NULL;
	uint64_t cost = cost_of(st->len);
	if (cost > f->options.capacity_bytes)
		return NULL;
	/* Check the write budget before evicting. */
	if ((!has_room(f, cost) && eviction_candidate(f, fill->heat) == NULL) ||
	    !budget_take(f, cost))
		return NULL;
	uint8_t *bytes = aligned_alloc(CHUNK_PAGE_BYTES, cost - CHUNK_SLOTS_BYTES);
	if (bytes == NULL)
		return NULL;
	struct slow_get g = {.f = f, .id = fill->id, .bytes = bytes, .len = st->len};
	if (slow_get(&g) != 0 || g.crc != st->crc || fill->cancelled || f->closing ||
	    !make_room(f, cost, fill->heat)) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

static void fill_chunk(struct flash *f, const struct fill *fill)
{
	struct chunk_stat st;
	AUTO_FREE uint8_t *bytes = slow_read(f, fill, &st);

	if (bytes == NULL || fill->cancelled || f->closing)
		return;
	/* Reserve the space now, so that concurrent fills do not use the same space. */
	uint64_t cost = cost_of(st.len);
	f->stats.used_bytes += cost;
	int rc = fast_put(f, fill->id, &st, bytes);
	f->stats.used_bytes -= cost;
	if (rc != 0)
		return;
	f->stats.fills++;
	f->stats.fill_bytes += cost;
	if (fill->cancelled || entry_add(f, fill->id, &st, true) != 0)
		fast_delete(f, fill->id);
}

static void fill_fiber(void *arg)
{
	struct fill *fill = arg;
	struct flash *f = fill->flash;

	rt_background();
	fill_chunk(f, fill);
	assert(f->fill_count > 0);
	list_remove(&fill->link);
	f->fill_count--;
	free(fill);
	rt_cond_broadcast(&f->filled);
}

/* Starts a fill in the background of the read that made the chunk hot. */
static void fill_start(struct flash *f, struct chunk_id id, uint32_t heat)
{
	if (heat < f->options.visits || f->fill_count >= f->options.fills_max || f->closing ||
	    rt_now_ns() < f->full_until_ns || is_filling(f, id) ||
	    map_get(&f->index, key_of(id)) != NULL)
		return;
	struct fill *fill = calloc(1, sizeof(*fill));
	if (fill == NULL)
		return;
	*fill = (struct fill){.flash = f, .id = id, .heat = heat};
	list_push_back(&f->fills, &fill->link);
	f->fill_count++;
	assert(f->fill_count <= f->options.fills_max);
	if (rt_group_spawn(&f->group, "flash_fill", fill_fiber, fill) != 0) {
		list_remove(&fill->link);
		f->fill_count--;
		free(fill);
	}
}

void store_flash_settle(struct store *s)
{
	struct flash *f = flash_of(s);

	while (f->fill_count > 0 && rt_cond_wait(&f->filled) == 0)
		;
}

/* --- reading ---------------------------------------------------------------------------------- */

/*
 * Checks, after a restart, that the slow store still has the chunk that is in the index. This
 * waits, so other fibers may remove the entry.
 */
static bool verify_entry(struct flash *f, struct chunk_id id)
{
	struct chunk_stat st;
	int rc = store_stat(f->slow, id, &st);
	struct entry *e = entry_find(f, id);

	if (e == NULL || e->verified)
		return e != NULL;
	if (rc == 0 && st.sealed && st.len == e->len && st.crc == e->crc && st.epoch == e->epoch) {
		e->verified = true;
		return true;
	}
	if (rc == 0 || rc == -ENOENT) {
		entry_drop(f, id);
		f->stats.evicted++;
		fast_delete(f, id);
	}
	return false;
}

/*
 * Reads [off, off + len) of a chunk from the fast store. Returns false when the caller must read
 * the slow store instead.
 */
static bool get_fast(struct flash *f, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		     uint32_t *crc, int *rc)
{
	struct entry *e = entry_find(f, id);

	if (e == NULL || f->failed || is_suspended(f))
		return false;
	if (!e->verified && !verify_entry(f, id))
		return false;
	*rc = store_get(f->fast, id, off, buf, len, crc);
	note_fast_result(f, *rc);
	e = entry_find(f, id);
	if (*rc == 0) {
		if (e != NULL) {
			list_remove(&e->link);
			list_push_front(&f->recent, &e->link);
		}
		f->stats.hits++;
		f->stats.hit_bytes += len;
		return true;
	}
	if (*rc == -ECANCELED || *rc == -ETIME || *rc == -ENOMEM)
		return true;
	/* Keep the entry after a read past the end: the slow store returns the error for it. */
	if (*rc != -ERANGE && *rc != -EOVERFLOW && entry_drop(f, id)) {
		f->stats.evicted++;
		fast_delete(f, id);
	}
	return false;
}

static int flash_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		     uint32_t *crc)
{
	struct flash *f = flash_of(s);
	int rc;

	if (len == 0 || len > UINT64_MAX - off)
		return store_get(f->slow, id, off, buf, len, crc);
	uint32_t heat = flash_heat_read(&f->heat, id, off, len);
	if (get_fast(f, id, off, buf, len, crc, &rc))
		return rc;
	f->stats.misses++;
	rc = store_get(f->slow, id, off, buf, len, crc);
	if (rc == 0 && !f->failed && !is_suspended(f))
		fill_start(f, id, heat);
	return rc;
}

/* --- calls for the slow store ----------------------------------------------------------------- */

/* Removes a chunk from the index and cancels fills of it. Returns whether it was in the index. */
static bool forget(struct flash *f, struct chunk_id id)
{
	struct fill *fill;

	list_for_each_entry(fill, &f->fills, link) {
		if (chunk_id_equal(fill->id, id))
			fill->cancelled = true;
	}
	return entry_drop(f, id);
}

static int flash_delete(struct store *s, struct chunk_id id)
{
	struct flash *f = flash_of(s);
	bool had = forget(f, id);
	int rc = store_delete(f->slow, id);

	/* A read during the delete may have cached the chunk again. */
	had = forget(f, id) || had;
	if (had)
		fast_delete(f, id);
	return rc;
}

static int flash_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	struct flash *f = flash_of(s);
	int rc = store_put(f->slow, id, p);

	/*
	 * Forget the chunk after an error, too: the slow store may hold the old or the new chunk.
	 */
	if (p->replace && forget(f, id))
		fast_delete(f, id);
	return rc;
}

static int flash_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
			const struct store_data *data)
{
	return store_append(flash_of(s)->slow, id, epoch, off, data);
}

static int flash_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len)
{
	return store_seal(flash_of(s)->slow, id, epoch, len);
}

static int64_t flash_list(struct store *s, struct store_cursor *at, struct chunk_id *out,
			  size_t max)
{
	return store_list(flash_of(s)->slow, at, out, max);
}

static int64_t flash_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max)
{
	return store_scan(flash_of(s)->slow, id, bad, max);
}

static int flash_stat(struct store *s, struct chunk_id id, struct chunk_stat *out)
{
	return store_stat(flash_of(s)->slow, id, out);
}

static int flash_reserve(struct store *s, int64_t bytes)
{
	return store_reserve(flash_of(s)->slow, bytes);
}

static void flash_info(struct store *s, struct store_info *out)
{
	store_info(flash_of(s)->slow, out);
}

static int flash_control(struct store *s, enum store_state state)
{
	struct flash *f = flash_of(s);
	int rc = store_control(f->slow, state);

	if (rc == 0)
		f->failed = state == STORE_FAILED;
	return rc;
}

static void flash_close(struct store *s)
{
	struct flash *f = flash_of(s);
	struct entry *e, *after;

	f->closing = true;
	rt_group_join(&f->group);
	store_close(f->fast);
	store_close(f->slow);
	assert(list_empty(&f->fills) && f->fill_count == 0);
	list_for_each_entry_safe(e, after, &f->recent, link)
		entry_drop(f, e->id);
	assert(map_count(&f->index) == 0 && f->stats.used_bytes == 0);
	map_fini(&f->index);
	flash_heat_fini(&f->heat);
	free(f);
}

static const struct store_ops flash_ops = {
	.put = flash_put,
	.append = flash_append,
	.get = flash_get,
	.seal = flash_seal,
	.delete = flash_delete,
	.list = flash_list,
	.scan = flash_scan,
	.stat = flash_stat,
	.reserve = flash_reserve,
	.info = flash_info,
	.control = flash_control,
	.close = flash_close,
};

/* --- opening ---------------------------------------------------------------------------------- */

/*
 * Adds a chunk that the fast store holds from before the restart to the index, as not yet verified.
 */
static int index_chunk(struct flash *f, struct chunk_id id)
{
	struct chunk_stat st;
	int rc = store_stat(f->fast, id, &st);

	if (rc == -ECANCELED || rc == -ETIME)
		return rc;
	if (rc != 0 || !st.sealed || !has_room(f, cost_of(st.len)) ||
	    entry_add(f, id, &st, false) != 0)
		fast_delete(f, id);
	return 0;
}

static int index_all(struct flash *f)
{
	AUTO_FREE struct chunk_id *ids = calloc(LIST_PAGE, sizeof(*ids));
	struct store_cursor at = {0};
	int64_t n;

	if (ids == NULL)
		return -ENOMEM;
	while ((n = store_list(f->fast, &at, ids, LIST_PAGE)) > 0) {
		for (int64_t i = 0; i < n; i++) {
			int rc = index_chunk(f, ids[i]);
			if (rc != 0)
				return rc;
		}
	}
	if (n == -ECANCELED || n == -ETIME)
		return (int)n;
	note_fast_result(f, (int)n);
	return 0;
}

static int options_fill(struct store_flash_options *o)
{
	if (o->capacity_bytes == 0 || o->write_bytes_per_s == 0)
		return -EINVAL;
	if (o->chunk_max == 0)
		o->chunk_max = CHUNK_MAX_DEFAULT;
	if (o->chunks_max == 0)
		o->chunks_max = CHUNKS_MAX_DEFAULT;
	if (o->visits == 0)
		o->visits = VISITS_DEFAULT;
	if (o->fills_max == 0)
		o->fills_max = FILLS_MAX_DEFAULT;
	if (o->burst_bytes == 0) {
		uint64_t rate = min_u64(o->write_bytes_per_s, UINT64_MAX / BURST_SECONDS);
		o->burst_bytes = max_u64(rate * BURST_SECONDS, cost_of(o->chunk_max));
	}
	return o->chunk_max <= STORE_CHUNK_MAX ? 0 : -EINVAL;
}

int store_flash_open_take(struct store *slow, struct store *fast,
			  const struct store_flash_options *options, struct store **out)
{
	struct flash *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -ENOMEM;
	*f = (struct flash){
		.base.ops = &flash_ops, .slow = slow, .fast = fast, .options = *options};
	list_init(&f->recent);
	list_init(&f->fills);
	rt_group_init(&f->group);
	rt_cond_init(&f->filled);
	f->earned_ns = rt_now_ns();
	int rc = options_fill(&f->options);
	map_init(&f->index, f->options.chunks_max);
	if (rc == 0)
		rc = flash_heat_init(&f->heat, f->options.chunks_max);
	if (rc == 0)
		rc = index_all(f);
	if (rc != 0) {
		f->slow = NULL;
		f->fast = NULL;
		flash_close(&f->base);
		return rc;
	}
	*out = &f->base;
	return 0;
}

void store_flash_stats(const struct store *s, struct store_flash_stats *out)
{
	const struct flash *f = container_of(s, struct flash, base);

	*out = f->stats;
	out->chunks = (uint32_t)map_count(&f->index);
	out->suspended = is_suspended(f);
}
