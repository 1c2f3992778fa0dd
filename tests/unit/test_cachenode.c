// SPDX-License-Identifier: Apache-2.0
/* Tests of cache nodes and of the client's tier, in a simulated cluster: the processes, the network and the flash are those
 * of the simulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "cachenode_fixture.h"
#include "rt/sync.h"

/* --- tests ---------------------------------------------------------------------------------------- */

CLIENT_TEST(a_second_job_is_served_without_the_disks, 4, 1)
{
	const uint64_t len = 8 * BLOCK + 1000;
	start_cachers(fx, 1, &(struct cacher){0});
	struct engine *e = open_engine(fx, &plain);
	write_file(e, "/a", 1, len, 0);
	CHECK(read_same(e, "/a", 1, 0, len));
	struct cache_engine_stats first = stats_of(0);
	CHECK_EQ(first.fetched_bytes, len);
	CHECK_EQ(first.hits, 0);
	/* The client got all bytes from the cache node: it asked no disk. */
	CHECK_EQ(client_stats(e).cache_bytes, len);
	CHECK_EQ(client_stats(e).chunk_reads, 0);
	CHECK(read_same(e, "/a", 1, 0, len));
	CHECK(read_same(e, "/a", 1, 12345, 3 * BLOCK));
	struct cache_engine_stats second = stats_of(0);
	CHECK_EQ(second.fetched_bytes, len);
	CHECK(second.hits > 0);
	CHECK_EQ(second.get_bytes, first.get_bytes + len + 3 * BLOCK);
	CHECK_EQ(client_stats(e).chunk_reads, 0);
	engine_close(e);
}

struct asker {
	struct engine *e;
	bool same;
};

static void ask(void *arg)
{
	struct asker *a = arg;
	a->same = read_same(a->e, "/a", 1, 0, 4 * BLOCK);
}

CLIENT_TEST(many_askers_cause_one_fetch, 4, 1)
{
	struct asker askers[12];
	struct rt_group g;
	start_cachers(fx, 1, &(struct cacher){0});
	struct engine *e = open_engine(fx, &plain);
	write_file(e, "/a", 1, 4 * BLOCK, 0);
	rt_group_init(&g);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
		askers[i] = (struct asker){.e = e};
		CHECK_EQ(rt_group_spawn(&g, "asker", ask, &askers[i]), 0);
	}
	rt_group_join(&g);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++)
		CHECK(askers[i].same);
	CHECK_EQ(stats_of(0).fetched_bytes, 4 * BLOCK);
	CHECK_EQ(client_stats(e).chunk_reads, 0);
	engine_close(e);
}

CLIENT_TEST(a_fetch_that_takes_longer_than_the_timeout_is_waited_for, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){0});
	/* A round trip and a read of a disk take longer than this timeout. */
	struct cache_tier_options o = {.timeout_ns = 4 * NS_PER_MS, .map_age_ns = NS_PER_S};
	struct engine *e = open_engine(fx, &o);
	write_file(e, "/a", 1, 16 * BLOCK, 0);
	CHECK(read_same(e, "/a", 1, 0, 16 * BLOCK));
	CHECK(read_same(e, "/a", 1, 0, 16 * BLOCK));
	engine_close(e);
}

CLIENT_TEST(a_dead_cache_node_costs_one_timeout_and_is_skipped, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){0});
	struct cache_tier_options o = plain;
	o.pause_ns = 600 * NS_PER_S;
	o.map_age_ns = 3600 * NS_PER_S;
	struct engine *e = open_engine(fx, &o), *bare = open_engine(fx, NULL);
	write_file(e, "/a", 1, 4 * BLOCK, 0);
	CHECK(read_same(e, "/a", 1, 0, 4 * BLOCK));
	uint64_t start_ns = rt_now_ns();
	CHECK(read_same(bare, "/a", 1, 0, 4 * BLOCK));
	uint64_t disks_ns = rt_now_ns() - start_ns;
	fixture_do(fx, cut_cacher, 0);
	start_ns = rt_now_ns();
	CHECK(read_same(e, "/a", 1, 0, 4 * BLOCK));
	uint64_t cut_ns = rt_now_ns() - start_ns;
	CHECK(cut_ns >= TIMEOUT_NS);
	CHECK(cut_ns < TIMEOUT_NS + 4 * disks_ns + 10 * NS_PER_MS);
	uint64_t failures = client_stats(e).cache_failures;
	CHECK(failures > 0);
	CHECK(read_same(e, "/a", 1, 0, 4 * BLOCK));
	CHECK_EQ(client_stats(e).cache_failures, failures);
	engine_close(bare);
	engine_close(e);
}

