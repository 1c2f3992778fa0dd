// SPDX-License-Identifier: Apache-2.0
/*
 * Quotas of directories: what is charged and refused, counts while names change, and a random mix of operations, counts and
 * faults, after which no ledger is too low and no tree beyond its limit.
 */
#include "meta_blk.h"
#include "meta_gate.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/bug.h"
#include "rt/sync.h"

/* --- helpers ------------------------------------------------------------------------------------ */

static void set_quota(struct meta_fixture *fx, uint64_t dir, uint64_t bytes, uint64_t files)
{
	bool created = false;
	const struct meta_dir_quota q = {
		.dir = dir, .path = "/q", .bytes_max = bytes, .files_max = files};
	CHECK_EQ(meta_dir_quota_set(fx->m, &fx->ctx, &q, &created), 0);
	if (created)
		CHECK_EQ(meta_dir_quota_count(fx->m, &fx->ctx, dir), 0);
}

static struct meta_dir_quota quota_of(struct meta_fixture *fx, uint64_t dir)
{
	struct meta_dir_quota *all, found = {0};
	struct arena a;
	arena_init(&a, MIB);
	int64_t n = meta_dir_quota_list(fx->m, &fx->ctx, &a, &all);
	CHECK(n >= 0);
	for (int64_t i = 0; i < n; i++)
		if (all[i].dir == dir)
			found = all[i];
	found.path = NULL;
	arena_fini(&a);
	return found;
}

static uint64_t files_of(struct meta_fixture *fx, uint64_t dir)
{
	return quota_of(fx, dir).used_files;
}

static uint64_t bytes_of(struct meta_fixture *fx, uint64_t dir)
{
	return quota_of(fx, dir).used_bytes;
}

/* Creates a file with one extent in a block of its own. */
static int create_sized(struct meta_fixture *fx, uint64_t dir, const char *name, uint64_t size,
			unsigned flags)
{
	struct blk k;
	struct meta_extent e = {.length = size};
	struct meta_create f = {
		.name = meta_name(name), .id = meta_id(), .extents = &e, .extent_count = 1};
	int result = 0;
	blk_init(&k, meta_id(), size);
	e.block = k.b.id;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	f.block = &k.b;
	int rc = meta_create(fx->m, &fx->ctx, dir, &f, 1, flags, &result);
	return rc != 0 ? rc : result;
}

static int move(struct meta_fixture *fx, uint64_t from, const char *name, uint64_t to)
{
	return meta_move(fx->m, &fx->ctx,
			 &(struct meta_move){.from_dir = from,
					     .from = meta_name(name),
					     .to_dir = to,
					     .to = meta_name(name),
					     .new_id = meta_id(),
					     .request = meta_id()});
}

static int drop(struct meta_fixture *fx, uint64_t dir, const char *name)
{
	return meta_remove(fx->m, &fx->ctx, dir, meta_name(name), 0, 0);
}

/* A complete count of the tenant. */
static void count(struct meta_fixture *fx)
{
	uint64_t pass = meta_id();
	CHECK(meta_dir_quota_begin(fx->m, &fx->ctx, pass) >= 0);
	CHECK_EQ(rt_sleep_ns(META_DIR_QUOTA_PAUSE_NS), 0);
	CHECK_EQ(meta_du_count(fx->m, &fx->ctx, pass), 0);
}

/* --- what is charged ------------------------------------------------------------------------------ */

META_TEST(names_beyond_the_quota_of_files_are_refused_and_removals_make_room)
{
	struct meta_over over = {0};
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	must_create(fx, d, "before");
	set_quota(fx, d, 0, 3);
	CHECK_EQ(files_of(fx, d), 1);
	uint64_t sub = must_mkdir(fx, d, "sub");
	must_create(fx, sub, "a");
	fx->ctx.over = &over;
	CHECK_EQ(try_create(fx, sub, "b", meta_id(), 0, 0), -EDQUOT);
	CHECK(over.dir == d && over.files && !over.of_tenant);
	CHECK(over.used == 3 && over.max == 3 && over.wanted == 1);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, d, meta_name("x"), meta_id(), NULL), -EDQUOT);
	fx->ctx.over = NULL;
	must_create(fx, META_ROOT, "elsewhere");
	CHECK_EQ(drop(fx, sub, "a"), 0);
	CHECK_EQ(drop(fx, sub, "a"), -ENOENT);
	CHECK_EQ(files_of(fx, d), 2);
	must_create(fx, sub, "b");
	CHECK_EQ(drop(fx, sub, "b"), 0);
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, d, meta_name("sub"), 0), 0);
	CHECK_EQ(files_of(fx, d), 1);
	must_be_whole(fx);
}

