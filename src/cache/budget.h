// SPDX-License-Identifier: Apache-2.0
/*
 * The rate of flash writes that a policy may plan for, so that the bytes it really writes meet the endurance limit on
 * average. Plans and writes differ (a plan rests on the misses of the last period), so a PID loop corrects the plan by
 * what was written:
 *
 *   target = limit + (limit * elapsed - written) / 600 s, within 30% of the limit
 *   error  = target - rate of the last period
 *   rate  += 0.2 error + 0.1 (error - last error) + 0.05 (error - 2 last error + the error before)
 *
 * The rate stays between 1/100 and 100 times the limit. Without a limit it is infinite.
 */
#ifndef CACHE_BUDGET_H
#define CACHE_BUDGET_H

#include <stdint.h>

struct cache_budget {
	double limit_bytes_s; /* 0: none */
	double rate_bytes_s;  /* what a policy may plan for */
	double errors[2];
	uint64_t written, written_all; /* bytes since the last update, and since the start */
	double elapsed_s;
};

void cache_budget_init(struct cache_budget *b, uint64_t limit_bytes_s);
/* Counts bytes that are written. */
void cache_budget_wrote(struct cache_budget *b, uint64_t bytes);
/* Corrects the rate after a period. */
void cache_budget_update(struct cache_budget *b, double seconds);

#endif
