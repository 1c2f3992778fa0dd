// SPDX-License-Identifier: Apache-2.0
/*
 * Pools with members that fail several at a time and come back: one test for each bug that was
 * found.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "pool_fixture.h"
#include "rt/rt.h"
#include "sim_test.h"
#include "store/fault.h"
#include "store/mem.h"

/* Members miss a row of other chunks, or a change of other copies, one after the other. */
static void both_fall_behind(void *arg)
{
	const bool *copies = arg;
	struct pool_fixture fx;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	CHECK_EQ(text_put(fx.pool, fixture_id(1000), 5, 3000, true, 50000), 0);
	CHECK_EQ(text_append(fx.pool, fixture_id(1000), 1, 5, 3000, 2000), 0);
	uint32_t a = fixture_row_member(&fx, 1000, 0), b = fixture_row_member(&fx, 1000, 1);
	for (uint32_t turn = 0; turn < 2; turn++) {
		uint32_t m = turn == 0 ? a : b, other = turn == 0 ? b : a;
		uint64_t n = 500UL * turn;
		while (!fixture_holds(&fx, n, m) || fixture_holds(&fx, n, other) ||
		       (*copies && fixture_row_member(&fx, n, 0) != m &&
			fixture_row_member(&fx, n, 1) != m))
			n++;
		if (*copies)
			CHECK_EQ(text_put(fx.pool, fixture_id(n), 9, 1000, true, 5000), 0);
		fixture_fault(&fx, m, STORE_CALL_ALL, -EROFS);
		if (*copies)
			CHECK_EQ(store_delete(fx.pool, fixture_id(n)), 0);
		else
			CHECK_EQ(text_put(fx.pool, fixture_id(n), 9, 1000, false, 0), 0);
		fixture_clear_faults(&fx);
	}
	CHECK_EQ(store_pool_behind_count(fx.pool), *copies ? 2 : 0);
	CHECK(store_pool_rebuild_due(fx.pool));
	CHECK_EQ(text_get(fx.pool, fixture_id(1000), 5, 0, 5000, 0), 0);
	/* The member that fell behind first may not know the change. */
	fixture_fault(&fx, b, STORE_CALL_ALL, -EIO);
	struct chunk_stat st;
	CHECK_EQ(store_stat(fx.pool, fixture_id(1000), &st), *copies ? -EIO : 0);
	CHECK_EQ(store_delete(fx.pool, fixture_id(1000)), *copies ? -EIO : 0);
	fixture_clear_faults(&fx);
	if (!*copies) {
		fixture_close(&fx);
		return;
	}
	CHECK_EQ(store_pool_rebuild(fx.pool, 2, &pr), 0);
	CHECK_EQ(text_get(fx.pool, fixture_id(1000), 5, 0, 5000, 0), 0);
	CHECK(fixture_stat(&fx, 1000, COPY) == 0 && fixture_stat(&fx, 1000, COPY + 1) == 0);
	fixture_close(&fx);
}

static void an_open_chunk_is_readable_when_all_its_members_fell_behind(void **state)
{
	(void)state;
	bool copies = true, rows = false;
	sim_test_run(both_fall_behind, &copies);
	sim_test_run(both_fall_behind, &rows);
}

SIM_TEST(a_scan_that_cannot_repair_deletes_nothing)
{
	struct pool_fixture fx;
	struct store_range bad[4];
	fixture_open(&fx, PLACE_CLUSTERED, 4, 3, 1);
	CHECK_EQ(text_put(fx.pool, fixture_id(7), 3, 240000, false, 0), 0);
	uint32_t a = fixture_row_member(&fx, 7, 0), b = fixture_row_member(&fx, 7, 1);
	CHECK_EQ(store_mem_flip(fx.mem[a], (struct chunk_id){.block = 7, .index = 0}, 100, 1), 0);
	CHECK_EQ(store_mem_flip(fx.mem[b], (struct chunk_id){.block = 7, .index = 1}, 2 * PIECE + 5,
				1),
		 0);
	CHECK_EQ(text_get(fx.pool, fixture_id(7), 3, 0, 240000, 0), 0);
	fixture_fault(&fx, a, STORE_CALL_PUT, -EROFS);
	fixture_fault(&fx, b, STORE_CALL_PUT, -ENOSPC);
	CHECK(store_scan(fx.pool, fixture_id(7), bad, 4) < 0);
	CHECK_EQ(text_get(fx.pool, fixture_id(7), 3, 0, 240000, 0), 0);
	fixture_clear_faults(&fx);
	CHECK_EQ(text_get(fx.pool, fixture_id(7), 3, 0, 240000, 0), 0);
	CHECK_EQ(store_scan(fx.pool, fixture_id(7), bad, 4), 0);
	fixture_fault(&fx, fixture_row_member(&fx, 7, 2), STORE_CALL_ALL, -EIO);
	CHECK_EQ(text_get(fx.pool, fixture_id(7), 3, 0, 240000, 0), 0);
	fixture_clear_faults(&fx);
	/* Copies: the damaged one is replaced from the other one. */
	CHECK_EQ(text_put(fx.pool, fixture_id(8), 4, 40000, true, 90000), 0);
	a = fixture_row_member(&fx, 8, 0);
	b = fixture_row_member(&fx, 8, 1);
	CHECK_EQ(store_mem_flip(fx.mem[a], (struct chunk_id){.block = 8, .index = COPY}, 20000, 1),
		 0);
	fixture_fault(&fx, a, STORE_CALL_PUT, -EROFS);
	store_scan(fx.pool, fixture_id(8), bad, 4);
	CHECK_EQ(text_get(fx.pool, fixture_id(8), 4, 0, 40000, 0), 0);
	fixture_clear_faults(&fx);
	CHECK_EQ(store_scan(fx.pool, fixture_id(8), bad, 4), 0);
	struct store_pool_progress pr;
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	fixture_fault(&fx, b, STORE_CALL_ALL, -EIO);
	CHECK_EQ(text_get(fx.pool, fixture_id(8), 4, 0, 40000, 0), 0);
	fixture_close(&fx);
}

