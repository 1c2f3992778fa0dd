// SPDX-License-Identifier: Apache-2.0
/*
 * The hot-chunk cache: which chunks it caches, how much it writes, and that the slow store stays
 * authoritative whatever fails and wherever the process crashes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "store/fault.h"
#include "store/flash.h"
#include "store/flash_heat.h"
#include "store/mem.h"
#include "store/throttle.h"
#include "store_script.h"

#define CHUNK UINT64_C(100000)

static struct chunk_id block(uint64_t number)
{
	return (struct chunk_id){.block = number, .index = 1};
}

/* --- heat: pure --------------------------------------------------------------------------------- */

static void a_scan_is_one_visit_and_random_reads_are_many(void **state)
{
	(void)state;
	static struct flash_heat h;
	assert_int_equal(flash_heat_init(&h, 1000), 0);
	for (uint64_t off = 0; off < 8 * MIB; off += 64 * KIB)
		flash_heat_read(&h, block(1), off, 64 * KIB);
	assert_int_equal(flash_heat_of(&h, block(1)), 1);
	/* Reads it again from the start, several times. */
	for (int i = 2; i < 5; i++)
		assert_int_equal(flash_heat_read(&h, block(1), 0, 8 * MIB), i);
	for (uint64_t i = 0; i < 20; i++)
		flash_heat_read(&h, block(2), (i * 7 % 20) * 4 * MIB, 4096);
	assert_true(flash_heat_of(&h, block(2)) >= 15);
	flash_heat_fini(&h);
}

static void a_chunk_that_is_not_visited_any_more_cools_down(void **state)
{
	(void)state;
	static struct flash_heat h;
	assert_int_equal(flash_heat_init(&h, 1000), 0);
	for (int i = 0; i < 300; i++)
		flash_heat_read(&h, block(1), 0, 100);
	assert_int_equal(flash_heat_of(&h, block(1)), 255);
	for (uint64_t i = 0; i < 80000; i++)
		flash_heat_read(&h, block(100 + i), 0, 100);
	assert_in_range(flash_heat_of(&h, block(1)), 0, 8);
	flash_heat_fini(&h);
}

/* --- what is cached ------------------------------------------------------------------------------ */

struct fixture {
	struct store *s;
	struct store *slow; /* a fault store over a memory store */
};

#define PATH "/d0/cache"
#define COST (2 * FLASH_SEGMENT_BYTES) /* of a chunk in the cache */

static const struct store_flash_options ample = {.path = PATH,
						 .owner = {7, 8},
						 .capacity_bytes = 16 * MIB,
						 .dram_bytes = MIB,
						 .write_bytes_per_s = 100 * MIB};

static void fixture_open(struct fixture *fx, const struct store_flash_options *options)
{
	struct store *mem;
	CHECK_EQ(store_mem_open(256 * MIB, &mem), 0);
	CHECK_EQ(store_fault_open_take(mem, &fx->slow), 0);
	CHECK_EQ(store_flash_open_take(fx->slow, options, &fx->s), 0);
	/* Wait until the write budget of the flash is full. */
	CHECK_EQ(rt_sleep_ns(60 * NS_PER_S), 0);
}

static void fault_set(struct store *s, unsigned calls, int rc)
{
	struct store_fault f = {.calls = calls, .nth = rc != 0, .from_there = true, .rc = rc};
	store_fault_set(s, &f);
}

static struct store_flash_stats stats_of(struct fixture *fx)
{
	struct store_flash_stats st;
	store_flash_settle(fx->s);
	store_flash_stats(fx->s, &st);
	return st;
}

static void visit(struct fixture *fx, uint64_t number, uint64_t text, int times)
{
	for (int i = 0; i < times; i++) {
		CHECK_EQ(text_get(fx->s, block(number), text, 0, CHUNK, 0), 0);
		store_flash_settle(fx->s);
	}
}

