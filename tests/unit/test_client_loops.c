// SPDX-License-Identifier: Apache-2.0
/* Tests of the client on several loops, in the simulator: work is spread, limits hold for all loops together, the loops
 * learn of changes of the cluster map, and calls end completely. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "client_fixture.h"

#define LOOPS 4
#define BLOCK (256 * KIB)
#define FILE_BYTES (8 * (uint64_t)BLOCK)

static struct engine *open_engine(struct client_fixture *fx, const struct fabric_options *o)
{
	struct engine *e;
	fixture_loops = LOOPS;
	CHECK_EQ(fixture_engine_open(fx, o, &e), 0);
	fixture_loops = 1;
	CHECK_EQ(fabric_loops(engine_fabric(e)), LOOPS);
	return e;
}

static void write_file(struct engine *e, const char *path, const char *encoding)
{
	struct call c;
	struct efile *f;
	struct terrane_options o = {.encoding = encoding, .block_bytes = BLOCK};
	uint8_t *bytes = malloc(FILE_BYTES);
	CHECK(bytes != NULL);
	fixture_fill(1, 0, bytes, FILE_BYTES);
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, path, 0, &o, &f), 0);
	CHECK_EQ(engine_append(&c, f, &(struct iovec){bytes, FILE_BYTES}, 1, NULL), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
}

/* Returns on how many loops work was done since `before`, which has LOOPS entries; then sets it. */
static unsigned loops_used(struct engine *e, uint64_t *before)
{
	unsigned n = 0;
	for (unsigned i = 0; i < LOOPS; i++) {
		uint64_t now = fabric_loop_bytes(engine_fabric(e), i);
		n += now > before[i];
		before[i] = now;
	}
	return n;
}

/* --- spreading ---------------------------------------------------------------------------------- */

CLIENT_TEST(writes_reads_and_batches_use_all_loops, 6, 1)
{
	enum { RANGES = 64, RANGE_BYTES = 32 * KIB };
	static struct engine_range ranges[RANGES];
	struct engine *e = open_engine(fx, &(struct fabric_options){0});
	uint64_t before[LOOPS] = {0};
	uint8_t *bytes = malloc(FILE_BYTES);
	struct call c;
	struct efile *f;
	uint32_t crc;
	CHECK(bytes != NULL);
	write_file(e, "/f", "rs:4+2");
	CHECK_EQ(loops_used(e, before), LOOPS);
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/f", &f), 0);
	CHECK_EQ(engine_preadv(&c, f, &(struct iovec){bytes, FILE_BYTES}, 1, 0, &crc), FILE_BYTES);
	CHECK_EQ(loops_used(e, before), LOOPS);
	CHECK(fixture_same(1, 0, bytes, FILE_BYTES));
	CHECK_EQ(crc, crc32c(0, bytes, FILE_BYTES));
	memset(bytes, 0, FILE_BYTES);
	for (unsigned i = 0; i < RANGES; i++)
		ranges[i] = (struct engine_range){.file = f,
						  .offset = i * (uint64_t)RANGE_BYTES,
						  .len = RANGE_BYTES,
						  .buf = bytes + i * (uint64_t)RANGE_BYTES};
	CHECK_EQ(engine_read_batch(&c, ranges, RANGES, NULL, NULL), 0);
	CHECK_EQ(loops_used(e, before), LOOPS);
	CHECK(fixture_same(1, 0, bytes, RANGES * (uint64_t)RANGE_BYTES));
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
	engine_close(e);
}

/* --- limits -------------------------------------------------------------------------------------- */

#define READERS 12

struct readers {
	struct engine *e;
	struct efile *f;
	unsigned next, good, refused;
};

static void reader(void *arg)
{
	struct readers *r = arg;
	uint64_t off = r->next++ % 8 * (uint64_t)BLOCK;
	uint8_t *bytes = malloc(BLOCK);
	struct call c;
	uint32_t crc;
	CHECK(bytes != NULL);
	engine_call(r->e, &c, NULL);
	int64_t got = engine_preadv(&c, r->f, &(struct iovec){bytes, BLOCK}, 1, off, &crc);
	CHECK(got == BLOCK || got == -EBUSY);
	CHECK(got < 0 || fixture_same(1, off, bytes, BLOCK));
	r->good += got == BLOCK;
	r->refused += got == -EBUSY;
	free(bytes);
}

static void readers_run(struct readers *r, unsigned n)
{
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < n; i++)
		CHECK_EQ(rt_group_spawn(&g, "reader", reader, r), 0);
	rt_group_join(&g);
}

CLIENT_TEST(memory_is_limited_for_all_loops_together, 6, 1)
{
	struct engine *e = open_engine(fx, &(struct fabric_options){.memory_bytes = 4 * MIB});
	struct readers r = {.e = e};
	struct gate *reads = &engine_fabric(e)->shared->reads;
	struct call c;
	write_file(e, "/f", "rs:4+2");
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/f", &r.f), 0);
	readers_run(&r, READERS);
	CHECK_EQ(r.good, READERS);
	uint64_t peak = rt_budget_peak(&reads->budget);
	/* More than one loop's work was in progress, and less than the limit. */
	CHECK(peak >= 2 * (uint64_t)BLOCK && peak <= gate_limit(reads));
	CHECK_EQ(gate_held(reads), 0);
	CHECK_EQ(engine_file_close(&c, r.f), 0);
	engine_close(e);
}

