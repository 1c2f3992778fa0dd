// SPDX-License-Identifier: Apache-2.0
#include "cache/budget.h"

#include <assert.h>
#include <math.h>

#define HORIZON_S 600.0 /* time in which a past excess of writes is made up for */
#define LEAN 0.3        /* largest deviation of the target from the limit */
#define RANGE 100.0     /* largest ratio of rate and limit */

void cache_budget_init(struct cache_budget *b, uint64_t limit_bytes_s)
{
	double limit = (double)limit_bytes_s;
	*b = (struct cache_budget){.limit_bytes_s = limit,
				   .rate_bytes_s = limit > 0 ? limit : INFINITY};
}

void cache_budget_wrote(struct cache_budget *b, uint64_t bytes)
{
	b->written += bytes;
	b->written_all += bytes;
}

void cache_budget_update(struct cache_budget *b, double seconds)
{
	if (b->limit_bytes_s <= 0 || seconds <= 0)
		return;
	assert(b->written <= b->written_all);
	double limit = b->limit_bytes_s, last = b->errors[0];
	b->elapsed_s += seconds;
	double owed = (limit * b->elapsed_s - (double)b->written_all) / HORIZON_S;
	double target = limit + fmin(fmax(owed, -LEAN * limit), LEAN * limit);
	double e = target - (double)b->written / seconds;
	double step = 0.2 * e + 0.1 * (e - last) + 0.05 * (e - 2 * last + b->errors[1]);
	b->rate_bytes_s = fmin(fmax(b->rate_bytes_s + step, limit / RANGE), limit * RANGE);
	b->errors[1] = last;
	b->errors[0] = e;
	b->written = 0;
}
