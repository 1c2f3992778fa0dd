// SPDX-License-Identifier: Apache-2.0
/*
 * Races: one operation is stopped right before one of its transactions, another runs from beginning
 * to end, and the first continues.
 */
#include "meta_gate.h"

#include <stdlib.h>

#include "base/arena.h"
#include "meta/schema.h"
#include "meta_api/id.h"

#define TOKEN 77

/* --- R1 C1 C2 R3 ------------------------------------------------------------------------------- */

#define FID 500ULL
#define FID_NEW 501ULL

static void create_f1(struct rig *rig)
{
	CHECK_EQ(try_create(rig, META_ROOT, "f1", FID_NEW, TOKEN, META_OVERWRITE), 0);
}

static void rename_f1(struct rig *rig)
{
	CHECK_EQ(ren(rig, "f1", "f2"), 0);
}

static void paper_body(struct rig *rig)
{
	CHECK_EQ(try_create(rig, META_ROOT, "f1", FID, 0, 0), 0);
	gate_run(rig, META_LAYER_NAME, 0, create_f1, rename_f1);
	/* The create took effect first, so the rename moved its file, and the file still exists. */
	CHECK_EQ(id_at(rig, META_ROOT, "f1"), 0);
	CHECK_EQ(id_at(rig, META_ROOT, "f2"), FID_NEW);
}

static void a_rename_R1_R3_does_not_erase_the_create_C1_C2_between(void **state)
{
	(void)state;
	rig_simple(paper_body);
}

static void overwrite_f1(struct rig *rig)
{
	create_f1(rig);
}

static void paper_reverse_body(struct rig *rig)
{
	CHECK_EQ(try_create(rig, META_ROOT, "f1", FID, 0, 0), 0);
	/* The create reads f1 -> fid; before its C2 the whole rename runs. */
	gate_run(rig, META_LAYER_NAME, 1, rename_f1, overwrite_f1);
	CHECK_EQ(id_at(rig, META_ROOT, "f1"), FID_NEW);
	CHECK_EQ(id_at(rig, META_ROOT, "f2"), FID);
}

static void a_create_C2_does_not_erase_the_rename_before_it(void **state)
{
	(void)state;
	rig_simple(paper_reverse_body);
}

static void remove_f1(struct rig *rig)
{
	CHECK_EQ(meta_remove(rig->m, &rig->ctx, META_ROOT, meta_name("f1"), FID, 0), 0);
}

static void rename_refused(struct rig *rig)
{
	CHECK_EQ(ren(rig, "f1", "f2"), -ENOENT);
}

static void removed_body(struct rig *rig)
{
	CHECK_EQ(try_create(rig, META_ROOT, "f1", FID, 0, 0), 0);
	gate_run(rig, META_LAYER_NAME, 0, remove_f1, rename_refused);
	CHECK_EQ(id_at(rig, META_ROOT, "f2"), 0);
}

static void a_rename_of_a_name_removed_meanwhile_is_refused(void **state)
{
	(void)state;
	rig_simple(removed_body);
}

/* --- moves that cross --------------------------------------------------------------------------- */

#define A 200ULL
#define B 201ULL

static int move_into(struct rig *rig, const char *name, uint64_t to)
{
	return meta_move(rig->m, &rig->ctx,
			 &(struct meta_move){.from_dir = META_ROOT,
					     .from = meta_name(name),
					     .to_dir = to,
					     .to = meta_name(name),
					     .request = meta_id()});
}

static void move_b_into_a(struct rig *rig)
{
	int rc = move_into(rig, "b", A);
	CHECK(rc == 0 || rc == -EINVAL);
	CHECK_EQ(id_at(rig, A, "b") == B, rc == 0);
}

static void move_a_into_b(struct rig *rig)
{
	int rc = move_into(rig, "a", B);
	CHECK(rc == 0 || rc == -EINVAL);
	CHECK_EQ(id_at(rig, B, "a") == A, rc == 0);
}

