// SPDX-License-Identifier: Apache-2.0
/* The hard cases of repair, by name, against a simulated cluster. */
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

CLIENT_TEST(two_janitors_at_once_repair_each_chunk_once, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	size_t on = blocks_on(&jf, 21, NULL);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	struct round r[2] = {{.j = hire(&o)}, {.j = hire(&o)}};
	struct rt_fiber *fibers[2];
	/* Each janitor has read the reports of the others. */
	for (int i = 0; i < 3; i++)
		CHECK_EQ(janitor_report(r[i % 2].j), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rt_spawn(&fibers[i], "janitor", repair_fiber, &r[i]), 0);
	for (int i = 0; i < 2; i++)
		rt_join(fibers[i]);
	/* A janitor skips a share whose lease another janitor has. */
	CHECK_EQ(janitor_repair(r[0].j, true), 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	CHECK_EQ(stats_of(r[0].j).chunks_repaired + stats_of(r[1].j).chunks_repaired, on);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(r[i].rc, 0);
		CHECK(stats_of(r[i].j).chunks_repaired > 0);
	}
	(void)check_whole(&jf);
	read_all(&jf);
	for (int i = 0; i < 2; i++)
		janitor_close(r[i].j);
	janitor_fixture_close(&jf);
}

/* A janitor so slow that its leases expire while it works: it renews them only between blocks. */
CLIENT_TEST(a_lease_that_expires_in_the_middle_of_a_repair_does_no_harm, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	size_t on = blocks_on(&jf, 21, NULL);
	lose_disk(&jf, 21);
	struct janitor_options slow = quick();
	slow.lease_ns = 2 * NS_PER_S;
	slow.disk_bytes_per_s = 20000; /* repair may use 20% of this rate, so 64 KiB take 16 s */
	slow.parallel = 1;
	struct janitor_options o = quick();
	o.lease_ns = 2 * NS_PER_S;
	struct round r[2] = {{.j = hire(&slow)}, {.j = hire(&o)}};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r[0]), 0);
	/* The fast janitor takes over the leases of the slow janitor and repairs everything. */
	for (int i = 0; i < 40 && blocks_on(&jf, 21, NULL) > 0; i++) {
		CHECK_EQ(rt_sleep_ns(2500 * NS_PER_MS), 0);
		CHECK_EQ(janitor_repair(r[1].j, false), 0);
	}
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	rt_join(fiber);
	CHECK_EQ(r[0].rc, 0);
	CHECK(stats_of(r[0].j).overtaken > 0); /* both repaired the same block */
	CHECK(stats_of(r[1].j).chunks_repaired > 0);
	CHECK_EQ(stats_of(r[0].j).chunks_repaired + stats_of(r[1].j).chunks_repaired, on);
	(void)check_whole(&jf);
	read_all(&jf);
	for (int i = 0; i < 2; i++)
		janitor_close(r[i].j);
	janitor_fixture_close(&jf);
}

/* A janitor is cancelled at many moments, mostly during a request. */
CLIENT_TEST(a_cancelled_janitor_drops_its_leases, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct janitor_options o = quick();
	o.lease_ns = 3600 * NS_PER_S;
	for (uint64_t i = 0; i < 40; i++) {
		struct round r = {.j = hire(&o)};
		struct rt_fiber *fiber;
		CHECK_EQ(rt_spawn(&fiber, "janitor", run_janitor, &r), 0);
		CHECK_EQ(rt_sleep_ns(i * 700 * NS_PER_US), 0);
		rt_cancel(fiber);
		rt_join(fiber);
		CHECK_EQ(r.rc, -ECANCELED);
		janitor_close(r.j);
		static const char *const kinds[] = {"collect", "repair", "survey"};
		for (unsigned n = 0; n < 3 * 16; n++) {
			struct meta_lease lease = {.holder = 77, .duration_ns = NS_PER_S};
			snprintf(lease.name, sizeof(lease.name), "%s/%u", kinds[n / 16], n % 16);
			CHECK_EQ(meta_client_lease_take(&jf.root, &lease), 0);
			CHECK_EQ(meta_client_lease_drop(&jf.root, &lease), 0);
		}
	}
	janitor_fixture_close(&jf);
}