static void serve_hot(const char *path)
{
	struct fixture fx;
	(void)path;
	fixture_open(&fx, &ample);
	CHECK_EQ(text_put(fx.s, block(1), 1, CHUNK, false, 0), 0);
	CHECK_EQ(text_put(fx.s, block(2), 2, CHUNK, true, 2 * CHUNK), 0);
	visit(&fx, 1, 1, 2);
	CHECK_EQ(stats_of(&fx).fills, 0);
	visit(&fx, 1, 1, 1);
	CHECK_EQ(stats_of(&fx).fills, 1);
	CHECK_EQ(stats_of(&fx).used_bytes, COST);
	/* From now on the slow store fails. */
	fault_set(fx.slow, STORE_CALL_GET, -EIO);
	visit(&fx, 1, 1, 5);
	CHECK_EQ(text_get(fx.s, block(1), 1, 777, 5000, 3), 0);
	CHECK_EQ(text_get(fx.s, block(1), 1, CHUNK - 1, 2, 0), -EIO);
	CHECK_EQ(stats_of(&fx).hits, 6);
	fault_set(fx.slow, STORE_CALL_GET, 0);
	CHECK_EQ(text_get(fx.s, block(1), 1, CHUNK - 1, 2, 0), -ERANGE);
	/* An open chunk still grows, and is not cached before it is sealed. */
	visit(&fx, 2, 2, 10);
	CHECK_EQ(stats_of(&fx).used_bytes, COST);
	CHECK_EQ(text_append(fx.s, block(2), 1, 2, CHUNK, 100), 0);
	CHECK_EQ(store_seal(fx.s, block(2), 1, CHUNK), 0);
	visit(&fx, 2, 2, 1);
	CHECK_EQ(stats_of(&fx).used_bytes, 2 * COST);
	store_close(fx.s);
}

/* Only what the reads touch of a large chunk is cached. */
static void serve_parts(const char *path)
{
	struct fixture fx;
	(void)path;
	fixture_open(&fx, &ample);
	CHECK_EQ(text_put(fx.s, block(1), 1, 40 * CHUNK, false, 0), 0);
	for (int i = 0; i < 6; i++) {
		CHECK_EQ(text_get(fx.s, block(1), 1, 20 * CHUNK, 10, 0), 0);
		store_flash_settle(fx.s);
	}
	CHECK_EQ(stats_of(&fx).used_bytes, FLASH_SEGMENT_BYTES);
	CHECK_EQ(stats_of(&fx).hits, 3);
	CHECK_EQ(text_get(fx.s, block(1), 1, 40 * CHUNK - 5, 5, 0), 0);
	store_flash_settle(fx.s);
	CHECK_EQ(text_get(fx.s, block(1), 1, 40 * CHUNK - 5, 5, 0), 0);
	CHECK_EQ(stats_of(&fx).hits, 4);
	store_close(fx.s);
}

static void of_a_large_chunk_what_is_read_is_cached(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, serve_parts);
}

static void a_chunk_that_is_visited_often_comes_from_flash(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, serve_hot);
}

static void scan_all(const char *path)
{
	struct fixture fx;
	(void)path;
	fixture_open(&fx, &ample);
	for (uint64_t i = 0; i < 400; i++)
		CHECK_EQ(text_put(fx.s, block(i), i, CHUNK, false, 0), 0);
	for (uint64_t i = 0; i < 60; i++)
		visit(&fx, i, i, 4);
	struct store_flash_stats before = stats_of(&fx);
	CHECK_EQ(before.used_bytes, 60 * COST);
	for (uint64_t i = 0; i < 400; i++)
		visit(&fx, i, i, 1);
	struct store_flash_stats after = stats_of(&fx);
	CHECK_EQ(after.fills, before.fills);
	CHECK_EQ(after.evicted, 0);
	CHECK_EQ(after.hits - before.hits, 60);
	/* Hotter chunks replace the cached ones. */
	for (uint64_t i = 100; i < 250; i++)
		visit(&fx, i, i, 6);
	after = stats_of(&fx);
	CHECK(after.fills >= before.fills + 100 && after.evicted > 0);
	CHECK(after.used_bytes <= ample.capacity_bytes + ample.dram_bytes);
	store_close(fx.s);
}

static void a_scan_does_not_evict_hot_chunks(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, scan_all);
}

