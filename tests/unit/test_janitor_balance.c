// SPDX-License-Identifier: Apache-2.0
/* Rebalancing, and the counts of a survey. */
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

#define FILES 12

static void write_files(struct janitor_fixture *jf, const char *encoding)
{
	for (unsigned i = 0; i < FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%u", i);
		CHECK_EQ(write_text(jf, path, i, 1 * MIB, encoding), 0);
	}
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
}

static void read_files(struct janitor_fixture *jf)
{
	for (unsigned i = 0; i < FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%u", i);
		CHECK_EQ(read_text(jf, path, i, 1 * MIB), 0);
	}
}

static void want(struct janitor_fixture *jf, uint64_t disk, enum cluster_state state)
{
	CHECK_EQ(meta_client_want_disk(&jf->root, disk, state), 0);
	fresh_map(jf);
}

/* --- a watch over every chunk ------------------------------------------------------------------ */

struct watch {
	struct janitor_fixture *jf;
	bool stop;
	size_t rounds;
};

static int stat_chunk(struct janitor_fixture *jf, uint64_t disk, struct chunk_id id)
{
	struct call c;
	call_init(&c, engine_fabric(jf->engine));
	struct disk_use u;
	struct chunk_stat st;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 10 * NS_PER_S;
	int rc = node_stat_one(&u.node, disk, id, &st);
	disk_end(&c, &u, rc, 0);
	CHECK(rc < 0 || st.sealed);
	return rc;
}

/* Checks that a chunk is where its record says, unless the record has changed since. */
static void look_at(struct watch *w, const struct meta_block *b)
{
	for (uint32_t i = 0; i < b->chunk_count; i++) {
		uint64_t disk = b->chunks[i].disk;
		int rc = stat_chunk(w->jf, disk, (struct chunk_id){b->chunk_block, i});
		if (rc == 0)
			continue;
		CHECK_EQ(rc, -ENOENT);
		struct arena a;
		arena_init(&a, MIB);
		struct meta_block now = block_get(w->jf, b->id, &a);
		CHECK(now.chunks[i].disk != disk);
		CHECK_EQ(
			stat_chunk(w->jf, now.chunks[i].disk, (struct chunk_id){b->chunk_block, i}),
			0);
		arena_fini(&a);
	}
}

static void watch_fiber(void *arg)
{
	struct watch *w = arg;
	rt_background();
	for (; !w->stop; w->rounds++) {
		for (struct meta_walk at = {.end = 1 << META_PARTITION_BITS}; at.index < at.end;) {
			struct meta_block_at found[16];
			struct arena a;
			arena_init(&a, 4 * MIB);
			int64_t n = meta_client_blocks(&w->jf->root, &at, &a, found, 16);
			CHECK(n >= 0);
			for (int64_t i = 0; i < n; i++)
				look_at(w, &found[i].block);
			arena_fini(&a);
		}
	}
}

/* --- new disks --------------------------------------------------------------------------------- */

CLIENT_TEST(a_new_disk_fills_up_and_every_chunk_stays_readable, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	want(&jf, 81, CLUSTER_DRAINING);
	write_files(&jf, "rs:3+2");
	CHECK_EQ(blocks_on(&jf, 81, NULL), 0);
	size_t blocks = check_whole(&jf), chunks = chunks_everywhere(&jf);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	/* As long as the map does not change, chunks move only off disks that are far too full. */
	CHECK_EQ(janitor_survey(j), 0);
	want(&jf, 81, CLUSTER_ONLINE);
	struct watch w = {.jf = &jf};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "watch", watch_fiber, &w), 0);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(janitor_survey(j), 0);
	w.stop = true;
	rt_join(fiber);
	CHECK(w.rounds > 0);
	size_t on = blocks_on(&jf, 81, NULL);
	CHECK(on > chunks / 9 / 2 && on <= chunks / 9 + chunks / 18);
	CHECK(stats_of(j).chunks_balanced >= on);
	CHECK_EQ(check_whole(&jf), blocks);
	CHECK_EQ(chunks_everywhere(&jf), chunks); /* the old chunks were deleted */
	read_files(&jf);
	/* Further surveys move nothing. */
	uint64_t moved;
	unsigned rounds = 0;
	do {
		moved = stats_of(j).chunks_balanced;
		CHECK_EQ(janitor_survey(j), 0);
	} while (stats_of(j).chunks_balanced != moved && ++rounds < 10);
	CHECK(rounds < 10);
	/* The saved counts include the last moves. */
	struct stats s;
	struct stats_balance even;
	struct cluster *map;
	stats_init(&s);
	CHECK_EQ(stats_load(&jf.root, &s), 0);
	CHECK_EQ(meta_client_map(&jf.root, 0, &map), 0);
	map_for_each(&s.held, it)
		CHECK_EQ(((const struct stats_disk *)it.value)->chunks,
			 blocks_on(&jf, it.key, NULL));
	CHECK_EQ(meta_client_map(&jf.root, 0, &map), 0);
	stats_balance(&s, map, CLUSTER_MEDIA_DISK, &even);
	CHECK(even.most < 1.35 * even.mean && even.least > 0.65 * even.mean);
	stats_fini(&s);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* Two disks on each node: a chunk may go to the other disk of its node, but not to a node with
 * another chunk of its block. */