static void cycle_body(struct rig *rig)
{
	CHECK_EQ(meta_mkdir(rig->m, &rig->ctx, META_ROOT, meta_name("a"), A), 0);
	CHECK_EQ(meta_mkdir(rig->m, &rig->ctx, META_ROOT, meta_name("b"), B), 0);
	/* The seed chooses the transaction at which the first move is stopped. */
	bool transfer = rig->seed > 6;
	gate_run(rig, transfer ? META_LAYER_TRANSFER : META_LAYER_NAME,
		 (unsigned)(transfer ? rig->seed - 7 : rig->seed - 1), move_b_into_a,
		 move_a_into_b);
	bool a_in_b = id_at(rig, B, "a") == A;
	bool b_in_a = id_at(rig, A, "b") == B;
	CHECK(a_in_b != b_in_a);
}

static void of_two_moves_that_would_make_a_cycle_one_is_refused(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 9; seed++) {
		struct rig rig = rig_of(cycle_body);
		rig.seed = seed;
		rig_run(&rig);
	}
}

/* --- removal of a directory ----------------------------------------------------------------------- */

static void create_in_a(struct rig *rig)
{
	int rc = try_create(rig, A, "x", FID, 0, 0);
	CHECK(rc == 0 || rc == -ENOENT);
}

static void rmdir_a(struct rig *rig)
{
	int rc = meta_rmdir(rig->m, &rig->ctx, META_ROOT, meta_name("a"), A);
	CHECK(rc == 0 || rc == -ENOTEMPTY);
}

static void rmdir_body(struct rig *rig)
{
	CHECK_EQ(meta_mkdir(rig->m, &rig->ctx, META_ROOT, meta_name("a"), A), 0);
	bool transfer = rig->seed > 4;
	gate_run(rig, transfer ? META_LAYER_TRANSFER : META_LAYER_NAME,
		 (unsigned)(transfer ? rig->seed - 5 : rig->seed - 1), create_in_a, rmdir_a);
	/* Either the directory was removed and the file refused, or both exist. */
	CHECK_EQ(id_at(rig, META_ROOT, "a") == A, id_at(rig, A, "x") == FID);
}

static void a_directory_is_not_removed_with_what_is_created_in_it_meanwhile(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 7; seed++) {
		struct rig rig = rig_of(rmdir_body);
		rig.seed = seed;
		rig_run(&rig);
	}
}

/* --- a transfer that is met at each of its steps ---------------------------------------------------- */

/* The other operation and its result. The seed chooses it, and where the rename is stopped. */
struct meeting {
	struct rig rig; /* first */
	int other_rc;
	bool met;
};

static struct meeting *meeting_of(struct rig *rig)
{
	return container_of(rig, struct meeting, rig);
}

static void meet(struct rig *rig)
{
	struct meeting *t = meeting_of(rig);
	t->met = true;
	switch (rig->seed % 3) {
	case 0:
		t->other_rc = meta_remove(rig->m, &rig->ctx, A, meta_name("f"), FID, 0);
		break;
	case 1:
		t->other_rc = try_create(rig, A, "g", FID_NEW, 0, 0);
		break;
	default:
		t->other_rc = meta_rename(rig->m, &rig->ctx, A, meta_name("f"), meta_name("h"),
					  meta_id(), 0);
	}
}

static void meeting_body(struct rig *rig)
{
	struct meeting *t = meeting_of(rig);
	CHECK_EQ(meta_mkdir(rig->m, &rig->ctx, META_ROOT, meta_name("a"), A), 0);
	CHECK_EQ(try_create(rig, A, "f", FID, 0, 0), 0);
	char name[16];
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		CHECK_EQ(try_create(rig, A, name, 600 + i, 0, 0), 0);
	}
	struct gate g = {.base.ops = &gate_ops,
			 .rig = rig,
			 .other = meet,
			 .layer = rig->seed / 3 % 2 == 0 ? META_LAYER_NAME : META_LAYER_TRANSFER,
			 .skip = (unsigned)(rig->seed / 6)};
	CHECK_EQ(kv_mem_open(&g.below, rig->mem), 0);
	struct meta *slow;
	CHECK_EQ(meta_open(&slow, &g.base, &rig->options), 0);
	int rc = meta_rename(slow, &rig->ctx, A, meta_name("f"), meta_name("g"), meta_id(), 0);
	meta_close(slow);
	kv_close(&g.base);
	if (t->met) {
		/* One of them took effect first, and the other was refused. */
		CHECK((rc == 0) != (t->other_rc == 0));
		CHECK_EQ(id_at(rig, A, "g") == FID, rc == 0);
		CHECK_EQ(id_at(rig, A, "f") == FID, rc == -EEXIST);
		CHECK_EQ(id_at(rig, A, "g") == FID_NEW, rc == -EEXIST);
		CHECK_EQ(id_at(rig, A, "h") == FID, rc != 0 && rig->seed % 3 == 2);
	}
	must_be_whole(rig);
	collect_all(rig);
	CHECK_EQ(must_be_whole(rig).garbage, 0);
}

