// SPDX-License-Identifier: Apache-2.0
/* Gets of an engine: reads from DRAM and flash, and fills. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"
#include "cache/engine_impl.h"

#define TRIES_MAX 4 /* of a get whose segments were found rotten or were evicted meanwhile */
#define RUN_BYTES_MAX (4 * MIB)

#define WAITS_MAX 16 /* of a get for fills of others */

/* A get in progress. */
struct get {
	struct cache_engine *e;
	const struct cache_get *g;
	struct cache_request r;
	uint8_t *buf;
	uint32_t at[CACHE_ENGINE_SEGMENTS_MAX];
	uint32_t crcs
		[CACHE_ENGINE_SEGMENTS_MAX];  /* of the wanted bytes of a segment that is in buf */
	bool have[CACHE_ENGINE_SEGMENTS_MAX]; /* it is in buf */
};

static bool get_is_valid(const struct cache_engine *e, const struct cache_get *g)
{
	uint64_t size = e->volume.segment_bytes;
	if (g->len == 0 || g->len > CACHE_ENGINE_SEGMENTS_MAX * size ||
	    g->off > UINT64_MAX - g->len)
		return false;
	return (g->off + g->len - 1) / size - g->off / size < CACHE_ENGINE_SEGMENTS_MAX &&
	       (g->off + g->len - 1) / size < UINT32_MAX;
}

static void get_init(struct get *t, struct cache_engine *e, const struct cache_get *g, void *buf)
{
	uint64_t size = e->volume.segment_bytes;
	t->e = e;
	t->g = g;
	t->buf = buf;
	memset(t->have, 0, sizeof(t->have));
	memset(t->crcs, 0, sizeof(t->crcs));
	memset(t->at, 0xff, sizeof(t->at)); /* CACHE_NONE */
	t->r = (struct cache_request){
		.now_ms = rt_now_ns() / NS_PER_MS,
		.block = cache_name_hash(&g->name),
		.first = (uint32_t)(g->off / size),
		.segments = (uint32_t)((g->off + g->len - 1) / size - g->off / size + 1),
		.position = g->position,
		.job = g->job,
		.skip = (uint32_t)(g->off % size),
		.bucket = engine_bucket(e, g->bucket),
		.bytes = g->len};
}

/* ---- segments ---- */

/* Returns the bytes of segment i that the get wants, as offsets in the segment. */
static void wanted_of(const struct get *t, uint32_t i, uint64_t *from, uint64_t *to)
{
	uint64_t size = t->e->volume.segment_bytes, start = (t->r.first + i) * size;
	*from = max_u64(t->g->off, start) - start;
	*to = min_u64(t->g->off + t->g->len, start + size) - start;
	assert(*from < *to && *to <= size);
}

/*
 * Copies what the get wants of segment i out of its first len bytes. `crc`, continued with them, must give `sum`.
 * -EBADMSG: these are not the bytes of that segment.
 */
static int take(struct get *t, uint32_t i, const uint8_t *data, uint64_t len, uint32_t crc,
		uint32_t sum)
{
	uint64_t from, to;
	wanted_of(t, i, &from, &to);
	if (to > len)
		return -EBADMSG;
	uint32_t wanted = crc32c(0, data + from, to - from);
	crc = crc32c_combine(crc, crc32c(0, data, from), from);
	crc = crc32c_combine(crc, wanted, to - from);
	crc = crc32c_combine(crc, crc32c(0, data + to, len - to), len - to);
	if (crc != sum && !bug_planted(BUG_CACHE_SUM))
		return -EBADMSG;
	t->crcs[i] = wanted;
	t->have[i] = true;
	if (t->buf == NULL)
		return 0;
	uint64_t start = (uint64_t)(t->r.first + i) * t->e->volume.segment_bytes;
	uint8_t *dest = t->buf + (start + from - t->g->off);
	if (dest != data + from)
		memcpy(dest, data + from, to - from);
	return 0;
}

/* Returns whether segment i still stands where it was found. */
static bool is_there(const struct get *t, uint32_t i)
{
	const struct cache_entry *now = &t->e->core.entries[t->at[i]];
	return now->used != 0 && now->key == cache_key(t->r.block, t->r.first + i);
}

