// SPDX-License-Identifier: Apache-2.0
/* Files, blocks, tenants and quota: their operations and their collection. */
#include "meta_blk.h"

#include <stdlib.h>

#include "base/arena.h"
#include "kv/kv.h"
#include "meta/record.h"
#include "meta/schema.h"
#include "meta_api/id.h"

#define TOKEN BLK_EPOCH

/* --- helpers ---------------------------------------------------------------------------------- */

static uint64_t must_block(struct meta_fixture *fx, uint64_t length, const uint64_t *owners,
			   size_t n)
{
	struct blk k;
	struct meta_owner list[16];
	blk_init(&k, meta_id(), length);
	for (size_t i = 0; i < n; i++)
		list[i] = (struct meta_owner){.file = owners[i], .bytes = length / n};
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, list, n), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, list, n), 0);
	return k.b.id;
}

static uint64_t used(struct meta_fixture *fx)
{
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(fx->m, FIXTURE_TENANT, &t), 0);
	return t.used_bytes;
}

static int get_file(struct meta_fixture *fx, uint64_t id, uint64_t offset, struct meta_file *f,
		    struct meta_extent *e, size_t *n, uint64_t *first)
{
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_part part = {.offset = offset};
	int rc = meta_file_get(fx->m, &fx->ctx, id, &part, &arena, f);
	*n = part.count;
	*first = part.first_offset;
	for (size_t i = 0; rc == 0 && i < *n && i < 8; i++)
		e[i] = part.extents[i];
	arena_fini(&arena);
	return rc;
}

/* --- writing ---------------------------------------------------------------------------------- */

META_TEST(a_file_becomes_visible_complete_when_it_is_linked)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	uint64_t f = meta_id();
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, dir, f, TOKEN), 0);
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, dir, f, TOKEN), 0);
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, dir, f, TOKEN + 1), -EEXIST);
	struct meta_extent e[8];
	for (unsigned i = 0; i < 4; i++) {
		e[i] = (struct meta_extent){.block = must_block(fx, 100 + i, &f, 1),
					    .length = 100 + i};
		uint64_t at = 100ULL * i + (i > 0 ? 1ULL * i * (i - 1) / 2 : 0);
		CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN + 1, at, &e[i], 1), -ESTALE);
		CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, at + 1, &e[i], 1), -ERANGE);
		CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, at, &e[i], 1), 0);
		CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, at, &e[i], 1), 0);
	}
	CHECK_EQ(id_at(fx, dir, "f"), 0);
	struct meta_name name = meta_name("f");
	CHECK_EQ(meta_link(fx->m, &fx->ctx, dir, name,
			   &(struct meta_naming){
				   .file = f, .token = TOKEN + 1, .seal = true, .mtime_ns = 5}),
		 -ESTALE);
	CHECK_EQ(meta_link(fx->m, &fx->ctx, META_ROOT, name,
			   &(struct meta_naming){
				   .file = f, .token = TOKEN, .seal = true, .mtime_ns = 5}),
		 -EINVAL);
	must_create(fx, dir, "taken");
	CHECK_EQ(meta_link(fx->m, &fx->ctx, dir, meta_name("taken"),
			   &(struct meta_naming){
				   .file = f, .token = TOKEN, .seal = true, .mtime_ns = 5}),
		 -EEXIST);
	CHECK_EQ(meta_link(fx->m, &fx->ctx, dir, name,
			   &(struct meta_naming){
				   .file = f, .token = TOKEN, .seal = true, .mtime_ns = 5}),
		 0);
	CHECK_EQ(meta_link(fx->m, &fx->ctx, dir, name,
			   &(struct meta_naming){
				   .file = f, .token = TOKEN, .seal = true, .mtime_ns = 5}),
		 0);
	CHECK_EQ(meta_link(fx->m, &fx->ctx, dir, meta_name("g"),
			   &(struct meta_naming){
				   .file = f, .token = TOKEN, .seal = true, .mtime_ns = 5}),
		 -EPERM);
	struct meta_entry entry;
	CHECK_EQ(meta_lookup(fx->m, &fx->ctx, dir, name, &entry), 0);
	CHECK_EQ(entry.size, 406);
	CHECK(entry.sealed && entry.id == f);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 406, &e[0], 1), -EROFS);
	/* The first extent returned is the one that holds the byte. */
	struct meta_file file;
	struct meta_extent got[8];
	size_t n;
	uint64_t first;
	CHECK_EQ(get_file(fx, f, 0, &file, got, &n, &first), 0);
	CHECK(n == 4 && first == 0 && file.size == 406 && file.sealed && file.linked);
	CHECK_EQ(get_file(fx, f, 201, &file, got, &n, &first), 0);
	CHECK(n == 2 && first == 201 && got[0].block == e[2].block);
	CHECK_EQ(get_file(fx, f, 200, &file, got, &n, &first), 0);
	CHECK(n == 3 && first == 100);
	CHECK_EQ(get_file(fx, f, 406, &file, got, &n, &first), 0);
	CHECK_EQ(n, 0);
	CHECK_EQ(used(fx), 406);
	must_be_whole(fx);
}

