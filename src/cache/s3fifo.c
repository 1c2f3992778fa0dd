// SPDX-License-Identifier: Apache-2.0
/*
 * S3-FIFO on a log of regions (Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023).
 *
 * Two queues of regions, in the order in which they were sealed: small (a tenth of the flash) and main. A segment
 * that leaves DRAM is written to small, or to main if its key is among the ghosts: the segments that left small last,
 * as many as main holds. Each segment counts its reads up to 3. If small has more than its tenth, its oldest region is
 * freed: segments with at least 2 reads move to main and begin at 0 again, the others become ghosts. Else the oldest
 * region of main is freed: segments that were read are written again, with one read less. Only queues are needed, so
 * the algorithm fits a log; what it moves and keeps is written again.
 */
#include <errno.h>

#include "cache/policies.h"
#include "cache/recent.h"
#include "cache/region_list.h"

#define S3_READS_MAX 3u
#define S3_READS_TO_MAIN 2u
#define S3_SMALL_SHARE 10u /* small is this part of all regions */

enum s3_queue { S3_SMALL, S3_MAIN, S3_QUEUES };

struct s3fifo {
	struct cache_policy base;
	struct region_list queue[S3_QUEUES];
	struct region_link *links;
	uint8_t *queue_of; /* [region]: 1 + enum s3_queue; 0: not sealed */
	uint32_t regions;
	struct recent ghosts;
};

static void s3_hit(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		   uint32_t region)
{
	(void)p;
	(void)r;
	(void)region;
	if (e->mark < S3_READS_MAX)
		e->mark++;
}

static uint32_t s3_group(const struct cache_entry *e, enum s3_queue queue)
{
	return (uint32_t)e->bucket * S3_QUEUES + queue;
}

static uint32_t s3_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	struct s3fifo *s = container_of(p, struct s3fifo, base);
	if (region == CACHE_NONE)
		return s3_group(e, recent_has(&s->ghosts, e->key) ? S3_MAIN : S3_SMALL);
	if (s->queue_of[region] == 1 + S3_MAIN) {
		if (e->mark == 0)
			return CACHE_DROP;
		e->mark--;
		return s3_group(e, S3_MAIN);
	}
	if (e->mark >= S3_READS_TO_MAIN) {
		e->mark = 0;
		return s3_group(e, S3_MAIN);
	}
	recent_add(&s->ghosts, e->key);
	return CACHE_DROP;
}

static void s3_sealed(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket)
{
	struct s3fifo *s = container_of(p, struct s3fifo, base);
	enum s3_queue queue = group != CACHE_NONE ? group % S3_QUEUES : S3_MAIN;
	assert(region < s->regions && s->queue_of[region] == 0);
	assert(group == CACHE_NONE || group / S3_QUEUES == bucket);
	region_list_push(&s->queue[queue], s->links, region);
	s->queue_of[region] = (uint8_t)(1 + queue);
}

static uint32_t s3_victim(struct cache_policy *p)
{
	struct s3fifo *s = container_of(p, struct s3fifo, base);
	const struct region_list *small = &s->queue[S3_SMALL], *main = &s->queue[S3_MAIN];
	assert(small->count + main->count > 0);
	if (small->count > s->regions / S3_SMALL_SHARE || main->count == 0)
		return small->count > 0 ? small->oldest : main->oldest;
	return main->oldest;
}

/* The engine asks place() for each segment before it frees the region, so queue_of is still known there. */
static void s3_freed(struct cache_policy *p, uint32_t region)
{
	struct s3fifo *s = container_of(p, struct s3fifo, base);
	if (s->queue_of[region] != 0)
		region_list_remove(&s->queue[s->queue_of[region] - 1], s->links, region);
	s->queue_of[region] = 0;
}

static void s3_close(struct cache_policy *p)
{
	struct s3fifo *s = container_of(p, struct s3fifo, base);
	recent_fini(&s->ghosts);
	free(s->links);
	free(s->queue_of);
	free(s);
}

static const struct cache_policy_ops s3_ops = {
	.request = cache_any_request,
	.admit = cache_any_admit,
	.hit = s3_hit,
	.place = s3_place,
	.sealed = s3_sealed,
	.restored = cache_any_restored,
	.victim = s3_victim,
	.freed = s3_freed,
	.tick = cache_any_tick,
	.close = s3_close,
};

int cache_s3fifo_open(struct cache_policy **out, const struct cache_params *params)
{
	struct s3fifo *s = calloc(1, sizeof(*s));
	*out = NULL;
	if (s == NULL)
		return -ENOMEM;
	*s = (struct s3fifo){.base.ops = &s3_ops,
			     .queue = {REGION_LIST_EMPTY, REGION_LIST_EMPTY},
			     .regions = params->regions};
	s->links = calloc(params->regions, sizeof(*s->links));
	s->queue_of = calloc(params->regions, sizeof(*s->queue_of));
	uint64_t keys = (uint64_t)params->regions * params->region_segments;
	int rc = recent_init(&s->ghosts, keys - keys / S3_SMALL_SHARE);
	if (s->links == NULL || s->queue_of == NULL)
		rc = -ENOMEM;
	if (rc != 0) {
		s3_close(&s->base);
		return rc;
	}
	*out = &s->base;
	return 0;
}
