// SPDX-License-Identifier: Apache-2.0
/*
 * Memory handed out before it is needed: an operation asks once for all it may hold, and so never
 * waits for memory while it holds some, which is how a pool deadlocks. First come, first served.
 */
#ifndef CLIENT_GATE_H
#define CLIENT_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "rt/sync.h"

struct gate {
	uint64_t limit_bytes;
	uint64_t held_bytes;
	uint64_t peak_bytes;
	struct rt_mutex turn; /* held by the one who is next */
	struct rt_cond freed;
};

void gate_init(struct gate *g, uint64_t limit_bytes);
/* Waits. More than the limit is let in alone, as if it were the limit. */
int gate_enter(struct gate *g, uint64_t bytes);
/* Without waiting: whether it was let in. */
bool gate_try(struct gate *g, uint64_t bytes);
void gate_leave(struct gate *g, uint64_t bytes);

#endif
