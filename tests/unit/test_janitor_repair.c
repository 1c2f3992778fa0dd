// SPDX-License-Identifier: Apache-2.0
/* Which disks are repaired and drained, and when, in a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "janitor_fixture.h"
#include "meta/meta.h"

CLIENT_TEST(the_blocks_of_a_failed_disk_are_repaired, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&jf);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	size_t blocks = check_whole(&jf);
	size_t on = blocks_on(&jf, 21, NULL);
	CHECK(on > 0);
	lose_disk(&jf, 21);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(stats_of(j).failed + stats_of(j).no_room + stats_of(j).lost_blocks, 0);
	CHECK_EQ(check_whole(&jf), blocks);
	read_all(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_silent_node_is_repaired_after_the_delay_and_not_before, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&jf);
	size_t on = blocks_on(&jf, 31, NULL);
	CHECK(on > 0);
	fixture_do(fx, fixture_kill_node, 31);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	/* The dead node is suspect and not lost yet. */
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(rt_sleep_ns(25 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&jf, 31, NULL), 0);
	(void)check_whole(&jf);
	read_all(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_draining_node_is_emptied_by_copying, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&jf);
	size_t on = blocks_on(&jf, 41, NULL);
	struct chunk_id ids[256];
	CHECK(on > 0);
	CHECK_EQ(meta_client_want_node(&jf.root, 5, CLUSTER_DRAINING), 0);
	fresh_map(&jf);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_moved, on);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(blocks_on(&jf, 41, NULL), 0);
	CHECK_EQ(chunks_on(&jf, 41, ids, ARRAY_LEN(ids)), 0);
	(void)check_whole(&jf);
	read_all(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* --- which disks ------------------------------------------------------------------------------ */

CLIENT_TEST(a_disk_that_its_node_says_has_failed_is_repaired_at_once, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&jf);
	size_t on = blocks_on(&jf, 31, NULL);
	CHECK(on > 0);
	fx->sick = 31;
	fx->sick_health = CLUSTER_FAILED;
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&jf, 31, NULL), 0);
	read_all(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_disk_with_errors_is_repaired_after_the_delay, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&jf);
	size_t on = blocks_on(&jf, 31, NULL);
	CHECK(on > 0);
	fx->sick = 31;
	fx->sick_health = CLUSTER_SUSPECT;
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	/* The disk returns for a moment, so the delay starts again. */
	fx->sick = 0;
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	fx->sick = 31;
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(rt_sleep_ns(15 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	read_all(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(the_chunks_of_a_replaced_drive_are_repaired_at_once, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&jf);
	size_t on = blocks_on(&jf, 31, NULL);
	CHECK(on > 0);
	/* No chunk is missing, so neither this janitor nor the next finds anything to do. */
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).damage_found, 0);
	fixture_do(fx, fixture_kill_node, 31);
	fixture_do(fx, fixture_new_drives, 31);
	fresh_map(&jf);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).damage_found, on);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	(void)check_whole(&jf);
	read_all(&jf);
	janitor_close(j);
	j = hire(&o);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).damage_found, 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* --- in which order, and how fast ------------------------------------------------------------- */

/* Counts the blocks with chunks on both disks, and the blocks with a chunk on exactly one. */
static void count_hurt(struct janitor_fixture *jf, uint64_t x, uint64_t y, size_t *both,
		       size_t *one)
{
	struct arena a;
	arena_init(&a, 64 * MIB);
	*both = *one = 0;
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t n = meta_client_blocks(&jf->root, &w, &a, at, ARRAY_LEN(at));
		CHECK(n >= 0);
		for (int64_t i = 0; i < n; i++) {
			int hurt = 0;
			for (size_t k = 0; k < at[i].block.chunk_count; k++)
				hurt += at[i].block.chunks[k].disk == x ||
					at[i].block.chunks[k].disk == y;
			*both += hurt == 2;
			*one += hurt == 1;
		}
	}
	arena_fini(&a);
}

CLIENT_TEST(blocks_with_the_least_redundancy_left_go_first, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	for (uint64_t i = 0; i < 3; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(write_text(&jf, path, i, TEXT_BYTES, "rs:3+2"), 0);
	}
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t both, one, singles, left;
	count_hurt(&jf, 21, 41, &both, &singles);
	CHECK(both > 1 && singles > 1);
	CHECK_EQ(meta_client_want_disk(&jf.root, 21, CLUSTER_GONE), 0);
	lose_disk(&jf, 41);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 100000;
	o.parallel = 1;
	struct round r = {.j = hire(&o)};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
	bool seen = false;
	for (left = both; left > 0;) {
		count_hurt(&jf, 21, 41, &left, &one);
		/* A block with two lost chunks may have one of them repaired. */
		/* One of the singles counted above may be a block with two lost chunks of which one is back. */
		CHECK(left == 0 || one + 1 >= singles);
		seen = seen || (left > 0 && left < both);
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	}
	CHECK(seen && !r.done);
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	(void)check_whole(&jf);
	janitor_close(r.j);
	janitor_fixture_close(&jf);
}