META_TEST(a_removal_that_is_sent_again_gives_back_once)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	set_quota(fx, d, 0, 10);
	must_create(fx, d, "a");
	must_create(fx, d, "b");
	uint64_t b = id_at(fx, d, "b"), sub = must_mkdir(fx, d, "sub");
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(meta_remove(fx->m, &fx->ctx, d, meta_name("b"), b, 0), 0);
		CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, d, meta_name("sub"), sub), 0);
	}
	CHECK_EQ(files_of(fx, d), 1);
}

META_TEST(every_quota_above_a_name_is_charged_or_none)
{
	uint64_t a = must_mkdir(fx, META_ROOT, "a");
	uint64_t b = must_mkdir(fx, a, "b");
	set_quota(fx, META_ROOT, 0, 100);
	set_quota(fx, a, 0, 50);
	set_quota(fx, b, 0, 1);
	must_create(fx, b, "1");
	CHECK(files_of(fx, META_ROOT) == 3 && files_of(fx, a) == 2 && files_of(fx, b) == 1);
	CHECK_EQ(try_create(fx, b, "2", meta_id(), 0, 0), -EDQUOT);
	CHECK_EQ(try_create(fx, b, "1", meta_id(), 0, 0), -EDQUOT);
	CHECK(files_of(fx, META_ROOT) == 3 && files_of(fx, a) == 2 && files_of(fx, b) == 1);
	/* What fails for another reason costs nothing. */
	CHECK_EQ(try_create(fx, META_ROOT, "a", meta_id(), 0, 0), -EEXIST);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, a, meta_name("b"), meta_id(), NULL), -EEXIST);
	CHECK_EQ(files_of(fx, META_ROOT), 3);
	CHECK_EQ(meta_dir_quota_clear(fx->m, &fx->ctx, b), 0);
	CHECK_EQ(meta_dir_quota_clear(fx->m, &fx->ctx, b), -ENOENT);
	must_create(fx, b, "2");
}

META_TEST(of_a_batch_only_the_stored_files_are_charged)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	must_create(fx, d, "taken");
	set_quota(fx, d, 0, 4);
	const struct meta_create files[3] = {{.name = meta_name("x"), .id = meta_id()},
					     {.name = meta_name("taken"), .id = meta_id()},
					     {.name = meta_name("a/b"), .id = meta_id()}};
	int results[3];
	CHECK_EQ(meta_create(fx->m, &fx->ctx, d, files, 3, 0, results), 0);
	CHECK(results[0] == 0 && results[1] == -EEXIST && results[2] == -EINVAL);
	CHECK_EQ(files_of(fx, d), 2);
	const struct meta_create more[3] = {{.name = meta_name("1"), .id = meta_id()},
					    {.name = meta_name("2"), .id = meta_id()},
					    {.name = meta_name("3"), .id = meta_id()}};
	CHECK_EQ(meta_create(fx->m, &fx->ctx, d, more, 3, 0, results), -EDQUOT);
	CHECK_EQ(id_at(fx, d, "1"), 0);
	CHECK_EQ(meta_create(fx->m, &fx->ctx, d, more, 2, 0, results), 0);
	CHECK_EQ(files_of(fx, d), 4);
}

