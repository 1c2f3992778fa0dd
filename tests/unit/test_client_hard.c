// SPDX-License-Identifier: Apache-2.0
/* Tests of hard cases: cancelled appends, blocks of other encodings in one file, many small
 * files behind an offline node, ranges and files of which one fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/crc.h"
#include "client/engine_impl.h"
#include "client_fixture.h"

#define BLOCK ((uint64_t)64 * KIB)

static struct engine *open_engine(struct client_fixture *fx)
{
	struct engine *e;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	return e;
}

static int append(struct engine *e, struct efile *f, uint64_t text, uint64_t at, uint64_t len,
		  const struct terrane_options *o)
{
	struct call c;
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	fixture_fill(text, at, bytes, len);
	struct iovec iov = {bytes, len};
	engine_call(e, &c, o);
	int rc = engine_append(&c, f, &iov, 1, NULL);
	free(bytes);
	return rc;
}

static bool exists(struct engine *e, const char *path)
{
	struct call c;
	struct terrane_stat st;
	engine_call(e, &c, NULL);
	int rc = engine_stat(&c, path, &st);
	CHECK(rc == 0 || rc == -ENOENT);
	return rc == 0;
}

/* --- cancelled appends ------------------------------------------------------------------------ */

struct long_append {
	struct engine *e;
	struct efile *f;
	int rc;
	bool begun;
};

static void long_append(void *arg)
{
	struct long_append *a = arg;
	a->begun = true;
	a->rc = append(a->e, a->f, 1, 0, 8 * BLOCK, &(struct terrane_options){.timeout_ms = 60000});
}

CLIENT_TEST(an_append_that_lost_its_turn_leaves_no_gap, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct terrane_options o = {.block_bytes = BLOCK, .blocks_in_flight = 1};
	struct call c;
	engine_call(e, &c, &o);
	struct long_append a = {.e = e, .rc = 1};
	CHECK_EQ(engine_create(&c, "/gap", 0, &o, &a.f), 0);
	for (uint64_t disk = 1; disk <= 21; disk += 10)
		fixture_do(fx, fixture_cut_node, disk);
	struct rt_group g;
	rt_group_init(&g);
	CHECK_EQ(rt_group_spawn(&g, "append", long_append, &a), 0);
	while (!a.begun)
		rt_yield();
	/* This append never gets its turn, and the next one must not take its place. */
	uint64_t before_ns = rt_deadline();
	CHECK_EQ(append(e, a.f, 1, 8 * BLOCK, 100, &(struct terrane_options){.timeout_ms = 5}),
		 -ETIME);
	rt_deadline_set(before_ns);
	fixture_do(fx, fixture_heal, 0);
	rt_group_join(&g);
	CHECK(append(e, a.f, 1, 8 * BLOCK + 100, 100, NULL) < 0);
	engine_call(e, &c, NULL);
	CHECK(engine_file_close(&c, a.f) < 0);
	CHECK(!exists(e, "/gap"));
	engine_close(e);
}

CLIENT_TEST(a_refused_append_poisons_the_file, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct call c;
	struct efile *f;
	engine_call(e, &c, NULL);
	for (unsigned flags = 0; flags <= TERRANE_LOG; flags += TERRANE_LOG) {
		CHECK_EQ(engine_create(&c, flags == 0 ? "/whole" : "/log", flags, NULL, &f), 0);
		CHECK_EQ(append(e, f, 1, 0, 1000, NULL), 0);
		engine_file_poison(f, -EAGAIN);
		CHECK_EQ(append(e, f, 1, 1000, 1000, NULL), -EAGAIN);
		CHECK_EQ(engine_file_close(&c, f), -EAGAIN);
	}
	CHECK(!exists(e, "/whole"));
	engine_close(e);
}

/* --- memory held by idle files ---------------------------------------------------------------- */

struct hungry {
	struct engine *e;
	struct efile *f;
	unsigned timeout_ms;
	int rc;
};

static void hungry_append(void *arg)
{
	struct hungry *h = arg;
	h->rc = append(h->e, h->f, 1, 0, MIB,
		       &(struct terrane_options){.timeout_ms = h->timeout_ms});
}

static void cut_meta(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_net_cut(fx->sim, fx->client, fx->meta, true);
}

/* A writer without memory makes the idle file send its block, and is cancelled before metadata
 * answers. */
