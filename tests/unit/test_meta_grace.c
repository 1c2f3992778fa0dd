// SPDX-License-Identifier: Apache-2.0
/*
 * Objects that the collector must not delete: half created, half moved, or marked by a collector
 * with an old epoch. Each test interrupts an operation, runs collectors of chosen kinds, and checks
 * that no object with a name is deleted.
 */
#include "base/arena.h"
#include "meta_api/id.h"
#include "meta_fixture.h"

#include "meta/gc_impl.h"
#include "meta/schema.h"

#define TOKEN 77
#define FID 900ULL
#define BLOCK 700ULL

/* --- a store that fails, or runs another operation first ------------------------------------------ */

struct cut {
	struct kv base;
	struct kv *below;
	struct meta_fixture *fx;
	enum meta_layer layer; /* layer of the transaction that is stopped; 0: any layer */
	/* number of transactions of the layer that run before the one that is stopped */
	unsigned left;
	/* called at the stopped transaction; NULL: all later calls of the store fail */
	void (*other)(struct meta_fixture *fx);
	bool met; /* the transaction to be stopped was reached */
};

static struct cut *cut_of(struct kv *kv)
{
	return container_of(kv, struct cut, base);
}

static bool cut_dead(struct kv *kv)
{
	return cut_of(kv)->met && cut_of(kv)->other == NULL;
}

static int cut_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		   struct kv_rows *rows)
{
	return cut_dead(kv) ? -EHOSTUNREACH : kv_get(cut_of(kv)->below, partition, keys, n, rows);
}

static int cut_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
		    struct kv_rows *rows)
{
	return cut_dead(kv) ? -EHOSTUNREACH : kv_scan(cut_of(kv)->below, partition, range, rows);
}

static int cut_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	struct cut *c = cut_of(kv);
	if (!c->met && (c->layer == 0 || partition >> 56 == c->layer) && c->left-- == 0) {
		c->met = true;
		if (c->other != NULL)
			c->other(c->fx);
	}
	return cut_dead(kv) ? -EHOSTUNREACH : kv_txn(c->below, partition, txn, failed);
}

static void cut_close(struct kv *kv)
{
	kv_close(cut_of(kv)->below);
}

static const struct kv_ops cut_ops = {
	.name = "cut",
	.get = cut_get,
	.scan = cut_scan,
	.txn = cut_txn,
	.close = cut_close,
};

/* Opens the fixture's store a second time, as another process would, with the stop in between. */
static struct meta_fixture cut_open(struct cut *c, struct meta_fixture *fx)
{
	unsigned left = c->left;
	c->base.ops = &cut_ops;
	c->fx = fx;
	c->left = 1000;
	CHECK_EQ(kv_mem_open(&c->below, fx->mem), 0);
	struct meta_fixture through = *fx;
	through.kv = &c->base;
	CHECK_EQ(meta_open(&through.m, &c->base, &fx->options), 0);
	c->left = left;
	return through;
}

static void cut_end(struct meta_fixture *through)
{
	meta_close(through->m);
	kv_close(through->kv);
}

/* --- collectors, one kind at a time ----------------------------------------------------------------- */

static uint64_t epoch_now(struct meta_fixture *fx)
{
	uint64_t epoch;
	CHECK_EQ(meta_gc_epoch(fx->m, &epoch), 0);
	return epoch;
}

static void epoch_next(struct meta_fixture *fx)
{
	CHECK_EQ(meta_gc_advance(fx->m, epoch_now(fx)), 0);
}

static void step(struct meta_fixture *fx, enum meta_gc_kind kind, uint64_t epoch)
{
	for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
		struct meta_gc_cursor at = {0};
		struct meta_gc_counts counts = {0};
		while (!at.end)
			CHECK_EQ(meta_gc_step(fx->m, kind, i, epoch, &at, &counts), 0);
	}
}

static struct meta_file file_now(struct meta_fixture *fx, uint64_t id)
{
	struct arena arena;
	struct meta_file f = {0};
	arena_init(&arena, MIB);
	CHECK_EQ(meta_file_get(fx->m, &fx->ctx, id, NULL, &arena, &f), 0);
	arena_fini(&arena);
	return f;
}

