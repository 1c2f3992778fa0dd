// SPDX-License-Identifier: Apache-2.0
/*
 * Reject-first and Dynamic: flash admission as in CacheLib, when DRAM evicts, after the disks were read.
 *
 * Reject-first writes a segment only if it was about to be written before: among the segments that left DRAM last,
 * twice as many as flash holds.
 *
 * Dynamic writes at random so that the rate of writes stays below the endurance limit. The probability of a segment is
 * f * (4 KiB / size)^0.3, at most 1. Every 60 s the factor f is multiplied by limit / observed rate, but by at least
 * 0.75 and at most 1.25. Without a limit everything is written.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cache/policies.h"
#include "cache/recent.h"

struct reject {
	struct cache_policy base;
	struct recent seen;
};

static uint32_t reject_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	struct reject *f = container_of(p, struct reject, base);
	if (region == CACHE_NONE && !recent_has(&f->seen, e->key)) {
		recent_add(&f->seen, e->key);
		return CACHE_DROP;
	}
	return cache_below_place(p, e, region);
}

static void reject_close(struct cache_policy *p)
{
	struct reject *f = container_of(p, struct reject, base);
	recent_fini(&f->seen);
	free(f);
}

static const struct cache_policy_ops reject_ops = {
	.request = cache_below_request,
	.admit = cache_below_admit,
	.hit = cache_below_hit,
	.place = reject_place,
	.sealed = cache_below_sealed,
	.restored = cache_below_restored,
	.victim = cache_below_victim,
	.freed = cache_below_freed,
	.tick = cache_below_tick,
	.close = reject_close,
};

int cache_reject_first_open(struct cache_policy **out, const struct cache_params *params)
{
	struct reject *f = calloc(1, sizeof(*f));
	*out = NULL;
	if (f == NULL)
		return -ENOMEM;
	f->base.ops = &reject_ops;
	int rc = recent_init(&f->seen, 2ULL * params->regions * params->region_segments);
	if (rc == 0)
		rc = cache_lru_open(&f->base.below, params);
	if (rc != 0) {
		cache_policy_close(&f->base);
		return rc;
	}
	*out = &f->base;
	return 0;
}

#define DYNAMIC_UPDATE_MS 60000u
#define DYNAMIC_CHANGE_MAX 0.25
#define DYNAMIC_BASE_BYTES 4096.0
#define DYNAMIC_EXPONENT 0.3
#define DYNAMIC_FACTOR_MIN 1e-4
#define DYNAMIC_FACTOR_MAX 1e4

struct dynamic {
	struct cache_policy base;
	double limit_bytes_s;
	double size_probability, factor;
	uint64_t segment_bytes, written_bytes, updated_ms, now_ms;
	bool started;
	struct rng rng;
};

static void dynamic_tick(struct cache_policy *p, uint64_t now_ms)
{
	struct dynamic *d = container_of(p, struct dynamic, base);
	cache_below_tick(p, now_ms);
	if (!d->started) {
		d->started = true;
		d->updated_ms = now_ms;
	}
	if (now_ms < d->updated_ms + DYNAMIC_UPDATE_MS)
		return;
	double seconds = (double)(now_ms - d->updated_ms) / 1000;
	double observed = (double)d->written_bytes / seconds;
	double change = observed > 0 ? d->limit_bytes_s / observed : 1 + DYNAMIC_CHANGE_MAX;
	change = fmin(fmax(change, 1 - DYNAMIC_CHANGE_MAX), 1 + DYNAMIC_CHANGE_MAX);
	d->factor = fmin(fmax(d->factor * change, DYNAMIC_FACTOR_MIN), DYNAMIC_FACTOR_MAX);
	d->written_bytes = 0;
	d->updated_ms = now_ms;
}

static uint32_t dynamic_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	struct dynamic *d = container_of(p, struct dynamic, base);
	if (region == CACHE_NONE && d->limit_bytes_s > 0 &&
	    !rng_chance(&d->rng, fmin(d->factor * d->size_probability, 1)))
		return CACHE_DROP;
	uint32_t group = cache_below_place(p, e, region);
	if (group != CACHE_DROP)
		d->written_bytes += d->segment_bytes;
	return group;
}

static void dynamic_close(struct cache_policy *p)
{
	free(container_of(p, struct dynamic, base));
}

static const struct cache_policy_ops dynamic_ops = {
	.request = cache_below_request,
	.admit = cache_below_admit,
	.hit = cache_below_hit,
	.place = dynamic_place,
	.sealed = cache_below_sealed,
	.restored = cache_below_restored,
	.victim = cache_below_victim,
	.freed = cache_below_freed,
	.tick = dynamic_tick,
	.close = dynamic_close,
};

int cache_dynamic_open(struct cache_policy **out, const struct cache_params *params)
{
	struct dynamic *d = calloc(1, sizeof(*d));
	*out = NULL;
	if (d == NULL)
		return -ENOMEM;
	double size = (double)params->segment_bytes;
	*d = (struct dynamic){
		.base.ops = &dynamic_ops,
		.limit_bytes_s = (double)params->write_limit_bytes_s,
		.size_probability = fmin(pow(DYNAMIC_BASE_BYTES / size, DYNAMIC_EXPONENT), 1),
		.factor = 1,
		.segment_bytes = params->segment_bytes,
	};
	rng_init(&d->rng, params->seed);
	int rc = cache_lru_open(&d->base.below, params);
	if (rc != 0) {
		cache_policy_close(&d->base);
		return rc;
	}
	*out = &d->base;
	return 0;
}