static void write_little(const char *path)
{
	struct store_flash_options o = ample;
	struct fixture fx;
	(void)path;
	o.write_bytes_per_s = 20000;
	o.burst_bytes = 400000;
	o.visits = 1;
	fixture_open(&fx, &o);
	for (uint64_t i = 0; i < 300; i++)
		CHECK_EQ(text_put(fx.s, block(i), i, CHUNK, false, 0), 0);
	uint64_t start = rt_now_ns(), before = stats_of(&fx).fill_bytes,
		 written = stats_of(&fx).written_bytes;
	for (uint64_t i = 0; i < 300; i++) {
		visit(&fx, i, i, 1);
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
		double earned = (double)(rt_now_ns() - start) / 1e9 * 20000 + 400000;
		CHECK((double)(stats_of(&fx).fill_bytes - before) <= earned);
		CHECK((double)(stats_of(&fx).written_bytes - written) <= 1.05 * earned);
	}
	/* The budget was used, except for a rest that was too small for the last chunk. */
	struct store_flash_stats st = stats_of(&fx);
	CHECK(st.over_budget > 100);
	CHECK(st.fill_bytes - before > 300 * 20000 + 400000 - 3 * (COST + 20000));
	store_close(fx.s);
}

static void no_more_is_written_than_the_budget_allows(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, write_little);
}

/* The disk takes ten seconds for whatever a fill asks. */
static int dawdle(void *ctx, uint64_t bytes, void (*work)(void *arg), void *arg)
{
	(void)ctx;
	(void)bytes;
	int rc = rt_sleep_ns(10 * NS_PER_S);
	if (rc == 0)
		work(arg);
	return rc;
}

static void fill_beside(const char *path)
{
	struct store_flash_options o = ample;
	struct store *slow, *s;
	struct store_flash_stats st;
	(void)path;
	o.visits = 1;
	o.pace = dawdle;
	CHECK_EQ(store_mem_open(64 * MIB, &slow), 0);
	CHECK_EQ(store_flash_open_take(slow, &o, &s), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	for (uint64_t i = 0; i < 20; i++)
		CHECK_EQ(text_put(s, block(i), i, CHUNK, false, 0), 0);
	uint64_t start = rt_now_ns();
	for (uint64_t i = 0; i < 20; i++)
		CHECK_EQ(text_get(s, block(i), i, 0, CHUNK, 0), 0);
	CHECK(rt_now_ns() - start < NS_PER_MS);
	store_flash_settle(s);
	CHECK(rt_now_ns() - start >= 10 * NS_PER_S);
	store_flash_stats(s, &st);
	/* At most two fills run at a time, which also bounds the memory. */
	CHECK_EQ(st.fills, 2);
	store_close(s);
}

static void no_read_waits_for_a_fill(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, fill_beside);
}

/* --- flash that fails ----------------------------------------------------------------------------- */

/* Fills chunks 0 to 9 beyond DRAM, damages the file, and reads all. */
static void fall_through(const char *path)
{
	struct store_flash_options o = ample;
	struct fixture fx;
	struct rt_file *f;
	uint8_t *zeros = calloc(1, MIB);
	(void)path;
	o.visits = 1;
	CHECK(zeros != NULL);
	fixture_open(&fx, &o);
	for (uint64_t i = 0; i < 30; i++)
		CHECK_EQ(text_put(fx.s, block(i), i, CHUNK, false, 0), 0);
	for (uint64_t i = 0; i < 30; i++)
		visit(&fx, i, i, 2);
	CHECK_EQ(stats_of(&fx).hits, 30);
	CHECK_EQ(rt_file_open(&f, PATH, RT_WRITE), 0);
	for (uint64_t at = 4096; at + MIB <= 16 * MIB; at += MIB)
		CHECK_EQ(rt_file_write(f, zeros, MIB, at), 0);
	rt_file_close(f);
	for (uint64_t i = 0; i < 30; i++)
		visit(&fx, i, i, 1);
	struct store_flash_stats st = stats_of(&fx);
	CHECK(st.failures >= 10 && !st.suspended);
	/* What was damaged is cached again. */
	uint64_t hits = st.hits;
	for (uint64_t i = 0; i < 30; i++)
		visit(&fx, i, i, 1);
	CHECK(stats_of(&fx).hits > hits);
	CHECK_EQ(store_delete(fx.s, block(9)), 0);
	CHECK_EQ(text_put(fx.s, block(9), 99, CHUNK, false, 0), 0);
	visit(&fx, 9, 99, 3);
	store_close(fx.s);
	free(zeros);
}

static void damage_and_failures_of_flash_are_hidden_from_readers(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, fall_through);
}

/* --- deletes -------------------------------------------------------------------------------------- */

