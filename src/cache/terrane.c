// SPDX-License-Identifier: Apache-2.0
/*
 * Ours: admission, eviction and reinsertion by the worth of segments, from what jobs will read and when.
 *
 * Worth. A cache saves one read of the disks whenever a segment that it holds is read, so what a segment is worth is
 * one read, divided by the time that it must be held for it: 1 / (time until its next read). The registry and the
 * progress of its jobs (jobs.h) say when that is. A segment that all jobs have read is worth nothing, however hot its
 * bucket is; keeping it is only better than keeping nothing, so it gets a trace of worth if several jobs read its
 * bucket. Reads by jobs without a spec, or with one that they do not keep to, say nothing about the future: a bucket
 * that such jobs read is worth 1 / (time since its last read), which is LRU. So the policy is LRU where nothing is
 * known, and close to the clairvoyant choice where the order is known.
 *
 * Admission. The price of a byte of flash is the worth of the least worthy region. A missing segment is fetched if it
 * is worth more, or if it will be read while it is still in DRAM. While half of the flash is free and writes have no limit it is
 * fetched and kept although nothing is known to need it: what holds free space costs no other segment, and a job that is
 * registered later may read it.
 *
 * Regions. A segment is written to a region of its bucket whose segments are read next at about the same time (a class
 * of time), so that a region loses its worth as a whole. The worth of a region is the mean worth of a sample of its
 * segments. The least worthy of regions that are chosen at random (and of the least worthy ones that were seen before)
 * is freed; what is still worth more than the price is written again.
 *
 * Endurance. With a limit, what is worth writing is what is read most often for one write: the score of a segment is
 * its need plus a hash of its neighbourhood in [0, 1). A histogram of the scores of what is missing gives the score from which
 * on the missing bytes fit the budget (budget.h). The hash makes that continuous.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "cache/budget.h"
#include "cache/jobs.h"
#include "cache/policies.h"
#include "cache/region_sample.h"

#define CLASSES_MAX 16u      /* classes of time in a bucket */
#define POOL 16u             /* least worthy regions that are remembered */
#define TRIES 12u            /* regions that are looked at for each one that is freed */
#define TRIES_TICK 64u       /* regions that are looked at once a second */
#define SOONEST_MS 1000.0    /* times below this count the same */
#define TRACE_WORTH 1e-15    /* of a segment that nobody is known to need */
#define CLAIMLESS_MS 600000u /* for this time a read without spec makes its bucket LRU */
#define CLAIMLESS_SMOOTHING (1.0 / 1024)
#define KEEP_MARGIN 1.25    /* what is written again must be worth more than the price by this */
#define SCORE_SEGMENTS 256u /* neighbours with one hash */
#define SCORE_STEPS 16u     /* of the histogram, for each read */
#define SCORES (SCORE_STEPS * 32u)
#define SCORE_PERIOD_MS 5000u
#define SCORE_SMOOTHING 0.5

struct bucket_use {
	uint64_t claimless_ms; /* last read without a spec */
	double claimless;      /* share of its reads without a spec, smoothed */
	uint64_t readers;      /* a bit for each of 64 classes of jobs that read it */
	bool used;
};

#define UNNEEDED_GROUP (1u << 24) /* plus the bucket: of segments that nothing is known to need */

struct region_use {
	uint64_t last_ms;  /* last read, or sealing */
	uint32_t at;       /* place in `sealed`; CACHE_NONE: not sealed */
	uint32_t unneeded; /* place in `unneeded`; CACHE_NONE: not there */
	uint16_t bucket;
};

