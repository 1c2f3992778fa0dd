// SPDX-License-Identifier: Apache-2.0
/*
 * A disk whose process crashes, or whose machine loses power, at every wait of a script of
 * operations, and again at every wait of the recovery that follows.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/log.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "store_script.h"

struct crash {
	uint64_t at; /* wait of the script at which it crashes */
	bool power;
	uint64_t recovery_at; /* wait of the second life at which it crashes, 0: none */
	bool recovery_power;
	uint64_t rolled_back;
};

static void live(struct script *sc, uint64_t life)
{
	struct crash *crash = sc->ctx;
	struct store_info info = {0};

	if (life == 2 && crash->recovery_at > 0)
		sim_node_crash_at(sc->node, crash->recovery_at, crash->recovery_power);
	struct store *s = script_open(sc, life);
	if (s == NULL)
		return;
	if (life == 1) {
		sim_node_crash_at(sc->node, crash->at, crash->power);
		script_play(sc, s);
	} else {
		script_look(sc, s);
	}
	store_info(s, &info);
	crash->rolled_back += info.rolled_back;
	store_close(s);
}

/* Returns whether the script crashed. *recovered: the recovery finished before its own crash. */
static bool run(struct script *sc, bool *recovered)
{
	struct sim_config config;
	sim_config_init(&config, sc->seed, 0);
	script_begin(sc, &config);
	script_finish(sc);
	bool crashed = sim_node_lives(sc->node) > 1;
	*recovered = sim_node_lives(sc->node) < 3;
	sim_node_crash_at(sc->node, 0, false);
	/* Two more power cuts: what was seen must last. */
	for (int i = 0; i < 2; i++) {
		sim_node_crash(sc->node, true);
		script_finish(sc);
	}
	script_end(sc);
	return crashed;
}

static uint64_t crash_everywhere(uint64_t seeds, uint32_t open_chunks_max, bool power)
{
	uint64_t runs = 0, rolled_back = 0;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		bool crashed = true, recovered;
		for (uint64_t n = 1; crashed; n++, runs++) {
			struct crash crash = {.at = n, .power = power};
			struct script sc = {.seed = seed,
					    .what = power ? "power loss at wait" : "death at wait",
					    .number = n,
					    .live = live,
					    .ctx = &crash,
					    .open_chunks_max = open_chunks_max};
			crashed = run(&sc, &recovered);
			assert_true(crashed || sc.done);
			rolled_back += crash.rolled_back;
		}
	}
	print_message("  %llu runs, %llu appends rolled back\n", (unsigned long long)runs,
		      (unsigned long long)rolled_back);
	assert_true(runs > 40 * seeds);
	return rolled_back;
}

static void a_crash_at_every_wait_keeps_what_was_acknowledged(void **state)
{
	(void)state;
	/*
	 * A write of a process survives its crash: only the slot that was being written can be
	 * torn.
	 */
	assert_int_equal(crash_everywhere(6, 0, false), 0);
}

static void a_power_cut_at_every_wait_keeps_what_was_acknowledged(void **state)
{
	(void)state;
	assert_true(crash_everywhere(10, 0, true) > 0);
}

static void a_power_cut_with_few_open_files_keeps_what_was_acknowledged(void **state)
{
	(void)state;
	assert_int_equal(crash_everywhere(4, 1, false), 0);
	assert_true(crash_everywhere(6, 1, true) > 0);
}

/* Crashes at every wait of the recovery, after crashes at many waits of the script. */
static void a_crash_during_recovery_changes_no_outcome(void **state)
{
	(void)state;
	uint64_t runs = 0;
	for (unsigned how = 0; how < 4; how++) {
		bool crashed = true;
		for (uint64_t n = 1 + how; crashed; n += 4) {
			bool recovered = false;
			for (uint64_t m = 1; crashed && !recovered; m++, runs++) {
				struct crash crash = {.at = n,
						      .power = (how & 1) != 0,
						      .recovery_at = m,
						      .recovery_power = (how & 2) != 0};
				struct script sc = {.seed = 50 + n + m,
						    .what = "crash at wait, then in recovery,",
						    .number = n,
						    .live = live,
						    .ctx = &crash};
				crashed = run(&sc, &recovered);
			}
		}
	}
	print_message("  %llu runs\n", (unsigned long long)runs);
	assert_true(runs > 1000);
}

