// SPDX-License-Identifier: Apache-2.0
/*
 * The budget for reads that have to be computed from other chunks.
 *
 * Such a read costs the cluster k times an ordinary one. When disks are overloaded, reads time out;
 * if every one of them became k reads, the load would grow until nothing is served (a
 * reconstruction storm: Tectonic, section 6.4). So rebuilt reads may be a share of all reads, 10%
 * by default, beside a small rate that keeps data behind a dead disk readable when nothing else is
 * read:
 *
 *     credit  += share for each ordinary read, += floor_per_s each second, up to burst
 *     rebuild  takes 1
 *
 * Whoever only wants to be faster (a hedge) asks and goes without; whoever has no other way waits
 * for credit, first come first served, until its deadline, and then fails.
 */
#ifndef CLIENT_BUDGET_H
#define CLIENT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "rt/sync.h"

struct budget {
	double share;       /* of ordinary reads */
	double floor_per_s; /* beside it */
	double burst;
	double credit;
	uint64_t at_ns; /* when the time's part was last added */
	struct rt_mutex turn;
	uint64_t taken, refused;
};

void budget_init(struct budget *b, double share, double floor_per_s, double burst);

/* An ordinary read was made. */
void budget_earn(struct budget *b);
/* Takes credit for one, if there is. */
bool budget_try(struct budget *b);
/* Waits for credit. -EBUSY when there was none for wait_ns; -ETIME, -ECANCELED. */
int budget_take(struct budget *b, uint64_t wait_ns);

#endif
