// SPDX-License-Identifier: Apache-2.0
/* Files with very many extents: the collector passes them in steps, and they can be moved. */
#include "base/arena.h"
#include "meta_api/id.h"
#include "meta_fixture.h"

#include "base/log.h"
#include "meta/impl.h"

#define TOKEN 77

struct blk {
	struct meta_chunk chunk;
	struct meta_block b;
};

static uint64_t must_block(struct meta_fixture *fx, uint64_t owner)
{
	struct blk k = {.chunk = {.disk = 5}};
	k.b = (struct meta_block){.id = meta_id(),
				  .state = META_BLOCK_SEALED,
				  .epoch = TOKEN,
				  .length = 1000,
				  .capacity = 1000,
				  .encoding = "r1",
				  .chunk_count = 1,
				  .chunks = &k.chunk};
	struct meta_owner o = {.file = owner, .bytes = 1000};
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &o, 1), 0);
	return k.b.id;
}

/*
 * Makes a sealed file of n extents of one byte each. The extents are in `blocks` blocks in turn,
 * `run` extents in each.
 */
static uint64_t must_long_file(struct meta_fixture *fx, const char *name, size_t n, size_t blocks,
			       size_t run)
{
	static struct meta_extent e[META_EXTENTS_MAX];
	uint64_t ids[256];
	uint64_t f = meta_id();
	CHECK(blocks <= ARRAY_LEN(ids));
	CHECK_EQ(try_create(fx, META_ROOT, name, f, TOKEN, 0), 0);
	for (size_t i = 0; i < blocks; i++)
		ids[i] = must_block(fx, f);
	for (size_t at = 0; at < n;) {
		size_t count = min_u64(META_EXTENTS_MAX, n - at);
		for (size_t i = 0; i < count; i++)
			e[i] = (struct meta_extent){.block = ids[(at + i) / run % blocks],
						    .offset = (at + i) % 997,
						    .length = 1};
		CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, at, e, count), 0);
		at += count;
	}
	CHECK_EQ(meta_file_seal(fx->m, &fx->ctx, f, TOKEN, meta_name(name), 1), 0);
	return f;
}

/* --- the collector ------------------------------------------------------------------------------- */

/* More extents than the memory of one operation holds. */
#define VERY_MANY 560000

META_TEST(a_file_with_very_many_extents_does_not_stop_the_collector)
{
	uint64_t f = must_long_file(fx, "f", VERY_MANY, 2, 1000);
	/*
	 * The block has an owner without an extent in it. To find that out the collector must
	 * search the whole file.
	 */
	uint64_t spare = must_block(fx, f);
	struct meta_block b;
	struct arena a;
	struct meta_gc_counts counts = {0};
	collect_once(fx, &counts);
	CHECK_EQ(counts.damaged, 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("f"), 0, 0), 0);
	collect_all(fx);
	arena_init(&a, MIB);
	CHECK_EQ(meta_block_get(fx->m, &fx->ctx, &spare, 1, &a, &b), 0);
	CHECK_EQ(b.state, 0);
	arena_fini(&a);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
	CHECK(kv_mem_keys(fx->mem) < 20);
}

static void damaged_body(struct meta_fixture *fx)
{
	/* A row that cannot be decoded comes before a row that is garbage. */
	uint64_t block = must_block(fx, meta_id());
	struct schema_key key = key_ids(KEY_OWNER, FIXTURE_TENANT, 2, 3);
	struct kv_write w = {.kind = KV_PUT, .key = key_bytes(&key), .value = kv_text("\xff\xff")};
	CHECK_EQ(kv_txn(fx->kv, part_of(fx->m, META_LAYER_BLOCK, FIXTURE_TENANT, block),
			&(struct kv_txn){.writes = &w, .write_count = 1}, NULL),
		 0);
	struct meta_block b;
	struct arena a;
	struct meta_gc_counts counts = {0};
	for (int i = 0; i < 9; i++)
		collect_once(fx, &counts);
	CHECK_EQ(counts.damaged, 9);
	arena_init(&a, MIB);
	CHECK_EQ(meta_block_get(fx->m, &fx->ctx, &block, 1, &a, &b), 0);
	CHECK_EQ(b.state, 0);
	arena_fini(&a);
}

static void a_row_that_cannot_be_decoded_does_not_stop_the_collector(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(damaged_body);
	fx.options.partition_bits = 0;
	fixture_run(&fx);
}

META_TEST(a_block_that_a_long_file_lost_is_collected)
{
	uint64_t f = must_long_file(fx, "f", 10, 2, 5);
	uint64_t fresh = must_block(fx, f);
	struct meta_gc_counts counts = {0};
	collect_once(
		fx,
		&counts); /* notes that both blocks have an extent of the file, and that fresh has none */
	struct meta_file file;
	struct meta_part part = {0};
	struct arena a;
	arena_init(&a, MIB);
	CHECK_EQ(meta_file_get(fx->m, &fx->ctx, f, &part, &a, &file), 0);
	CHECK_EQ(part.count, 10);
	const struct meta_extent *list = part.extents;
	uint64_t old = list[0].block;
	for (uint64_t i = 0; i < 5; i++) {
		struct meta_extent now = {.block = fresh, .offset = i, .length = 1};
		CHECK_EQ(meta_file_remap(fx->m, &fx->ctx, f, i, &list[i], &now), 0);
	}
	collect_all(fx);
	struct meta_block b[2];
	CHECK_EQ(meta_block_get(fx->m, &fx->ctx, (uint64_t[]){old, fresh}, 2, &a, b), 0);
	CHECK(b[0].state == 0 && b[1].state == META_BLOCK_SEALED);
	arena_fini(&a);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

/* A server that is suspended before its n-th transaction until all blocks without owner are collected. Then the
 * request's deadline may have passed, or the answer may be lost. Like a real engine it begins no transaction after the
 * deadline. */
struct standing {
	struct kv base;
	struct kv *below;
	struct meta_fixture *fx;
	unsigned txns, at;
	bool late, lost;
};

static int standing_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
			struct kv_rows *rows)
{
	return kv_get(container_of(kv, struct standing, base)->below, partition, keys, n, rows);
}