CLIENT_TEST(reads_are_right_when_cache_nodes_die_join_and_leave, 4, 1)
{
	const uint64_t len = 24 * BLOCK;
	start_cachers(fx, 2, &(struct cacher){0});
	struct engine *e = open_engine(fx, &plain);
	write_file(e, "/a", 1, len, 0);
	CHECK(read_same(e, "/a", 1, 0, len));
	CHECK(stats_of(0).fetched_bytes > 0 && stats_of(1).fetched_bytes > 0);
	CHECK_EQ(stats_of(0).fetched_bytes + stats_of(1).fetched_bytes, len);
	fixture_do(fx, stop_cacher, 0);
	CHECK(read_same(e, "/a", 1, 0, len));
	wait_for(0, false);
	/* The metadata sees that it is silent; the client learns that, and the other node gets its blocks. */
	uint64_t end_ns = rt_now_ns() + 600 * NS_PER_S;
	while (stats_of(1).fetched_bytes < len) {
		CHECK(rt_now_ns() < end_ns);
		CHECK(read_same(e, "/a", 1, 0, len));
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
	/* It comes back with what it had, and gets its blocks back. */
	fixture_do(fx, start_cacher, 0);
	end_ns = rt_now_ns() + 600 * NS_PER_S;
	while (stats_of(0).gets == 0) {
		CHECK(rt_now_ns() < end_ns);
		CHECK(read_same(e, "/a", 1, 0, len));
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
	uint64_t bytes = client_stats(e).cache_bytes;
	CHECK(read_same(e, "/a", 1, 0, len));
	CHECK_EQ(client_stats(e).cache_bytes, bytes + len);
	engine_close(e);
}

CLIENT_TEST(a_restarted_node_serves_what_it_had_on_flash, 4, 1)
{
	const uint64_t len = 40 * BLOCK;
	start_cachers(fx, 1, &(struct cacher){0});
	struct engine *e = open_engine(fx, &plain);
	write_file(e, "/a", 1, len, 0);
	CHECK(read_same(e, "/a", 1, 0, len));
	fixture_do(fx, crash_cacher, 0);
	wait_for(0, true);
	CHECK(stats_of(0).restored > 0);
	/* Until the pause of the client has ended. */
	CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	CHECK(read_same(e, "/a", 1, 0, len));
	CHECK(stats_of(0).flash_bytes > 0);
	CHECK(stats_of(0).fetched_bytes < len);
	engine_close(e);
}

/* Reads while cache nodes crash, with and without loss of power, and restart. */
CLIENT_TEST(reads_are_right_while_cache_nodes_crash, 4, 1)
{
	const uint64_t len = 24 * BLOCK;
	start_cachers(fx, 3, &(struct cacher){0});
	struct cache_tier_options o = {
		.timeout_ns = TIMEOUT_NS, .pause_ns = NS_PER_S, .map_age_ns = NS_PER_S};
	struct engine *e = open_engine(fx, &o);
	write_file(e, "/a", 1, len, 0);
	for (unsigned round = 0; round < 12; round++) {
		struct asker asker = {.e = e};
		struct rt_group g;
		rt_group_init(&g);
		CHECK_EQ(rt_group_spawn(&g, "asker", ask, &asker), 0);
		CHECK_EQ(rt_sleep_ns(round * NS_PER_MS / 2), 0);
		fixture_do(fx, crash_cacher, round % 3);
		rt_group_join(&g);
		CHECK(asker.same);
		CHECK(read_same(e, "/a", 1, 0, len));
		CHECK_EQ(rt_sleep_ns(2 * NS_PER_S), 0);
	}
	CHECK(client_stats(e).cache_bytes > 0);
	engine_close(e);
}

CLIENT_TEST(only_sealed_blocks_are_asked_for, 4, 1)
{
	struct terrane_options o = {.encoding = "r3"};
	struct call c;
	struct efile *f;
	uint8_t bytes[5000];
	struct iovec iov = {bytes, sizeof(bytes)};
	start_cachers(fx, 1, &(struct cacher){0});
	struct engine *e = open_engine(fx, &plain);
	fixture_fill(3, 0, bytes, sizeof(bytes));
	CHECK_EQ(engine_call(e, &c, &o), 0);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &o, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_flush(&c, f), 0);
	CHECK(read_same(e, "/log", 3, 0, sizeof(bytes)));
	CHECK_EQ(stats_of(0).gets, 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	engine_close(e);
}

/* Reads n ranges of /a with one call; counts those that `done` was called for. */
static void count_done(void *ctx, struct engine_range *r)
{
	CHECK_EQ(r->result, 10000);
	(*(size_t *)ctx)++;
}

static void read_batch(struct engine *e, size_t n)
{
	struct engine_range ranges[40] = {0};
	struct call c;
	size_t done = 0;
	CHECK(n <= ARRAY_LEN(ranges));
	for (size_t i = 0; i < n; i++)
		ranges[i] = (struct engine_range){
			.path = "/a", .offset = i * 150000, .len = 10000, .buf = malloc(10000)};
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_read_batch(&c, ranges, n, count_done, &done), 0);
	CHECK_EQ(done, n);
	for (size_t i = 0; i < n; i++) {
		CHECK_EQ(ranges[i].result, 10000);
		CHECK(fixture_same(1, i * 150000, ranges[i].buf, 10000));
		CHECK_EQ(ranges[i].crc, crc32c(0, ranges[i].buf, 10000));
		free(ranges[i].buf);
	}
}

CLIENT_TEST(ranges_of_a_batch_come_from_cache_nodes_and_the_rest_from_the_disks, 4, 1)
{
	start_cachers(fx, 2, &(struct cacher){0});
	struct cache_tier_options o = plain;
	o.pause_ns = 600 * NS_PER_S;
	o.map_age_ns = 3600 * NS_PER_S;
	struct engine *e = open_engine(fx, &o);
	write_file(e, "/a", 1, 24 * BLOCK, 0);
	read_batch(e, 40);
	uint64_t all = client_stats(e).cache_bytes;
	CHECK(all >= 40ull * 10000);
	CHECK_EQ(client_stats(e).chunk_reads, 0);
	/* Half of the blocks belong to a node that does not answer. */
	fixture_do(fx, cut_cacher, 1);
	read_batch(e, 40);
	uint64_t some = client_stats(e).cache_bytes - all;
	CHECK(some > 0 && some < 40ull * 10000);
	CHECK(client_stats(e).chunk_reads > 0);
	engine_close(e);
}

CLIENT_TEST(bytes_of_a_removed_file_never_come_back_under_its_name, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){0});
	struct engine *e = open_engine(fx, &plain);
	struct call c;
	for (uint64_t text = 1; text <= 4; text++) {
		write_file(e, "/a", text, 4 * BLOCK, 0);
		CHECK(read_same(e, "/a", text, 0, 4 * BLOCK));
		CHECK(read_same(e, "/a", text, 0, 4 * BLOCK));
		CHECK_EQ(engine_call(e, &c, NULL), 0);
		CHECK_EQ(engine_remove(&c, "/a"), 0);
	}
	CHECK(stats_of(0).hits > 0);
	engine_close(e);
}