SIM_TEST(a_chunk_that_may_return_is_not_replaced_by_a_put)
{
	struct pool_fixture fx;
	struct chunk_stat st;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	CHECK_EQ(text_put(fx.pool, fixture_id(7), 3, 60000, false, 0), 0);
	fixture_fault(&fx, fixture_row_member(&fx, 7, 0), STORE_CALL_ALL, -EIO);
	fixture_fault(&fx, fixture_row_member(&fx, 7, 3), STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_stat(fx.pool, fixture_id(7), &st), -ENODATA);
	CHECK_EQ(text_put(fx.pool, fixture_id(7), 4, 60000, false, 0), -EEXIST);
	CHECK_EQ(text_put(fx.pool, fixture_id(7), 4, 600, true, 1000), -EEXIST);
	fixture_clear_faults(&fx);
	CHECK_EQ(text_get(fx.pool, fixture_id(7), 3, 0, 60000, 0), 0);
	/*
	 * While its members are down the state of an open chunk is unknown: a put must not replace
	 * it either.
	 */
	CHECK_EQ(text_put(fx.pool, fixture_id(9), 3, 600, true, 1000), 0);
	fixture_fault(&fx, fixture_row_member(&fx, 9, 0), STORE_CALL_ALL, -EIO);
	fixture_fault(&fx, fixture_row_member(&fx, 9, 1), STORE_CALL_ALL, -EIO);
	CHECK_EQ(text_put(fx.pool, fixture_id(9), 4, 60000, false, 0), -EIO);
	CHECK_EQ(store_delete(fx.pool, fixture_id(9)), -EIO);
	fixture_clear_faults(&fx);
	CHECK_EQ(text_get(fx.pool, fixture_id(9), 3, 0, 600, 0), 0);
	fixture_close(&fx);
}

SIM_TEST(a_rebuild_that_could_not_list_a_member_is_incomplete)
{
	struct pool_fixture fx;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	for (uint64_t i = 0; i < 60; i++)
		CHECK_EQ(text_put(fx.pool, fixture_id(i), i, 2000, false, 0), 0);
	CHECK_EQ(store_pool_give_up(fx.pool, 5), 0);
	fixture_fault(&fx, 0, STORE_CALL_LIST, -EIO);
	CHECK_EQ(store_pool_rebuild(fx.pool, 2, &pr), -EIO);
	CHECK(pr.failed > 0 && store_pool_rebuild_due(fx.pool));
	/*
	 * One member may be skipped: others list its chunks. Of two, some chunks are on no other
	 * member.
	 */
	for (uint32_t unlisted = 1; unlisted <= 2; unlisted++) {
		struct store_cursor at = {0};
		struct chunk_id ids[7];
		int64_t n, all = 0;
		fixture_fault(&fx, unlisted - 1, STORE_CALL_LIST, -EIO);
		while ((n = store_list(fx.pool, &at, ids, ARRAY_LEN(ids))) > 0)
			all += n;
		CHECK_EQ(n, unlisted == 1 ? 0 : -EIO);
		CHECK_EQ(all, 60);
	}
	fixture_clear_faults(&fx);
	CHECK_EQ(store_pool_rebuild(fx.pool, 2, &pr), 0);
	CHECK(!store_pool_rebuild_due(fx.pool));
	for (uint64_t i = 0; i < 60; i++)
		for (uint32_t row = 0; row < 4; row++)
			CHECK_EQ(fixture_stat(&fx, i, row), 0);
	fixture_close(&fx);
}

