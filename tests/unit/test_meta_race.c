// SPDX-License-Identifier: Apache-2.0
/*
 * Races: one operation is stopped right before one of its transactions, another operation runs from
 * beginning to end, and then the first one continues.
 */
#include "meta_gate.h"

#include <stdlib.h>

#include "base/arena.h"
#include "meta/schema.h"
#include "meta_api/id.h"

#define TOKEN 77

/* --- a create between the two steps of a rename ------------------------------------------------- */

/* Steps of the Tectonic paper (section 3.3): a rename reads the row of the old name (R1) and replaces it (R3); a create
 * writes the file record (C1) and the name (C2). */

#define FID 500ULL
#define FID_NEW 501ULL

static void create_f1(struct meta_fixture *fx)
{
	CHECK_EQ(try_create(fx, META_ROOT, "f1", FID_NEW, TOKEN, META_OVERWRITE), 0);
}

static void rename_f1(struct meta_fixture *fx)
{
	CHECK_EQ(ren(fx, "f1", "f2"), 0);
}

META_TEST(a_rename_R1_R3_does_not_erase_the_create_C1_C2_between)
{
	CHECK_EQ(try_create(fx, META_ROOT, "f1", FID, 0, 0), 0);
	gate_run(fx, META_LAYER_NAME, 0, create_f1, rename_f1);
	/* The create took effect first, so the rename moved its file, and the file still exists. */
	CHECK_EQ(id_at(fx, META_ROOT, "f1"), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "f2"), FID_NEW);
}

static void overwrite_f1(struct meta_fixture *fx)
{
	create_f1(fx);
}

META_TEST(a_create_C2_does_not_erase_the_rename_before_it)
{
	CHECK_EQ(try_create(fx, META_ROOT, "f1", FID, 0, 0), 0);
	/* The create reads the row of f1; before it stores the name (C2), the complete rename runs. */
	gate_run(fx, META_LAYER_NAME, 1, rename_f1, overwrite_f1);
	CHECK_EQ(id_at(fx, META_ROOT, "f1"), FID_NEW);
	CHECK_EQ(id_at(fx, META_ROOT, "f2"), FID);
}

static void remove_f1(struct meta_fixture *fx)
{
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("f1"), FID, 0), 0);
}

static void rename_refused(struct meta_fixture *fx)
{
	CHECK_EQ(ren(fx, "f1", "f2"), -ENOENT);
}

META_TEST(a_rename_of_a_name_removed_meanwhile_is_refused)
{
	CHECK_EQ(try_create(fx, META_ROOT, "f1", FID, 0, 0), 0);
	gate_run(fx, META_LAYER_NAME, 0, remove_f1, rename_refused);
	CHECK_EQ(id_at(fx, META_ROOT, "f2"), 0);
}

/* --- moves that cross --------------------------------------------------------------------------- */

#define A 200ULL
#define B 201ULL

static int move_into(struct meta_fixture *fx, const char *name, uint64_t to)
{
	return meta_move(fx->m, &fx->ctx,
			 &(struct meta_move){.from_dir = META_ROOT,
					     .from = meta_name(name),
					     .to_dir = to,
					     .to = meta_name(name),
					     .request = meta_id()});
}

static void move_b_into_a(struct meta_fixture *fx)
{
	int rc = move_into(fx, "b", A);
	CHECK(rc == 0 || rc == -EINVAL);
	CHECK_EQ(id_at(fx, A, "b") == B, rc == 0);
}

static void move_a_into_b(struct meta_fixture *fx)
{
	int rc = move_into(fx, "a", B);
	CHECK(rc == 0 || rc == -EINVAL);
	CHECK_EQ(id_at(fx, B, "a") == A, rc == 0);
}

static void cycle_body(struct meta_fixture *fx)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A, NULL), 0);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("b"), B, NULL), 0);
	/* The seed chooses the transaction at which the first move is stopped. */
	bool transfer = fx->seed > 6;
	gate_run(fx, transfer ? META_LAYER_TRANSFER : META_LAYER_NAME,
		 (unsigned)(transfer ? fx->seed - 7 : fx->seed - 1), move_b_into_a, move_a_into_b);
	bool a_in_b = id_at(fx, B, "a") == A;
	bool b_in_a = id_at(fx, A, "b") == B;
	CHECK(a_in_b != b_in_a);
}

static void of_two_moves_that_would_make_a_cycle_one_is_refused(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 9; seed++) {
		struct meta_fixture fx = fixture_of(cycle_body);
		fx.seed = seed;
		fixture_run(&fx);
	}
}

