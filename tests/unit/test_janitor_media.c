// SPDX-License-Identifier: Apache-2.0
/* Repair, drain and rebalance keep blocks on their media, and put durability first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "client/fsck.h"
#include "janitor/stats.h"
#include "janitor_fixture.h"

#define FLASH CLUSTER_MEDIA_FLASH
#define DISK CLUSTER_MEDIA_DISK

static void write_flash(struct janitor_fixture *jf)
{
	for (size_t i = 0; i < FIXTURE_FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%zu", i);
		CHECK_EQ(write_text_on(jf, path, i, TEXT_BYTES, FIXTURE_ENCODINGS[i],
				       TERRANE_MEDIA_FLASH),
			 0);
	}
	CHECK_EQ(write_text(jf, "/disk", 77, TEXT_BYTES, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
}

static void want(struct janitor_fixture *jf, uint64_t disk, enum cluster_state state)
{
	rt_context_set(NULL);
	CHECK_EQ(meta_client_want_disk(&jf->root, disk, state), 0);
	fresh_map(jf);
}

static void repair_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_flash(&jf);
	CHECK_EQ(count_media(&jf).misplaced, 0);
	size_t on = blocks_on(&jf, 22, NULL), drained = blocks_on(&jf, 32, NULL);
	CHECK(on > 0 && drained > 0);
	lose_disk(&jf, 22);
	want(&jf, 32, CLUSTER_DRAINING);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&jf, 22, NULL) + blocks_on(&jf, 32, NULL), 0);
	CHECK(stats_of(j).chunks_repaired + stats_of(j).chunks_moved >= on + drained);
	CHECK_EQ(count_media(&jf).misplaced, 0);
	(void)check_whole(&jf);
	read_all(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void repair_and_drain_stay_on_the_media_of_the_block(void **state)
{
	(void)state;
	fixture_run_media(9, 8, 0, repair_body);
}

static uint64_t misplaced_by_fsck(struct janitor_fixture *jf)
{
	struct call c;
	struct fsck_options o = {0};
	struct fsck_counts n = {0};
	engine_call(jf->engine, &c, NULL);
	CHECK_EQ(engine_fsck(&c, "/", &o, &n), 0);
	rt_background();
	CHECK_EQ(n.healthy, n.blocks);
	return n.misplaced;
}

/*
 * The drained flash disk has a chunk of every block, and no other flash disk accepts chunks: the
 * chunks go to the first disk of either media that does.
 */
static void spill(struct janitor_fixture *jf, struct janitor *j, uint64_t drained, size_t on)
{
	want(jf, drained, CLUSTER_DRAINING);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(jf, drained, NULL), 0);
	CHECK_EQ(stats_of(j).no_room, 0);
	CHECK_EQ(count_media(jf).misplaced, on);
	CHECK_EQ(misplaced_by_fsck(jf), on);
	(void)check_whole(jf);
	/* There is still no room: nothing moves. */
	uint64_t moved = stats_of(j).chunks_balanced;
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).chunks_balanced, moved);
	want(jf, drained, CLUSTER_ONLINE);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).chunks_balanced, moved + on);
	CHECK_EQ(count_media(jf).misplaced, 0);
	CHECK_EQ(misplaced_by_fsck(jf), 0);
	(void)check_whole(jf);
}

static void spill_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text_on(&jf, "/f", 1, TEXT_BYTES, "r3", TERRANE_MEDIA_FLASH), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&jf, 12, NULL);
	CHECK_EQ(on, count_media(&jf).chunks[FLASH] / 3);
	spill(&jf, j, 12, on);
	CHECK_EQ(read_text(&jf, "/f", 1, TEXT_BYTES), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void without_flash_repair_uses_disks_and_rebalance_returns_the_chunks(void **state)
{
	(void)state;
	fixture_run_media(5, 3, 0, spill_body);
}

/* Disks whose number ends in 2 are all flash; too few other disks are left. */
static void disks_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/f", 1, TEXT_BYTES, "r4"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&jf, 11, NULL);
	CHECK_EQ(on, count_media(&jf).chunks[DISK] / 4);
	spill(&jf, j, 11, on);
	CHECK_EQ(read_text(&jf, "/f", 1, TEXT_BYTES), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void without_disks_repair_uses_flash_and_rebalance_returns_the_chunks(void **state)
{
	(void)state;
	fixture_run_media(4, 4, 0, disks_body);
}

/* The map says that a flash disk is online, but the disk refuses the chunks of the drain. */
static void refused_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text_on(&jf, "/f", 1, TEXT_BYTES, "r3", TERRANE_MEDIA_FLASH), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&jf, 12, NULL), junk[5];
	CHECK(on > 0);
	for (uint64_t node = 0; node < 5; node++)
		junk[node] = fill_disk(&jf, 10 * node + 2);
	want(&jf, 12, CLUSTER_DRAINING);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&jf, 12, NULL), 0);
	CHECK_EQ(count_media(&jf).misplaced, on);
	for (uint64_t node = 0; node < 5; node++)
		empty_disk(&jf, 10 * node + 2, junk[node]);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(count_media(&jf).misplaced, 0);
	CHECK_EQ(blocks_on(&jf, 12, NULL), 0);
	CHECK_EQ(read_text(&jf, "/f", 1, TEXT_BYTES), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void flash_that_refuses_a_chunk_does_not_stop_a_drain(void **state)
{
	(void)state;
	fixture_run_media(6, 5, 4 * MIB, refused_body);
}

/*
 * The flash disks are full and the other disks are empty. The disks of each media are filled
 * evenly, so nothing moves.
 */
static void fill_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (unsigned i = 0; i < 8; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%u", i);
		CHECK_EQ(write_text_on(&jf, path, i, MIB, "r3", TERRANE_MEDIA_FLASH), 0);
	}
	CHECK_EQ(write_text(&jf, "/one", 50, 1000, "r2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	/* All three flash disks have a chunk of each block. */
	for (int i = 0; i < 3; i++)
		CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).chunks_balanced, 0);
	CHECK_EQ(count_media(&jf).misplaced, 0);
	struct cluster *map;
	struct stats s;
	struct stats_balance all[CLUSTER_MEDIA_COUNT];
	stats_init(&s);
	rt_context_set(NULL);
	CHECK_EQ(stats_load(&jf.root, &s), 0);
	CHECK_EQ(s.crowded, 0);
	CHECK_EQ(meta_client_map(&jf.root, 0, &map), 0);
	for (unsigned i = 0; i < CLUSTER_MEDIA_COUNT; i++)
		stats_balance(&s, map, (enum cluster_media)i, &all[i]);
	CHECK(all[FLASH].mean > 100 * all[DISK].mean && all[DISK].mean > 0);
	CHECK(all[FLASH].deviation < 0.01);
	CHECK(stats_worst(all) == &all[DISK]);
	CHECK_EQ(cluster_disk_media(map, all[FLASH].fullest), FLASH);
	stats_fini(&s);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void fullness_is_compared_among_disks_of_one_media(void **state)
{
	(void)state;
	fixture_run_media(5, 3, 0, fill_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repair_and_drain_stay_on_the_media_of_the_block),
		cmocka_unit_test(without_flash_repair_uses_disks_and_rebalance_returns_the_chunks),
		cmocka_unit_test(without_disks_repair_uses_flash_and_rebalance_returns_the_chunks),
		cmocka_unit_test(flash_that_refuses_a_chunk_does_not_stop_a_drain),
		cmocka_unit_test(fullness_is_compared_among_disks_of_one_media),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
