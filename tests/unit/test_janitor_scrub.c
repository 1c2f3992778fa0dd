// SPDX-License-Identifier: Apache-2.0
/* Scrubbing against a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/crc.h"
#include "client/fsck.h"
#include "janitor_fixture.h"
#include "meta_api/note.h"
#include "node/label.h"

struct scrubbing {
	struct janitor *j;
	uint64_t pass_ns;
};

static void scrub_fiber(void *arg)
{
	struct scrubbing *k = arg;
	rt_background();
	while (janitor_scrub(k->j, k->pass_ns) == 0 && rt_sleep_ns(NS_PER_S) == 0)
		;
}

CLIENT_TEST(scrub_finds_a_damaged_chunk_and_it_is_repaired, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 0);
	CHECK_EQ(stats_of(j).scrubbed_chunks, chunks_everywhere(&jf));
	struct chunk_id ids[256];
	size_t rotten = 0;
	for (uint64_t disk = 1; disk <= 11; disk += 10) {
		CHECK(chunks_on(&jf, disk, ids, ARRAY_LEN(ids)) > 0);
		fixture_flip(fx, disk, ids[0], 7);
		rotten++;
	}
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, rotten);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, rotten);
	(void)check_whole(&jf);
	read_all(&jf);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, rotten);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * A chunk that an earlier layout left behind is damaged. It is on a disk that now has another chunk
 * with the same index.
 */
CLIENT_TEST(damage_in_an_old_layout_is_not_reported_for_the_new_one, 6, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct meta_on_disk on;
	CHECK(blocks_on(&jf, 21, &on) > 0);
	struct chunk_id old = {on.block ^ 1, on.index};
	struct slice data = {.len = 5000};
	CHECK_EQ(rt_pool_get(&jf.pool, data.len, &data.buf), 0);
	memset(data.buf->data, 7, data.len);
	data.crc = crc32c(0, data.buf->data, data.len);
	struct node_put put = {.data = data, .epoch = 1};
	label_make(put.label, on.tenant, on.block, 1);
	struct call c;
	struct disk_use u;
	call_init(&c, engine_fabric(jf.engine));
	CHECK_EQ(disk_begin(&c, 21, &u), 0);
	u.node.timeout_ns = 10 * NS_PER_S;
	CHECK_EQ(node_put(&u.node, 21, old, &put), 0);
	disk_end(&c, &u, 0, 0);
	buf_unref(data.buf);
	fixture_flip(fx, 21, old, 7);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	struct arena a;
	arena_init(&a, MIB);
	struct meta_block k = block_get(&jf, on.block, &a);
	CHECK(k.chunks[on.index].disk == 21 && !k.chunks[on.index].damaged);
	arena_fini(&a);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* The saved position was written by a janitor whose clock was a year ahead. */
CLIENT_TEST(a_clock_that_was_ahead_does_not_delay_scrub, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct chunk_id ids[256];
	CHECK(chunks_on(&jf, 1, ids, ARRAY_LEN(ids)) > 0);
	fixture_flip(fx, 1, ids[0], 7);
	char text[64];
	snprintf(text, sizeof(text), "{\"since_ns\": 1, \"done_ns\": %lu}",
		 rt_wall_ns() + (uint64_t)(365 * 86400ULL * NS_PER_S));
	struct meta_note note = {.name = "scrub/0000000000000001", .text = text};
	CHECK_EQ(meta_client_note_put(&jf.root, &note), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 86400 * NS_PER_S), 0);
	CHECK_EQ(stats_of(j).damage_found, 1);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* Several janitors, one after the other, slowly verify a file of many chunks on one disk. */
CLIENT_TEST(scrub_continues_where_the_last_janitor_stopped, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 6 * MIB, "r2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t all = chunks_everywhere(&jf);
	struct janitor_options o = quick();
	o.lease_ns = 5 * NS_PER_S;
	/*
	 * The rate is that of a disk of 1 GiB, the least size that counts: a chunk of 64 KiB per
	 * second.
	 */
	uint64_t pass_ns = 32768 * NS_PER_S;
	size_t seen = 0, most = 0, passes = 0;
	unsigned lives = 0;
	struct janitor_stats s = {0};
	/* At first a janitor waits for the leases of the previous one. */
	for (; lives < 50 && seen < all; lives++) {
		struct scrubbing k = {.j = hire(&o), .pass_ns = pass_ns};
		struct rt_fiber *fiber;
		CHECK_EQ(rt_spawn(&fiber, "scrub", scrub_fiber, &k), 0);
		CHECK_EQ(rt_sleep_ns(25 * NS_PER_S), 0);
		s = stats_of(k.j);
		seen += s.scrubbed_chunks;
		passes += s.scrub_passes;
		most = s.scrubbed_chunks > most ? s.scrubbed_chunks : most;
		rt_cancel(fiber);
		rt_join(fiber);
		janitor_close(k.j);
	}
	/*
	 * Together the janitors verified everything. For each janitor that stopped before it saved
	 * its position, at most a page of each disk was verified twice.
	 */
	CHECK(most < all * 2 / 3);
	CHECK(lives > 2);
	CHECK(seen < all + all / 2);
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, pass_ns), 0);
	CHECK_EQ(rt_sleep_ns(25 * NS_PER_S), 0);
	CHECK_EQ(janitor_scrub(j, pass_ns), 0);
	s = stats_of(j);
	CHECK(s.scrubbed_chunks < all / 2);
	CHECK_EQ(passes + s.scrub_passes, fx->node_count);
	/* No pass is due, and the reported age is the time since the last passes began. */
	CHECK_EQ(janitor_scrub(j, pass_ns), 0);
	CHECK_EQ(stats_of(j).scrubbed_chunks, s.scrubbed_chunks);
	CHECK(stats_of(j).scrub_oldest_ns >= 45 * NS_PER_S);
	janitor_close(j);
	/* The same holds for a janitor that has just started. */
	j = hire(&o);
	CHECK_EQ(janitor_scrub(j, pass_ns), 0);
	CHECK_EQ(stats_of(j).scrubbed_chunks, 0);
	CHECK(stats_of(j).scrub_oldest_ns >= 45 * NS_PER_S);
	/* With a shorter period the next pass is due, and the age becomes small. */
	CHECK_EQ(janitor_scrub(j, 20 * NS_PER_S), 0);
	CHECK_EQ(stats_of(j).scrubbed_chunks, all);
	CHECK(stats_of(j).scrub_oldest_ns < 20 * NS_PER_S);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(scrub_finds_a_missing_chunk_and_it_is_repaired, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	struct chunk_id ids[256];
	CHECK(chunks_on(&jf, 11, ids, ARRAY_LEN(ids)) > 0);
	chunk_drop(&jf, 11, ids[0]);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 1);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 1);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* A chunk of a pool all of whose rows have damaged heads, and a missing chunk. */