/* --- a sync that fails, and a process that dies with the page cache still there ----------------- */

static void live_after_failed_sync(struct script *sc, uint64_t life)
{
	if (life > 1) {
		sim_faults_stop(sc->sim);
		sc->may_fail = false;
	}
	struct store *s = script_open(sc, life);
	if (s == NULL)
		return;
	if (life == 1)
		script_play(sc, s);
	else
		script_look(sc, s);
	*(bool *)sc->ctx = true;
	store_close(s);
}

/*
 * Recovery may find bytes in the page cache only: they must be on the medium before it shows them.
 */
static void a_change_whose_sync_failed_is_made_durable_or_rolled_back(void **state)
{
	(void)state;
	unsigned failed = 0;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		bool opened = false;
		struct script sc = {.seed = seed,
				    .what = "sync fails",
				    .live = live_after_failed_sync,
				    .ctx = &opened,
				    .may_fail = true};
		struct sim_config config;
		sim_config_init(&config, seed, 0);
		config.rate[SIM_DISK_SYNC_FAIL] = 0.06;
		script_begin(&sc, &config);
		script_finish(&sc);
		bool worth = opened && !sc.done;
		for (int i = 0; worth && i < 3; i++) {
			sim_node_crash(sc.node, i > 0);
			script_finish(&sc);
		}
		failed += worth;
		script_end(&sc);
	}
	print_message("  %u runs with a failed sync\n", failed);
	assert_true(failed > 80);
}

/* --- a disk that was formatted ------------------------------------------------------------------ */

static void live_after_format(struct script *sc, uint64_t life)
{
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	struct store *s = NULL;
	if (life == 1) {
		CHECK_EQ(store_dir_format("/d0", &super), 0);
		return;
	}
	CHECK_EQ(store_dir_open("/d0", &options, &s), 0);
	store_close(s);
}

/* --- a put that replaces a chunk ---------------------------------------------------------------- */

static void live_after_replacing(struct script *sc, uint64_t life)
{
	uint8_t bytes[100];
	struct iovec piece;
	struct chunk_stat st;
	text_fill(2, 0, bytes, sizeof(bytes));
	struct store *s = script_open(sc, life);
	if (life == 1) {
		CHECK_EQ(text_put(s, script_id(0), 1, sizeof(bytes) / 2, false, 0), 0);
		struct store_put p = {.data = store_data_of(&piece, bytes, sizeof(bytes),
							    crc32c(0, bytes, sizeof(bytes))),
				      .epoch = 1,
				      .replace = true};
		CHECK_EQ(store_put(s, script_id(0), &p), 0);
	} else {
		CHECK_EQ(store_stat(s, script_id(0), &st), 0);
		CHECK_EQ(st.len, sizeof(bytes));
		CHECK_EQ(text_get(s, script_id(0), 2, 0, sizeof(bytes), 0), 0);
	}
	store_close(s);
}

/* --- a superblock that was rewritten ------------------------------------------------------------- */

static void flip_superblock(uint64_t at)
{
	struct rt_file *f;
	uint8_t byte;
	CHECK_EQ(rt_file_open(&f, "/d0/superblock", RT_READ | RT_WRITE), 0);
	CHECK_EQ(rt_file_read(f, &byte, 1, at), 1);
	byte ^= 0x20;
	CHECK_EQ(rt_file_write(f, &byte, 1, at), 0);
	CHECK_EQ(rt_file_sync(f), 0);
	rt_file_close(f);
}

