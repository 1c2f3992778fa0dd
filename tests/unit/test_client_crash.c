// SPDX-License-Identifier: Apache-2.0
/* A writer crashes at each of its waits: no partial file becomes visible, acknowledged bytes can
 * be read, and a log can be continued. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "janitor_fixture.h"
#include "kv/mem.h"

#define BLOCK (64 * KIB)
#define WHOLE (3 * BLOCK + 100)
#define PART 5000L

/* Results that the writer got, kept outside of its process. */
struct told {
	bool whole;
	uint64_t log; /* number of acknowledged bytes of the log */
	int packed;
	uint64_t blocks; /* number of blocks that the client has written */
	bool all;        /* the client has finished its work */
};

static struct told told;
static uint64_t crash_at;

static void writes(struct engine *e)
{
	struct call c;
	struct efile *f;
	struct terrane_options o = {.block_bytes = BLOCK};
	static uint8_t bytes[WHOLE];
	struct iovec iov = {bytes, WHOLE};
	engine_call(e, &c, &o);
	fixture_fill(1, 0, bytes, WHOLE);
	if (engine_create(&c, "/whole", 0, &o, &f) != 0)
		return;
	int rc = engine_append(&c, f, &iov, 1, NULL);
	told.whole = engine_file_close(&c, f) == 0;
	if (rc != 0 || !told.whole)
		return;
	struct terrane_small small[2] = {{.name = "s0", .data = bytes, .len = 1000},
					 {.name = "s1", .data = bytes + 1000, .len = 2000}};
	if (engine_pack(&c, "/", small, 2, 0, &o) != 0)
		return;
	told.packed = 2;
	if (engine_create(&c, "/log", TERRANE_LOG, &o, &f) != 0)
		return;
	for (int i = 0; i < 3; i++) {
		fixture_fill(2, told.log, bytes, PART);
		iov = (struct iovec){bytes, PART};
		if (engine_append(&c, f, &iov, 1, NULL) != 0)
			break;
		told.log += PART;
	}
	told.all = told.log == 3 * PART && engine_file_close(&c, f) == 0;
	if (told.log != 3 * PART)
		engine_file_discard(f);
}

/* Keeps a log open until a node is lost, and ends the block that has a replica on it. */
static void holds(struct engine *e)
{
	struct call c;
	struct efile *f;
	struct terrane_options o = {.block_bytes = BLOCK};
	struct terrane_stats st;
	uint8_t bytes[PART];
	struct iovec iov = {bytes, PART};
	engine_call(e, &c, &o);
	rt_background();
	if (engine_create(&c, "/log", TERRANE_LOG, &o, &f) != 0)
		return;
	for (int i = 0; i < 6; i++) {
		fixture_fill(2, told.log, bytes, PART);
		if (engine_append(&c, f, &iov, 1, NULL) != 0)
			break;
		told.log += PART;
		if (rt_sleep_ns(10 * NS_PER_S) < 0)
			break;
	}
	engine_stats(e, &st);
	told.blocks = st.blocks_written;
	told.all = engine_file_close(&c, f) == 0 && told.log == 6 * PART;
}

static void (*writing)(struct engine *e);
static bool lose_replica; /* of the log, with its node, after the first append */

static void writer_main(void *arg)
{
	(void)arg;
	struct engine *e;
	if (fixture_engine_open(NULL, &(struct fabric_options){0}, &e) == 0) {
		writing(e);
		engine_close(e);
	}
	rt_shutdown_wait();
}

static void start_writer(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	fx->other = sim_node_add(fx->sim, "writer", 100);
	sim_node_start(fx->other, writer_main, fx);
	sim_node_crash_at(fx->other, crash_at, false);
}

static void stop_writer(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_node_stop(fx->other);
}

/* Checks that the file does not exist or is complete and right. Returns its size, or 0. */
static int64_t look(struct engine *e, const char *path, uint64_t text, uint64_t from)
{
	struct call c;
	struct efile *f;
	engine_call(e, &c, NULL);
	int rc = engine_file_open(&c, path, &f);
	if (rc == -ENOENT)
		return 0;
	CHECK_EQ(rc, 0);
	static uint8_t bytes[2 * WHOLE];
	struct iovec iov = {bytes, sizeof(bytes)};
	uint32_t crc;
	int64_t got = engine_preadv(&c, f, &iov, 1, 0, &crc);
	CHECK(got >= 0);
	CHECK(fixture_same(text, from, bytes, (size_t)got));
	CHECK_EQ(engine_file_close(&c, f), 0);
	return got;
}