static void an_operation_during_a_rename_between_slices_comes_before_or_after_it(void **state)
{
	(void)state;
	unsigned met = 0;
	for (uint64_t seed = 0; seed < 36; seed++) {
		struct meeting t = {.rig = rig_of(meeting_body)};
		t.rig.seed = seed;
		t.rig.options.spread_entries = 4;
		rig_run(&t.rig);
		met += t.met;
	}
	assert_true(met >= 18);
}

/* --- directories that are shut meanwhile ------------------------------------------------------------ */

#define SUB 202ULL

static void seal_a(struct rig *rig)
{
	CHECK_EQ(meta_dir_seal(rig->m, &rig->ctx, A), 0);
}

static void remove_a(struct rig *rig)
{
	CHECK_EQ(meta_rmdir(rig->m, &rig->ctx, META_ROOT, meta_name("a"), A), 0);
}

/* Other creates fill the directory until it is spread, and store the same name. */
static void spread_a(struct rig *rig)
{
	char name[16];
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		CHECK_EQ(try_create(rig, A, name, 600 + i, 0, 0), 0);
	}
	CHECK_EQ(try_create(rig, A, "sub", FID, 0, 0), 0);
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(rig->m, &rig->ctx, A, &d), 0);
	CHECK(d.spread);
}

static void mkdir_in_a(struct rig *rig)
{
	int rc = meta_mkdir(rig->m, &rig->ctx, A, meta_name("sub"), SUB);
	CHECK_EQ(rc, rig->seed == 1 ? -EROFS : rig->seed == 2 ? -ENOENT : -EEXIST);
}

static void shut_body(struct rig *rig)
{
	static void (*const others[])(struct rig *) = {seal_a, remove_a, spread_a};
	CHECK_EQ(meta_mkdir(rig->m, &rig->ctx, META_ROOT, meta_name("a"), A), 0);
	/* The first transaction writes the directory, the second its name. */
	gate_run(rig, META_LAYER_NAME, 1, others[rig->seed - 1], mkdir_in_a);
	CHECK_EQ(id_at(rig, A, "sub"), rig->seed == 3 ? FID : 0);
}

static void no_name_is_stored_in_a_directory_sealed_removed_or_spread_meanwhile(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct rig rig = rig_of(shut_body);
		rig.seed = seed;
		rig.options.spread_entries = 4;
		rig_run(&rig);
	}
}

/* --- requests that come late ------------------------------------------------------------------------ */

/* A delayed request stores a name; the request is sent again; then the name is removed or another file gets it. */
static int late_make(struct rig *rig, unsigned kind)
{
	int rc = 0;
	switch (kind) {
	case 0:
		return try_create(rig, META_ROOT, "n", FID, TOKEN, 0);
	case 1:
		return try_create(rig, META_ROOT, "n", FID, TOKEN, META_OVERWRITE);
	case 2:
		return meta_mkdir(rig->m, &rig->ctx, META_ROOT, meta_name("n"), FID);
	default:
		rc = meta_file_new(rig->m, &rig->ctx, META_ROOT, FID, TOKEN);
		return rc != 0 ? rc
			       : meta_link(rig->m, &rig->ctx, META_ROOT, meta_name("n"),
					   &(struct meta_naming){.file = FID,
								 .token = TOKEN,
								 .seal = true,
								 .mtime_ns = 1});
	}
}