static void pool_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, 448 * KIB, "mlec:2+1/2+1"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct chunk_id ids[256];
	size_t n = chunks_on(&jf, 21, ids, ARRAY_LEN(ids));
	CHECK(n > 2);
	chunk_drop(&jf, 21, ids[n - 1]);
	/* After a restart the node has no headers in memory. */
	fixture_do(fx, fixture_kill_node, 21);
	fixture_ruin_rows(fx, 21, ids[0]);
	fixture_do(fx, fixture_start_node, 21);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).scrub_passes, fx->node_count);
	CHECK_EQ(stats_of(j).damage_found, 2);
	/* The unreadable chunk is rebuilt on another pool. */
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 2);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 2);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void scrub_reports_a_chunk_that_a_pool_cannot_read_and_goes_on(void **state)
{
	(void)state;
	fixture_run_pools(4, pool_body);
}

CLIENT_TEST(what_a_deep_check_finds_is_repaired, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct chunk_id ids[256];
	CHECK(chunks_on(&jf, 11, ids, ARRAY_LEN(ids)) > 0);
	fixture_flip(fx, 11, ids[0], 7);
	struct fsck_counts n = {0};
	struct fsck_options deep = {.deep = true};
	struct call c;
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_fsck(&c, "/", &deep, &n), 0);
	rt_background();
	CHECK(n.degraded == 1 && n.damaged == 1 && n.lost == 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 1);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(scrubbing_is_not_faster_than_repair_may_be, 2, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 1280 * KIB, "r2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 500000; /* repair may use 20%: 100 KB/s */
	struct janitor *j = hire(&o);
	uint64_t begin_ns = rt_now_ns();
	/* The period would need a much higher rate than repair may use. */
	CHECK_EQ(janitor_scrub(j, 2 * NS_PER_S), 0);
	CHECK_EQ(stats_of(j).scrubbed_bytes, 2560 * KIB);
	/* Two disks hold all chunks. The pause after the last chunk does not count. */
	CHECK(rt_now_ns() - begin_ns >= 1152 * KIB * NS_PER_S / 100000);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damage_in_an_old_layout_is_not_reported_for_the_new_one),
		cmocka_unit_test(scrub_finds_a_damaged_chunk_and_it_is_repaired),
		cmocka_unit_test(scrub_finds_a_missing_chunk_and_it_is_repaired),
		cmocka_unit_test(scrub_reports_a_chunk_that_a_pool_cannot_read_and_goes_on),
		cmocka_unit_test(what_a_deep_check_finds_is_repaired),
		cmocka_unit_test(scrubbing_is_not_faster_than_repair_may_be),
		cmocka_unit_test(a_clock_that_was_ahead_does_not_delay_scrub),
		cmocka_unit_test(scrub_continues_where_the_last_janitor_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