/* --- a move that is interrupted while it replaces a file ---------------------------------------------- */

/* The move fails before its n-th transaction, where n is the seed. */
static void move_is_interrupted(struct meta_fixture *fx, uint64_t dir)
{
	struct cut c = {.left = (unsigned)fx->seed - 1};
	struct meta_fixture mover = cut_open(&c, fx);
	meta_move(mover.m, &fx->ctx,
		  &(struct meta_move){.from_dir = dir,
				      .from = meta_name("x"),
				      .to_dir = META_ROOT,
				      .to = meta_name("n"),
				      .new_id = meta_id(),
				      .request = meta_id(),
				      .flags = META_OVERWRITE});
	cut_end(&mover);
}

static void overwritten_body(struct meta_fixture *fx)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	CHECK_EQ(try_create(fx, META_ROOT, "t", FID, TOKEN, 0), 0);
	CHECK_EQ(meta_rename(fx->m, &fx->ctx, META_ROOT, meta_name("t"), meta_name("n"), meta_id(),
			     0),
		 0);
	collect_all(fx); /* also collects the tombstone of the rename */
	must_create(fx, d, "x");
	move_is_interrupted(fx, d);
	bool old = id_at(fx, META_ROOT, "n") == FID;
	for (unsigned round = 0; round < 6; round++) {
		/* Orphans before transfers: with several workers the kinds can run in any order. */
		step(fx, META_GC_ORPHANS, epoch_now(fx));
		step(fx, META_GC_TRANSFERS, epoch_now(fx));
		epoch_next(fx);
	}
	if (old) {
		CHECK_EQ(id_at(fx, META_ROOT, "n"), FID);
		CHECK(!file_now(fx, FID).removed);
	}
	must_be_whole(fx);
	collect_all(fx);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

static void a_file_survives_a_move_that_crashed_before_replacing_it(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct meta_fixture fx = fixture_of(overwritten_body);
		fx.seed = seed;
		fixture_run(&fx);
	}
}

/* --- suspicions ---------------------------------------------------------------------------------------- */

static void suspect_all(struct meta_fixture *fx)
{
	/* number of transactions until the record and the name are stored */
	rt_sleep_ns(NS_PER_MS);
	step(fx, META_GC_ORPHANS, epoch_now(fx));
	step(fx, META_GC_DIRS, epoch_now(fx));
}

static uint64_t suspicions(struct meta_fixture *fx)
{
	uint64_t count = 0;
	for (unsigned layer = META_LAYER_NAME; layer <= META_LAYER_FILE; layer++) {
		for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
			AUTO_KV_ROWS struct kv_rows rows = {0};
			struct kv_range range = {.prefix = kv_text("y")};
			CHECK_EQ(kv_scan(fx->kv, schema_partition_at((enum meta_layer)layer, i),
					 &range, &rows),
				 0);
			count += rows.count;
		}
	}
	return count;
}

META_TEST(an_object_that_got_a_name_gets_a_new_grace_period)
{
	/* The collector sees each object once, between its two transactions. */
	struct cut c = {.layer = META_LAYER_NAME, .other = suspect_all};
	struct meta_fixture slow = cut_open(&c, fx);
	CHECK_EQ(try_create(&slow, META_ROOT, "f", FID, TOKEN, 0), 0);
	CHECK(c.met);
	cut_end(&slow);
	c = (struct cut){.layer = META_LAYER_NAME, .left = 1, .other = suspect_all};
	slow = cut_open(&c, fx);
	CHECK_EQ(meta_mkdir(slow.m, &fx->ctx, META_ROOT, meta_name("d"), FID + 1, NULL), 0);
	CHECK(c.met);
	cut_end(&slow);
	CHECK(suspicions(fx) > 0);
	step(fx, META_GC_ORPHANS, epoch_now(fx));
	step(fx, META_GC_DIRS, epoch_now(fx));
	CHECK_EQ(suspicions(fx), 0);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

/* --- a search and a rename ------------------------------------------------------------------------------- */

/* A store that returns names in small pages. */
struct passing {
	struct kv base;
	struct kv *below;
	struct meta_fixture *fx;
	void (*other)(
		struct meta_fixture *fx); /* runs after the first page was read; may be NULL */
	uint64_t page_ns;                 /* simulated time that the store takes for each page */
	unsigned scans;                   /* number of scans of names */
};

static struct passing *passing_of(struct kv *kv)
{
	return container_of(kv, struct passing, base);
}

static int passing_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		       struct kv_rows *rows)
{
	return kv_get(passing_of(kv)->below, partition, keys, n, rows);
}

