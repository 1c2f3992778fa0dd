// SPDX-License-Identifier: Apache-2.0
/*
 * Counts the requests that a round of a janitor makes to the metadata service. Linked with --wrap
 * for the calls that read the reverse index and Block records; calls of the test's own client are
 * not counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "janitor/impl.h"
#include "janitor_fixture.h"
#include "meta/meta.h"
#include "meta_api/note.h"
#include "meta_api/wire.h"

#define IDS_MAX 1024

int64_t __real_meta_client_disk_blocks(struct meta_call *c, uint64_t disk, struct meta_walk *w,
				       struct meta_on_disk *out, size_t max);
int64_t __wrap_meta_client_disk_blocks(struct meta_call *c, uint64_t disk, struct meta_walk *w,
				       struct meta_on_disk *out, size_t max);
int64_t __real_meta_client_blocks(struct meta_call *c, struct meta_walk *w, struct arena *arena,
				  struct meta_block_at *out, size_t max);
int64_t __wrap_meta_client_blocks(struct meta_call *c, struct meta_walk *w, struct arena *arena,
				  struct meta_block_at *out, size_t max);
int __real_meta_client_block_get(struct meta_call *c, const uint64_t *blocks, size_t n,
				 struct arena *arena, struct meta_block *out);
int __wrap_meta_client_block_get(struct meta_call *c, const uint64_t *blocks, size_t n,
				 struct arena *arena, struct meta_block *out);

int __real_meta_client_open(struct meta_client **out, const struct meta_client_options *o);
int __wrap_meta_client_open(struct meta_client **out, const struct meta_client_options *o);
int __real_fabric_init(struct fabric *f, const struct fabric_options *o);
int __wrap_fabric_init(struct fabric *f, const struct fabric_options *o);

static struct {
	struct meta_client *own; /* the metadata client of the test itself, which is not counted */
	size_t index_requests, index_rows;
	size_t walk_requests;
	size_t get_requests;
	size_t clients;         /* number of metadata clients and fabrics that were opened */
	uint64_t read[IDS_MAX]; /* blocks whose records were read, by any of the calls */
	size_t read_count;
	/* called once, after the next read of block records; NULL: nothing is called */
	void (*after_get)(const struct meta_block *b, size_t n);
} seen;

static void count_from_now(struct janitor_fixture *jf)
{
	memset(&seen, 0, sizeof(seen));
	seen.own = jf->client;
}

static void note_read(uint64_t block)
{
	CHECK(seen.read_count < IDS_MAX);
	seen.read[seen.read_count++] = block;
}

static size_t times_read(uint64_t block)
{
	size_t n = 0;
	for (size_t i = 0; i < seen.read_count; i++)
		n += seen.read[i] == block;
	return n;
}

static void check_each_read_once(size_t blocks)
{
	CHECK_EQ(seen.read_count, blocks);
	for (size_t i = 0; i < seen.read_count; i++)
		CHECK_EQ(times_read(seen.read[i]), 1);
}

int64_t __wrap_meta_client_disk_blocks(struct meta_call *c, uint64_t disk, struct meta_walk *w,
				       struct meta_on_disk *out, size_t max)
{
	int64_t n = __real_meta_client_disk_blocks(c, disk, w, out, max);
	if (c->client != seen.own) {
		seen.index_requests++;
		seen.index_rows += n > 0 ? (size_t)n : 0;
	}
	return n;
}

int64_t __wrap_meta_client_blocks(struct meta_call *c, struct meta_walk *w, struct arena *arena,
				  struct meta_block_at *out, size_t max)
{
	int64_t n = __real_meta_client_blocks(c, w, arena, out, max);
	seen.walk_requests += c->client != seen.own;
	for (int64_t i = 0; c->client != seen.own && i < n; i++)
		note_read(out[i].block.id);
	return n;
}

int __wrap_meta_client_block_get(struct meta_call *c, const uint64_t *blocks, size_t n,
				 struct arena *arena, struct meta_block *out)
{
	int rc = __real_meta_client_block_get(c, blocks, n, arena, out);
	seen.get_requests += c->client != seen.own;
	for (size_t i = 0; c->client != seen.own && i < n; i++)
		note_read(blocks[i]);
	void (*after)(const struct meta_block *b, size_t count) = seen.after_get;
	if (rc == 0 && c->client != seen.own && after != NULL) {
		seen.after_get = NULL;
		after(out, n);
	}
	return rc;
}

int __wrap_meta_client_open(struct meta_client **out, const struct meta_client_options *o)
{
	seen.clients++;
	return __real_meta_client_open(out, o);
}

int __wrap_fabric_init(struct fabric *f, const struct fabric_options *o)
{
	seen.clients++;
	return __real_fabric_init(f, o);
}

/* --- counting by hand --------------------------------------------------------------------------- */