/* Nodes are restarted at many moments, mostly during a request. */
CLIENT_TEST(services_go_on_when_nodes_stop_during_a_request, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct janitor_options o = quick();
	o.round_ns = 10 * NS_PER_MS;
	o.scrub_ns = 10 * NS_PER_MS;
	o.look_ns = NS_PER_S;
	struct round r = {.j = hire(&o)};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", run_janitor, &r), 0);
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t disk = 10 * (i % 8) + 1;
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 4 + i * 700 * NS_PER_US), 0);
		fixture_do(fx, fixture_kill_node, disk);
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 4), 0);
		fixture_do(fx, fixture_start_node, disk);
	}
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	/* The janitor still scrubs, repairs and collects. */
	struct janitor_stats before = stats_of(r.j), after = before;
	struct chunk_id ids[256];
	CHECK(chunks_on(&jf, 21, ids, ARRAY_LEN(ids)) > 0);
	fixture_flip(fx, 21, ids[0], 7);
	uint64_t end_ns = rt_now_ns() + 60 * NS_PER_S;
	while (after.damage_found == before.damage_found ||
	       after.chunks_repaired == before.chunks_repaired || after.rounds == before.rounds) {
		CHECK(rt_now_ns() < end_ns);
		CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
		after = stats_of(r.j);
	}
	rt_cancel(fiber);
	rt_join(fiber);
	CHECK_EQ(r.rc, -ECANCELED);
	janitor_close(r.j);
	(void)check_whole(&jf);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_second_failure_during_a_repair_is_repaired_too, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 2000000;
	struct round r = {.j = hire(&o)};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
	while (stats_of(r.j).chunks_repaired == 0)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	CHECK(!r.done);
	fixture_do(fx, fixture_kill_node, 51);
	CHECK_EQ(meta_client_want_disk(&jf.root, 51, CLUSTER_GONE), 0);
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	fresh_map(&jf);
	CHECK_EQ(janitor_repair(r.j, true), 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	CHECK_EQ(blocks_on(&jf, 51, NULL), 0);
	(void)check_whole(&jf);
	read_all(&jf);
	CHECK_EQ(stats_of(r.j).lost_blocks, 0);
	janitor_close(r.j);
	janitor_fixture_close(&jf);
}

/*
 * A source chunk is damaged, or it is valid by its own checksums and has other bytes than the
 * record describes.
 */
static void rotten(struct client_fixture *fx, bool whole)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, 5 * TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	/* a first round, in which the janitor notes the drives */
	CHECK_EQ(janitor_repair(j, true), 0);
	struct arena a;
	arena_init(&a, MIB);
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_on_disk on[8];
		int64_t n = meta_client_disk_blocks(&jf.root, 21, &w, on, ARRAY_LEN(on));
		for (int64_t i = 0; i < n; i++) {
			struct meta_block k = block_get(&jf, on[i].block, &a);
			/* Damage a chunk that the cheapest plan may read. */
			uint32_t source = on[i].index == 0 ? 1 : 0;
			uint64_t disk = k.chunks[source].disk;
			struct chunk_id id = {k.chunk_block, source};
			if (whole)
				chunk_copy(&jf, disk, disk, id, 4);
			else
				fixture_flip(fx, disk, id, 100);
		}
	}
	lose_disk(&jf, 21);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	CHECK(stats_of(j).sources_bad > 0);
	/* The damaged chunks that were read are reported, so the next walk repairs them too; scrub
	 * finds the others. */
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	(void)check_whole(&jf);
	CHECK_EQ(read_text(&jf, "/f", 3, 5 * TEXT_BYTES), 0);
	CHECK_EQ(stats_of(j).failed + stats_of(j).lost_blocks, 0);
	arena_fini(&a);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void damaged_body(struct client_fixture *fx)
{
	rotten(fx, false);
}

static void wrong_body(struct client_fixture *fx)
{
	rotten(fx, true);
}

static void a_damaged_source_is_left_out_and_repaired(void **state)
{
	(void)state;
	fixture_run_all(8, 1, damaged_body);
	fixture_run_all(8, 1, wrong_body);
}

