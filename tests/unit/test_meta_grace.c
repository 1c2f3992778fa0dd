// SPDX-License-Identifier: Apache-2.0
/*
 * What the collector must leave alone: things that are half made, half moved, or marked by a worker that was
 * late. One operation is stopped or cut off, collectors of chosen kinds run, and nothing that lives may go.
 */
#include "base/arena.h"
#include "meta_api/id.h"
#include "meta_rig.h"

#include "meta/schema.h"

#define TOKEN 77
#define FID 900ULL
#define BLOCK 700ULL

/* --- a store that dies, or lets another go first ------------------------------------------------- */

struct cut {
	struct kv base;
	struct kv *below;
	struct rig *rig;
	enum meta_layer layer;          /* 0: any */
	unsigned left;                  /* transactions of the layer that pass */
	void (*other)(struct rig *rig); /* runs then; NULL: the process is dead from then on */
	bool met;
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
			c->other(c->rig);
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

/* The rig as another process sees it. */
static struct rig cut_open(struct cut *c, struct rig *rig)
{
	unsigned left = c->left;
	c->base.ops = &cut_ops;
	c->rig = rig;
	c->left = 1000;
	CHECK_EQ(kv_mem_open(&c->below, rig->mem), 0);
	struct rig through = *rig;
	through.kv = &c->base;
	CHECK_EQ(meta_open(&through.m, &c->base, &rig->options), 0);
	c->left = left;
	return through;
}

static void cut_end(struct rig *through)
{
	meta_close(through->m);
	kv_close(through->kv);
}

/* --- collectors, one kind at a time ----------------------------------------------------------------- */

static uint64_t epoch_now(struct rig *rig)
{
	uint64_t epoch;
	CHECK_EQ(meta_gc_epoch(rig->m, &epoch), 0);
	return epoch;
}

static void epoch_next(struct rig *rig)
{
	CHECK_EQ(meta_gc_advance(rig->m, epoch_now(rig)), 0);
}

static void step(struct rig *rig, enum meta_gc_kind kind, uint64_t epoch)
{
	for (uint64_t i = 0; i < meta_gc_partitions(rig->m); i++) {
		struct meta_gc_cursor at = {0};
		struct meta_gc_counts counts = {0};
		while (!at.end)
			CHECK_EQ(meta_gc_step(rig->m, kind, i, epoch, &at, &counts), 0);
	}
}

static struct meta_file file_now(struct rig *rig, uint64_t id)
{
	struct arena arena;
	struct meta_file f = {0};
	arena_init(&arena, MIB);
	CHECK_EQ(meta_file_get(rig->m, &rig->ctx, id, NULL, &arena, &f), 0);
	arena_fini(&arena);
	return f;
}

/* --- a mover that dies over a living file ------------------------------------------------------------ */

/* The mover is cut off before its n-th transaction; n is the seed's. */
static void mover_dies(struct rig *rig, uint64_t dir)
{
	struct cut c = {.left = (unsigned)rig->seed - 1};
	struct rig mover = cut_open(&c, rig);
	meta_move(mover.m, &rig->ctx,
		  &(struct meta_move){.from_dir = dir,
				      .from = meta_name("x"),
				      .to_dir = META_ROOT,
				      .to = meta_name("n"),
				      .new_id = meta_id(),
				      .request = meta_id(),
				      .flags = META_OVERWRITE});
	cut_end(&mover);
}

static void overwritten_body(struct rig *rig)
{
	uint64_t d = must_mkdir(rig, META_ROOT, "d");
	CHECK_EQ(try_create(rig, META_ROOT, "t", FID, TOKEN, 0), 0);
	CHECK_EQ(meta_rename(rig->m, &rig->ctx, META_ROOT, meta_name("t"), meta_name("n"),
			     meta_id(), 0),
		 0);
	collect_all(rig); /* the Gone of the rename too */
	must_create(rig, d, "x");
	mover_dies(rig, d);
	bool old = id_at(rig, META_ROOT, "n") == FID;
	for (unsigned round = 0; round < 6; round++) {
		/* Orphans before transfers: several workers promise no order. */
		step(rig, META_GC_ORPHANS, epoch_now(rig));
		step(rig, META_GC_TRANSFERS, epoch_now(rig));
		epoch_next(rig);
	}
	if (old) {
		CHECK_EQ(id_at(rig, META_ROOT, "n"), FID);
		CHECK(!file_now(rig, FID).removed);
	}
	must_be_whole(rig);
	collect_all(rig);
	CHECK_EQ(must_be_whole(rig).garbage, 0);
}

static void a_file_that_a_dead_mover_was_about_to_replace_lives(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct rig rig = rig_of(overwritten_body);
		rig.seed = seed;
		rig_run(&rig);
	}
}