META_TEST(bytes_are_those_of_the_files_that_the_names_lead_to)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	set_quota(fx, d, 250, 0);
	CHECK_EQ(create_sized(fx, d, "a", 100, 0), 0);
	CHECK_EQ(create_sized(fx, d, "b", 151, 0), -EDQUOT);
	CHECK_EQ(create_sized(fx, d, "b", 100, 0), 0);
	/* An empty file needs no bytes; a copy needs those of its source, though it shares its blocks. */
	must_create(fx, d, "empty");
	struct meta_move copy = {.from_dir = d,
				 .from = meta_name("a"),
				 .to_dir = d,
				 .to = meta_name("copy"),
				 .new_id = meta_id(),
				 .request = meta_id()};
	CHECK_EQ(meta_copy(fx->m, &fx->ctx, &copy), -EDQUOT);
	CHECK_EQ(bytes_of(fx, d), 200);
	CHECK_EQ(drop(fx, d, "b"), 0);
	copy.new_id = meta_id();
	CHECK_EQ(meta_copy(fx->m, &fx->ctx, &copy), 0);
	CHECK_EQ(bytes_of(fx, d), 200);
	/* A replaced file counts until the next count. */
	CHECK_EQ(drop(fx, d, "copy"), 0);
	CHECK_EQ(create_sized(fx, d, "a", 90, META_OVERWRITE), 0);
	CHECK_EQ(bytes_of(fx, d), 190);
	count(fx);
	CHECK_EQ(bytes_of(fx, d), 90);
	must_be_whole(fx);
}

static struct meta_extent block_for(struct meta_fixture *fx, uint64_t file, uint64_t length,
				    bool open)
{
	struct blk k;
	struct meta_owner o = {.file = file, .bytes = length};
	blk_init(&k, meta_id(), length);
	k.b.state = open ? META_BLOCK_OPEN : META_BLOCK_SEALED;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &o, 1), 0);
	return (struct meta_extent){.block = k.b.id, .length = open ? 0 : length, .open = open};
}

META_TEST(a_file_is_charged_when_it_gets_its_name_and_refused_before)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d"), f = meta_id();
	set_quota(fx, d, 250, 1);
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, d, f, 5), 0);
	struct meta_extent e = block_for(fx, f, 200, false);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, 5, 0, &e, 1), 0);
	CHECK_EQ(bytes_of(fx, d), 0);
	e = block_for(fx, f, 51, false);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, 5, 200, &e, 1), -EDQUOT);
	const struct meta_naming as = {.file = f, .token = 5, .seal = true};
	CHECK_EQ(meta_link(fx->m, &fx->ctx, d, meta_name("f"), &as), 0);
	CHECK(bytes_of(fx, d) == 200 && files_of(fx, d) == 1);
	uint64_t g = meta_id();
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, d, g, 5), 0);
	const struct meta_naming no = {.file = g, .token = 5, .seal = true};
	CHECK_EQ(meta_link(fx->m, &fx->ctx, d, meta_name("g"), &no), -EDQUOT);
	CHECK_EQ(drop(fx, d, "f"), 0);
	CHECK_EQ(meta_link(fx->m, &fx->ctx, d, meta_name("g"), &no), 0);
	CHECK(bytes_of(fx, d) == 0 && files_of(fx, d) == 1);
}

META_TEST(a_log_is_charged_as_its_extents_end_and_gets_none_beyond_the_quota)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d"), f = meta_id();
	set_quota(fx, d, 100, 0);
	CHECK_EQ(try_create(fx, d, "log", f, 5, 0), 0);
	struct meta_extent e = block_for(fx, f, 0, true);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, 5, 0, &e, 1), 0);
	CHECK_EQ(meta_file_close_extent(fx->m, &fx->ctx, f, 5, e.block, 120), 0);
	CHECK_EQ(bytes_of(fx, d), 120); /* bound 3 of quota.h */
	e = block_for(fx, f, 0, true);
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, 5, 120, &e, 1), -EDQUOT);
	count(fx);
	CHECK_EQ(bytes_of(fx, d), 120);
}

/* --- moves ---------------------------------------------------------------------------------------- */