/* The pending block of a create is committed, charged and owned once, or the file is not created. */
META_TEST(a_pending_block_is_committed_with_its_file)
{
	struct blk k;
	blk_init(&k, meta_id(), 0);
	k.b.state = META_BLOCK_SEALED;
	k.b.length = 300;
	uint64_t id = meta_id();
	struct meta_extent x = {.block = k.b.id, .length = 300};
	struct meta_create c = {
		.name = meta_name("f"), .id = id, .extents = &x, .extent_count = 1, .block = &k.b};
	int result = 0;
	/* The block was never allocated, or has been collected. */
	CHECK_EQ(meta_create(fx->m, &fx->ctx, META_ROOT, &c, 1, 0, &result), 0);
	CHECK_EQ(result, -ENOENT);
	CHECK_EQ(id_at(fx, META_ROOT, "f"), 0);
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	for (int again = 0; again < 2; again++) {
		CHECK_EQ(meta_create(fx->m, &fx->ctx, META_ROOT, &c, 1, 0, &result), 0);
		CHECK_EQ(result, 0);
		CHECK_EQ(id_at(fx, META_ROOT, "f"), id);
		CHECK_EQ(used(fx), 300);
	}
	struct meta_owner owners[2];
	CHECK_EQ(meta_block_owners(fx->m, &fx->ctx, k.b.id, 0, owners, 2), 1);
	CHECK_EQ(owners[0].file, id);
	CHECK_EQ(owners[0].bytes, 300);
	/* No extent of the file is in this block. */
	c.id = meta_id();
	c.name = meta_name("g");
	x.block = meta_id();
	CHECK_EQ(meta_create(fx->m, &fx->ctx, META_ROOT, &c, 1, 0, &result), -EINVAL);
}

META_TEST(a_taken_write_token_fences_the_old_writer)
{
	uint64_t f = meta_id();
	CHECK_EQ(try_create(fx, META_ROOT, "f", f, TOKEN, 0), 0);
	struct blk k;
	blk_init(&k, meta_id(), 0);
	k.b.state = META_BLOCK_OPEN;
	struct meta_owner owner = {.file = f};
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	CHECK_EQ(used(fx), 1000);
	struct meta_extent open = {.block = k.b.id, .open = true};
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 0, &open, 1), 0);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 0, &open, 1), 0);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, k.b.id, TOKEN, 0, 10, 1), 0);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, k.b.id, TOKEN, 0, 10, 1), 0);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, k.b.id, TOKEN, 0, 20, 1), -ERANGE);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, k.b.id, TOKEN, 10, 1001, 1), -EFBIG);
	/* Another client opens the file for append: every request of the old writer is refused. */
	struct meta_file file;
	struct meta_extent left;
	CHECK_EQ(meta_file_steal(fx->m, &fx->ctx, f, TOKEN + 1, &file, &left), 0);
	CHECK_EQ(left.block, k.b.id);
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_block now;
	CHECK_EQ(meta_block_fence(fx->m, &fx->ctx, k.b.id, TOKEN + 1, &arena, &now), 0);
	CHECK_EQ(now.length, 10);
	arena_fini(&arena);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, k.b.id, TOKEN, 10, 20, 2), -ESTALE);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 0, &open, 1), -ESTALE);
	CHECK_EQ(meta_file_seal(fx->m, &fx->ctx, f, TOKEN, meta_name("f"), 1), -ESTALE);
	CHECK_EQ(meta_file_seal(fx->m, &fx->ctx, f, TOKEN + 1, meta_name("f"), 1), -EBUSY);
	CHECK_EQ(meta_block_seal(fx->m, &fx->ctx, k.b.id, TOKEN + 1, 9, 0, 3), -ERANGE);
	CHECK_EQ(meta_block_seal(fx->m, &fx->ctx, k.b.id, TOKEN + 1, 15, 0, 3), 0);
	CHECK_EQ(meta_block_seal(fx->m, &fx->ctx, k.b.id, TOKEN + 1, 15, 0, 3), 0);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, k.b.id, TOKEN + 1, 15, 20, 4), -EROFS);
	CHECK_EQ(used(fx), 15);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(meta_file_close_extent(fx->m, &fx->ctx, f, TOKEN + 1, k.b.id, 15), 0);
	CHECK_EQ(meta_file_close_extent(fx->m, &fx->ctx, f, TOKEN + 1, 999, 15), -ERANGE);
	CHECK_EQ(meta_file_seal(fx->m, &fx->ctx, f, TOKEN + 1, meta_name("f"), 1), 0);
	CHECK_EQ(meta_file_steal(fx->m, &fx->ctx, f, TOKEN + 2, &file, &left), -EROFS);
	struct meta_entry e;
	CHECK_EQ(meta_lookup(fx->m, &fx->ctx, META_ROOT, meta_name("f"), &e), 0);
	CHECK(e.sealed && e.size == 15);
	must_be_whole(fx);
}