CLIENT_TEST(a_block_deleted_while_it_is_repaired_leaves_nothing, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *collector = hire(&o);
	CHECK_EQ(janitor_collect(collector), 0);
	write_all(&jf);
	lose_disk(&jf, 21);
	size_t on = blocks_on(&jf, 21, NULL);
	/* repair may use 20% of this rate: a chunk of 64 KiB takes 80 s */
	o.disk_bytes_per_s = 4000;
	o.parallel = 16;
	struct round r = {.j = hire(&o)};
	for (size_t i = 0; i < FIXTURE_FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%zu", i);
		CHECK_EQ(remove_path(&jf, path), 0);
	}
	/*
	 * Wait until the next epoch in which the blocks are collected. Then the repair begins, and
	 * the blocks are deleted while it reads them.
	 */
	struct rt_fiber *fiber = NULL;
	int rounds = 0;
	while (blocks_on(&jf, 21, NULL) == on) {
		CHECK_EQ(janitor_collect(collector), 0);
		if (stats_of(collector).epochs == 5 && ++rounds == 6)
			CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	}
	CHECK(fiber != NULL && !r.done);
	while (!r.done) {
		CHECK_EQ(janitor_collect(collector), 0);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	}
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	CHECK(stats_of(r.j).overtaken > 0);
	/*
	 * A janitor does not delete a chunk that it has put for nothing, because another janitor
	 * may use the chunk.
	 */
	for (int i = 0; i < 3; i++) {
		collect_for(collector, 3 * GRACE_NS);
		CHECK_EQ(janitor_orphans(collector), 0);
	}
	CHECK(stats_of(collector).orphans_deleted >= stats_of(r.j).overtaken);
	collect_for(collector, 6 * GRACE_NS);
	size_t left = 0;
	struct chunk_id ids[256];
	for (unsigned i = 0; i < fx->node_count; i++)
		left += i == 2 ? 0 : chunks_on(&jf, 10 * i + 1, ids, ARRAY_LEN(ids));
	CHECK_EQ(left, 0);
	CHECK_EQ(used_bytes(&jf), 0);
	CHECK_EQ(stats_of(r.j).failed, 0);
	janitor_close(r.j);
	janitor_close(collector);
	janitor_fixture_close(&jf);
}

static int delete_as(struct janitor_fixture *jf, uint64_t disk, struct chunk_id id,
		     const uint8_t *label)
{
	struct call c;
	struct disk_use u;
	call_init(&c, engine_fabric(jf->engine));
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 10 * NS_PER_S;
	int rc = node_delete_as(&u.node, disk, id, label);
	disk_end(&c, &u, 0, 0);
	return rc;
}

/* Four disks, of which three have a replica: a repair can use the fourth, which still has the old
 * chunk of a move, whose delete is in flight. */
CLIENT_TEST(a_late_delete_spares_the_chunk_of_a_newer_put, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, 5000, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct meta_on_disk on;
	uint64_t lost = 0, spare = 0;
	for (unsigned i = 0; i < 4; i++)
		if (blocks_on(&jf, 10 * i + 1, NULL) == 0)
			spare = 10 * i + 1;
		else
			lost = 10 * i + 1;
	CHECK(spare != 0 && blocks_on(&jf, lost, &on) == 1);
	struct chunk_id id = {on.block, on.index};
	chunk_copy(&jf, lost, spare, id, 0);
	struct chunk_stat old = stat_of(&jf, spare, id);
	lose_disk(&jf, lost);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&jf, spare, NULL), 1);
	CHECK_EQ(delete_as(&jf, spare, id, old.label), -ESTALE);
	CHECK_EQ(check_whole(&jf), 1);
	CHECK_EQ(read_text(&jf, "/f", 3, 5000), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * A janitor that moves a chunk has put it and is paused until the chunk was deleted as an orphan.
 */
CLIENT_TEST(the_record_refuses_a_move_whose_chunk_was_swept, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, 5000, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct meta_on_disk on;
	uint64_t from = 0, to = 0;
	for (unsigned i = 0; i < 4; i++)
		if (blocks_on(&jf, 10 * i + 1, NULL) == 0)
			to = 10 * i + 1;
		else
			from = 10 * i + 1;
	CHECK(to != 0 && blocks_on(&jf, from, &on) == 1);
	struct arena a;
	arena_init(&a, MIB);
	struct meta_block block = block_get(&jf, on.block, &a);
	struct meta_place p = {.chunk_block = block.chunk_block,
			       .index = on.index,
			       .crc = block.chunks[on.index].crc,
			       .from = from,
			       .to = to,
			       .release_count = block.release_count};
	chunk_copy(&jf, from, to, (struct chunk_id){on.block, on.index}, 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	collect_for(j, 3 * GRACE_NS);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(stats_of(j).orphans_deleted, 1);
	struct meta_call c = {.client = jf.client};
	const struct context *before = act_for_tenant();
	CHECK_EQ(meta_client_block_replace(&c, on.block, &p), -ESTALE);
	rt_context_leave(before);
	CHECK_EQ(check_whole(&jf), 1);
	janitor_close(j);
	arena_fini(&a);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_disk_that_comes_back_during_its_repair_keeps_the_chunks_not_yet_rebuilt, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	size_t blocks = check_whole(&jf), on = blocks_on(&jf, 31, NULL);
	struct janitor_options o = quick();
	/* repair may use 20% of this rate: the second request to a disk waits for 5 s or more */
	o.disk_bytes_per_s = 20000;
	o.parallel = 1;
	struct round r = {.j = hire(&o)};
	CHECK_EQ(janitor_repair(r.j, false), 0);
	fixture_do(fx, fixture_kill_node, 31);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(r.j, false), 0);
	CHECK_EQ(rt_sleep_ns(35 * NS_PER_S), 0);
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
	while (stats_of(r.j).chunks_repaired == 0)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	fixture_do(fx, fixture_start_node, 31);
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	fresh_map(&jf);
	/* Some chunks were rebuilt on other disks; the others stay on this disk. */
	size_t stayed = blocks_on(&jf, 31, NULL);
	CHECK(stayed > 0 && stayed < on);
	CHECK_EQ(stayed + stats_of(r.j).chunks_repaired, on);
	CHECK_EQ(check_whole(&jf), blocks);
	read_all(&jf);
	/* The old chunks of rebuilt chunks are deleted as orphans. */
	o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	collect_for(j, 3 * GRACE_NS);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(stats_of(j).orphans_deleted, on - stayed);
	CHECK_EQ(check_whole(&jf), blocks);
	janitor_close(j);
	janitor_close(r.j);
	janitor_fixture_close(&jf);
}

/* Stops or starts both nodes of rack 1. */
static void rack_act(struct client_fixture *fx,
		     void (*act)(struct client_fixture *fx, uint64_t disk))
{
	fixture_do(fx, act, 21);
	fixture_do(fx, act, 31);
}

static void wait_and_repair(struct janitor *j, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
		CHECK_EQ(janitor_repair(j, true), 0);
	}
}