static void relieve(struct client_fixture *fx, struct engine *e, struct hungry *h)
{
	struct gate *g = &engine_fabric(e)->shared->writes;
	uint64_t rest = gate_limit(g) - gate_held(g);
	struct rt_group hungry;
	rt_group_init(&hungry);
	CHECK(gate_try(g, rest));
	fixture_do(fx, cut_meta, 0);
	CHECK_EQ(rt_group_spawn(&hungry, "hungry", hungry_append, h), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	rt_group_cancel(&hungry);
	rt_group_join(&hungry);
	fixture_do(fx, fixture_heal, 0);
	gate_leave(g, rest);
}

CLIENT_TEST(who_gives_up_waiting_for_memory_breaks_no_other_file, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct terrane_options o = {.block_bytes = 2 * MIB};
	for (int late = 0; late < 2; late++) {
		const char *path = late ? "/late" : "/cancelled";
		struct hungry h = {.e = e, .timeout_ms = late ? 500 : 60000};
		struct call c;
		struct efile *f;
		engine_call(e, &c, &o);
		CHECK_EQ(engine_create(&c, path, 0, &o, &f), 0);
		CHECK_EQ(engine_create(&c, "/hungry", 0, &o, &h.f), 0);
		CHECK_EQ(append(e, f, 5, 0, 3 * MIB, NULL), 0);
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
		CHECK_EQ(engine_fabric(e)->shared->stats.blocks_written, late ? 4 : 1);
		relieve(fx, e, &h);
		CHECK_EQ(h.rc, late ? -ETIME : -ECANCELED);
		engine_file_discard(h.f);
		CHECK_EQ(append(e, f, 5, 3 * MIB, MIB, NULL), 0);
		CHECK_EQ(engine_file_close(&c, f), 0);
		CHECK_EQ(engine_fabric(e)->shared->stats.blocks_written,
			 /*
			  * with `late` blocks are written before they are full, so there are more
			  */
			 late ? 6 : 3);
		CHECK(exists(e, path));
	}
	engine_close(e);
}

/* --- encodings of blocks ---------------------------------------------------------------------- */

static void encodings_of(struct engine *e, uint64_t file, char out[][META_ENCODING_MAX + 1],
			 size_t *n)
{
	struct arena a;
	struct meta_file f;
	struct meta_part part = {.max = 16};
	struct call c;
	arena_init(&a, 1 * MIB);
	engine_call(e, &c, NULL);
	struct meta_call m = call_meta(&c);
	CHECK_EQ(meta_client_file_get(&m, file, &part, &a, &f), 0);
	*n = part.count;
	for (size_t i = 0; i < *n; i++) {
		struct meta_block block;
		CHECK_EQ(meta_client_block_get(&m, &part.extents[i].block, 1, &a, &block), 0);
		memcpy(out[i], block.encoding, sizeof(block.encoding));
	}
	arena_fini(&a);
}

CLIENT_TEST(blocks_of_one_file_may_have_several_encodings, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct terrane_options o = {.block_bytes = BLOCK, .encoding = "rs:4+2"};
	struct call c;
	struct efile *f;
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, "/mixed", 0, &o, &f), 0);
	CHECK_EQ(append(e, f, 3, 0, BLOCK + 10, NULL), 0);
	/* The second block began before and keeps its encoding; the third and fourth are
	 * replicated. */
	CHECK_EQ(
		append(e, f, 3, BLOCK + 10, 2 * BLOCK, &(struct terrane_options){.encoding = "r3"}),
		0);
	CHECK_EQ(append(e, f, 3, 3 * BLOCK + 10, 2 * BLOCK, NULL), 0);
	engine_call(e, &c, NULL);
	CHECK_EQ(append(e, f, 3, 0, 1, &(struct terrane_options){.encoding = "rs:x"}), -EINVAL);
	engine_file_discard(f);
	CHECK_EQ(engine_create(&c, "/mixed", 0, &o, &f), 0);
	CHECK_EQ(append(e, f, 3, 0, BLOCK + 10, NULL), 0);
	CHECK_EQ(
		append(e, f, 3, BLOCK + 10, 2 * BLOCK, &(struct terrane_options){.encoding = "r3"}),
		0);
	CHECK_EQ(append(e, f, 3, 3 * BLOCK + 10, BLOCK, NULL), 0);
	uint64_t id = engine_file_id(f);
	CHECK_EQ(engine_file_close(&c, f), 0);
	char names[16][META_ENCODING_MAX + 1];
	size_t n = 0;
	encodings_of(e, id, names, &n);
	static const char *const want[] = {"rs:4+2", "rs:4+2", "r3", "r3", "rs:4+2"};
	CHECK_EQ(n, ARRAY_LEN(want));
	for (size_t i = 0; i < n; i++)
		CHECK(strcmp(names[i], want[i]) == 0);
	uint8_t *bytes = malloc(5 * BLOCK);
	CHECK(bytes != NULL);
	struct iovec iov = {bytes, 5 * BLOCK};
	uint32_t crc;
	CHECK_EQ(engine_file_open(&c, "/mixed", &f), 0);
	CHECK_EQ(engine_preadv(&c, f, &iov, 1, 0, &crc), (int64_t)(4 * BLOCK + 10));
	CHECK(fixture_same(3, 0, bytes, 4 * BLOCK + 10));
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
	engine_close(e);
}