/* --- a decision without an answer ------------------------------------------------------------------ */

static void rename_a_to_c(struct meta_fixture *fx)
{
	int rc = ren(fx, "a", "c");
	CHECK(rc == 0 || rc == -ENOENT);
	CHECK_EQ(id_at(fx, META_ROOT, "c") == A, rc == 0);
}

static void move_in_doubt(struct meta_fixture *fx)
{
	CHECK_EQ(move_into(fx, "a", B), -ETIMEDOUT);
}

/*
 * The transaction that commits a move has no answer. Before its server asks for the outcome, another server aborts or
 * completes the transfer and deletes its record: the first server cannot know which, and must say so.
 */
static void decision_body(struct meta_fixture *fx)
{
	bool done = fx->seed == 2;
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A, NULL), 0);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("b"), B, NULL), 0);
	gate_run_fate(fx, META_LAYER_TRANSFER, 1, done ? GATE_UNANSWERED : GATE_NEVER_ARRIVES,
		      rename_a_to_c, move_in_doubt);
	CHECK_EQ(id_at(fx, B, "a"), done ? A : 0);
	CHECK_EQ(id_at(fx, META_ROOT, "c"), done ? 0 : A);
}

static void a_decision_that_another_server_ended_stays_in_doubt(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct meta_fixture fx = fixture_of(decision_body);
		fx.seed = seed;
		fixture_run(&fx);
	}
}

/* --- removal of a directory ----------------------------------------------------------------------- */

static void create_in_a(struct meta_fixture *fx)
{
	int rc = try_create(fx, A, "x", FID, 0, 0);
	CHECK(rc == 0 || rc == -ENOENT);
}

static void rmdir_a(struct meta_fixture *fx)
{
	int rc = meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A);
	CHECK(rc == 0 || rc == -ENOTEMPTY);
}

static void rmdir_body(struct meta_fixture *fx)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A, NULL), 0);
	bool transfer = fx->seed > 4;
	gate_run(fx, transfer ? META_LAYER_TRANSFER : META_LAYER_NAME,
		 (unsigned)(transfer ? fx->seed - 5 : fx->seed - 1), create_in_a, rmdir_a);
	/* Either the directory was removed and the file refused, or both exist. */
	CHECK_EQ(id_at(fx, META_ROOT, "a") == A, id_at(fx, A, "x") == FID);
}

static void a_directory_is_not_removed_with_what_is_created_in_it_meanwhile(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 7; seed++) {
		struct meta_fixture fx = fixture_of(rmdir_body);
		fx.seed = seed;
		fixture_run(&fx);
	}
}

/* --- a transfer that is met at each of its steps ---------------------------------------------------- */

/* The other operation and its result. The seed chooses it, and where the rename is stopped. */
struct meeting {
	struct meta_fixture fx; /* must be the first member, because the fixture casts */
	int other_rc;
	bool met;
};

static struct meeting *meeting_of(struct meta_fixture *fx)
{
	return container_of(fx, struct meeting, fx);
}

static void meet(struct meta_fixture *fx)
{
	struct meeting *t = meeting_of(fx);
	t->met = true;
	switch (fx->seed % 3) {
	case 0:
		t->other_rc = meta_remove(fx->m, &fx->ctx, A, meta_name("f"), FID, 0);
		break;
	case 1:
		t->other_rc = try_create(fx, A, "g", FID_NEW, 0, 0);
		break;
	default:
		t->other_rc = meta_rename(fx->m, &fx->ctx, A, meta_name("f"), meta_name("h"),
					  meta_id(), 0);
	}
}