/* Racks of two nodes; the delay is 30 s. */
static void flap_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	size_t blocks = check_whole(&jf), all = chunks_everywhere(&jf);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (int i = 0; i < 4; i++) {
		rack_act(fx, fixture_kill_node);
		wait_and_repair(j, 5);
		rack_act(fx, fixture_start_node);
		wait_and_repair(j, 3);
	}
	CHECK_EQ(stats_of(j).chunks_repaired + stats_of(j).chunks_moved, 0);
	fresh_map(&jf);
	CHECK_EQ(check_whole(&jf), blocks);
	/*
	 * The rack is offline for about as long as the delay, and repair is so slow that it is not
	 * finished when the rack returns.
	 */
	o.disk_bytes_per_s = 10000;
	o.parallel = 1;
	struct janitor *slow = hire(&o);
	CHECK_EQ(janitor_repair(slow, true), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct round r = {.j = slow};
		struct rt_fiber *fiber;
		rack_act(fx, fixture_kill_node);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
		CHECK_EQ(janitor_repair(slow, true), 0);
		CHECK_EQ(rt_sleep_ns((29 + i) * NS_PER_S), 0);
		CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
		CHECK_EQ(rt_sleep_ns(8 * NS_PER_S), 0);
		rack_act(fx, fixture_start_node);
		rt_join(fiber);
		CHECK_EQ(r.rc, 0);
		wait_and_repair(slow, 2);
	}
	size_t anew = stats_of(slow).chunks_repaired;
	CHECK(anew > 0 && stats_of(slow).lost_blocks + stats_of(slow).failed == 0);
	CHECK(blocks_on(&jf, 21, NULL) + blocks_on(&jf, 31, NULL) > 0);
	fresh_map(&jf);
	CHECK_EQ(check_whole(&jf), blocks);
	read_all(&jf);
	/*
	 * The old copies of chunks that were rebuilt while the rack was offline are orphans, and
	 * are deleted.
	 */
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	collect_for(j, 3 * GRACE_NS);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), all);
	CHECK_EQ(check_whole(&jf), blocks);
	janitor_close(slow);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void a_rack_that_flaps_costs_nothing_within_the_delay_and_no_byte_around_it(void **state)
{
	(void)state;
	fixture_run_racks(12, 2, flap_body);
}

