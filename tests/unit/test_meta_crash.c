// SPDX-License-Identifier: Apache-2.0
/*
 * Every operation of several steps: with a crash at every wait; and with every call to the store lost, carried out
 * without an answer, delayed, or refused while a copy of the request continues. Afterwards the layers agree; the
 * operation was carried out or not; sending it again completes it; and the collector leaves no garbage.
 */
#include <stdlib.h>

#include "base/arena.h"
#include "meta_fixture.h"

#define TOKEN 77
#define REQUEST 4242
#define DIR_A 5001ULL
#define DIR_B 5002ULL
#define DIR_C 5003ULL
#define FILE_OLD 6001ULL
#define FILE_NEW 6002ULL
#define BLOCK 7001ULL

struct scenario {
	const char *name;
	unsigned spread;
	void (*setup)(struct meta_fixture *fx);
	int (*op)(struct meta_fixture *fx);
	/*
	 * returns 0 if the operation changed nothing and 1 if it was executed; any other value
	 * fails the test
	 */
	int (*state)(struct meta_fixture *fx);
	bool no_retry; /* the operation is not sent again after the crash */
	/* crash at every stride-th wait; 0: at every wait, as with TERRANE_LONG in the environment */
	unsigned stride;
};

/* --- pieces of setups ------------------------------------------------------------------------- */

static void dirs(struct meta_fixture *fx)
{
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), DIR_A, NULL), 0);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("b"), DIR_B, NULL), 0);
}

static struct meta_block block_of(struct meta_chunk chunks[2], enum meta_block_state state,
				  uint64_t length)
{
	chunks[0] = (struct meta_chunk){.disk = 11};
	chunks[1] = (struct meta_chunk){.disk = 12};
	return (struct meta_block){.id = BLOCK,
				   .state = state,
				   .epoch = TOKEN,
				   .length = length,
				   .capacity = 100,
				   .encoding = "r2",
				   .chunk_count = 2,
				   .chunks = chunks};
}

static int block_do(struct meta_fixture *fx, uint64_t file, enum meta_block_state state,
		    uint64_t length)
{
	struct meta_chunk chunks[2];
	struct meta_block b = block_of(chunks, state, length);
	struct meta_owner owner = {.file = file, .bytes = length};
	int rc = meta_block_allocate(fx->m, &fx->ctx, &b);
	return rc != 0 ? rc : meta_block_commit(fx->m, &fx->ctx, &b, &owner, 1);
}

static void old_file(struct meta_fixture *fx)
{
	dirs(fx);
	CHECK_EQ(block_do(fx, FILE_OLD, META_BLOCK_SEALED, 40), 0);
	struct meta_extent x = {.block = BLOCK, .length = 40};
	struct meta_create c = {
		.name = meta_name("f"), .id = FILE_OLD, .extents = &x, .extent_count = 1};
	int result;
	CHECK_EQ(meta_create(fx->m, &fx->ctx, DIR_A, &c, 1, 0, &result), 0);
	CHECK_EQ(result, 0);
}

static void crowd(struct meta_fixture *fx)
{
	old_file(fx);
	char name[16];
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		CHECK_EQ(try_create(fx, DIR_A, name, 8000 + i, 0, 0), 0);
	}
}

static int one_of(uint64_t is, uint64_t before, uint64_t after)
{
	CHECK(is == before || is == after);
	return is == after;
}

/* --- create ----------------------------------------------------------------------------------- */

static int create_op(struct meta_fixture *fx)
{
	return try_create(fx, DIR_A, "n", FILE_NEW, TOKEN, 0);
}

static int create_state(struct meta_fixture *fx)
{
	return one_of(id_at(fx, DIR_A, "n"), 0, FILE_NEW);
}

static int overwrite_op(struct meta_fixture *fx)
{
	return try_create(fx, DIR_A, "f", FILE_NEW, 0, META_OVERWRITE);
}

static int overwrite_state(struct meta_fixture *fx)
{
	return one_of(id_at(fx, DIR_A, "f"), FILE_OLD, FILE_NEW);
}

/* Creates a packed file and its block. */
static int packed_op(struct meta_fixture *fx)
{
	int rc = block_do(fx, FILE_NEW, META_BLOCK_SEALED, 40);
	struct meta_extent x = {.block = BLOCK, .length = 40};
	struct meta_create c = {
		.name = meta_name("n"), .id = FILE_NEW, .extents = &x, .extent_count = 1};
	int result = 0;
	if (rc == 0)
		rc = meta_create(fx->m, &fx->ctx, DIR_A, &c, 1, 0, &result);
	return rc != 0 ? rc : result;
}