static void meeting_body(struct meta_fixture *fx)
{
	struct meeting *t = meeting_of(fx);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A, NULL), 0);
	CHECK_EQ(try_create(fx, A, "f", FID, 0, 0), 0);
	char name[16];
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		CHECK_EQ(try_create(fx, A, name, 600 + i, 0, 0), 0);
	}
	struct gate g = {.base.ops = &gate_ops,
			 .fx = fx,
			 .other = meet,
			 .layer = fx->seed / 3 % 2 == 0 ? META_LAYER_NAME : META_LAYER_TRANSFER,
			 .skip = (unsigned)(fx->seed / 6)};
	CHECK_EQ(kv_mem_open(&g.below, fx->mem), 0);
	struct meta *slow;
	CHECK_EQ(meta_open(&slow, &g.base, &fx->options), 0);
	int rc = meta_rename(slow, &fx->ctx, A, meta_name("f"), meta_name("g"), meta_id(), 0);
	meta_close(slow);
	kv_close(&g.base);
	if (t->met) {
		/* One of the two operations took effect first, and the other was refused. */
		CHECK((rc == 0) != (t->other_rc == 0));
		CHECK_EQ(id_at(fx, A, "g") == FID, rc == 0);
		CHECK_EQ(id_at(fx, A, "f") == FID, rc == -EEXIST);
		CHECK_EQ(id_at(fx, A, "g") == FID_NEW, rc == -EEXIST);
		CHECK_EQ(id_at(fx, A, "h") == FID, rc != 0 && fx->seed % 3 == 2);
	}
	must_be_whole(fx);
	collect_all(fx);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

static void an_operation_during_a_rename_between_slices_comes_before_or_after_it(void **state)
{
	(void)state;
	unsigned met = 0;
	for (uint64_t seed = 0; seed < 36; seed++) {
		struct meeting t = {.fx = fixture_of(meeting_body)};
		t.fx.seed = seed;
		t.fx.options.spread_entries = 4;
		fixture_run(&t.fx);
		met += t.met;
	}
	assert_true(met >= 18);
}

/* --- directories that are shut meanwhile ------------------------------------------------------------ */

#define SUB 202ULL

static void seal_a(struct meta_fixture *fx)
{
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, A), 0);
}

static void remove_a(struct meta_fixture *fx)
{
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A), 0);
}

/* Other creates fill the directory until it is spread, and store the same name. */
static void spread_a(struct meta_fixture *fx)
{
	char name[16];
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		CHECK_EQ(try_create(fx, A, name, 600 + i, 0, 0), 0);
	}
	CHECK_EQ(try_create(fx, A, "sub", FID, 0, 0), 0);
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, A, &d), 0);
	CHECK(d.spread);
}

static void mkdir_in_a(struct meta_fixture *fx)
{
	int rc = meta_mkdir(fx->m, &fx->ctx, A, meta_name("sub"), SUB, NULL);
	CHECK_EQ(rc, fx->seed == 1 ? -EROFS : fx->seed == 2 ? -ENOENT : -EEXIST);
}

static void shut_body(struct meta_fixture *fx)
{
	static void (*const others[])(struct meta_fixture *) = {seal_a, remove_a, spread_a};
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A, NULL), 0);
	/* The first transaction writes the directory, the second its name. */
	gate_run(fx, META_LAYER_NAME, 1, others[fx->seed - 1], mkdir_in_a);
	CHECK_EQ(id_at(fx, A, "sub"), fx->seed == 3 ? FID : 0);
}

static void no_name_is_stored_in_a_directory_sealed_removed_or_spread_meanwhile(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct meta_fixture fx = fixture_of(shut_body);
		fx.seed = seed;
		fx.options.spread_entries = 4;
		fixture_run(&fx);
	}
}

/* --- requests that come late ------------------------------------------------------------------------ */

/* A delayed request stores a name; the request is sent again; then the name is removed or another file gets it. */
static int late_make(struct meta_fixture *fx, unsigned kind)
{
	int rc = 0;
	switch (kind) {
	case 0:
		return try_create(fx, META_ROOT, "n", FID, TOKEN, 0);
	case 1:
		return try_create(fx, META_ROOT, "n", FID, TOKEN, META_OVERWRITE);
	case 2:
		return meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("n"), FID, NULL);
	default:
		rc = meta_file_new(fx->m, &fx->ctx, META_ROOT, FID, TOKEN);
		return rc != 0 ? rc
			       : meta_link(fx->m, &fx->ctx, META_ROOT, meta_name("n"),
					   &(struct meta_naming){.file = FID,
								 .token = TOKEN,
								 .seal = true,
								 .mtime_ns = 1});
	}
}