/* Returns the number of requests that read all rows of the disks once, share by share. */
static size_t requests_of_one_walk(struct janitor_fixture *jf, const uint64_t *disks, size_t n)
{
	size_t requests = 0;
	for (uint64_t share = 0; share < JANITOR_SHARES; share++) {
		for (size_t d = 0; d < n; d++) {
			struct meta_walk w = {
				.index = (share << META_PARTITION_BITS) / JANITOR_SHARES,
				.end = ((share + 1) << META_PARTITION_BITS) / JANITOR_SHARES};
			for (; w.index < w.end; requests++) {
				struct meta_on_disk on[64];
				CHECK(meta_client_disk_blocks(&jf->root, disks[d], &w, on,
							      ARRAY_LEN(on)) >= 0);
			}
		}
	}
	return requests;
}

/* Counts all blocks, and the blocks with a chunk on any of the disks. */
static size_t count_blocks(struct janitor_fixture *jf, const uint64_t *disks, size_t n, size_t *all)
{
	struct arena a;
	size_t hurt = 0;
	arena_init(&a, 64 * MIB);
	*all = 0;
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t got = meta_client_blocks(&jf->root, &w, &a, at, ARRAY_LEN(at));
		CHECK(got >= 0);
		for (int64_t i = 0; i < got; i++) {
			bool any = false;
			for (size_t k = 0; k < at[i].block.chunk_count; k++)
				for (size_t d = 0; d < n; d++)
					any = any || at[i].block.chunks[k].disk == disks[d];
			hurt += any;
			++*all;
		}
	}
	arena_fini(&a);
	return hurt;
}

/* --- repair ------------------------------------------------------------------------------------- */

static const uint64_t LOST[] = {21, 41};

static void lose_two(struct janitor_fixture *jf)
{
	CHECK_EQ(meta_client_want_disk(&jf->root, LOST[0], CLUSTER_GONE), 0);
	lose_disk(jf, LOST[1]);
}

CLIENT_TEST(a_round_reads_each_row_of_the_index_and_each_record_once, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 4 * MIB, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	/* a first round, in which the janitor notes the drives */
	CHECK_EQ(janitor_repair(j, false), 0);
	size_t all, hurt = count_blocks(&jf, LOST, 2, &all);
	size_t rows = blocks_on(&jf, LOST[0], NULL) + blocks_on(&jf, LOST[1], NULL);
	CHECK(hurt > 16 && hurt < rows && hurt < all);
	size_t once = requests_of_one_walk(&jf, LOST, 2);
	lose_two(&jf);
	count_from_now(&jf);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, rows);
	CHECK_EQ(seen.index_rows, rows);
	CHECK_EQ(seen.index_requests, once);
	CHECK(seen.get_requests <= JANITOR_SHARES);
	CHECK_EQ(seen.walk_requests, 0);
	check_each_read_once(hurt);
	/* No chunk is left on the disks. A round finds that out without reading a record. */
	count_from_now(&jf);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(seen.index_rows, 0);
	CHECK_EQ(seen.read_count, 0);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_round_that_looks_at_all_blocks_reads_no_record_twice, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 4 * MIB, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, false), 0);
	size_t all;
	size_t rows = blocks_on(&jf, LOST[0], NULL) + blocks_on(&jf, LOST[1], NULL);
	CHECK(count_blocks(&jf, LOST, 2, &all) > 16);
	size_t once = requests_of_one_walk(&jf, LOST, 2);
	lose_two(&jf);
	count_from_now(&jf);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, rows);
	CHECK_EQ(seen.index_requests, once);
	CHECK_EQ(seen.index_rows, rows);
	CHECK_EQ(seen.get_requests, 0);
	check_each_read_once(all);
	struct janitor_repair done[JANITOR_REPAIRS_MAX];
	CHECK_EQ(janitor_repairs(j, done), 2);
	CHECK(done[0].end_ns != 0 && done[1].end_ns != 0);
	CHECK_EQ(done[0].total + done[1].total, rows);
	CHECK_EQ(done[0].done + done[1].done, rows);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* --- records that change -------------------------------------------------------------------------- */

static struct janitor_fixture *fixture_of_hook;
static uint64_t changed; /* id of the block whose record was changed */

static bool has_chunk_on(const struct meta_block *b, uint64_t disk)
{
	for (size_t i = 0; i < b->chunk_count; i++)
		if (b->chunks[i].disk == disk)
			return true;
	return false;
}

/* Moves a good chunk of the first block to another disk, as a rebalance of another janitor would. */
static void move_a_chunk(const struct meta_block *b, size_t n)
{
	uint64_t to = 1;
	size_t i = 0;
	CHECK(n > 0);
	while (has_chunk_on(b, to) || to == LOST[0])
		to += 10;
	while (b->chunks[i].disk == LOST[0])
		i++;
	struct chunk_id id = {b->chunk_block, (uint32_t)i};
	chunk_copy(fixture_of_hook, b->chunks[i].disk, to, id, 0);
	struct meta_place p = {.chunk_block = id.block,
			       .index = id.index,
			       .crc = b->chunks[i].crc,
			       .from = b->chunks[i].disk,
			       .to = to,
			       .release_count = b->release_count};
	AUTO_RT_CONTEXT const struct context *before = act_for_tenant();
	struct meta_call c = {.client = fixture_of_hook->client};
	CHECK_EQ(meta_client_block_replace(&c, b->id, &p), 0);
	changed = b->id;
}