/* A file of one block, which is committed with its name. */
static int together_op(struct meta_fixture *fx)
{
	struct meta_chunk chunks[2];
	struct meta_block b = block_of(chunks, META_BLOCK_SEALED, 40);
	struct meta_extent x = {.block = BLOCK, .length = 40};
	struct meta_create c = {.name = meta_name("n"),
				.id = FILE_NEW,
				.extents = &x,
				.extent_count = 1,
				.block = &b};
	int result = 0;
	int rc = meta_block_allocate(fx->m, &fx->ctx, &b);
	if (rc == 0)
		rc = meta_create(fx->m, &fx->ctx, DIR_A, &c, 1, 0, &result);
	return rc != 0 ? rc : result;
}

/* A file written block by block and then named. */
static int written_op(struct meta_fixture *fx)
{
	struct meta_extent x = {.block = BLOCK, .length = 40};
	int rc = meta_file_new(fx->m, &fx->ctx, DIR_A, FILE_NEW, TOKEN);
	if (rc == 0)
		rc = block_do(fx, FILE_NEW, META_BLOCK_SEALED, 40);
	if (rc == 0)
		rc = meta_file_add(fx->m, &fx->ctx, FILE_NEW, TOKEN, 0, &x, 1);
	/* The request is sent again after the file was sealed. */
	if (rc == -EROFS)
		rc = 0;
	if (rc == 0)
		rc = meta_link(
			fx->m, &fx->ctx, DIR_A, meta_name("n"),
			&(struct meta_naming){
				.file = FILE_NEW, .token = TOKEN, .seal = true, .mtime_ns = 1});
	return rc;
}

static int mkdir_op(struct meta_fixture *fx)
{
	return meta_mkdir(fx->m, &fx->ctx, DIR_A, meta_name("n"), FILE_NEW, NULL);
}

/* --- remove, rename, move --------------------------------------------------------------------- */

static int remove_op(struct meta_fixture *fx)
{
	return meta_remove(fx->m, &fx->ctx, DIR_A, meta_name("f"), FILE_OLD, 0);
}

static int remove_state(struct meta_fixture *fx)
{
	return one_of(id_at(fx, DIR_A, "f"), FILE_OLD, 0);
}

static int rename_op(struct meta_fixture *fx)
{
	return meta_rename(fx->m, &fx->ctx, DIR_A, meta_name("f"), meta_name("g"), REQUEST, 0);
}

static int rename_state(struct meta_fixture *fx)
{
	uint64_t f = id_at(fx, DIR_A, "f");
	uint64_t g = id_at(fx, DIR_A, "g");
	CHECK((f == FILE_OLD && g == 0) || (f == 0 && g == FILE_OLD));
	return g != 0;
}

static int replace_op(struct meta_fixture *fx)
{
	return meta_rename(fx->m, &fx->ctx, DIR_A, meta_name("f"), meta_name("x7"), REQUEST,
			   META_OVERWRITE);
}

static int replace_state(struct meta_fixture *fx)
{
	uint64_t f = id_at(fx, DIR_A, "f");
	uint64_t g = id_at(fx, DIR_A, "x7");
	CHECK((f == FILE_OLD && g == 8007) || (f == 0 && g == FILE_OLD));
	return f == 0;
}

static int move_file_op(struct meta_fixture *fx)
{
	return meta_move(fx->m, &fx->ctx,
			 &(struct meta_move){.from_dir = DIR_A,
					     .from = meta_name("f"),
					     .to_dir = DIR_B,
					     .to = meta_name("g"),
					     .new_id = FILE_NEW,
					     .request = REQUEST});
}

static int move_file_state(struct meta_fixture *fx)
{
	uint64_t f = id_at(fx, DIR_A, "f");
	uint64_t g = id_at(fx, DIR_B, "g");
	CHECK((f == FILE_OLD && g == 0) || (f == 0 && g == FILE_NEW));
	return g != 0;
}

static void move_dir_setup(struct meta_fixture *fx)
{
	dirs(fx);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, DIR_A, meta_name("c"), DIR_C, NULL), 0);
	CHECK_EQ(try_create(fx, DIR_C, "f", FILE_OLD, 0, 0), 0);
}

static int move_dir_op(struct meta_fixture *fx)
{
	return meta_move(fx->m, &fx->ctx,
			 &(struct meta_move){.from_dir = DIR_A,
					     .from = meta_name("c"),
					     .to_dir = DIR_B,
					     .to = meta_name("d"),
					     .request = REQUEST});
}