struct late_reader {
	struct store *s;
	struct chunk_id id;
	uint64_t wait_ns;
};

static void read_late(void *arg)
{
	struct late_reader *late = arg;
	CHECK_EQ(rt_sleep_ns(late->wait_ns), 0);
	int rc = text_get(late->s, late->id, late->id.block, 0, CHUNK, 0);
	CHECK(rc == 0 || rc == -ENOENT);
}

static void delete_while_filling(const char *path)
{
	struct store_flash_options o = ample;
	struct fixture fx;
	struct chunk_stat st;
	(void)path;
	o.visits = 1;
	fixture_open(&fx, &o);
	/* Deletes at every moment of a fill, which takes 4 ms to read. */
	struct store_fault slow_get = {.calls = STORE_CALL_GET | STORE_CALL_DELETE,
				       .nth = 1,
				       .from_there = true,
				       .delay_ns = 2 * NS_PER_MS};
	store_fault_set(fx.slow, &slow_get);
	for (uint64_t i = 0; i < 80; i++) {
		CHECK_EQ(text_put(fx.s, block(i), i, CHUNK, false, 0), 0);
		CHECK_EQ(text_get(fx.s, block(i), i, 0, CHUNK, 0), 0);
		CHECK_EQ(rt_sleep_ns(i * NS_PER_MS / 10), 0);
		CHECK_EQ(store_delete(fx.s, block(i)), 0);
		CHECK_EQ(text_get(fx.s, block(i), i, 0, CHUNK, 0), -ENOENT);
		CHECK_EQ(text_put(fx.s, block(i), i + 1000, CHUNK, false, 0), 0);
		CHECK_EQ(text_get(fx.s, block(i), i + 1000, 0, CHUNK, 0), 0);
		store_flash_settle(fx.s);
		CHECK_EQ(text_get(fx.s, block(i), i + 1000, 0, CHUNK, 0), 0);
		CHECK_EQ(store_delete(fx.s, block(i)), 0);
		store_flash_settle(fx.s);
		CHECK_EQ(store_stat(fx.s, block(i), &st), -ENOENT);
	}
	/* Nothing is left, even if no reader could reach it. */
	CHECK(stats_of(&fx).hits > 40);
	CHECK_EQ(stats_of(&fx).used_bytes, 0);
	/* The same while the slow store is slow to delete: a concurrent read starts a fill. */
	struct store_fault slow_delete = slow_get;
	slow_delete.calls = STORE_CALL_DELETE;
	slow_delete.delay_ns = 10 * NS_PER_MS;
	store_fault_set(fx.slow, &slow_delete);
	for (uint64_t i = 0; i < 12; i++) {
		struct late_reader late = {.s = fx.s, .id = block(i), .wait_ns = i * NS_PER_MS};
		struct rt_fiber *reader;
		CHECK_EQ(text_put(fx.s, block(i), i, CHUNK, false, 0), 0);
		CHECK_EQ(rt_spawn(&reader, "reader", read_late, &late), 0);
		CHECK_EQ(store_delete(fx.s, block(i)), 0);
		CHECK_EQ(text_get(fx.s, block(i), i, 0, CHUNK, 0), -ENOENT);
		rt_join(reader);
		store_flash_settle(fx.s);
		CHECK_EQ(text_get(fx.s, block(i), i, 0, CHUNK, 0), -ENOENT);
	}
	store_close(fx.s);
}

static void a_delete_at_any_moment_of_a_fill_leaves_nothing_cached(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, delete_while_filling);
}

static int open_dir(const char *path, uint64_t disk, bool format, struct store **out)
{
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	int rc = 0;

	options.disk = super.disk = disk;
	super.fan_bits = 1;
	if (format)
		rc = rt_mkdir(path);
	if (format && rc == 0)
		rc = store_dir_format(path, &super);
	return rc != 0 ? rc : store_dir_open(path, &options, out);
}

static const struct store_flash_options eager = {.path = "/d0/cache",
						 .owner = {7, 8},
						 .capacity_bytes = 8 * MIB,
						 .dram_bytes = MIB,
						 .write_bytes_per_s = 100 * MIB,
						 .visits = 1,
						 .fills_max = 1};