/* A log is taken from a writer that had added nothing: its empty block must not stay charged. */
META_TEST(an_empty_block_of_a_log_is_collected_while_the_log_is_open)
{
	uint64_t f = meta_id();
	struct meta_create log = {.name = meta_name("log"), .id = f, .token = TOKEN};
	int result;
	CHECK_EQ(meta_create(fx->m, &fx->ctx, META_ROOT, &log, 1, 0, &result), 0);
	struct blk k;
	blk_init(&k, meta_id(), 0);
	k.b.state = META_BLOCK_OPEN;
	struct meta_owner owner = {.file = f};
	struct meta_extent open = {.block = k.b.id, .open = true};
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 0, &open, 1), 0);
	CHECK_EQ(used(fx), 1000);
	struct meta_file file;
	struct meta_extent left;
	CHECK_EQ(meta_file_steal(fx->m, &fx->ctx, f, TOKEN + 1, &file, &left), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(meta_file_close_extent(fx->m, &fx->ctx, f, TOKEN + 1, k.b.id, 0), 0);
	/* The empty block of the log's last extent is never collected. */
	struct blk last;
	blk_init(&last, meta_id(), 0);
	last.b.state = META_BLOCK_OPEN;
	open.block = last.b.id;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &last.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &last.b, &owner, 1), 0);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN + 1, 0, &open, 1), 0);
	CHECK_EQ(used(fx), 2000);
	collect_all(fx);
	CHECK_EQ(used(fx), 1000);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

/* --- sharing, and the end of it --------------------------------------------------------------- */

META_TEST(a_block_is_collected_with_its_last_owner)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	uint64_t other = must_mkdir(fx, META_ROOT, "o");
	uint64_t ids[3];
	uint64_t first = meta_id_run(3);
	for (unsigned i = 0; i < 3; i++)
		ids[i] = first + i;
	uint64_t block = must_block(fx, 300, ids, 3);
	struct meta_extent e[3];
	struct meta_create files[3];
	int results[3];
	static const char *const names[] = {"a", "b", "c"};
	for (unsigned i = 0; i < 3; i++) {
		e[i] = (struct meta_extent){.block = block, .offset = 100ULL * i, .length = 100};
		files[i] = (struct meta_create){.name = meta_name(names[i]),
						.id = ids[i],
						.extents = &e[i],
						.extent_count = 1};
	}
	CHECK_EQ(meta_create(fx->m, &fx->ctx, dir, files, 3, 0, results), 0);
	struct meta_file f;
	struct meta_extent got[8];
	size_t n;
	uint64_t at;
	CHECK_EQ(get_file(fx, ids[1], 50, &f, got, &n, &at), 0);
	CHECK(n == 1 && at == 0 && got[0].offset == 100 && got[0].block == block);
	/* A moved file is a second owner of the same block. */
	uint64_t moved = meta_id();
	CHECK_EQ(meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = dir,
					       .from = meta_name("a"),
					       .to_dir = other,
					       .to = meta_name("a"),
					       .new_id = moved,
					       .request = meta_id()}),
		 0);
	struct meta_owner owners[8];
	CHECK_EQ(meta_block_owners(fx->m, &fx->ctx, block, 0, owners, 8), 4);
	must_be_whole(fx);
	collect_all(fx);
	CHECK_EQ(meta_block_owners(fx->m, &fx->ctx, block, 0, owners, 8), 3);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("b"), 0, 0), 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("c"), 0, 0), 0);
	collect_all(fx);
	CHECK_EQ(used(fx), 300);
	CHECK_EQ(get_file(fx, moved, 0, &f, got, &n, &at), 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, other, meta_name("a"), 0, 0), 0);
	/* Nothing is collected before its grace period is over. */
	struct meta_gc_counts counts = {0};
	for (int epoch = 0; epoch < 3; epoch++) {
		CHECK_EQ(get_file(fx, moved, 0, &f, got, &n, &at), 0);
		CHECK(!f.removed && n == 1);
		collect_once(fx, &counts);
	}
	/*
	 * The garbage is marked in one epoch and collected two epochs later. Then the grace period
	 * of the next layer begins.
	 */
	CHECK_EQ(get_file(fx, moved, 0, &f, got, &n, &at), 0);
	CHECK(f.removed && n == 1);
	/* The block exists, but nobody can name it, so the tenant is not charged for it any more. */
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(fx->m, fx->ctx.tenant, &t), 0);
	CHECK(t.used_bytes == 0 && t.waiting_bytes == 300);
	must_be_whole(fx);
	collect_all(fx);
	CHECK_EQ(get_file(fx, moved, 0, &f, got, &n, &at), -ENOENT);
	CHECK_EQ(meta_tenant_get(fx->m, fx->ctx.tenant, &t), 0);
	CHECK(t.used_bytes == 0 && t.waiting_bytes == 0);
	struct meta_check_report report = must_be_whole(fx);
	CHECK_EQ(report.blocks, 0);
	CHECK_EQ(report.files, 0);
	CHECK_EQ(report.garbage, 0);
}