/* --- suspicions ---------------------------------------------------------------------------------------- */

static void suspect_all(struct rig *rig)
{
	rt_sleep_ns(NS_PER_MS); /* until the record is there, beside the name */
	step(rig, META_GC_ORPHANS, epoch_now(rig));
	step(rig, META_GC_DIRS, epoch_now(rig));
}

static uint64_t suspicions(struct rig *rig)
{
	uint64_t count = 0;
	for (unsigned layer = META_LAYER_NAME; layer <= META_LAYER_FILE; layer++) {
		for (uint64_t i = 0; i < meta_gc_partitions(rig->m); i++) {
			AUTO_KV_ROWS struct kv_rows rows = {0};
			struct kv_range range = {.prefix = kv_text("y")};
			CHECK_EQ(kv_scan(rig->kv, schema_partition_at((enum meta_layer)layer, i),
					 &range, &rows),
				 0);
			count += rows.count;
		}
	}
	return count;
}

static void suspicion_body(struct rig *rig)
{
	/* Seen between C1 and C2, once each. */
	struct cut c = {.layer = META_LAYER_NAME, .other = suspect_all};
	struct rig slow = cut_open(&c, rig);
	CHECK_EQ(try_create(&slow, META_ROOT, "f", FID, TOKEN, 0), 0);
	CHECK(c.met);
	cut_end(&slow);
	c = (struct cut){.layer = META_LAYER_NAME, .left = 1, .other = suspect_all};
	slow = cut_open(&c, rig);
	CHECK_EQ(meta_mkdir(slow.m, &rig->ctx, META_ROOT, meta_name("d"), FID + 1), 0);
	CHECK(c.met);
	cut_end(&slow);
	CHECK(suspicions(rig) > 0);
	step(rig, META_GC_ORPHANS, epoch_now(rig));
	step(rig, META_GC_DIRS, epoch_now(rig));
	CHECK_EQ(suspicions(rig), 0);
	CHECK_EQ(must_be_whole(rig).garbage, 0);
}

static void what_was_seen_half_made_has_its_grace_again_when_it_has_a_name(void **state)
{
	(void)state;
	rig_simple(suspicion_body);
}

/* --- a search and a rename ------------------------------------------------------------------------------- */

/* Names come in small pages. */
struct passing {
	struct kv base;
	struct kv *below;
	struct rig *rig;
	void (*other)(struct rig *rig); /* runs when the first page was read; may be NULL */
	uint64_t page_ns;               /* that each takes */
	unsigned scans;                 /* of names */
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
		p->other(p->rig);
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

static struct rig passing_open(struct passing *p, struct rig *rig)
{
	p->base.ops = &passing_ops;
	p->rig = rig;
	CHECK_EQ(kv_mem_open(&p->below, rig->mem), 0);
	struct rig slow = *rig;
	slow.kv = &p->base;
	CHECK_EQ(meta_open(&slow.m, &p->base, &rig->options), 0);
	return slow;
}

static void rename_in_root(struct rig *rig, const char *from, const char *to)
{
	CHECK_EQ(meta_rename(rig->m, &rig->ctx, META_ROOT, meta_name(from), meta_name(to),
			     meta_id(), 0),
		 0);
}

static void to_the_front(struct rig *rig)
{
	rename_in_root(rig, "m", "a");
}

/* The names before it fill several pages; the file goes to the front when the first was read. */
static void passing_body(struct rig *rig)
{
	char name[16];
	for (unsigned i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "b%02u", i);
		must_create(rig, META_ROOT, name);
	}
	CHECK_EQ(try_create(rig, META_ROOT, "t", FID, TOKEN, 0), 0);
	rename_in_root(rig, "t", "m");
	collect_all(rig);
	struct passing p = {.other = to_the_front};
	struct rig slow = passing_open(&p, rig);
	step(&slow, META_GC_ORPHANS, epoch_now(rig));
	CHECK(p.scans > 1);
	cut_end(&slow);
	CHECK_EQ(id_at(rig, META_ROOT, "a"), FID);
	CHECK_EQ(suspicions(rig), 0);
	must_be_whole(rig);
}