static int move_dir_state(struct meta_fixture *fx)
{
	uint64_t c = id_at(fx, DIR_A, "c");
	uint64_t d = id_at(fx, DIR_B, "d");
	CHECK((c == DIR_C && d == 0) || (c == 0 && d == DIR_C));
	CHECK_EQ(id_at(fx, DIR_C, "f"), FILE_OLD);
	return d != 0;
}

static void rmdir_setup(struct meta_fixture *fx)
{
	crowd(fx);
	char name[16];
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		CHECK_EQ(meta_remove(fx->m, &fx->ctx, DIR_A, meta_name(name), 0, 0), 0);
	}
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, DIR_A, meta_name("f"), 0, 0), 0);
}

static int rmdir_op(struct meta_fixture *fx)
{
	return meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), DIR_A);
}

static int rmdir_state(struct meta_fixture *fx)
{
	return one_of(id_at(fx, META_ROOT, "a"), DIR_A, 0);
}

static int seal_op(struct meta_fixture *fx)
{
	return meta_dir_seal(fx->m, &fx->ctx, DIR_A);
}

static int seal_state(struct meta_fixture *fx)
{
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, DIR_A, &d), 0);
	return d.sealed;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void open_setup(struct meta_fixture *fx)
{
	dirs(fx);
	CHECK_EQ(try_create(fx, DIR_A, "f", FILE_OLD, TOKEN, 0), 0);
	CHECK_EQ(block_do(fx, FILE_OLD, META_BLOCK_OPEN, 0), 0);
	struct meta_extent x = {.block = BLOCK, .open = true};
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, FILE_OLD, TOKEN, 0, &x, 1), 0);
}

/* An append; then block and file are closed. */
static int append_op(struct meta_fixture *fx)
{
	struct meta_ctx *ctx = &fx->ctx;
	int rc = meta_block_extend(fx->m, ctx, BLOCK, TOKEN, 0, 30, 5);
	if (rc == 0 || rc == -EROFS)
		rc = meta_block_seal(fx->m, ctx, BLOCK, TOKEN, 30, 30, 5);
	if (rc == 0)
		rc = meta_file_close_extent(fx->m, ctx, FILE_OLD, TOKEN, BLOCK, 30);
	if (rc == 0)
		rc = meta_file_seal(fx->m, ctx, FILE_OLD, TOKEN, meta_name("f"), 1);
	return rc;
}

static int append_state(struct meta_fixture *fx)
{
	struct meta_entry e;
	CHECK_EQ(meta_lookup(fx->m, &fx->ctx, DIR_A, meta_name("f"), &e), 0);
	return e.sealed;
}

/* A second writer takes over the file, whose first writer has left an open extent. */
static int steal_op(struct meta_fixture *fx)
{
	struct meta_ctx *ctx = &fx->ctx;
	struct meta_file f;
	struct meta_extent left;
	struct arena arena;
	struct meta_block b;
	arena_init(&arena, MIB);
	int rc = meta_file_steal(fx->m, ctx, FILE_OLD, TOKEN + 1, &f, &left);
	if (rc == 0 && left.block != 0)
		rc = meta_block_fence(fx->m, ctx, BLOCK, TOKEN + 1, &arena, &b);
	if (rc == 0 || rc == -EROFS)
		rc = meta_block_seal(fx->m, ctx, BLOCK, TOKEN + 1, 10, 10, 5);
	if (rc == 0)
		rc = meta_file_close_extent(fx->m, ctx, FILE_OLD, TOKEN + 1, BLOCK, 10);
	arena_fini(&arena);
	return rc;
}

static int steal_state(struct meta_fixture *fx)
{
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_file f;
	CHECK_EQ(meta_file_get(fx->m, &fx->ctx, FILE_OLD, NULL, &arena, &f), 0);
	arena_fini(&arena);
	return f.size == 10;
}

static void garbage_setup(struct meta_fixture *fx)
{
	old_file(fx);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, DIR_A, meta_name("f"), 0, 0), 0);
}