SIM_TEST(a_record_without_quorum_is_never_used)
{
	struct pool_fixture fx;
	struct chunk_stat st;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	uint64_t n = 0;
	while (fixture_row_member(&fx, n, 0) != 0)
		n++;
	uint32_t other = fixture_row_member(&fx, n, 1);
	CHECK_EQ(text_put(fx.pool, fixture_id(n), 3, 2000, true, 5000), 0);
	/* Only member 0 stores the record, and it misses that the record was rolled back. */
	for (uint32_t m = 1; m < 6; m++)
		fixture_fault(&fx, m, STORE_CALL_PUT, -EIO);
	fixture_fault(&fx, 0, STORE_CALL_PUT, 0);
	struct store_fault once = {
		.calls = STORE_CALL_PUT, .nth = 2, .from_there = true, .rc = -EIO};
	store_fault_set(fx.fault[0], &once);
	CHECK_EQ(store_pool_give_up(fx.pool, other == 4 ? 3 : 4), -EIO);
	fixture_clear_faults(&fx);
	fixture_fault(&fx, 0, STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_delete(fx.pool, fixture_id(n)), 0);
	CHECK_EQ(store_pool_behind_count(fx.pool), 1);
	fixture_clear_faults(&fx);
	CHECK_EQ(fixture_reopen(&fx), 0);
	CHECK_EQ(store_pool_behind_count(fx.pool), 1);
	CHECK(!store_pool_given_up(fx.pool, 4) && !store_pool_given_up(fx.pool, 3));
	fixture_fault(&fx, other, STORE_CALL_ALL, -EIO);
	CHECK(store_stat(fx.pool, fixture_id(n), &st) != 0);
	fixture_clear_faults(&fx);
	/* With half of the members or fewer the last accepted record is unknown. */
	for (uint32_t m = 0; m < 4; m++)
		fixture_fault(&fx, m, STORE_CALL_ALL, -EIO);
	CHECK_EQ(fixture_reopen(&fx), -ENODATA);
	fixture_fault(&fx, 0, 0, 0);
	CHECK_EQ(store_pool_open_take(&fx.shape, fx.fault, &fx.pool), 0);
	fixture_close(&fx);
}

SIM_TEST(a_replaced_store_cannot_return)
{
	struct pool_fixture fx;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_CLUSTERED, 4, 3, 1);
	CHECK_EQ(text_put(fx.pool, fixture_id(1), 1, 50000, false, 0), 0);
	struct store *old_fault = fx.fault[2], *old_mem = fx.mem[2];
	CHECK_EQ(store_pool_give_up(fx.pool, 2), 0);
	fixture_member_new(&fx, 2);
	struct store *fresh_fault = fx.fault[2], *fresh_mem = fx.mem[2];
	/* A store that cannot store the record does not replace the member, and stays empty. */
	fixture_fault(&fx, 2, STORE_CALL_PUT, -EROFS);
	CHECK_EQ(store_pool_replace_take(fx.pool, 2, fresh_fault), -EROFS);
	fixture_fault(&fx, 2, 0, 0);
	for (uint32_t m = 0; m < 4; m++)
		if (m != 2)
			fixture_fault(&fx, m, STORE_CALL_PUT, -EROFS);
	CHECK_EQ(store_pool_replace_take(fx.pool, 2, fresh_fault), -EROFS);
	fixture_clear_faults(&fx);
	struct store_pool_place is;
	CHECK_EQ(store_pool_identify(fresh_mem, &is), -ENOENT);
	CHECK_EQ(store_pool_replace_take(fx.pool, 2, fresh_fault), 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	fx.fault[2] = old_fault;
	fx.mem[2] = old_mem;
	CHECK_EQ(fixture_reopen(&fx), 0);
	CHECK(store_pool_member(fx.pool, 2) == NULL);
	CHECK_EQ(text_get(fx.pool, fixture_id(1), 1, 0, 50000, 0), 0);
	fixture_member_end(&fx, 2);
	fx.fault[2] = fresh_fault;
	fx.mem[2] = fresh_mem;
	CHECK_EQ(fixture_reopen(&fx), 0);
	CHECK(store_pool_member(fx.pool, 2) != NULL);
	fixture_close(&fx);
}

#define OLD_BYTES (5 * MIB) /* bytes: two windows of a read, and a short last stripe */
#define NEW_BYTES (6 * MIB)

struct renewal {
	struct pool_fixture *fx;
	const char *what;
	struct store_fault deleting; /* makes deletes fail on all members */
	struct store_fault reading;  /* on those with the first slow_rows rows */
	uint32_t slow_rows;
	uint64_t text; /* the text that is read at the same time; 0: the label is read */
};

static void renew(void *arg)
{
	struct renewal *n = arg;
	CHECK_EQ(store_delete(n->fx->pool, fixture_id(7)), 0);
	CHECK_EQ(text_put(n->fx->pool, fixture_id(7), 4, NEW_BYTES, false, 0), 0);
}