/* Blocks with two lost chunks are repaired first although the list is too short for all degraded
 * blocks. */
CLIENT_TEST(the_most_degraded_blocks_stay_on_a_list_that_is_too_short, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 4 * MIB, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t both, one, singles;
	count_hurt(&jf, 21, 41, &both, &singles);
	CHECK(both > 8 && singles > 16);
	CHECK_EQ(meta_client_want_disk(&jf.root, 21, CLUSTER_GONE), 0);
	lose_disk(&jf, 41);
	struct janitor_options o = quick();
	o.list_max = 2;
	struct janitor *j = hire(&o);
	for (size_t left = both, before = both; left > 0; before = left) {
		CHECK_EQ(janitor_repair(j, false), 0);
		count_hurt(&jf, 21, 41, &left, &one);
		CHECK(left < before);
		/* Rounds that find no such block repair other blocks. */
		CHECK(left == 0 || (before - left) * singles > (singles - one) * before);
		singles = one;
	}
	while (blocks_on(&jf, 21, NULL) + blocks_on(&jf, 41, NULL) > 0)
		CHECK_EQ(janitor_repair(j, false), 0);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* Counts blocks with losses that their code tolerates. */
static size_t count_repairable(struct janitor_fixture *jf, const uint64_t *lost, size_t n,
			       size_t bears, size_t *too_damaged)
{
	struct arena a;
	arena_init(&a, 64 * MIB);
	size_t repairable = 0;
	*too_damaged = 0;
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t got = meta_client_blocks(&jf->root, &w, &a, at, ARRAY_LEN(at));
		CHECK(got >= 0);
		for (int64_t i = 0; i < got; i++) {
			size_t hurt = 0;
			for (size_t k = 0; k < at[i].block.chunk_count; k++)
				for (size_t d = 0; d < n; d++)
					hurt += at[i].block.chunks[k].disk == lost[d];
			repairable += hurt > 0 && hurt <= bears;
			*too_damaged += hurt > bears;
		}
	}
	arena_fini(&a);
	return repairable;
}

CLIENT_TEST(lost_blocks_leave_room_on_the_list_for_others, 9, 1)
{
	static const uint64_t LOST[] = {1, 21, 41};
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 4 * MIB, "rs:3+1"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	for (size_t i = 0; i < ARRAY_LEN(LOST); i++)
		CHECK_EQ(meta_client_want_disk(&jf.root, LOST[i], CLUSTER_GONE), 0);
	fresh_map(&jf);
	size_t too_damaged, left = count_repairable(&jf, LOST, ARRAY_LEN(LOST), 1, &too_damaged);
	CHECK(left > 16 && too_damaged > 16);
	struct janitor_options o = quick();
	o.list_max = 2;
	struct janitor *j = hire(&o);
	while (left > 0) {
		size_t before = left;
		CHECK_EQ(janitor_repair(j, false), 0);
		left = count_repairable(&jf, LOST, ARRAY_LEN(LOST), 1, &too_damaged);
		CHECK(left < before);
	}
	CHECK(too_damaged > 16);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * A second disk is lost while the blocks of the first are repaired: blocks with chunks on both
 * disks come next.
 */
CLIENT_TEST(blocks_hit_by_a_second_failure_go_first, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 4 * MIB, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 50000; /* repair may use 20%, so a chunk takes 2 s */
	o.parallel = 1;
	struct round r = {.j = hire(&o)};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
	while (stats_of(r.j).chunks_repaired == 0)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	size_t both, one, singles, left;
	CHECK_EQ(meta_client_want_disk(&jf.root, 41, CLUSTER_GONE), 0);
	/* When a block with two lost chunks has one of them back, the janitor has the new map and
	 * has finished the block that it had before. */
	count_hurt(&jf, 21, 41, &both, &singles);
	for (left = both; left == both;) {
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
		count_hurt(&jf, 21, 41, &left, &singles);
	}
	CHECK(left > 2 && singles > 2 && !r.done);
	while (left > 0) {
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
		count_hurt(&jf, 21, 41, &left, &one);
		/* One of the singles counted above may be a block with two lost chunks of which one is back. */
		CHECK(left == 0 || one + 1 >= singles);
	}
	CHECK(!r.done);
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL) + blocks_on(&jf, 41, NULL), 0);
	(void)check_whole(&jf);
	janitor_close(r.j);
	janitor_fixture_close(&jf);
}

static void cut_metadata(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_net_cut(fx->sim, fx->client, fx->meta, true);
}

/*
 * The metadata server is unreachable now and then, so that maps become old: while a worker waits
 * for a new map, other workers take the last block.
 */
