// SPDX-License-Identifier: Apache-2.0
/* Collection while a disk is full, against a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "janitor_fixture.h"

#define SICK 11 /* the disk that becomes full */

struct dead_count {
	size_t full, others;
};

/* Counts chunks: first those of the other disks, so that a count in which others are missing has a later count of the
 * full disk. */
static struct dead_count count_dead(struct janitor_fixture *jf)
{
	struct chunk_id ids[256];
	struct dead_count c = {0};
	for (uint64_t disk = 1; disk <= 31; disk += 10)
		c.others += disk == SICK ? 0 : chunks_on(jf, disk, ids, ARRAY_LEN(ids));
	c.full = chunks_on(jf, SICK, ids, ARRAY_LEN(ids));
	return c;
}

/* Writes files, deletes them, and collects until their chunks are listed as dead and wait for two more epochs. */
static struct dead_count make_dead(struct janitor_fixture *jf, struct janitor *j)
{
	char path[16];
	for (uint64_t i = 0; i < 24; i++) {
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(write_text(jf, path, i, TEXT_BYTES, "r2"), 0);
	}
	struct dead_count all = count_dead(jf);
	CHECK(all.full > 0 && all.others > all.full);
	for (uint64_t i = 0; i < 24; i++) {
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(remove_path(jf, path), 0);
	}
	/* Names, files and blocks wait in turn. Several rounds, as what one share frees may belong to an earlier one. */
	for (int step = 0; step < 4; step++) {
		if (step > 0)
			epochs_pass(jf, 2);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(janitor_collect(j), 0);
	}
	struct dead_count now = count_dead(jf);
	CHECK_EQ(now.full, all.full);
	CHECK_EQ(now.others, all.others);
	CHECK(waiting_bytes(jf) > 0);
	return all;
}

static void collect_fiber(void *arg)
{
	struct round *r = arg;
	r->rc = janitor_collect(r->j);
	r->done = true;
}

CLIENT_TEST(dead_chunks_on_full_disks_are_deleted_before_all_others, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	o.deletes_per_s = 20;
	struct janitor *j = hire(&o);
	struct dead_count all = make_dead(&jf, j);
	fx->sick = SICK;
	fx->sick_health = CLUSTER_FULL;
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	/* A full disk does not shorten the grace period. */
	uint64_t epoch, after, partitions;
	CHECK_EQ(meta_client_gc_epoch(&jf.root, &epoch, &partitions), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(meta_client_gc_epoch(&jf.root, &after, &partitions), 0);
	CHECK_EQ(after, epoch);
	CHECK_EQ(stats_of(j).chunks_deleted, 0);
	epochs_pass(&jf, 1);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(stats_of(j).chunks_deleted, 0);
	epochs_pass(&jf, 1);
	struct round r = {.j = j};
	CHECK_EQ(rt_spawn(NULL, "collect", collect_fiber, &r), 0);
	size_t first = 0, between = 0;
	while (!r.done) {
		struct dead_count now = count_dead(&jf);
		CHECK(now.others == all.others || now.full == 0);
		first += now.full < all.full && now.full > 0;
		between += now.full == 0 && now.others == all.others;
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 20), 0);
	}
	CHECK_EQ(r.rc, 0);
	CHECK(first > 0 && between > 0);
	/* The same round frees the rest, counts each chunk once, and gives the bytes back. */
	CHECK_EQ(chunks_everywhere(&jf), 0);
	CHECK_EQ(stats_of(j).chunks_deleted, all.full + all.others);
	CHECK_EQ(stats_of(j).stuck_dead, 0);
	CHECK_EQ(waiting_bytes(&jf), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_disk_that_becomes_full_during_a_long_round_comes_next, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	o.deletes_per_s = 2;
	struct janitor *j = hire(&o);
	struct dead_count now, all = make_dead(&jf, j);
	epochs_pass(&jf, 2);
	struct round r = {.j = j};
	CHECK_EQ(rt_spawn(NULL, "collect", collect_fiber, &r), 0);
	while (stats_of(j).chunks_deleted == 0)
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 20), 0);
	fx->sick = SICK;
	fx->sick_health = CLUSTER_FULL;
	do {
		now = count_dead(&jf);
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 20), 0);
	} while (now.full > 0);
	CHECK(!r.done);
	CHECK(now.others > all.others / 2);
	while (!r.done)
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	CHECK_EQ(r.rc, 0);
	CHECK_EQ(chunks_everywhere(&jf), 0);
	CHECK_EQ(stats_of(j).chunks_deleted, all.full + all.others);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_disk_that_becomes_full_starts_a_round_before_its_time, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	(void)make_dead(&jf, j);
	o.round_ns = 3600 * NS_PER_S;
	struct round r = {.j = hire(&o)};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", run_janitor, &r), 0);
	while (stats_of(r.j).rounds == 0)
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	epochs_pass(&jf, 2);
	CHECK_EQ(rt_sleep_ns(300 * NS_PER_S), 0);
	CHECK_EQ(stats_of(r.j).rounds, 1);
	CHECK_EQ(stats_of(r.j).chunks_deleted, 0);
	fx->sick = SICK;
	fx->sick_health = CLUSTER_FULL;
	uint64_t begin_ns = rt_now_ns();
	while (stats_of(r.j).rounds == 1)
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	CHECK(rt_now_ns() - begin_ns < 60 * NS_PER_S);
	CHECK_EQ(chunks_everywhere(&jf), 0);
	/* A disk that stays full starts no further rounds. */
	CHECK_EQ(rt_sleep_ns(300 * NS_PER_S), 0);
	CHECK_EQ(stats_of(r.j).rounds, 2);
	rt_cancel(fiber);
	rt_join(fiber);
	CHECK_EQ(r.rc, -ECANCELED);
	janitor_close(r.j);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dead_chunks_on_full_disks_are_deleted_before_all_others),
		cmocka_unit_test(a_disk_that_becomes_full_during_a_long_round_comes_next),
		cmocka_unit_test(a_disk_that_becomes_full_starts_a_round_before_its_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
