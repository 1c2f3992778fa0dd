// SPDX-License-Identifier: Apache-2.0
#include "cache/policy.h"

#include <stddef.h>

void cache_below_request(struct cache_policy *p, const struct cache_request *r)
{
	p->below->ops->request(p->below, r);
}

bool cache_below_admit(struct cache_policy *p, const struct cache_request *r, uint32_t index)
{
	return p->below->ops->admit(p->below, r, index);
}

void cache_below_hit(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		     uint32_t region)
{
	p->below->ops->hit(p->below, r, e, region);
}

uint32_t cache_below_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	return p->below->ops->place(p->below, e, region);
}

void cache_below_sealed(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket)
{
	p->below->ops->sealed(p->below, region, group, bucket);
}

void cache_below_restored(struct cache_policy *p, const struct cache_entry *e)
{
	p->below->ops->restored(p->below, e);
}

uint32_t cache_below_victim(struct cache_policy *p)
{
	return p->below->ops->victim(p->below);
}

void cache_below_freed(struct cache_policy *p, uint32_t region)
{
	p->below->ops->freed(p->below, region);
}

void cache_below_tick(struct cache_policy *p, uint64_t now_ms)
{
	p->below->ops->tick(p->below, now_ms);
}

void cache_any_request(struct cache_policy *p, const struct cache_request *r)
{
	(void)p;
	(void)r;
}

bool cache_any_admit(struct cache_policy *p, const struct cache_request *r, uint32_t index)
{
	(void)p;
	assert(index < r->segments);
	return true;
}

void cache_any_hit(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		   uint32_t region)
{
	(void)p;
	(void)r;
	(void)e;
	(void)region;
}

uint32_t cache_any_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	(void)p;
	return region == CACHE_NONE ? e->bucket : CACHE_DROP;
}

void cache_any_restored(struct cache_policy *p, const struct cache_entry *e)
{
	(void)p;
	(void)e;
}

void cache_any_tick(struct cache_policy *p, uint64_t now_ms)
{
	(void)p;
	(void)now_ms;
}

void cache_policy_close(struct cache_policy *p)
{
	while (p != NULL) {
		struct cache_policy *below = p->below;
		p->ops->close(p);
		p = below;
	}
}