static void late_body(struct rig *rig)
{
	unsigned kind = (unsigned)(rig->seed % 4);
	bool rename = rig->seed / 4 % 2 == 1;
	kv_mem_fail_at(rig->mem, rig->seed / 8 + 1, KV_MEM_LATE);
	late_make(rig, kind);
	if (kv_mem_fail_pending(rig->mem)) {
		kv_mem_fail_at(rig->mem, 0, KV_MEM_FINE);
		rig->options.partition_bits = 99; /* marks that the call was not reached */
	}
	CHECK_EQ(late_make(rig, kind), 0);
	if (rename)
		CHECK_EQ(ren(rig, "n", "m"), 0);
	else if (kind == 2)
		CHECK_EQ(meta_rmdir(rig->m, &rig->ctx, META_ROOT, meta_name("n"), FID), 0);
	else
		CHECK_EQ(meta_remove(rig->m, &rig->ctx, META_ROOT, meta_name("n"), FID, 0), 0);
	/* The delayed call has arrived by now. */
	for (int i = 0; i < 40; i++)
		CHECK_EQ(id_at(rig, META_ROOT, "other"), 0);
	CHECK_EQ(id_at(rig, META_ROOT, "n"), 0);
	CHECK_EQ(id_at(rig, META_ROOT, "m"), rename ? FID : 0);
	must_be_whole(rig);
	collect_all(rig);
	CHECK_EQ(id_at(rig, META_ROOT, "m"), rename ? FID : 0);
	CHECK_EQ(must_be_whole(rig).garbage, 0);
}

static void a_delayed_request_does_not_bring_a_name_back(void **state)
{
	(void)state;
	uint64_t call = 0;
	bool met = true;
	for (; met; call++) {
		met = false;
		for (uint64_t i = 0; i < 8; i++) {
			struct rig rig = rig_of(late_body);
			rig.seed = 8 * call + i;
			rig_run(&rig);
			met = met || rig.options.partition_bits != 99;
		}
	}
	assert_true(call > 5);
}

/* --- one writer ------------------------------------------------------------------------------------ */

#define WRITERS 5
#define ADDS 12

struct writers {
	struct rig *rig;
	uint64_t file;
	/* names added and acknowledged; names in doubt */
	uint64_t acked[WRITERS * ADDS];
	size_t acked_count;
	uint64_t maybe[WRITERS * ADDS];
	size_t maybe_count;
	unsigned steals;
	unsigned fenced;
};

static int block_for(struct rig *rig, uint64_t block, uint64_t file)
{
	struct meta_chunk chunk;
	struct meta_block b = small_block(block, &chunk);
	struct meta_owner owner = {.file = file, .bytes = 10};
	int rc = meta_block_allocate(rig->m, &rig->ctx, &b);
	return rc != 0 ? rc : meta_block_commit(rig->m, &rig->ctx, &b, &owner, 1);
}