META_TEST(a_copy_shares_the_blocks_and_outlives_its_source)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d"), to = must_mkdir(fx, META_ROOT, "t");
	uint64_t id = meta_id(), copy = meta_id();
	uint64_t block = must_block(fx, 300, &id, 1);
	struct meta_extent e = {.block = block, .length = 300};
	struct meta_create file = {
		.name = meta_name("a"), .id = id, .extents = &e, .extent_count = 1};
	int result;
	CHECK_EQ(meta_create(fx->m, &fx->ctx, dir, &file, 1, 0, &result), 0);
	struct meta_move v = {.from_dir = dir,
			      .from = meta_name("a"),
			      .to_dir = to,
			      .to = meta_name("b"),
			      .new_id = copy,
			      .request = meta_id()};
	CHECK_EQ(meta_copy(fx->m, &fx->ctx, &v), 0);
	CHECK_EQ(meta_copy(fx->m, &fx->ctx, &v), 0); /* the same request */
	CHECK_EQ(used(fx), 300);
	struct meta_move again = v;
	again.new_id = meta_id();
	again.request = meta_id();
	CHECK_EQ(meta_copy(fx->m, &fx->ctx, &again), -EEXIST);
	again.from = meta_name("none");
	CHECK_EQ(meta_copy(fx->m, &fx->ctx, &again), -ENOENT);
	again.from_dir = META_ROOT;
	again.from = meta_name("d");
	CHECK_EQ(meta_copy(fx->m, &fx->ctx, &again), -EISDIR);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("a"), 0, 0), 0);
	collect_all(fx);
	struct meta_file f;
	struct meta_extent got[8];
	size_t n;
	uint64_t at;
	CHECK_EQ(get_file(fx, copy, 0, &f, got, &n, &at), 0);
	CHECK(!f.removed && f.size == 300 && n == 1 && got[0].block == block);
	CHECK_EQ(used(fx), 300);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, to, meta_name("b"), 0, 0), 0);
	collect_all(fx);
	CHECK_EQ(must_be_whole(fx).blocks, 0);
	CHECK_EQ(used(fx), 0);
}

META_TEST(files_of_stopped_writers_are_collected_and_those_of_active_ones_stay)
{
	/*
	 * Garbage of four kinds: a pending block, a committed block, a file with blocks and no
	 * name, a directory without a name.
	 */
	struct blk k;
	blk_init(&k, meta_id(), 50);
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	uint64_t f = meta_id();
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, META_ROOT, f, TOKEN), 0);
	struct meta_extent e = {.block = must_block(fx, 100, &f, 1), .length = 100};
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 0, &e, 1), 0);
	uint64_t nobody = meta_id();
	must_block(fx, 30, &nobody, 1);
	must_block(fx, 20, NULL, 0);
	CHECK_EQ(used(fx), 150);
	must_be_whole(fx);
	/* The file of a writer that continues to write is not collected. */
	for (unsigned i = 0; i < 6; i++) {
		struct meta_gc_counts counts = {0};
		e = (struct meta_extent){.block = must_block(fx, 100, &f, 1), .length = 100};
		CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 100ULL * (i + 1), &e, 1), 0);
		collect_once(fx, &counts);
	}
	CHECK_EQ(meta_link(fx->m, &fx->ctx, META_ROOT, meta_name("f"),
			   &(struct meta_naming){
				   .file = f, .token = TOKEN, .seal = true, .mtime_ns = 1}),
		 0);
	collect_all(fx);
	CHECK_EQ(used(fx), 700);
	struct meta_check_report report = must_be_whole(fx);
	CHECK_EQ(report.blocks, 7);
	CHECK_EQ(report.files, 1);
	CHECK_EQ(report.garbage, 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, NULL, 0), -ENOENT);
	/* The file of a writer that stopped is collected. */
	f = meta_id();
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, META_ROOT, f, TOKEN), 0);
	e = (struct meta_extent){.block = must_block(fx, 100, &f, 1), .length = 100};
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 0, &e, 1), 0);
	collect_all(fx);
	CHECK_EQ(used(fx), 700);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 100, &e, 1), -ENOENT);
}

META_TEST(renamed_objects_are_not_garbage)
{
	uint64_t f = must_create(fx, META_ROOT, "a");
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	CHECK_EQ(meta_rename(fx->m, &fx->ctx, META_ROOT, meta_name("a"), meta_name("b"), meta_id(),
			     0),
		 0);
	CHECK_EQ(meta_rename(fx->m, &fx->ctx, META_ROOT, meta_name("d"), meta_name("e"), meta_id(),
			     0),
		 0);
	collect_all(fx);
	CHECK_EQ(id_at(fx, META_ROOT, "b"), f);
	CHECK_EQ(id_at(fx, META_ROOT, "e"), d);
	struct meta_dir dir;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, d, &dir), 0);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

/* --- places ----------------------------------------------------------------------------------- */

/* --- tenants ---------------------------------------------------------------------------------- */

META_TEST(quota_is_enforced_at_commit_and_exact_after_collection)
{
	CHECK_EQ(meta_tenant_set_quota(fx->m, FIXTURE_TENANT, 250), 0);
	CHECK_EQ(meta_tenant_set_quota(fx->m, 99, 250), -ENOENT);
	uint64_t f = must_create(fx, META_ROOT, "f");
	uint64_t first = must_block(fx, 100, &f, 1);
	must_block(fx, 100, &f, 1);
	struct blk k;
	blk_init(&k, meta_id(), 51);
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, NULL, 0), -EDQUOT);
	CHECK_EQ(used(fx), 200);
	k.b.length = 50;
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, NULL, 0), 0);
	CHECK_EQ(used(fx), 250);
	must_be_whole(fx);
	/* No file has extents in the blocks: their whole charge is given back. */
	collect_all(fx);
	CHECK_EQ(used(fx), 0);
	must_be_whole(fx);
	CHECK(first != 0);
}

