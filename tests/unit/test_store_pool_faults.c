// SPDX-License-Identifier: Apache-2.0
/*
 * Pools under faults: every call of every member fails in turn; the process crashes or loses power
 * at every wait of operations and of a rebuild; and the speed of a rebuild.
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
#include "rebuild_fixture.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "store/fault.h"
#include "store/mem.h"
#include "store/pool.h"
#include "store_script.h"

/* --- every call of every member fails ---------------------------------------------------------- */

#define MEMBERS 6

struct sweep {
	uint32_t member;
	struct store_fault fault;
	bool hit;
};

static const struct store_pool_shape shape = {.id = 1,
					      .k = 3,
					      .p = 2,
					      .members = MEMBERS,
					      .place = PLACE_DECLUSTERED,
					      .piece_bytes = 8192};

static void open_fixture(struct store **fault, struct store **pool)
{
	for (uint32_t m = 0; m < MEMBERS; m++) {
		struct store *mem;
		CHECK_EQ(store_mem_open(64 * MIB, &mem), 0);
		CHECK_EQ(store_fault_open_take(mem, &fault[m]), 0);
	}
	CHECK_EQ(store_pool_format(&shape, fault), 0);
	CHECK_EQ(store_pool_open_take(&shape, fault, pool), 0);
}

static void set_down(struct store *fault, bool down)
{
	struct store_fault f = {.calls = STORE_CALL_ALL, .nth = down, .from_there = true};
	f.rc = -EIO;
	store_fault_set(fault, &f);
}

/*
 * Existing chunks must be readable and unchanged. For a chunk that does not exist, the two members
 * that are down could be the only ones that know: the pool must not report that it exists, but
 * need not report that it does not.
 */
static void look_without_two(struct script *sc, struct store *pool)
{
	for (unsigned c = 0; c < SCRIPT_CHUNKS; c++) {
		const struct seen *was = &sc->before[c];
		struct chunk_stat st;
		int rc = store_stat(pool, script_id(c), &st);
		if (!was->exists) {
			CHECK(rc == -ENOENT || rc == -EIO || rc == -ENODATA);
			continue;
		}
		CHECK(rc == 0);
		CHECK(st.len == was->len && st.sealed == was->sealed && st.epoch == was->epoch);
		CHECK(text_get(pool, script_id(c), was->text, 0, st.len, 0) == 0);
	}
}

static void live_member_fails(struct script *sc, uint64_t life)
{
	struct sweep *sw = sc->ctx;
	struct store_pool_progress pr;
	struct store *fault[MEMBERS], *pool;
	(void)life;
	open_fixture(fault, &pool);
	store_fault_set(fault[sw->member], &sw->fault);
	script_play(sc, pool);
	sw->hit = store_fault_hits(fault[sw->member]) > 0;
	script_look(sc, pool);
	set_down(fault[sw->member], false);
	sc->may_fail = false;
	script_look(sc, pool);
	CHECK_EQ(store_pool_rebuild(pool, 2, &pr), 0);
	CHECK_EQ(store_pool_behind_count(pool), 0);
	/*
	 * A state that was seen with all members is also seen without any two of them: some pairs
	 * in each run.
	 */
	for (uint32_t a = 0; a < MEMBERS; a++) {
		for (uint32_t b = a + 1; b < MEMBERS; b++) {
			if ((a + b + sc->number) % 3 != 0)
				continue;
			set_down(fault[a], true);
			set_down(fault[b], true);
			look_without_two(sc, pool);
			set_down(fault[a], false);
			set_down(fault[b], false);
		}
	}
	script_look(sc, pool);
	store_close(pool);
}

static void sweep_member(int rc, bool after, bool from_there, uint64_t *runs)
{
	for (uint32_t m = 0; m < MEMBERS; m++) {
		struct sweep sw = {.member = m, .hit = true};
		for (uint64_t n = 1; sw.hit; n++, ++*runs) {
			sw.fault = (struct store_fault){.calls = STORE_CALL_ALL,
							.nth = n,
							.from_there = from_there,
							.rc = rc,
							.after = after};
			struct script sc = {.seed = n,
					    .what = err_name(rc),
					    .number = n + 1000 * (uint64_t)m,
					    .may_fail = true,
					    .live = live_member_fails,
					    .ctx = &sw};
			struct sim_config config;
			sim_config_init(&config, n, 0);
			script_begin(&sc, &config);
			script_finish(&sc);
			/* One failing member prevents only operations for which it has no room. */
			CHECK(sc.done || rc == -ENOSPC || after);
			script_end(&sc);
		}
	}
}