CLIENT_TEST(moved_chunks_stay_in_racks_of_their_own, 5, 2)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	for (uint64_t disk = 2; disk < 50; disk += 10)
		CHECK_EQ(meta_client_want_disk(&jf.root, disk, CLUSTER_DRAINING), 0);
	fresh_map(&jf);
	write_files(&jf, "rs:3+2");
	for (uint64_t disk = 2; disk < 50; disk += 10)
		CHECK_EQ(meta_client_want_disk(&jf.root, disk, CLUSTER_ONLINE), 0);
	fresh_map(&jf);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(janitor_survey(j), 0);
	CHECK(blocks_on(&jf, 2, NULL) > 0 && blocks_on(&jf, 42, NULL) > 0);
	struct stats s;
	stats_init(&s);
	CHECK_EQ(stats_load(&jf.root, &s), 0);
	CHECK_EQ(s.crowded, 0);
	CHECK_EQ(s.missing_chunks + s.damaged_chunks, 0);
	stats_fini(&s);
	(void)check_whole(&jf);
	read_files(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static uint64_t crowded(struct janitor_fixture *jf)
{
	struct stats s;
	stats_init(&s);
	CHECK_EQ(stats_load(&jf->root, &s), 0);
	uint64_t n = s.crowded;
	stats_fini(&s);
	return n;
}

/* Blocks of five chunks begin with four racks; then two racks are added. */
CLIENT_TEST(chunks_that_share_a_rack_are_spread_when_racks_are_added, 6, 2)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	static const uint64_t away[] = {41, 42, 51, 52};
	for (size_t i = 0; i < ARRAY_LEN(away); i++)
		want(&jf, away[i], CLUSTER_DRAINING);
	write_files(&jf, "rs:3+2");
	for (size_t i = 0; i < ARRAY_LEN(away); i++)
		want(&jf, away[i], CLUSTER_ONLINE);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK(stats_of(j).chunks_balanced > 0);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(crowded(&jf), 0);
	(void)check_whole(&jf);
	read_files(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* The only block has chunks on three of four disks: no move could make the fills more even. */
CLIENT_TEST(a_block_that_cannot_be_spread_evenly_does_not_move, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 60000, "rs:2+1"), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).chunks_balanced, 0);
	CHECK_EQ(check_whole(&jf), 1);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void survey_fiber(void *arg)
{
	struct round *r = arg;
	rt_background();
	r->rc = janitor_survey(r->j);
	if (r->rc == 0)
		r->rc = janitor_survey(r->j);
	r->done = true;
}

/* Files are deleted and a disk with moved chunks is lost during slow moves. */
CLIENT_TEST(deletions_and_a_lost_disk_during_moves_do_no_harm, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	want(&jf, 81, CLUSTER_DRAINING);
	write_files(&jf, "rs:3+2");
	want(&jf, 81, CLUSTER_ONLINE);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 500000;
	struct round r[2] = {{.j = hire(&o)}, {.j = hire(&o)}};
	struct rt_fiber *fibers[2];
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rt_spawn(&fibers[i], "janitor", survey_fiber, &r[i]), 0);
	while (blocks_on(&jf, 81, NULL) < 5)
		CHECK_EQ(rt_sleep_ns(50 * NS_PER_MS), 0);
	struct janitor_options fast = quick();
	struct janitor *other = hire(&fast);
	CHECK_EQ(remove_path(&jf, "/f0"), 0);
	lose_disk(&jf, 31);
	CHECK_EQ(janitor_repair(other, true), 0);
	collect_for(other, 12 * GRACE_NS);
	for (int i = 0; i < 2; i++) {
		rt_join(fibers[i]);
		CHECK_EQ(r[i].rc, 0);
	}
	CHECK_EQ(janitor_repair(other, true), 0);
	(void)check_whole(&jf);
	for (unsigned i = 1; i < FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%u", i);
		CHECK_EQ(read_text(&jf, path, i, 1 * MIB), 0);
	}
	/* The disks hold only chunks that records name. */
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(janitor_orphans(other), 0);
		collect_for(other, 3 * GRACE_NS);
	}
	CHECK_EQ(janitor_orphans(other), 0);
	size_t named = 0;
	struct chunk_id ids[512];
	for (unsigned i = 0; i < fx->node_count; i++)
		if (i != 3) {
			CHECK_EQ(chunks_on(&jf, 10 * i + 1, ids, ARRAY_LEN(ids)),
				 blocks_on(&jf, 10 * i + 1, NULL));
			named += blocks_on(&jf, 10 * i + 1, NULL);
		}
	CHECK_EQ(named, check_whole(&jf) * 5);
	for (int i = 0; i < 2; i++)
		janitor_close(r[i].j);
	janitor_close(other);
	janitor_fixture_close(&jf);
}