META_TEST(a_tenant_cannot_reach_objects_of_another)
{
	struct meta_tenant t = {.id = 8, .name = "eight", .quota_bytes = 5};
	CHECK_EQ(meta_tenant_create(fx->m, &t), 0);
	CHECK_EQ(meta_tenant_create(fx->m, &t), 0);
	CHECK_EQ(meta_tenant_create(fx->m, &(struct meta_tenant){.id = 8, .name = "x"}), -EEXIST);
	CHECK_EQ(meta_tenant_create(fx->m, &(struct meta_tenant){.id = 9, .name = "eight"}),
		 -EEXIST);
	CHECK_EQ(meta_tenant_create(fx->m, &(struct meta_tenant){.id = 0, .name = "x"}), -EINVAL);
	CHECK_EQ(meta_tenant_create(fx->m, &(struct meta_tenant){.id = 9, .name = ""}), -EINVAL);
	CHECK_EQ(meta_tenant_find(fx->m, "eight", &t), 0);
	CHECK(t.id == 8 && t.quota_bytes == 5);
	CHECK_EQ(meta_tenant_find(fx->m, "nine", &t), -ENOENT);
	struct meta_tenant list[4];
	CHECK_EQ(meta_tenant_list(fx->m, 0, list, 4), 2);
	CHECK_EQ(meta_tenant_list(fx->m, 7, list, 4), 1);
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	uint64_t f = must_create(fx, d, "f");
	uint64_t block = must_block(fx, 10, &f, 1);
	/* All operations of another tenant on these objects return -ENOENT. */
	struct meta_fixture other = *fx;
	other.ctx.tenant = 8;
	CHECK_EQ(id_at(&other, META_ROOT, "d"), 0);
	CHECK_EQ(id_at(&other, d, "f"), 0);
	CHECK_EQ(try_create(&other, d, "g", meta_id(), 0, 0), -ENOENT);
	CHECK_EQ(meta_remove(fx->m, &other.ctx, d, meta_name("f"), f, 0), -ENOENT);
	struct meta_file file;
	struct meta_extent e[8];
	size_t n;
	uint64_t at;
	CHECK_EQ(get_file(&other, f, 0, &file, e, &n, &at), -ENOENT);
	CHECK_EQ(meta_file_steal(fx->m, &other.ctx, f, 1, &file, e), -ENOENT);
	struct meta_place place = {.chunk_block = block, .from = 100, .to = 200};
	CHECK_EQ(meta_block_replace(fx->m, &other.ctx, block, &place), -ENOENT);
	struct meta_owner owner = {.file = f, .bytes = 1};
	CHECK_EQ(meta_block_own(fx->m, &other.ctx, block, &owner, 1), -ENOENT);
	struct meta_dir dir;
	CHECK_EQ(meta_dir_get(fx->m, &other.ctx, d, &dir), -ENOENT);
	CHECK_EQ(meta_dir_seal(fx->m, &other.ctx, d), -ENOENT);
	CHECK_EQ(meta_move(fx->m, &other.ctx,
			   &(struct meta_move){.from_dir = d,
					       .from = meta_name("f"),
					       .to_dir = META_ROOT,
					       .to = meta_name("f"),
					       .new_id = meta_id(),
					       .request = meta_id()}),
		 -ENOENT);
	CHECK_EQ(id_at(fx, d, "f"), f);
	must_be_whole(fx);
}

/* --- bad input -------------------------------------------------------------------------------- */

