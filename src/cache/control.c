// SPDX-License-Identifier: Apache-2.0
#include "cache/control.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define CONTROL_REFRESH_MS 10000u
#define CONTROL_SAME_PRIORITY 0.05 /* buckets whose priorities differ less share a part */
#define CONTROL_SMOOTHING 0.5

void control_init(struct control *c, const struct cache_params *params)
{
	*c = (struct control){
		.refresh_ms = params->refresh_ms != 0 ? params->refresh_ms : CONTROL_REFRESH_MS,
		.min_threshold = params->min_threshold,
		.reinsert_offset = params->reinsert_offset,
		.threshold = params->min_threshold,
	};
	cache_budget_init(&c->budget, params->write_limit_bytes_s);
}

void control_fini(struct control *c)
{
	free(c->buckets);
	free(c->order);
	c->buckets = NULL;
	c->order = NULL;
}

int control_see(struct control *c, uint16_t bucket)
{
	if (bucket >= c->buckets_n) {
		uint32_t n = bucket + 1u + c->buckets_n / 2;
		n = n <= CACHE_BUCKETS_MAX + 1 ? n : CACHE_BUCKETS_MAX + 1;
		struct control_bucket *more = realloc(c->buckets, n * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		c->buckets = more;
		uint16_t *order = realloc(c->order, n * sizeof(*order));
		if (order == NULL)
			return -ENOMEM;
		c->order = order;
		for (uint32_t b = c->buckets_n; b < n; b++)
			c->buckets[b] = (struct control_bucket){0};
		c->buckets_n = n;
	}
	if (!c->buckets[bucket].known) {
		c->buckets[bucket].known = true;
		c->fresh = true;
	}
	return 0;
}

static int by_priority(const void *a, const void *b, void *arg)
{
	const struct control *c = arg;
	uint16_t left = *(const uint16_t *)a, right = *(const uint16_t *)b;
	double difference = c->buckets[right].priority - c->buckets[left].priority;
	return difference != 0 ? (difference > 0 ? 1 : -1) : (int)left - (int)right;
}

/* Sorts the known buckets by falling priority, and buckets of the same priority by number. Returns their number. */
static uint32_t sort_buckets(struct control *c)
{
	uint32_t n = 0;
	for (uint32_t b = 0; b < c->buckets_n; b++)
		if (c->buckets[b].known)
			c->order[n++] = (uint16_t)b;
	if (n > 1)
		qsort_r(c->order, n, sizeof(*c->order), by_priority, c);
	return n;
}

static void share_out(struct control *c)
{
	double left = c->budget.rate_bytes_s;
	uint32_t n = sort_buckets(c), end;
	c->threshold = c->min_threshold;
	for (uint32_t at = 0; at < n; at = end) {
		double first = c->buckets[c->order[at]].priority, wanted = 0;
		for (end = at; end < n; end++) {
			const struct control_bucket *b = &c->buckets[c->order[end]];
			if (b->priority < first * (1 - CONTROL_SAME_PRIORITY))
				break;
			wanted += b->missed_bytes_s;
		}
		double share = wanted <= left ? 1 : left / wanted;
		assert(share >= 0 && share <= 1);
		for (uint32_t i = at; i < end; i++) {
			struct control_bucket *b = &c->buckets[c->order[i]];
			b->share = b->priority > c->min_threshold ? share : 0;
		}
		if (share < 1 && left > 0)
			c->threshold = fmax(first, c->min_threshold);
		left = fmax(left - wanted, 0);
	}
}

void control_refresh(struct control *c, uint64_t now_ms, control_priority_fn *priority, void *arg)
{
	if (!c->started) {
		c->started = true;
		c->refreshed_ms = now_ms;
	}
	bool due = now_ms >= c->refreshed_ms + c->refresh_ms;
	if (!due && !c->fresh)
		return;
	if (due) {
		double seconds = (double)(now_ms - c->refreshed_ms) / 1000;
		for (uint32_t b = 0; b < c->buckets_n; b++) {
			struct control_bucket *it = &c->buckets[b];
			double now = (double)it->missed_bytes / seconds;
			it->missed_bytes_s += CONTROL_SMOOTHING * (now - it->missed_bytes_s);
			it->missed_bytes = 0;
		}
		cache_budget_update(&c->budget, seconds);
		c->refreshed_ms = now_ms;
	}
	for (uint32_t b = 0; b < c->buckets_n; b++)
		if (c->buckets[b].known)
			c->buckets[b].priority = priority(arg, (uint16_t)b);
	c->fresh = false;
	share_out(c);
}

bool control_admit(struct control *c, const struct cache_request *r, uint32_t index,
		   uint64_t segment_bytes)
{
	if (r->bucket >= c->buckets_n)
		return false; /* there was no memory for it */
	struct control_bucket *b = &c->buckets[r->bucket];
	double at = (double)(mix_u64(r->block ^ 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-53;
	b->missed_bytes += segment_bytes;
	if (at >= b->share) {
		/* The engine asks no further: the other segments of the request are refused with this one. */
		b->missed_bytes += segment_bytes * (r->segments - index - 1);
		return false;
	}
	cache_budget_wrote(&c->budget, segment_bytes);
	return true;
}

bool control_reinsert(const struct control *c, uint16_t bucket)
{
	double planned = c->budget.rate_bytes_s * (double)c->refresh_ms / 1000;
	if ((double)c->budget.written >= planned)
		return false;
	return c->reinsert_offset > 0 && bucket < c->buckets_n &&
	       c->buckets[bucket].priority > c->threshold + c->reinsert_offset;
}
