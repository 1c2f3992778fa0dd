// SPDX-License-Identifier: Apache-2.0
#include "pool_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rt/sim.h"
#include "store/fault.h"
#include "store/mem.h"

static void stay_open(struct store *s)
{
	(void)s;
}

void fixture_member_new(struct pool_fixture *fx, uint32_t m)
{
	CHECK_EQ(store_mem_open(64 * MIB, &fx->mem[m]), 0);
	CHECK_EQ(store_fault_open_take(fx->mem[m], &fx->fault[m]), 0);
	fx->ops = fx->fault[m]->ops;
	fx->kept = *fx->ops;
	fx->kept.close = stay_open;
	fx->fault[m]->ops = &fx->kept;
}

void fixture_member_end(struct pool_fixture *fx, uint32_t m)
{
	fx->fault[m]->ops = fx->ops;
	store_close(fx->fault[m]);
}

void fixture_open(struct pool_fixture *fx, enum place_kind place, uint32_t members, uint32_t k,
		  uint32_t p)
{
	*fx = (struct pool_fixture){.shape = {.id = 1,
					      .k = k,
					      .p = p,
					      .members = members,
					      .place = place,
					      .piece_bytes = PIECE}};
	for (uint32_t m = 0; m < members; m++)
		fixture_member_new(fx, m);
	CHECK_EQ(store_pool_format(&fx->shape, fx->fault), 0);
	CHECK_EQ(store_pool_open_take(&fx->shape, fx->fault, &fx->pool), 0);
}

void fixture_close(struct pool_fixture *fx)
{
	store_close(fx->pool);
	for (uint32_t m = 0; m < fx->shape.members; m++)
		fixture_member_end(fx, m);
}

int fixture_reopen(struct pool_fixture *fx)
{
	store_close(fx->pool);
	fx->pool = NULL;
	return store_pool_open_take(&fx->shape, fx->fault, &fx->pool);
}

void fixture_fault(struct pool_fixture *fx, uint32_t m, unsigned calls, int rc)
{
	struct store_fault f = {.calls = calls, .nth = rc != 0, .from_there = true, .rc = rc};
	store_fault_set(fx->fault[m], &f);
}

void fixture_clear_faults(struct pool_fixture *fx)
{
	for (uint32_t m = 0; m < fx->shape.members; m++)
		fixture_fault(fx, m, 0, 0);
}

struct chunk_id fixture_id(uint64_t number)
{
	return (struct chunk_id){.block = number};
}

uint32_t fixture_row_member(struct pool_fixture *fx, uint64_t number, uint32_t row)
{
	int m = store_pool_row_member(fx->pool, fixture_id(number), row);
	CHECK(m >= 0);
	return (uint32_t)m;
}

bool fixture_holds(struct pool_fixture *fx, uint64_t number, uint32_t member)
{
	for (uint32_t row = 0; row < fx->shape.k + fx->shape.p; row++)
		if (fixture_row_member(fx, number, row) == member)
			return true;
	return false;
}

int fixture_stat(struct pool_fixture *fx, uint64_t number, uint32_t row)
{
	struct chunk_stat st;
	struct chunk_id id = {.block = number, .index = row};
	return store_stat(fx->mem[fixture_row_member(fx, number, row % COPY)], id, &st);
}