META_TEST(a_move_charges_where_it_goes_and_gives_back_where_it_came_from)
{
	uint64_t a = must_mkdir(fx, META_ROOT, "a"), b = must_mkdir(fx, META_ROOT, "b");
	set_quota(fx, META_ROOT, 0, 100);
	set_quota(fx, a, 1000, 10);
	set_quota(fx, b, 150, 10);
	CHECK_EQ(create_sized(fx, a, "f", 100, 0), 0);
	CHECK_EQ(create_sized(fx, a, "g", 100, 0), 0);
	CHECK_EQ(move(fx, a, "f", b), 0);
	CHECK(bytes_of(fx, a) == 100 && files_of(fx, a) == 1);
	CHECK(bytes_of(fx, b) == 100 && files_of(fx, b) == 1);
	CHECK_EQ(move(fx, a, "g", b), -EDQUOT);
	CHECK(id_at(fx, a, "g") != 0 && bytes_of(fx, a) == 100 && bytes_of(fx, b) == 100);
	CHECK_EQ(move(fx, a, "f", b), -ENOENT);
	CHECK_EQ(bytes_of(fx, b), 100);
	CHECK_EQ(files_of(fx, META_ROOT), 4);
	CHECK_EQ(meta_rename(fx->m, &fx->ctx, b, meta_name("f"), meta_name("f2"), meta_id(), 0), 0);
	CHECK(files_of(fx, b) == 1 && files_of(fx, META_ROOT) == 4);
}

META_TEST(a_directory_moves_with_all_that_it_holds)
{
	uint64_t in = must_mkdir(fx, META_ROOT, "in"), t = must_mkdir(fx, META_ROOT, "t");
	uint64_t sub = must_mkdir(fx, t, "sub");
	for (unsigned i = 0; i < 5; i++)
		CHECK_EQ(create_sized(fx, sub, (char[]){'a' + (char)i, 0}, 10, 0), 0);
	set_quota(fx, in, 0, 6);
	CHECK_EQ(move(fx, META_ROOT, "t", in), -EDQUOT);
	set_quota(fx, in, 49, 7);
	CHECK_EQ(move(fx, META_ROOT, "t", in), -EDQUOT);
	CHECK(id_at(fx, META_ROOT, "t") == t && files_of(fx, in) == 0);
	set_quota(fx, in, 50, 7);
	CHECK_EQ(move(fx, META_ROOT, "t", in), 0);
	CHECK(files_of(fx, in) == 7 && bytes_of(fx, in) == 50);
	CHECK_EQ(move(fx, in, "t", META_ROOT), 0);
	CHECK(files_of(fx, in) == 0 && bytes_of(fx, in) == 0);
	/* The bound of a moved directory: what it got since its last count is charged by the next. */
	CHECK_EQ(drop(fx, sub, "a"), 0);
	must_create(fx, sub, "x");
	must_create(fx, sub, "y");
	CHECK_EQ(move(fx, META_ROOT, "t", in), 0);
	CHECK_EQ(files_of(fx, in), 7);
	count(fx);
	CHECK(files_of(fx, in) == 8 && bytes_of(fx, in) == 40);
	CHECK_EQ(try_create(fx, in, "z", meta_id(), 0, 0), -EDQUOT);
}

/* --- counts --------------------------------------------------------------------------------------- */

META_TEST(names_that_change_while_a_count_waits_or_walks_are_not_lost)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d"), pass = meta_id();
	set_quota(fx, d, 0, 100);
	must_create(fx, d, "old");
	must_create(fx, d, "old2");
	CHECK_EQ(meta_dir_quota_begin(fx->m, &fx->ctx, pass), 1);
	must_create(fx, d, "new");
	CHECK_EQ(drop(fx, d, "old"), 0);
	CHECK_EQ(files_of(fx, d), 2);
	CHECK_EQ(rt_sleep_ns(META_DIR_QUOTA_PAUSE_NS), 0);
	/* Another pass begins, so this one ends nothing. */
	uint64_t other = meta_id();
	CHECK_EQ(meta_dir_quota_begin(fx->m, &fx->ctx, other), 1);
	CHECK_EQ(meta_du_count(fx->m, &fx->ctx, pass), 0);
	CHECK_EQ(files_of(fx, d), 2);
	CHECK_EQ(meta_du_count(fx->m, &fx->ctx, other), 0);
	CHECK_EQ(files_of(fx, d), 2);
	count(fx);
	CHECK_EQ(files_of(fx, d), 2);
}

/* --- a change in the middle of a count -------------------------------------------------------------- */

#define PASS 99ULL
#define A 200ULL
#define C 201ULL

static void end_count(struct meta_fixture *fx)
{
	CHECK_EQ(meta_du_count(fx->m, &fx->ctx, PASS), 0);
}