static void a_search_does_not_miss_what_is_renamed_behind_its_back(void **state)
{
	(void)state;
	rig_simple(passing_body);
}

/* A Gone says enough: a directory of which half was removed is not read once for each. */
static void in_grace_body(struct rig *rig)
{
	CHECK_EQ(try_create(rig, META_ROOT, "removed", FID, TOKEN, 0), 0);
	CHECK_EQ(try_create(rig, META_ROOT, "t", FID + 1, TOKEN, 0), 0);
	must_mkdir(rig, META_ROOT, "d");
	CHECK_EQ(meta_remove(rig->m, &rig->ctx, META_ROOT, meta_name("removed"), 0, 0), 0);
	rename_in_root(rig, "t", "u");
	rename_in_root(rig, "d", "e");
	struct passing p = {0};
	struct rig slow = passing_open(&p, rig);
	step(&slow, META_GC_ORPHANS, epoch_now(rig));
	step(&slow, META_GC_DIRS, epoch_now(rig));
	CHECK_EQ(p.scans, 0);
	cut_end(&slow);
	CHECK_EQ(suspicions(rig), 0);
	collect_all(rig);
	CHECK_EQ(id_at(rig, META_ROOT, "u"), FID + 1);
	CHECK_EQ(must_be_whole(rig).garbage, 0);
}

static void what_left_a_name_is_not_searched_for_in_its_grace(void **state)
{
	(void)state;
	rig_simple(in_grace_body);
}

/* Each log that was renamed costs a search; a request that does them all at once would come too late. */
static void slow_search_body(struct rig *rig)
{
	enum { LOGS = 64 };
	char name[16], to[16];
	for (unsigned i = 0; i < LOGS; i++) {
		snprintf(name, sizeof(name), "a%02u", i);
		snprintf(to, sizeof(to), "b%02u", i);
		CHECK_EQ(try_create(rig, META_ROOT, name, FID + i, TOKEN, 0), 0);
		rename_in_root(rig, name, to);
	}
	collect_all(rig);
	struct passing p = {.page_ns = 20 * NS_PER_MS};
	struct rig slow = passing_open(&p, rig);
	struct meta_gc_counts counts = {0};
	for (uint64_t i = 0; i < meta_gc_partitions(rig->m); i++) {
		struct meta_gc_cursor at = {0};
		while (!at.end) {
			uint64_t begun_ns = rt_now_ns();
			CHECK_EQ(meta_gc_step(slow.m, META_GC_ORPHANS, i, epoch_now(rig), &at,
					      &counts),
				 0);
			CHECK(rt_now_ns() - begun_ns < NS_PER_S);
		}
	}
	cut_end(&slow);
	CHECK(p.scans > LOGS);
	CHECK_EQ(counts.seen, LOGS);
	CHECK_EQ(suspicions(rig), 0);
}

static void a_step_of_slow_rows_ends_early_and_goes_on_behind_them(void **state)
{
	(void)state;
	struct rig rig = rig_of(slow_search_body);
	rig.options.partition_bits = 1;
	rig_run(&rig);
}

