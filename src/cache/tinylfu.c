// SPDX-License-Identifier: Apache-2.0
/*
 * W-TinyLFU over regions (Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", 2017).
 *
 * The window is DRAM, in order of use. Flash is a segmented LRU of regions: a sealed region is on probation, a read of
 * one of its segments makes it protected, and the protected regions are at most four fifths of all; the one that was
 * used least recently falls back on probation. The region on probation that was used least recently is freed.
 *
 * A segment that leaves the window is written only if it was read more often than the segments of the region that
 * would be freed for it. Reads are counted in a count-min sketch of four rows of 4-bit counters, which are all halved
 * when ten times as many reads were counted as flash holds segments, so that old reads lose their weight.
 */
#include <errno.h>
#include <string.h>

#include "cache/policies.h"
#include "cache/region_list.h"
#include "cache/region_sample.h"

#define LFU_ROWS 4u
#define LFU_COUNT_MAX 15u
#define LFU_SAMPLE_FACTOR 10u /* reads until counters are halved, for each segment of flash */

enum lfu_list { LFU_PROBATION, LFU_PROTECTED, LFU_LISTS };

struct tinylfu {
	struct cache_policy base;
	struct region_list list[LFU_LISTS];
	struct region_link *links;
	uint8_t *list_of; /* [region]: 1 + enum lfu_list; 0: not sealed */
	uint32_t regions, full_at;
	struct region_samples keys;
	uint8_t *counters; /* LFU_ROWS rows of row_mask + 1 counters */
	uint64_t row_mask, counted, halve_at;
	uint32_t judged; /* region whose reads are in judged_reads; CACHE_NONE: none */
	double judged_reads;
	uint32_t judged_uses;
};

static uint64_t lfu_slot(const struct tinylfu *t, uint64_t key, uint32_t row)
{
	uint64_t h = mix_u64(key) + (key >> 32 | key << 32) * (2ULL * row + 1);
	return row * (t->row_mask + 1) + ((h ^ h >> 29) & t->row_mask);
}

static uint32_t lfu_reads(const struct tinylfu *t, uint64_t key)
{
	uint32_t least = LFU_COUNT_MAX;
	for (uint32_t row = 0; row < LFU_ROWS; row++) {
		uint32_t n = t->counters[lfu_slot(t, key, row)];
		least = n < least ? n : least;
	}
	return least;
}

static void lfu_count(struct tinylfu *t, uint64_t key)
{
	for (uint32_t row = 0; row < LFU_ROWS; row++) {
		uint8_t *n = &t->counters[lfu_slot(t, key, row)];
		*n = (uint8_t)(*n < LFU_COUNT_MAX ? *n + 1 : *n);
	}
	if (++t->counted < t->halve_at)
		return;
	for (uint64_t i = 0; i < LFU_ROWS * (t->row_mask + 1); i++)
		t->counters[i] >>= 1;
	t->counted /= 2;
	t->judged = CACHE_NONE;
}

static void lfu_request(struct cache_policy *p, const struct cache_request *r)
{
	struct tinylfu *t = container_of(p, struct tinylfu, base);
	for (uint32_t i = 0; i < r->segments; i++)
		lfu_count(t, cache_key(r->block, r->first + i));
}

static void lfu_push(struct tinylfu *t, enum lfu_list list, uint32_t region)
{
	region_list_push(&t->list[list], t->links, region);
	t->list_of[region] = (uint8_t)(1 + list);
}

static void lfu_hit(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		    uint32_t region)
{
	struct tinylfu *t = container_of(p, struct tinylfu, base);
	(void)r;
	if (region == CACHE_NONE || t->list_of[region] == 0)
		return;
	enum lfu_list list = t->list_of[region] - 1;
	if (list == LFU_PROTECTED && t->list[list].newest == region)
		return;
	region_list_remove(&t->list[list], t->links, region);
	lfu_push(t, LFU_PROTECTED, region);
	struct region_list *protected = &t->list[LFU_PROTECTED];
	if (protected->count > t->regions / 5 * 4 && protected->count > 1) {
		uint32_t falls = protected->oldest;
		region_list_remove(protected, t->links, falls);
		lfu_push(t, LFU_PROBATION, falls);
	}
}

