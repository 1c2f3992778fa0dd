// SPDX-License-Identifier: Apache-2.0
/* Which disks are repaired and drained, and when, against a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "janitor_lab.h"

static void failed_disk_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&l);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	size_t blocks = check_whole(&l);
	size_t on = blocks_on(&l, 21, NULL);
	CHECK(on > 0);
	lose_disk(&l, 21);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(stats_of(j).failed + stats_of(j).no_room + stats_of(j).lost_blocks, 0);
	CHECK_EQ(check_whole(&l), blocks);
	read_all(&l);
	janitor_close(j);
	lab_close(&l);
}

static void the_blocks_of_a_failed_disk_are_whole_again(void **state)
{
	(void)state;
	cbox_run_all(8, 1, failed_disk_body);
}

static void silent_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&l);
	size_t on = blocks_on(&l, 31, NULL);
	CHECK(on > 0);
	cbox_do(b, cbox_kill_node, 31);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	/* Suspicion first. */
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(rt_sleep_ns(25 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&l, 31, NULL), 0);
	(void)check_whole(&l);
	read_all(&l);
	janitor_close(j);
	lab_close(&l);
}

static void a_silent_node_is_repaired_after_the_delay_and_not_before(void **state)
{
	(void)state;
	cbox_run_all(8, 1, silent_body);
}

static void drain_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&l);
	size_t on = blocks_on(&l, 41, NULL);
	struct chunk_id ids[256];
	CHECK(on > 0);
	CHECK_EQ(meta_client_want_node(&l.root, 5, CLUSTER_DRAINING), 0);
	fresh_map(&l);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_moved, on);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(blocks_on(&l, 41, NULL), 0);
	CHECK_EQ(chunks_on(&l, 41, ids, ARRAY_LEN(ids)), 0);
	(void)check_whole(&l);
	read_all(&l);
	janitor_close(j);
	lab_close(&l);
}

static void a_draining_node_is_emptied_by_copying(void **state)
{
	(void)state;
	cbox_run_all(8, 1, drain_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_blocks_of_a_failed_disk_are_whole_again),
		cmocka_unit_test(a_silent_node_is_repaired_after_the_delay_and_not_before),
		cmocka_unit_test(a_draining_node_is_emptied_by_copying),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
