// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that come twice: sent again when others have changed what the first did, or carried out by two
 * servers at once, one of which fails. What one of them acknowledged stays.
 */
#include "meta_rig.h"

#include "meta/schema.h"

#define TOKEN 77
#define FID 900ULL
#define BLOCK 700ULL

static void block_make(struct rig *rig)
{
	struct meta_chunk chunk = {.disk = 3};
	struct meta_block b = {.id = BLOCK,
			       .state = META_BLOCK_SEALED,
			       .epoch = 5,
			       .length = 10,
			       .capacity = 10,
			       .encoding = "r1",
			       .chunk_count = 1,
			       .chunks = &chunk};
	struct meta_owner o = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &b), 0);
	CHECK_EQ(meta_block_commit(rig->m, &rig->ctx, &b, &o, 1), 0);
}

static void clean_in_the_end(struct rig *rig)
{
	must_be_whole(rig);
	collect_all(rig);
	CHECK_EQ(must_be_whole(rig).garbage, 0);
}

/* --- a batch in a directory that has grown ---------------------------------------------------------- */

static int batch(struct rig *rig, uint64_t dir)
{
	struct meta_extent x = {.block = BLOCK, .length = 10};
	struct meta_create c[2] = {
		{.name = meta_name("p"), .id = FID, .extents = &x, .extent_count = 1},
		{.name = meta_name("q"), .id = FID + 1}};
	int results[2] = {0};
	int rc = meta_create(rig->m, &rig->ctx, dir, c, 2, 0, results);
	return rc != 0 ? rc : results[0] != 0 ? results[0] : results[1];
}

static void batch_body(struct rig *rig)
{
	block_make(rig);
	uint64_t d = must_mkdir(rig, META_ROOT, "d");
	CHECK_EQ(batch(rig, d), 0);
	char name[16];
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		must_create(rig, d, name);
	}
	struct meta_dir md;
	CHECK_EQ(meta_dir_get(rig->m, &rig->ctx, d, &md), 0);
	CHECK(md.spread);
	CHECK_EQ(meta_remove(rig->m, &rig->ctx, d, meta_name("p"), FID, 0), 0);
	CHECK_EQ(batch(rig, d), 0);
	CHECK_EQ(id_at(rig, d, "p"), 0);
	CHECK_EQ(id_at(rig, d, "q"), FID + 1);
	clean_in_the_end(rig);
}

static void a_batch_sent_again_does_not_bring_back_what_was_removed_before_the_spread(void **state)
{
	(void)state;
	struct rig rig = rig_of(batch_body);
	rig.options.spread_entries = 16;
	rig_run(&rig);
}

/* --- fences ------------------------------------------------------------------------------------------- */

static void fence_body(struct rig *rig)
{
	struct meta_chunk chunk = {.disk = 3};
	struct meta_block b = {.id = BLOCK,
			       .state = META_BLOCK_OPEN,
			       .epoch = 1,
			       .capacity = 10,
			       .encoding = "r1",
			       .chunk_count = 1,
			       .chunks = &chunk};
	struct meta_owner o = {.file = FID, .bytes = 0};
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_block out;
	CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &b), 0);
	CHECK_EQ(meta_block_commit(rig->m, &rig->ctx, &b, &o, 1), 0);
	CHECK_EQ(meta_block_fence(rig->m, &rig->ctx, BLOCK, 2, &arena, &out), 0);
	CHECK_EQ(meta_block_fence(rig->m, &rig->ctx, BLOCK, 3, &arena, &out), 0);
	CHECK_EQ(meta_block_fence(rig->m, &rig->ctx, BLOCK, 3, &arena, &out), 0);
	CHECK_EQ(meta_block_fence(rig->m, &rig->ctx, BLOCK, 2, &arena, &out), -ESTALE);
	CHECK_EQ(meta_block_extend(rig->m, &rig->ctx, BLOCK, 2, 0, 5, 1), -ESTALE);
	CHECK_EQ(meta_block_extend(rig->m, &rig->ctx, BLOCK, 3, 0, 5, 1), 0);
	arena_fini(&arena);
}

static void a_fence_that_comes_late_does_not_bring_the_old_writer_back(void **state)
{
	(void)state;
	rig_simple(fence_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_batch_sent_again_does_not_bring_back_what_was_removed_before_the_spread),
		cmocka_unit_test(a_fence_that_comes_late_does_not_bring_the_old_writer_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
