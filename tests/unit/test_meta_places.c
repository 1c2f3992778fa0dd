// SPDX-License-Identifier: Apache-2.0
/*
 * Locations of chunks: the reverse index, and whether a chunk that a sweep found on a disk is
 * wanted.
 */
#include "base/arena.h"
#include "meta_blk.h"

#include "meta/schema.h"

static size_t on_disk(struct meta_fixture *fx, uint64_t disk)
{
	size_t n = 0;
	for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
		struct meta_gc_cursor at = {0};
		while (!at.end) {
			struct meta_on_disk out[2];
			int64_t got = meta_disk_blocks(fx->m, i, disk, &at, out, 2);
			CHECK(got >= 0);
			n += (size_t)got;
		}
	}
	return n;
}

static int replace(struct meta_fixture *fx, uint64_t block, uint64_t chunk_block, uint32_t index,
		   uint64_t from, uint64_t to, uint64_t release_count)
{
	struct meta_place p = {.chunk_block = chunk_block,
			       .index = index,
			       .crc = 9,
			       .from = from,
			       .to = to,
			       .release_count = release_count};
	return meta_block_replace(fx->m, &fx->ctx, block, &p);
}

META_TEST(the_reverse_index_follows_every_change_of_place)
{
	uint64_t f = must_create(fx, META_ROOT, "f");
	struct blk k;
	blk_init(&k, 7000, 10); /* disks 100, 101, 102 */
	struct meta_owner owner = {.file = f, .bytes = 10};
	k.chunks[2].disk = 105;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(on_disk(fx, 105), 1);
	k.chunks[2].disk = 102;
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	CHECK_EQ(on_disk(fx, 105), 0);
	CHECK_EQ(on_disk(fx, 102), 1);
	uint64_t b = k.b.id;
	CHECK_EQ(replace(fx, b, b, 0, 101, 103, 0), -ESTALE);
	/* The row has the same disk and index as before, but belongs to another layout. */
	CHECK_EQ(replace(fx, b, b + 7, 0, 100, 103, 0), -ESTALE);
	CHECK_EQ(replace(fx, b, b, 0, 100, 101, 0), -EEXIST);
	CHECK_EQ(replace(fx, b, b, 3, 100, 103, 0), -EINVAL);
	CHECK_EQ(replace(fx, b + 1, b, 0, 100, 103, 0), -ENOENT);
	CHECK_EQ(replace(fx, b, b, 0, 100, 103, 0), 0);
	/*
	 * Only the first request makes the caller delete the chunk on disk 100, not another
	 * request, nor a copy of the first.
	 */
	CHECK_EQ(replace(fx, b, b, 0, 100, 103, 0), -ESTALE);
	CHECK_EQ(on_disk(fx, 100), 0);
	CHECK_EQ(on_disk(fx, 103), 1);
	CHECK_EQ(meta_block_report(fx->m, &fx->ctx, b, b, 0, 100), -ESTALE);
	CHECK_EQ(meta_block_report(fx->m, &fx->ctx, b, b + 7, 0, 103), -ESTALE);
	CHECK_EQ(meta_block_report(fx->m, &fx->ctx, b, b, 0, 103), 0);
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_block out[2];
	uint64_t ask[2] = {b, b + 1};
	CHECK_EQ(meta_block_get(fx->m, &fx->ctx, ask, 2, &arena, out), 0);
	CHECK_EQ(out[1].state, 0);
	CHECK(out[0].chunks[0].damaged && out[0].layout == 2);
	/* Give the block a new layout. */
	struct blk n;
	blk_init(&n, b, 10);
	for (unsigned i = 0; i < 3; i++)
		n.chunks[i].disk = 200 + i;
	n.b.chunk_block = 5555;
	snprintf(n.b.encoding, sizeof(n.b.encoding), "rs:2+1");
	CHECK_EQ(meta_block_relayout(fx->m, &fx->ctx, &n.b), -ESTALE);
	n.b.release_count = 1;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(meta_block_relayout(fx->m, &fx->ctx, &n.b), 0);
	CHECK_EQ(on_disk(fx, 103), 0);
	CHECK_EQ(on_disk(fx, 201), 1);
	bool wanted;
	CHECK_EQ(meta_chunk_wanted(fx->m, &fx->ctx, b, 5555, 1, 201, &wanted), 0);
	CHECK(wanted);
	CHECK_EQ(meta_chunk_wanted(fx->m, &fx->ctx, b, b, 1, 101, &wanted), 0);
	CHECK(!wanted);
	must_be_whole(fx);
	collect_all(fx);
	must_be_whole(fx);
	arena_fini(&arena);
}