/* One search alone would take twice as long as a client waits. It is not taken for an orphan; one in a small
 * directory, behind it, is. */
static void long_search_body(struct rig *rig)
{
	char name[16];
	uint64_t d = must_mkdir(rig, META_ROOT, "d");
	for (unsigned i = 0; i < 48; i++) {
		snprintf(name, sizeof(name), "b%02u", i);
		must_create(rig, META_ROOT, name);
	}
	CHECK_EQ(try_create(rig, META_ROOT, "t", FID, TOKEN, 0), 0);
	rename_in_root(rig, "t", "u");
	collect_all(rig);
	struct cut c = {.layer = META_LAYER_NAME};
	struct rig dies = cut_open(&c, rig);
	CHECK(try_create(&dies, d, "f", FID + 1, TOKEN, 0) != 0);
	cut_end(&dies);
	struct passing p = {.page_ns = 600 * NS_PER_MS};
	struct rig slow = passing_open(&p, rig);
	uint64_t begun_ns = rt_now_ns();
	step(&slow, META_GC_ORPHANS, epoch_now(rig));
	CHECK(p.scans > 0);
	CHECK(rt_now_ns() - begun_ns < 3 * NS_PER_S);
	cut_end(&slow);
	CHECK_EQ(suspicions(rig), 1);
	CHECK_EQ(id_at(rig, META_ROOT, "u"), FID);
}

static void a_search_that_takes_too_long_is_given_up_and_takes_nothing(void **state)
{
	(void)state;
	rig_simple(long_search_body);
}

/* --- epochs -------------------------------------------------------------------------------------------------- */

static void late_worker_body(struct rig *rig)
{
	uint64_t old = epoch_now(rig);
	epoch_next(rig);
	epoch_next(rig);
	struct meta_chunk chunk;
	struct meta_block b = small_block(BLOCK, &chunk);
	CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &b), 0);
	uint64_t d = must_mkdir(rig, META_ROOT, "d");
	must_create(rig, d, "f");
	CHECK_EQ(meta_remove(rig->m, &rig->ctx, d, meta_name("f"), 0, 0), 0);
	struct meta_gc_counts counts = {0};
	for (unsigned kind = 0; kind < META_GC_KINDS; kind++)
		step(rig, (enum meta_gc_kind)kind, old); /* woke up late */
	collect_once(rig, &counts);                      /* is on time */
	CHECK_EQ(counts.collected, 0);
	struct meta_owner o = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_commit(rig->m, &rig->ctx, &b, &o, 1), 0);
	/* One that is ahead of its time does not shorten it either. */
	step(rig, META_GC_NAMES, epoch_now(rig) + 100);
	struct meta_check_report report = must_be_whole(rig);
	CHECK(report.garbage > 0);
}

static void a_worker_with_an_old_epoch_takes_nobodys_grace(void **state)
{
	(void)state;
	rig_simple(late_worker_body);
}

/* --- a late allocation ----------------------------------------------------------------------------------------- */

static void late_allocation_body(struct rig *rig)
{
	struct meta_chunk chunk;
	struct meta_block b = small_block(BLOCK, &chunk);
	struct meta_block copy = b, later;
	CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &b), 0);
	/* Repeated it is the same. */
	uint64_t alloc_id = b.alloc_id;
	CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &b), 0);
	CHECK(alloc_id != 0 && b.alloc_id == alloc_id);
	/* Its writer stands still until it is collected, with its chunks; then a copy of its request arrives. */
	collect_all(rig);
	struct meta_owner o = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_commit(rig->m, &rig->ctx, &b, &o, 1), -ENOENT);
	later = copy;
	CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &later), 0);
	CHECK_EQ(meta_block_commit(rig->m, &rig->ctx, &b, &o, 1), -ENOENT);
	/* Who made that one may commit it, and say so twice. */
	for (int i = 0; i < 2; i++)
		CHECK_EQ(meta_block_commit(rig->m, &rig->ctx, &later, &o, 1), 0);
	struct meta_check_report report = must_be_whole(rig);
	CHECK(report.garbage > 0);
}