static int passing_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
			struct kv_rows *rows)
{
	struct passing *p = passing_of(kv);
	struct kv_range small = *range;
	bool names = partition >> 56 == META_LAYER_NAME && range->prefix.len == 17;
	if (names)
		small.rows_max = 4;
	int rc = kv_scan(p->below, partition, &small, rows);
	if (names && p->page_ns > 0)
		CHECK_EQ(rt_sleep_ns(p->page_ns), 0);
	if (names && ++p->scans == 1 && p->other != NULL)
		p->other(p->fx);
	return rc;
}

static int passing_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	return kv_txn(passing_of(kv)->below, partition, txn, failed);
}

static void passing_close(struct kv *kv)
{
	kv_close(passing_of(kv)->below);
}

static const struct kv_ops passing_ops = {.name = "passing",
					  .get = passing_get,
					  .scan = passing_scan,
					  .txn = passing_txn,
					  .close = passing_close};

static struct meta_fixture passing_open(struct passing *p, struct meta_fixture *fx)
{
	p->base.ops = &passing_ops;
	p->fx = fx;
	CHECK_EQ(kv_mem_open(&p->below, fx->mem), 0);
	struct meta_fixture slow = *fx;
	slow.kv = &p->base;
	CHECK_EQ(meta_open(&slow.m, &p->base, &fx->options), 0);
	return slow;
}

static void rename_in_root(struct meta_fixture *fx, const char *from, const char *to)
{
	CHECK_EQ(meta_rename(fx->m, &fx->ctx, META_ROOT, meta_name(from), meta_name(to), meta_id(),
			     0),
		 0);
}

static void to_the_front(struct meta_fixture *fx)
{
	rename_in_root(fx, "m", "a");
}

/* The file's name is on a later page; after the first page was read it is renamed to a name on the first page. */
META_TEST(a_search_finds_a_file_that_is_renamed_during_it)
{
	char name[16];
	for (unsigned i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "b%02u", i);
		must_create(fx, META_ROOT, name);
	}
	CHECK_EQ(try_create(fx, META_ROOT, "t", FID, TOKEN, 0), 0);
	rename_in_root(fx, "t", "m");
	collect_all(fx);
	struct passing p = {.other = to_the_front};
	struct meta_fixture slow = passing_open(&p, fx);
	step(&slow, META_GC_ORPHANS, epoch_now(fx));
	CHECK(p.scans > 1);
	cut_end(&slow);
	CHECK_EQ(id_at(fx, META_ROOT, "a"), FID);
	CHECK_EQ(suspicions(fx), 0);
	must_be_whole(fx);
}

/*
 * A tombstone proves that a file was removed: the collector does not read the directory again for
 * each removed file.
 */
META_TEST(an_object_with_a_tombstone_needs_no_search)
{
	CHECK_EQ(try_create(fx, META_ROOT, "removed", FID, TOKEN, 0), 0);
	CHECK_EQ(try_create(fx, META_ROOT, "t", FID + 1, TOKEN, 0), 0);
	must_mkdir(fx, META_ROOT, "d");
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("removed"), 0, 0), 0);
	rename_in_root(fx, "t", "u");
	rename_in_root(fx, "d", "e");
	struct passing p = {0};
	struct meta_fixture slow = passing_open(&p, fx);
	step(&slow, META_GC_ORPHANS, epoch_now(fx));
	step(&slow, META_GC_DIRS, epoch_now(fx));
	CHECK_EQ(p.scans, 0);
	cut_end(&slow);
	CHECK_EQ(suspicions(fx), 0);
	collect_all(fx);
	CHECK_EQ(id_at(fx, META_ROOT, "u"), FID + 1);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