static void late_body(struct meta_fixture *fx)
{
	unsigned kind = (unsigned)(fx->seed % 4);
	bool rename = fx->seed / 4 % 2 == 1;
	kv_mem_fail_at(fx->mem, fx->seed / 8 + 1, KV_MEM_LATE);
	late_make(fx, kind);
	if (kv_mem_fail_pending(fx->mem)) {
		kv_mem_fail_at(fx->mem, 0, KV_MEM_FINE);
		/* value that shows that the call was not reached */
		fx->options.partition_bits = 99;
	}
	CHECK_EQ(late_make(fx, kind), 0);
	if (rename)
		CHECK_EQ(ren(fx, "n", "m"), 0);
	else if (kind == 2)
		CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("n"), FID), 0);
	else
		CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("n"), FID, 0), 0);
	/* By now the delayed call has reached the store. */
	for (int i = 0; i < 40; i++)
		CHECK_EQ(id_at(fx, META_ROOT, "other"), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "n"), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "m"), rename ? FID : 0);
	must_be_whole(fx);
	collect_all(fx);
	CHECK_EQ(id_at(fx, META_ROOT, "m"), rename ? FID : 0);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

static void a_delayed_request_does_not_bring_a_name_back(void **state)
{
	(void)state;
	uint64_t call = 0;
	bool met = true;
	for (; met; call++) {
		met = false;
		for (uint64_t i = 0; i < 8; i++) {
			struct meta_fixture fx = fixture_of(late_body);
			fx.seed = 8 * call + i;
			fixture_run(&fx);
			met = met || fx.options.partition_bits != 99;
		}
	}
	assert_true(call > 5);
}

/* --- one writer ------------------------------------------------------------------------------------ */

#define WRITERS 5
#define ADDS 12

struct writers {
	struct meta_fixture *fx;
	uint64_t file;
	/* names of which the create was acknowledged, and names of which it is in doubt */
	uint64_t acked[WRITERS * ADDS];
	size_t acked_count;
	uint64_t maybe[WRITERS * ADDS];
	size_t maybe_count;
	unsigned steals;
	unsigned fenced;
};

static int block_for(struct meta_fixture *fx, uint64_t block, uint64_t file)
{
	struct meta_chunk chunk;
	struct meta_block b = small_block(block, &chunk);
	struct meta_owner owner = {.file = file, .bytes = 10};
	int rc = meta_block_allocate(fx->m, &fx->ctx, &b);
	return rc != 0 ? rc : meta_block_commit(fx->m, &fx->ctx, &b, &owner, 1);
}

static void writer_fiber(void *arg)
{
	struct writers *w = arg;
	struct meta_fixture *fx = w->fx;
	for (unsigned i = 0; i < ADDS;) {
		uint64_t token = meta_id();
		struct meta_file f;
		struct meta_extent open;
		if (meta_file_steal(fx->m, &fx->ctx, w->file, token, &f, &open) != 0)
			continue;
		w->steals++;
		uint64_t at = f.size;
		int rc = 0;
		for (; i < ADDS && rc == 0; i++) {
			struct meta_extent x = {.block = meta_id(), .length = 10};
			if (block_for(fx, x.block, w->file) != 0)
				continue;
			rc = meta_file_add(fx->m, &fx->ctx, w->file, token, at, &x, 1);
			if (rc == 0)
				w->acked[w->acked_count++] = x.block;
			else if (kv_unknown(rc))
				w->maybe[w->maybe_count++] = x.block;
			else
				CHECK(rc == -ESTALE || rc == -EAGAIN);
			w->fenced += rc == -ESTALE;
			at += 10;
		}
	}
}

static size_t times(const uint64_t *list, size_t n, uint64_t block)
{
	size_t found = 0;
	for (size_t i = 0; i < n; i++)
		found += list[i] == block;
	return found;
}

static void writers_body(struct meta_fixture *fx)
{
	struct writers w = {.fx = fx, .file = FID};
	int rc;
	do {
		rc = try_create(fx, META_ROOT, "f", FID, TOKEN, 0);
	} while (rc != 0);
	struct rt_group group;
	rt_group_init(&group);
	for (unsigned i = 0; i < WRITERS; i++)
		CHECK_EQ(rt_group_spawn(&group, "writer", writer_fiber, &w), 0);
	rt_group_join(&group);
	kv_mem_calm(fx->mem);
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_file f;
	struct meta_part part = {0};
	CHECK_EQ(meta_file_get(fx->m, &fx->ctx, FID, &part, &arena, &f), 0);
	const struct meta_extent *list = part.extents;
	size_t n = part.count;
	CHECK_EQ(f.size, 10 * n);
	uint64_t blocks[WRITERS * ADDS];
	for (size_t i = 0; i < n; i++) {
		blocks[i] = list[i].block;
		CHECK_EQ(times(w.acked, w.acked_count, list[i].block) +
				 times(w.maybe, w.maybe_count, list[i].block),
			 1);
	}
	for (size_t i = 0; i < w.acked_count; i++)
		CHECK_EQ(times(blocks, n, w.acked[i]), 1);
	CHECK(w.steals > WRITERS && w.fenced > 0);
	arena_fini(&arena);
	must_be_whole(fx);
	collect_all(fx);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

static void
what_a_writer_was_told_is_added_is_there_once_however_often_tokens_are_stolen(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct meta_fixture fx = fixture_of(writers_body);
		fx.seed = seed;
		fx.mem_options = (struct kv_mem_options){.latency_min_ns = NS_PER_US,
							 .latency_max_ns = NS_PER_MS,
							 .timeout_ns = 5 * NS_PER_MS};
		fixture_run(&fx);
	}
}