static void a_pending_block_that_a_late_copy_made_is_not_its_first_writers(void **state)
{
	(void)state;
	rig_simple(late_allocation_body);
}

/* --- charges ------------------------------------------------------------------------------------------------------ */

static uint64_t used(struct rig *rig)
{
	struct meta_tenant t;
	CHECK_EQ(meta_tenant_get(rig->m, RIG_TENANT, &t), 0);
	return t.used_bytes;
}

/* By a process that ends before it has told the account that the charge is settled. */
static void commit_open(struct rig *rig, uint64_t id)
{
	struct cut c = {.layer = META_LAYER_NAME, .left = 1000};
	struct rig writer = cut_open(&c, rig);
	struct meta_chunk chunk;
	struct meta_block b = small_block(id, &chunk);
	b.state = META_BLOCK_OPEN;
	b.length = 0;
	CHECK_EQ(meta_block_allocate(writer.m, &rig->ctx, &b), 0);
	CHECK_EQ(meta_block_commit(writer.m, &rig->ctx, &b, NULL, 0), 0);
	cut_end(&writer);
}

static void chunks_done(struct rig *rig, uint64_t epoch)
{
	for (uint64_t i = 0; i < meta_gc_partitions(rig->m); i++) {
		struct meta_gc_cursor at = {0};
		struct arena arena;
		struct meta_dead_chunks d;
		arena_init(&arena, MIB);
		while (!at.end && meta_gc_chunks(rig->m, i, epoch, &at, &arena, &d, 1) == 1)
			CHECK_EQ(meta_gc_chunks_done(rig->m, d.tenant, d.block, d.chunk_block), 0);
		arena_fini(&arena);
	}
}

/* What the seal gave back is not given back again: accounts are seen to before, or (seed 2) after the chunks. */
static void empty_charge_body(struct rig *rig)
{
	struct meta_chunk chunk;
	struct meta_block other = small_block(BLOCK + 1, &chunk);
	struct meta_owner o = {.file = FID, .bytes = 10};
	CHECK_EQ(meta_block_allocate(rig->m, &rig->ctx, &other), 0);
	CHECK_EQ(meta_block_commit(rig->m, &rig->ctx, &other, &o, 1), 0);
	commit_open(rig, BLOCK);
	CHECK_EQ(used(rig), 20);
	CHECK_EQ(meta_block_seal(rig->m, &rig->ctx, BLOCK, 5, 0, 0, 0), 0);
	CHECK_EQ(used(rig), 10);
	for (unsigned round = 0; round < 8; round++) {
		step(rig, META_GC_BLOCKS, epoch_now(rig));
		if (rig->seed == 2)
			chunks_done(rig, epoch_now(rig));
		epoch_next(rig);
	}
	step(rig, META_GC_ACCOUNTS, epoch_now(rig));
	CHECK_EQ(used(rig), 10);
}

static void a_charge_that_a_seal_gave_back_whole_is_not_given_back_again(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct rig rig = rig_of(empty_charge_body);
		rig.seed = seed;
		rig_run(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_a_dead_mover_was_about_to_replace_lives),
		cmocka_unit_test(what_was_seen_half_made_has_its_grace_again_when_it_has_a_name),
		cmocka_unit_test(a_search_does_not_miss_what_is_renamed_behind_its_back),
		cmocka_unit_test(what_left_a_name_is_not_searched_for_in_its_grace),
		cmocka_unit_test(a_step_of_slow_rows_ends_early_and_goes_on_behind_them),
		cmocka_unit_test(a_search_that_takes_too_long_is_given_up_and_takes_nothing),
		cmocka_unit_test(a_worker_with_an_old_epoch_takes_nobodys_grace),
		cmocka_unit_test(a_pending_block_that_a_late_copy_made_is_not_its_first_writers),
		cmocka_unit_test(a_charge_that_a_seal_gave_back_whole_is_not_given_back_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