/*
 * The collector searches a file for each renamed log, so a request that handled all logs in one
 * step would time out at the client.
 */
static void slow_search_body(struct meta_fixture *fx)
{
	enum { LOGS = 64 };
	char name[16], to[16];
	for (unsigned i = 0; i < LOGS; i++) {
		snprintf(name, sizeof(name), "a%02u", i);
		snprintf(to, sizeof(to), "b%02u", i);
		CHECK_EQ(try_create(fx, META_ROOT, name, FID + i, TOKEN, 0), 0);
		rename_in_root(fx, name, to);
	}
	collect_all(fx);
	struct passing p = {.page_ns = 20 * NS_PER_MS};
	struct meta_fixture slow = passing_open(&p, fx);
	struct meta_gc_counts counts = {0};
	for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
		struct meta_gc_cursor at = {0};
		while (!at.end) {
			uint64_t begun_ns = rt_now_ns();
			CHECK_EQ(meta_gc_step(slow.m, META_GC_ORPHANS, i, epoch_now(fx), &at,
					      &counts),
				 0);
			CHECK(rt_now_ns() - begun_ns < NS_PER_S);
		}
	}
	cut_end(&slow);
	CHECK(p.scans > LOGS);
	CHECK_EQ(counts.seen, LOGS);
	CHECK_EQ(suspicions(fx), 0);
}

static void a_step_of_slow_rows_ends_early_and_continues_after_them(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(slow_search_body);
	fx.options.partition_bits = 1;
	fixture_run(&fx);
}

/* Deletes the row of a name of the root directory, and leaves no tombstone. */
static void row_drop(struct meta_fixture *fx, const char *name)
{
	struct schema_key key = key_entry(FIXTURE_TENANT, META_ROOT, SLICE_HOME, meta_name(name));
	struct kv_write w = {.kind = KV_DELETE, .key = key_bytes(&key)};
	struct kv_check c = {.kind = KV_PRESENT, .key = key_bytes(&key)};
	CHECK_EQ(kv_txn(fx->kv, part_name(fx->m, FIXTURE_TENANT, META_ROOT, SLICE_HOME),
			&(struct kv_txn){&c, 1, &w, 1, false}, NULL),
		 0);
}

/* Runs one step of the collector of orphans in each partition, in little time; returns how many steps must follow. */
static unsigned orphans_step(struct meta_fixture *slow, struct meta_gc_cursor *at, size_t n)
{
	unsigned left = 0;
	struct meta_gc_counts counts = {0};
	for (size_t i = 0; i < n; i++) {
		uint64_t begun_ns = rt_now_ns();
		CHECK_EQ(
			meta_gc_step(slow->m, META_GC_ORPHANS, i, epoch_now(slow), &at[i], &counts),
			0);
		CHECK(rt_now_ns() - begun_ns < 4 * NS_PER_S);
		left += !at[i].end;
	}
	return left;
}

/*
 * A search takes several times as long as a client waits: steps of the collector continue it. The file that has a name
 * stays; the orphan of the same directory is collected.
 */
META_TEST(a_search_that_takes_long_is_continued_by_the_next_step)
{
	enum { NAMES = 4000, PARTITIONS = 16 };
	char name[16];
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "b%04u", i);
		must_create(fx, META_ROOT, name);
	}
	CHECK_EQ(try_create(fx, META_ROOT, "t", FID, TOKEN, 0), 0);
	rename_in_root(fx, "t", "u");
	CHECK_EQ(try_create(fx, META_ROOT, "c", FID + 1, TOKEN, 0), 0);
	collect_all(fx);
	/* A file whose name is gone without a tombstone. */
	row_drop(fx, "c");
	CHECK_EQ(meta_gc_partitions(fx->m), PARTITIONS);
	struct passing p = {.page_ns = 600 * NS_PER_MS};
	struct meta_fixture slow = passing_open(&p, fx);
	unsigned steps = 0;
	for (unsigned round = 0; round < 4; round++) {
		struct meta_gc_cursor at[PARTITIONS] = {0};
		do
			steps++;
		while (orphans_step(&slow, at, PARTITIONS) > 0);
		CHECK(steps > round + 1);
		epoch_next(fx);
	}
	CHECK(p.scans > NAMES / KV_SCAN_ROWS_MAX);
	cut_end(&slow);
	CHECK_EQ(id_at(fx, META_ROOT, "u"), FID);
	CHECK_EQ(suspicions(fx), 0);
	collect_all(fx);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

