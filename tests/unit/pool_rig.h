// SPDX-License-Identifier: Apache-2.0
/* A pool over members in memory that can be made to fail, and that outlive it. */
#ifndef TESTS_POOL_RIG_H
#define TESTS_POOL_RIG_H

#include "store/pool.h"
#include "store_fixture.h"

#define MEMBERS_MAX 8
#define PIECE 16384
#define COPY 128 /* the first row that is a copy */

struct rig {
	struct store_pool_shape shape;
	struct store *mem[MEMBERS_MAX];
	struct store *fault[MEMBERS_MAX];
	struct store_ops kept; /* those of a fault store, but closing it does nothing */
	const struct store_ops *ops;
	struct store *pool;
};

void rig_open(struct rig *r, enum place_kind place, uint32_t members, uint32_t k, uint32_t p);
void rig_close(struct rig *r);
int rig_reopen(struct rig *r); /* the pool alone */

/* A new, empty member, which nothing uses yet; and the end of one. */
void rig_member_new(struct rig *r, uint32_t m);
void rig_member_end(struct rig *r, uint32_t m);

/* Calls of these kinds return rc from now on; 0: no fault. */
void rig_fault(struct rig *r, uint32_t m, unsigned calls, int rc);
void rig_heal(struct rig *r);

struct chunk_id rig_id(uint64_t number);
/* The member of a row; whether a member has a row of the chunk; what its member says of a row, or copy. */
uint32_t rig_where(struct rig *r, uint64_t number, uint32_t row);
bool rig_holds(struct rig *r, uint64_t number, uint32_t member);
int rig_stat(struct rig *r, uint64_t number, uint32_t row);

/* Runs main in a simulated process, to its end. */
void rig_in_sim(void (*main)(void *), void *arg);

#endif