static void every_call_of_every_member_fails(void **state)
{
	(void)state;
	uint64_t runs = 0;
	sweep_member(-EIO, false, false, &runs);
	sweep_member(-EIO, true, false, &runs);
	sweep_member(-ENOSPC, false, false, &runs);
	sweep_member(-ENODEV, false, true, &runs);
	print_message("  %llu runs\n", (unsigned long long)runs);
	assert_true(runs > 300);
}

/* --- crashes ----------------------------------------------------------------------------------- */

#define DIRS 3

static const struct store_pool_shape dir_shape = {
	.id = 2, .k = 2, .p = 1, .members = DIRS, .place = PLACE_CLUSTERED, .piece_bytes = 8192};

struct crash {
	uint64_t at;
	bool power;
	uint64_t rebuilt;
};

static int open_dir(uint32_t number, bool format, struct store **out)
{
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	char path[64];
	int rc = 0;

	snprintf(path, sizeof(path), "/d0/m%u", number);
	options.disk = super.disk = 10 + number;
	super.fan_bits = 1;
	if (format)
		rc = rt_mkdir(path);
	if (format && rc == 0)
		rc = store_dir_format(path, &super);
	return rc != 0 ? rc : store_dir_open(path, &options, out);
}

/* NULL when the process has crashed. */
static struct store *open_pool(struct script *sc, const uint32_t *dirs, bool format)
{
	struct store *m[DIRS] = {NULL}, *pool = NULL;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < DIRS; i++)
		rc = open_dir(dirs[i], format, &m[i]);
	if (rc == 0 && format)
		rc = store_pool_format(&dir_shape, m);
	if (rc == 0)
		rc = store_pool_open_take(&dir_shape, m, &pool);
	for (uint32_t i = 0; rc != 0 && i < DIRS; i++)
		store_close(m[i]);
	CHECK(rc == 0 || rt_cancelled());
	if (rc == 0 && rt_cancelled()) {
		store_close(pool);
		pool = NULL;
	}
	return pool;
}

static void live_crashing(struct script *sc, uint64_t life)
{
	static const uint32_t dirs[DIRS] = {0, 1, 2};
	struct crash *crash = sc->ctx;
	struct store *pool = open_pool(sc, dirs, life == 1);
	if (pool == NULL)
		return;
	if (life == 1) {
		sim_node_crash_at(sc->node, crash->at, crash->power);
		script_play(sc, pool);
	} else {
		script_look(sc, pool);
	}
	store_close(pool);
}

/* Returns whether the process crashed. */
static bool run(struct script *sc)
{
	struct sim_config config;
	sim_config_init(&config, sc->seed, 0);
	script_begin(sc, &config);
	script_finish(sc);
	bool crashed = sim_node_lives(sc->node) > 1;
	sim_node_crash_at(sc->node, 0, false);
	for (int i = 0; i < 2; i++) {
		sim_node_crash(sc->node, true);
		script_finish(sc);
	}
	script_end(sc);
	return crashed;
}

static void crash_everywhere(void (*live)(struct script *sc, uint64_t life), uint64_t seed,
			     uint64_t step)
{
	uint64_t runs = 0;
	for (unsigned power = 0; power < 2; power++) {
		bool crashed = true;
		for (uint64_t n = 1; crashed; n += step, runs++) {
			struct crash crash = {.at = n, .power = power != 0};
			struct script sc = {.seed = seed + n,
					    .what = power != 0 ? "power loss at wait" : "death at",
					    .number = n,
					    .live = live,
					    .ctx = &crash};
			crashed = run(&sc);
			assert_true(crashed || sc.done);
		}
	}
	print_message("  %llu runs\n", (unsigned long long)runs);
	assert_true(runs > 50);
}