static void two_dirs(struct meta_fixture *fx)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A, NULL), 0);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("c"), C, NULL), 0);
	must_create(fx, A, "f");
	set_quota(fx, META_ROOT, 0, 100);
	CHECK_EQ(meta_dir_quota_begin(fx->m, &fx->ctx, PASS), 1);
	CHECK_EQ(rt_sleep_ns(META_DIR_QUOTA_PAUSE_NS), 0);
}

static void move_f(struct meta_fixture *fx)
{
	CHECK_EQ(move(fx, A, "f", C), 0);
}

/* The walk has left c and has not entered a: it meets the file in neither. */
META_TEST(a_file_that_moves_behind_the_walk_is_still_counted)
{
	two_dirs(fx);
	gate_run(fx, META_LAYER_NAME, 0, move_f, end_count);
	struct meta_usage u;
	CHECK_EQ(meta_du(fx->m, &fx->ctx, META_ROOT, &u), 0);
	CHECK_EQ(u.files, 0);
	CHECK_EQ(files_of(fx, META_ROOT), 3);
	count(fx);
	CHECK_EQ(files_of(fx, META_ROOT), 3);
}

static void remove_f(struct meta_fixture *fx)
{
	CHECK_EQ(drop(fx, A, "f"), 0);
}

/* The walk begins and ends between the removal of the name and what it gives back. */
META_TEST(a_file_that_the_walk_missed_is_not_given_back_again)
{
	two_dirs(fx);
	gate_run(fx, META_LAYER_TENANT, 0, end_count, remove_f);
	CHECK_EQ(files_of(fx, META_ROOT), 2);
}

META_TEST(the_quota_of_a_removed_directory_ends_with_the_next_count)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	set_quota(fx, d, 0, 100);
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), d), 0);
	count(fx);
	CHECK_EQ(quota_of(fx, d).files_max, 0);
	CHECK_EQ(meta_dir_quota_begin(fx->m, &fx->ctx, meta_id()), 0);
}

META_TEST(operators_limit_the_files_of_a_tenant_and_it_cannot_lift_that)
{
	struct meta_over over = {0};
	must_mkdir(fx, META_ROOT, "d");
	CHECK_EQ(meta_tenant_set_files(fx->m, FIXTURE_TENANT, 2), 0);
	CHECK_EQ(meta_tenant_set_files(fx->m, 99, 2), -ENOENT);
	set_quota(fx, META_ROOT, 0, 50);
	must_create(fx, META_ROOT, "a");
	CHECK_EQ(meta_dir_quota_clear(fx->m, &fx->ctx, META_ROOT), 0);
	fx->ctx.over = &over;
	CHECK_EQ(try_create(fx, META_ROOT, "b", meta_id(), 0, 0), -EDQUOT);
	CHECK(over.of_tenant && over.max == 2);
	fx->ctx.over = NULL;
	CHECK_EQ(quota_of(fx, META_ROOT).tenant_files_max, 2);
	CHECK_EQ(meta_tenant_set_files(fx->m, FIXTURE_TENANT, 0), 0);
	CHECK_EQ(quota_of(fx, META_ROOT).dir, 0);
	must_create(fx, META_ROOT, "b");
}

META_TEST(bad_quotas_are_refused)
{
	bool created;
	uint64_t f = must_create(fx, META_ROOT, "f");
	struct meta_dir_quota q = {.dir = 0, .path = "/", .files_max = 1};
	CHECK_EQ(meta_dir_quota_set(fx->m, &fx->ctx, &q, &created), -EINVAL);
	q.dir = f;
	CHECK_EQ(meta_dir_quota_set(fx->m, &fx->ctx, &q, &created), -ENOENT);
	q.path = NULL;
	CHECK_EQ(meta_dir_quota_set(fx->m, &fx->ctx, &q, &created), -EINVAL);
	for (unsigned i = 0; i <= META_DIR_QUOTAS_MAX; i++) {
		char name[16];
		snprintf(name, sizeof(name), "d%u", i);
		q = (struct meta_dir_quota){
			.dir = must_mkdir(fx, META_ROOT, name), .path = "/d", .files_max = 1};
		CHECK_EQ(meta_dir_quota_set(fx->m, &fx->ctx, &q, &created),
			 i < META_DIR_QUOTAS_MAX ? 0 : -ENOSPC);
	}
	must_be_whole(fx);
}

