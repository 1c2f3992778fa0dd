// SPDX-License-Identifier: Apache-2.0
/*
 * The control plane of Shift on a cache node: which share of each bucket is admitted and what is reinserted, from the
 * priorities of buckets, a minimum threshold and the endurance limit of the flash.
 *
 * Every refresh orders the buckets by priority and gives each the rate at which it misses, until the rates add up to
 * the budget: the buckets before that are admitted, those behind are not, and the bucket at which the budget ends is
 * admitted in part. Its part is chosen by a hash of the block, because one missing segment that is not admitted makes
 * the whole request a miss. Buckets with nearly the same priority share a part. The admit threshold is the priority at
 * which the budget ends; a bucket at or below the minimum threshold is not admitted at all.
 *
 * The budget is the rate of writes (admitted and reinserted bytes) that the endurance limit allows (budget.h).
 */
#ifndef CACHE_CONTROL_H
#define CACHE_CONTROL_H

#include "cache/budget.h"
#include "cache/policy.h"

struct control_bucket {
	bool known; /* it was requested */
	double priority;
	double share;          /* part of its blocks that is admitted */
	double missed_bytes_s; /* smoothed */
	uint64_t missed_bytes; /* since the last refresh */
};

struct control {
	struct control_bucket *buckets;
	uint32_t buckets_n;
	uint16_t *order; /* buckets by priority, of buckets_n */
	uint64_t refresh_ms, refreshed_ms;
	bool started, fresh; /* fresh: a bucket was requested for the first time */
	double min_threshold, reinsert_offset;
	double threshold; /* the admit threshold */
	struct cache_budget budget;
};

/* Returns the priority of a bucket. */
typedef double control_priority_fn(void *arg, uint16_t bucket);

void control_init(struct control *c, const struct cache_params *params);
void control_fini(struct control *c);

/* A request for the bucket arrived. -ENOMEM: the bucket is not admitted. */
int control_see(struct control *c, uint16_t bucket);

/* Computes the shares anew if it is time, or if a bucket was requested for the first time. */
void control_refresh(struct control *c, uint64_t now_ms, control_priority_fn *priority, void *arg);

/* Decides on a missing segment of a request, and counts what it adds to the writes. */
bool control_admit(struct control *c, const struct cache_request *r, uint32_t index,
		   uint64_t segment_bytes);

/* Decides whether segments of the bucket are reinserted: never beyond the bytes that are planned for this period, because
 * what was reinserted has the priority to be reinserted again. */
bool control_reinsert(const struct control *c, uint16_t bucket);

#endif
