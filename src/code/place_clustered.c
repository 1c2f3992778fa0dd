// SPDX-License-Identifier: Apache-2.0
/*
 * Clustered placement: the domains are divided into groups of `width`. A stripe takes the same slot
 * of the same unit in each domain of one group. Six disks, width 3, one unit, slot s:
 *
 *      group 0        group 1            stripe = (slot * groups + group) * units + unit
 *   d0  d1  d2  |  d3  d4  d5
 *   0.0 0.1 0.2 | 1.0 1.1 1.2   slot 0
 *   2.2 2.0 2.1 | 3.2 3.0 3.1   slot 1   (2.1 = stripe 2, member 1)
 *
 * From slot to slot the members rotate by one domain, so that data and parity are spread evenly.
 */
#include <assert.h>
#include <errno.h>

#include "code/place.h"

static int clustered_init(struct place *p, const char *domain_name, char *why, size_t why_size)
{
	if (p->domains % p->width != 0)
		return place_refuse(
			why, why_size, -EINVAL,
			"clustered stripes of %u chunks need a multiple of %u %s, the system "
			"has %u",
			p->width, p->width, domain_name, p->domains);
	p->stripes = (uint64_t)(p->domains / p->width) * p->units * p->slots;
	return 0;
}

static void clustered_locate(const struct place *p, uint64_t key, uint64_t stripe, uint32_t index,
			     struct place_location *location)
{
	(void)key;
	assert(stripe < p->stripes && index < p->width);
	uint32_t groups = p->domains / p->width;
	uint64_t column = stripe / p->units;
	location->unit = (uint32_t)(stripe % p->units);
	location->slot = column / groups;
	uint32_t rotated = (uint32_t)((index + location->slot) % p->width);
	location->domain = (uint32_t)(column % groups) * p->width + rotated;
}

static bool clustered_find(const struct place *p, uint64_t key,
			   const struct place_location *location, uint64_t *stripe, uint32_t *index)
{
	(void)key;
	assert(location->domain < p->domains && location->slot < p->slots);
	uint32_t groups = p->domains / p->width;
	uint32_t rotated = location->domain % p->width;
	uint32_t rotation = (uint32_t)(location->slot % p->width);
	*index = (rotated + p->width - rotation) % p->width;
	*stripe =
		(location->slot * groups + location->domain / p->width) * p->units + location->unit;
	return true;
}

static int clustered_index_of(const struct place *p, uint64_t key, uint64_t stripe, uint32_t domain,
			      uint32_t unit)
{
	uint64_t other;
	uint32_t index;
	uint64_t slot = stripe / p->units / (p->domains / p->width);
	clustered_find(p, key, &(struct place_location){domain, unit, slot}, &other, &index);
	return other == stripe ? (int)index : -1;
}

/*
 * Finds the stripe by groups: all stripes of a group have the same number of hits, so one stripe of
 * each group is examined.
 */
static bool clustered_scan(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
			   uint32_t min_hits, uint64_t from, uint64_t *stripe)
{
	(void)key;
	uint32_t groups = p->domains / p->width;
	for (uint64_t s = from; s < p->stripes && s - from < groups; s++) {
		uint32_t hits = 0;
		for (uint32_t i = 0; i < n; i++)
			hits += hit[i] / p->width == s % groups;
		if (hits >= min_hits) {
			*stripe = s;
			return true;
		}
	}
	return false;
}

const struct place_ops place_clustered = {
	.letter = 'c',
	.name = "clustered",
	.init = clustered_init,
	.locate = clustered_locate,
	.find = clustered_find,
	.index_of = clustered_index_of,
	.scan = clustered_scan,
};
