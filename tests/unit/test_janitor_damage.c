// SPDX-License-Identifier: Apache-2.0
/* Chunks that are on their disks and have wrong contents, in a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "janitor/stats.h"
#include "janitor_fixture.h"
#include "meta/meta.h"
#include "node/label.h"

/* Five disks and blocks of five chunks: no other disk can take a chunk. */
CLIENT_TEST(a_damaged_chunk_is_rebuilt_in_place_when_no_other_disk_takes_it, 5, 1)
{
	const uint64_t len = 256 * KIB; /* the blocks are full, so every chunk has a byte 100 */
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, len, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t blocks = check_whole(&jf), rotten = 0;
	struct chunk_id ids[64];
	for (uint64_t disk = 1; disk <= 11; disk += 10) {
		CHECK_EQ(chunks_on(&jf, disk, ids, ARRAY_LEN(ids)), blocks);
		fixture_flip(fx, disk, ids[rotten], 100);
		rotten++;
	}
	/* One chunk is missing. */
	CHECK_EQ(chunks_on(&jf, 21, ids, ARRAY_LEN(ids)), blocks);
	chunk_drop(&jf, 21, ids[0]);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, rotten + 1);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, rotten + 1);
	CHECK_EQ(stats_of(j).no_room + stats_of(j).failed, 0);
	CHECK_EQ(check_whole(&jf), blocks);
	CHECK_EQ(chunks_everywhere(&jf), 5 * blocks);
	CHECK_EQ(read_text(&jf, "/f", 3, len), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * Five racks with two disks each: if the chunk moves to the other disk of its rack, the block is
 * spread over as many racks as before.
 */
CLIENT_TEST(a_repaired_block_is_spread_as_far_as_before, 5, 2)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct meta_on_disk on;
	struct arena a;
	arena_init(&a, MIB);
	CHECK(blocks_on(&jf, 21, &on) > 0);
	struct meta_block before = block_get(&jf, on.block, &a);
	chunk_drop(&jf, 21, (struct chunk_id){before.chunk_block, on.index});
	/* The chunk is in a rack without another online disk. */
	uint32_t other = on.index == 0 ? 1 : 0;
	uint64_t lonely = before.chunks[other].disk;
	CHECK_EQ(meta_client_want_disk(&jf.root, lonely % 10 == 1 ? lonely + 1 : lonely - 1,
				       CLUSTER_GONE),
		 0);
	fresh_map(&jf);
	chunk_drop(&jf, lonely, (struct chunk_id){before.chunk_block, other});
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 2);
	CHECK_EQ(janitor_repair(j, true), 0);
	struct meta_block after = block_get(&jf, on.block, &a);
	CHECK_EQ(after.chunks[other].disk, lonely);
	for (size_t i = 0; i < after.chunk_count; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(after.chunks[i].disk / 10 != after.chunks[k].disk / 10);
	(void)check_whole(&jf);
	arena_fini(&a);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* Six disks, blocks of five chunks: a lost chunk goes to the sixth disk, where an earlier repair
 * left a chunk of that name, with a valid header and damaged bytes. */
CLIENT_TEST(a_chunk_that_is_found_on_the_target_is_replaced, 6, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct meta_on_disk on;
	struct arena a;
	arena_init(&a, MIB);
	CHECK(blocks_on(&jf, 21, &on) > 0);
	struct meta_block k = block_get(&jf, on.block, &a);
	uint64_t sixth = 0;
	for (uint64_t disk = 1; disk < 60; disk += 10) {
		bool held = false;
		for (size_t i = 0; i < k.chunk_count; i++)
			held = held || k.chunks[i].disk == disk;
		sixth = held ? sixth : disk;
	}
	struct chunk_id id = {k.chunk_block, on.index};
	chunk_copy(&jf, 21, sixth, id, 0);
	fixture_flip(fx, sixth, id, 100);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	CHECK_EQ(block_get(&jf, on.block, &a).chunks[on.index].disk, sixth);
	(void)check_whole(&jf);
	CHECK_EQ(read_text(&jf, "/f", 3, TEXT_BYTES), 0);
	CHECK_EQ(stats_of(j).failed, 0);
	arena_fini(&a);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * A pool has a column that is valid by its own checksums and has other bytes than the record
 * describes.
 */
static void column_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, TEXT_BYTES, "mlec:2+1/2+1"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct meta_on_disk on;
	struct arena a;
	arena_init(&a, MIB);
	CHECK(blocks_on(&jf, 11, &on) > 0);
	struct meta_block k = block_get(&jf, on.block, &a);
	struct chunk_id id = {k.chunk_block, on.index};
	chunk_copy(&jf, 11, 11, id, 17);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 1);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 1);
	(void)check_whole(&jf);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 1);
	CHECK_EQ(read_text(&jf, "/f", 3, TEXT_BYTES), 0);
	arena_fini(&a);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void a_valid_but_wrong_column_is_replaced_on_its_pool(void **state)
{
	(void)state;
	fixture_run_pools(3, column_body);
}

