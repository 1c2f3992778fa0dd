// SPDX-License-Identifier: Apache-2.0
#include "cache/core.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cache_core_init(struct cache_core *c, const struct cache_params *params, cache_open_fn *open,
		    uint32_t dram_segments)
{
	uint64_t flash_n = (uint64_t)params->regions * params->region_segments;
	uint64_t kept_max = (CACHE_VICTIMS_MAX + 1ULL) * params->region_segments;
	*c = (struct cache_core){.params = *params, .newest = CACHE_NONE, .oldest = CACHE_NONE};
	assert(cache_params_check(params) == NULL && dram_segments > 0);
	if (flash_n + dram_segments >= UINT32_MAX - 1)
		return -E2BIG;
	c->flash_n = (uint32_t)flash_n;
	c->dram_n = dram_segments;
	c->entries = calloc(flash_n + dram_segments, sizeof(*c->entries));
	c->links = calloc(dram_segments, sizeof(*c->links));
	c->live = calloc(params->regions, sizeof(*c->live));
	c->free_regions = calloc(params->regions, sizeof(*c->free_regions));
	c->kept = calloc(kept_max, sizeof(*c->kept));
	c->kept_groups = calloc(kept_max, sizeof(*c->kept_groups));
	int rc = -ENOMEM;
	if (c->entries != NULL && c->links != NULL && c->live != NULL && c->free_regions != NULL &&
	    c->kept != NULL && c->kept_groups != NULL)
		rc = cache_index_init(&c->index, c->entries, c->flash_n + c->dram_n);
	if (rc == 0)
		rc = open(&c->policy, &c->params);
	if (rc != 0) {
		cache_core_fini(c);
		return rc;
	}
	for (uint32_t i = 0; i < c->dram_n; i++)
		c->links[i].older = i + 1 < c->dram_n ? i + 1 : CACHE_NONE;
	for (uint32_t i = 0; i < params->regions; i++)
		c->free_regions[i] = params->regions - 1 - i;
	c->free_n = params->regions;
	return 0;
}

void cache_core_fini(struct cache_core *c)
{
	cache_policy_close(c->policy);
	cache_index_fini(&c->index);
	free(c->entries);
	free(c->links);
	free(c->live);
	free(c->free_regions);
	free(c->kept);
	free(c->kept_groups);
	*c = (struct cache_core){0};
}

/* ---- DRAM ---- */

static void dram_unlink(struct cache_core *c, uint32_t i)
{
	struct cache_dram_link at = c->links[i];
	if (at.older != CACHE_NONE)
		c->links[at.older].newer = at.newer;
	else
		c->oldest = at.newer;
	if (at.newer != CACHE_NONE)
		c->links[at.newer].older = at.older;
	else
		c->newest = at.older;
}

static void dram_push(struct cache_core *c, uint32_t i)
{
	c->links[i] = (struct cache_dram_link){.older = c->newest, .newer = CACHE_NONE};
	if (c->newest != CACHE_NONE)
		c->links[c->newest].newer = i;
	else
		c->oldest = i;
	c->newest = i;
}

static void dram_release(struct cache_core *c, uint32_t i)
{
	assert(c->dram_used > 0);
	dram_unlink(c, i);
	c->entries[c->flash_n + i].used = 0;
	c->links[i].older = c->dram_free;
	c->dram_free = i;
	c->dram_used--;
}

/* ---- regions ---- */

static void seal(struct cache_core *c, uint32_t which)
{
	struct cache_open_region o = c->open[which];
	assert(which < c->opens && o.used > 0 && o.used <= c->params.region_segments);
	c->open[which] = c->open[--c->opens];
	c->counts.sealed++;
	c->counts.wasted += c->params.region_segments - o.used;
	if (c->ops != NULL && c->ops->seal != NULL)
		c->ops->seal(c->arg, o.region, o.used);
	uint16_t bucket = c->entries[(uint64_t)o.region * c->params.region_segments].bucket;
	c->policy->ops->sealed(c->policy, o.region, o.group, bucket);
}

static bool has_victim(const struct cache_core *c)
{
	return c->free_n + c->opens < c->params.regions;
}