/* Drops a segment whose bytes are not what they should be, if it still has that sum. */
static void drop_rotten(struct get *t, uint32_t i, uint32_t sum)
{
	if (is_there(t, i) && t->e->core.entries[t->at[i]].sum == sum &&
	    !bug_planted(BUG_CACHE_ROTTEN))
		cache_core_drop(&t->e->core, t->at[i]);
}

/* Sets *bytes if those of segment i are in memory. Waits until the writer has copied a kept segment. */
static int find_bytes(struct get *t, uint32_t i, const uint8_t **bytes)
{
	struct cache_engine *e = t->e;
	const struct op *op;
	*bytes = NULL;
	if (t->at[i] >= e->core.flash_n) {
		*bytes = e->places[t->at[i] - e->core.flash_n];
		return 0;
	}
	while ((op = engine_pending(e, t->at[i])) != NULL) {
		if (op->kind == OP_APPEND) {
			*bytes = op->buf;
			return 0;
		}
		int rc = rt_cond_wait(&e->done);
		if (rc != 0 || !is_there(t, i))
			return rc != 0 ? rc : -EAGAIN;
	}
	return 0;
}

/* Returns the number of segments from i on that stand on flash one behind the other. */
static uint32_t run_length(const struct get *t, uint32_t i)
{
	const struct cache_engine *e = t->e;
	uint32_t n = 1, most = (uint32_t)max_u64(RUN_BYTES_MAX / e->volume.segment_bytes, 1);
	while (i + n < t->r.segments && n < most && !t->have[i + n] &&
	       t->at[i + n] == t->at[i] + n && t->at[i + n] % e->volume.region_segments != 0 &&
	       is_there(t, i + n) && engine_pending(e, t->at[i + n]) == NULL)
		n++;
	return n;
}

/* Reads n segments from i on, which stand on flash one behind the other. */
static int take_run(struct get *t, uint32_t i, uint32_t n)
{
	struct cache_engine *e = t->e;
	uint64_t size = e->volume.segment_bytes, start = (t->r.first + i) * size;
	uint32_t region = t->at[i] / e->volume.region_segments;
	uint32_t sums[CACHE_ENGINE_SEGMENTS_MAX];
	bool direct = t->buf != NULL && start >= t->g->off &&
		      start + n * size <= t->g->off + t->g->len &&
		      (uintptr_t)(t->buf + (start - t->g->off)) % RT_DIRECT_ALIGN == 0;
	uint8_t *to = direct ? t->buf + (start - t->g->off) : NULL;
	AUTO_BUF struct buf *bounce = NULL;
	int rc = direct ? 0 : rt_pool_get(&e->pool, n * size, &bounce);
	if (rc != 0)
		return rc;
	for (uint32_t k = 0; k < n; k++) {
		if (!is_there(t, i + k))
			return -EAGAIN;
		sums[k] = e->core.entries[t->at[i + k]].sum;
	}
	to = direct ? to : bounce->data;
	/* From here on the writer writes nothing new to the region. */
	e->readers[region]++;
	rc = engine_read(e, cache_slot_at(&e->volume, t->at[i]), to, n * size);
	assert(e->readers[region] > 0);
	if (--e->readers[region] == 0)
		rt_cond_broadcast(&e->unread);
	if (rc == -ECANCELED || rc == -ETIME || rc == -ENOMEM)
		return rc;
	bool all = true;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t name = cache_name_crc(&t->g->name, t->r.first + i + k);
		uint64_t from, end;
		wanted_of(t, i + k, &from, &end);
		if (rc == 0 && take(t, i + k, to + k * size, size, name, sums[k]) == 0) {
			e->stats.flash_bytes += end - from;
			continue;
		}
		e->stats.rotten += rc == 0;
		drop_rotten(t, i + k, sums[k]);
		all = false;
	}
	return all ? 0 : -EAGAIN;
}

static int take_from_memory(struct get *t, uint32_t i, const uint8_t *bytes)
{
	struct cache_engine *e = t->e;
	uint32_t sum = e->core.entries[t->at[i]].sum;
	uint32_t name = cache_name_crc(&t->g->name, t->r.first + i);
	uint64_t from, to;
	if (take(t, i, bytes, e->volume.segment_bytes, name, sum) != 0) {
		e->stats.rotten++;
		drop_rotten(t, i, sum);
		return -EAGAIN;
	}
	wanted_of(t, i, &from, &to);
	e->stats.dram_bytes += to - from;
	return 0;
}