/* --- epochs -------------------------------------------------------------------------------------------------- */

META_TEST(a_worker_with_an_old_epoch_shortens_no_grace_period)
{
	uint64_t old = epoch_now(fx);
	epoch_next(fx);
	epoch_next(fx);
	struct meta_chunk chunk;
	struct meta_block b = small_block(BLOCK, &chunk);
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &b), 0);
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	must_create(fx, d, "f");
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, d, meta_name("f"), 0, 0), 0);
	struct meta_gc_counts counts = {0};
	/* like a janitor that has not seen the current epoch */
	for (unsigned kind = 0; kind < META_GC_KINDS; kind++)
		step(fx, (enum meta_gc_kind)kind, old);
	collect_once(fx, &counts); /* like a janitor that has seen the current epoch */
	CHECK_EQ(counts.collected, 0);
	struct meta_owner o = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &b, &o, 1), 0);
	/* A collector with a future epoch does not shorten a grace period either. */
	step(fx, META_GC_NAMES, epoch_now(fx) + 100);
	struct meta_check_report report = must_be_whole(fx);
	CHECK(report.garbage > 0);
}

/* --- a late allocation ----------------------------------------------------------------------------------------- */

META_TEST(a_late_allocation_gives_the_first_writer_no_block)
{
	struct meta_chunk chunk;
	struct meta_block b = small_block(BLOCK, &chunk);
	struct meta_block copy = b, later;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &b), 0);
	/* A repeated allocation returns the same block. */
	uint64_t alloc_id = b.alloc_id;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &b), 0);
	CHECK(alloc_id != 0 && b.alloc_id == alloc_id);
	/* The writer pauses until the block is collected with its chunks; then a copy of its request arrives. */
	collect_all(fx);
	struct meta_owner o = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &b, &o, 1), -ENOENT);
	later = copy;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &later), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &b, &o, 1), -ENOENT);
	/* The writer of the second allocation may commit the block, also twice. */
	for (int i = 0; i < 2; i++)
		CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &later, &o, 1), 0);
	struct meta_check_report report = must_be_whole(fx);
	CHECK(report.garbage > 0);
}

/* --- charges ------------------------------------------------------------------------------------------------------ */

static uint64_t used(struct meta_fixture *fx)
{
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(fx->m, FIXTURE_TENANT, &t), 0);
	return t.used_bytes;
}

/* Commits an open block in a process that ends before it deletes the note of the charge from the account. */
static void commit_open(struct meta_fixture *fx, uint64_t id)
{
	struct cut c = {.layer = META_LAYER_NAME, .left = 1000};
	struct meta_fixture writer = cut_open(&c, fx);
	struct meta_chunk chunk;
	struct meta_block b = small_block(id, &chunk);
	b.state = META_BLOCK_OPEN;
	b.length = 0;
	CHECK_EQ(meta_block_allocate(writer.m, &fx->ctx, &b), 0);
	CHECK_EQ(meta_block_commit(writer.m, &fx->ctx, &b, NULL, 0), 0);
	cut_end(&writer);
}

static void chunks_done(struct meta_fixture *fx, uint64_t epoch)
{
	for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
		struct meta_gc_cursor at = {0};
		struct arena arena;
		struct meta_dead_chunks d;
		arena_init(&arena, MIB);
		while (!at.end && meta_gc_chunks(fx->m, i, epoch, &at, &arena, &d, 1) == 1)
			CHECK_EQ(meta_gc_chunks_done(fx->m, d.tenant, d.block, d.chunk_block), 0);
		arena_fini(&arena);
	}
}

