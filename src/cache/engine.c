// SPDX-License-Identifier: Apache-2.0
#include "cache/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cache/control.h"
#include "cache/engine_impl.h"

#define SEGMENT_BYTES (256 * KIB)
#define SEGMENT_BYTES_MAX (16 * MIB) /* a quarter of the buffers for reads */
#define REGION_BYTES (16 * MIB)
#define REGIONS_WANTED 128u /* smaller regions rather than fewer ones */
#define REGION_SEGMENTS_MIN 8ull
#define REGIONS_MIN 8u
#define REGIONS_PER_GROUP 16u
#define GROUPS_WANTED 64u
#define GROUPS_FEW \
	8u /* small flash: open regions for a few buckets, so that none is sealed nearly empty */
#define REGIONS_PER_GROUP_FEW 4u
#define DRAM_SEGMENTS_MIN 16u
#define POOL_BYTES (64 * MIB)
#define FAILURES_MAX 4u
#define SUSPEND_NS (60 * NS_PER_S)
#define TICK_NS NS_PER_S

/* ---- the device ---- */

bool engine_suspended(const struct cache_engine *e)
{
	return e->suspended_until_ns > 0 && rt_now_ns() < e->suspended_until_ns;
}

void engine_note(struct cache_engine *e, int64_t rc)
{
	if (rc >= 0) {
		e->failures = 0;
		e->suspended_until_ns = 0;
		return;
	}
	if (rc == -ECANCELED || rc == -ETIME || rc == -ENOMEM)
		return;
	e->stats.failures++;
	if (++e->failures < FAILURES_MAX)
		return;
	/* after the minute a single failure begins the next one */
	e->failures = FAILURES_MAX - 1;
	e->suspended_until_ns = rt_now_ns() + SUSPEND_NS;
	log_warn("cache_suspended", "err=%s", err_name((int)rc));
}

int engine_read(struct cache_engine *e, uint64_t at, void *buf, uint64_t len)
{
	int64_t n = rt_file_read(e->file, buf, len, at);
	engine_note(e, n);
	e->stats.device_reads += n > 0 ? (uint64_t)n : 0;
	if (n >= 0 && (uint64_t)n < len)
		memset((uint8_t *)buf + n, 0, len - (uint64_t)n); /* a file that was cut */
	return n < 0 ? (int)n : 0;
}

static int device_open(struct cache_engine *e, const struct cache_engine_options *o)
{
	unsigned flags = RT_READ | RT_WRITE | RT_CREATE | RT_LOCK;
	int rc = rt_file_open(&e->file, o->path, flags | RT_DIRECT);
	if (rc == -EINVAL) /* a filesystem without direct I/O */
		rc = rt_file_open(&e->file, o->path, flags);
	return rc;
}

/* ---- buckets ---- */

static uint16_t bucket_add(struct cache_engine *e, uint64_t id)
{
	if (e->buckets_n == e->buckets_room) {
		uint32_t room = e->buckets_room * 2 + 16;
		uint64_t *more = realloc(e->bucket_ids, room * sizeof(*more));
		if (more == NULL)
			return 0;
		e->bucket_ids = more;
		e->buckets_room = room;
	}
	if (e->buckets_n > 0 &&
	    map_put(&e->buckets, id, (void *)(uintptr_t)(e->buckets_n + 1)) != 0)
		return 0;
	e->bucket_ids[e->buckets_n] = id;
	return (uint16_t)e->buckets_n++;
}

uint16_t engine_bucket(struct cache_engine *e, uint64_t id)
{
	void *known = map_get(&e->buckets, id);
	if (known != NULL)
		return (uint16_t)((uintptr_t)known - 1);
	return e->buckets_n < CACHE_BUCKETS_MAX ? bucket_add(e, id) : 0;
}

/* ---- options ---- */

