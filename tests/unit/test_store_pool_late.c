// SPDX-License-Identifier: Apache-2.0
/* Pools of which members, or records, come back later than what they say holds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "pool_rig.h"
#include "rt/rt.h"
#include "store/fault.h"

/* A member misses that a chunk is appended to, sealed and coded. */
static void code_without(void *arg)
{
	(void)arg;
	struct rig r;
	struct chunk_stat st;
	struct store_pool_progress pr;
	rig_open(&r, PLACE_DECLUSTERED, 8, 3, 2);
	CHECK_EQ(text_put(r.pool, rig_id(1), 5, 3000, true, 50000), 0);
	uint32_t away = rig_where(&r, 1, 0);
	rig_fault(&r, away, STORE_CALL_ALL, -EIO);
	CHECK_EQ(text_append(r.pool, rig_id(1), 1, 5, 3000, 2000), 0);
	CHECK_EQ(store_seal(r.pool, rig_id(1), 1, 5000), 0);
	CHECK_EQ(rig_stat(&r, 1, COPY), 0);
	/* While the copy cannot be removed it is not believed. */
	rig_fault(&r, away, STORE_CALL_DELETE, -EIO);
	store_pool_rebuild(r.pool, 1, &pr);
	CHECK_EQ(store_pool_behind_count(r.pool), 1);
	rig_heal(&r);
	CHECK_EQ(store_pool_rebuild(r.pool, 1, &pr), 0);
	CHECK_EQ(store_pool_behind_count(r.pool), 0);
	CHECK_EQ(rig_stat(&r, 1, COPY), -ENOENT);
	CHECK_EQ(text_get(r.pool, rig_id(1), 5, 0, 5000, 0), 0);
	/* One row too few, and another member of copies that cannot be asked. */
	for (uint32_t row = 1; row < 5; row += row == 1 ? 2 : 1)
		rig_fault(&r, rig_where(&r, 1, row), STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_stat(r.pool, rig_id(1), &st), -ENODATA);
	rig_close(&r);
}

static void a_rebuild_leaves_no_copy_of_a_chunk_that_was_coded(void **state)
{
	(void)state;
	rig_in_sim(code_without, NULL);
}

/* Only member y takes the record that a rebuild is done, and not that this does not count. */
static void rebuild_for(struct rig *r, uint32_t y, bool says_so)
{
	struct store_pool_progress pr;
	struct store_fault takes = {
		.calls = STORE_CALL_PUT, .nth = 2, .from_there = true, .rc = -EIO};
	if (!says_so) {
		takes.nth = 1;
		takes.from_there = false;
		takes.after = true;
	}
	for (uint32_t m = 0; m < 6; m++)
		rig_fault(r, m, STORE_CALL_PUT, -EIO);
	store_fault_set(r->fault[y], &takes);
	CHECK_EQ(store_pool_rebuild(r->pool, 1, &pr), -EIO);
	CHECK_EQ(store_pool_behind_count(r->pool), 1);
	rig_heal(r);
}

/* After a crash y is not there; or it said that it has no new record, but has. */
static void record_comes_back(void *arg)
{
	const bool *crash = arg;
	struct rig r;
	struct chunk_stat st;
	uint64_t n = 2;
	uint32_t y = 0;
	rig_open(&r, PLACE_DECLUSTERED, 6, 3, 2);
	CHECK_EQ(text_put(r.pool, rig_id(1), 5, 3000, true, 50000), 0);
	uint32_t away = rig_where(&r, 1, 0);
	while (rig_where(&r, n, 0) != away)
		n++;
	while (rig_holds(&r, 1, y))
		y++;
	CHECK_EQ(text_put(r.pool, rig_id(n), 6, 1000, true, 5000), 0);
	rig_fault(&r, away, STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_delete(r.pool, rig_id(n)), 0);
	rig_heal(&r);
	rebuild_for(&r, y, *crash);
	rig_fault(&r, y, STORE_CALL_ALL, -EIO);
	if (*crash)
		CHECK_EQ(rig_reopen(&r), 0);
	CHECK_EQ(store_pool_behind_count(r.pool), 1);
	/* Generations are times. */
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	rig_fault(&r, away, STORE_CALL_ALL, -EIO);
	CHECK_EQ(text_append(r.pool, rig_id(1), 1, 5, 3000, 2000), 0);
	rig_heal(&r);
	CHECK_EQ(rig_reopen(&r), 0);
	CHECK_EQ(store_pool_behind_count(r.pool), 1);
	rig_fault(&r, rig_where(&r, 1, 1), STORE_CALL_ALL, -EIO);
	rig_fault(&r, rig_where(&r, 1, 2), STORE_CALL_ALL, -EIO);
	CHECK(store_stat(r.pool, rig_id(1), &st) != 0);
	rig_close(&r);
}

static void what_is_missed_outdates_a_record_that_never_counted(void **state)
{
	(void)state;
	bool crash = true, lie = false;
	rig_in_sim(record_comes_back, &crash);
	rig_in_sim(record_comes_back, &lie);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rebuild_leaves_no_copy_of_a_chunk_that_was_coded),
		cmocka_unit_test(what_is_missed_outdates_a_record_that_never_counted),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