static void read_in_between(void *arg)
{
	struct renewal *n = arg;
	static const uint8_t no_label[STORE_LABEL_BYTES];
	struct chunk_stat st;
	struct pool_fixture fx;
	struct rt_fiber *f;
	fixture_open(&fx, PLACE_CLUSTERED, 4, 3, 1);
	n->fx = &fx;
	CHECK_EQ(text_put(fx.pool, fixture_id(7), 3, OLD_BYTES, false, 0), 0);
	for (uint32_t m = 0; m < 4; m++)
		store_fault_set(fx.fault[m], &n->deleting);
	CHECK_EQ(rt_spawn(&f, "renew", renew, n), 0);
	/* The delete is running, or begins when the first read has to wait. */
	if (n->deleting.nth > 0)
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 2), 0);
	for (uint32_t row = 0; row < n->slow_rows; row++)
		store_fault_set(fx.fault[fixture_row_member(&fx, 7, row)], &n->reading);
	if (n->text == 0) {
		CHECK_EQ(store_stat(fx.pool, fixture_id(7), &st), 0);
		CHECK(memcmp(st.label, no_label, sizeof(no_label)) == 0);
	} else {
		CHECK_EQ(text_get(fx.pool, fixture_id(7), n->text, 0, OLD_BYTES, 0), 0);
	}
	rt_join(f);
	fixture_clear_faults(&fx);
	CHECK_EQ(text_get(fx.pool, fixture_id(7), 4, 0, NEW_BYTES, 0), 0);
	fixture_close(&fx);
}

static void a_read_never_mixes_an_old_and_a_new_chunk(void **state)
{
	(void)state;
	const struct store_fault slow_delete = {
		.calls = STORE_CALL_DELETE, .nth = 1, .delay_ns = NS_PER_S};
	const uint64_t long_ns = 3 * NS_PER_S;
	struct renewal renewals[] = {
		{.what = "the head of the old one is not kept", .deleting = slow_delete, .text = 3},
		{.what = "the second window is of the new one",
		 .deleting = slow_delete,
		 .reading = {.calls = STORE_CALL_GET, .nth = 2, .delay_ns = long_ns},
		 .slow_rows = 3,
		 .text = 4},
		{.what = "a look that ends after the delete",
		 .reading = {.calls = STORE_CALL_STAT, .nth = 1, .delay_ns = long_ns, .rc = -EIO},
		 .slow_rows = 1,
		 .text = 4},
		{.what = "the label is of the new one",
		 .reading = {.calls = STORE_CALL_GET, .nth = 1, .delay_ns = long_ns},
		 .slow_rows = 3},
	};
	for (size_t i = 0; i < ARRAY_LEN(renewals); i++) {
		print_message("  %s\n", renewals[i].what);
		sim_test_run(read_in_between, &renewals[i]);
	}
}

static void put_that_fails(void *arg)
{
	struct pool_fixture *fx = arg;
	CHECK_EQ(text_put(fx->pool, fixture_id(7), 3, OLD_BYTES, false, 0), -EIO);
}

SIM_TEST(a_failed_put_leaves_no_cached_head)
{
	struct pool_fixture fx;
	struct rt_fiber *f;
	const struct store_fault answer_lost = {
		.calls = STORE_CALL_PUT, .nth = 1, .rc = -EIO, .after = true};
	const struct store_fault slow_delete = {
		.calls = STORE_CALL_DELETE, .nth = 1, .delay_ns = NS_PER_S};
	fixture_open(&fx, PLACE_CLUSTERED, 5, 3, 2);
	for (uint32_t row = 0; row < 5; row++)
		store_fault_set(fx.fault[fixture_row_member(&fx, 7, row)],
				row < 3 ? &slow_delete : &answer_lost);
	CHECK_EQ(rt_spawn(&f, "put", put_that_fails, &fx), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S / 2), 0);
	(void)text_get(fx.pool, fixture_id(7), 3, 0, OLD_BYTES, 0);
	rt_join(f);
	CHECK_EQ(text_put(fx.pool, fixture_id(7), 4, NEW_BYTES, false, 0), 0);
	CHECK_EQ(text_get(fx.pool, fixture_id(7), 4, 0, NEW_BYTES, 0), 0);
	fixture_close(&fx);
}

static void all_is_there(struct pool_fixture *fx, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		CHECK_EQ(text_get(fx->pool, fixture_id(i), i, 0, 2000, 0), 0);
}