/* Reads all segments, which were found, apart from those that it has. -EAGAIN: look again. */
static int take_all(struct get *t)
{
	for (uint32_t i = 0; i < t->r.segments;) {
		const uint8_t *bytes;
		uint32_t n = 1;
		if (!t->have[i]) {
			int rc = is_there(t, i) ? find_bytes(t, i, &bytes) : -EAGAIN;
			if (rc == 0 && bytes != NULL) {
				rc = take_from_memory(t, i, bytes);
			} else if (rc == 0) {
				n = run_length(t, i);
				rc = take_run(t, i, n);
			}
			if (rc != 0)
				return rc;
		}
		i += n;
	}
	return 0;
}

/* Looks up the segments that the get does not have. Returns how many are missing. */
static uint32_t look(struct get *t)
{
	uint32_t missing = 0;
	(void)cache_core_look(&t->e->core, &t->r, t->at);
	for (uint32_t i = 0; i < t->r.segments; i++)
		missing += t->at[i] == CACHE_NONE && !t->have[i];
	return missing;
}

/* ---- fills ---- */

/* Returns whether a segment that the get misses is being fetched. */
static bool is_filling(const struct get *t)
{
	const struct fill *f;
	list_for_each_entry(f, &t->e->fills, link) {
		if (f->name.block != t->g->name.block || f->name.part != t->g->name.part ||
		    f->name.version != t->g->name.version)
			continue;
		for (uint32_t i = 0; i < t->r.segments; i++)
			if (t->at[i] == CACHE_NONE && !t->have[i] && t->r.first + i >= f->first &&
			    t->r.first + i < f->first + f->n)
				return true;
	}
	return false;
}

/* Inserts segment i. Waits for the writer if too much waits for it. */
static int insert(struct get *t, uint32_t i, const uint8_t *bytes, uint64_t len, uint32_t crc)
{
	struct cache_engine *e = t->e;
	uint64_t size = e->volume.segment_bytes;
	while (e->spare_n == 0 || e->ops_n >= 2 * CACHE_ENGINE_QUEUE) {
		int rc = rt_cond_wait(&e->done);
		if (rc != 0)
			return rc;
	}
	uint64_t key = cache_key(t->r.block, t->r.first + i);
	if (cache_index_find(&e->core.index, key) != CACHE_NONE)
		return 0; /* another block's segment with the same key */
	uint32_t number = cache_core_insert(&e->core, &t->r, i);
	uint8_t *to = e->places[number - e->core.flash_n];
	memcpy(to, bytes, len);
	memset(to + len, 0, size - len);
	uint32_t sum = crc32c_combine(cache_name_crc(&t->g->name, t->r.first + i), crc, len);
	e->core.entries[number].sum =
		crc32c_combine(sum, crc32c(0, to + len, size - len), size - len);
	return 0;
}

/* Fetches the n missing segments from i on. */
static int fill_run(struct get *t, uint32_t i, uint32_t n, cache_fetch_fn *fetch, void *arg)
{
	struct cache_engine *e = t->e;
	uint64_t size = e->volume.segment_bytes, got = 0;
	uint32_t crcs[CACHE_ENGINE_SEGMENTS_MAX];
	AUTO_BUF struct buf *b = NULL;
	int rc = rt_pool_get(&e->pool, n * size, &b);
	if (rc == 0)
		rc = fetch(arg, (t->r.first + i) * size, n * size, b->data, &got, crcs);
	if (rc != 0)
		return rc;
	assert(got <= n * size);
	e->stats.fetched_bytes += got;
	for (uint32_t k = 0; rc == 0 && k < n; k++) {
		uint64_t from, to, len = got > k * size ? min_u64(size, got - k * size) : 0;
		wanted_of(t, i + k, &from, &to);
		if (to > len)
			return -EINVAL; /* behind the end of the block */
		rc = take(t, i + k, b->data + k * size, len, 0, crcs[k]);
		if (rc == 0)
			rc = insert(t, i + k, b->data + k * size, len, crcs[k]);
	}
	return rc;
}

static uint32_t missing_run(const struct get *t, uint32_t i)
{
	uint32_t n = 0, most = (uint32_t)max_u64(RUN_BYTES_MAX / t->e->volume.segment_bytes, 1);
	while (i + n < t->r.segments && n < most && t->at[i + n] == CACHE_NONE && !t->have[i + n])
		n++;
	return n;
}

