// SPDX-License-Identifier: Apache-2.0
/*
 * The budget for reconstructed reads: reads whose bytes are computed from other chunks.
 *
 * A reconstructed read costs the cluster k times as much as an ordinary one. When disks are overloaded, reads time
 * out; if each of them became k reads, the load would grow until nothing is served (a reconstruction storm:
 * Tectonic, section 6.4). So reconstructed reads may be a share of all reads, 10% by default, plus a small rate
 * that keeps data of an offline disk readable when there are no other reads:
 *
 *     credit          += share for each ordinary read, += floor_per_s each second, up to burst
 *     reconstruction  takes 1
 *
 * A hedge asks for credit and is skipped without it. A read without another plan waits for credit, first come first
 * served, until its deadline, and then fails.
 *
 * The loops of a client share its budget.
 */
#ifndef CLIENT_BUDGET_H
#define CLIENT_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "rt/queue.h"

struct budget {
	double share;       /* credit for each ordinary read */
	double floor_per_s; /* credit for each second */
	double burst;
	struct rt_budget turn; /* of one reader: the one that waits for credit has it */
	pthread_mutex_t lock;  /* guards the fields below; no other lock is taken under it */
	double credit;
	uint64_t at_ns; /* monotonic time up to which floor_per_s was added to the credit */
	uint64_t taken, refused;
};

void budget_init(struct budget *b, double share, double floor_per_s, double burst);
/* No reader may wait. */
void budget_fini(struct budget *b);

/* Adds the credit of one ordinary read. */
void budget_earn(struct budget *b);
/* Takes credit for one reconstruction. Returns false if there is none or a reader waits for it. */
bool budget_try(struct budget *b);
/* Waits for credit for one reconstruction and takes it. -EBUSY: there was none for wait_ns;
 * -ETIME, -ECANCELED. */
int budget_take(struct budget *b, uint64_t wait_ns);

#endif