/* Frees the region that the policy gives up. What is to be kept of it is held back, or dropped if `drop`. */
static void free_victim(struct cache_core *c, bool drop)
{
	uint32_t region = c->policy->ops->victim(c->policy);
	uint32_t from = region * c->params.region_segments;
	assert(region < c->params.regions);
	for (uint32_t i = from; c->live[region] > 0 && i < from + c->params.region_segments; i++) {
		struct cache_entry *e = &c->entries[i];
		if (e->used == 0)
			continue;
		uint32_t group = c->policy->ops->place(c->policy, e, region);
		cache_index_remove(&c->index, i);
		if (group != CACHE_DROP && !drop) {
			if (c->ops != NULL && c->ops->keep != NULL)
				c->ops->keep(c->arg, i, c->kept_n);
			c->kept[c->kept_n] = *e;
			c->kept_groups[c->kept_n++] = group;
		} else if (group != CACHE_DROP) {
			c->counts.dropped++;
		}
		e->used = 0;
		c->live[region]--;
	}
	assert(c->live[region] == 0 && c->free_n < c->params.regions);
	c->policy->ops->freed(c->policy, region);
	if (c->ops != NULL && c->ops->free_region != NULL)
		c->ops->free_region(c->arg, region);
	c->free_regions[c->free_n++] = region;
	c->counts.freed++;
}

static uint32_t find_open(struct cache_core *c, uint32_t group)
{
	if (c->last_open < c->opens && c->open[c->last_open].group == group)
		return c->last_open;
	for (uint32_t i = 0; i < c->opens; i++)
		if (c->open[i].group == group)
			return c->last_open = i;
	return CACHE_NONE;
}

/* Opens a region of the group. A region must be free. */
static uint32_t open_region(struct cache_core *c, uint32_t group)
{
	if (c->opens == c->params.groups_max) {
		uint32_t idle = 0;
		for (uint32_t i = 1; i < c->opens; i++)
			idle = c->open[i].written < c->open[idle].written ? i : idle;
		seal(c, idle);
	}
	assert(c->free_n > 0 && c->opens < CACHE_GROUPS_MAX);
	c->open[c->opens] =
		(struct cache_open_region){.group = group, .region = c->free_regions[--c->free_n]};
	return c->last_open = c->opens++;
}

/* Appends a segment to an open region. The entry is copied; it is in the index as `dram`, or not if that is
 * CACHE_NONE. */
static void append(struct cache_core *c, uint32_t which, const struct cache_entry *e, uint32_t dram)
{
	struct cache_open_region *o = &c->open[which];
	uint32_t number = o->region * c->params.region_segments + o->used;
	struct cache_entry *to = &c->entries[number];
	assert(o->used < c->params.region_segments && to->used == 0);
	*to = *e;
	to->used = 1;
	if (dram != CACHE_NONE)
		cache_index_move(&c->index, dram, number);
	else
		cache_index_add(&c->index, number);
	if (c->ops != NULL && c->ops->append != NULL)
		c->ops->append(c->arg, number, dram, c->kept_next);
	c->live[o->region]++;
	o->written = ++c->counts.appended;
	if (++o->used == c->params.region_segments)
		seal(c, which);
}

/* Returns the open region of the group, or CACHE_NONE if there is none and no region is free. */
static uint32_t region_for(struct cache_core *c, uint32_t group)
{
	uint32_t which = find_open(c, group);
	if (which == CACHE_NONE && c->free_n > 0)
		which = open_region(c, group);
	return which;
}

/* Appends what was held back while there is room. Returns whether all of it was. */
static bool append_kept(struct cache_core *c)
{
	for (; c->kept_next < c->kept_n; c->kept_next++) {
		uint32_t which = region_for(c, c->kept_groups[c->kept_next]);
		if (which == CACHE_NONE)
			return false;
		append(c, which, &c->kept[c->kept_next], CACHE_NONE);
		c->counts.reinserted++;
	}
	c->kept_n = c->kept_next = 0;
	return true;
}

/* Returns an open region of the group; frees regions for it. CACHE_NONE: no region can be freed. */
static uint32_t make_room(struct cache_core *c, uint32_t group)
{
	uint32_t which = region_for(c, group);
	assert(c->kept_n == 0);
	for (uint32_t victims = 0; which == CACHE_NONE || c->kept_n > 0; victims++) {
		bool last = victims >= CACHE_VICTIMS_MAX || !has_victim(c);
		if (has_victim(c))
			free_victim(c, last);
		else if (which == CACHE_NONE && c->kept_n == 0)
			return CACHE_NONE;
		if (!append_kept(c) && last) {
			c->counts.dropped += c->kept_n - c->kept_next;
			c->kept_n = c->kept_next = 0;
		}
		which = region_for(c, group);
	}
	return which;
}

static void evict_from_dram(struct cache_core *c)
{
	uint32_t i = c->oldest, number = c->flash_n + i;
	struct cache_entry *e = &c->entries[number];
	assert(i != CACHE_NONE && e->used != 0);
	uint32_t group = c->policy->ops->place(c->policy, e, CACHE_NONE);
	uint32_t which = group != CACHE_DROP ? make_room(c, group) : CACHE_NONE;
	if (which != CACHE_NONE)
		append(c, which, e, number);
	else
		cache_index_remove(&c->index, number);
	dram_release(c, i);
}

/* ---- requests ---- */

