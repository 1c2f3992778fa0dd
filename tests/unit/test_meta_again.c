// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that arrive twice: sent again after other requests changed the state, or executed by two
 * servers at once, one of which fails. An acknowledged result stays.
 */
#include "base/arena.h"
#include "meta_api/id.h"
#include "meta_fixture.h"

#include "meta/schema.h"

#define TOKEN 77
#define FID 900ULL
#define BLOCK 700ULL
#define DIR 800ULL
#define REQUEST 4242ULL

static void block_make(struct meta_fixture *fx)
{
	struct meta_chunk chunk;
	struct meta_block b = small_block(BLOCK, &chunk);
	struct meta_owner o = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &b, &o, 1), 0);
}

static void clean_in_the_end(struct meta_fixture *fx)
{
	must_be_whole(fx);
	collect_all(fx);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

/* --- a batch in a directory that has grown ---------------------------------------------------------- */

static int batch(struct meta_fixture *fx, uint64_t dir)
{
	struct meta_extent x = {.block = BLOCK, .length = 10};
	struct meta_create c[2] = {
		{.name = meta_name("p"), .id = FID, .extents = &x, .extent_count = 1},
		{.name = meta_name("q"), .id = FID + 1}};
	int results[2] = {0};
	int rc = meta_create(fx->m, &fx->ctx, dir, c, 2, 0, results);
	return rc != 0 ? rc : results[0] != 0 ? results[0] : results[1];
}

static void batch_body(struct meta_fixture *fx)
{
	block_make(fx);
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	CHECK_EQ(batch(fx, d), 0);
	char name[16];
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		must_create(fx, d, name);
	}
	struct meta_dir md;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, d, &md), 0);
	CHECK(md.spread);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, d, meta_name("p"), FID, 0), 0);
	CHECK_EQ(batch(fx, d), 0);
	CHECK_EQ(id_at(fx, d, "p"), 0);
	CHECK_EQ(id_at(fx, d, "q"), FID + 1);
	clean_in_the_end(fx);
}

static void a_batch_sent_again_does_not_bring_back_what_was_removed_before_the_spread(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(batch_body);
	fx.options.spread_entries = 16;
	fixture_run(&fx);
}

/* --- fences ------------------------------------------------------------------------------------------- */

META_TEST(a_delayed_fence_does_not_admit_the_old_writer_again)
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
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &b, &o, 1), 0);
	CHECK_EQ(meta_block_fence(fx->m, &fx->ctx, BLOCK, 2, &arena, &out), 0);
	CHECK_EQ(meta_block_fence(fx->m, &fx->ctx, BLOCK, 3, &arena, &out), 0);
	CHECK_EQ(meta_block_fence(fx->m, &fx->ctx, BLOCK, 3, &arena, &out), 0);
	CHECK_EQ(meta_block_fence(fx->m, &fx->ctx, BLOCK, 2, &arena, &out), -ESTALE);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, BLOCK, 2, 0, 5, 1), -ESTALE);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, BLOCK, 3, 0, 5, 1), 0);
	arena_fini(&arena);
}

/* --- two servers, one of which fails ------------------------------------------------------------------ */

/*
 * Before the n-th transaction of this server another server executes the same request; then the
 * transaction is refused.
 */
struct twin {
	struct kv base;
	struct kv *below;
	struct meta_fixture *fx;
	unsigned at;
	int error;
	unsigned count;
	int (*op)(struct meta_fixture *fx);
	bool met;
	bool goes_on; /* run the transaction instead of refusing it */
};

static struct twin *twin_of(struct kv *kv)
{
	return container_of(kv, struct twin, base);
}

static int twin_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		    struct kv_rows *rows)
{
	return kv_get(twin_of(kv)->below, partition, keys, n, rows);
}

static int twin_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
		     struct kv_rows *rows)
{
	return kv_scan(twin_of(kv)->below, partition, range, rows);
}

static int twin_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	struct twin *t = twin_of(kv);
	if (++t->count != t->at)
		return kv_txn(t->below, partition, txn, failed);
	t->met = true;
	CHECK_EQ(t->op(t->fx), 0);
	return t->goes_on ? kv_txn(t->below, partition, txn, failed) : t->error;
}

static void twin_close(struct kv *kv)
{
	kv_close(twin_of(kv)->below);
}

static const struct kv_ops twin_ops = {
	.name = "twin", .get = twin_get, .scan = twin_scan, .txn = twin_txn, .close = twin_close};

