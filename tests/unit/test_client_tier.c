// SPDX-License-Identifier: Apache-2.0
/* Tests of a tier in front of the disks: files, batches, re-encoding and compaction read through
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "client/block_tier.h"
#include "client/engine_impl.h"
#include "client_fixture.h"

#define BLOCK ((uint64_t)(256 * KIB))
#define BLOCKS_MAX 64

/* --- a tier in memory ------------------------------------------------------------------------- */

struct kept {
	uint64_t block, len;
	uint8_t *bytes;
};

struct memory_tier {
	struct block_tier base;
	bool admits; /* reads and keeps complete blocks on a miss */
	struct kept kept[BLOCKS_MAX];
	size_t count;
	uint64_t hits, misses, calls;
	bool closed;
};

static const struct kept *kept_of(const struct memory_tier *m, const struct block_range *r)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->kept[i].block == r->block->id && r->off + r->len <= m->kept[i].len)
			return &m->kept[i];
	return NULL;
}

static void admit(struct memory_tier *m, struct call *c, const struct meta_block *b)
{
	struct call own = *c;
	struct iovec iov = {malloc(b->length), b->length};
	struct block_range range = {.block = b, .len = b->length, .sink = {.iov = &iov, .n = 1}};
	struct block_range *list = &range;
	struct block_read read = {.call = &own, .ranges = &list, .count = 1};
	CHECK(iov.iov_base != NULL && m->count < BLOCKS_MAX);
	if (m->base.below->ops->read(m->base.below, &read) < 0) {
		free(iov.iov_base);
		return;
	}
	CHECK_EQ(range.crc, crc32c(0, iov.iov_base, b->length));
	m->kept[m->count++] =
		(struct kept){.block = b->id, .len = b->length, .bytes = iov.iov_base};
}

static int memory_read(struct block_tier *t, const struct block_read *r)
{
	struct memory_tier *m = container_of(t, struct memory_tier, base);
	struct block_read below = *r;
	below.ranges = calloc(r->count, sizeof(struct block_range *));
	below.count = 0;
	CHECK(below.ranges != NULL && r->count > 0);
	m->calls++;
	for (size_t i = 0; i < r->count; i++) {
		struct block_range *range = r->ranges[i];
		if (kept_of(m, range) == NULL && m->admits)
			admit(m, r->call, range->block);
		const struct kept *k = kept_of(m, range);
		if (k == NULL) {
			m->misses++;
			below.ranges[below.count++] = range;
			continue;
		}
		m->hits++;
		sink_write(&range->sink, 0, k->bytes + range->off, range->len);
		range->crc = sink_crc(&range->sink, 0, range->len);
		block_range_end(r, range, 0, "");
	}
	int rc = below.count == 0 ? 0 : t->below->ops->read(t->below, &below);
	free(below.ranges);
	return rc;
}

static void memory_close(struct block_tier *t)
{
	struct memory_tier *m = container_of(t, struct memory_tier, base);
	for (size_t i = 0; i < m->count; i++)
		free(m->kept[i].bytes);
	m->closed = true;
}

static const struct block_tier_ops memory_ops = {.read = memory_read, .close = memory_close};

/* --- helpers ---------------------------------------------------------------------------------- */

static struct engine *open_engine(struct client_fixture *fx, struct memory_tier *m)
{
	struct engine *e;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	if (m != NULL) {
		*m = (struct memory_tier){.base = {.ops = &memory_ops}};
		engine_tier_add(e, &m->base);
	}
	return e;
}

static void write_file(struct engine *e, const char *path, uint64_t text, uint64_t len,
		       const char *encoding)
{
	struct terrane_options o = {.block_bytes = BLOCK, .encoding = encoding};
	struct call c;
	struct efile *f;
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	fixture_fill(text, 0, bytes, len);
	struct iovec iov = {bytes, len};
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, path, 0, &o, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
}

static int64_t read_file(struct engine *e, const char *path, uint64_t text, uint64_t off,
			 uint64_t len)
{
	struct call c;
	struct efile *f;
	uint8_t *bytes = malloc(len);
	uint32_t crc;
	struct iovec iov[2] = {{bytes, len / 3}, {bytes + len / 3, len - len / 3}};
	CHECK(bytes != NULL);
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_file_open(&c, path, &f), 0);
	int64_t got = engine_preadv(&c, f, iov, 2, off, &crc);
	CHECK(got < 0 || fixture_same(text, off, bytes, (size_t)got));
	CHECK(got < 0 || crc == crc32c(0, bytes, (size_t)got));
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
	return got;
}

/* 2 * n ranges of 10000 bytes, every other one of the file /a or /b, whose texts are 1 and 2. */
static int read_batch(struct engine *e, size_t n, int64_t *a, int64_t *b)
{
	struct engine_range ranges[BLOCKS_MAX] = {0};
	struct call c;
	CHECK(2 * n <= BLOCKS_MAX);
	for (size_t i = 0; i < 2 * n; i++)
		ranges[i] = (struct engine_range){.path = i % 2 == 0 ? "/a" : "/b",
						  .offset = i * 37000,
						  .len = 10000,
						  .buf = malloc(10000)};
	engine_call(e, &c, NULL);
	int rc = engine_read_batch(&c, ranges, 2 * n, NULL, NULL);
	*a = ranges[0].result;
	*b = ranges[1].result;
	for (size_t i = 0; i < 2 * n; i++) {
		CHECK_EQ(ranges[i].result, i % 2 == 0 ? *a : *b);
		if (ranges[i].result > 0) {
			CHECK(fixture_same(1 + i % 2, i * 37000, ranges[i].buf, 10000));
			CHECK_EQ(ranges[i].crc, crc32c(0, ranges[i].buf, 10000));
		}
		free(ranges[i].buf);
	}
	return rc;
}