/* Six small disks, all full; blocks of five chunks. */
static void no_room_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&jf, 21, NULL), junk[6];
	for (unsigned i = 0; i < 6; i++)
		junk[i] = fill_disk(&jf, 10 * i + 1);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (int i = 0; i < 2; i++) {
		uint64_t before = stats_of(j).no_room;
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK(stats_of(j).no_room > before);
		/* the count concerns the last round; it is not a sum over rounds */
		CHECK_EQ(stats_of(j).stuck_no_room, on);
		CHECK_EQ(stats_of(j).failed + stats_of(j).chunks_repaired, 0);
		CHECK_EQ(blocks_on(&jf, 21, NULL), on);
		CHECK_EQ(read_text(&jf, "/f", 3, TEXT_BYTES), 0);
	}
	/* Repair goes on once there is space. */
	for (unsigned i = 0; i < 6; i++)
		if (i != 2)
			empty_disk(&jf, 10 * i + 1, junk[i]);
	CHECK_EQ(rt_sleep_ns(15 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(stats_of(j).stuck_no_room, 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	(void)check_whole(&jf);
	CHECK_EQ(read_text(&jf, "/f", 3, TEXT_BYTES), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void with_full_disks_a_block_stays_as_it_is_until_there_is_room(void **state)
{
	(void)state;
	fixture_run_small(6, 4 * MIB, no_room_body);
}

CLIENT_TEST(a_block_that_a_writer_still_appends_to_is_repaired_when_it_ends, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	struct terrane_options t = {
		.encoding = "r3", .block_bytes = 1 * MIB, .timeout_ms = 3600 * 1000};
	struct call c;
	engine_call(jf.engine, &c, &t);
	struct efile *f;
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &t, &f), 0);
	uint8_t bytes[1000];
	uint64_t hurt = 0;
	for (uint64_t i = 0; i < 12; i++) {
		fixture_fill(5, i * sizeof(bytes), bytes, sizeof(bytes));
		struct iovec iov = {bytes, sizeof(bytes)};
		CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
		CHECK_EQ(engine_flush(&c, f), 0);
		for (uint64_t d = 1; i == 3 && hurt == 0 && d < 80; d += 10)
			hurt = blocks_on(&jf, d, NULL) > 0 ? d : 0;
		if (i == 3) {
			CHECK(hurt != 0);
			const struct context *before = rt_context_enter(NULL);
			CHECK_EQ(meta_client_want_disk(&jf.root, hurt, CLUSTER_GONE), 0);
			rt_context_leave(before);
			CHECK_EQ(rt_sleep_ns(3 * NS_PER_S), 0);
			CHECK_EQ(janitor_repair(j, true), 0);
			/* Repair leaves the open block to its writer. */
			CHECK(stats_of(j).open_blocks > 0);
			CHECK_EQ(stats_of(j).chunks_repaired, 0);
		} else {
			CHECK_EQ(janitor_repair(j, true), 0);
		}
	}
	CHECK_EQ(engine_file_close(&c, f), 0);
	rt_background();
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&jf, hurt, NULL), 0);
	CHECK(check_whole(&jf) > 0);
	CHECK_EQ(read_text(&jf, "/log", 5, 12 * sizeof(bytes)), 0);
	CHECK_EQ(stats_of(j).failed + stats_of(j).lost_blocks, 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_delete_spares_the_chunk_of_a_newer_put),
		cmocka_unit_test(the_record_refuses_a_move_whose_chunk_was_swept),
		cmocka_unit_test(two_janitors_at_once_repair_each_chunk_once),
		cmocka_unit_test(a_lease_that_expires_in_the_middle_of_a_repair_does_no_harm),
		cmocka_unit_test(a_cancelled_janitor_drops_its_leases),
		cmocka_unit_test(services_go_on_when_nodes_stop_during_a_request),
		cmocka_unit_test(a_second_failure_during_a_repair_is_repaired_too),
		cmocka_unit_test(a_damaged_source_is_left_out_and_repaired),
		cmocka_unit_test(a_block_deleted_while_it_is_repaired_leaves_nothing),
		cmocka_unit_test(
			a_disk_that_comes_back_during_its_repair_keeps_the_chunks_not_yet_rebuilt),
		cmocka_unit_test(
			a_rack_that_flaps_costs_nothing_within_the_delay_and_no_byte_around_it),
		cmocka_unit_test(with_full_disks_a_block_stays_as_it_is_until_there_is_room),
		cmocka_unit_test(a_block_that_a_writer_still_appends_to_is_repaired_when_it_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
