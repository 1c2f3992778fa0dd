// SPDX-License-Identifier: Apache-2.0
/* Pools that lost more than they can mend, against a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "janitor_lab.h"

static void pool_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	CHECK_EQ(write_text(&l, "/f", 3, TEXT_BYTES, "mlec:2+1/2+1"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&l, 21, NULL);
	CHECK(on > 0);
	lose_disk(&l, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	(void)check_whole(&l);
	CHECK_EQ(read_text(&l, "/f", 3, TEXT_BYTES), 0);
	janitor_close(j);
	lab_close(&l);
}

static void the_columns_of_a_lost_pool_are_made_anew(void **state)
{
	(void)state;
	cbox_run_pools(6, pool_body);
}

/* Two members of a pool that bears one are given up; returns what the pool then lists as lost, in bytes of
 * data rows that must be brought. */
static uint64_t lose_members(struct lab *l, uint64_t disk)
{
	struct call c;
	call_init(&c, engine_fabric(l->engine));
	struct disk_use u;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 60 * NS_PER_S;
	CHECK_EQ(node_pool_fail(&u.node, disk, 0), 0);
	CHECK_EQ(node_pool_fail(&u.node, disk, 1), 0);
	(void)node_pool_rebuild(&u.node, disk, true);
	struct store_pool_loss losses[64];
	struct store_cursor at = {0};
	uint64_t bytes = 0;
	int64_t n;
	while ((n = node_pool_losses(&u.node, disk, &at, losses, ARRAY_LEN(losses))) > 0)
		for (int64_t i = 0; i < n; i++)
			bytes += losses[i].need * losses[i].stripes * losses[i].piece_bytes;
	CHECK_EQ(n, 0);
	disk_end(&c, &u, 0, 0);
	return bytes;
}

static void pools_lost(struct client_box *b, enum janitor_method method)
{
	struct lab l;
	lab_open(&l, b);
	for (uint64_t i = 0; i < 4; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(write_text(&l, path, i, TEXT_BYTES, "mlec:2+1/2+1"), 0);
	}
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t blocks = check_whole(&l);
	uint64_t need = lose_members(&l, 21);
	CHECK(need > 0);
	struct janitor_options o = quick();
	o.method = method;
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_pools(j), 0);
	struct janitor_stats s = stats_of(j);
	CHECK_EQ(s.failed, 0);
	if (method == JANITOR_R_ALL) {
		CHECK_EQ(s.pool_patches, 0);
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK(stats_of(j).chunks_repaired > 0);
		CHECK(stats_of(j).repair_written_bytes > need);
	} else {
		CHECK(s.pool_patches > 0);
		/* No more than the method says has crossed. */
		if (method == JANITOR_R_MIN)
			CHECK(s.pool_patch_bytes <= need);
		/* From two other columns, of which the last may be short. */
		CHECK(s.repair_read_bytes > s.pool_patch_bytes);
		CHECK(s.repair_read_bytes <= 2 * s.pool_patch_bytes);
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK_EQ(stats_of(j).chunks_repaired, 0);
	}
	CHECK_EQ(check_whole(&l), blocks);
	for (uint64_t i = 0; i < 4; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(read_text(&l, path, i, TEXT_BYTES), 0);
	}
	janitor_close(j);
	lab_close(&l);
}

static void r_min_body(struct client_box *b)
{
	pools_lost(b, JANITOR_R_MIN);
}

static void r_hyb_body(struct client_box *b)
{
	pools_lost(b, JANITOR_R_HYB);
}

static void r_all_body(struct client_box *b)
{
	pools_lost(b, JANITOR_R_ALL);
}

static void a_catastrophic_pool_is_patched_with_what_r_min_says(void **state)
{
	(void)state;
	cbox_run_wide_pools(6, r_min_body);
}

static void a_catastrophic_pool_is_patched_with_what_r_hyb_says(void **state)
{
	(void)state;
	cbox_run_wide_pools(6, r_hyb_body);
}

static void a_catastrophic_pool_is_made_anew_by_r_all(void **state)
{
	(void)state;
	cbox_run_wide_pools(6, r_all_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_columns_of_a_lost_pool_are_made_anew),
		cmocka_unit_test(a_catastrophic_pool_is_patched_with_what_r_min_says),
		cmocka_unit_test(a_catastrophic_pool_is_patched_with_what_r_hyb_says),
		cmocka_unit_test(a_catastrophic_pool_is_made_anew_by_r_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
