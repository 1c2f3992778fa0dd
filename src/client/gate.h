// SPDX-License-Identifier: Apache-2.0
/* Limits the memory of calls. A call enters once, with all the bytes it may hold, before it
 * allocates. So no call waits for memory while it holds some, which is how a pool deadlocks.
 * First come, first served. The loops of a client share its gates. */
#ifndef CLIENT_GATE_H
#define CLIENT_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "rt/queue.h"

struct gate {
	struct rt_budget budget;
};

void gate_init(struct gate *g, uint64_t limit_bytes);
/* No caller may wait. */
void gate_fini(struct gate *g);
/* Enters with `bytes`. Waits until they fit below the limit. A caller with more bytes than the
 * limit enters alone and counts as the limit. -ECANCELED, -ETIME. */
int gate_enter(struct gate *g, uint64_t bytes);
/* Enters without waiting if the bytes fit now and no caller waits. Returns whether the caller
 * has entered. */
bool gate_try(struct gate *g, uint64_t bytes);
/* Leaves with the bytes that were given at entry. On any loop. */
void gate_leave(struct gate *g, uint64_t bytes);
/* Returns the bytes that callers hold now. */
uint64_t gate_held(struct gate *g);

static inline uint64_t gate_limit(const struct gate *g)
{
	return g->budget.limit;
}

#endif