CLIENT_TEST(a_record_that_changed_since_it_was_read_is_read_again, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, MIB, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, false), 0);
	size_t rows = blocks_on(&jf, LOST[0], NULL);
	CHECK(rows > 1);
	lose_disk(&jf, LOST[0]);
	count_from_now(&jf);
	fixture_of_hook = &jf;
	seen.after_get = move_a_chunk;
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(times_read(changed), 2);
	CHECK_EQ(seen.read_count, rows + 1);
	CHECK_EQ(blocks_on(&jf, LOST[0], NULL), 0);
	CHECK_EQ(stats_of(j).failed + stats_of(j).lost_blocks, 0);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* --- several janitors ------------------------------------------------------------------------------ */

CLIENT_TEST(a_janitor_leaves_shares_to_others_that_live, 9, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 1, 4 * MIB, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t rows = blocks_on(&jf, LOST[0], NULL);
	CHECK(rows > 16);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 2000000;
	struct round first = {.j = hire(&o)};
	struct janitor *second = hire(&o);
	CHECK_EQ(janitor_report(second), 0);
	CHECK_EQ(janitor_report(first.j), 0);
	lose_disk(&jf, LOST[0]);
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &first), 0);
	while (stats_of(first.j).chunks_repaired == 0)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	CHECK_EQ(janitor_repair(second, false), 0);
	rt_join(fiber);
	CHECK_EQ(first.rc, 0);
	/* The first janitor has found all blocks and has left some of them to the second. */
	CHECK(stats_of(second).chunks_repaired > 0);
	CHECK_EQ(stats_of(first.j).chunks_repaired + stats_of(second).chunks_repaired, rows);
	CHECK_EQ(stats_of(first.j).overtaken + stats_of(second).overtaken, 0);
	CHECK_EQ(blocks_on(&jf, LOST[0], NULL), 0);
	janitor_close(second);
	janitor_close(first.j);
	janitor_fixture_close(&jf);
}

/* --- survey ---------------------------------------------------------------------------------------- */

static void set_policy(struct janitor_fixture *jf, const char *name, const char *text)
{
	struct meta_note n = {.text = text};
	snprintf(n.name, sizeof(n.name), "%s", name);
	CHECK_EQ(meta_client_note_put(&jf->root, &n), 0);
}

/* Writes a file in the name of another tenant. */
static void write_as(struct janitor_fixture *jf, const char *tenant, const char *path,
		     uint64_t text)
{
	char why[FABRIC_ERROR_MAX];
	struct engine_options o = {.metadata = "meta:7100",
				   .tenant = tenant,
				   .traffic_group = "",
				   .traffic_class = TRAFFIC_SILVER};
	struct engine *before = jf->engine;
	CHECK_EQ(engine_open(&jf->engine, &o, why), 0);
	CHECK_EQ(write_text(jf, path, text, TEXT_BYTES, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	engine_close(jf->engine);
	jf->engine = before;
}

CLIENT_TEST(a_survey_rewrites_blocks_of_all_tenants_with_one_client, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct meta_tenant other = {.id = 2, .name = "other"};
	CHECK_EQ(meta_client_tenant_create(&jf.root, &other), 0);
	write_as(&jf, "default", "/f", 1);
	write_as(&jf, "other", "/f", 2);
	size_t all, none = count_blocks(&jf, LOST, 0, &all);
	CHECK(none == 0 && all > 4);
	set_policy(&jf, "policy/00000001", "{\"encoding\": \"rs:2+1\"}");
	set_policy(&jf, "policy/00000002", "{\"encoding\": \"rs:3+1\"}");
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	count_from_now(&jf);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_reencoded, all);
	CHECK_EQ(seen.clients, 0);
	/* Each record is read once by the walk, and once when its block is rewritten. */
	CHECK_EQ(seen.read_count, 2 * all);
	/* The labels of the new chunks have the tenants of their blocks. */
	CHECK_EQ(check_whole(&jf), all);
	count_from_now(&jf);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_reencoded, all);
	CHECK_EQ(seen.clients, 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_round_reads_each_row_of_the_index_and_each_record_once),
		cmocka_unit_test(a_round_that_looks_at_all_blocks_reads_no_record_twice),
		cmocka_unit_test(a_record_that_changed_since_it_was_read_is_read_again),
		cmocka_unit_test(a_janitor_leaves_shares_to_others_that_live),
		cmocka_unit_test(a_survey_rewrites_blocks_of_all_tenants_with_one_client),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