/* Kills a node that has a replica of the only block. */
static void kill_replica(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	uint64_t disk = 1;
	for (; blocks_on(&jf, disk, NULL) == 0; disk += 10)
		CHECK(disk < 10UL * fx->node_count);
	janitor_fixture_close(&jf);
	fixture_do(fx, fixture_kill_node, disk);
}

static void crash_body(struct client_fixture *fx)
{
	fixture_do(fx, start_writer, 0);
	/* Waits until the writer has crashed or finished, and stops the process before it
	 * restarts. */
	bool kill = lose_replica;
	while (!told.all && sim_node_lives(fx->other) < 2 && sim_node_running(fx->other)) {
		CHECK_EQ(rt_sleep_ns((lose_replica ? 100 : 10) * NS_PER_MS), 0);
		if (kill && told.log > 0) {
			kill_replica(fx);
			kill = false;
		}
	}
	bool died = !told.all;
	fixture_do(fx, stop_writer, 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	struct engine *e;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	int64_t whole = look(e, "/whole", 1, 0);
	CHECK(whole == 0 || whole == WHOLE);
	if (told.whole)
		CHECK_EQ(whole, WHOLE);
	int64_t s0 = look(e, "/s0", 1, 0), s1 = look(e, "/s1", 1, 1000);
	CHECK(s0 == 0 || s0 == 1000);
	CHECK(s1 == 0 || s1 == 2000);
	if (told.packed == 2)
		CHECK(s0 == 1000 && s1 == 2000);
	int64_t log = look(e, "/log", 2, 0);
	CHECK(log >= (int64_t)told.log && log <= (int64_t)told.log + PART);
	/* The next writer takes over and continues. */
	struct call c;
	struct efile *f;
	struct terrane_options o = {.block_bytes = BLOCK};
	engine_call(e, &c, &o);
	int rc = engine_append_open(&c, "/log", &o, &f);
	if (rc != -ENOENT) {
		CHECK_EQ(rc, 0);
		struct terrane_stat st;
		CHECK_EQ(engine_file_stat(&c, f, &st), 0);
		CHECK(st.size >= told.log);
		uint8_t more[100];
		fixture_fill(2, st.size, more, sizeof(more));
		struct iovec iov = {more, sizeof(more)};
		CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
		CHECK_EQ(engine_file_close(&c, f), 0);
		CHECK_EQ(look(e, "/log", 2, 0), (int64_t)st.size + 100);
	}
	engine_close(e);
	told.all = !died;
}

static void a_writer_that_dies_at_any_wait_leaves_nothing_half_done(void **state)
{
	(void)state;
	int runs = 0;
	writing = writes;
	lose_replica = false;
	/* Crashes at every wait at first, then in larger steps: later waits repeat. */
	for (crash_at = 1;; crash_at += 1 + crash_at / 24) {
		told = (struct told){0};
		fixture_run_all(6, 1, crash_body);
		runs++;
		if (told.all)
			break;
	}
	print_message("%d runs, the last crashed at no wait of %d\n", runs, (int)crash_at);
	assert_true(runs > 40);
}

static void a_writer_that_dies_while_it_ends_a_block_that_lost_a_copy_loses_nothing(void **state)
{
	(void)state;
	int runs = 0;
	writing = holds;
	lose_replica = true;
	for (crash_at = 1;; crash_at += 2) {
		told = (struct told){0};
		fixture_run_all(4, 1, crash_body);
		runs++;
		if (told.all)
			break;
	}
	print_message("%d runs\n", runs);
	assert_int_equal(told.blocks, 2);
}

/* --- files that others are busy with ---------------------------------------------------------- */

/* true: another file makes it send its block; false: its own append is running */
static bool relieved;
static struct efile *busy, *hungry;

static void append_fiber(void *arg)
{
	struct call c;
	static uint8_t bytes[4 * MIB];
	struct iovec iov = {bytes, sizeof(bytes)};
	engine_call(arg, &c, NULL);
	CHECK(engine_append(&c, relieved ? hungry : busy, &iov, 1, NULL) < 0);
}

/* Runs until it crashes while a fiber waits for metadata and holds the turn of the file. */
static void busies(struct engine *e)
{
	struct call c;
	struct terrane_options o = {.block_bytes = 2 * MIB};
	static uint8_t bytes[3 * MIB];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct gate *g = &engine_fabric(e)->shared->writes;
	struct rt_group others;
	rt_group_init(&others);
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, "/busy", 0, &o, &busy), 0);
	CHECK_EQ(engine_create(&c, "/hungry", 0, &o, &hungry), 0);
	CHECK_EQ(engine_append(&c, busy, &iov, 1, NULL), 0);
	CHECK(!relieved || gate_try(g, gate_limit(g) - gate_held(g)));
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	told.all = true;
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	CHECK_EQ(rt_group_spawn(&others, "append", append_fiber, e), 0);
	CHECK_EQ(rt_sleep_ns(RT_NEVER), -ECANCELED);
	engine_file_discard(busy);
	rt_group_join(&others);
	engine_file_discard(hungry);
}