static bool wanted(struct meta_fixture *fx, uint64_t block, uint64_t chunk_block, uint32_t index,
		   uint64_t disk)
{
	bool yes;
	CHECK_EQ(meta_chunk_wanted(fx->m, &fx->ctx, block, chunk_block, index, disk, &yes), 0);
	return yes;
}

/*
 * Chunks are written before a record names them (gc.h), so a chunk that no record names may still
 * get a record.
 */
META_TEST(a_chunk_is_wanted_when_it_is_named_and_not_while_a_layout_is_under_way)
{
	uint64_t f = must_create(fx, META_ROOT, "f");
	struct blk k;
	struct meta_owner owner = {.file = f, .bytes = 10};
	blk_init(&k, 7000, 10); /* disks 100, 101, 102 */
	CHECK(!wanted(fx, 7000, 7000, 0, 100));
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	/* While the block is pending, its writer may put the block's chunks on any disk. */
	CHECK(wanted(fx, 7000, 7000, 0, 100) && wanted(fx, 7000, 7000, 2, 999));
	CHECK(!wanted(fx, 7000, 7001, 0, 100));
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	CHECK(wanted(fx, 7000, 7000, 1, 101));
	CHECK(!wanted(fx, 7000, 7000, 1, 100) && !wanted(fx, 7000, 7000, 3, 100));
	/*
	 * A repair writes a chunk to disk 103 and changes the record afterwards. In between no
	 * record names the chunk, but it is not dead.
	 */
	CHECK(!wanted(fx, 7000, 7000, 0, 103));
	CHECK_EQ(replace(fx, 7000, 7000, 0, 100, 103, 0), 0);
	CHECK(wanted(fx, 7000, 7000, 0, 103) && !wanted(fx, 7000, 7000, 0, 100));
	/* The same holds for the chunks of a new layout, which have another chunk_block. */
	struct blk n;
	blk_init(&n, 7000, 10);
	for (unsigned i = 0; i < 3; i++)
		n.chunks[i].disk = 200 + i;
	n.b.chunk_block = 5555;
	snprintf(n.b.encoding, sizeof(n.b.encoding), "rs:2+1");
	CHECK(!wanted(fx, 7000, 5555, 1, 201) && wanted(fx, 7000, 7000, 1, 101));
	n.b.release_count = 1;
	CHECK_EQ(meta_block_relayout(fx->m, &fx->ctx, &n.b), 0);
	CHECK(wanted(fx, 7000, 5555, 1, 201) && !wanted(fx, 7000, 7000, 1, 101));
	/* A block of another tenant with the same id does not count. */
	struct meta_ctx other = {.tenant = FIXTURE_TENANT + 1};
	bool yes = true;
	CHECK_EQ(meta_chunk_wanted(fx->m, &other, 7000, 5555, 1, 201, &yes), 0);
	CHECK(!yes);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("f"), f, 0), 0);
	collect_all(fx);
	CHECK(!wanted(fx, 7000, 5555, 1, 201));
}

/* --- media ------------------------------------------------------------------------------------ */

static struct meta_block media_look(struct meta_fixture *fx, uint64_t block)
{
	struct meta_block b;
	struct arena arena;
	arena_init(&arena, MIB);
	CHECK_EQ(meta_block_get(fx->m, &fx->ctx, &block, 1, &arena, &b), 0);
	arena_fini(&arena);
	b.chunks = NULL;
	return b;
}