/* --- small files behind an offline node ------------------------------------------------------- */

#define SMALL 600
#define SMALL_BYTES 3000

static void pack_many(struct engine *e, uint64_t *ids)
{
	static char names[SMALL][16];
	struct terrane_small *files = calloc(SMALL, sizeof(*files));
	uint8_t *bytes = malloc((size_t)SMALL * SMALL_BYTES);
	struct call c;
	CHECK(files != NULL && bytes != NULL);
	for (size_t i = 0; i < SMALL; i++) {
		snprintf(names[i], sizeof(names[i]), "f%04zu", i);
		fixture_fill(i, 0, bytes + i * SMALL_BYTES, SMALL_BYTES);
		files[i] = (struct terrane_small){
			.name = names[i], .data = bytes + i * SMALL_BYTES, .len = SMALL_BYTES};
	}
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_pack(&c, "/", files, SMALL, 0, NULL), 0);
	for (size_t i = 0; i < SMALL; i++)
		ids[i] = files[i].id;
	free(files);
	free(bytes);
}

CLIENT_TEST(neighbours_behind_a_dead_node_are_rebuilt_together, 6, 1)
{
	struct engine *e = open_engine(fx);
	static uint64_t ids[SMALL];
	pack_many(e, ids);
	fixture_do(fx, fixture_kill_node, 1);
	fixture_do(fx, fixture_kill_node, 11);
	struct engine_range *ranges = calloc(SMALL, sizeof(*ranges));
	uint8_t *bytes = malloc((size_t)SMALL * SMALL_BYTES);
	CHECK(ranges != NULL && bytes != NULL);
	for (size_t round = 0; round < 3; round++) {
		struct call c;
		/* All files in random order, then every third, then the same one often. */
		size_t n = round == 1 ? SMALL / 3 : SMALL;
		for (size_t i = 0; i < n; i++) {
			size_t k = round == 0 ? i * 7 % SMALL : round == 1 ? 3 * i : i % 5;
			ranges[i] = (struct engine_range){.id = ids[k],
							  .offset = k % 3,
							  .len = SMALL_BYTES,
							  .buf = bytes + i * SMALL_BYTES};
		}
		memset(bytes, 0, (size_t)SMALL * SMALL_BYTES);
		engine_call(e, &c, NULL);
		CHECK_EQ(engine_read_batch(&c, ranges, n, NULL, NULL), 0);
		for (size_t i = 0; i < n; i++) {
			size_t k = round == 0 ? i * 7 % SMALL : round == 1 ? 3 * i : i % 5;
			size_t want = SMALL_BYTES - k % 3;
			CHECK_EQ(ranges[i].result, (int64_t)want);
			CHECK(fixture_same(k, k % 3, ranges[i].buf, want));
			CHECK_EQ(ranges[i].crc, crc32c(0, ranges[i].buf, want));
		}
		/* The parts are read chunk by chunk, not file by file. */
		if (round < 2)
			CHECK(engine_fabric(e)->shared->stats.rebuilt_reads < 20 * (round + 1));
	}
	CHECK(engine_fabric(e)->shared->stats.rebuilt_reads > 0);
	free(ranges);
	free(bytes);
	engine_close(e);
}

/* --- files of all kinds in one batch ------------------------------------------------------------ */

static void file_of(struct engine *e, const char *path, unsigned flags, uint64_t text, size_t len)
{
	struct terrane_options o = {.block_bytes = 64 * KIB, .encoding = flags != 0 ? "r3" : NULL};
	struct call c;
	struct efile *f;
	uint8_t *bytes = malloc(len + 1);
	CHECK(bytes != NULL);
	fixture_fill(text, 0, bytes, len);
	struct iovec iov = {bytes, len};
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, path, flags, &o, &f), 0);
	CHECK(len == 0 || engine_append(&c, f, &iov, 1, NULL) == 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
}