static void cut_writer(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_net_cut(fx->sim, fx->other, fx->meta, true);
}

static void crash_writer(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_node_crash(fx->other, false);
	sim_node_stop(fx->other);
}

static void busy_body(struct client_fixture *fx)
{
	fixture_do(fx, start_writer, 0);
	while (!told.all)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	fixture_do(fx, cut_writer, 0);
	CHECK_EQ(rt_sleep_ns(2 * NS_PER_S), 0);
	fixture_do(fx, crash_writer, 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	CHECK_EQ(sim_node_lives(fx->other), 1);
}

static void a_writer_that_dies_frees_no_file_under_those_who_are_busy_with_it(void **state)
{
	(void)state;
	writing = busies;
	crash_at = 0;
	for (int i = 0; i < 2; i++) {
		told = (struct told){0};
		relieved = i == 0;
		fixture_run_all(6, 1, busy_body);
	}
}

/* --- metadata that fails ---------------------------------------------------------------------- */

static uint64_t fail_at;
static enum kv_mem_fate fate;
static bool struck;

static void faulty_body(struct client_fixture *fx)
{
	struct engine *e;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	kv_mem_fail_at(fx->kv, fail_at, fate);
	writes(e);
	struck = !kv_mem_fail_pending(fx->kv);
	kv_mem_fail_at(fx->kv, 0, fate);
	/* Each change was executed once or not at all, as its result says. */
	int64_t whole = look(e, "/whole", 1, 0);
	CHECK(whole == WHOLE || (whole == 0 && !told.whole));
	int64_t s0 = look(e, "/s0", 1, 0), s1 = look(e, "/s1", 1, 1000);
	CHECK(s0 == 1000 || (s0 == 0 && told.packed == 0));
	CHECK(s1 == 2000 || (s1 == 0 && told.packed == 0));
	int64_t log = look(e, "/log", 2, 0);
	CHECK(log >= (int64_t)told.log && log <= (int64_t)told.log + PART);
	engine_close(e);
}

static void metadata_that_fails_once_is_asked_again(void **state)
{
	(void)state;
	static const enum kv_mem_fate fates[] = {KV_MEM_REQUEST_LOST, KV_MEM_REPLY_LOST,
						 KV_MEM_LATE};
	int all = 0, runs = 0;
	for (size_t f = 0; f < ARRAY_LEN(fates); f++) {
		fate = fates[f];
		struck = true;
		for (fail_at = 1; struck; fail_at += 1 + fail_at / 20, runs++) {
			told = (struct told){0};
			fixture_run_faulty(6, faulty_body);
			all += told.all;
		}
	}
	print_message("%d of %d runs came to their end\n", all, runs);
	assert_int_equal(all, runs); /* a single failure must not reach the user */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LOOPS(a_writer_that_dies_at_any_wait_leaves_nothing_half_done),
		ON_LOOPS(a_writer_that_dies_while_it_ends_a_block_that_lost_a_copy_loses_nothing),
		ON_LOOPS(a_writer_that_dies_frees_no_file_under_those_who_are_busy_with_it),
		ON_LOOPS(metadata_that_fails_once_is_asked_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