CLIENT_TEST(reads_that_are_not_eligible_go_to_the_disks, 4, 1)
{
	const uint64_t other = 12345;
	const struct cache_tier_options refused[] = {
		{.classes = 1u << TRAFFIC_BRONZE},
		{.directories = &other, .directory_count = 1},
		{.block_bytes_min = 2 * BLOCK},
	};
	start_cachers(fx, 1, &(struct cacher){0});
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct engine *e = open_engine(fx, &refused[i]);
		if (i == 0)
			write_file(e, "/a", 1, 4 * BLOCK, 0);
		CHECK(read_same(e, "/a", 1, 0, 4 * BLOCK));
		CHECK_EQ(client_stats(e).cache_bytes, 0);
		CHECK_EQ(stats_of(0).gets, 0);
		engine_close(e);
	}
	struct cache_tier_options wide = {.classes = 1u << TRAFFIC_SILVER,
					  .block_bytes_min = BLOCK};
	struct engine *e = open_engine(fx, &wide);
	CHECK(read_same(e, "/a", 1, 0, 4 * BLOCK));
	CHECK_EQ(client_stats(e).cache_bytes, 4 * BLOCK);
	engine_close(e);
}

CLIENT_TEST(what_is_not_admitted_is_read_from_the_disks, 4, 1)
{
	/* Historic admits nothing that is read for the first time. */
	start_cachers(fx, 1, &(struct cacher){.policy = "historic", .min_threshold = 1.1});
	struct engine *e = open_engine(fx, &plain);
	write_file(e, "/a", 1, 8 * BLOCK, 0);
	CHECK(read_same(e, "/a", 1, 0, 8 * BLOCK));
	CHECK_EQ(client_stats(e).cache_bytes, 0);
	CHECK(client_stats(e).cache_misses > 0);
	CHECK_EQ(stats_of(0).fetched_bytes, 0);
	/* When it is read again and again, its bucket is admitted. */
	uint64_t end_ns = rt_now_ns() + 600 * NS_PER_S;
	while (client_stats(e).cache_bytes < 8 * BLOCK) {
		CHECK(rt_now_ns() < end_ns);
		CHECK(read_same(e, "/a", 1, 0, 8 * BLOCK));
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
	engine_close(e);
}

/* Returns the id of the first block of a file. */
static uint64_t first_block(struct engine *e, const char *path)
{
	struct call c;
	struct meta_opened opened;
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	struct meta_call m = call_meta(&c);
	CHECK_EQ(meta_client_open_path(&m, META_ROOT, meta_name(path + 1), 0, &a, &opened), 0);
	CHECK(opened.extent_count > 0);
	return opened.extents[0].block;
}

CLIENT_TEST(shadow_mode_finds_and_drops_wrong_bytes, 4, 1)
{
	struct engine *e = open_engine(fx, &plain);
	write_file(e, "/a", 1, BLOCK, 0);
	start_cachers(fx, 1, &(struct cacher){.shadow = 1, .poison = first_block(e, "/a")});
	engine_close(e);
	e = open_engine(fx, &plain);
	/* The sums of the cache fit the wrong bytes: only the comparison finds them. */
	CHECK(!read_same(e, "/a", 1, 0, BLOCK));
	uint64_t end_ns = rt_now_ns() + 60 * NS_PER_S;
	while (!read_same(e, "/a", 1, 0, BLOCK)) {
		CHECK(rt_now_ns() < end_ns);
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
	CHECK(read_same(e, "/a", 1, 0, BLOCK));
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LOOPS(a_second_job_is_served_without_the_disks),
		ON_LOOPS(many_askers_cause_one_fetch),
		cmocka_unit_test(a_fetch_that_takes_longer_than_the_timeout_is_waited_for),
		cmocka_unit_test(a_dead_cache_node_costs_one_timeout_and_is_skipped),
		ON_LOOPS(reads_are_right_when_cache_nodes_die_join_and_leave),
		ON_LOOPS(reads_are_right_while_cache_nodes_crash),
		cmocka_unit_test(a_restarted_node_serves_what_it_had_on_flash),
		cmocka_unit_test(only_sealed_blocks_are_asked_for),
		ON_LOOPS(ranges_of_a_batch_come_from_cache_nodes_and_the_rest_from_the_disks),
		cmocka_unit_test(bytes_of_a_removed_file_never_come_back_under_its_name),
		cmocka_unit_test(reads_that_are_not_eligible_go_to_the_disks),
		cmocka_unit_test(what_is_not_admitted_is_read_from_the_disks),
		cmocka_unit_test(shadow_mode_finds_and_drops_wrong_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
