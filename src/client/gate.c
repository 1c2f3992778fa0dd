// SPDX-License-Identifier: Apache-2.0
#include "client/gate.h"

#include <assert.h>

#include "base/base.h"

void gate_init(struct gate *g, uint64_t limit_bytes)
{
	assert(limit_bytes > 0);
	*g = (struct gate){.limit_bytes = limit_bytes};
	rt_mutex_init(&g->turn);
	rt_cond_init(&g->freed);
}

static void gate_add(struct gate *g, uint64_t bytes)
{
	g->held_bytes += bytes;
	assert(g->held_bytes <= g->limit_bytes);
	g->peak_bytes = max_u64(g->peak_bytes, g->held_bytes);
}

int gate_enter(struct gate *g, uint64_t bytes)
{
	bytes = min_u64(bytes, g->limit_bytes);
	int rc = rt_mutex_lock(&g->turn);
	if (rc < 0)
		return rc;
	while (rc == 0 && g->held_bytes + bytes > g->limit_bytes)
		rc = rt_cond_wait(&g->freed);
	if (rc == 0)
		gate_add(g, bytes);
	rt_mutex_unlock(&g->turn);
	return rc;
}

bool gate_try(struct gate *g, uint64_t bytes)
{
	bytes = min_u64(bytes, g->limit_bytes);
	if (g->turn.owner != NULL || g->held_bytes + bytes > g->limit_bytes)
		return false;
	gate_add(g, bytes);
	return true;
}

void gate_leave(struct gate *g, uint64_t bytes)
{
	assert(g->held_bytes >= min_u64(bytes, g->limit_bytes)); /* no caller leaves twice */
	g->held_bytes -= min_u64(bytes, g->limit_bytes);
	rt_cond_broadcast(&g->freed);
}