META_TEST(bad_input_has_its_error_and_no_effect)
{
	size_t keys = kv_mem_keys(fx->mem);
	struct meta_ctx *ctx = &fx->ctx;
	static char path[META_PATH_MAX + 2];
	struct meta_entry e;
	memset(path, 'a', sizeof(path));
	CHECK_EQ(meta_resolve(fx->m, ctx, 1, (struct meta_name){path, META_PATH_MAX + 1}, NULL,
			      NULL, &e),
		 -ENAMETOOLONG);
	CHECK_EQ(meta_lookup(fx->m, ctx, 1, (struct meta_name){path, 256}, &e), -ENAMETOOLONG);
	CHECK_EQ(try_create(fx, 1, "", meta_id(), 0, 0), -EINVAL);
	CHECK_EQ(try_create(fx, 1, "..", meta_id(), 0, 0), -EINVAL);
	CHECK_EQ(try_create(fx, 1, "a/b", meta_id(), 0, 0), -EINVAL);
	CHECK_EQ(try_create(fx, 1, "\xff", meta_id(), 0, 0), -EILSEQ);
	CHECK_EQ(try_create(fx, 1, "f", 0, 0, 0), -EINVAL);
	CHECK_EQ(meta_mkdir(fx->m, ctx, 1, meta_name("."), meta_id(), NULL), -EINVAL);
	CHECK_EQ(meta_mkdir(fx->m, ctx, 1, meta_name("a"), META_ROOT, NULL), -EINVAL);
	CHECK_EQ(meta_rename(fx->m, ctx, 1, meta_name("a"), meta_name(""), 5, 0), -EINVAL);
	CHECK_EQ(meta_rename(fx->m, ctx, 1, meta_name("a"), meta_name("b"), 0, 0), -EINVAL);
	struct meta_extent x = {.block = 5, .offset = META_BLOCK_MAX, .length = 1};
	struct meta_create c = {
		.name = meta_name("f"), .id = meta_id(), .extents = &x, .extent_count = 1};
	int result;
	CHECK_EQ(meta_create(fx->m, ctx, 1, &c, 1, 0, &result), 0);
	CHECK_EQ(result, -EOVERFLOW);
	x = (struct meta_extent){.block = 5, .offset = UINT64_MAX, .length = UINT64_MAX};
	CHECK_EQ(meta_create(fx->m, ctx, 1, &c, 1, 0, &result), 0);
	CHECK_EQ(result, -EOVERFLOW);
	x = (struct meta_extent){.block = 5};
	CHECK_EQ(meta_create(fx->m, ctx, 1, &c, 1, 0, &result), 0);
	CHECK_EQ(result, -EINVAL);
	struct blk k;
	blk_init(&k, meta_id(), 10);
	k.chunks[1].disk = k.chunks[0].disk;
	CHECK_EQ(meta_block_allocate(fx->m, ctx, &k.b), -EINVAL);
	blk_init(&k, meta_id(), 10);
	k.b.capacity = META_BLOCK_MAX + 1;
	CHECK_EQ(meta_block_allocate(fx->m, ctx, &k.b), -EOVERFLOW);
	k.b.capacity = 10;
	k.b.chunk_count = META_CHUNKS_MAX + 1;
	CHECK_EQ(meta_block_allocate(fx->m, ctx, &k.b), -EINVAL);
	CHECK_EQ(kv_mem_keys(fx->mem), keys);
	x = (struct meta_extent){.block = 5, .length = META_BLOCK_MAX};
	uint64_t f = meta_id();
	CHECK_EQ(meta_file_new(fx->m, ctx, 1, f, TOKEN), 0);
	CHECK_EQ(meta_file_add(fx->m, ctx, f, TOKEN, META_FILE_MAX, &x, 1), -EOVERFLOW);
	CHECK_EQ(meta_file_add(fx->m, ctx, f, TOKEN, UINT64_MAX, &x, 1), -EOVERFLOW);
	CHECK_EQ(meta_file_add(fx->m, ctx, f + 1, TOKEN, 0, &x, 1), -ENOENT);
	CHECK_EQ(meta_file_add(fx->m, ctx, f, 0, 0, &x, 1), -ESTALE);
}

META_TEST(paths_may_be_a_thousand_levels_deep)
{
	static char path[2 * META_DEPTH_MAX + 3];
	uint64_t at = META_ROOT;
	for (unsigned i = 0; i < META_DEPTH_MAX; i++) {
		at = must_mkdir(fx, at, "d");
		memcpy(path + 2 * (size_t)i, "/d", 3);
	}
	struct meta_entry e;
	CHECK_EQ(meta_resolve(fx->m, &fx->ctx, META_ROOT, meta_name(path), NULL, NULL, &e), 0);
	CHECK_EQ(e.id, at);
	memcpy(path + strlen(path), "/d", 3);
	CHECK_EQ(meta_resolve(fx->m, &fx->ctx, META_ROOT, meta_name(path), NULL, NULL, &e), -ELOOP);
	CHECK_EQ(meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = META_ROOT,
					       .from = meta_name("d"),
					       .to_dir = at,
					       .to = meta_name("d"),
					       .request = meta_id()}),
		 -EINVAL);
	must_create(fx, at, "f");
	CHECK_EQ(meta_du_refresh(fx->m, &fx->ctx, META_ROOT), 0);
	struct meta_usage u;
	CHECK_EQ(meta_du(fx->m, &fx->ctx, META_ROOT, &u), 0);
	CHECK(u.dirs == META_DEPTH_MAX && u.files == 1 && u.taken_ns != 0);
}

META_TEST(usage_is_the_last_count_with_its_time)
{
	uint64_t a = must_mkdir(fx, META_ROOT, "a");
	uint64_t b = must_mkdir(fx, a, "b");
	struct meta_usage u;
	CHECK_EQ(meta_du(fx->m, &fx->ctx, a, &u), 0);
	CHECK_EQ(u.taken_ns, 0);
	CHECK_EQ(meta_du(fx->m, &fx->ctx, 999, &u), -ENOENT);
	uint64_t id = meta_id();
	struct meta_extent x = {.block = must_block(fx, 40, &id, 1), .length = 40};
	struct meta_create c = {.name = meta_name("f"), .id = id, .extents = &x, .extent_count = 1};
	int result;
	CHECK_EQ(meta_create(fx->m, &fx->ctx, b, &c, 1, 0, &result), 0);
	CHECK_EQ(meta_du_refresh(fx->m, &fx->ctx, META_ROOT), 0);
	CHECK_EQ(meta_du(fx->m, &fx->ctx, META_ROOT, &u), 0);
	CHECK(u.files == 1 && u.dirs == 2 && u.bytes == 40);
	CHECK_EQ(meta_du(fx->m, &fx->ctx, b, &u), 0);
	CHECK(u.files == 1 && u.dirs == 0 && u.bytes == 40);
}