/* Sealed files are opened many at once; logs, files of many blocks and files with an error one by one. */
CLIENT_TEST(a_batch_reads_files_of_every_kind_by_path, 6, 1)
{
	enum { MANY = 400 * 1000, SOME = 1000 };
	const struct {
		const char *path;
		uint64_t text;
		uint64_t offset;
		int64_t result;
	} wanted[] = {
		{"/d/one", 1, 0, SOME},
		{"/d/one", 1, 900, 100},
		{"d//one/", 1, SOME, 0},
		{"/d/many", 2, MANY - SOME, SOME},
		{"/d/many", 2, 65000, SOME},
		{"/d/log", 3, 500, 500},
		{"/d/empty", 4, 0, 0},
		{"/d", 0, 0, -EISDIR},
		{"/", 0, 0, -EISDIR},
		{"/d/none", 0, 0, -ENOENT},
		{"/d/one/below", 0, 0, -ENOTDIR},
		{"/none/one", 0, 0, -ENOENT},
		{"/d/..", 0, 0, -EINVAL},
		{"/d/\xff", 0, 0, -EILSEQ},
		{"/top", 5, 0, SOME},
	};
	struct engine_range ranges[ARRAY_LEN(wanted)];
	uint8_t back[ARRAY_LEN(wanted)][SOME];
	struct engine *e = open_engine(fx);
	struct call c;
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_mkdir(&c, "/d", 0), 0);
	file_of(e, "/d/one", 0, 1, SOME);
	file_of(e, "/d/many", 0, 2, MANY);
	file_of(e, "/d/log", TERRANE_LOG, 3, SOME);
	file_of(e, "/d/empty", 0, 4, 0);
	file_of(e, "/top", 0, 5, SOME);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		ranges[i] = (struct engine_range){.path = wanted[i].path,
						  .offset = wanted[i].offset,
						  .len = SOME,
						  .buf = back[i]};
	engine_call(e, &c, NULL);
	CHECK(engine_read_batch(&c, ranges, ARRAY_LEN(wanted), NULL, NULL) < 0);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		CHECK_RC(ranges[i].result, wanted[i].result);
		if (ranges[i].result > 0)
			CHECK(fixture_same(wanted[i].text, wanted[i].offset, back[i],
					   (size_t)ranges[i].result));
	}
	engine_close(e);
}

/* --- one failure of many ---------------------------------------------------------------------- */

CLIENT_TEST(one_bad_file_or_range_stands_for_itself, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct call c;
	uint32_t wrong = 1;
	struct terrane_small files[3] = {{.name = "a", .data = "aa", .len = 2},
					 {.name = "b", .data = "bb", .len = 2, .crc32c = &wrong},
					 {.name = "c", .data = "cc", .len = 2}};
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_pack(&c, "/", files, 3, 0, NULL), -EBADMSG);
	CHECK_EQ(files[1].result, -EBADMSG);
	CHECK(files[0].result == -ECANCELED && files[2].result == -ECANCELED);
	CHECK(!exists(e, "/a") && !exists(e, "/b") && !exists(e, "/c"));
	files[1].crc32c = NULL;
	CHECK_EQ(engine_pack(&c, "/", files, 3, 0, NULL), 0);
	struct engine_range ranges[3];
	char back[3][4] = {0};
	for (int i = 0; i < 3; i++)
		ranges[i] = (struct engine_range){.id = files[i].id, .len = 4, .buf = back[i]};
	ranges[1].id = 77;
	CHECK_EQ(engine_read_batch(&c, ranges, 3, NULL, NULL), -ENOENT);
	CHECK(ranges[0].result == 2 && ranges[1].result == -ENOENT && ranges[2].result == 2);
	CHECK(strcmp(back[0], "aa") == 0 && strcmp(back[2], "cc") == 0);
	struct efile *f;
	struct terrane_stat st, by_name;
	CHECK_EQ(engine_file_open(&c, "/a", &f), 0);
	CHECK_EQ(engine_file_stat(&c, f, &st), 0);
	CHECK_EQ(engine_stat(&c, "/a", &by_name), 0);
	CHECK(st.mtime_ns != 0 && st.mtime_ns == by_name.mtime_ns && st.sealed);
	CHECK_EQ(engine_file_close(&c, f), 0);
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LOOPS(an_append_that_lost_its_turn_leaves_no_gap),
		ON_LOOPS(a_refused_append_poisons_the_file),
		ON_LOOPS(who_gives_up_waiting_for_memory_breaks_no_other_file),
		ON_LOOPS(blocks_of_one_file_may_have_several_encodings),
		ON_LOOPS(neighbours_behind_a_dead_node_are_rebuilt_together),
		ON_LOOPS(a_batch_reads_files_of_every_kind_by_path),
		ON_LOOPS(one_bad_file_or_range_stands_for_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