static int open_flash(bool format, struct store **out)
{
	struct store *slow = NULL;
	int rc = open_dir("/d0/slow", 1, format, &slow);

	if (rc == 0)
		rc = store_flash_open_take(slow, &eager, out);
	if (rc != 0)
		store_close(slow);
	return rc;
}

static void restart(const char *path)
{
	struct store *s, *slow;
	struct store_flash_stats st;
	(void)path;
	CHECK_EQ(open_flash(true, &s), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	for (uint64_t i = 0; i < 20; i++) {
		CHECK_EQ(text_put(s, block(i), i, CHUNK, false, 0), 0);
		CHECK_EQ(text_get(s, block(i), i, 0, CHUNK, 0), 0);
		store_flash_settle(s);
	}
	store_close(s);
	/*
	 * As after a crash between the two: only the slow store has deleted the chunk, or has
	 * another one.
	 */
	CHECK_EQ(open_dir("/d0/slow", 1, false, &slow), 0);
	CHECK_EQ(store_delete(slow, block(1)), 0);
	CHECK_EQ(store_delete(slow, block(2)), 0);
	CHECK_EQ(text_put(slow, block(2), 22, CHUNK, false, 0), 0);
	store_close(slow);
	CHECK_EQ(open_flash(false, &s), 0);
	store_flash_stats(s, &st);
	/* All but what was in DRAM, which has 16 segments. */
	CHECK(st.restored >= 40 - 16 && st.restored <= 40);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(text_get(s, block(0), 0, 0, CHUNK, 0), 0);
		CHECK_EQ(text_get(s, block(1), 1, 0, CHUNK, 0), -ENOENT);
		CHECK_EQ(text_get(s, block(2), 22, 0, CHUNK, 0), 0);
		CHECK_EQ(text_get(s, block(3), 3, 0, CHUNK, 0), 0);
		store_flash_settle(s);
	}
	store_flash_stats(s, &st);
	CHECK(st.hits >= 4 && st.failures == 0);
	store_close(s);
}

static void after_a_restart_flash_is_used_only_where_the_slow_store_agrees(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, restart);
}

/* --- every call fails, and crashes everywhere ---------------------------------------------------- */

struct trouble {
	struct store_fault fault; /* of the slow store */
	bool hit;
	uint64_t at; /* number of the wait at which the process crashes */
	bool power;
};

/*
 * The script, with checks before, during and after it, so that chunks are cached and read from
 * flash.
 */
static void play(struct script *sc, struct store *s)
{
	rt_sleep_ns(NS_PER_S);
	script_play(sc, s);
	for (int i = 0; i < 3 && !rt_cancelled(); i++) {
		script_look(sc, s);
		store_flash_settle(s);
	}
	for (unsigned c = 0; c < SCRIPT_CHUNKS && sc->rc == 0 && !rt_cancelled(); c++) {
		if (!sc->before[c].exists)
			continue;
		sc->after[c].exists = false;
		int rc = store_delete(s, script_id(c));
		if (rt_cancelled() || rc != 0)
			break;
		sc->before[c].exists = false;
	}
	if (!rt_cancelled())
		script_look(sc, s);
}

static void live_failing(struct script *sc, uint64_t life)
{
	struct trouble *t = sc->ctx;
	struct store_flash_options o = ample;
	struct fixture fx;
	(void)life;
	o.visits = 1;
	fixture_open(&fx, &o);
	store_fault_set(fx.slow, &t->fault);
	play(sc, fx.s);
	t->hit = store_fault_hits(fx.slow) > 0;
	fault_set(fx.slow, STORE_CALL_ALL, 0);
	sc->may_fail = true;
	script_look(sc, fx.s);
	store_close(fx.s);
}

static void every_call_of_the_slow_store_fails_once(void **state)
{
	(void)state;
	/* only errors that a device can return to any call */
	static const int errors[] = {-EIO, -ENOSPC, -ENODEV};
	uint64_t runs = 0;
	for (unsigned how = 0; how < 2 * ARRAY_LEN(errors); how++) {
		struct trouble t = {.hit = true};
		int rc = errors[how / 2];
		for (uint64_t n = 1; t.hit; n++, runs++) {
			t.fault = (struct store_fault){.calls = STORE_CALL_ALL,
						       .nth = n,
						       .from_there = rc == -ENODEV,
						       .rc = rc,
						       .after = how % 2 != 0};
			struct script sc = {.seed = n,
					    .what = err_name(rc),
					    .number = n,
					    .may_fail = true,
					    .live = live_failing,
					    .ctx = &t};
			struct sim_config config;
			sim_config_init(&config, n, 0);
			script_begin(&sc, &config);
			script_finish(&sc);
			script_end(&sc);
		}
	}
	print_message("  %llu runs\n", (unsigned long long)runs);
	assert_true(runs > 150);
}