SIM_TEST(damaged_pool_records_are_rewritten)
{
	enum { N = 40, ROTTEN = 2 };
	struct pool_fixture fx;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	for (uint64_t i = 0; i < N; i++)
		CHECK_EQ(text_put(fx.pool, fixture_id(i), i, 2000, i % 4 == 0, 3000), 0);
	/*
	 * The records of all members are damaged while the pool is open: it knows their contents.
	 */
	for (uint32_t m = 0; m < 6; m++) {
		text_over_records(fx.fault[m]);
		CHECK_EQ(store_pool_record_repair(fx.pool, m), 0);
	}
	CHECK_EQ(fixture_reopen(&fx), 0);
	for (uint32_t m = 0; m < 6; m++)
		CHECK(store_pool_member(fx.pool, m) != NULL);
	/* The record of one member is damaged before the pool is opened. */
	text_over_records(fx.fault[ROTTEN]);
	CHECK_EQ(fixture_reopen(&fx), 0);
	CHECK(store_pool_member(fx.pool, ROTTEN) == NULL);
	CHECK_EQ(store_pool_record_repair(fx.pool, ROTTEN), -ENODEV);
	all_is_there(&fx, N);
	CHECK_EQ(store_delete(fx.pool, fixture_id(0)), 0);
	CHECK_EQ(text_put(fx.pool, fixture_id(0), 0, 2000, true, 3000), 0);
	CHECK_EQ(store_pool_return_take(fx.pool, ROTTEN, fx.fault[ROTTEN]), 0);
	CHECK_EQ(store_pool_record_repair(fx.pool, ROTTEN), 0);
	all_is_there(&fx, N);
	CHECK_EQ(store_pool_rebuild(fx.pool, 2, &pr), 0);
	CHECK(!store_pool_rebuild_due(fx.pool));
	CHECK_EQ(fixture_reopen(&fx), 0);
	CHECK(store_pool_member(fx.pool, ROTTEN) != NULL);
	all_is_there(&fx, N);
	/* A replacement may have taken its place. */
	CHECK_EQ(store_pool_give_up(fx.pool, ROTTEN), 0);
	CHECK_EQ(store_pool_return_take(fx.pool, ROTTEN, fx.fault[ROTTEN]), 0);
	text_over_records(fx.fault[ROTTEN]);
	CHECK_EQ(fixture_reopen(&fx), 0);
	CHECK_EQ(store_pool_return_take(fx.pool, ROTTEN, fx.fault[ROTTEN]), -EBADMSG);
	all_is_there(&fx, N);
	fixture_close(&fx);
}

SIM_TEST(an_open_chunk_that_is_lost_is_listed)
{
	struct pool_fixture fx;
	struct store_pool_progress pr;
	struct chunk_stat st;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	CHECK_EQ(text_put(fx.pool, fixture_id(1), 1, 5000, true, 9000), 0);
	uint64_t n = 2;
	uint32_t a = fixture_row_member(&fx, 1, 0), b = fixture_row_member(&fx, 1, 1);
	while ((fixture_row_member(&fx, n, 0) != a && fixture_row_member(&fx, n, 1) != a) ||
	       fixture_holds(&fx, n, b))
		n++;
	CHECK_EQ(text_put(fx.pool, fixture_id(n), 1, 5000, true, 9000), 0);
	fixture_fault(&fx, a, STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_delete(fx.pool, fixture_id(n)), 0);
	fixture_clear_faults(&fx);
	/* The remaining copy is on a member that is behind. */
	CHECK_EQ(store_pool_give_up(fx.pool, b), 0);
	CHECK_EQ(store_stat(fx.pool, fixture_id(1), &st), -ENODATA);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), -ENODATA);
	CHECK_EQ(pr.lost, 1);
	struct store_cursor at = {0};
	struct store_pool_loss losses[POOL_CHUNK_LOSSES_MAX];
	CHECK_EQ(store_pool_losses(fx.pool, &at, losses, ARRAY_LEN(losses)), 1);
	CHECK(losses[0].open && losses[0].id.block == 1);
	CHECK_EQ(store_pool_losses(fx.pool, &at, losses, ARRAY_LEN(losses)), 0);
	fixture_close(&fx);
}

/* --- changes that meet changes of the record ---------------------------------------------------- */

struct call {
	struct pool_fixture *fx;
	uint64_t number;
	bool remove; /* delete the chunk; otherwise append to it */
	int rc;
};

static void change_fiber(void *arg)
{
	struct call *c = arg;
	c->rc = c->remove ? store_delete(c->fx->pool, fixture_id(c->number))
			  : text_append(c->fx->pool, fixture_id(c->number), 1, 5, 3000, 2000);
}

static void rebuild_fiber(void *arg)
{
	struct call *c = arg;
	struct store_pool_progress pr;
	c->rc = store_pool_rebuild(c->fx->pool, 2, &pr);
}

/* Delays the puts of a member from now on; then waits until the first one is running. */
static void puts_take_long(struct pool_fixture *fx, uint32_t m)
{
	struct store_fault f = {
		.calls = STORE_CALL_PUT, .nth = 1, .from_there = true, .delay_ns = NS_PER_S};
	store_fault_set(fx->fault[m], &f);
}

static void put_awaited(struct pool_fixture *fx, uint32_t m)
{
	while (store_fault_hits(fx->fault[m]) == 0)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
}

