// SPDX-License-Identifier: Apache-2.0
/* A janitor on several loops: the bytes of repair and rebalancing are spread, limits are those of the janitor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "janitor/impl.h"
#include "janitor_fixture.h"
#include "meta/meta.h"
#include "rt/call.h"

#define LOOPS 4
#define MEMORY_BYTES (64 * MIB)

struct team_janitor {
	struct rt_team team;
	struct janitor *j;
};

static void open_on_loops(struct team_janitor *t, struct janitor_options o)
{
	CHECK_EQ(rt_team_open(&t->team, LOOPS), 0);
	o.team = &t->team;
	o.fabric.home_bytes = 1;
	o.fabric.memory_bytes = MEMORY_BYTES;
	t->j = hire(&o);
	CHECK_EQ(fabric_loops(&t->j->fabric), LOOPS);
}

static void close_on_loops(struct team_janitor *t)
{
	CHECK(t->j->fabric.shared->pool.bufs.stats.peak_bytes <= MEMORY_BYTES);
	janitor_close(t->j);
	rt_team_close(&t->team);
}

static unsigned loops_used(const struct team_janitor *t)
{
	unsigned n = 0;
	for (unsigned i = 0; i < LOOPS; i++)
		n += fabric_loop_bytes(&t->j->fabric, i) > 0;
	return n;
}

CLIENT_TEST(a_lost_disk_is_repaired_on_all_loops, 8, 1)
{
	struct janitor_fixture jf;
	struct team_janitor t;
	janitor_fixture_open(&jf, fx);
	open_on_loops(&t, quick());
	write_all(&jf);
	size_t blocks = check_whole(&jf);
	size_t on = blocks_on(&jf, 21, NULL);
	CHECK(on > 0);
	lose_disk(&jf, 21);
	CHECK_EQ(janitor_repair(t.j, false), 0);
	CHECK_EQ(loops_used(&t), LOOPS);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	CHECK_EQ(stats_of(t.j).chunks_repaired, on);
	CHECK_EQ(stats_of(t.j).failed + stats_of(t.j).no_room + stats_of(t.j).lost_blocks, 0);
	CHECK_EQ(check_whole(&jf), blocks);
	read_all(&jf);
	close_on_loops(&t);
	janitor_fixture_close(&jf);
}

/* Loses a disk and returns how many bytes of its repair cross a rack's uplink in a second, over all racks. */
static double rate_of_repair(struct janitor_fixture *jf, struct janitor *j, uint64_t disk)
{
	uint64_t before = stats_of(j).repair_cross_bytes;
	lose_disk(jf, disk);
	uint64_t since_ns = rt_now_ns();
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(blocks_on(jf, disk, NULL), 0);
	uint64_t bytes = stats_of(j).repair_cross_bytes - before;
	return (double)bytes * 1e9 / (double)(rt_now_ns() - since_ns);
}

CLIENT_TEST(the_rate_of_repair_is_that_of_all_loops, 8, 1)
{
	struct janitor_fixture jf;
	struct team_janitor t;
	struct janitor_options o = quick();
	o.rack_bytes_per_s = 20000;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct janitor *alone = hire(&o);
	double one = rate_of_repair(&jf, alone, 21);
	janitor_close(alone);
	open_on_loops(&t, o);
	double several = rate_of_repair(&jf, t.j, 31);
	CHECK_EQ(loops_used(&t), LOOPS);
	/* The two disks have different chunks; limits for each loop would give LOOPS times the rate. */
	CHECK(several < 1.5 * one);
	close_on_loops(&t);
	janitor_fixture_close(&jf);
}

/* Plans of repair are made at home, by what home knows of disks. */
CLIENT_TEST(home_is_told_of_disks_that_other_loops_could_not_reach, 8, 1)
{
	struct janitor_fixture jf;
	struct team_janitor t;
	janitor_fixture_open(&jf, fx);
	open_on_loops(&t, quick());
	write_all(&jf);
	struct fabric *home = &t.j->fabric;
	CHECK_EQ(janitor_repair(t.j, false), 0); /* fetches the map */
	uint32_t before = disk_cost(home, 31);
	disk_note(home, 31, -ENOENT); /* an answer of the disk */
	CHECK_EQ(disk_cost(home, 31), before);
	disk_note(home, 31, -ECONNREFUSED);
	CHECK(disk_cost(home, 31) > 10 * before);
	lose_disk(&jf, 21); /* waits longer than a disk counts as unreachable */
	CHECK_EQ(disk_cost(home, 31), before);
	disk_note(home, 31, -EIO);
	CHECK(disk_cost(home, 31) > 10 * before);
	disk_note(home, 31, 0);
	CHECK_EQ(disk_cost(home, 31), before);
	close_on_loops(&t);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_janitor_that_is_stopped_leaves_nothing_on_its_loops, 8, 1)
{
	struct janitor_fixture jf;
	struct team_janitor t;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	for (unsigned i = 1; i <= 5; i++) {
		open_on_loops(&t, quick());
		if (i == 1)
			lose_disk(&jf, 21);
		/* The deadline passes while chunks are under way; the simulator finds what is left behind. */
		uint64_t before = rt_deadline_narrow(rt_now_ns() + (uint64_t)i * 2 * NS_PER_MS);
		(void)janitor_repair(t.j, false);
		rt_deadline_set(before);
		close_on_loops(&t);
	}
	open_on_loops(&t, quick());
	/* The leases of those before expire once this janitor has seen them unchanged for their duration. */
	CHECK_EQ(janitor_repair(t.j, false), 0);
	CHECK_EQ(rt_sleep_ns(60 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(t.j, true), 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	read_all(&jf);
	close_on_loops(&t);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_disk_is_repaired_on_all_loops),
		cmocka_unit_test(the_rate_of_repair_is_that_of_all_loops),
		cmocka_unit_test(home_is_told_of_disks_that_other_loops_could_not_reach),
		cmocka_unit_test(a_janitor_that_is_stopped_leaves_nothing_on_its_loops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