static int collect_op(struct meta_fixture *fx)
{
	for (int round = 0; round < 12; round++) {
		uint64_t epoch;
		int rc = meta_gc_epoch(fx->m, &epoch);
		static const enum meta_gc_kind kinds[] = {META_GC_NAMES, META_GC_FILES,
							  META_GC_BLOCKS};
		for (size_t k = 0; k < ARRAY_LEN(kinds) && rc == 0; k++) {
			struct meta_gc_cursor at = {0};
			struct meta_gc_counts counts = {0};
			while (rc == 0 && !at.end)
				rc = meta_gc_step(fx->m, kinds[k], 0, epoch, &at, &counts);
		}
		struct arena arena;
		arena_init(&arena, MIB);
		struct meta_gc_cursor at = {0};
		struct meta_dead_chunks dead;
		if (rc == 0 && meta_gc_chunks(fx->m, 0, epoch, &at, &arena, &dead, 1) == 1)
			rc = meta_gc_chunks_done(fx->m, dead.tenant, dead.block, dead.chunk_block);
		arena_fini(&arena);
		if (rc == 0)
			rc = meta_gc_advance(fx->m, epoch);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int collect_state(struct meta_fixture *fx)
{
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(fx->m, FIXTURE_TENANT, &t), 0);
	return one_of(t.used_bytes, 40, 0);
}

static const struct scenario scenarios[] = {
	{"create", 0, dirs, create_op, create_state, false, 0},
	{"overwrite", 0, old_file, overwrite_op, overwrite_state, false, 0},
	{"packed", 0, dirs, packed_op, create_state, false, 0},
	{"together", 0, dirs, together_op, create_state, false, 0},
	{"written", 0, dirs, written_op, create_state, false, 0},
	{"mkdir", 0, dirs, mkdir_op, create_state, false, 0},
	{"remove", 0, old_file, remove_op, remove_state, false, 0},
	{"rename", 0, old_file, rename_op, rename_state, false, 0},
	{"rename, spread", 4, crowd, rename_op, rename_state, false, 0},
	{"replace, spread", 4, crowd, replace_op, replace_state, false, 0},
	{"move of a file", 0, old_file, move_file_op, move_file_state, false, 0},
	{"move of a directory", 0, move_dir_setup, move_dir_op, move_dir_state, false, 0},
	{"rmdir", 0, rmdir_setup, rmdir_op, rmdir_state, false, 0},
	{"seal, spread", 4, crowd, seal_op, seal_state, false, 23},
	{"append", 0, open_setup, append_op, append_state, false, 0},
	{"steal", 0, open_setup, steal_op, steal_state, false, 0},
	{"collection", 0, garbage_setup, collect_op, collect_state, true, 7},
};

/* --- the runs --------------------------------------------------------------------------------- */

enum phase { SETUP, OPERATION, AFTERWARDS };

struct run {
	struct meta_fixture fx;
	const struct scenario *what;
	enum phase phase;
	struct sim_node *node;
	bool ended; /* the operation returned before the crash */
	int rc;
	enum kv_mem_fate fate; /* fault of the n-th call of the store; KV_MEM_FINE: no call fails */
	uint64_t n;
	bool met;       /* the n-th call of the store was reached */
	bool twice;     /* two servers execute the operation at the same time */
	bool twin_done; /* the second server returned 0 */
};

/* The second server, which has its own cache and its own handle of the store. */
static void twin_main(void *arg)
{
	struct run *r = arg;
	struct meta_fixture twin = r->fx;
	CHECK_EQ(kv_mem_open(&twin.kv, twin.mem), 0);
	if (meta_open(&twin.m, twin.kv, &twin.options) == 0) {
		if (r->what->op(&twin) == 0)
			r->twin_done = true;
		meta_close(twin.m);
	}
	kv_close(twin.kv);
}

static void afterwards(struct run *r)
{
	struct meta_fixture *fx = &r->fx;
	must_be_whole(fx);
	int state = r->what->state(fx);
	/* An acknowledged operation must have been executed, a refused one must not. */
	if ((r->ended && r->rc == 0) || r->twin_done)
		CHECK_EQ(state, 1);
	if (!r->what->no_retry) {
		CHECK_EQ(r->what->op(fx), 0);
		CHECK_EQ(r->what->state(fx), 1);
		must_be_whole(fx);
	}
	collect_all(fx);
	if (!r->what->no_retry)
		CHECK_EQ(r->what->state(fx), 1);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

static void run_main(void *arg)
{
	struct run *r = arg;
	if (r->phase == OPERATION && sim_node_lives(r->node) > 1)
		return;
	CHECK_EQ(kv_mem_open(&r->fx.kv, r->fx.mem), 0);
	int rc = meta_open(&r->fx.m, r->fx.kv, &r->fx.options);
	CHECK(rc == 0 || rt_cancelled());
	r->fx.ctx.tenant = FIXTURE_TENANT;
	if (rc != 0) {
		kv_close(r->fx.kv);
		return;
	}
	switch (r->phase) {
	case SETUP:
		CHECK_EQ(meta_tenant_create(r->fx.m, &(struct meta_tenant){.id = FIXTURE_TENANT,
									   .name = "seven"}),
			 0);
		r->what->setup(&r->fx);
		break;
	case OPERATION:
		if (r->fate != KV_MEM_FINE)
			kv_mem_fail_at(r->fx.mem, r->n, r->fate);
		struct rt_fiber *twin = NULL;
		if (r->twice)
			CHECK_EQ(rt_spawn(&twin, "twin", twin_main, r), 0);
		r->rc = r->what->op(&r->fx);
		if (twin != NULL)
			rt_join(twin);
		r->met = !kv_mem_fail_pending(r->fx.mem);
		kv_mem_fail_at(r->fx.mem, 0, KV_MEM_FINE);
		r->ended = !rt_cancelled();
		break;
	case AFTERWARDS:
		afterwards(r);
		r->fx.done = true;
		break;
	}
	fixture_close(&r->fx);
}

/* One process in one simulation; the stored rows survive it. */
static void run_phase(struct run *r, enum phase phase, uint64_t crash_at)
{
	r->phase = phase;
	struct sim_config c;
	sim_config_init(&c, r->fx.seed + 1000ULL * phase, 0);
	struct sim *s = sim_open(&c);
	r->node = sim_node_add(s, "n", 0);
	sim_node_start(r->node, run_main, r);
	if (crash_at > 0)
		sim_node_crash_at(r->node, crash_at, false);
	sim_run(s, 3600 * NS_PER_S);
	sim_close(s);
}

static void run_begin(struct run *r, const struct scenario *what, uint64_t seed)
{
	*r = (struct run){.fx = fixture_of(NULL), .what = what};
	r->fx.seed = seed;
	r->fx.options.partition_bits = 0;
	r->fx.options.spread_entries = what->spread;
	r->fx.mem = kv_mem_new(&(struct kv_mem_options){.seed = seed,
							.latency_min_ns = NS_PER_US,
							.latency_max_ns = NS_PER_MS,
							.timeout_ns = 5 * NS_PER_MS});
	run_phase(r, SETUP, 0);
}

static void run_end(struct run *r)
{
	kv_mem_calm(r->fx.mem);
	run_phase(r, AFTERWARDS, 0);
	if (!r->fx.done)
		fail_msg("%s: seed %llu, n %llu: does not end", r->what->name,
			 (unsigned long long)r->fx.seed, (unsigned long long)r->n);
	kv_mem_free(r->fx.mem);
}

static uint64_t stride_of(const struct scenario *what)
{
	return what->stride > 0 && getenv("TERRANE_LONG") == NULL ? what->stride : 1;
}

/* Runs the operation with a crash at the n-th wait, for every n. */
static void crash_sweep(const struct scenario *what)
{
	uint64_t n = 0;
	struct run r;
	do {
		n += stride_of(what);
		run_begin(&r, what, 100 * n);
		r.n = n;
		run_phase(&r, OPERATION, n);
		run_end(&r);
	} while (!r.ended);
	printf("%s: cut off at each of %llu waits\n", what->name, (unsigned long long)n - 1);
	assert_true(n > 2);
	assert_int_equal(r.rc, 0);
}

static void fate_sweep(const struct scenario *what, enum kv_mem_fate fate)
{
	uint64_t n = 0;
	struct run r;
	do {
		n += stride_of(what);
		run_begin(&r, what, 100 * n + fate);
		r.n = n;
		r.fate = fate;
		run_phase(&r, OPERATION, 0);
		run_end(&r);
	} while (r.met);
	assert_true(n > 2);
}

/* Two servers execute the same request, and one fails at a refused transaction. */
static void twice_sweep(const struct scenario *what)
{
	uint64_t n = 0;
	struct run r;
	do {
		n += 2 * stride_of(what);
		run_begin(&r, what, 100 * n + KV_MEM_REFUSED);
		r.n = n;
		r.fate = KV_MEM_REFUSED;
		r.twice = true;
		run_phase(&r, OPERATION, 0);
		run_end(&r);
	} while (r.met);
	assert_true(n > 2);
}

static void sweep(void **state)
{
	const struct scenario *what = *state;
	crash_sweep(what);
	fate_sweep(what, KV_MEM_REQUEST_LOST);
	fate_sweep(what, KV_MEM_REPLY_LOST);
	fate_sweep(what, KV_MEM_LATE);
	twice_sweep(what);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_LEN(scenarios)];
	for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
		tests[i] = (struct CMUnitTest){.name = scenarios[i].name,
					       .test_func = sweep,
					       .initial_state = (void *)(uintptr_t)&scenarios[i]};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
