// SPDX-License-Identifier: Apache-2.0
/* Doubly linked lists of regions by number: 8 bytes a region, and a region is in one list at most. */
#ifndef CACHE_REGION_LIST_H
#define CACHE_REGION_LIST_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "cache/policy.h"

struct region_link {
	uint32_t older, newer;
};

struct region_list {
	uint32_t oldest, newest, count;
};

#define REGION_LIST_EMPTY ((struct region_list){CACHE_NONE, CACHE_NONE, 0})

static inline void region_list_push(struct region_list *l, struct region_link *links,
				    uint32_t region)
{
	links[region] = (struct region_link){.older = l->newest, .newer = CACHE_NONE};
	if (l->newest != CACHE_NONE)
		links[l->newest].newer = region;
	else
		l->oldest = region;
	l->newest = region;
	l->count++;
}

static inline void region_list_remove(struct region_list *l, struct region_link *links,
				      uint32_t region)
{
	struct region_link at = links[region];
	assert(l->count > 0);
	if (at.older != CACHE_NONE)
		links[at.older].newer = at.newer;
	else
		l->oldest = at.newer;
	if (at.newer != CACHE_NONE)
		links[at.newer].older = at.older;
	else
		l->newest = at.older;
	l->count--;
}

#endif