/* Returns whether the n-th transaction was reached. */
static bool twin_run(struct meta_fixture *fx, unsigned at, int error,
		     int (*op)(struct meta_fixture *))
{
	struct twin t = {.base.ops = &twin_ops, .fx = fx, .error = error, .op = op};
	CHECK_EQ(kv_mem_open(&t.below, fx->mem), 0);
	struct meta_fixture through = *fx;
	through.kv = &t.base;
	CHECK_EQ(meta_open(&through.m, &t.base, &fx->options), 0);
	t.count = 0;
	t.at = at;
	int rc = op(&through);
	/* any error is allowed, because the other server has executed the request */
	CHECK(rc <= 0);
	meta_close(through.m);
	kv_close(&t.base);
	return t.met;
}

static int rename_root(struct meta_fixture *fx, const char *from, const char *to, uint64_t request)
{
	return meta_rename(fx->m, &fx->ctx, META_ROOT, meta_name(from), meta_name(to), request, 0);
}

static int mkdir_op(struct meta_fixture *fx)
{
	return meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("n"), FID, NULL);
}

static int create_op(struct meta_fixture *fx)
{
	return try_create(fx, META_ROOT, "n", FID, TOKEN, 0);
}

static int packed_op(struct meta_fixture *fx)
{
	struct meta_extent x = {.block = BLOCK, .length = 10};
	struct meta_create c = {
		.name = meta_name("n"), .id = FID, .extents = &x, .extent_count = 1};
	int result = 0;
	int rc = meta_create(fx->m, &fx->ctx, META_ROOT, &c, 1, 0, &result);
	return rc != 0 ? rc : result;
}

static int link_op(struct meta_fixture *fx)
{
	return meta_link(
		fx->m, &fx->ctx, META_ROOT, meta_name("n"),
		&(struct meta_naming){.file = FID, .token = TOKEN, .seal = true, .mtime_ns = 1});
}

static int move_op(struct meta_fixture *fx)
{
	return meta_move(fx->m, &fx->ctx,
			 &(struct meta_move){.from_dir = META_ROOT,
					     .from = meta_name("f"),
					     .to_dir = DIR,
					     .to = meta_name("n"),
					     .new_id = FID + 1,
					     .request = REQUEST});
}

static void twin_body(struct meta_fixture *fx)
{
	static int (*const ops[])(struct meta_fixture *) = {mkdir_op, create_op, packed_op, link_op,
							    move_op};
	static const int errors[] = {-EAGAIN, -EHOSTUNREACH, -ENOMEM};
	unsigned which = (unsigned)fx->seed % 5;
	unsigned at = (unsigned)fx->seed / 5 / 3;
	block_make(fx);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), DIR, NULL), 0);
	if (which == 3)
		CHECK_EQ(meta_file_new(fx->m, &fx->ctx, META_ROOT, FID, TOKEN), 0);
	if (which == 4)
		CHECK_EQ(try_create(fx, META_ROOT, "f", FID, 0, 0), 0);
	bool met = twin_run(fx, at + 1, errors[fx->seed / 5 % 3], ops[which]);
	CHECK(met || at > 1);
	uint64_t dir = which == 4 ? DIR : META_ROOT;
	uint64_t id = which == 4 ? FID + 1 : FID;
	CHECK_EQ(id_at(fx, dir, "n"), id);
	clean_in_the_end(fx);
	CHECK_EQ(id_at(fx, dir, "n"), id);
	if (which == 0) {
		must_create(fx, FID, "x");
		return;
	}
	struct arena arena;
	struct meta_file f = {0};
	arena_init(&arena, MIB);
	CHECK_EQ(meta_file_get(fx->m, &fx->ctx, id, NULL, &arena, &f), 0);
	CHECK(f.linked && !f.removed);
	arena_fini(&arena);
}

static void a_server_that_fails_does_not_undo_what_another_did(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 5UL * 3 * 8; seed++) {
		struct meta_fixture fx = fixture_of(twin_body);
		fx.seed = seed;
		fixture_run(&fx);
	}
}

/* A file whose name was refused can get another name. */
META_TEST(a_file_whose_name_was_refused_may_get_one_other_name)
{
	must_create(fx, META_ROOT, "n");
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, META_ROOT, FID, TOKEN), 0);
	CHECK_EQ(link_op(fx), -EEXIST);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(meta_link(
				 fx->m, &fx->ctx, META_ROOT, meta_name("m"),
				 &(struct meta_naming){
					 .file = FID, .token = TOKEN, .seal = true, .mtime_ns = 1}),
			 0);
	CHECK_EQ(meta_link(fx->m, &fx->ctx, META_ROOT, meta_name("k"),
			   &(struct meta_naming){
				   .file = FID, .token = TOKEN, .seal = true, .mtime_ns = 1}),
		 -EPERM);
	CHECK_EQ(id_at(fx, META_ROOT, "m"), FID);
	clean_in_the_end(fx);
}