META_TEST(a_block_keeps_its_media_until_it_is_laid_out_on_another)
{
	uint64_t f = must_create(fx, META_ROOT, "f");
	struct meta_owner owner = {.file = f, .bytes = 10};
	struct blk k, n;
	blk_init(&k, 7000, 10); /* disks 100, 101, 102 */
	k.b.media = CLUSTER_MEDIA_COUNT;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), -EINVAL);
	k.b.media = CLUSTER_MEDIA_FLASH;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	struct blk other = k;
	other.b.chunks = other.chunks;
	other.b.media = CLUSTER_MEDIA_DISK;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &other.b), -EEXIST);
	/* The media is decided by the allocation, not by the commit. */
	k.b.media = CLUSTER_MEDIA_DISK;
	k.b.state = META_BLOCK_OPEN;
	k.b.length = 0;
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	CHECK_EQ(media_look(fx, 7000).media, CLUSTER_MEDIA_FLASH);
	CHECK_EQ(meta_block_extend(fx->m, &fx->ctx, 7000, BLK_EPOCH, 0, 10, 3), 0);
	struct arena arena;
	struct meta_block fenced;
	arena_init(&arena, MIB);
	CHECK_EQ(meta_block_fence(fx->m, &fx->ctx, 7000, BLK_EPOCH + 1, &arena, &fenced), 0);
	CHECK_EQ(fenced.media, CLUSTER_MEDIA_FLASH);
	arena_fini(&arena);
	CHECK_EQ(meta_block_seal(fx->m, &fx->ctx, 7000, BLK_EPOCH + 1, 10, 10, 3), 0);
	CHECK_EQ(replace(fx, 7000, 7000, 0, 100, 103, 0), 0);
	CHECK_EQ(meta_block_report(fx->m, &fx->ctx, 7000, 7000, 1, 101), 0);
	CHECK_EQ(media_look(fx, 7000).state, META_BLOCK_SEALED);
	CHECK_EQ(media_look(fx, 7000).media, CLUSTER_MEDIA_FLASH);
	blk_init(&n, 7000, 10);
	for (unsigned i = 0; i < 3; i++)
		n.chunks[i].disk = 200 + i;
	for (unsigned i = 0; i < CLUSTER_MEDIA_COUNT; i++) {
		n.b.chunk_block = 5555 + i;
		n.b.release_count = 1 + i;
		n.b.media = (enum cluster_media)(CLUSTER_MEDIA_FLASH - i);
		CHECK_EQ(meta_block_relayout(fx->m, &fx->ctx, &n.b), 0);
		CHECK_EQ(media_look(fx, 7000).media, n.b.media);
	}
	n.b.chunk_block++;
	n.b.media = CLUSTER_MEDIA_COUNT;
	CHECK_EQ(meta_block_relayout(fx->m, &fx->ctx, &n.b), -EINVAL);
	must_be_whole(fx);
}

/* --- who stood still -------------------------------------------------------------------------- */

static uint64_t release_count(struct meta_fixture *fx, uint64_t block)
{
	struct meta_block b;
	struct arena arena;
	arena_init(&arena, MIB);
	CHECK_EQ(meta_block_get(fx->m, &fx->ctx, &block, 1, &arena, &b), 0);
	arena_fini(&arena);
	return b.release_count;
}

static bool given_up(struct meta_fixture *fx, uint64_t chunk_block, uint32_t index, uint64_t disk)
{
	bool yes;
	CHECK_EQ(meta_chunk_give_up(fx->m, &fx->ctx, 7000, chunk_block, index, disk, &yes), 0);
	return !yes;
}

/* A block on disks 100, 101 and 102, and a new layout of it on 200 and so on. */
static void block_make(struct meta_fixture *fx, struct blk *k, struct blk *n)
{
	uint64_t f = must_create(fx, META_ROOT, "f");
	struct meta_owner owner = {.file = f, .bytes = 10};
	blk_init(k, 7000, 10);
	CHECK(given_up(fx, 7000, 0, 100));
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k->b), 0);
	CHECK(!given_up(fx, 7000, 0, 999));
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k->b, &owner, 1), 0);
	CHECK_EQ(release_count(fx, 7000), 0);
	blk_init(n, 7000, 10);
	for (unsigned i = 0; i < 3; i++)
		n->chunks[i].disk = 200 + i;
	n->b.chunk_block = 5555;
	snprintf(n->b.encoding, sizeof(n->b.encoding), "rs:2+1");
}

META_TEST(a_layout_whose_chunks_were_given_up_is_refused)
{
	struct blk k, n;
	block_make(fx, &k, &n);
	/*
	 * A writer puts the chunks of a new layout and is suspended. A sweep finds one of them and
	 * deletes it.
	 */
	CHECK(!given_up(fx, 7000, 1, 101));
	CHECK_EQ(release_count(fx, 7000), 0);
	CHECK(given_up(fx, 5555, 1, 201));
	CHECK_EQ(meta_block_relayout(fx->m, &fx->ctx, &n.b), -ESTALE);
	CHECK(wanted(fx, 7000, 7000, 1, 101));
	/* The chunks are put again under another chunk_block. */
	n.b.chunk_block = 6666;
	n.b.release_count = release_count(fx, 7000);
	CHECK_EQ(meta_block_relayout(fx->m, &fx->ctx, &n.b), 0);
	must_be_whole(fx);
}

