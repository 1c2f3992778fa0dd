// SPDX-License-Identifier: Apache-2.0
#include "cache/policies.h"

#include <string.h>

#include "base/base.h"

const struct cache_policy_kind cache_policy_kinds[] = {
	{"lru", cache_lru_open, false},
	{"fifo", cache_fifo_open, false},
	{"s3fifo", cache_s3fifo_open, false},
	{"sieve", cache_sieve_open, false},
	{"wtinylfu", cache_tinylfu_open, false},
	{"admit-all", cache_lru_open, false},
	{"reject-first", cache_reject_first_open, false},
	{"dynamic", cache_dynamic_open, false},
	{"expert", cache_expert_open, false},
	{"historic", cache_historic_open, false},
	{"future", cache_future_open, true},
	{"hybrid", cache_hybrid_open, true},
	{"terrane", cache_terrane_open, true},
	{NULL, NULL, false},
};

const struct cache_policy_kind *cache_policy_find(const char *name)
{
	for (const struct cache_policy_kind *k = cache_policy_kinds; k->name != NULL; k++)
		if (strcmp(k->name, name) == 0)
			return k;
	return NULL;
}

const char *cache_params_check(const struct cache_params *p)
{
	if (p->segment_bytes == 0 || p->segment_bytes > CACHE_SEGMENT_BYTES_MAX)
		return "segment_bytes: must be from 1 to 4 GiB";
	if (p->region_segments == 0 || p->region_segments > UINT16_MAX)
		return "region_segments: must be from 1 to 65535";
	if (p->groups_max == 0 || p->groups_max > 128)
		return "groups_max: must be from 1 to 128";
	if (p->regions < p->groups_max + 3 || p->regions > 1u << 28)
		return "regions: must be from groups_max + 3 to 2^28";
	if (!(p->share > 0 && p->share <= 1))
		return "share: must be above 0 and at most 1";
	if (!(p->min_threshold >= 0 && p->min_threshold < 1e6) ||
	    !(p->reinsert_offset >= 0 && p->reinsert_offset < 1e6))
		return "min_threshold, reinsert_offset: must be from 0 to a million";
	if (p->bucket_tables > 0 && p->bucket_table == NULL)
		return "bucket_table: must be given with bucket_tables";
	return NULL;
}