struct terrane {
	struct cache_policy base;
	const struct cache_jobs *jobs;
	uint64_t now_ms, segment_bytes, dram_bytes;
	uint32_t regions_n, full_at, groups_max;
	struct region_use *regions;
	uint32_t *sealed; /* sealed regions in no order */
	uint32_t sealed_n;
	uint32_t *unneeded; /* sealed regions of UNNEEDED_GROUP: the first to be freed */
	uint32_t unneeded_n;
	struct region_samples positions;
	uint32_t pool[POOL];
	uint32_t pool_n;
	double price;      /* worth of the least worthy region; 0 while there is free flash */
	double horizon_ms; /* reads that come later are one class of time */
	struct bucket_use *buckets;
	uint32_t buckets_n, buckets_used;
	struct rng rng;
	bool decided, admits; /* about the current request */
	uint64_t admitted_bytes, placed_ms;
	double dram_ms; /* time that a segment stays in DRAM */
	struct cache_budget budget;
	double scores[SCORES], missed[SCORES]; /* bytes per second, and of this period, by score */
	double least_score;
	uint64_t scored_ms;
};

static struct bucket_use *bucket_use(struct terrane *t, uint16_t bucket)
{
	if (bucket >= t->buckets_n) {
		uint32_t n = bucket + 1u + t->buckets_n / 2;
		struct bucket_use *more = realloc(t->buckets, n * sizeof(*more));
		if (more == NULL)
			return NULL;
		memset(more + t->buckets_n, 0, (n - t->buckets_n) * sizeof(*more));
		t->buckets = more;
		t->buckets_n = n;
	}
	return &t->buckets[bucket];
}

static bool is_full(const struct terrane *t)
{
	return t->sealed_n >= t->full_at;
}

/* Reports whether what is not known to be needed is kept, too. It goes to regions of its own, which are freed
 * first. */
static bool keeps_all(const struct terrane *t)
{
	return t->sealed_n < t->full_at / 2 && t->budget.limit_bytes_s <= 0;
}

/* Returns the worth of a segment that was read last at last_ms. */
static double worth(const struct terrane *t, uint16_t bucket, uint32_t position, uint64_t last_ms,
		    struct cache_outlook *outlook)
{
	const struct bucket_use *use = bucket < t->buckets_n ? &t->buckets[bucket] : NULL;
	struct cache_outlook o = {.next_ms = CACHE_NEVER};
	double w = 0;
	if (t->jobs != NULL)
		o = cache_jobs_outlook(t->jobs, bucket, position);
	if (o.need > 0)
		w = 1 / fmax(o.next_ms, SOONEST_MS);
	if (use != NULL && use->claimless_ms > 0 && t->now_ms < use->claimless_ms + CLAIMLESS_MS) {
		double age = t->now_ms > last_ms ? (double)(t->now_ms - last_ms) : 0;
		w = fmax(w, use->claimless / fmax(age, SOONEST_MS));
	}
	if (use != NULL && (use->readers & (use->readers - 1)) != 0)
		w += TRACE_WORTH;
	if (outlook != NULL)
		*outlook = o;
	assert(w >= 0 && isfinite(w));
	return w;
}

static double region_worth(const struct terrane *t, uint32_t region)
{
	const struct region_use *u = &t->regions[region];
	uint32_t n = t->positions.count[region];
	double sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += worth(t, u->bucket, (uint32_t)t->positions.of[region].value[i], u->last_ms,
			     NULL);
	return n > 0 ? sum / n : 0;
}

