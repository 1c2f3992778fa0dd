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
	CHECK_EQ(store_pool_behind(r.pool), 1);
	rig_heal(&r);
	CHECK_EQ(store_pool_rebuild(r.pool, 1, &pr), 0);
	CHECK_EQ(store_pool_behind(r.pool), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rebuild_leaves_no_copy_of_a_chunk_that_was_coded),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
