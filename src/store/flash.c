// SPDX-License-Identifier: Apache-2.0
#include "store/flash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "cache/engine.h"
#include "rt/rt.h"
#include "rt/sync.h"
#include "store/flash_heat.h"
#include "store/format.h"

#define CHUNK_MAX_DEFAULT (64 * MIB)
#define CHUNKS_MAX_DEFAULT 16384
#define VISITS_DEFAULT 3
#define VISITS_LEARN 2 /* visits after which the slow store is asked what it has */
#define FILLS_MAX_DEFAULT 2
#define BURST_SECONDS 600
#define DRAM_SHARE 64
#define DRAM_MIN (4 * MIB)
#define DRAM_MAX (64 * MIB)

/* What the slow store said in this run of a sealed chunk that it has. */
struct known {
	struct list link; /* link in flash.recent */
	struct chunk_id id;
	uint64_t len;
	uint64_t version;
};

struct fill {
	struct list link; /* link in flash.fills */
	struct flash *flash;
	struct chunk_id id;
	uint64_t off, len; /* full segments */
	/* the chunk was deleted during the fill */
	bool cancelled;
};

struct flash {
	struct store base;
	struct store *slow;
	struct cache_engine *engine;
	struct store_flash_options options;
	struct store_flash_stats stats;
	struct flash_heat heat;
	struct map known;   /* hash of the chunk id -> struct known */
	struct list recent; /* struct known, most recently read first */
	uint64_t changes;   /* number of deletes and replacements that began or ended */
	struct list fills;  /* struct fill: fills in progress */
	uint32_t fill_count;
	struct rt_group group; /* group of the fibers that run fills */
	struct rt_cond filled;
	uint64_t tokens; /* tokens of the write budget: bytes that may be written now */
	uint64_t earned_ns;
	bool failed; /* an operator set the state to failed (control) */
	bool closing;
};

static struct flash *flash_of(struct store *s)
{
	return container_of(s, struct flash, base);
}

/* --- what is known ------------------------------------------------------------------------------ */

static uint64_t key_of(struct chunk_id id)
{
	return hash64_u64s(id.block, id.index);
}

static struct known *known_find(const struct flash *f, struct chunk_id id)
{
	struct known *k = map_get(&f->known, key_of(id));

	return k != NULL && chunk_id_equal(k->id, id) ? k : NULL;
}

static void known_drop(struct flash *f, struct known *k)
{
	map_remove(&f->known, key_of(k->id));
	list_remove(&k->link);
	free(k);
}

static void known_add(struct flash *f, struct chunk_id id, const struct chunk_stat *st)
{
	struct known *same = map_get(&f->known, key_of(id));
	struct list *last = list_last(&f->recent);

	if (same != NULL)
		known_drop(f, same);
	else if (map_count(&f->known) >= f->options.chunks_max && last != NULL)
		known_drop(f, list_entry(last, struct known, link));
	struct known *k = calloc(1, sizeof(*k));
	if (k == NULL || map_put(&f->known, key_of(id), k) != 0) {
		free(k);
		return;
	}
	k->id = id;
	k->len = st->len;
	k->version = hash64_u64s(hash64_u64s(st->epoch, st->len), st->crc);
	list_push_front(&f->recent, &k->link);
}

/*
 * Returns what is known of a chunk, after asking the slow store if `ask`; NULL: nothing. Waits: what was said while the
 * chunk, or any other, was being deleted or replaced is not kept.
 */
static const struct known *learn(struct flash *f, struct chunk_id id, bool ask)
{
	struct known *k = known_find(f, id);
	struct chunk_stat st;

	if (k == NULL && ask) {
		uint64_t changes = f->changes;
		if (store_stat(f->slow, id, &st) != 0 || !st.sealed || st.len == 0 ||
		    st.len > f->options.chunk_max || f->changes != changes)
			return NULL;
		known_add(f, id, &st);
		k = known_find(f, id);
	}
	if (k != NULL) {
		list_remove(&k->link);
		list_push_front(&f->recent, &k->link);
	}
	return k;
}

/* The name under which the engine has the chunk, and the request's bucket and job. */
static struct cache_get get_of(const struct known *k, uint64_t off, uint64_t len)
{
	const struct context_tags *tags = &rt_context()->tags;