static int shape_init(struct cache_engine *e, const struct cache_engine_options *o)
{
	uint64_t segment = o->segment_bytes != 0 ? o->segment_bytes : SEGMENT_BYTES;
	uint64_t wanted = o->flash_bytes / REGIONS_WANTED;
	uint64_t region = o->region_bytes != 0 ? o->region_bytes : min_u64(REGION_BYTES, wanted);
	if (segment % CACHE_PAGE_BYTES != 0 || segment > SEGMENT_BYTES_MAX ||
	    region > CACHE_REGION_BYTES_MAX || o->flash_bytes < CACHE_PAGE_BYTES)
		return -EINVAL;
	uint64_t n = min_u64(max_u64(region / segment, 1), CACHE_REGION_SEGMENTS_MAX);
	/* Footers of regions with fewer segments would be more than a few percent. */
	if (o->region_bytes == 0 && o->flash_bytes >= REGION_SEGMENTS_MIN * REGIONS_MIN * segment)
		n = max_u64(n, REGION_SEGMENTS_MIN);
	e->volume = (struct cache_volume){.segment_bytes = (uint32_t)segment,
					  .region_segments = (uint32_t)n,
					  .owner = {o->owner[0], o->owner[1]}};
	uint64_t regions = (o->flash_bytes - CACHE_PAGE_BYTES) / cache_region_bytes(&e->volume);
	if (regions < 4 || regions * n >= UINT32_MAX / 2)
		return -EINVAL;
	e->volume.regions = (uint32_t)regions;
	return 0;
}

static int core_init(struct cache_engine *e, const struct cache_engine_options *o)
{
	const struct cache_policy_kind *kind =
		cache_policy_find(o->policy != NULL ? o->policy : "lru");
	const struct cache_volume *v = &e->volume;
	uint64_t dram_n = max_u64(o->dram_bytes / v->segment_bytes, DRAM_SEGMENTS_MIN);
	uint64_t few = min_u64(GROUPS_FEW, v->regions / REGIONS_PER_GROUP_FEW);
	uint64_t groups = max_u64(min_u64(GROUPS_WANTED, v->regions / REGIONS_PER_GROUP), few);
	struct cache_params p = {.segment_bytes = v->segment_bytes,
				 .region_segments = v->region_segments,
				 .regions = v->regions,
				 .groups_max = (uint32_t)groups,
				 .dram_bytes = dram_n * v->segment_bytes,
				 .write_limit_bytes_s = o->write_limit_bytes_s,
				 .min_threshold = o->min_threshold,
				 .reinsert_offset = o->reinsert_offset,
				 .refresh_ms = o->refresh_ms,
				 .history_ms = o->history_ms,
				 .history_bytes = o->history_bytes,
				 .share = o->share > 0 ? o->share : 1,
				 .seed = rt_random_u64(),
				 .jobs = o->jobs};
	if (kind == NULL || cache_params_check(&p) != NULL || dram_n > UINT32_MAX / 2)
		return -EINVAL;
	int rc = cache_core_init(&e->core, &p, kind->open, (uint32_t)dram_n);
	if (rc != 0)
		return rc;
	e->core.ops = &engine_core_ops;
	e->core.arg = e;
	return 0;
}

static int memory_init(struct cache_engine *e)
{
	const struct cache_volume *v = &e->volume;
	uint64_t dram_n = e->core.dram_n, buffers = dram_n + CACHE_ENGINE_QUEUE + 1;
	e->memory = aligned_alloc(CACHE_PAGE_BYTES, buffers * v->segment_bytes);
	e->blank = aligned_alloc(CACHE_PAGE_BYTES, CACHE_PAGE_BYTES);
	e->places = calloc(dram_n, sizeof(*e->places));
	e->kept_from =
		calloc((CACHE_VICTIMS_MAX + 1ULL) * v->region_segments, sizeof(*e->kept_from));
	e->readers = calloc(v->regions, sizeof(*e->readers));
	e->pending = calloc(v->regions, sizeof(*e->pending));
	if (e->memory == NULL || e->blank == NULL || e->places == NULL || e->kept_from == NULL ||
	    e->readers == NULL || e->pending == NULL)
		return -ENOMEM;
	memset(e->blank, 0, CACHE_PAGE_BYTES);
	for (uint64_t i = 0; i < dram_n; i++)
		e->places[i] = e->memory + i * v->segment_bytes;
	for (uint64_t i = 0; i < CACHE_ENGINE_QUEUE; i++)
		e->spares[e->spare_n++] = e->memory + (dram_n + i) * v->segment_bytes;
	e->copying = e->memory + (buffers - 1) * v->segment_bytes;
	uint64_t index = e->core.flash_n * sizeof(struct cache_entry) +
			 e->core.index.slots_n * sizeof(uint32_t);
	e->stats.memory_bytes = index + v->regions * (2 * sizeof(uint32_t) + 2 * sizeof(uint32_t));
	(void)bucket_add(e, 0); /* number 0: all without a number of their own */
	return e->buckets_n == 1 ? 0 : -ENOMEM;
}

/* ---- life ---- */

