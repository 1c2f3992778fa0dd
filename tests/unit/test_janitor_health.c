// SPDX-License-Identifier: Apache-2.0
/* Which blocks a survey counts as degraded, unreachable and lost, in a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "janitor/stats.h"
#include "janitor_fixture.h"

static void check_counts(struct janitor_fixture *jf, struct janitor *j, uint64_t degraded,
			 uint64_t unreachable, uint64_t lost)
{
	struct stats s;
	stats_init(&s);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_load(&jf->root, &s), 0);
	CHECK_EQ(s.degraded_blocks, degraded);
	CHECK_EQ(s.unreachable_blocks, unreachable);
	CHECK_EQ(s.lost_blocks, lost);
	stats_fini(&s);
}

/* Five disks and blocks of five chunks, so each disk has a chunk of each block. */
CLIENT_TEST(a_block_is_degraded_up_to_the_tolerance_of_its_code_and_lost_beyond, 5, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	struct meta_on_disk on;
	struct arena a;
	arena_init(&a, MIB);
	CHECK(blocks_on(&jf, 21, &on) > 1);
	struct meta_block block = block_get(&jf, on.block, &a);
	check_counts(&jf, j, 0, 0, 0);
	CHECK_EQ(stats_of(j).repaired_ns, 0);
	for (uint32_t i = 0; i < 3; i++) {
		chunk_drop(&jf, block.chunks[i].disk, (struct chunk_id){block.chunk_block, i});
		/* no reader has reported the chunk yet, so it does not count */
		check_counts(&jf, j, i > 0, 0, 0);
		CHECK_EQ(janitor_scrub(j, 0), 0);
		check_counts(&jf, j, i < 2, 0, i == 2);
		if (i > 0)
			continue;
		/* After the repair the next survey counts no degraded block. */
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK(stats_of(j).repaired_ns > 0);
		check_counts(&jf, j, 0, 0, 0);
		block = block_get(&jf, on.block, &a);
		chunk_drop(&jf, block.chunks[0].disk, (struct chunk_id){block.chunk_block, 0});
		CHECK_EQ(janitor_scrub(j, 0), 0);
	}
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).stuck_lost, 1);
	arena_fini(&a);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(replicated_blocks_are_degraded_down_to_the_last_replica, 3, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, TEXT_BYTES, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	uint64_t blocks = blocks_on(&jf, 1, NULL);
	CHECK(blocks > 0);
	for (uint64_t disk = 1; disk <= 21; disk += 10) {
		lose_disk(&jf, disk);
		check_counts(&jf, j, disk < 21 ? blocks : 0, 0, disk < 21 ? 0 : blocks);
	}
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * Five nodes and blocks of five chunks: chunks of silent nodes count as offline until the nodes are
 * removed.
 */
CLIENT_TEST(blocks_of_silent_nodes_are_unreachable_and_lost_once_these_are_removed, 5, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	uint64_t blocks = blocks_on(&jf, 1, NULL);
	CHECK(blocks > 0);
	for (uint64_t disk = 1; disk <= 21; disk += 10) {
		fixture_do(fx, fixture_kill_node, disk);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
		check_counts(&jf, j, disk < 21 ? blocks : 0, disk < 21 ? 0 : blocks, 0);
	}
	/* One node is back, so each block has one loss less. */
	fixture_do(fx, fixture_start_node, 21);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	check_counts(&jf, j, blocks, 0, 0);
	/* The chunks of a draining disk do not count as lost. */
	CHECK_EQ(meta_client_want_node(&jf.root, 3, CLUSTER_DRAINING), 0);
	fresh_map(&jf);
	check_counts(&jf, j, blocks, 0, 0);
	/* Two silent nodes are removed: the three other chunks suffice as long as they are
	 * online. */
	CHECK_EQ(meta_client_want_node(&jf.root, 1, CLUSTER_GONE), 0);
	CHECK_EQ(meta_client_want_node(&jf.root, 2, CLUSTER_GONE), 0);
	fresh_map(&jf);
	check_counts(&jf, j, blocks, 0, 0);
	fixture_do(fx, fixture_kill_node, 31);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	check_counts(&jf, j, 0, blocks, 0);
	CHECK_EQ(meta_client_want_node(&jf.root, 4, CLUSTER_GONE), 0);
	fresh_map(&jf);
	check_counts(&jf, j, 0, 0, blocks);
	/* stuck_lost counts the blocks of the last walk; it is not a sum over walks. */
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK_EQ(stats_of(j).stuck_lost, blocks);
	}
	CHECK(stats_of(j).lost_blocks > blocks);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).stuck_lost, blocks);
	CHECK_EQ(remove_path(&jf, "/f"), 0);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).stuck_lost, 0);
	check_counts(&jf, j, 0, 0, 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* The open block of a log counts by its acknowledged length. */
CLIENT_TEST(the_open_block_of_a_log_counts_too, 3, 1)
{
	struct janitor_fixture jf;
	struct call c;
	struct efile *f;
	uint8_t line[4] = "line";
	struct iovec iov = {line, sizeof(line)};
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, NULL, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	rt_background();
	check_counts(&jf, j, 0, 0, 0);
	/* No disk can take another replica, so the writer does not end the block. */
	fixture_do(fx, fixture_kill_node, 1);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	check_counts(&jf, j, 1, 0, 0);
	lose_disk(&jf, 1);
	check_counts(&jf, j, 1, 0, 0);
	lose_disk(&jf, 11);
	check_counts(&jf, j, 1, 0, 0);
	fixture_do(fx, fixture_kill_node, 21);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	check_counts(&jf, j, 0, 1, 0);
	lose_disk(&jf, 21);
	check_counts(&jf, j, 0, 0, 1);
	engine_file_discard(f);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_block_is_degraded_up_to_the_tolerance_of_its_code_and_lost_beyond),
		cmocka_unit_test(replicated_blocks_are_degraded_down_to_the_last_replica),
		cmocka_unit_test(
			blocks_of_silent_nodes_are_unreachable_and_lost_once_these_are_removed),
		cmocka_unit_test(the_open_block_of_a_log_counts_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