/* A refused create leaves no orphan, and is refused again when it is sent again after the name became free. */
META_TEST(a_create_that_was_refused_is_refused_again)
{
	uint64_t other = must_create(fx, META_ROOT, "n");
	CHECK_EQ(create_op(fx), -EEXIST);
	struct meta_check_report report = must_be_whole(fx);
	CHECK_EQ(report.files, 1);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("n"), other, 0), 0);
	CHECK_EQ(create_op(fx), -EEXIST);
	CHECK_EQ(id_at(fx, META_ROOT, "n"), 0);
	/* the one file is the removed file, until it is collected */
	CHECK_EQ(must_be_whole(fx).files, 1);
	must_create(fx, META_ROOT, "n");
	clean_in_the_end(fx);
}

static int create_in_dir(struct meta_fixture *fx)
{
	return try_create(fx, DIR, "n", FID, TOKEN, 0);
}

/* The other server finds the name free and stores it; then the directory is sealed. */
static int twin_makes_and_seals(struct meta_fixture *fx)
{
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, DIR, meta_name("n"), FID + 1, 0), 0);
	CHECK_EQ(create_in_dir(fx), 0);
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, DIR), 0);
	return 0;
}

META_TEST(a_create_that_another_server_carried_out_meanwhile_stays)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), DIR, NULL), 0);
	CHECK_EQ(try_create(fx, DIR, "n", FID + 1, 0, 0), 0);
	struct twin t = {.base.ops = &twin_ops,
			 .fx = fx,
			 .op = twin_makes_and_seals,
			 /*
			  * transactions: the record and the name, then the tombstone of the refusal
			  */
			 .at = 3,
			 .goes_on = true};
	CHECK_EQ(kv_mem_open(&t.below, fx->mem), 0);
	struct meta_fixture through = *fx;
	through.kv = &t.base;
	CHECK_EQ(meta_open(&through.m, &t.base, &fx->options), 0);
	t.count = 0;
	CHECK_EQ(create_in_dir(&through), 0);
	meta_close(through.m);
	kv_close(&t.base);
	CHECK(t.met);
	struct arena arena;
	struct meta_file f = {0};
	arena_init(&arena, MIB);
	CHECK_EQ(id_at(fx, DIR, "n"), FID);
	CHECK_EQ(meta_file_get(fx->m, &fx->ctx, FID, NULL, &arena, &f), 0);
	CHECK(f.linked && !f.removed);
	arena_fini(&arena);
}

META_TEST(a_removal_sent_again_does_not_succeed_for_a_renamed_directory)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), DIR, NULL), 0);
	CHECK_EQ(rename_root(fx, "d", "e", REQUEST), 0);
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), DIR), -ENOENT);
	CHECK_EQ(id_at(fx, META_ROOT, "e"), DIR);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("e"), DIR), 0);
	clean_in_the_end(fx);
}

/* --- blocks that went ------------------------------------------------------------------------------------ */

META_TEST(extents_in_a_collected_block_are_refused)
{
	block_make(fx);
	collect_all(fx); /* the block is unused for longer than the grace period */
	CHECK_EQ(packed_op(fx), -ENOENT);
	CHECK_EQ(id_at(fx, META_ROOT, "n"), 0);
	struct meta_extent x = {.block = BLOCK, .length = 10};
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, META_ROOT, FID + 1, TOKEN), 0);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, FID + 1, TOKEN, 0, &x, 1), -ENOENT);
	clean_in_the_end(fx);
}

/* The collector has marked the owner row; the file is created right before the row is deleted. */
META_TEST(a_file_created_right_before_collection_keeps_its_block)
{
	block_make(fx);
	struct meta_gc_counts counts = {0};
	collect_once(fx, &counts);
	collect_once(fx, &counts);
	CHECK_EQ(packed_op(fx), 0);
	clean_in_the_end(fx);
	CHECK_EQ(id_at(fx, META_ROOT, "n"), FID);
}

/* --- moves and renames sent again -------------------------------------------------------------------------- */