/* Returns the score of a segment. Segments that are read together have the same one, as far as positions are known. */
static double score_of(uint32_t need, const struct cache_entry *e)
{
	uint64_t of = e->position != CACHE_NONE
			      ? (uint64_t)e->bucket << 32 | e->position / SCORE_SEGMENTS
			      : e->key;
	return need + (double)(mix_u64(of ^ 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-53;
}

/* ---- regions by worth ---- */

static void pool_drop(struct terrane *t, uint32_t i)
{
	t->pool[i] = t->pool[--t->pool_n];
}

/* Looks at `tries` regions chosen at random and at those of the pool, keeps the least worthy ones in the pool and
 * returns the least worthy of all. */
static uint32_t look_around(struct terrane *t, uint32_t tries, double *least)
{
	uint32_t seen[POOL + TRIES_TICK];
	double value[POOL + TRIES_TICK];
	uint32_t n = t->pool_n;
	assert(t->sealed_n > 0 && tries <= TRIES_TICK);
	memcpy(seen, t->pool, n * sizeof(*seen));
	for (uint32_t i = 0; i < tries; i++)
		seen[n++] = t->sealed[rng_below(&t->rng, t->sealed_n)];
	for (uint32_t i = 0; i < n; i++)
		value[i] = region_worth(t, seen[i]);
	t->pool_n = 0;
	/* the POOL smallest, in order; a region may have been chosen twice */
	while (t->pool_n < POOL && n > 0) {
		uint32_t best = 0;
		for (uint32_t i = 1; i < n; i++)
			best = value[i] < value[best] ? i : best;
		bool known = false;
		for (uint32_t i = 0; i < t->pool_n; i++)
			known = known || t->pool[i] == seen[best];
		if (t->pool_n == 0)
			*least = value[best];
		if (!known)
			t->pool[t->pool_n++] = seen[best];
		seen[best] = seen[--n];
		value[best] = value[n];
	}
	return t->pool[0];
}

static void terrane_sealed(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket)
{
	struct terrane *t = container_of(p, struct terrane, base);
	assert(region < t->regions_n && t->regions[region].at == CACHE_NONE);
	region_samples_seal(&t->positions, group, region);
	t->regions[region] = (struct region_use){
		.last_ms = t->now_ms, .at = t->sealed_n, .unneeded = CACHE_NONE, .bucket = bucket};
	t->sealed[t->sealed_n++] = region;
	if (group != CACHE_NONE && group >= UNNEEDED_GROUP) {
		t->regions[region].unneeded = t->unneeded_n;
		t->unneeded[t->unneeded_n++] = region;
	}
}

static void terrane_restored(struct cache_policy *p, const struct cache_entry *e)
{
	struct terrane *t = container_of(p, struct terrane, base);
	region_samples_add(&t->positions, CACHE_NONE, e->position);
}

static void drop_unneeded(struct terrane *t, uint32_t region)
{
	struct region_use *u = &t->regions[region];
	if (u->unneeded == CACHE_NONE)
		return;
	assert(u->unneeded < t->unneeded_n && t->unneeded[u->unneeded] == region);
	uint32_t last = t->unneeded[--t->unneeded_n];
	t->unneeded[u->unneeded] = last;
	t->regions[last].unneeded = u->unneeded;
	u->unneeded = CACHE_NONE;
}

static uint32_t terrane_victim(struct cache_policy *p)
{
	struct terrane *t = container_of(p, struct terrane, base);
	double least = 0;
	while (t->unneeded_n > 0) {
		uint32_t region = t->unneeded[t->unneeded_n - 1];
		t->price = 0;
		if (region_worth(t, region) <= 2 * TRACE_WORTH)
			return region;
		drop_unneeded(t, region); /* a job that needs it came since */
	}
	uint32_t region = look_around(t, TRIES, &least);
	t->price = least;
	return region;
}

static void terrane_freed(struct cache_policy *p, uint32_t region)
{
	struct terrane *t = container_of(p, struct terrane, base);
	struct region_use *u = &t->regions[region];
	if (u->at == CACHE_NONE)
		return;
	assert(u->at < t->sealed_n && t->sealed[u->at] == region);
	uint32_t last = t->sealed[--t->sealed_n];
	t->sealed[u->at] = last;
	t->regions[last].at = u->at;
	u->at = CACHE_NONE;
	drop_unneeded(t, region);
	for (uint32_t i = 0; i < t->pool_n; i++)
		if (t->pool[i] == region)
			pool_drop(t, i);
}

/* ---- requests ---- */

static void terrane_request(struct cache_policy *p, const struct cache_request *r)
{
	struct terrane *t = container_of(p, struct terrane, base);
	struct bucket_use *use = bucket_use(t, r->bucket);
	t->now_ms = r->now_ms;
	t->decided = false;
	if (use == NULL)
		return;
	bool claimed =
		t->jobs != NULL && cache_jobs_trusted(t->jobs, r->job) && r->position != CACHE_NONE;
	if (!use->used) {
		use->used = true;
		use->claimless = claimed ? 0 : 1;
		t->buckets_used++;
	}
	use->claimless += CLAIMLESS_SMOOTHING * ((claimed ? 0 : 1) - use->claimless);
	if (!claimed)
		use->claimless_ms = r->now_ms > 0 ? r->now_ms : 1;
	use->readers |= 1ULL << (r->job % 64);
}

static bool terrane_admit(struct cache_policy *p, const struct cache_request *r, uint32_t index)
{
	struct terrane *t = container_of(p, struct terrane, base);
	if (!t->decided) {
		struct cache_outlook o;
		double w = worth(t, r->bucket, r->position, r->now_ms, &o);
		const struct cache_entry e = {.key = cache_key(r->block, r->first + index),
					      .position = r->position,
					      .bucket = r->bucket};
		double score = score_of(o.need, &e);
		t->decided = true;
		t->admits = (w > t->price && score >= t->least_score) || keeps_all(t);
		if (w > t->price)
			t->missed[(uint32_t)fmin(score * SCORE_STEPS, SCORES - 1)] +=
				(double)(r->segments - index) * (double)t->segment_bytes;
		if (o.need > 0 && o.next_ms < t->dram_ms)
			t->admits = true;
	}
	if (t->admits)
		t->admitted_bytes += t->segment_bytes;
	return t->admits;
}

static void terrane_hit(struct cache_policy *p, const struct cache_request *r,
			struct cache_entry *e, uint32_t region)
{
	struct terrane *t = container_of(p, struct terrane, base);
	if (region != CACHE_NONE)
		t->regions[region].last_ms = r->now_ms;
}

/* Returns the group of a segment that is read next in next_ms. */
static uint32_t group_of(const struct terrane *t, const struct cache_entry *e, double next_ms)
{
	uint32_t classes = t->groups_max / (t->buckets_used > 0 ? t->buckets_used : 1);
	classes = classes < 1 ? 1 : classes > CLASSES_MAX ? CLASSES_MAX : classes;
	double at = t->horizon_ms > 0 ? next_ms / t->horizon_ms : 1;
	assert(classes >= 1 && classes <= CLASSES_MAX);
	return e->bucket * CLASSES_MAX + (uint32_t)(fmin(at, 0.999) * classes);
}

static uint32_t terrane_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	struct terrane *t = container_of(p, struct terrane, base);
	struct cache_outlook o;
	uint64_t last = region == CACHE_NONE ? t->now_ms : t->regions[region].last_ms;
	double w = worth(t, e->bucket, e->position, last, &o);
	double price = region == CACHE_NONE ? t->price : t->price * KEEP_MARGIN;
	bool keeps = region == CACHE_NONE && keeps_all(t);
	if (!keeps && (w <= price || (region != CACHE_NONE && w <= 2 * TRACE_WORTH)))
		return CACHE_DROP;
	if (t->least_score > 0 && score_of(o.need, e) < t->least_score)
		return CACHE_DROP;
	if (!is_full(t) && o.need > 0)
		t->horizon_ms = fmax(t->horizon_ms, o.next_ms);
	uint32_t group =
		w <= 2 * TRACE_WORTH ? UNNEEDED_GROUP + e->bucket : group_of(t, e, o.next_ms);
	region_samples_add(&t->positions, group, e->position);
	cache_budget_wrote(&t->budget, t->segment_bytes);
	return group;
}

/* Sets the least score so that the bytes that are missing with it, or a higher one, fit the budget. */
static void update_scores(struct terrane *t, uint64_t now_ms)
{
	double seconds = (double)(now_ms - t->scored_ms) / 1000, sum = 0;
	cache_budget_update(&t->budget, seconds);
	for (uint32_t i = 0; i < SCORES; i++) {
		t->scores[i] += SCORE_SMOOTHING * (t->missed[i] / seconds - t->scores[i]);
		t->missed[i] = 0;
	}
	t->least_score = 0;
	for (uint32_t i = SCORES; i-- > 0;) {
		double next = sum + t->scores[i];
		if (next > t->budget.rate_bytes_s) {
			double part = (t->budget.rate_bytes_s - sum) / t->scores[i];
			t->least_score = (i + 1 - part) / SCORE_STEPS;
			break;
		}
		sum = next;
	}
	t->scored_ms = now_ms;
}

static void terrane_tick(struct cache_policy *p, uint64_t now_ms)
{
	struct terrane *t = container_of(p, struct terrane, base);
	double least = 0;
	if (now_ms > t->placed_ms) {
		double rate = (double)t->admitted_bytes / (double)(now_ms - t->placed_ms);
		double stays = rate > 0 ? (double)t->dram_bytes / rate : 0;
		t->dram_ms += 0.25 * (stays - t->dram_ms);
		t->admitted_bytes = 0;
		t->placed_ms = now_ms;
	}
	t->now_ms = now_ms;
	if (is_full(t)) {
		look_around(t, TRIES_TICK, &least);
		t->price = least;
		t->horizon_ms = t->price > 0 ? fmin(1 / t->price, CACHE_NEVER) : t->horizon_ms;
	} else {
		t->price = 0;
	}
	if (t->budget.limit_bytes_s > 0 && now_ms >= t->scored_ms + SCORE_PERIOD_MS)
		update_scores(t, now_ms);
}

static void terrane_close(struct cache_policy *p)
{
	struct terrane *t = container_of(p, struct terrane, base);
	region_samples_fini(&t->positions);
	free(t->regions);
	free(t->sealed);
	free(t->unneeded);
	free(t->buckets);
	free(t);
}

static const struct cache_policy_ops terrane_ops = {
	.request = terrane_request,
	.admit = terrane_admit,
	.hit = terrane_hit,
	.place = terrane_place,
	.sealed = terrane_sealed,
	.restored = terrane_restored,
	.victim = terrane_victim,
	.freed = terrane_freed,
	.tick = terrane_tick,
	.close = terrane_close,
};

int cache_terrane_open(struct cache_policy **out, const struct cache_params *params)
{
	struct terrane *t = calloc(1, sizeof(*t));
	*out = NULL;
	if (t == NULL)
		return -ENOMEM;
	*t = (struct terrane){.base.ops = &terrane_ops,
			      .jobs = params->jobs,
			      .segment_bytes = params->segment_bytes,
			      .dram_bytes = params->dram_bytes,
			      .regions_n = params->regions,
			      .groups_max = params->groups_max,
			      .full_at = params->regions > params->groups_max + 2
						 ? params->regions - params->groups_max - 2
						 : 1};
	rng_init(&t->rng, params->seed);
	cache_budget_init(&t->budget, params->write_limit_bytes_s);
	t->regions = calloc(params->regions, sizeof(*t->regions));
	t->sealed = calloc(params->regions, sizeof(*t->sealed));
	t->unneeded = calloc(params->regions, sizeof(*t->unneeded));
	int rc = region_samples_init(&t->positions, params->regions, params->seed);
	if (t->regions == NULL || t->sealed == NULL || t->unneeded == NULL)
		rc = -ENOMEM;
	if (rc != 0) {
		terrane_close(&t->base);
		return rc;
	}
	for (uint32_t i = 0; i < params->regions; i++)
		t->regions[i].at = t->regions[i].unneeded = CACHE_NONE;
	*out = &t->base;
	return 0;
}
