// SPDX-License-Identifier: Apache-2.0
/* Pools whose members, or records, come back with outdated contents. */
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

#define COPY_BYTES_MAX 8192 /* of a copy with its label */

/* A member misses that a chunk is appended to, sealed and coded. */
SIM_TEST(a_rebuild_leaves_no_copy_of_a_coded_chunk)
{
	struct pool_fixture fx;
	struct chunk_stat st;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_DECLUSTERED, 8, 3, 2);
	CHECK_EQ(text_put(fx.pool, fixture_id(1), 5, 3000, true, 50000), 0);
	uint32_t away = fixture_row_member(&fx, 1, 0);
	fixture_fault(&fx, away, STORE_CALL_ALL, -EIO);
	CHECK_EQ(text_append(fx.pool, fixture_id(1), 1, 5, 3000, 2000), 0);
	CHECK_EQ(store_seal(fx.pool, fixture_id(1), 1, 5000), 0);
	CHECK_EQ(fixture_stat(&fx, 1, COPY), 0);
	/* As long as its copy cannot be deleted, the member stays behind. */
	fixture_fault(&fx, away, STORE_CALL_DELETE, -EIO);
	store_pool_rebuild(fx.pool, 1, &pr);
	CHECK_EQ(store_pool_behind_count(fx.pool), 1);
	fixture_clear_faults(&fx);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	CHECK_EQ(store_pool_behind_count(fx.pool), 0);
	CHECK_EQ(fixture_stat(&fx, 1, COPY), -ENOENT);
	CHECK_EQ(text_get(fx.pool, fixture_id(1), 5, 0, 5000, 0), 0);
	/* One row too few, and another member of the copies is unreachable. */
	for (uint32_t row = 1; row < 5; row += row == 1 ? 2 : 1)
		fixture_fault(&fx, fixture_row_member(&fx, 1, row), STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_stat(fx.pool, fixture_id(1), &st), -ENODATA);
	fixture_close(&fx);
}

/* A seal crashes after it has written all rows, before it deletes the copies. */
SIM_TEST(a_scan_deletes_copies_beside_rows)
{
	struct pool_fixture fx;
	struct store_range bad[4];
	struct chunk_stat st;
	struct iovec piece;
	uint8_t bytes[COPY_BYTES_MAX];
	uint32_t crc;
	fixture_open(&fx, PLACE_DECLUSTERED, 8, 3, 2);
	CHECK_EQ(text_put(fx.pool, fixture_id(1), 5, 3000, true, 50000), 0);
	struct store *member = fx.mem[fixture_row_member(&fx, 1, 0)];
	struct chunk_id copy = {.block = 1, .index = COPY};
	CHECK_EQ(store_stat(member, copy, &st), 0);
	CHECK(st.len <= sizeof(bytes));
	CHECK_EQ(store_get(member, copy, 0, bytes, st.len, &crc), 0);
	CHECK_EQ(store_seal(fx.pool, fixture_id(1), 1, 3000), 0);
	CHECK_EQ(fixture_stat(&fx, 1, COPY), -ENOENT);
	struct store_put put = {.data = store_data_of(&piece, bytes, st.len, crc), .epoch = 1};
	memcpy(put.label, st.label, sizeof(put.label));
	CHECK_EQ(store_put(member, copy, &put), 0);
	/* Not while a row is missing: its bytes may be needed. */
	uint32_t away = fixture_row_member(&fx, 1, 4);
	fixture_fault(&fx, away, STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_scan(fx.pool, fixture_id(1), bad, ARRAY_LEN(bad)), 0);
	CHECK_EQ(fixture_stat(&fx, 1, COPY), 0);
	fixture_clear_faults(&fx);
	CHECK_EQ(store_scan(fx.pool, fixture_id(1), bad, ARRAY_LEN(bad)), 0);
	CHECK_EQ(fixture_stat(&fx, 1, COPY), -ENOENT);
	CHECK_EQ(text_get(fx.pool, fixture_id(1), 5, 0, 3000, 0), 0);
	CHECK_EQ(store_pool_behind_count(fx.pool), 0);
	fixture_close(&fx);
}

/*
 * Only member y stores the record that a rebuild is complete, and it misses that this record was
 * rolled back.
 */
static void rebuild_for(struct pool_fixture *fx, uint32_t y, bool says_so)
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
		fixture_fault(fx, m, STORE_CALL_PUT, -EIO);
	store_fault_set(fx->fault[y], &takes);
	CHECK_EQ(store_pool_rebuild(fx->pool, 1, &pr), -EIO);
	CHECK_EQ(store_pool_behind_count(fx->pool), 1);
	fixture_clear_faults(fx);
}

/* After a crash y is down; or y reported that it has no new record, but has one. */
static void record_comes_back(void *arg)
{
	const bool *crash = arg;
	struct pool_fixture fx;
	struct chunk_stat st;
	uint64_t n = 2;
	uint32_t y = 0;
	fixture_open(&fx, PLACE_DECLUSTERED, 6, 3, 2);
	CHECK_EQ(text_put(fx.pool, fixture_id(1), 5, 3000, true, 50000), 0);
	uint32_t away = fixture_row_member(&fx, 1, 0);
	while (fixture_row_member(&fx, n, 0) != away)
		n++;
	while (fixture_holds(&fx, 1, y))
		y++;
	CHECK_EQ(text_put(fx.pool, fixture_id(n), 6, 1000, true, 5000), 0);
	fixture_fault(&fx, away, STORE_CALL_ALL, -EIO);
	CHECK_EQ(store_delete(fx.pool, fixture_id(n)), 0);
	fixture_clear_faults(&fx);
	rebuild_for(&fx, y, *crash);
	fixture_fault(&fx, y, STORE_CALL_ALL, -EIO);
	if (*crash)
		CHECK_EQ(fixture_reopen(&fx), 0);
	CHECK_EQ(store_pool_behind_count(fx.pool), 1);
	/* Generations are times, so they differ only after a pause. */
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	fixture_fault(&fx, away, STORE_CALL_ALL, -EIO);
	CHECK_EQ(text_append(fx.pool, fixture_id(1), 1, 5, 3000, 2000), 0);
	fixture_clear_faults(&fx);
	CHECK_EQ(fixture_reopen(&fx), 0);
	CHECK_EQ(store_pool_behind_count(fx.pool), 1);
	fixture_fault(&fx, fixture_row_member(&fx, 1, 1), STORE_CALL_ALL, -EIO);
	fixture_fault(&fx, fixture_row_member(&fx, 1, 2), STORE_CALL_ALL, -EIO);
	CHECK(store_stat(fx.pool, fixture_id(1), &st) != 0);
	fixture_close(&fx);
}

static void a_missed_change_outdates_a_record_without_quorum(void **state)
{
	(void)state;
	bool crash = true, lie = false;
	sim_test_run(record_comes_back, &crash);
	sim_test_run(record_comes_back, &lie);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rebuild_leaves_no_copy_of_a_coded_chunk),
		cmocka_unit_test(a_scan_deletes_copies_beside_rows),
		cmocka_unit_test(a_missed_change_outdates_a_record_without_quorum),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