/* --- counting ---------------------------------------------------------------------------------- */

CLIENT_TEST(blocks_bytes_and_copysets_are_counted_as_they_are, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	struct stats s;
	stats_init(&s);
	CHECK_EQ(stats_load(&jf.root, &s), 0);
	CHECK(s.taken_ns == 0 && s.parts == 0);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_load(&jf.root, &s), 0);
	CHECK_EQ(s.blocks, check_whole(&jf));
	CHECK_EQ(s.bytes, FIXTURE_FILES * TEXT_BYTES);
	CHECK_EQ(s.owned, FIXTURE_FILES * TEXT_BYTES);
	CHECK(s.stored > s.bytes);
	CHECK(stats_copysets(&s) > 1 && stats_copysets(&s) < (double)s.blocks * 1.2);
	uint64_t chunks = 0;
	map_for_each(&s.held, it) {
		const struct stats_disk *d = it.value;
		CHECK_EQ(d->chunks, blocks_on(&jf, it.key, NULL));
		chunks += d->chunks;
	}
	CHECK_EQ(chunks, chunks_everywhere(&jf));
	stats_fini(&s);
	/* Deleted blocks are not counted. */
	CHECK_EQ(remove_path(&jf, "/f0"), 0);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(janitor_survey(j), 0);
	stats_init(&s);
	CHECK_EQ(stats_load(&jf.root, &s), 0);
	CHECK_EQ(s.bytes, (FIXTURE_FILES - 1) * TEXT_BYTES);
	stats_fini(&s);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void sketch_counts_sets(void **state)
{
	(void)state;
	struct stats s;
	struct cluster c;
	cluster_init(&c);
	stats_init(&s);
	struct meta_chunk chunks[3];
	struct meta_block_at b = {.tenant = 1,
				  .block = {.state = META_BLOCK_SEALED,
					    .length = 1,
					    .chunk_length = 1,
					    .chunk_count = 3,
					    .chunks = chunks}};
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t set = i % 5000;
		/* The order of the disks does not matter. */
		for (uint64_t k = 0; k < 3; k++)
			chunks[k] = (struct meta_chunk){.disk = set * 3 + (k + i) % 3 + 1};
		assert_int_equal(stats_block(&s, &c, 3, &b), 0);
	}
	assert_true(stats_copysets(&s) > 4500 && stats_copysets(&s) < 5500);
	stats_fini(&s);
	cluster_fini(&c);
}

/* The counts have more disks than fit into a note; then the deadline of the save has passed. */
CLIENT_TEST(counts_that_cannot_be_saved_do_no_harm, 1, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct stats s;
	struct cluster c;
	cluster_init(&c);
	stats_init(&s);
	struct meta_chunk chunk;
	struct meta_block_at at = {.tenant = 1,
				   .block = {.state = META_BLOCK_SEALED,
					     .length = 1,
					     .chunk_length = 1,
					     .chunk_count = 1,
					     .chunks = &chunk}};
	for (uint64_t i = 1; i <= 2000; i++) {
		chunk = (struct meta_chunk){.disk = i};
		CHECK_EQ(stats_block(&s, &c, 1, &at), 0);
	}
	CHECK_EQ(map_count(&s.held), 2000);
	rt_deadline_set(rt_now_ns());
	CHECK(stats_save(&jf.root, 3, &s) < 0);
	rt_background();
	CHECK_EQ(stats_save(&jf.root, 3, &s), 0);
	stats_fini(&s);
	cluster_fini(&c);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_disk_fills_up_and_every_chunk_stays_readable),
		cmocka_unit_test(moved_chunks_stay_in_racks_of_their_own),
		cmocka_unit_test(chunks_that_share_a_rack_are_spread_when_racks_are_added),
		cmocka_unit_test(a_block_that_cannot_be_spread_evenly_does_not_move),
		cmocka_unit_test(deletions_and_a_lost_disk_during_moves_do_no_harm),
		cmocka_unit_test(blocks_bytes_and_copysets_are_counted_as_they_are),
		cmocka_unit_test(sketch_counts_sets),
		cmocka_unit_test(counts_that_cannot_be_saved_do_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