META_TEST(leases_pass_on_when_their_holder_is_silent)
{
	struct meta_lease a = {.name = "gc/1", .holder = 1, .duration_ns = 10 * NS_PER_S};
	struct meta_lease b = {.name = "gc/1", .holder = 2, .duration_ns = 10 * NS_PER_S};
	CHECK_EQ(meta_lease_take(fx->m, &a), 0);
	CHECK_EQ(meta_lease_take(fx->m, &b), -EBUSY);
	rt_sleep_ns(8 * NS_PER_S);
	CHECK_EQ(meta_lease_take(fx->m, &a), 0);
	rt_sleep_ns(8 * NS_PER_S);
	CHECK_EQ(meta_lease_take(fx->m, &b), -EBUSY);
	rt_sleep_ns(9 * NS_PER_S);
	CHECK_EQ(meta_lease_take(fx->m, &b), -EBUSY);
	rt_sleep_ns(2 * NS_PER_S);
	CHECK_EQ(meta_lease_take(fx->m, &b), 0);
	CHECK_EQ(meta_lease_take(fx->m, &a), -EBUSY);
	CHECK_EQ(meta_lease_drop(fx->m, &a), 0);
	CHECK_EQ(meta_lease_take(fx->m, &a), -EBUSY);
	CHECK_EQ(meta_lease_drop(fx->m, &b), 0);
	CHECK_EQ(meta_lease_take(fx->m, &a), 0);
}

/* --- opening only what is there --------------------------------------------------------------------- */

META_TEST(opening_with_only_existing_creates_no_store)
{
	struct kv_mem *mem = kv_mem_new(&(struct kv_mem_options){.seed = 2});
	struct meta_options o = fx->options;
	struct kv *kv;
	struct meta *m;
	o.only_existing = true;
	CHECK(mem != NULL);
	CHECK_EQ(kv_mem_open(&kv, mem), 0);
	CHECK_EQ(meta_open(&m, kv, &o), -ENOENT);
	CHECK_EQ(meta_open(&m, kv, &o), -ENOENT);
	o.only_existing = false;
	CHECK_EQ(meta_open(&m, kv, &o), 0);
	meta_close(m);
	o.only_existing = true;
	CHECK_EQ(meta_open(&m, kv, &o), 0);
	meta_close(m);
	kv_close(kv);
	kv_mem_free(mem);
}

/* --- the check finds what is wrong ------------------------------------------------------------- */

static void damage(struct meta_fixture *fx, enum meta_layer layer, uint64_t id,
		   struct schema_key key, const ProtobufCMessage *msg)
{
	struct arena a;
	arena_init(&a, MIB);
	struct kv_write w = {.kind = KV_DELETE, .key = key_bytes(&key)};
	if (msg != NULL) {
		w.kind = KV_PUT;
		CHECK_EQ(rec_pack(&a, msg, &w.value), 0);
	}
	uint64_t partition =
		schema_partition(fx->options.partition_bits, layer, FIXTURE_TENANT, id, 0);
	CHECK_EQ(kv_txn(fx->kv, partition, &(struct kv_txn){.writes = &w, .write_count = 1}, NULL),
		 0);
	arena_fini(&a);
}

/* Counts the calls of the callbacks of meta_check. */
struct told {
	uint64_t errors, partitions_done;
	char first[256];
};

static void told_error(void *ctx, const char *words)
{
	struct told *t = ctx;
	if (t->errors++ == 0)
		snprintf(t->first, sizeof(t->first), "%s", words);
}

static void told_progress(void *ctx, const struct meta_check_report *so_far)
{
	struct told *t = ctx;
	CHECK(so_far->partitions_done >= t->partitions_done);
	t->partitions_done = so_far->partitions_done;
}

static void must_be_wrong(struct meta_fixture *fx, const char *what)
{
	struct meta_check_report report;
	struct told told = {0};
	struct meta_check_options o = {
		.found = told_error, .progress = told_progress, .ctx = &told};
	CHECK_EQ(meta_check(fx->m, &o, &report), 0);
	CHECK(told.errors == report.errors && strcmp(told.first, report.first) == 0);
	CHECK(report.partitions > 0 && told.partitions_done == report.partitions);
	if (report.errors == 0 || strstr(report.first, what) == NULL)
		fprintf(stderr, "found '%s', not '%s'\n", report.first, what);
	CHECK(report.errors > 0 && strstr(report.first, what) != NULL);
}

