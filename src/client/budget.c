// SPDX-License-Identifier: Apache-2.0
#include "client/budget.h"

#include <assert.h>
#include <errno.h>

#include "base/base.h"
#include "rt/rt.h"

#define BUDGET_POLL_NS (5 * NS_PER_MS)

void budget_init(struct budget *b, double share, double floor_per_s, double burst)
{
	assert(share >= 0 && floor_per_s >= 0 && burst > 0);
	*b = (struct budget){
		.share = share, .floor_per_s = floor_per_s, .burst = burst, .credit = burst};
	b->at_ns = rt_now_ns();
	rt_mutex_init(&b->turn);
}

static void budget_add(struct budget *b, double credit)
{
	b->credit += credit;
	if (b->credit > b->burst)
		b->credit = b->burst;
}

static void budget_tick(struct budget *b)
{
	uint64_t now = rt_now_ns();
	budget_add(b, b->floor_per_s * (double)(now - b->at_ns) / (double)NS_PER_S);
	b->at_ns = now;
}

void budget_earn(struct budget *b)
{
	budget_add(b, b->share);
}

static bool budget_spend(struct budget *b)
{
	budget_tick(b);
	if (b->credit < 1.0)
		return false;
	b->credit -= 1.0;
	assert(b->credit >= 0);
	b->taken++;
	return true;
}

bool budget_try(struct budget *b)
{
	/* Grant nothing while a reader waits in budget_take: that reader has no other plan. */
	if (b->turn.owner == NULL && budget_spend(b))
		return true;
	b->refused++;
	return false;
}

int budget_take(struct budget *b, uint64_t wait_ns)
{
	if (b->turn.owner == NULL && budget_spend(b))
		return 0;
	uint64_t until_ns = rt_now_ns() + wait_ns;
	uint64_t before_ns = rt_deadline_narrow(until_ns);
	int rc = rt_mutex_lock(&b->turn);
	if (rc == 0) {
		assert(rt_mutex_held(&b->turn)); /* first come, first served */
		while (!budget_spend(b)) {
			rc = rt_sleep_ns(BUDGET_POLL_NS);
			if (rc < 0)
				break;
		}
		rt_mutex_unlock(&b->turn);
	}
	rt_deadline_set(before_ns);
	if (rc == -ETIME && rt_now_ns() < before_ns)
		rc = -EBUSY;
	if (rc < 0)
		b->refused++;
	return rc;
}