static int fill_all(struct get *t, cache_fetch_fn *fetch, void *arg)
{
	struct cache_engine *e = t->e;
	struct fill f = {.name = t->g->name, .first = t->r.first, .n = t->r.segments};
	int rc = 0;
	list_push_back(&e->fills, &f.link);
	for (uint32_t i = 0; rc == 0 && i < t->r.segments;) {
		uint32_t n = missing_run(t, i);
		if (n > 0)
			rc = fill_run(t, i, n, fetch, arg);
		i += n > 0 ? n : 1;
	}
	list_remove(&f.link);
	rt_cond_broadcast(&e->filled);
	return rc;
}

/* ---- gets ---- */

static int get_with(struct get *t, cache_fetch_fn *fetch, void *arg, bool admitted)
{
	struct cache_engine *e = t->e;
	if (e->jobs != NULL && !t->g->again)
		cache_jobs_read(e->jobs, &t->r);
	uint32_t missing = t->g->again ? look(t) : cache_core_find(&e->core, &t->r, t->at);
	bool fetched = false, told = t->g->again;
	for (int tries = 0, waits = 0; tries < TRIES_MAX && waits < WAITS_MAX && !e->closing;) {
		int rc;
		if (missing > 0 && t->g->defer)
			return is_filling(t) || cache_core_admit(&e->core, &t->r, t->at)
				       ? -EINPROGRESS
				       : -ENOENT;
		if (missing > 0 && fetch == NULL)
			return -ENOENT;
		if (missing > 0 && is_filling(t)) {
			waits++;
			rc = rt_cond_wait(&e->filled);
		} else if (missing > 0) {
			tries++;
			if (!admitted && !cache_core_admit(&e->core, &t->r, t->at))
				return -ENOENT;
			admitted = fetched = true;
			rc = fill_all(t, fetch, arg);
		} else {
			tries++;
			if (!told && !fetched)
				cache_core_hit(&e->core, &t->r, t->at);
			told = true;
			rc = take_all(t);
			if (rc == 0) {
				e->stats.hits += !fetched && !t->g->again;
				return 0;
			}
		}
		if (rc != 0 && rc != -EAGAIN)
			return rc;
		missing = look(t);
	}
	return -ENOENT;
}

static int get_any(struct cache_engine *e, const struct cache_get *g, cache_fetch_fn *fetch,
		   void *arg, bool admitted, void *buf, uint32_t *crc)
{
	struct get t;
	assert(rt_on_loop(e->loop) && !e->closing);
	if (!get_is_valid(e, g))
		return -EINVAL;
	if (engine_suspended(e)) {
		e->stats.misses++;
		return -ENOENT;
	}
	get_init(&t, e, g, buf);
	e->stats.gets += !g->again;
	e->stats.get_bytes += g->again ? 0 : g->len;
	int rc = get_with(&t, fetch, arg, admitted);
	*crc = 0;
	for (uint32_t i = 0; rc == 0 && i < t.r.segments; i++) {
		uint64_t from, to;
		wanted_of(&t, i, &from, &to);
		*crc = crc32c_combine(*crc, t.crcs[i], to - from);
	}
	if (rc == -ENOENT)
		e->stats.misses++;
	return rc;
}

int cache_engine_get(struct cache_engine *e, const struct cache_get *g, cache_fetch_fn *fetch,
		     void *arg, void *buf, uint32_t *crc)
{
	return get_any(e, g, fetch, arg, false, buf, crc);
}

int cache_engine_fill(struct cache_engine *e, const struct cache_get *g, cache_fetch_fn *fetch,
		      void *arg, void *buf, uint32_t *crc)
{
	return get_any(e, g, fetch, arg, true, buf, crc);
}

void cache_engine_drop(struct cache_engine *e, const struct cache_get *g)
{
	struct get t;
	if (!get_is_valid(e, g))
		return;
	get_init(&t, e, g, NULL);
	cache_core_look(&e->core, &t.r, t.at);
	for (uint32_t i = 0; i < t.r.segments; i++)
		if (t.at[i] != CACHE_NONE)
			cache_core_drop(&e->core, t.at[i]);
}