uint32_t cache_core_find(struct cache_core *c, const struct cache_request *r, uint32_t *at)
{
	assert(r->segments > 0 && r->segments <= CACHE_GET_SEGMENTS_MAX);
	c->policy->ops->request(c->policy, r);
	return cache_core_look(c, r, at);
}

uint32_t cache_core_look(const struct cache_core *c, const struct cache_request *r, uint32_t *at)
{
	uint32_t missing = 0;
	for (uint32_t i = 0; i < r->segments; i++) {
		at[i] = cache_index_find(&c->index, cache_key(r->block, r->first + i));
		missing += at[i] == CACHE_NONE;
	}
	return missing;
}

bool cache_core_admit(struct cache_core *c, const struct cache_request *r, const uint32_t *at)
{
	for (uint32_t i = 0; i < r->segments; i++)
		if (at[i] == CACHE_NONE && !c->policy->ops->admit(c->policy, r, i))
			return false;
	return true;
}

void cache_core_hit(struct cache_core *c, const struct cache_request *r, const uint32_t *at)
{
	for (uint32_t i = 0; i < r->segments; i++) {
		if (at[i] == CACHE_NONE)
			continue;
		uint32_t region =
			at[i] < c->flash_n ? at[i] / c->params.region_segments : CACHE_NONE;
		c->policy->ops->hit(c->policy, r, &c->entries[at[i]], region);
		if (at[i] >= c->flash_n && at[i] - c->flash_n != c->newest) {
			dram_unlink(c, at[i] - c->flash_n);
			dram_push(c, at[i] - c->flash_n);
		}
	}
}

uint32_t cache_core_insert(struct cache_core *c, const struct cache_request *r, uint32_t i)
{
	assert(i < r->segments);
	if (c->dram_used == c->dram_n)
		evict_from_dram(c);
	uint32_t place = c->dram_free, number = c->flash_n + place;
	assert(place < c->dram_n);
	c->dram_free = c->links[place].older;
	c->dram_used++;
	c->entries[number] = (struct cache_entry){
		.key = cache_key(r->block, r->first + i),
		.position = r->position != CACHE_NONE ? r->position + i : CACHE_NONE,
		.bucket = r->bucket,
		.used = 1};
	dram_push(c, place);
	cache_index_add(&c->index, number);
	return number;
}

void cache_core_drop(struct cache_core *c, uint32_t number)
{
	assert(number < c->flash_n + c->dram_n);
	struct cache_entry *e = &c->entries[number];
	uint32_t region = number / c->params.region_segments;
	assert(e->used != 0);
	cache_index_remove(&c->index, number);
	if (number >= c->flash_n) {
		dram_release(c, number - c->flash_n);
		return;
	}
	assert(c->live[region] > 0);
	c->live[region]--;
	e->used = 0;
}

void cache_core_seal_all(struct cache_core *c)
{
	while (c->opens > 0)
		seal(c, c->opens - 1);
}

void cache_core_restore(struct cache_core *c, uint32_t region, const struct cache_entry *entries,
			uint32_t n, const uint64_t *seals)
{
	uint32_t from = region * c->params.region_segments;
	assert(region < c->params.regions && n > 0 && n <= c->params.region_segments);
	assert(c->opens == 0 && c->dram_used == 0 && c->free_n == c->params.regions);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t old = cache_index_find(&c->index, entries[i].key);
		c->entries[from + i] = entries[i];
		c->entries[from + i].mark = 0;
		c->entries[from + i].used = 0;
		if (entries[i].used == 0 ||
		    (old != CACHE_NONE && seals[old / c->params.region_segments] >= seals[region]))
			continue;
		if (old != CACHE_NONE)
			cache_core_drop(c, old);
		c->entries[from + i].used = 1;
		cache_index_add(&c->index, from + i);
		c->live[region]++;
	}
}

void cache_core_restore_end(struct cache_core *c, const uint32_t *regions, uint32_t n)
{
	const struct cache_policy_ops *ops = c->policy->ops;
	for (uint32_t r = 0; r < n; r++) {
		const struct cache_entry *e =
			&c->entries[(size_t)regions[r] * c->params.region_segments];
		for (uint32_t i = 0; i < c->params.region_segments; i++)
			if (e[i].used != 0)
				ops->restored(c->policy, &e[i]);
		ops->sealed(c->policy, regions[r], CACHE_NONE, e->bucket);
	}
	/* no region was taken so far, so place i from the end is region i */
	assert(c->free_n == c->params.regions);
	for (uint32_t r = 0; r < n; r++)
		c->free_regions[c->params.regions - 1 - regions[r]] = CACHE_NONE;
	c->free_n = 0;
	for (uint32_t i = 0; i < c->params.regions; i++)
		if (c->free_regions[i] != CACHE_NONE)
			c->free_regions[c->free_n++] = c->free_regions[i];
}