/* --- a block that gets an owner while it is collected ----------------------------------------------- */

#define BLOCK 700ULL

static void own_block(struct meta_fixture *fx)
{
	struct meta_owner owner = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_own(fx->m, &fx->ctx, BLOCK, &owner, 1), 0);
}

static void collect_blocks(struct meta_fixture *fx)
{
	uint64_t epoch;
	CHECK_EQ(meta_gc_epoch(fx->m, &epoch), 0);
	for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
		struct meta_gc_cursor at = {0};
		struct meta_gc_counts counts = {0};
		while (!at.end)
			CHECK_EQ(meta_gc_step(fx->m, META_GC_BLOCKS, i, epoch, &at, &counts), 0);
	}
	CHECK_EQ(meta_gc_advance(fx->m, epoch), 0);
}

META_TEST(a_block_that_gets_an_owner_while_it_is_collected_stays)
{
	struct meta_chunk chunk;
	struct meta_block b = small_block(BLOCK, &chunk);
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &b, NULL, 0), 0);
	collect_blocks(fx);
	collect_blocks(fx);
	/* The collector has found no owner and is about to replace the record by DeadChunks. */
	struct gate g = {
		.base.ops = &gate_ops, .fx = fx, .other = own_block, .layer = META_LAYER_BLOCK};
	CHECK_EQ(kv_mem_open(&g.below, fx->mem), 0);
	struct meta_fixture through = *fx;
	CHECK_EQ(meta_open(&through.m, &g.base, &fx->options), 0);
	collect_blocks(&through);
	CHECK(g.stopped);
	meta_close(through.m);
	kv_close(&g.base);
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_block out;
	CHECK_EQ(meta_block_get(fx->m, &fx->ctx, &b.id, 1, &arena, &out), 0);
	CHECK_EQ(out.state, META_BLOCK_SEALED);
	arena_fini(&arena);
	must_be_whole(fx);
}

/* --- quota ----------------------------------------------------------------------------------------- */

static void quota_fiber(void *arg)
{
	struct writers *w = arg;
	for (unsigned i = 0; i < ADDS; i++) {
		int rc = block_for(w->fx, meta_id(), FID);
		CHECK(rc == 0 || rc == -EDQUOT);
		w->acked_count += rc == 0;
	}
}

static void quota_body(struct meta_fixture *fx)
{
	CHECK_EQ(meta_tenant_set_quota(fx->m, FIXTURE_TENANT, 305), 0);
	struct writers w = {.fx = fx};
	struct rt_group group;
	rt_group_init(&group);
	for (unsigned i = 0; i < WRITERS; i++)
		CHECK_EQ(rt_group_spawn(&group, "writer", quota_fiber, &w), 0);
	rt_group_join(&group);
	CHECK_EQ(w.acked_count, 30);
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(fx->m, FIXTURE_TENANT, &t), 0);
	CHECK_EQ(t.used_bytes, 300);
	collect_all(fx);
	CHECK_EQ(meta_tenant_get(fx->m, FIXTURE_TENANT, &t), 0);
	CHECK_EQ(t.used_bytes, 0);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

static void many_commits_at_once_do_not_pass_the_quota(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(quota_body);
	fx.mem_options = (struct kv_mem_options){.latency_min_ns = NS_PER_US,
						 .latency_max_ns = NS_PER_MS,
						 .timeout_ns = 5 * NS_PER_MS};
	fixture_run(&fx);
}

static uint64_t used_bytes(struct meta_fixture *fx)
{
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(fx->m, FIXTURE_TENANT, &t), 0);
	return t.used_bytes;
}

