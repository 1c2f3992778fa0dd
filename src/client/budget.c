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
	rt_budget_init(&b->turn, 1, false);
	int rc = pthread_mutex_init(&b->lock, NULL);
	assert(rc == 0);
	(void)rc;
}

void budget_fini(struct budget *b)
{
	rt_budget_fini(&b->turn);
	pthread_mutex_destroy(&b->lock);
}

/* The caller holds the lock. */
static void budget_add(struct budget *b, double credit)
{
	b->credit += credit;
	if (b->credit > b->burst)
		b->credit = b->burst;
}

/* The caller holds the lock. */
static void budget_tick(struct budget *b)
{
	uint64_t now = rt_now_ns();
	/* Another loop may have read the clock later and come first. */
	if (now <= b->at_ns)
		return;
	budget_add(b, b->floor_per_s * (double)(now - b->at_ns) / (double)NS_PER_S);
	b->at_ns = now;
}

void budget_earn(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	budget_add(b, b->share);
	pthread_mutex_unlock(&b->lock);
}

static bool budget_spend(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	budget_tick(b);
	bool enough = b->credit >= 1.0;
	if (enough) {
		b->credit -= 1.0;
		b->taken++;
	}
	assert(b->credit >= 0);
	pthread_mutex_unlock(&b->lock);
	return enough;
}

static void budget_refuse(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	b->refused++;
	pthread_mutex_unlock(&b->lock);
}

/* Spends credit unless a reader waits in budget_take: that reader has no other plan. */
static bool budget_spend_unless_awaited(struct budget *b)
{
	return rt_budget_used(&b->turn) == 0 && budget_spend(b);
}

bool budget_try(struct budget *b)
{
	if (budget_spend_unless_awaited(b))
		return true;
	budget_refuse(b);
	return false;
}

int budget_take(struct budget *b, uint64_t wait_ns)
{
	if (budget_spend_unless_awaited(b))
		return 0;
	uint64_t until_ns = rt_now_ns() + wait_ns;
	uint64_t before_ns = rt_deadline_narrow(until_ns);
	int rc = rt_budget_take(&b->turn, 1, NULL, NULL);
	if (rc == 0) {
		while (!budget_spend(b)) {
			rc = rt_sleep_ns(BUDGET_POLL_NS);
			if (rc < 0)
				break;
		}
		rt_budget_give(&b->turn, 1);
	}
	rt_deadline_set(before_ns);
	if (rc == -ETIME && rt_now_ns() < before_ns)
		rc = -EBUSY;
	if (rc < 0)
		budget_refuse(b);
	return rc;
}