static void writer_fiber(void *arg)
{
	struct writers *w = arg;
	struct rig *rig = w->rig;
	for (unsigned i = 0; i < ADDS;) {
		uint64_t token = meta_id();
		struct meta_file f;
		struct meta_extent open;
		if (meta_file_steal(rig->m, &rig->ctx, w->file, token, &f, &open) != 0)
			continue;
		w->steals++;
		uint64_t at = f.size;
		int rc = 0;
		for (; i < ADDS && rc == 0; i++) {
			struct meta_extent x = {.block = meta_id(), .length = 10};
			if (block_for(rig, x.block, w->file) != 0)
				continue;
			rc = meta_file_add(rig->m, &rig->ctx, w->file, token, at, &x, 1);
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

static void writers_body(struct rig *rig)
{
	struct writers w = {.rig = rig, .file = FID};
	int rc;
	do {
		rc = try_create(rig, META_ROOT, "f", FID, TOKEN, 0);
	} while (rc != 0);
	struct rt_group group;
	rt_group_init(&group);
	for (unsigned i = 0; i < WRITERS; i++)
		CHECK_EQ(rt_group_spawn(&group, "writer", writer_fiber, &w), 0);
	rt_group_join(&group);
	kv_mem_calm(rig->mem);
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_file f;
	struct meta_part part = {0};
	CHECK_EQ(meta_file_get(rig->m, &rig->ctx, FID, &part, &arena, &f), 0);
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
	must_be_whole(rig);
	collect_all(rig);
	CHECK_EQ(must_be_whole(rig).garbage, 0);
}

static void
what_a_writer_was_told_is_added_is_there_once_however_often_tokens_are_stolen(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct rig rig = rig_of(writers_body);
		rig.seed = seed;
		rig.mem_options = (struct kv_mem_options){.latency_min_ns = NS_PER_US,
							  .latency_max_ns = NS_PER_MS,
							  .timeout_ns = 5 * NS_PER_MS};
		rig_run(&rig);
	}
}

/* --- a block that gets an owner while it is collected ----------------------------------------------- */

#define BLOCK 700ULL

static void own_block(struct rig *rig)
{
	struct meta_owner owner = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_own(rig->m, &rig->ctx, BLOCK, &owner, 1), 0);
}

static void collect_blocks(struct rig *rig)
{
	uint64_t epoch;
	CHECK_EQ(meta_gc_epoch(rig->m, &epoch), 0);
	for (uint64_t i = 0; i < meta_gc_partitions(rig->m); i++) {
		struct meta_gc_cursor at = {0};
		struct meta_gc_counts counts = {0};
		while (!at.end)
			CHECK_EQ(meta_gc_step(rig->m, META_GC_BLOCKS, i, epoch, &at, &counts), 0);
	}
	CHECK_EQ(meta_gc_advance(rig->m, epoch), 0);
}

static void owned_body(struct rig *rig)
{
	struct meta_chunk chunk;
	struct meta_block b = small_block(BLOCK, &chunk);
	CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &b), 0);
	CHECK_EQ(meta_block_commit(rig->m, &rig->ctx, &b, NULL, 0), 0);
	collect_blocks(rig);
	collect_blocks(rig);
	/* The collector has found no owner and is about to replace the record by DeadChunks. */
	struct gate g = {
		.base.ops = &gate_ops, .rig = rig, .other = own_block, .layer = META_LAYER_BLOCK};
	CHECK_EQ(kv_mem_open(&g.below, rig->mem), 0);
	struct rig through = *rig;
	CHECK_EQ(meta_open(&through.m, &g.base, &rig->options), 0);
	collect_blocks(&through);
	CHECK(g.stopped);
	meta_close(through.m);
	kv_close(&g.base);
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_block out;
	CHECK_EQ(meta_block_get(rig->m, &rig->ctx, &b.id, 1, &arena, &out), 0);
	CHECK_EQ(out.state, META_BLOCK_SEALED);
	arena_fini(&arena);
	must_be_whole(rig);
}

static void a_block_that_gets_an_owner_while_it_is_collected_stays(void **state)
{
	(void)state;
	rig_simple(owned_body);
}

/* --- quota ----------------------------------------------------------------------------------------- */

static void quota_fiber(void *arg)
{
	struct writers *w = arg;
	for (unsigned i = 0; i < ADDS; i++) {
		int rc = block_for(w->rig, meta_id(), FID);
		CHECK(rc == 0 || rc == -EDQUOT);
		w->acked_count += rc == 0;
	}
}

static void quota_body(struct rig *rig)
{
	CHECK_EQ(meta_tenant_set_quota(rig->m, RIG_TENANT, 305), 0);
	struct writers w = {.rig = rig};
	struct rt_group group;
	rt_group_init(&group);
	for (unsigned i = 0; i < WRITERS; i++)
		CHECK_EQ(rt_group_spawn(&group, "writer", quota_fiber, &w), 0);
	rt_group_join(&group);
	CHECK_EQ(w.acked_count, 30);
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(rig->m, RIG_TENANT, &t), 0);
	CHECK_EQ(t.used_bytes, 300);
	collect_all(rig);
	CHECK_EQ(meta_tenant_get(rig->m, RIG_TENANT, &t), 0);
	CHECK_EQ(t.used_bytes, 0);
	CHECK_EQ(must_be_whole(rig).garbage, 0);
}

static void many_commits_at_once_do_not_pass_the_quota(void **state)
{
	(void)state;
	struct rig rig = rig_of(quota_body);
	rig.mem_options = (struct kv_mem_options){.latency_min_ns = NS_PER_US,
						  .latency_max_ns = NS_PER_MS,
						  .timeout_ns = 5 * NS_PER_MS};
	rig_run(&rig);
}