static uint32_t member_without(struct pool_fixture *fx, uint64_t number)
{
	uint32_t m = 0;
	while (fixture_holds(fx, number, m))
		m++;
	return m;
}

/* A member misses the delete of an open chunk, or a row of a new one. */
static void miss(struct pool_fixture *fx, uint32_t m, uint64_t number, bool copies)
{
	fixture_fault(fx, m, copies ? STORE_CALL_DELETE : STORE_CALL_PUT, -EIO);
	if (copies)
		CHECK_EQ(store_delete(fx->pool, fixture_id(number)), 0);
	else
		CHECK_EQ(text_put(fx->pool, fixture_id(number), 9, 1000, false, 0), 0);
}

/* The second miss happens while the record is being changed to clear the first. */
static void miss_while_cleared(void *arg)
{
	const bool *copies = arg;
	struct pool_fixture fx;
	struct rt_group g;
	struct chunk_stat st;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	uint32_t a = fixture_row_member(&fx, 1, 0), b = fixture_row_member(&fx, 1, 1),
		 away = member_without(&fx, 1);
	uint64_t n = 2;
	while (fixture_row_member(&fx, n, 0) != a || fixture_holds(&fx, n, away))
		n++;
	for (uint64_t c = 1; *copies && c <= n; c += n - 1)
		CHECK_EQ(text_put(fx.pool, fixture_id(c), 9, 1000, true, 5000), 0);
	miss(&fx, a, n, *copies);
	fixture_clear_faults(&fx);
	CHECK(store_pool_rebuild_due(fx.pool));
	puts_take_long(&fx, away);
	struct call rebuild = {.fx = &fx};
	rt_group_init(&g);
	CHECK_EQ(rt_group_spawn(&g, "rebuild", rebuild_fiber, &rebuild), 0);
	put_awaited(&fx, away);
	miss(&fx, a, 1, *copies);
	rt_group_join(&g);
	CHECK_EQ(rebuild.rc, 0);
	fixture_clear_faults(&fx);
	CHECK(store_pool_rebuild_due(fx.pool));
	CHECK_EQ(store_pool_behind_count(fx.pool), *copies);
	/* A deleted chunk does not reappear. */
	fixture_fault(&fx, b, STORE_CALL_ALL, -EIO);
	if (*copies)
		CHECK_EQ(store_stat(fx.pool, fixture_id(1), &st), -EIO);
	fixture_close(&fx);
}

static void a_change_missed_at_the_end_of_a_rebuild_is_recorded(void **state)
{
	(void)state;
	bool copies = true, rows = false;
	sim_test_run(miss_while_cleared, &copies);
	sim_test_run(miss_while_cleared, &rows);
}

static bool copy_on(struct pool_fixture *fx, uint64_t number, uint32_t m)
{
	for (uint32_t c = 0; c <= fx->shape.p; c++)
		if (fixture_row_member(fx, number, c) == m)
			return true;
	return false;
}

/*
 * Each member of a chunk misses a change: the first two a change of another chunk, then the last
 * one, alone, a change of this chunk. It is the last to fall behind, so its copy is authoritative.
 */
static void fall_behind_in_turn(void *arg)
{
	const bool *remove = arg;
	struct pool_fixture fx;
	struct rt_group g;
	struct call calls[3];
	fixture_open(&fx, PLACE_DECLUSTERED, 8, 3, 2);
	uint32_t of[3] = {fixture_row_member(&fx, 1, 0), fixture_row_member(&fx, 1, 1),
			  fixture_row_member(&fx, 1, 2)};
	for (uint64_t i = 0, n = 1; i < 3; i++, n++) {
		/* Take the next chunk of which only this member has a copy. */
		while (i < 2 && (!copy_on(&fx, n, of[i]) || copy_on(&fx, n, of[1 - i]) ||
				 copy_on(&fx, n, of[2])))
			n++;
		calls[i] = (struct call){
			.fx = &fx, .number = i < 2 ? n : 1, .remove = *remove == (i == 2)};
		CHECK_EQ(text_put(fx.pool, fixture_id(calls[i].number), 5, 3000, true, 50000), 0);
	}
	for (uint32_t i = 0; i < 3; i++)
		fixture_fault(&fx, of[i], calls[i].remove ? STORE_CALL_DELETE : STORE_CALL_APPEND,
			      -EIO);
	uint32_t away = 0;
	while (copy_on(&fx, 1, away))
		away++;
	puts_take_long(&fx, away);
	rt_group_init(&g);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_EQ(rt_group_spawn(&g, "change", change_fiber, &calls[i]), 0);
		/* Each runs as far as it can; the later ones wait for the record's lock. */
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	}
	CHECK_EQ(store_fault_hits(fx.fault[away]), 1);
	rt_group_join(&g);
	fixture_clear_faults(&fx);
	CHECK(calls[0].rc == 0 && calls[1].rc == 0);
	CHECK_EQ(store_pool_behind_count(fx.pool), 3);
	/* The change did not take effect. */
	CHECK_EQ(calls[2].rc, -EIO);
	CHECK_EQ(text_get(fx.pool, fixture_id(1), 5, 0, 3000, 0), 0);
	fixture_close(&fx);
}