/* The device of the cache fails and lies at random, the slow store does not: no call may fail. */
static void live_lying(struct script *sc, uint64_t life)
{
	struct store_flash_options o = ample;
	struct store *mem, *s;
	(void)life;
	o.visits = 1;
	CHECK_EQ(store_mem_open(256 * MIB, &mem), 0);
	if (store_flash_open_take(mem, &o, &s) != 0) {
		store_close(mem);
		sc->may_fail = true;
		return;
	}
	play(sc, s);
	script_look(sc, s);
	store_close(s);
}

static void a_device_that_fails_and_lies_makes_no_call_fail(void **state)
{
	(void)state;
	unsigned done = 0;
	for (uint64_t n = 1; n <= 40; n++) {
		struct script sc = {.seed = n, .what = "lies", .number = n, .live = live_lying};
		struct sim_config config;
		sim_config_init(&config, n, 0);
		config.rate[SIM_DISK_EIO] = n % 3 == 0 ? 0.3 : 0.02;
		config.rate[SIM_DISK_MISDIRECT] = 0.05;
		script_begin(&sc, &config);
		script_finish(&sc);
		done += sc.done;
		script_end(&sc);
	}
	assert_true(done > 20);
}

static void live_crashing(struct script *sc, uint64_t life)
{
	struct trouble *t = sc->ctx;
	struct store *s = NULL;
	int rc = open_flash(life == 1, &s);

	CHECK(rc == 0 || rt_cancelled());
	if (rc != 0)
		return;
	if (life == 1) {
		sim_node_crash_at(sc->node, t->at, t->power);
		play(sc, s);
	}
	for (int i = 0; i < 2 && life > 1 && !rt_cancelled(); i++) {
		script_look(sc, s);
		store_flash_settle(s);
	}
	store_close(s);
}

static void a_crash_at_every_wait_shows_no_deleted_chunk(void **state)
{
	(void)state;
	uint64_t runs = 0;
	for (unsigned power = 0; power < 2; power++) {
		bool crashed = true;
		for (uint64_t n = 1; crashed; n++, runs++) {
			struct trouble t = {.at = n, .power = power != 0};
			struct script sc = {.seed = n,
					    .what = power != 0 ? "power loss at wait" : "death at",
					    .number = n,
					    .live = live_crashing,
					    .ctx = &t};
			struct sim_config config;
			sim_config_init(&config, n, 0);
			script_begin(&sc, &config);
			script_finish(&sc);
			crashed = sim_node_lives(sc.node) > 1;
			sim_node_crash_at(sc.node, 0, false);
			sim_node_crash(sc.node, true);
			script_finish(&sc);
			script_end(&sc);
			assert_true(crashed || sc.done);
		}
	}
	print_message("  %llu runs\n", (unsigned long long)runs);
	assert_true(runs > 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_scan_is_one_visit_and_random_reads_are_many),
		cmocka_unit_test(a_chunk_that_is_not_visited_any_more_cools_down),
		cmocka_unit_test(a_chunk_that_is_visited_often_comes_from_flash),
		cmocka_unit_test(of_a_large_chunk_what_is_read_is_cached),
		cmocka_unit_test(a_scan_does_not_evict_hot_chunks),
		cmocka_unit_test(no_more_is_written_than_the_budget_allows),
		cmocka_unit_test(no_read_waits_for_a_fill),
		cmocka_unit_test(damage_and_failures_of_flash_are_hidden_from_readers),
		cmocka_unit_test(a_delete_at_any_moment_of_a_fill_leaves_nothing_cached),
		cmocka_unit_test(after_a_restart_flash_is_used_only_where_the_slow_store_agrees),
		cmocka_unit_test(every_call_of_the_slow_store_fails_once),
		cmocka_unit_test(a_device_that_fails_and_lies_makes_no_call_fail),
		cmocka_unit_test(a_crash_at_every_wait_shows_no_deleted_chunk),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