static uint64_t used_bytes(struct rig *rig)
{
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(rig->m, RIG_TENANT, &t), 0);
	return t.used_bytes;
}

/* Commits whose deadlines end at different moments. */
static void late_commit_body(struct rig *rig)
{
	bool done = false;
	unsigned refused = 0;
	for (uint64_t time_ns = NS_PER_US; !done; time_ns += 100 * NS_PER_US) {
		struct meta_chunk chunk;
		struct meta_block b = small_block(meta_id(), &chunk);
		uint64_t before = used_bytes(rig);
		CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &b), 0);
		rt_deadline_set(rt_now_ns() + time_ns);
		int rc = meta_block_commit(rig->m, &rig->ctx, &b, NULL, 0);
		rt_deadline_set(RT_NEVER);
		CHECK(rc == 0 || rc == -ETIME || rc == -ETIMEDOUT);
		if (rc != -ETIMEDOUT)
			CHECK_EQ(used_bytes(rig) - before, rc == 0 ? b.length : 0);
		refused += rc == -ETIME;
		done = rc == 0;
	}
	CHECK(refused > 10);
}

static void a_commit_that_is_refused_after_its_deadline_is_not_charged(void **state)
{
	(void)state;
	struct rig rig = rig_of(late_commit_body);
	rig.mem_options = (struct kv_mem_options){.latency_min_ns = NS_PER_MS,
						  .latency_max_ns = NS_PER_MS,
						  .timeout_ns = 5 * NS_PER_MS};
	rig_run(&rig);
}

/* --- a seal and a move ------------------------------------------------------------------------------- */

static size_t names_in(struct rig *rig, uint64_t dir)
{
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_page page;
	CHECK_EQ(meta_list(rig->m, &rig->ctx, dir, &(struct meta_cursor){0}, 0, &arena, &page), 0);
	size_t n = page.count;
	arena_fini(&arena);
	return n;
}

struct sealing {
	struct rig rig; /* first */
	size_t names;   /* in the directory when the seal returned */
};

static void seal_and_count(struct rig *rig)
{
	CHECK_EQ(meta_dir_seal(rig->m, &rig->ctx, A), 0);
	container_of(rig, struct sealing, rig)->names = names_in(rig, A);
}

static void move_y(struct rig *rig)
{
	bool into = rig->seed % 2 == 0;
	int rc = meta_move(rig->m, &rig->ctx,
			   &(struct meta_move){.from_dir = into ? B : A,
					       .from = meta_name("y"),
					       .to_dir = into ? A : B,
					       .to = meta_name("y"),
					       .new_id = FID_NEW,
					       .request = meta_id()});
	CHECK(rc == 0 || rc == -EROFS);
}

static void sealing_body(struct rig *rig)
{
	CHECK_EQ(meta_mkdir(rig->m, &rig->ctx, META_ROOT, meta_name("a"), A), 0);
	CHECK_EQ(meta_mkdir(rig->m, &rig->ctx, META_ROOT, meta_name("b"), B), 0);
	CHECK_EQ(try_create(rig, rig->seed % 2 == 0 ? B : A, "y", FID, 0, 0), 0);
	/* Before each of its transactions on names, then on its record. */
	unsigned at = (unsigned)rig->seed / 2;
	gate_run(rig, at < 4 ? META_LAYER_NAME : META_LAYER_TRANSFER, at < 4 ? at : at - 4,
		 seal_and_count, move_y);
	CHECK_EQ(names_in(rig, A), container_of(rig, struct sealing, rig)->names);
}

static void a_directory_does_not_change_after_its_seal_returned(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 12; seed++) {
		struct sealing s = {.rig = rig_of(sealing_body)};
		s.rig.seed = seed;
		rig_run(&s.rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rename_R1_R3_does_not_erase_the_create_C1_C2_between),
		cmocka_unit_test(a_create_C2_does_not_erase_the_rename_before_it),
		cmocka_unit_test(a_rename_of_a_name_removed_meanwhile_is_refused),
		cmocka_unit_test(of_two_moves_that_would_make_a_cycle_one_is_refused),
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
