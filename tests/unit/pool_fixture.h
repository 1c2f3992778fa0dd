// SPDX-License-Identifier: Apache-2.0
/* A pool over members in memory. The test can make members fail, and they outlive the pool. */
#ifndef TESTS_POOL_FIXTURE_H
#define TESTS_POOL_FIXTURE_H

#include "store/pool.h"
#include "store_fixture.h"

#define MEMBERS_MAX 8
#define PIECE 16384
#define COPY 128 /* row number of the first copy */

struct pool_fixture {
	struct store_pool_shape shape;
	struct store *mem[MEMBERS_MAX];
	struct store *fault[MEMBERS_MAX];
	struct store_ops kept; /* the operations of a fault store, with a close that does nothing */
	const struct store_ops *ops;
	struct store *pool;
};

void fixture_open(struct pool_fixture *fx, enum place_kind place, uint32_t members, uint32_t k,
		  uint32_t p);
void fixture_close(struct pool_fixture *fx);
int fixture_reopen(struct pool_fixture *fx); /* reopens the pool, not its members */

/* Creates an empty member that is not in the pool yet; destroys a member. */
void fixture_member_new(struct pool_fixture *fx, uint32_t m);
void fixture_member_end(struct pool_fixture *fx, uint32_t m);

/* Makes calls of these kinds return rc from now on; 0 removes the fault. */
void fixture_fault(struct pool_fixture *fx, uint32_t m, unsigned calls, int rc);
void fixture_clear_faults(struct pool_fixture *fx);

struct chunk_id fixture_id(uint64_t number);
/*
 * fixture_row_member returns the member of a row; fixture_holds whether a member has a row of the
 * chunk; fixture_stat the result of stat of a row or copy on its member.
 */
uint32_t fixture_row_member(struct pool_fixture *fx, uint64_t number, uint32_t row);
bool fixture_holds(struct pool_fixture *fx, uint64_t number, uint32_t member);
int fixture_stat(struct pool_fixture *fx, uint64_t number, uint32_t row);

#endif
