// SPDX-License-Identifier: Apache-2.0
#include "code/place.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/base.h"

int place_refuse(char *why, size_t why_size, int err, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(why, why_size, fmt, args);
	va_end(args);
	return err;
}

const struct place_ops *place_ops_of(enum place_kind kind)
{
	switch (kind) {
	case PLACE_CLUSTERED:
		return &place_clustered;
	case PLACE_DECLUSTERED:
		return &place_declustered;
	case PLACE_OVERLAP:
		return &place_overlap;
	}
	return NULL;
}

int place_init(struct place *p, enum place_kind kind, const struct place_size *size, char *why,
	       size_t why_size)
{
	const struct place_ops *ops = place_ops_of(kind);
	uint32_t domains = size->domains, units = size->units, width = size->width;
	if (ops == NULL)
		return place_refuse(why, why_size, -EINVAL, "unknown placement %d", (int)kind);
	if (domains == 0 || units == 0 || size->slots == 0 || width == 0)
		return place_refuse(why, why_size, -EINVAL,
				    "%u %s, %u units of each, %llu slots, stripe width %u: all "
				    "must be at least 1",
				    domains, size->domain_name, units,
				    (unsigned long long)size->slots, width);
	if (width > PLACE_WIDTH_MAX)
		return place_refuse(why, why_size, -EINVAL,
				    "a stripe of %u chunks is too wide: at most %d chunks", width,
				    PLACE_WIDTH_MAX);
	if ((uint64_t)domains * units > PLACE_UNITS_MAX)
		return place_refuse(why, why_size, -EOVERFLOW,
				    "%u %s x %u units are too many: at most %u units", domains,
				    size->domain_name, units, PLACE_UNITS_MAX);
	if (size->slots > PLACE_SLOTS_MAX / ((uint64_t)domains * units))
		return place_refuse(
			why, why_size, -EOVERFLOW,
			"%llu slots on each of %u %s x %u units are too many: at most %llu "
			"slots in all",
			(unsigned long long)size->slots, domains, size->domain_name, units,
			(unsigned long long)PLACE_SLOTS_MAX);
	if (width > domains)
		return place_refuse(why, why_size, -EINVAL,
				    "a stripe of %u chunks needs at least %u %s, the system has %u",
				    width, width, size->domain_name, domains);
	*p = (struct place){.ops = ops,
			    .domains = domains,
			    .units = units,
			    .width = width,
			    .slots = size->slots};
	return ops->init(p, size->domain_name, why, why_size);
}

bool place_scan(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
		uint32_t min_hits, uint64_t from, uint64_t *stripe)
{
	assert(p->units == 1 && p->domains <= PLACE_SCAN_MAX && n <= p->domains);
	if (from >= p->stripes || min_hits > n)
		return false;
	if (min_hits == 0) {
		*stripe = from;
		return true;
	}
	return p->ops->scan(p, key, hit, n, min_hits, from, stripe);
}
