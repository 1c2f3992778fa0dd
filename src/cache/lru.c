// SPDX-License-Identifier: Apache-2.0
/*
 * LRU and FIFO over regions, as the flash cache of CacheLib has them.
 *
 * Sealed regions form a list. FIFO frees the region that was sealed first. LRU moves a region to the young end of the
 * list when any of its segments is read, and frees the one at the other end. Everything is admitted, everything that
 * leaves DRAM is written, and what a freed region still holds is gone.
 */
#include <errno.h>
#include <string.h>

#include "cache/policies.h"
#include "cache/region_list.h"

struct lru {
	struct cache_policy base;
	struct region_list list;
	uint32_t regions;
	struct region_link *links;
	bool *listed; /* [region]: sealed, and in the list */
};

static void lru_hit(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		    uint32_t region)
{
	struct lru *l = container_of(p, struct lru, base);
	(void)r;
	if (region == CACHE_NONE || region == l->list.newest || !l->listed[region])
		return;
	region_list_remove(&l->list, l->links, region);
	region_list_push(&l->list, l->links, region);
}

static void lru_sealed(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket)
{
	struct lru *l = container_of(p, struct lru, base);
	(void)group;
	(void)bucket;
	assert(region < l->regions && !l->listed[region]);
	region_list_push(&l->list, l->links, region);
	l->listed[region] = true;
}

static uint32_t lru_victim(struct cache_policy *p)
{
	struct lru *l = container_of(p, struct lru, base);
	assert(l->list.count > 0);
	return l->list.oldest;
}

static void lru_freed(struct cache_policy *p, uint32_t region)
{
	struct lru *l = container_of(p, struct lru, base);
	assert(region < l->regions);
	if (l->listed[region])
		region_list_remove(&l->list, l->links, region);
	l->listed[region] = false;
}

static void lru_close(struct cache_policy *p)
{
	struct lru *l = container_of(p, struct lru, base);
	free(l->links);
	free(l->listed);
	free(l);
}

static const struct cache_policy_ops lru_ops = {
	.request = cache_any_request,
	.admit = cache_any_admit,
	.hit = lru_hit,
	.place = cache_any_place,
	.sealed = lru_sealed,
	.restored = cache_any_restored,
	.victim = lru_victim,
	.freed = lru_freed,
	.tick = cache_any_tick,
	.close = lru_close,
};

static const struct cache_policy_ops fifo_ops = {
	.request = cache_any_request,
	.admit = cache_any_admit,
	.hit = cache_any_hit,
	.place = cache_any_place,
	.sealed = lru_sealed,
	.restored = cache_any_restored,
	.victim = lru_victim,
	.freed = lru_freed,
	.tick = cache_any_tick,
	.close = lru_close,
};

static int open_list(struct cache_policy **out, const struct cache_params *params,
		     const struct cache_policy_ops *ops)
{
	struct lru *l = calloc(1, sizeof(*l));
	*out = NULL;
	if (l == NULL)
		return -ENOMEM;
	*l = (struct lru){.base.ops = ops, .list = REGION_LIST_EMPTY, .regions = params->regions};
	l->links = calloc(params->regions, sizeof(*l->links));
	l->listed = calloc(params->regions, sizeof(*l->listed));
	if (l->links == NULL || l->listed == NULL) {
		lru_close(&l->base);
		return -ENOMEM;
	}
	*out = &l->base;
	return 0;
}

int cache_lru_open(struct cache_policy **out, const struct cache_params *params)
{
	return open_list(out, params, &lru_ops);
}

int cache_fifo_open(struct cache_policy **out, const struct cache_params *params)
{
	return open_list(out, params, &fifo_ops);
}