static uint32_t lfu_victim(struct cache_policy *p)
{
	struct tinylfu *t = container_of(p, struct tinylfu, base);
	uint32_t region = t->list[LFU_PROBATION].oldest;
	if (region == CACHE_NONE)
		region = t->list[LFU_PROTECTED].oldest;
	assert(region != CACHE_NONE);
	return region;
}

/* Returns the mean number of reads of the segments of the next victim. */
static double lfu_victim_reads(struct tinylfu *t)
{
	uint32_t region = lfu_victim(&t->base);
	if (region == t->judged && t->judged_uses++ < REGION_SAMPLES)
		return t->judged_reads;
	double reads = 0;
	for (uint32_t i = 0; i < t->keys.count[region]; i++)
		reads += lfu_reads(t, t->keys.of[region].value[i]);
	t->judged = region;
	t->judged_uses = 0;
	t->judged_reads = t->keys.count[region] > 0 ? reads / t->keys.count[region] : 0;
	return t->judged_reads;
}

static uint32_t lfu_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	struct tinylfu *t = container_of(p, struct tinylfu, base);
	if (region != CACHE_NONE)
		return CACHE_DROP;
	bool full = t->list[LFU_PROBATION].count + t->list[LFU_PROTECTED].count >= t->full_at;
	if (full && lfu_reads(t, e->key) <= lfu_victim_reads(t))
		return CACHE_DROP;
	region_samples_add(&t->keys, e->bucket, e->key);
	return e->bucket;
}

static void lfu_sealed(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket)
{
	struct tinylfu *t = container_of(p, struct tinylfu, base);
	(void)bucket;
	assert(region < t->regions && t->list_of[region] == 0);
	region_samples_seal(&t->keys, group, region);
	lfu_push(t, LFU_PROBATION, region);
}

static void lfu_restored(struct cache_policy *p, const struct cache_entry *e)
{
	struct tinylfu *t = container_of(p, struct tinylfu, base);
	region_samples_add(&t->keys, CACHE_NONE, e->key);
}

static void lfu_freed(struct cache_policy *p, uint32_t region)
{
	struct tinylfu *t = container_of(p, struct tinylfu, base);
	if (t->list_of[region] != 0)
		region_list_remove(&t->list[t->list_of[region] - 1], t->links, region);
	t->list_of[region] = 0;
	if (t->judged == region)
		t->judged = CACHE_NONE;
}

static void lfu_close(struct cache_policy *p)
{
	struct tinylfu *t = container_of(p, struct tinylfu, base);
	region_samples_fini(&t->keys);
	free(t->counters);
	free(t->links);
	free(t->list_of);
	free(t);
}

static const struct cache_policy_ops lfu_ops = {
	.request = lfu_request,
	.admit = cache_any_admit,
	.hit = lfu_hit,
	.place = lfu_place,
	.sealed = lfu_sealed,
	.restored = lfu_restored,
	.victim = lfu_victim,
	.freed = lfu_freed,
	.tick = cache_any_tick,
	.close = lfu_close,
};

int cache_tinylfu_open(struct cache_policy **out, const struct cache_params *params)
{
	struct tinylfu *t = calloc(1, sizeof(*t));
	*out = NULL;
	if (t == NULL)
		return -ENOMEM;
	uint64_t segments = (uint64_t)params->regions * params->region_segments;
	*t = (struct tinylfu){.base.ops = &lfu_ops,
			      .list = {REGION_LIST_EMPTY, REGION_LIST_EMPTY},
			      .regions = params->regions,
			      .full_at = params->regions > params->groups_max + 2
						 ? params->regions - params->groups_max - 2
						 : 1,
			      .halve_at = segments * LFU_SAMPLE_FACTOR,
			      .judged = CACHE_NONE};
	uint64_t row = 64;
	while (row < segments)
		row *= 2;
	t->row_mask = row - 1;
	t->counters = calloc(LFU_ROWS, row);
	t->links = calloc(params->regions, sizeof(*t->links));
	t->list_of = calloc(params->regions, sizeof(*t->list_of));
	int rc = region_samples_init(&t->keys, params->regions, params->seed);
	if (t->counters == NULL || t->links == NULL || t->list_of == NULL)
		rc = -ENOMEM;
	if (rc != 0) {
		lfu_close(&t->base);
		return rc;
	}
	*out = &t->base;
	return 0;
}
