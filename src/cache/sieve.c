// SPDX-License-Identifier: Apache-2.0
/*
 * SIEVE over regions (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024).
 *
 * Sealed regions form a queue in the order in which they were sealed. A read of any segment marks its region as
 * visited and moves nothing. A hand goes from the oldest region towards the newest: a visited region loses its mark
 * and stays where it is, the first region without one is freed, and the hand remembers where it stopped. Behind the
 * newest region it begins again at the oldest. So new regions that are not read soon leave early, and regions that
 * are read keep their place.
 */
#include <errno.h>

#include "cache/policies.h"
#include "cache/region_list.h"

struct sieve {
	struct cache_policy base;
	struct region_list list;
	uint32_t hand; /* the region at which the search begins; CACHE_NONE: the oldest */
	uint32_t regions;
	struct region_link *links;
	uint8_t *state; /* [region] */
};

enum { SIEVE_LISTED = 1, SIEVE_VISITED = 2 };

static void sieve_hit(struct cache_policy *p, const struct cache_request *r, struct cache_entry *e,
		      uint32_t region)
{
	struct sieve *s = container_of(p, struct sieve, base);
	(void)r;
	if (region != CACHE_NONE)
		s->state[region] |= SIEVE_VISITED;
}

static void sieve_sealed(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket)
{
	struct sieve *s = container_of(p, struct sieve, base);
	(void)group;
	(void)bucket;
	assert(region < s->regions && (s->state[region] & SIEVE_LISTED) == 0);
	region_list_push(&s->list, s->links, region);
	s->state[region] = SIEVE_LISTED;
}

static uint32_t sieve_victim(struct cache_policy *p)
{
	struct sieve *s = container_of(p, struct sieve, base);
	uint32_t at = s->hand != CACHE_NONE ? s->hand : s->list.oldest;
	assert(s->list.count > 0);
	/* A full round clears every mark, so the second one ends. */
	while ((s->state[at] & SIEVE_VISITED) != 0) {
		s->state[at] &= (uint8_t)~SIEVE_VISITED;
		at = s->links[at].newer != CACHE_NONE ? s->links[at].newer : s->list.oldest;
	}
	s->hand = at;
	return at;
}

static void sieve_freed(struct cache_policy *p, uint32_t region)
{
	struct sieve *s = container_of(p, struct sieve, base);
	assert(region < s->regions);
	if ((s->state[region] & SIEVE_LISTED) != 0) {
		if (s->hand == region)
			s->hand = s->links[region].newer;
		region_list_remove(&s->list, s->links, region);
	}
	s->state[region] = 0;
}

static void sieve_close(struct cache_policy *p)
{
	struct sieve *s = container_of(p, struct sieve, base);
	free(s->links);
	free(s->state);
	free(s);
}

static const struct cache_policy_ops sieve_ops = {
	.request = cache_any_request,
	.admit = cache_any_admit,
	.hit = sieve_hit,
	.place = cache_any_place,
	.sealed = sieve_sealed,
	.restored = cache_any_restored,
	.victim = sieve_victim,
	.freed = sieve_freed,
	.tick = cache_any_tick,
	.close = sieve_close,
};

int cache_sieve_open(struct cache_policy **out, const struct cache_params *params)
{
	struct sieve *s = calloc(1, sizeof(*s));
	*out = NULL;
	if (s == NULL)
		return -ENOMEM;
	*s = (struct sieve){.base.ops = &sieve_ops,
			    .list = REGION_LIST_EMPTY,
			    .hand = CACHE_NONE,
			    .regions = params->regions};
	s->links = calloc(params->regions, sizeof(*s->links));
	s->state = calloc(params->regions, sizeof(*s->state));
	if (s->links == NULL || s->state == NULL) {
		sieve_close(&s->base);
		return -ENOMEM;
	}
	*out = &s->base;
	return 0;
}