/* With either of these bugs the comparison of ledgers with trees, which the mix of operations below makes, fails. */
META_TEST(planted_bugs_show_as_a_tree_beyond_its_quota_or_its_ledger)
{
	uint64_t in = must_mkdir(fx, META_ROOT, "in");
	set_quota(fx, in, 0, 1);
	must_create(fx, META_ROOT, "f");
	must_create(fx, in, "g");
	bug_plant(BUG_DIR_QUOTA_IGNORED);
	must_create(fx, in, "h");
	bug_plant(BUG_NONE);
	CHECK(files_of(fx, in) == 2 && quota_of(fx, in).files_max == 1);
	set_quota(fx, in, 0, 10);
	bug_plant(BUG_MOVE_UNPAID);
	CHECK_EQ(move(fx, META_ROOT, "f", in), 0);
	bug_plant(BUG_NONE);
	struct meta_usage u;
	CHECK_EQ(meta_du_refresh(fx->m, &fx->ctx, in), 0);
	CHECK_EQ(meta_du(fx->m, &fx->ctx, in, &u), 0);
	CHECK(u.files == 3 && files_of(fx, in) == 2);
}

/* --- random ----------------------------------------------------------------------------------------- */

#define MIX_DIRS 4 /* a, a/b, c, and the root */
#define MIX_WORKERS 4
#define MIX_NAMES 12

struct mix {
	struct meta_fixture *fx;
	uint64_t dirs[MIX_DIRS];
	bool stop, faults;
};

static void mix_step(struct mix *x)
{
	struct meta_fixture *fx = x->fx;
	uint64_t dir = x->dirs[rt_random_u64() % MIX_DIRS],
		 to = x->dirs[rt_random_u64() % MIX_DIRS];
	char name[16], other[16];
	snprintf(name, sizeof(name), "f%u", (unsigned)(rt_random_u64() % MIX_NAMES));
	snprintf(other, sizeof(other), "f%u", (unsigned)(rt_random_u64() % MIX_NAMES));
	switch (rt_random_u64() % 8) {
	case 0:
	case 1:
	case 2:
		(void)try_create(fx, dir, name, meta_id(), 0, META_OVERWRITE);
		break;
	case 3:
		(void)meta_mkdir(fx->m, &fx->ctx, dir, meta_name(name), meta_id(), NULL);
		break;
	case 4:
		(void)drop(fx, dir, name);
		(void)meta_rmdir(fx->m, &fx->ctx, dir, meta_name(name), 0);
		break;
	case 5:
		(void)meta_rename(fx->m, &fx->ctx, dir, meta_name(name), meta_name(other),
				  meta_id(), META_OVERWRITE);
		break;
	default:
		(void)move(fx, dir, name, to);
		break;
	}
}

static void mix_worker(void *arg)
{
	struct mix *x = arg;
	static const enum kv_mem_fate fates[] = {KV_MEM_REQUEST_LOST, KV_MEM_REPLY_LOST,
						 KV_MEM_LATE};
	while (!x->stop) {
		if (x->faults && rt_random_u64() % 8 == 0)
			kv_mem_fail_at(x->fx->mem, 1 + rt_random_u64() % 6,
				       fates[rt_random_u64() % ARRAY_LEN(fates)]);
		mix_step(x);
		CHECK_EQ(rt_sleep_ns(rt_random_u64() % (20 * NS_PER_S)), 0);
	}
}

static void mix_counter(void *arg)
{
	struct mix *x = arg;
	struct meta_fixture *fx = x->fx;
	while (!x->stop) {
		uint64_t pass = meta_id();
		if (meta_dir_quota_begin(fx->m, &fx->ctx, pass) > 0 &&
		    rt_sleep_ns(META_DIR_QUOTA_PAUSE_NS) == 0)
			(void)meta_du_count(fx->m, &fx->ctx, pass);
		CHECK_EQ(rt_sleep_ns(rt_random_u64() % (60 * NS_PER_S)), 0);
	}
}

static uint64_t mix_limit(unsigned dir)
{
	return dir == 3 ? 42 : 14;
}