/*
 * The collector runs over the accounts before the dead chunks are deleted or, with seed 2, after.
 */
static void empty_charge_body(struct meta_fixture *fx)
{
	struct meta_chunk chunk;
	struct meta_block other = small_block(BLOCK + 1, &chunk);
	struct meta_owner o = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &other), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &other, &o, 1), 0);
	commit_open(fx, BLOCK);
	CHECK_EQ(used(fx), 20);
	CHECK_EQ(meta_block_seal(fx->m, &fx->ctx, BLOCK, 5, 0, 0, 0), 0);
	CHECK_EQ(used(fx), 10);
	for (unsigned round = 0; round < 8; round++) {
		step(fx, META_GC_BLOCKS, epoch_now(fx));
		if (fx->seed == 2)
			chunks_done(fx, epoch_now(fx));
		epoch_next(fx);
	}
	step(fx, META_GC_ACCOUNTS, epoch_now(fx));
	CHECK_EQ(used(fx), 10);
}

static void a_charge_that_a_seal_refunded_is_not_refunded_again(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct meta_fixture fx = fixture_of(empty_charge_body);
		fx.seed = seed;
		fixture_run(&fx);
	}
}

/* --- damaged rows ------------------------------------------------------------------------------- */

static void put_row(struct meta_fixture *fx, uint64_t partition, struct kv_bytes key,
		    const ProtobufCMessage *msg)
{
	struct arena a;
	arena_init(&a, MIB);
	struct kv_write w = {.kind = KV_PUT, .key = key};
	CHECK_EQ(rec_pack(&a, msg, &w.value), 0);
	CHECK_EQ(kv_txn(fx->kv, partition, &(struct kv_txn){.writes = &w, .write_count = 1}, NULL),
		 0);
	arena_fini(&a);
}

META_TEST(a_stored_epoch_of_zero_is_refused)
{
	rec_gc_epoch e = TERRANE__REC__GC_EPOCH__INIT;
	struct schema_key key = key_text(KEY_GC_EPOCH, "");
	uint64_t epoch;
	put_row(fx, schema_partition_at(META_LAYER_SYSTEM, 0), key_bytes(&key), &e.base);
	CHECK_EQ(meta_gc_epoch(fx->m, &epoch), -EBADMSG);
}

/* No server writes a name of 400 bytes, but a damaged key can have one. */
META_TEST(a_search_refuses_a_name_that_is_too_long)
{
	uint8_t bytes[500];
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	struct schema_key prefix = key_slice(KEY_ENTRY, FIXTURE_TENANT, dir, SLICE_HOME);
	memset(bytes, 'x', sizeof(bytes));
	memcpy(bytes, prefix.bytes, prefix.len);
	rec_entry e = TERRANE__REC__ENTRY__INIT;
	e.kind = META_FILE;
	e.id = FID;
	put_row(fx, part_name(fx->m, FIXTURE_TENANT, dir, SLICE_HOME),
		kv_bytes(bytes, prefix.len + 400), &e.base);
	struct gc_search s = {.id = FID};
	CHECK_EQ(gc_search(fx->m, FIXTURE_TENANT, dir, &s), -EBADMSG);
	CHECK_EQ(s.found, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stored_epoch_of_zero_is_refused),
		cmocka_unit_test(a_search_refuses_a_name_that_is_too_long),
		cmocka_unit_test(a_file_survives_a_move_that_crashed_before_replacing_it),
		cmocka_unit_test(an_object_that_got_a_name_gets_a_new_grace_period),
		cmocka_unit_test(a_search_finds_a_file_that_is_renamed_during_it),
		cmocka_unit_test(an_object_with_a_tombstone_needs_no_search),
		cmocka_unit_test(a_step_of_slow_rows_ends_early_and_continues_after_them),
		cmocka_unit_test(a_search_that_takes_long_is_continued_by_the_next_step),
		cmocka_unit_test(a_worker_with_an_old_epoch_shortens_no_grace_period),
		cmocka_unit_test(a_late_allocation_gives_the_first_writer_no_block),
		cmocka_unit_test(a_charge_that_a_seal_refunded_is_not_refunded_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