static void a_pool_crashes_at_every_wait(void **state)
{
	(void)state;
	crash_everywhere(live_crashing, 1, 1);
}

#define CHUNKS 5

/* Life 1: chunks, a member that is given up and replaced, and a rebuild that is interrupted. */
static void live_rebuilding(struct script *sc, uint64_t life)
{
	static const uint32_t before[DIRS] = {0, 1, 2}, after[DIRS] = {0, 3, 2};
	struct crash *crash = sc->ctx;
	struct store_pool_progress pr;
	struct store *fresh;
	struct store *pool = open_pool(sc, life == 1 ? before : after, life == 1);
	if (pool == NULL)
		return;
	for (uint64_t c = 0; life == 1 && c < CHUNKS; c++)
		CHECK_EQ(text_put(pool, (struct chunk_id){.block = c}, c, 5000 * c, false, 0), 0);
	if (life == 1) {
		CHECK_EQ(store_pool_give_up(pool, 1), 0);
		CHECK_EQ(open_dir(3, true, &fresh), 0);
		CHECK_EQ(store_pool_replace_take(pool, 1, fresh), 0);
		sim_node_crash_at(sc->node, crash->at, crash->power);
	}
	int rc = store_pool_rebuild(pool, 2, &pr);
	if (!rt_cancelled()) {
		CHECK(rc == 0 && pr.lost == 0 && pr.failed == 0);
		sc->done = true;
	}
	for (uint64_t c = 0; !rt_cancelled() && c < CHUNKS; c++) {
		struct chunk_id id = {.block = c};
		struct store_range bad;
		rc = text_get(pool, id, c, 0, 5000 * c, 0);
		CHECK(rc == 0 || rt_cancelled());
		int64_t n = store_scan(pool, id, &bad, 1);
		CHECK(n == 0 || rt_cancelled());
	}
	if (!rt_cancelled() && store_pool_rebuild(pool, 2, &pr) == 0)
		CHECK(pr.rebuilt == 0);
	store_close(pool);
}

static void a_crash_of_a_rebuild_at_every_wait_loses_nothing(void **state)
{
	(void)state;
	crash_everywhere(live_rebuilding, 1, 1);
}

/* --- a member that has missed changes ------------------------------------------------------------ */

#define BLOCKS 3

/* Opens a 2+2 pool of four members without those in the mask. */
static struct store *open_without(unsigned mask, bool format)
{
	static const struct store_pool_shape four = {.id = 3,
						     .k = 2,
						     .p = 2,
						     .members = 4,
						     .place = PLACE_CLUSTERED,
						     .piece_bytes = 4096};
	struct store *m[4] = {NULL}, *pool;
	for (uint32_t i = 0; i < 4; i++)
		if ((mask >> i & 1) == 0)
			CHECK_EQ(open_dir(i, format, &m[i]), 0);
	if (format)
		CHECK_EQ(store_pool_format(&four, m), 0);
	CHECK_EQ(store_pool_open_take(&four, m, &pool), 0);
	return pool;
}

static struct chunk_id block(uint64_t number)
{
	return (struct chunk_id){.block = number};
}

/*
 * While one member is down, chunk 0 is deleted, chunk 1 grows, and chunk 2 is deleted and put
 * again.
 */
static void change_without(struct store *pool)
{
	CHECK_EQ(store_delete(pool, block(0)), 0);
	CHECK_EQ(text_append(pool, block(1), 1, 1, 1000, 5000), 0);
	CHECK_EQ(store_delete(pool, block(2)), 0);
	CHECK_EQ(text_put(pool, block(2), 7, 500, true, 50000), 0);
}