/* One copy of the superblock rots on the medium and is rewritten; after the loss of power the other one rots. */
static void live_after_rewriting(struct script *sc, uint64_t life)
{
	uint64_t rotten = sc->seed % 2 * SUPER_COPY_BYTES;
	struct store_info info;
	struct super is;
	if (life == 1) {
		struct store *s = script_open(sc, life);
		flip_superblock(rotten + 17);
		CHECK_EQ(rt_sleep_ns(6 * NS_PER_S), 0);
		store_info(s, &info);
		CHECK_EQ(info.state, STORE_ONLINE);
		store_close(s);
	} else {
		flip_superblock(SUPER_COPY_BYTES - rotten + 18);
		CHECK_EQ(store_dir_identify("/d0", &is), 0);
	}
}

static void lose_power_after(void (*life)(struct script *sc, uint64_t number), const char *what)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct script sc = {.seed = seed, .what = what, .live = life};
		struct sim_config config;
		sim_config_init(&config, seed, 0);
		script_begin(&sc, &config);
		script_finish(&sc);
		sim_node_crash(sc.node, true);
		script_finish(&sc);
		script_end(&sc);
	}
}

static void a_chunk_that_was_replaced_stays_replaced_after_a_loss_of_power(void **state)
{
	(void)state;
	lose_power_after(live_after_replacing, "power loss after a replacing put");
}

static void a_rewritten_superblock_is_there_after_a_loss_of_power(void **state)
{
	(void)state;
	lose_power_after(live_after_rewriting, "power loss after a rewritten superblock");
}

/* A format that returned 0 is durable with all its directories, also if nothing opened the disk since. */
static void a_formatted_disk_opens_after_a_loss_of_power(void **state)
{
	(void)state;
	lose_power_after(live_after_format, "power loss after format");
}

/* --- a delete whose sync failed ----------------------------------------------------------------- */

struct deletion {
	bool again; /* the second caller deletes the chunk again; else it asks for its state */
	bool gone;  /* the second caller was told that the chunk does not exist */
};

static void live_after_failed_delete(struct script *sc, uint64_t life)
{
	struct deletion *del = sc->ctx;
	struct chunk_stat st;
	sim_faults_pause(sc->sim);
	struct store *s = script_open(sc, life);
	if (life == 1) {
		CHECK_EQ(text_put(s, script_id(0), 1, 100, false, 0), 0);
		sim_faults_resume(sc->sim);
		CHECK_EQ(store_delete(s, script_id(0)), -EIO);
		sim_faults_pause(sc->sim);
		del->gone = (del->again ? store_delete(s, script_id(0))
					: store_stat(s, script_id(0), &st)) == -ENOENT;
	} else if (del->gone) {
		CHECK_EQ(store_stat(s, script_id(0), &st), -ENOENT);
	}
	store_close(s);
}

/* The name may be gone from the page cache alone: "no such chunk" must be durable before a caller hears it. */
static void a_chunk_that_a_caller_was_told_is_gone_stays_gone(void **state)
{
	(void)state;
	unsigned gone = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct deletion del = {.again = seed % 2 == 0};
		struct script sc = {.seed = seed,
				    .what = "delete whose sync fails",
				    .live = live_after_failed_delete,
				    .ctx = &del};
		struct sim_config config;
		sim_config_init(&config, seed, 0);
		config.rate[SIM_DISK_SYNC_FAIL] = 1;
		script_begin(&sc, &config);
		script_finish(&sc);
		gone += del.gone;
		sim_node_crash(sc.node, true);
		script_finish(&sc);
		script_end(&sc);
	}
	assert_int_equal(gone, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_crash_at_every_wait_keeps_what_was_acknowledged),
		cmocka_unit_test(a_power_cut_at_every_wait_keeps_what_was_acknowledged),
		cmocka_unit_test(a_power_cut_with_few_open_files_keeps_what_was_acknowledged),
		cmocka_unit_test(a_crash_during_recovery_changes_no_outcome),
		cmocka_unit_test(a_change_whose_sync_failed_is_made_durable_or_rolled_back),
		cmocka_unit_test(a_formatted_disk_opens_after_a_loss_of_power),
		cmocka_unit_test(a_chunk_that_was_replaced_stays_replaced_after_a_loss_of_power),
		cmocka_unit_test(a_rewritten_superblock_is_there_after_a_loss_of_power),
		cmocka_unit_test(a_chunk_that_a_caller_was_told_is_gone_stays_gone),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
