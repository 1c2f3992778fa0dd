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

void fixture_member_new(struct pool_fixture *r, uint32_t m)
{
	CHECK_EQ(store_mem_open(64 * MIB, &r->mem[m]), 0);
	CHECK_EQ(store_fault_open_take(r->mem[m], &r->fault[m]), 0);
	r->ops = r->fault[m]->ops;
	r->kept = *r->ops;
	r->kept.close = stay_open;
	r->fault[m]->ops = &r->kept;
}

void fixture_member_end(struct pool_fixture *r, uint32_t m)
{
	r->fault[m]->ops = r->ops;
	store_close(r->fault[m]);
}

void fixture_open(struct pool_fixture *r, enum place_kind place, uint32_t members, uint32_t k,
		  uint32_t p)
{
	*r = (struct pool_fixture){.shape = {.id = 1,
					     .k = k,
					     .p = p,
					     .members = members,
					     .place = place,
					     .piece_bytes = PIECE}};
	for (uint32_t m = 0; m < members; m++)
		fixture_member_new(r, m);
	CHECK_EQ(store_pool_format(&r->shape, r->fault), 0);
	CHECK_EQ(store_pool_open_take(&r->shape, r->fault, &r->pool), 0);
}

void fixture_close(struct pool_fixture *r)
{
	store_close(r->pool);
	for (uint32_t m = 0; m < r->shape.members; m++)
		fixture_member_end(r, m);
}

int fixture_reopen(struct pool_fixture *r)
{
	store_close(r->pool);
	r->pool = NULL;
	return store_pool_open_take(&r->shape, r->fault, &r->pool);
}

void fixture_fault(struct pool_fixture *r, uint32_t m, unsigned calls, int rc)
{
	struct store_fault f = {.calls = calls, .nth = rc != 0, .from_there = true, .rc = rc};
	store_fault_set(r->fault[m], &f);
}

void fixture_clear_faults(struct pool_fixture *r)
{
	for (uint32_t m = 0; m < r->shape.members; m++)
		fixture_fault(r, m, 0, 0);
}

struct chunk_id fixture_id(uint64_t number)
{
	return (struct chunk_id){.block = number};
}

uint32_t fixture_row_member(struct pool_fixture *r, uint64_t number, uint32_t row)
{
	int m = store_pool_row_member(r->pool, fixture_id(number), row);
	CHECK(m >= 0);
	return (uint32_t)m;
}

bool fixture_holds(struct pool_fixture *r, uint64_t number, uint32_t member)
{
	for (uint32_t row = 0; row < r->shape.k + r->shape.p; row++)
		if (fixture_row_member(r, number, row) == member)
			return true;
	return false;
}

int fixture_stat(struct pool_fixture *r, uint64_t number, uint32_t row)
{
	struct chunk_stat st;
	struct chunk_id id = {.block = number, .index = row};
	return store_stat(r->mem[fixture_row_member(r, number, row % COPY)], id, &st);
}

void fixture_in_sim(void (*main)(void *), void *arg)
{
	struct sim_config config;
	sim_config_init(&config, 1, 0);
	struct sim *s = sim_open(&config);
	struct sim_node *n = sim_node_add(s, "n1", 0);
	sim_node_start(n, main, arg);
	sim_run(s, NS_PER_S * 3600 * 24);
	assert_false(sim_node_running(n));
	sim_close(s);
}