	return (struct cache_get){
		.name = {.block = k->id.block, .part = k->id.index, .version = k->version},
		.off = off,
		.len = len,
		.bucket = tags->directory_id,
		.position = CACHE_NONE,
		.job = CACHE_NONE};
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

struct slow_get {
	struct flash *f;
	struct chunk_id id;
	uint64_t off, len;
	uint8_t *to;
	uint32_t *crcs; /* of each segment */
	int rc;
};

static void slow_get_run(void *arg)
{
	struct slow_get *g = arg;

	for (uint64_t at = 0; at < g->len && g->rc == 0; at += FLASH_SEGMENT_BYTES) {
		uint64_t n = min_u64(FLASH_SEGMENT_BYTES, g->len - at);
		g->rc = store_get(g->f->slow, g->id, g->off + at, g->to + at, n,
				  &g->crcs[at / FLASH_SEGMENT_BYTES]);
	}
}

struct source {
	struct fill *fill;
	uint64_t chunk_len;
};

/* Reads segments of the chunk from the slow store, for the engine. */
static int slow_fetch(void *arg, uint64_t off, uint64_t len, uint8_t *to, uint64_t *got,
		      uint32_t *crcs)
{
	const struct source *s = arg;
	struct flash *f = s->fill->flash;
	const struct store_flash_options *o = &f->options;
	struct slow_get g = {.f = f, .id = s->fill->id, .off = off, .to = to, .crcs = crcs};

	if (off >= s->chunk_len)
		return -ERANGE;
	g.len = *got = min_u64(len, s->chunk_len - off);
	if (!budget_take(f, len))
		return -EBUSY;
	int rc = 0;
	if (o->pace == NULL)
		slow_get_run(&g);
	else
		rc = o->pace(o->pace_ctx, g.len, slow_get_run, &g);
	if (rc == 0)
		rc = g.rc;
	if (rc == 0) {
		f->stats.fills++;
		f->stats.fill_bytes += len;
	}
	return rc != 0 ? rc : s->fill->cancelled || f->closing ? -ESTALE : 0;
}

static void fill_chunk(struct flash *f, struct fill *fill)
{
	const struct known *k = learn(f, fill->id, true);
	uint32_t crc;

	if (k == NULL || fill->cancelled || f->closing || fill->off >= k->len)
		return;
	struct source source = {.fill = fill, .chunk_len = k->len};
	struct cache_get g = get_of(k, fill->off, min_u64(fill->len, k->len - fill->off));
	(void)cache_engine_fill(f->engine, &g, slow_fetch, &source, NULL, &crc);
	if (fill->cancelled)
		cache_engine_drop(f->engine, &g);
}

static void fill_fiber(void *arg)
{
	struct fill *fill = arg;
	struct flash *f = fill->flash;

	fill_chunk(f, fill);
	assert(f->fill_count > 0);
	list_remove(&fill->link);
	f->fill_count--;
	free(fill);
	rt_cond_broadcast(&f->filled);
}

/* The fill outlives the read that made the chunk hot, and keeps its tags alone. */
static void fill_main(void *arg)
{
	AUTO_CONTEXT const struct context *c = NULL;
	const struct context_tags tags = rt_context()->tags;

	if (context_new(&c, &(struct context){.tags = tags}) != 0)
		c = NULL;
	rt_background();
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(c);
	fill_fiber(arg);
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

/* Starts a fill in the background of the read that made the chunk hot. */
static void fill_start(struct flash *f, struct chunk_id id, uint64_t off, uint64_t len)
{
	uint64_t from = off / FLASH_SEGMENT_BYTES * FLASH_SEGMENT_BYTES;
	uint64_t to =
		(off + len + FLASH_SEGMENT_BYTES - 1) / FLASH_SEGMENT_BYTES * FLASH_SEGMENT_BYTES;

	to = min_u64(to, from + CACHE_ENGINE_SEGMENTS_MAX * FLASH_SEGMENT_BYTES);
	if (f->fill_count >= f->options.fills_max || f->closing || is_filling(f, id))
		return;
	struct fill *fill = calloc(1, sizeof(*fill));
	if (fill == NULL)
		return;
	*fill = (struct fill){.flash = f, .id = id, .off = from, .len = to - from};
	list_push_back(&f->fills, &fill->link);
	f->fill_count++;
	assert(f->fill_count <= f->options.fills_max);
	if (rt_group_spawn(&f->group, "flash_fill", fill_main, fill) != 0) {
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
	cache_engine_settle(f->engine);
}

/* --- reading ---------------------------------------------------------------------------------- */

/*
 * Reads [off, off + len) of a chunk from flash. -EAGAIN: the caller must read the slow store instead.
 */
static int get_fast(struct flash *f, struct chunk_id id, bool ask, uint64_t off, void *buf,
		    uint64_t len, uint32_t *crc)
{
	if (f->failed)
		return -EAGAIN;
	const struct known *k = learn(f, id, ask);
	if (k == NULL || off > k->len || len > k->len - off)
		return -EAGAIN;
	struct cache_get g = get_of(k, off, len);
	int rc = cache_engine_get(f->engine, &g, NULL, NULL, buf, crc);
	if (rc == 0) {
		f->stats.hits++;
		f->stats.hit_bytes += len;
	}
	return rc == 0 || rc == -ECANCELED || rc == -ETIME || rc == -ENOMEM ? rc : -EAGAIN;
}

static int flash_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		     uint32_t *crc)
{
	struct flash *f = flash_of(s);

	if (len == 0 || len > UINT64_MAX - off)
		return store_get(f->slow, id, off, buf, len, crc);
	uint32_t heat = flash_heat_read(&f->heat, id, off, len);
	int rc = get_fast(f, id, heat >= VISITS_LEARN, off, buf, len, crc);
	if (rc != -EAGAIN)
		return rc;
	f->stats.misses++;
	rc = store_get(f->slow, id, off, buf, len, crc);
	if (rc == 0 && !f->failed && heat >= f->options.visits)
		fill_start(f, id, off, len);
	return rc;
}

/* --- calls for the slow store ----------------------------------------------------------------- */

/* Forgets what is known of a chunk, drops its segments, and cancels fills of it. */
static void forget(struct flash *f, struct chunk_id id)
{
	struct known *k = known_find(f, id);
	struct fill *fill;

	f->changes++;
	list_for_each_entry(fill, &f->fills, link) {
		if (chunk_id_equal(fill->id, id))
			fill->cancelled = true;
	}
	if (k == NULL)
		return;
	uint64_t step = CACHE_ENGINE_SEGMENTS_MAX * FLASH_SEGMENT_BYTES;
	for (uint64_t at = 0; at < k->len; at += step) {
		struct cache_get g = get_of(k, at, min_u64(step, k->len - at));
		cache_engine_drop(f->engine, &g);
	}
	known_drop(f, k);
}

static int flash_delete(struct store *s, struct chunk_id id)
{
	struct flash *f = flash_of(s);

	forget(f, id);
	int rc = store_delete(f->slow, id);
	/* A read during the delete may have asked the slow store before it was done. */
	forget(f, id);
	return rc;
}

static int flash_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	struct flash *f = flash_of(s);

	if (p->replace)
		forget(f, id);
	int rc = store_put(f->slow, id, p);
	/*
	 * Forget the chunk after an error, too: the slow store may hold the old or the new chunk.
	 */
	if (p->replace)
		forget(f, id);
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

static void flash_free(struct flash *f)
{
	struct known *k, *after;

	list_for_each_entry_safe(k, after, &f->recent, link)
		known_drop(f, k);
	assert(map_count(&f->known) == 0);
	map_fini(&f->known);
	flash_heat_fini(&f->heat);
	free(f);
}

static void flash_close(struct store *s)
{
	struct flash *f = flash_of(s);

	f->closing = true;
	rt_group_join(&f->group);
	assert(list_empty(&f->fills) && f->fill_count == 0);
	cache_engine_close(f->engine);
	store_close(f->slow);
	flash_free(f);
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

static int options_fill(struct store_flash_options *o)
{
	if (o->capacity_bytes == 0 || o->write_bytes_per_s == 0 || o->path == NULL)
		return -EINVAL;
	if (o->chunk_max == 0)
		o->chunk_max = CHUNK_MAX_DEFAULT;
	if (o->chunks_max == 0)
		o->chunks_max = CHUNKS_MAX_DEFAULT;
	if (o->visits == 0)
		o->visits = VISITS_DEFAULT;
	if (o->fills_max == 0)
		o->fills_max = FILLS_MAX_DEFAULT;
	if (o->dram_bytes == 0)
		o->dram_bytes =
			min_u64(max_u64(o->capacity_bytes / DRAM_SHARE, DRAM_MIN), DRAM_MAX);
	if (o->burst_bytes == 0) {
		uint64_t rate = min_u64(o->write_bytes_per_s, UINT64_MAX / BURST_SECONDS);
		o->burst_bytes = max_u64(rate * BURST_SECONDS, o->chunk_max);
	}
	return o->chunk_max <= STORE_CHUNK_MAX ? 0 : -EINVAL;
}

int store_flash_open_take(struct store *slow, const struct store_flash_options *options,
			  struct store **out)
{
	struct flash *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -ENOMEM;
	*f = (struct flash){.base.ops = &flash_ops, .slow = slow, .options = *options};
	list_init(&f->recent);
	list_init(&f->fills);
	rt_group_init(&f->group);
	rt_cond_init(&f->filled);
	f->earned_ns = rt_now_ns();
	int rc = options_fill(&f->options);
	map_init(&f->known, f->options.chunks_max);
	if (rc == 0)
		rc = flash_heat_init(&f->heat, f->options.chunks_max);
	const struct cache_engine_options engine = {
		.path = f->options.path,
		.owner = {f->options.owner[0], f->options.owner[1]},
		.flash_bytes = f->options.capacity_bytes,
		.segment_bytes = FLASH_SEGMENT_BYTES,
		.dram_bytes = f->options.dram_bytes,
		.policy = "wtinylfu",
	};
	if (rc == 0)
		rc = cache_engine_open(&f->engine, &engine);
	if (rc != 0) {
		flash_free(f);
		return rc;
	}
	*out = &f->base;
	return 0;
}

void store_flash_stats(const struct store *s, struct store_flash_stats *out)
{
	const struct flash *f = container_of(s, struct flash, base);
	struct cache_engine_stats st;

	cache_engine_stats(f->engine, &st);
	*out = f->stats;
	out->written_bytes = st.device_bytes;
	out->evicted = st.freed;
	out->failures = st.failures + st.rotten;
	out->used_bytes = st.segments * FLASH_SEGMENT_BYTES;
	out->restored = st.restored;
	out->suspended = st.suspended;
}