/* Commits whose deadlines end at different moments. */
static void late_commit_body(struct meta_fixture *fx)
{
	bool done = false;
	unsigned refused = 0;
	for (uint64_t time_ns = NS_PER_US; !done; time_ns += 100 * NS_PER_US) {
		struct meta_chunk chunk;
		struct meta_block b = small_block(meta_id(), &chunk);
		uint64_t before = used_bytes(fx);
		CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &b), 0);
		rt_deadline_set(rt_now_ns() + time_ns);
		int rc = meta_block_commit(fx->m, &fx->ctx, &b, NULL, 0);
		rt_deadline_set(RT_NEVER);
		CHECK(rc == 0 || rc == -ETIME || rc == -ETIMEDOUT);
		if (rc != -ETIMEDOUT)
			CHECK_EQ(used_bytes(fx) - before, rc == 0 ? b.length : 0);
		refused += rc == -ETIME;
		done = rc == 0;
	}
	CHECK(refused > 10);
}

static void a_commit_that_is_refused_after_its_deadline_is_not_charged(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(late_commit_body);
	fx.mem_options = (struct kv_mem_options){.latency_min_ns = NS_PER_MS,
						 .latency_max_ns = NS_PER_MS,
						 .timeout_ns = 5 * NS_PER_MS};
	fixture_run(&fx);
}

/* --- a seal and a move ------------------------------------------------------------------------------- */

static size_t names_in(struct meta_fixture *fx, uint64_t dir)
{
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_page page;
	CHECK_EQ(meta_list(fx->m, &fx->ctx, dir, &(struct meta_cursor){0}, 0, &arena, &page), 0);
	size_t n = page.count;
	arena_fini(&arena);
	return n;
}

struct sealing {
	struct meta_fixture fx; /* must be the first member, because the fixture casts */
	size_t names;           /* number of names in the directory when the seal returned */
};

static void seal_and_count(struct meta_fixture *fx)
{
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, A), 0);
	container_of(fx, struct sealing, fx)->names = names_in(fx, A);
}

static void move_y(struct meta_fixture *fx)
{
	bool into = fx->seed % 2 == 0;
	int rc = meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = into ? B : A,
					       .from = meta_name("y"),
					       .to_dir = into ? A : B,
					       .to = meta_name("y"),
					       .new_id = FID_NEW,
					       .request = meta_id()});
	CHECK(rc == 0 || rc == -EROFS);
}

static void sealing_body(struct meta_fixture *fx)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), A, NULL), 0);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("b"), B, NULL), 0);
	CHECK_EQ(try_create(fx, fx->seed % 2 == 0 ? B : A, "y", FID, 0, 0), 0);
	/*
	 * The seal is stopped before each of its transactions on names, then before the one on the
	 * directory's record.
	 */
	unsigned at = (unsigned)fx->seed / 2;
	gate_run(fx, at < 4 ? META_LAYER_NAME : META_LAYER_TRANSFER, at < 4 ? at : at - 4,
		 seal_and_count, move_y);
	CHECK_EQ(names_in(fx, A), container_of(fx, struct sealing, fx)->names);
}

static void a_directory_does_not_change_after_its_seal_returned(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 12; seed++) {
		struct sealing s = {.fx = fixture_of(sealing_body)};
		s.fx.seed = seed;
		fixture_run(&s.fx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rename_R1_R3_does_not_erase_the_create_C1_C2_between),
		cmocka_unit_test(a_create_C2_does_not_erase_the_rename_before_it),
		cmocka_unit_test(a_rename_of_a_name_removed_meanwhile_is_refused),
		cmocka_unit_test(of_two_moves_that_would_make_a_cycle_one_is_refused),
		cmocka_unit_test(a_decision_that_another_server_ended_stays_in_doubt),
		cmocka_unit_test(a_directory_is_not_removed_with_what_is_created_in_it_meanwhile),
		cmocka_unit_test(
			no_name_is_stored_in_a_directory_sealed_removed_or_spread_meanwhile),
		cmocka_unit_test(
			an_operation_during_a_rename_between_slices_comes_before_or_after_it),
		cmocka_unit_test(a_delayed_request_does_not_bring_a_name_back),
		cmocka_unit_test(
			what_a_writer_was_told_is_added_is_there_once_however_often_tokens_are_stolen),
		cmocka_unit_test(a_block_that_gets_an_owner_while_it_is_collected_stays),
		cmocka_unit_test(many_commits_at_once_do_not_pass_the_quota),
		cmocka_unit_test(a_commit_that_is_refused_after_its_deadline_is_not_charged),
		cmocka_unit_test(a_directory_does_not_change_after_its_seal_returned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