static int standing_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
			 struct kv_rows *rows)
{
	return kv_scan(container_of(kv, struct standing, base)->below, partition, range, rows);
}

static int standing_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	struct standing *s = container_of(kv, struct standing, base);
	int rc = rt_sleep_ns(0);
	if (rc < 0)
		return rc;
	if (++s->txns == s->at)
		collect_all(s->fx);
	rc = kv_txn(s->below, partition, txn, failed);
	if (s->txns == s->at && s->late)
		rt_deadline_set(rt_now_ns());
	return s->txns == s->at && s->lost && rc == 0 ? -ETIMEDOUT : rc;
}

static void standing_close(struct kv *kv)
{
	kv_close(container_of(kv, struct standing, base)->below);
}

static const struct kv_ops standing_ops = {.name = "standing",
					   .get = standing_get,
					   .scan = standing_scan,
					   .txn = standing_txn,
					   .close = standing_close};

META_TEST(a_file_is_not_left_with_a_block_that_was_collected_meanwhile)
{
	struct meta_file file;
	struct meta_part part = {0};
	uint64_t f = must_long_file(fx, "f", 10, 2, 5);
	for (unsigned try = 0; try < 9; try++) {
		unsigned at = 1 + try / 3;
		uint64_t fresh = must_block(fx, f);
		struct arena a;
		arena_init(&a, MIB);
		struct standing s = {.base.ops = &standing_ops, .fx = fx};
		struct meta *slow;
		CHECK_EQ(kv_mem_open(&s.below, fx->mem), 0);
		CHECK_EQ(meta_open(&slow, &s.base, &fx->options), 0);
		s.txns = 0;
		s.at = at;
		s.late = try % 3 == 1;
		s.lost = try % 3 == 2;
		CHECK_EQ(meta_file_get(fx->m, &fx->ctx, f, &part, &a, &file), 0);
		struct meta_extent now = {.block = fresh, .length = 1};
		int rc = meta_file_remap(slow, &fx->ctx, f, 0, &part.extents[0], &now);
		rt_deadline_set(RT_NEVER);
		/* The first transaction changes the file; the second would undo the change. */
		CHECK_EQ(rc, at > 1 ? 0 : s.lost ? -ETIMEDOUT : -ENOENT);
		CHECK_EQ(s.txns, at == 1 ? 2 : 1);
		meta_close(slow);
		kv_close(&s.base);
		collect_all(fx);
		CHECK_EQ(must_be_whole(fx).garbage, 0);
		arena_fini(&a);
	}
}

/* --- moves --------------------------------------------------------------------------------------- */

#define LONG 8000

META_TEST(a_move_of_a_long_file_continues_where_it_was_interrupted)
{
	uint64_t d = must_mkdir(fx, META_ROOT, "d");
	uint64_t f = must_long_file(fx, "f", LONG, 40, 10);
	uint64_t id = meta_id(), request = meta_id();
	int rc;
	uint64_t longest = 0, tries = 0;
	/*
	 * The move is interrupted again and again: it completes in about as many attempts as it has
	 * batches.
	 */
	do {
		uint64_t before = fx->kv->stats.txns;
		kv_mem_fail_at(fx->mem, 200, KV_MEM_REQUEST_LOST);
		rc = meta_move(fx->m, &fx->ctx,
			       &(struct meta_move){.from_dir = META_ROOT,
						   .from = meta_name("f"),
						   .id = f,
						   .to_dir = d,
						   .to = meta_name("g"),
						   .new_id = id,
						   .request = request});
		kv_mem_fail_at(fx->mem, 0, KV_MEM_FINE);
		CHECK(rc == 0 || rc == -ETIMEDOUT);
		longest = max_u64(longest, fx->kv->stats.txns - before);
		tries++;
	} while (rc != 0 && tries < 100);
	CHECK_EQ(rc, 0);
	CHECK(tries > 1 && tries < 20);
	struct meta_file file;
	struct meta_part part = {.offset = LONG - 1};
	struct arena a;
	arena_init(&a, 8 * MIB);
	CHECK_EQ(meta_file_get(fx->m, &fx->ctx, id, &part, &a, &file), 0);
	CHECK(file.size == LONG && file.extent_count == LONG && part.count == 1);
	arena_fini(&a);
	CHECK_EQ(must_be_whole(fx).errors, 0);
	collect_all(fx);
	struct meta_check_report report = must_be_whole(fx);
	CHECK(report.garbage == 0 && report.files == 1 && report.blocks == 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_with_very_many_extents_does_not_stop_the_collector),
		cmocka_unit_test(a_row_that_cannot_be_decoded_does_not_stop_the_collector),
		cmocka_unit_test(a_block_that_a_long_file_lost_is_collected),
		cmocka_unit_test(a_file_is_not_left_with_a_block_that_was_collected_meanwhile),
		cmocka_unit_test(a_move_of_a_long_file_continues_where_it_was_interrupted),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
