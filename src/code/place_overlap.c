// SPDX-License-Identifier: Apache-2.0
/*
 * Single-overlap declustered placement: each stripe lies on one of a few stripe sets, the
 * translates of a base set (baseset.h), which share as few units as possible. Seven disks, base
 * {0, 1, 3}:
 *
 *   set 0   d0 d1    d3                 stripe = tile * 7 + set; member i of set s is on disk
 *   set 1      d1 d2    d4              s + base[i], and there in slot tile * 3 + i
 *   set 2         d2 d3    d5
 *   set 3            d3 d4    d6        disk 3 has member 2 of set 0, member 1 of set 2 and
 *   set 4   d0          d4 d5           member 0 of set 3 in its slots 2, 1, 0: each disk is in
 *   set 5      d1          d5 d6        `width` sets, and any two sets share one disk
 *   set 6   d0    d2          d6
 *
 * A tile uses each set once. Slots beyond the last full tile stay empty.
 */
#include <assert.h>

#include "code/place.h"

static int overlap_init(struct place *p, const char *domain_name, char *why, size_t why_size)
{
	(void)domain_name;
	p->stripes = p->slots / p->width * p->domains * p->units;
	int rc = baseset_find(&p->base, p->domains, p->units, p->width);
	if (rc != 0)
		return place_refuse(why, why_size, rc, "out of memory for %u stripe sets",
				    p->domains * p->units);
	return 0;
}

/* Returns a + b modulo n, for a and b below n. */
static uint32_t clock_add(uint32_t a, uint32_t b, uint32_t n)
{
	assert(a < n && b < n);
	return a + b >= n ? a + b - n : a + b;
}

static uint32_t clock_sub(uint32_t a, uint32_t b, uint32_t n)
{
	assert(a < n && b < n);
	return a >= b ? a - b : a + n - b;
}

static void overlap_locate(const struct place *p, uint64_t key, uint64_t stripe, uint32_t index,
			   struct place_location *location)
{
	(void)key;
	uint32_t sets = p->domains * p->units;
	uint32_t set = (uint32_t)(stripe % sets);
	location->domain = clock_add(set / p->units, p->base.domain[index], p->domains);
	location->unit = clock_add(set % p->units, p->base.unit[index], p->units);
	location->slot = stripe / sets * p->width + index;
}

static bool overlap_find(const struct place *p, uint64_t key, const struct place_location *location,
			 uint64_t *stripe, uint32_t *index)
{
	(void)key;
	assert(location->slot < p->slots);
	uint32_t sets = p->domains * p->units;
	*index = (uint32_t)(location->slot % p->width);
	uint32_t domain = clock_sub(location->domain, p->base.domain[*index], p->domains);
	uint32_t unit = clock_sub(location->unit, p->base.unit[*index], p->units);
	uint32_t set = domain * p->units + unit;
	*stripe = location->slot / p->width * sets + set;
	return *stripe < p->stripes;
}

static int overlap_index_of(const struct place *p, uint64_t key, uint64_t stripe, uint32_t domain,
			    uint32_t unit)
{
	(void)key;
	uint32_t sets = p->domains * p->units;
	uint32_t set = (uint32_t)(stripe % sets);
	uint32_t from_domain = clock_sub(domain, set / p->units, p->domains);
	uint32_t from_unit = clock_sub(unit, set % p->units, p->units);
	for (uint32_t i = 0; i < p->width; i++)
		if (p->base.domain[i] == from_domain)
			return p->base.unit[i] == from_unit ? (int)i : -1;
	return -1;
}

/* Finds the stripe by sets: all tiles use the same sets, so one stripe of each set is examined. */
static bool overlap_scan(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
			 uint32_t min_hits, uint64_t from, uint64_t *stripe)
{
	for (uint64_t s = from; s < p->stripes && s - from < p->domains; s++) {
		uint32_t hits = 0;
		for (uint32_t i = 0; i < n; i++)
			hits += overlap_index_of(p, key, s, hit[i], 0) >= 0;
		if (hits >= min_hits) {
			*stripe = s;
			return true;
		}
	}
	return false;
}

const struct place_ops place_overlap = {
	.letter = 's',
	.name = "single-overlap declustered",
	.init = overlap_init,
	.locate = overlap_locate,
	.find = overlap_find,
	.index_of = overlap_index_of,
	.scan = overlap_scan,
};