META_TEST(a_move_sent_again_does_not_move_a_new_file_of_the_name)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), DIR, NULL), 0);
	must_create(fx, META_ROOT, "f");
	CHECK_EQ(move_op(fx), 0);
	CHECK_EQ(meta_rename(fx->m, &fx->ctx, DIR, meta_name("n"), meta_name("z"), meta_id(), 0),
		 0);
	uint64_t fresh = must_create(fx, META_ROOT, "f");
	/* the request was executed before, so this copy changes nothing */
	CHECK_EQ(move_op(fx), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "f"), fresh);
	CHECK_EQ(id_at(fx, DIR, "n"), 0);
	CHECK_EQ(id_at(fx, DIR, "z"), FID + 1);
	clean_in_the_end(fx);
	/*
	 * This also holds after the note of the request was collected, because the name has another
	 * file now.
	 */
	CHECK_EQ(move_op(fx), -ESTALE);
	CHECK_EQ(id_at(fx, META_ROOT, "f"), fresh);
	clean_in_the_end(fx);
}

static void overwrite_f(struct meta_fixture *fx)
{
	CHECK_EQ(try_create(fx, META_ROOT, "f", FID + 2, 0, META_OVERWRITE), 0);
}

static int twin_overwrites(struct meta_fixture *fx)
{
	overwrite_f(fx);
	return 0;
}

/* Between the copy and the transfer of a move the source is replaced by another file. */
static void replaced_body(struct meta_fixture *fx)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), DIR, NULL), 0);
	CHECK_EQ(try_create(fx, META_ROOT, "f", FID, 0, 0), 0);
	struct twin t = {.base.ops = &twin_ops, .fx = fx, .op = twin_overwrites};
	CHECK_EQ(kv_mem_open(&t.below, fx->mem), 0);
	struct meta_fixture through = *fx;
	through.kv = &t.base;
	CHECK_EQ(meta_open(&through.m, &t.base, &fx->options), 0);
	t.count = 0;
	t.at = (unsigned)fx->seed;
	t.error = -ESTALE; /* the error that a change by another server causes */
	int rc = move_op(&through);
	meta_close(through.m);
	kv_close(&t.base);
	CHECK(t.met);
	CHECK(rc == -ESTALE || rc == -EAGAIN || rc == -EBUSY);
	CHECK_EQ(id_at(fx, META_ROOT, "f"), FID + 2);
	CHECK_EQ(id_at(fx, DIR, "n"), 0);
	clean_in_the_end(fx);
}

static void a_move_does_not_take_the_copy_of_one_file_for_that_of_another(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(replaced_body);
	/* transactions: the record, the copy and the transfer, then the row of the source */
	fx.seed = 4;
	fixture_run(&fx);
}

static void back_again_body(struct meta_fixture *fx)
{
	char name[16];
	uint64_t f = must_create(fx, META_ROOT, "f");
	for (unsigned i = 0; fx->options.spread_entries > 0 && i < 200; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		must_create(fx, META_ROOT, name);
	}
	CHECK_EQ(rename_root(fx, "f", "g", REQUEST), 0);
	CHECK_EQ(rename_root(fx, "g", "f", meta_id()), 0);
	CHECK_EQ(rename_root(fx, "f", "g", REQUEST), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "f"), f);
	CHECK_EQ(id_at(fx, META_ROOT, "g"), 0);
	/* The result is the same when no row of the move is left. */
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("f"), f, 0), 0);
	CHECK_EQ(rename_root(fx, "f", "g", REQUEST), 0);
	CHECK_EQ(rename_root(fx, "f", "g", meta_id()), -ENOENT);
	clean_in_the_end(fx);
}

static void a_rename_sent_again_has_no_second_effect(void **state)
{
	(void)state;
	fixture_simple(back_again_body);
	struct meta_fixture fx = fixture_of(back_again_body);
	fx.options.spread_entries = 16;
	fixture_run(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_batch_sent_again_does_not_bring_back_what_was_removed_before_the_spread),
		cmocka_unit_test(a_server_that_fails_does_not_undo_what_another_did),
		cmocka_unit_test(a_file_whose_name_was_refused_may_get_one_other_name),
		cmocka_unit_test(a_create_that_was_refused_is_refused_again),
		cmocka_unit_test(a_create_that_another_server_carried_out_meanwhile_stays),
		cmocka_unit_test(a_removal_sent_again_does_not_succeed_for_a_renamed_directory),
		cmocka_unit_test(extents_in_a_collected_block_are_refused),
		cmocka_unit_test(a_file_created_right_before_collection_keeps_its_block),
		cmocka_unit_test(a_move_sent_again_does_not_move_a_new_file_of_the_name),
		cmocka_unit_test(a_move_does_not_take_the_copy_of_one_file_for_that_of_another),
		cmocka_unit_test(a_rename_sent_again_has_no_second_effect),
		cmocka_unit_test(a_delayed_fence_does_not_admit_the_old_writer_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