static uint64_t chunk_reads(const struct engine *e)
{
	struct terrane_stats s;
	engine_stats(e, &s);
	return s.chunk_reads;
}

/* --- tests ------------------------------------------------------------------------------------ */

CLIENT_TEST(files_and_batches_read_through_a_tier, 6, 1)
{
	struct memory_tier m;
	struct engine *e = open_engine(fx, &m);
	int64_t a_got, b_got;
	write_file(e, "/a", 1, 4 * BLOCK + 100, "rs:4+2");
	write_file(e, "/b", 2, 4 * BLOCK + 100, "rs:4+2");
	/* The tier is empty: it passes all ranges on. */
	CHECK_EQ(read_file(e, "/a", 1, 1000, 3 * BLOCK), 3 * BLOCK);
	CHECK_EQ(m.misses, 4);
	CHECK_EQ(m.hits, 0);
	/* The tier keeps /a; the disks get no more reads of it. */
	m.admits = true;
	CHECK_EQ(read_file(e, "/a", 1, 0, 5 * BLOCK), 4 * BLOCK + 100);
	m.admits = false;
	CHECK_EQ(m.count, 5);
	uint64_t before = chunk_reads(e);
	CHECK_EQ(read_file(e, "/a", 1, 1000, 3 * BLOCK), 3 * BLOCK);
	CHECK_EQ(chunk_reads(e), before);
	/* A batch is one read of all its ranges. Missed ranges still share requests. */
	uint64_t calls = m.calls, misses = m.misses;
	CHECK_EQ(read_batch(e, 10, &a_got, &b_got), 0);
	CHECK_EQ(a_got, 10000);
	CHECK_EQ(b_got, 10000);
	CHECK_EQ(m.calls, calls + 1);
	CHECK(m.misses >= misses + 10);
	CHECK(chunk_reads(e) > before);
	/* Without disks hits are served, and misses fail one by one. */
	for (uint64_t node = 0; node < 6; node++)
		fixture_do(fx, fixture_kill_node, 10 * node + 1);
	CHECK_EQ(read_file(e, "/a", 1, 7, 4 * BLOCK), 4 * BLOCK);
	CHECK_EQ(read_file(e, "/b", 2, 7, 4 * BLOCK), -ENODATA);
	CHECK_EQ(read_batch(e, 3, &a_got, &b_got), -ENODATA);
	CHECK_EQ(a_got, 10000);
	CHECK_EQ(b_got, -ENODATA);
	engine_close(e);
	CHECK(m.closed);
}

/* Lists the records of the blocks that the tier keeps; returns their number. */
static size_t kept_records(const struct memory_tier *m, struct call *c, struct arena *a,
			   struct meta_block *out)
{
	uint64_t ids[BLOCKS_MAX];
	struct meta_call meta = call_meta(c);
	for (size_t i = 0; i < m->count; i++)
		ids[i] = m->kept[i].block;
	CHECK_EQ(meta_client_block_get(&meta, ids, m->count, a, out), 0);
	return m->count;
}

CLIENT_TEST(blocks_are_rewritten_through_a_tier, 6, 1)
{
	struct memory_tier m;
	struct engine *e = open_engine(fx, &m);
	struct meta_block blocks[BLOCKS_MAX];
	struct arena a;
	struct engine_compacted out;
	struct call c;
	arena_init(&a, MIB);
	write_file(e, "/a", 1, 3 * BLOCK, "r2");
	m.admits = true;
	CHECK_EQ(read_file(e, "/a", 1, 0, 3 * BLOCK), 3 * BLOCK);
	m.admits = false;
	engine_call(e, &c, NULL);
	size_t n = kept_records(&m, &c, &a, blocks);
	uint64_t before = chunk_reads(e), hits = m.hits;
	CHECK_EQ(n, 3);
	for (size_t i = 0; i < n; i++) {
		engine_call(e, &c, NULL);
		CHECK_EQ(engine_block_reencode(&c, &blocks[i], "rs:4+2"), 0);
	}
	CHECK_EQ(m.hits, hits + n);
	CHECK_EQ(chunk_reads(e), before);
	engine_call(e, &c, NULL);
	CHECK_EQ(kept_records(&m, &c, &a, blocks), n);
	CHECK_EQ(strcmp(blocks[0].encoding, "rs:4+2"), 0);
	CHECK_EQ(engine_compact(&c, blocks, n, &out), 0);
	CHECK_EQ(out.bytes, 3 * BLOCK);
	CHECK_EQ(out.extents, 3);
	CHECK_EQ(m.hits, hits + 2 * n);
	CHECK_EQ(chunk_reads(e), before);
	CHECK_EQ(m.misses, 0);
	arena_fini(&a);
	engine_close(e);
	/* Blocks written from the tier's bytes are right on the disks. */
	e = open_engine(fx, NULL);
	CHECK_EQ(read_file(e, "/a", 1, 0, 3 * BLOCK), 3 * BLOCK);
	CHECK(chunk_reads(e) > 0);
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_and_batches_read_through_a_tier),
		cmocka_unit_test(blocks_are_rewritten_through_a_tier),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
