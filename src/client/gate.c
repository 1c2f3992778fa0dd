// SPDX-License-Identifier: Apache-2.0
#include "client/gate.h"

#include <assert.h>

#include "base/base.h"

void gate_init(struct gate *g, uint64_t limit_bytes)
{
	assert(limit_bytes > 0);
	rt_budget_init(&g->budget, limit_bytes, false);
}

void gate_fini(struct gate *g)
{
	rt_queue_fini(&g->budget.queue);
}

int gate_enter(struct gate *g, uint64_t bytes)
{
	return rt_budget_take(&g->budget, min_u64(bytes, gate_limit(g)), NULL, NULL);
}

bool gate_try(struct gate *g, uint64_t bytes)
{
	return rt_budget_try(&g->budget, min_u64(bytes, gate_limit(g)));
}

void gate_leave(struct gate *g, uint64_t bytes)
{
	rt_budget_give(&g->budget, min_u64(bytes, gate_limit(g)));
}

uint64_t gate_held(struct gate *g)
{
	return rt_budget_used(&g->budget);
}
