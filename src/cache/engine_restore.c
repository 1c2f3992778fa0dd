// SPDX-License-Identifier: Apache-2.0
/* The start of an engine: the superblock, and the index from the footers of the regions. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cache/engine_impl.h"

#define READERS 32u /* footers that are read at a time */

/* ---- the superblock ---- */

static int super_write(struct cache_engine *e, uint8_t *page)
{
	cache_super_encode(&e->volume, page);
	int rc = rt_file_write(e->file, page, CACHE_PAGE_BYTES, 0);
	if (rc == 0)
		rc = rt_file_sync(e->file);
	if (rc == 0) {
		e->stats.device_bytes += CACHE_PAGE_BYTES;
		log_info("cache_formatted", "regions=%" PRIu32 " segment_bytes=%" PRIu32,
			 e->volume.regions, e->volume.segment_bytes);
	}
	return rc;
}

static bool same_shape(const struct cache_volume *a, const struct cache_volume *b)
{
	return a->segment_bytes == b->segment_bytes && a->region_segments == b->region_segments &&
	       a->regions == b->regions;
}

int engine_format(struct cache_engine *e, const struct cache_engine_options *o)
{
	AUTO_FREE uint8_t *page = aligned_alloc(CACHE_PAGE_BYTES, CACHE_PAGE_BYTES);
	struct cache_volume is;
	if (page == NULL)
		return -ENOMEM;
	memset(page, 0, CACHE_PAGE_BYTES);
	int64_t n = rt_file_read(e->file, page, CACHE_PAGE_BYTES, 0);
	if (n < 0)
		return (int)n;
	int rc = cache_super_decode(page, CACHE_PAGE_BYTES, &is);
	bool ours = memcmp(page, "TRNCACHE", 8) == 0;
	if (rc != 0 && rc != -ENOENT && !ours && !o->format)
		return -ENOTEMPTY;
	if (rc == 0 && (is.owner[0] != o->owner[0] || is.owner[1] != o->owner[1]))
		return -EPERM;
	if (rc == 0 && same_shape(&is, &e->volume)) {
		e->volume.volume = is.volume;
		return 0;
	}
	if (rc != -ENOENT)
		log_warn("cache_formatted_anew", "why=%s",
			 LOG_QUOTE(rc == 0 ? "other sizes" : err_text(rc)));
	e->volume.volume = rt_random_u64();
	return super_write(e, page);
}

/* ---- footers ---- */

struct restore {
	struct cache_engine *e;
	uint32_t next;
	uint64_t *seals; /* [region]: 0: it was not sealed */
	uint32_t bad;
	int rc;
};

static void restore_region(struct restore *r, const struct cache_footer *f,
			   struct cache_entry *entries)
{
	struct cache_engine *e = r->e;
	uint16_t bucket = engine_bucket(e, f->bucket_id);
	if (f->seal == 0 || f->seal == UINT64_MAX) {
		r->bad++;
		return;
	}
	for (uint32_t i = 0; i < f->segments; i++)
		entries[i].bucket = bucket;
	r->seals[f->region] = f->seal;
	cache_core_restore(&e->core, f->region, entries, f->segments, r->seals);
	e->seal = max_u64(e->seal, f->seal);
}

static int read_footer(struct restore *r, uint32_t region, uint8_t *buf,
		       struct cache_entry *entries)
{
	struct cache_engine *e = r->e;
	uint64_t segments = (uint64_t)e->volume.segment_bytes * e->volume.region_segments;
	uint64_t len = cache_footer_bytes(e->volume.region_segments);
	struct cache_footer f;
	int rc = engine_read(e, cache_region_at(&e->volume, region) + segments, buf, len);
	if (rc == -ECANCELED || rc == -ETIME)
		return rc;
	if (rc == 0)
		rc = cache_footer_decode(&e->volume, region, buf, len, &f, entries);
	if (rc == 0)
		restore_region(r, &f, entries);
	else if (rc != -ENOENT)
		r->bad++;
	return 0;
}

static void restore_fiber(void *arg)
{
	struct restore *r = arg;
	const struct cache_volume *v = &r->e->volume;
	AUTO_FREE uint8_t *buf =
		aligned_alloc(CACHE_PAGE_BYTES, cache_footer_bytes(v->region_segments));
	AUTO_FREE struct cache_entry *entries = calloc(v->region_segments, sizeof(*entries));
	if (buf == NULL || entries == NULL) {
		r->rc = -ENOMEM;
		return;
	}
	while (r->rc == 0 && r->next < v->regions) {
		int rc = read_footer(r, r->next++, buf, entries);
		if (rc != 0)
			r->rc = rc;
	}
}

static int by_seal(const void *a, const void *b, void *arg)
{
	const uint64_t *seals = arg;
	uint64_t x = seals[*(const uint32_t *)a], y = seals[*(const uint32_t *)b];
	return x < y ? -1 : x > y;
}

static int restore_end(struct restore *r)
{
	struct cache_engine *e = r->e;
	AUTO_FREE uint32_t *order = calloc(e->volume.regions, sizeof(*order));
	uint32_t n = 0;
	if (order == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->volume.regions; i++)
		if (r->seals[i] != 0)
			order[n++] = i;
	qsort_r(order, n, sizeof(*order), by_seal, r->seals);
	cache_core_restore_end(&e->core, order, n);
	e->stats.restored = e->core.index.count;
	e->stats.restored_regions = n;
	e->stats.bad_footers = r->bad;
	return 0;
}

int engine_restore(struct cache_engine *e)
{
	uint64_t start = rt_now_ns();
	struct rt_group g;
	struct restore r = {.e = e};
	AUTO_FREE uint64_t *seals = calloc(e->volume.regions, sizeof(*seals));
	if (seals == NULL)
		return -ENOMEM;
	r.seals = seals;
	rt_group_init(&g);
	for (uint32_t i = 1; i < READERS && i < e->volume.regions; i++)
		if (rt_group_spawn(&g, "cache_restore", restore_fiber, &r) != 0)
			break;
	restore_fiber(&r);
	rt_group_join(&g);
	int rc = r.rc != 0 ? r.rc : restore_end(&r);
	e->stats.restore_ns = rt_elapsed_ns(start);
	if (rc == 0)
		log_info("cache_restored",
			 "segments=%" PRIu64 " regions=%" PRIu64 " bad_footers=%" PRIu64,
			 e->stats.restored, e->stats.restored_regions, e->stats.bad_footers);
	return rc;
}