/*
 * A chunk is valid by its own checksums and does not match the record: it has other bytes, is
 * shorter, is still open, or is of another block.
 */
CLIENT_TEST(scrub_finds_a_valid_chunk_that_is_not_what_was_written, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	size_t stale = 0;
	struct chunk_id ids[64];
	for (uint64_t disk = 1; disk <= 31; disk += 10) {
		CHECK(chunks_on(&jf, disk, ids, ARRAY_LEN(ids)) > 3);
		chunk_copy(&jf, disk, disk, ids[stale % 3], 17 + stale);
		stale++;
	}
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, stale);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, stale);
	(void)check_whole(&jf);
	read_all(&jf);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, stale);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static uint64_t share_of(const struct meta_on_disk *on)
{
	uint64_t all =
		schema_partition(META_PARTITION_BITS, META_LAYER_BLOCK, on->tenant, on->block, 0) -
		schema_partition_at(META_LAYER_BLOCK, 0);
	return all * 16 >> META_PARTITION_BITS;
}

/* Two shares have an unreadable record: all blocks but these two are repaired. */
static void one_share_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 4 * MIB, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct meta_on_disk on[64] = {0}, spoilt[2] = {0};
	size_t n = 0;
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		int64_t got = meta_client_disk_blocks(&jf.root, 21, &w, on + n, ARRAY_LEN(on) - n);
		CHECK(got >= 0 && (n += (size_t)got) < ARRAY_LEN(on));
	}
	spoilt[0] = on[n / 4];
	spoilt[1] = on[n * 3 / 4];
	CHECK(n > 8 && share_of(&spoilt[0]) != share_of(&spoilt[1]));
	block_spoil(&jf, &spoilt[0]);
	block_spoil(&jf, &spoilt[1]);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), -EBADMSG);
	CHECK_EQ(blocks_on(&jf, 21, NULL), ARRAY_LEN(spoilt));
	CHECK_EQ(stats_of(j).chunks_repaired, n - ARRAY_LEN(spoilt));
	/* The survey counts all readable records. */
	CHECK_EQ(janitor_survey(j), 0);
	struct stats sum;
	stats_init(&sum);
	CHECK_EQ(stats_load(&jf.root, &sum), 0);
	CHECK_EQ(sum.parts, 16);
	stats_fini(&sum);
	/* The same test with an unreadable row of the reverse index in place of a record. */
	struct meta_on_disk listed;
	CHECK(blocks_on(&jf, 41, &listed) > 0);
	record_spoil(&jf,
		     schema_partition(META_PARTITION_BITS, META_LAYER_BLOCK, listed.tenant,
				      listed.block, 0),
		     key_disk(41, listed.tenant, listed.block));
	lose_disk(&jf, 41);
	CHECK_EQ(janitor_repair(j, false), -EBADMSG);
	CHECK(stats_of(j).chunks_repaired > n - ARRAY_LEN(spoilt));
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void repair_goes_on_after_an_unreadable_record(void **state)
{
	(void)state;
	fixture_run_faulty(7, one_share_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repair_goes_on_after_an_unreadable_record),
		cmocka_unit_test(a_damaged_chunk_is_rebuilt_in_place_when_no_other_disk_takes_it),
		cmocka_unit_test(a_repaired_block_is_spread_as_far_as_before),
		cmocka_unit_test(a_chunk_that_is_found_on_the_target_is_replaced),
		cmocka_unit_test(a_valid_but_wrong_column_is_replaced_on_its_pool),
		cmocka_unit_test(scrub_finds_a_valid_chunk_that_is_not_what_was_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