META_TEST(a_place_whose_chunk_may_be_deleted_is_refused)
{
	struct blk k, n;
	block_make(fx, &k, &n);
	CHECK(given_up(fx, 7000, 0, 103));
	CHECK_EQ(replace(fx, 7000, 7000, 0, 100, 103, 0), -ESTALE);
	CHECK(wanted(fx, 7000, 7000, 0, 100));
	CHECK_EQ(replace(fx, 7000, 7000, 0, 100, 103, 1), 0);
	/*
	 * The request is sent again, then the chunk is moved back; then a copy of the first request
	 * arrives.
	 */
	CHECK_EQ(replace(fx, 7000, 7000, 0, 100, 103, 1), -ESTALE);
	CHECK_EQ(release_count(fx, 7000), 2);
	CHECK_EQ(replace(fx, 7000, 7000, 0, 103, 100, 2), 0);
	CHECK_EQ(replace(fx, 7000, 7000, 0, 100, 103, 1), -ESTALE);
	CHECK(wanted(fx, 7000, 7000, 0, 100));
	/*
	 * The chunk is rebuilt in place and damaged again: a copy of the first request does not
	 * clear its mark.
	 */
	CHECK_EQ(meta_block_report(fx->m, &fx->ctx, 7000, 7000, 0, 100), 0);
	CHECK_EQ(replace(fx, 7000, 7000, 0, 100, 100, 3), 0);
	CHECK_EQ(meta_block_report(fx->m, &fx->ctx, 7000, 7000, 0, 100), 0);
	CHECK_EQ(replace(fx, 7000, 7000, 0, 100, 100, 3), -ESTALE);
	must_be_whole(fx);
}

META_TEST(late_chunks_are_added_until_one_is_given_up)
{
	uint64_t f = must_create(fx, META_ROOT, "f");
	struct meta_owner owner = {.file = f, .bytes = 10};
	struct blk k;
	blk_init(&k, 7000, 10);
	k.chunks[0].disk = k.chunks[1].disk = k.chunks[2].disk = 0;
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	CHECK_EQ(replace(fx, 7000, 7000, 0, 0, 100, 0), 0);
	CHECK_EQ(replace(fx, 7000, 7000, 1, 0, 101, 0), 0);
	CHECK(given_up(fx, 7000, 2, 102));
	CHECK_EQ(replace(fx, 7000, 7000, 2, 0, 102, 0), -ESTALE);
	must_be_whole(fx);
}

/* --- many blocks at once ---------------------------------------------------------------------- */

/* A store with slow reads, which counts how many run at the same time. */
struct slow {
	struct kv base;
	struct kv *below;
	unsigned now, most, reads;
};

static int slow_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		    struct kv_rows *rows)
{
	struct slow *s = container_of(kv, struct slow, base);
	s->reads++;
	s->now++;
	s->most = s->now > s->most ? s->now : s->most;
	rt_sleep_ns(NS_PER_MS);
	int rc = kv_get(s->below, partition, keys, n, rows);
	s->now--;
	return rc;
}

static void slow_close(struct kv *kv)
{
	kv_close(container_of(kv, struct slow, base)->below);
}

static const struct kv_ops slow_ops = {.name = "slow", .get = slow_get, .close = slow_close};

#define MANY 200

META_TEST(blocks_of_many_partitions_are_read_at_once)
{
	uint64_t f = must_create(fx, META_ROOT, "f"), ask[MANY + 1];
	struct meta_owner owner = {.file = f, .bytes = 10};
	for (uint64_t i = 0; i < MANY; i++) {
		struct blk k;
		blk_init(&k, ask[i] = 9000 + i, 10);
		CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
		CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	}
	ask[MANY] = 5; /* an id that no block has */
	struct slow slow = {.base.ops = &slow_ops};
	struct meta *m;
	struct meta_block out[MANY + 1];
	struct arena arena;
	arena_init(&arena, MIB);
	CHECK_EQ(kv_mem_open(&slow.below, fx->mem), 0);
	CHECK_EQ(meta_open(&m, &slow.base, &fx->options), 0);
	slow.reads = slow.most = 0;
	CHECK_EQ(meta_block_get(m, &fx->ctx, ask, MANY + 1, &arena, out), 0);
	CHECK(slow.reads > 8 && slow.reads <= 1U << fx->options.partition_bits);
	CHECK_EQ(slow.most, 8);
	for (uint64_t i = 0; i < MANY; i++)
		CHECK(out[i].id == ask[i] && out[i].length == 10);
	CHECK_EQ(out[MANY].state, 0);
	meta_close(m);
	kv_close(&slow.base);
	arena_fini(&arena);
}