CLIENT_TEST(reconstructed_reads_are_limited_for_all_loops_together, 4, 1)
{
	enum { BURST = 3 };
	struct engine *e = open_engine(fx, &(struct fabric_options){.rebuild_share = 1e-9,
								    .rebuild_floor_per_s = -1,
								    .rebuild_burst = BURST});
	struct readers r = {.e = e};
	uint64_t before[LOOPS] = {0};
	struct call c;
	write_file(e, "/f", "rs:2+1");
	(void)loops_used(e, before);
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/f", &r.f), 0);
	fixture_do(fx, fixture_kill_node, 1);
	readers_run(&r, READERS);
	CHECK(loops_used(e, before) > 1);
	CHECK(r.refused > 0 && r.good > 0);
	CHECK(engine_fabric(e)->shared->stats.rebuilt_reads <= BURST);
	CHECK(engine_fabric(e)->shared->budget.taken <= BURST);
	CHECK_EQ(engine_file_close(&c, r.f), 0);
	engine_close(e);
}

/* --- the map -------------------------------------------------------------------------------------- */

CLIENT_TEST(all_loops_learn_of_new_disks, 5, 1)
{
	struct engine *e = open_engine(fx, &(struct fabric_options){0});
	uint64_t before[LOOPS] = {0};
	struct call c;
	struct efile *f;
	uint32_t crc;
	uint8_t *bytes = malloc(FILE_BYTES);
	CHECK(bytes != NULL);
	write_file(e, "/old", "rs:3+2");
	CHECK_EQ(loops_used(e, before), LOOPS);
	fixture_do(fx, fixture_add_node, 0);
	/* Until the map has the new node there are too few racks for the wide code. */
	struct terrane_options o = {.encoding = "rs:4+2"};
	int rc;
	do {
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
		engine_call(e, &c, &o);
		rc = engine_create(&c, "/probe", 0, &o, &f);
	} while (rc == -ENOSPC);
	CHECK_EQ(rc, 0);
	engine_file_discard(f);
	write_file(e, "/new", "rs:4+2");
	CHECK_EQ(loops_used(e, before), LOOPS);
	CHECK_EQ(engine_fabric(e)->shared->stats.blocks_short, 0);
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/new", &f), 0);
	CHECK_EQ(engine_preadv(&c, f, &(struct iovec){bytes, FILE_BYTES}, 1, 0, &crc), FILE_BYTES);
	CHECK(fixture_same(1, 0, bytes, FILE_BYTES));
	CHECK_EQ(engine_fabric(e)->shared->stats.rebuilt_reads, 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
	engine_close(e);
}

/* --- the end of calls ------------------------------------------------------------------------------ */

struct cancelled {
	struct engine *e;
	struct efile *f;
	uint8_t *bytes;
	int64_t got;
	bool ended;
};

static void cancelled_read(void *arg)
{
	struct cancelled *k = arg;
	struct call c;
	uint32_t crc;
	engine_call(k->e, &c, NULL);
	k->got = engine_preadv(&c, k->f, &(struct iovec){k->bytes, FILE_BYTES}, 1, 0, &crc);
	memset(k->bytes, 0x5a, FILE_BYTES);
	k->ended = true;
}

/* Cancels a read after each of many durations. After its end no loop writes to the memory. */
CLIENT_TEST(nothing_is_written_after_a_cancelled_read, 6, 1)
{
	struct engine *e = open_engine(fx, &(struct fabric_options){0});
	struct cancelled k = {.e = e, .bytes = malloc(FILE_BYTES)};
	bool complete = false;
	unsigned runs = 0, cancelled = 0;
	struct call c;
	CHECK(k.bytes != NULL);
	write_file(e, "/f", "rs:4+2");
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/f", &k.f), 0);
	for (uint64_t wait_ns = 100 * NS_PER_US; !complete; wait_ns += wait_ns / 4, runs++) {
		struct rt_group g;
		rt_group_init(&g);
		k.ended = false;
		CHECK_EQ(rt_group_spawn(&g, "read", cancelled_read, &k), 0);
		CHECK_EQ(rt_sleep_ns(wait_ns), 0);
		complete = k.ended;
		rt_group_cancel(&g);
		rt_group_join(&g);
		CHECK(k.got == -ECANCELED || k.got == (int64_t)FILE_BYTES);
		cancelled += k.got == -ECANCELED;
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
		for (uint64_t i = 0; i < FILE_BYTES; i++)
			CHECK_EQ(k.bytes[i], 0x5a);
	}
	CHECK(runs > 5 && cancelled > 3);
	CHECK_EQ(gate_held(&engine_fabric(e)->shared->reads), 0);
	CHECK_EQ(engine_file_close(&c, k.f), 0);
	free(k.bytes);
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_reads_and_batches_use_all_loops),
		cmocka_unit_test(memory_is_limited_for_all_loops_together),
		cmocka_unit_test(reconstructed_reads_are_limited_for_all_loops_together),
		cmocka_unit_test(all_loops_learn_of_new_disks),
		cmocka_unit_test(nothing_is_written_after_a_cancelled_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