static void miss_changes(const char *path)
{
	(void)path;
	for (uint32_t gone = 0; gone < 4; gone++) {
		struct store_pool_progress pr;
		struct chunk_stat st;
		unsigned unreadable = 0;
		struct store *pool = open_without(0, gone == 0);
		for (uint64_t b = 0; b < BLOCKS; b++)
			CHECK_EQ(text_put(pool, block(b), b, 1000, true, 50000), 0);
		store_close(pool);
		pool = open_without(1U << gone, false);
		change_without(pool);
		store_close(pool);
		/* The member is back and others are down. Its stale state must never be shown. */
		for (unsigned mask = 0; mask < 16; mask++) {
			if (__builtin_popcount(mask) > 2 || (mask >> gone & 1) != 0)
				continue;
			pool = open_without(mask, false);
			int rc = store_stat(pool, block(0), &st);
			CHECK(rc == -ENOENT || rc == -EIO);
			rc = store_stat(pool, block(1), &st);
			CHECK(rc == -EIO || (rc == 0 && st.len == 6000));
			unreadable += rc == -EIO;
			rc = text_get(pool, block(2), 7, 0, 500, 0);
			CHECK(rc == -EIO || rc == 0);
			store_close(pool);
		}
		/*
		 * Three copies on three of the members: that member alone, or without one that is
		 * up to date.
		 */
		CHECK(unreadable <= 1);
		/* A rebuild brings it up to date. */
		pool = open_without(0, false);
		CHECK(store_pool_behind_count(pool) > 0);
		CHECK_EQ(store_pool_rebuild(pool, 2, &pr), 0);
		CHECK_EQ(store_pool_behind_count(pool), 0);
		store_close(pool);
		pool = open_without(0xf & ~(1U << gone | 1U << (gone + 1) % 4), false);
		int rc = store_stat(pool, block(0), &st);
		CHECK(rc == -ENOENT || rc == -EIO);
		CHECK_EQ(text_get(pool, block(1), 1, 0, 6000, 0), 0);
		CHECK_EQ(text_get(pool, block(2), 7, 0, 500, 0), 0);
		store_close(pool);
		pool = open_without(0, false);
		for (uint64_t b = 1; b < BLOCKS; b++)
			CHECK_EQ(store_delete(pool, block(b)), 0);
		store_close(pool);
	}
}

static void copies_of_a_member_that_missed_changes_are_not_used(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, miss_changes);
}

/* --- how fast a rebuild is ---------------------------------------------------------------------- */

/* A drive that only counts requests: the test measures how they spread. */
static const struct drive_spec counting_drive = {
	.name = "counting",
	.size_bytes = 1000000000000ULL,
	.read_bytes_per_s = 1000000000,
	.write_bytes_per_s = 1000000000,
	.read_latency_ns = 5 * NS_PER_MS,
	.write_latency_ns = 5 * NS_PER_MS,
	.channels = 1,
	.queue_depth = 32,
};

static double rebuild_speed(enum place_kind place, uint32_t rows, uint32_t parallel)
{
	struct rebuild_fixture fx = {.place = place,
				     .drive = &counting_drive,
				     .rows = rows,
				     .row_bytes = 4096,
				     .parallel = parallel};
	rebuild_fixture_run(&fx);
	return fx.rows_per_s;
}

/*
 * 4+1 on 40 members: each rebuilt row takes four reads and a write, on 39 members instead of one
 * write on the replacement: 39 / 5 = 7.8 times as fast. The member with the most requests ends
 * last, so each disk needs enough rows for an even spread: real disks have millions, this one
 * 4,800.
 */
static void declustering_speeds_a_rebuild_up(void **state)
{
	(void)state;
	double clustered = rebuild_speed(PLACE_CLUSTERED, 1200, 40);
	double declustered = rebuild_speed(PLACE_DECLUSTERED, 4800, 512);
	double overlap = rebuild_speed(PLACE_OVERLAP, 4800, 512);
	print_message(
		"  rows/s: clustered %.0f, declustered %.0f (%.2f times), single-overlap %.0f "
		"(%.2f times)\n",
		clustered, declustered, declustered / clustered, overlap, overlap / clustered);
	/* The replacement does nothing but write 200 rows per second. */
	assert_true(clustered > 0.95 * 200 && clustered < 1.01 * 200);
	assert_true(declustered > 0.85 * 7.8 * clustered);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_of_every_member_fails),
		cmocka_unit_test(a_pool_crashes_at_every_wait),
		cmocka_unit_test(a_crash_of_a_rebuild_at_every_wait_loses_nothing),
		cmocka_unit_test(copies_of_a_member_that_missed_changes_are_not_used),
		cmocka_unit_test(declustering_speeds_a_rebuild_up),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