CLIENT_TEST(no_worker_goes_beyond_the_end_of_the_list, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 8 * MIB, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&jf, 21, NULL);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	o.parallel = 2;
	struct round r = {.j = hire(&o)};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
	for (uint64_t repaired = 0; !r.done;) {
		CHECK_EQ(rt_sleep_ns(50 * NS_PER_US), 0);
		CHECK(stats_of(r.j).blocks_waiting < on);
		if (stats_of(r.j).chunks_repaired == repaired)
			continue;
		repaired = stats_of(r.j).chunks_repaired;
		fixture_do(fx, cut_metadata, 0);
		CHECK_EQ(rt_sleep_ns(1500 * NS_PER_MS), 0);
		fixture_do(fx, fixture_heal, 0);
	}
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	CHECK_EQ(stats_of(r.j).chunks_repaired, on);
	(void)check_whole(&jf);
	janitor_close(r.j);
	janitor_fixture_close(&jf);
}

static uint64_t repair_time_ns(struct janitor_fixture *jf, struct janitor *j, uint64_t disk)
{
	lose_disk(jf, disk);
	uint64_t begin_ns = rt_now_ns();
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(blocks_on(jf, disk, NULL), 0);
	return rt_now_ns() - begin_ns;
}

CLIENT_TEST(bandwidth_is_kept_and_live_janitors_know_of_each_other, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 1280 * KIB, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 500000; /* repair may use 20%: 100 KB/s */
	/* repair may use 20% of the rate: 50 KB/s, for the only disk of a rack */
	o.rack_bytes_per_s = 250000;
	struct janitor *j = hire(&o), *k = hire(&o);
	CHECK_EQ(janitor_report(j), 0);
	CHECK_EQ(stats_of(j).janitors, 1);
	size_t on = blocks_on(&jf, 21, NULL);
	uint64_t alone_ns = repair_time_ns(&jf, j, 21);
	/* Nine disks read and write at most 50 KB/s each. */
	CHECK(on > 2 && (double)alone_ns / 1e9 > (double)(on * 2 * 64 * KIB) / (9 * 50e3) / 2);
	struct janitor_repair rec[JANITOR_REPAIRS_MAX];
	CHECK_EQ(janitor_repairs(j, rec), 1);
	CHECK(!rec[0].pool && rec[0].disk == 21 && rec[0].end_ns != 0);
	CHECK(rec[0].total == on && rec[0].done == on && rec[0].failed == 0);
	CHECK_EQ(rec[0].cross_bytes, on * 2 * 64 * KIB);
	CHECK_EQ(rec[0].predicted_bytes, rec[0].cross_bytes);
	/* A janitor counts as live until its report is a minute old. */
	CHECK_EQ(janitor_report(k), 0);
	CHECK_EQ(janitor_report(j), 0);
	CHECK_EQ(stats_of(j).janitors, 2);
	CHECK_EQ(rt_sleep_ns(61 * NS_PER_S), 0);
	CHECK_EQ(janitor_report(j), 0);
	CHECK_EQ(stats_of(j).janitors, 1);
	CHECK_EQ(janitor_report(k), 0);
	CHECK_EQ(stats_of(k).janitors, 2);
	janitor_close(k);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(two_janitors_have_half_of_the_bandwidth_each, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 1280 * KIB, "r2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	o.rack_bytes_per_s = 50000; /* repair may use 20%: 10 KB/s */
	o.parallel = 64;
	uint64_t spent_ns[2];
	struct janitor *j = hire(&o), *k = hire(&o);
	/* Each repair reads from or writes to the third disk. */
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(janitor_report(j), 0);
		CHECK_EQ(stats_of(j).janitors, i == 0 ? 1 : 2);
		size_t on = blocks_on(&jf, i == 0 ? 1 : 11, NULL);
		CHECK(on > 1);
		spent_ns[i] = repair_time_ns(&jf, j, i == 0 ? 1 : 11) / on;
		CHECK_EQ(janitor_report(k), 0);
	}
	CHECK(spent_ns[1] > spent_ns[0] * 3 / 2);
	janitor_close(k);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_blocks_of_a_failed_disk_are_repaired),
		cmocka_unit_test(a_silent_node_is_repaired_after_the_delay_and_not_before),
		cmocka_unit_test(a_draining_node_is_emptied_by_copying),
		cmocka_unit_test(a_disk_that_its_node_says_has_failed_is_repaired_at_once),
		cmocka_unit_test(a_disk_with_errors_is_repaired_after_the_delay),
		cmocka_unit_test(the_chunks_of_a_replaced_drive_are_repaired_at_once),
		cmocka_unit_test(blocks_with_the_least_redundancy_left_go_first),
		cmocka_unit_test(the_most_degraded_blocks_stay_on_a_list_that_is_too_short),
		cmocka_unit_test(lost_blocks_leave_room_on_the_list_for_others),
		cmocka_unit_test(blocks_hit_by_a_second_failure_go_first),
		cmocka_unit_test(no_worker_goes_beyond_the_end_of_the_list),
		cmocka_unit_test(bandwidth_is_kept_and_live_janitors_know_of_each_other),
		cmocka_unit_test(two_janitors_have_half_of_the_bandwidth_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