/* Compares the ledgers with the trees; nothing else runs. */
static void mix_compare(struct mix *x, bool exact)
{
	struct meta_fixture *fx = x->fx;
	CHECK_EQ(meta_du_refresh(fx->m, &fx->ctx, META_ROOT), 0);
	for (unsigned i = 0; i < MIX_DIRS; i++) {
		struct meta_usage u;
		struct meta_dir_quota q = quota_of(fx, x->dirs[i]);
		CHECK_EQ(meta_du(fx->m, &fx->ctx, x->dirs[i], &u), 0);
		CHECK_EQ(q.dir, x->dirs[i]);
		uint64_t there = u.files + u.dirs;
		if (q.used_files < there || there > mix_limit(i) ||
		    (exact && q.used_files != there))
			fprintf(stderr, "seed %lu, directory %u: ledger %lu, tree %lu\n", fx->seed,
				i, q.used_files, there);
		CHECK(q.used_files >= there);
		CHECK(there <= mix_limit(i));
		if (exact)
			CHECK_EQ(q.used_files, there);
	}
}

static void mix_body(struct meta_fixture *fx)
{
	struct mix x = {.fx = fx, .faults = fx->seed % 3 == 0};
	x.dirs[0] = must_mkdir(fx, META_ROOT, "a");
	x.dirs[1] = must_mkdir(fx, x.dirs[0], "b");
	x.dirs[2] = must_mkdir(fx, META_ROOT, "c");
	x.dirs[3] = META_ROOT;
	for (unsigned i = 0; i < MIX_DIRS; i++)
		set_quota(fx, x.dirs[i], 0, mix_limit(i));
	for (unsigned round = 0; round < 4; round++) {
		struct rt_group g;
		rt_group_init(&g);
		x.stop = false;
		for (unsigned i = 0; i < MIX_WORKERS; i++)
			CHECK_EQ(rt_group_spawn(&g, "mix", mix_worker, &x), 0);
		CHECK_EQ(rt_group_spawn(&g, "mix-count", mix_counter, &x), 0);
		CHECK_EQ(rt_sleep_ns(400 * NS_PER_S), 0);
		x.stop = true;
		rt_group_join(&g);
		kv_mem_fail_at(fx->mem, 0, KV_MEM_LATE);
		kv_mem_calm(fx->mem);
		mix_compare(&x, false);
	}
	count(fx);
	mix_compare(&x, true);
	must_be_whole(fx);
}

static void in_a_mix_of_operations_and_counts_no_ledger_is_too_low(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct meta_fixture fx = fixture_of(mix_body);
		fx.seed = seed;
		fx.options.spread_entries = seed % 2 == 0 ? 6 : 0;
		fx.mem_options.latency_min_ns = 100 * NS_PER_US;
		fx.mem_options.latency_max_ns = 300 * NS_PER_MS;
		fixture_run(&fx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			names_beyond_the_quota_of_files_are_refused_and_removals_make_room),
		cmocka_unit_test(a_removal_that_is_sent_again_gives_back_once),
		cmocka_unit_test(every_quota_above_a_name_is_charged_or_none),
		cmocka_unit_test(of_a_batch_only_the_stored_files_are_charged),
		cmocka_unit_test(bytes_are_those_of_the_files_that_the_names_lead_to),
		cmocka_unit_test(a_file_is_charged_when_it_gets_its_name_and_refused_before),
		cmocka_unit_test(
			a_log_is_charged_as_its_extents_end_and_gets_none_beyond_the_quota),
		cmocka_unit_test(a_move_charges_where_it_goes_and_gives_back_where_it_came_from),
		cmocka_unit_test(a_directory_moves_with_all_that_it_holds),
		cmocka_unit_test(names_that_change_while_a_count_waits_or_walks_are_not_lost),
		cmocka_unit_test(a_file_that_moves_behind_the_walk_is_still_counted),
		cmocka_unit_test(a_file_that_the_walk_missed_is_not_given_back_again),
		cmocka_unit_test(the_quota_of_a_removed_directory_ends_with_the_next_count),
		cmocka_unit_test(operators_limit_the_files_of_a_tenant_and_it_cannot_lift_that),
		cmocka_unit_test(bad_quotas_are_refused),
		cmocka_unit_test(planted_bugs_show_as_a_tree_beyond_its_quota_or_its_ledger),
		cmocka_unit_test(in_a_mix_of_operations_and_counts_no_ledger_is_too_low),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