static void tick(struct cache_engine *e)
{
	uint64_t now_ms = rt_now_ns() / NS_PER_MS;
	if (e->jobs != NULL)
		cache_jobs_tick(e->jobs, now_ms);
	e->core.policy->ops->tick(e->core.policy, now_ms);
}

static void ticker(void *arg)
{
	struct cache_engine *e = arg;
	rt_background();
	while (rt_sleep_ns(TICK_NS) == 0)
		tick(e);
}

static void engine_free(struct cache_engine *e)
{
	engine_ops_free(e);
	if (e->file != NULL)
		rt_file_close(e->file);
	if (e->core.policy != NULL)
		cache_core_fini(&e->core);
	rt_pool_fini(&e->pool);
	map_fini(&e->buckets);
	free(e->bucket_ids);
	free(e->memory);
	free(e->blank);
	free(e->places);
	free(e->kept_from);
	free(e->readers);
	free(e->pending);
	free(e);
}

static int start(struct cache_engine *e, const struct cache_engine_options *o)
{
	int rc = shape_init(e, o);
	if (rc == 0)
		rc = core_init(e, o);
	if (rc == 0)
		rc = memory_init(e);
	if (rc == 0)
		rc = device_open(e, o);
	if (rc == 0)
		rc = engine_format(e, o);
	if (rc == 0)
		rc = rt_file_allocate(e->file, 0, cache_volume_bytes(&e->volume), false);
	if (rc == -EOPNOTSUPP || rc == -ENODEV) /* a block device, or a filesystem that cannot */
		rc = 0;
	if (rc == 0)
		rc = engine_restore(e);
	if (rc == 0)
		rc = rt_spawn(&e->writer, "cache_writer", engine_writer, e);
	if (rc == 0)
		rc = rt_spawn(&e->ticker, "cache_ticker", ticker, e);
	return rc;
}

static void stop(struct cache_engine *e)
{
	e->closing = true;
	if (e->ticker != NULL) {
		rt_cancel(e->ticker);
		rt_join(e->ticker);
	}
	if (e->writer != NULL) {
		cache_core_seal_all(&e->core);
		rt_cond_broadcast(&e->work);
		rt_join(e->writer);
	}
}

int cache_engine_open(struct cache_engine **out, const struct cache_engine_options *options)
{
	struct cache_engine *e = calloc(1, sizeof(*e));
	*out = NULL;
	if (e == NULL)
		return -ENOMEM;
	e->loop = rt_loop_self();
	e->jobs = options->jobs;
	list_init(&e->ops);
	list_init(&e->fills);
	rt_cond_init(&e->work);
	rt_cond_init(&e->done);
	rt_cond_init(&e->unread);
	rt_cond_init(&e->filled);
	rt_pool_init(&e->pool, POOL_BYTES);
	map_init(&e->buckets, CACHE_BUCKETS_MAX);
	int rc = start(e, options);
	if (rc != 0) {
		stop(e);
		engine_free(e);
		return rc;
	}
	*out = e;
	return 0;
}

void cache_engine_close(struct cache_engine *e)
{
	assert(rt_on_loop(e->loop) && list_empty(&e->fills));
	rt_shield_enter();
	stop(e);
	rt_shield_leave();
	engine_free(e);
}

void cache_engine_stats(const struct cache_engine *e, struct cache_engine_stats *out)
{
	*out = e->stats;
	out->segments = e->core.index.count;
	out->segments_max = e->core.flash_n;
	out->regions = e->volume.regions;
	out->regions_free = e->core.free_n;
	out->freed = e->core.counts.freed;
	out->buckets = e->buckets_n;
	out->suspended = engine_suspended(e);
}

const struct cache_core *cache_engine_core(const struct cache_engine *e)
{
	return &e->core;
}

struct control *cache_engine_control(struct cache_engine *e)
{
	struct cache_policy *p = e->core.policy;
	return p->ops->control != NULL ? p->ops->control(p) : NULL;
}

uint32_t cache_engine_bucket(const struct cache_engine *e, uint64_t bucket)
{
	void *known = map_get(&e->buckets, bucket);
	return known != NULL ? (uint32_t)((uintptr_t)known - 1) : CACHE_NONE;
}

uint16_t cache_engine_bucket_add(struct cache_engine *e, uint64_t bucket)
{
	assert(rt_on_loop(e->loop));
	return engine_bucket(e, bucket);
}

void cache_engine_jobs_changed(struct cache_engine *e)
{
	struct control *c = cache_engine_control(e);
	assert(rt_on_loop(e->loop));
	if (c != NULL)
		c->fresh = true;
	tick(e);
}