static void an_acknowledged_change_is_on_an_authoritative_member(void **state)
{
	(void)state;
	bool append = false, remove = true;
	sim_test_run(fall_behind_in_turn, &append);
	sim_test_run(fall_behind_in_turn, &remove);
}

struct slow_put {
	struct pool_fixture *fx;
	bool open;
	int rc;
};

static void slow_put_fiber(void *arg)
{
	struct slow_put *put = arg;
	put->rc = text_put(put->fx->pool, fixture_id(1), 5, 3000, put->open, 50000);
}

/*
 * A member that has its row of a new chunk is given up, and all is rebuilt, before the other
 * members have their rows.
 */
static void put_across_rebuild(void *arg)
{
	const bool *open = arg;
	struct pool_fixture fx;
	struct rt_group g;
	struct store_pool_progress pr;
	struct store_fault once = {.calls = STORE_CALL_PUT, .nth = 1, .delay_ns = 15 * NS_PER_S};
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	struct slow_put put = {.fx = &fx, .open = *open};
	uint32_t slow = fixture_row_member(&fx, 1, 0), part = *open ? COPY + 1 : 1;
	for (uint32_t row = 0; row < (*open ? 1 : 4); row++)
		if (row != 1)
			store_fault_set(fx.fault[fixture_row_member(&fx, 1, row)], &once);
	rt_group_init(&g);
	CHECK_EQ(rt_group_spawn(&g, "put", slow_put_fiber, &put), 0);
	put_awaited(&fx, slow);
	CHECK_EQ(fixture_stat(&fx, 1, part), 0);
	CHECK_EQ(store_pool_give_up(fx.pool, fixture_row_member(&fx, 1, 1)), 0);
	/* The rebuild does not wait for ever. */
	CHECK_EQ(store_pool_rebuild(fx.pool, 2, &pr), -EIO);
	CHECK(fixture_stat(&fx, 1, part) != 0 && store_pool_rebuild_due(fx.pool));
	CHECK_EQ(store_pool_rebuild(fx.pool, 2, &pr), 0);
	rt_group_join(&g);
	CHECK_EQ(put.rc, 0);
	CHECK_EQ(fixture_stat(&fx, 1, part), 0);
	CHECK_EQ(text_get(fx.pool, fixture_id(1), 5, 0, 3000, 0), 0);
	fixture_close(&fx);
}

static void a_rebuild_includes_chunks_whose_put_is_running(void **state)
{
	(void)state;
	bool open = true, coded = false;
	sim_test_run(put_across_rebuild, &open);
	sim_test_run(put_across_rebuild, &coded);
}

/* Gives up the members of the first two rows of a chunk, and rebuilds. */
static void give_up_two(struct pool_fixture *fx, uint64_t number, const uint32_t *members)
{
	struct store_pool_progress pr;
	for (uint32_t i = 0; i < 2; i++) {
		CHECK_EQ(fixture_row_member(fx, number, i), members[i]);
		CHECK_EQ(store_pool_give_up(fx->pool, members[i]), 0);
		CHECK_EQ(store_pool_rebuild(fx->pool, 1, &pr), 0);
	}
}

struct comeback {
	struct pool_fixture *fx;
	uint32_t member;
	uint32_t after; /* return after so many chunks were rebuilt */
};

/* Callback of a rebuild, during which a member returns. */
static int return_after_work(void *ctx, void (*work)(void *arg), void *arg)
{
	struct comeback *c = ctx;
	work(arg);
	if (--c->after == 0)
		CHECK_EQ(store_pool_return_take(c->fx->pool, c->member, c->fx->fault[c->member]),
			 0);
	return 0;
}