/* Damages the store in a way that the seed chooses. */
static void planted_body(struct meta_fixture *fx)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	uint64_t inner = must_mkdir(fx, d, "inner");
	must_create(fx, inner, "deep");
	uint64_t f = meta_id();
	uint64_t block = must_block(fx, 10, &f, 1);
	struct meta_extent x = {.block = block, .length = 10};
	struct meta_create c = {.name = meta_name("f"), .id = f, .extents = &x, .extent_count = 1};
	int result;
	CHECK_EQ(meta_create(fx->m, &fx->ctx, d, &c, 1, 0, &result), 0);
	must_be_whole(fx);
	rec_entry twice = TERRANE__REC__ENTRY__INIT;
	twice.kind = META_DIR;
	twice.id = d;
	rec_account q = TERRANE__REC__ACCOUNT__INIT;
	q.used_bytes = 11;
	switch (fx->seed) {
	case 1: /* a cycle, which is also a second name */
		damage(fx, META_LAYER_NAME, inner,
		       key_entry(FIXTURE_TENANT, inner, 0, meta_name("up")), &twice.base);
		must_be_wrong(fx, "a second name");
		break;
	case 2:
		damage(fx, META_LAYER_NAME, inner, key_slice(KEY_DIR, FIXTURE_TENANT, inner, 0),
		       NULL);
		must_be_wrong(fx, "leads to a directory without a record");
		break;
	case 3:
		damage(fx, META_LAYER_NAME, d, key_entry(FIXTURE_TENANT, d, 0, meta_name("inner")),
		       NULL);
		must_be_wrong(fx, "is unreachable");
		break;
	case 4:
		damage(fx, META_LAYER_FILE, f, key_id(KEY_FILE, FIXTURE_TENANT, f), NULL);
		must_be_wrong(fx, "leads to a file without a record");
		break;
	case 5:
		damage(fx, META_LAYER_BLOCK, block, key_ids(KEY_OWNER, FIXTURE_TENANT, block, f),
		       NULL);
		must_be_wrong(fx, "has no owner row");
		break;
	case 6:
		damage(fx, META_LAYER_BLOCK, block,
		       key_disk(100 + block % 7, FIXTURE_TENANT, block), NULL);
		must_be_wrong(fx, "no row in the reverse index");
		break;
	case 7:
		damage(fx, META_LAYER_TENANT, FIXTURE_TENANT,
		       key_tenant(KEY_ACCOUNT, FIXTURE_TENANT), &q.base);
		must_be_wrong(fx, "bytes used");
		break;
	case 8:
		damage(fx, META_LAYER_BLOCK, block, key_id(KEY_BLOCK, FIXTURE_TENANT, block), NULL);
		must_be_wrong(fx, "does not exist or is pending");
		break;
	default:
		damage(fx, META_LAYER_FILE, f, key_id(KEY_FILE, FIXTURE_TENANT, f), &q.base);
		must_be_wrong(fx, "is damaged");
	}
}

static void the_check_finds_each_kind_of_damage(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 9; i++) {
		struct meta_fixture fx = fixture_of(planted_body);
		fx.seed = i;
		fixture_run(&fx);
	}
}

static int open_named(struct meta_fixture *fx, uint64_t dir, const char *name, struct meta_file *f)
{
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_part part = {.max = 1};
	int rc = meta_file_open(fx->m, &fx->ctx, dir, meta_name(name), &part, &arena, f);
	arena_fini(&arena);
	return rc;
}

/* The record of a sealed empty file can be made again from its name; that of any other file cannot. */
static void lost_record_body(struct meta_fixture *fx)
{
	struct meta_file f;
	struct meta_create c[2] = {{.name = meta_name("empty"), .id = meta_id()},
				   {.name = meta_name("log"), .id = meta_id(), .token = TOKEN}};
	int results[2];
	CHECK_EQ(meta_create(fx->m, &fx->ctx, META_ROOT, c, 2, 0, results), 0);
	CHECK_EQ(results[0], 0);
	CHECK_EQ(results[1], 0);
	for (int i = 0; i < 2; i++)
		damage(fx, META_LAYER_FILE, c[i].id, key_id(KEY_FILE, FIXTURE_TENANT, c[i].id),
		       NULL);
	must_be_wrong(fx, "log in directory 1 leads to a file without a record");
	CHECK_EQ(open_named(fx, META_ROOT, "empty", &f), 0);
	CHECK(f.sealed && f.size == 0);
	CHECK_EQ(open_named(fx, META_ROOT, "log", &f), -EBADMSG);
	CHECK_EQ(meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = META_ROOT,
					       .from = meta_name("log"),
					       .to_dir = must_mkdir(fx, META_ROOT, "d"),
					       .to = meta_name("log"),
					       .new_id = meta_id(),
					       .request = meta_id()}),
		 -EBADMSG);
	collect_all(fx);
	CHECK_EQ(open_named(fx, META_ROOT, "log", &f), -EBADMSG);
}

static void a_lost_record_is_damage_and_not_an_empty_file(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(lost_record_body);
	fixture_run(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_becomes_visible_complete_when_it_is_linked),
		cmocka_unit_test(a_pending_block_is_committed_with_its_file),
		cmocka_unit_test(a_taken_write_token_fences_the_old_writer),
		cmocka_unit_test(an_empty_block_of_a_log_is_collected_while_the_log_is_open),
		cmocka_unit_test(a_block_is_collected_with_its_last_owner),
		cmocka_unit_test(a_copy_shares_the_blocks_and_outlives_its_source),
		cmocka_unit_test(
			files_of_stopped_writers_are_collected_and_those_of_active_ones_stay),
		cmocka_unit_test(renamed_objects_are_not_garbage),
		cmocka_unit_test(quota_is_enforced_at_commit_and_exact_after_collection),
		cmocka_unit_test(a_tenant_cannot_reach_objects_of_another),
		cmocka_unit_test(bad_input_has_its_error_and_no_effect),
		cmocka_unit_test(paths_may_be_a_thousand_levels_deep),
		cmocka_unit_test(usage_is_the_last_count_with_its_time),
		cmocka_unit_test(leases_pass_on_when_their_holder_is_silent),
		cmocka_unit_test(opening_with_only_existing_creates_no_store),
		cmocka_unit_test(the_check_finds_each_kind_of_damage),
		cmocka_unit_test(a_lost_record_is_damage_and_not_an_empty_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