/* --- rows that do not read -------------------------------------------------------------------- */

/* Replaces the value of the key by bytes that are no record. */
static void corrupt_row(struct meta_fixture *fx, uint64_t block, struct schema_key key)
{
	struct kv_write w = {
		.kind = KV_PUT, .key = key_bytes(&key), .value = kv_text("\xff\xff\xff")};
	struct kv_txn txn = {.writes = &w, .write_count = 1};
	uint64_t partition = schema_partition(fx->options.partition_bits, META_LAYER_BLOCK,
					      FIXTURE_TENANT, block, 0);
	CHECK_EQ(kv_txn(fx->kv, partition, &txn, NULL), 0);
}

static size_t blocks_at(struct meta_fixture *fx, uint64_t *owned)
{
	size_t count = 0;
	*owned = 0;
	for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
		struct meta_gc_cursor at = {0};
		while (!at.end) {
			struct arena arena;
			struct meta_block_at out[2];
			arena_init(&arena, MIB);
			int64_t n = meta_blocks(fx->m, i, &at, &arena, out, 2);
			CHECK(n >= 0);
			for (int64_t k = 0; k < n; k++, count++) {
				CHECK(out[k].block.id >= 7000 && out[k].tenant == FIXTURE_TENANT);
				*owned += out[k].owned_bytes;
			}
			arena_fini(&arena);
		}
	}
	return count;
}

static void corrupt_row_body(struct meta_fixture *fx)
{
	enum { BLOCKS = 8 };
	uint64_t f = must_create(fx, META_ROOT, "f"), owned;
	for (uint64_t id = 7000; id < 7000 + BLOCKS; id++) {
		struct blk k;
		struct meta_owner owner = {.file = f, .bytes = 4};
		blk_init(&k, id, 10);
		for (unsigned i = 0; i < 3; i++)
			k.chunks[i].disk = 100 + i;
		CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
		CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	}
	CHECK_EQ(blocks_at(fx, &owned), BLOCKS);
	CHECK_EQ(owned, 4 * BLOCKS);
	/* A block with an owner row that cannot be decoded counts as fully owned. */
	corrupt_row(fx, 7001, key_ids(KEY_OWNER, FIXTURE_TENANT, 7001, f));
	CHECK_EQ(blocks_at(fx, &owned), BLOCKS);
	CHECK_EQ(owned, 4 * (BLOCKS - 1) + 10);
	corrupt_row(fx, 7003, key_id(KEY_BLOCK, FIXTURE_TENANT, 7003));
	CHECK_EQ(blocks_at(fx, &owned), BLOCKS - 1);
	CHECK_EQ(owned, 4 * (BLOCKS - 2) + 10);
	/* The chunk with an unreadable row is still listed on its disk. */
	corrupt_row(fx, 7004, key_disk(100, FIXTURE_TENANT, 7004));
	CHECK_EQ(on_disk(fx, 100), BLOCKS);
}

static void a_row_that_cannot_be_decoded_ends_no_walk(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(corrupt_row_body);
	fx.options.partition_bits = 1;
	fixture_run(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reverse_index_follows_every_change_of_place),
		cmocka_unit_test(a_block_keeps_its_media_until_it_is_laid_out_on_another),
		cmocka_unit_test(a_layout_whose_chunks_were_given_up_is_refused),
		cmocka_unit_test(a_place_whose_chunk_may_be_deleted_is_refused),
		cmocka_unit_test(late_chunks_are_added_until_one_is_given_up),
		cmocka_unit_test(blocks_of_many_partitions_are_read_at_once),
		cmocka_unit_test(
			a_chunk_is_wanted_when_it_is_named_and_not_while_a_layout_is_under_way),
		cmocka_unit_test(a_row_that_cannot_be_decoded_ends_no_walk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