SIM_TEST(a_row_stays_until_it_is_rebuilt_where_an_event_moved_it)
{
	struct pool_fixture fx;
	struct store_pool_progress pr;
	struct chunk_stat st;
	fixture_open(&fx, PLACE_DECLUSTERED, 8, 3, 1);
	uint32_t home[2] = {fixture_row_member(&fx, 1, 0), fixture_row_member(&fx, 1, 1)};
	give_up_two(&fx, 1, home);
	CHECK_EQ(text_put(fx.pool, fixture_id(1), 5, 50000, false, 0), 0);
	struct store *spare = fx.mem[fixture_row_member(&fx, 1, 1)];
	/* The first member is behind, so that the only chunk is looked up twice. */
	struct comeback second = {.fx = &fx, .member = home[1], .after = 2};
	CHECK_EQ(store_pool_return_take(fx.pool, home[0], fx.fault[home[0]]), 0);
	store_pool_set_pace(fx.pool, return_after_work, &second);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	CHECK_EQ(second.after, 0);
	CHECK(fixture_stat(&fx, 1, 0) == 0 && fixture_stat(&fx, 1, 1) == -ENOENT);
	store_pool_set_pace(fx.pool, NULL, NULL);
	/* So the row is still where it was. */
	CHECK_EQ(store_stat(spare, (struct chunk_id){.block = 1, .index = 1}, &st), 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	CHECK_EQ(fixture_stat(&fx, 1, 1), 0);
	CHECK_EQ(store_stat(spare, (struct chunk_id){.block = 1, .index = 1}, &st), -ENOENT);
	CHECK(!store_pool_rebuild_due(fx.pool));
	fixture_close(&fx);
}

/* A member with a chunk that was deleted while it was out returns after a rebuild has listed it. */
SIM_TEST(a_member_that_returns_during_a_rebuild_is_behind_until_the_next)
{
	struct pool_fixture fx;
	struct store_pool_progress pr;
	struct chunk_stat st;
	uint64_t n = 2;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	while (fixture_row_member(&fx, n, 0) != 0)
		n++;
	CHECK_EQ(text_put(fx.pool, fixture_id(n), 5, 3000, true, 50000), 0);
	CHECK_EQ(store_pool_give_up(fx.pool, 0), 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	CHECK_EQ(store_delete(fx.pool, fixture_id(n)), 0);
	uint32_t other = fixture_row_member(&fx, n, 1);
	/* Give the rebuild something to do. */
	fixture_fault(&fx, fixture_row_member(&fx, 1, 0), STORE_CALL_PUT, -EIO);
	CHECK_EQ(text_put(fx.pool, fixture_id(1), 5, 3000, false, 0), 0);
	fixture_clear_faults(&fx);
	struct comeback back = {.fx = &fx, .member = 0, .after = 1};
	store_pool_set_pace(fx.pool, return_after_work, &back);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	CHECK_EQ(back.after, 0);
	store_pool_set_pace(fx.pool, NULL, NULL);
	CHECK_EQ(fixture_stat(&fx, n, COPY), 0);
	fixture_fault(&fx, other, STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_stat(fx.pool, fixture_id(n), &st), -EIO);
	fixture_clear_faults(&fx);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	CHECK(fixture_stat(&fx, n, COPY) == -ENOENT && !store_pool_rebuild_due(fx.pool));
	fixture_close(&fx);
}

static void give_up_fiber(void *arg)
{
	struct call *c = arg;
	c->rc = store_pool_give_up(c->fx->pool, (uint32_t)c->number);
}

/* A change finds that a member is down, and before its record is written the member is given up. */
SIM_TEST(a_given_up_member_is_not_due_for_a_rebuild)
{
	struct pool_fixture fx;
	struct rt_group g;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 1);
	CHECK_EQ(text_put(fx.pool, fixture_id(1), 5, 3000, true, 50000), 0);
	struct call give_up = {.fx = &fx, .number = fixture_row_member(&fx, 1, 0)};
	uint32_t away = member_without(&fx, 1);
	puts_take_long(&fx, away);
	rt_group_init(&g);
	CHECK_EQ(rt_group_spawn(&g, "give_up", give_up_fiber, &give_up), 0);
	put_awaited(&fx, away);
	CHECK_EQ(store_delete(fx.pool, fixture_id(1)), 0);
	rt_group_join(&g);
	CHECK_EQ(give_up.rc, 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	CHECK(!store_pool_rebuild_due(fx.pool));
	fixture_close(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_chunk_is_readable_when_all_its_members_fell_behind),
		cmocka_unit_test(a_scan_that_cannot_repair_deletes_nothing),
		cmocka_unit_test(a_chunk_that_may_return_is_not_replaced_by_a_put),
		cmocka_unit_test(a_rebuild_that_could_not_list_a_member_is_incomplete),
		cmocka_unit_test(a_record_without_quorum_is_never_used),
		cmocka_unit_test(a_replaced_store_cannot_return),
		cmocka_unit_test(a_read_never_mixes_an_old_and_a_new_chunk),
		cmocka_unit_test(a_failed_put_leaves_no_cached_head),
		cmocka_unit_test(damaged_pool_records_are_rewritten),
		cmocka_unit_test(an_open_chunk_that_is_lost_is_listed),
		cmocka_unit_test(a_change_missed_at_the_end_of_a_rebuild_is_recorded),
		cmocka_unit_test(an_acknowledged_change_is_on_an_authoritative_member),
		cmocka_unit_test(a_rebuild_includes_chunks_whose_put_is_running),
		cmocka_unit_test(a_row_stays_until_it_is_rebuilt_where_an_event_moved_it),
		cmocka_unit_test(a_member_that_returns_during_a_rebuild_is_behind_until_the_next),
		cmocka_unit_test(a_given_up_member_is_not_due_for_a_rebuild),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
