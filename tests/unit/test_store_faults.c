// SPDX-License-Identifier: Apache-2.0
/*
 * Every call of a disk to the filesystem fails once, with every relevant error, before and after
 * it had its effect: during operations, during open, and during recovery after a power cut. The
 * linker inserts the functions below between store and rt.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "rt/sync.h"
#include "store_script.h"

/* --- between store and rt --------------------------------------------------------------------- */

/* Functions inserted by the linker get no context, so this is global. One test runs at a time. */
static struct {
	uint64_t calls;
	uint64_t fail_at; /* number of the call that fails; 0: none */
	int rc;
	bool after; /* the call fails and has its effect nevertheless */
	bool lie;   /* a read succeeds with one wrong bit; other calls are not affected */
	bool hit;
	bool was_sync;
	/* Called between the end of an open or directory sync and its return to the caller. */
	void (*ended)(bool sync);
} injector;

static bool strikes(bool sync)
{
	if (++injector.calls != injector.fail_at)
		return false;
	injector.hit = true;
	injector.was_sync = sync;
	return true;
}

#define INJECT(type, name, params, args)                                     \
	type __real_##name params;                                           \
	type __wrap_##name params;                                           \
	type __wrap_##name params                                            \
	{                                                                    \
		if (!strikes(strstr(#name, "sync") != NULL) || injector.lie) \
			return __real_##name args;                           \
		if (injector.after)                                          \
			__real_##name args;                                  \
		return injector.rc;                                          \
	}

/* Fails the call, or returns wrong bits. */
int64_t __real_rt_file_readv(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset);
int64_t __wrap_rt_file_readv(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset);
int64_t __wrap_rt_file_readv(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset)
{
	bool struck = strikes(false);
	int64_t got = struck && !injector.after && !injector.lie
			      ? injector.rc
			      : __real_rt_file_readv(f, iov, n, offset);
	if (struck && injector.lie && got > 0)
		((uint8_t *)iov[0].iov_base)[iov[0].iov_len / 2] ^= 0x40;
	return struck && !injector.lie ? injector.rc : got;
}

int64_t __wrap_rt_file_read(struct rt_file *f, void *buf, size_t len, uint64_t offset);
int64_t __wrap_rt_file_read(struct rt_file *f, void *buf, size_t len, uint64_t offset)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	return __wrap_rt_file_readv(f, &iov, 1, offset);
}

INJECT(int, rt_file_writev, (struct rt_file * f, const struct iovec *iov, int n, uint64_t offset),
       (f, iov, n, offset))
INJECT(int, rt_file_write, (struct rt_file * f, const void *buf, size_t len, uint64_t offset),
       (f, buf, len, offset))
INJECT(int, rt_file_sync, (struct rt_file * f), (f))
INJECT(int, rt_file_size, (struct rt_file * f, uint64_t *size), (f, size))
INJECT(int, rt_rename, (const char *from, const char *to), (from, to))
INJECT(int, rt_unlink, (const char *path), (path))
INJECT(int, rt_mkdir, (const char *path), (path))
INJECT(int, rt_space, (const char *path, struct rt_space *out), (path, out))
INJECT(int, rt_dir_list,
       (const char *path, bool (*fn)(void *ctx, const char *name, bool is_dir), void *ctx),
       (path, fn, ctx))

int __real_rt_dir_sync(const char *path);
int __wrap_rt_dir_sync(const char *path);
int __wrap_rt_dir_sync(const char *path)
{
	bool struck = strikes(true) && !injector.lie;
	int rc = struck && !injector.after ? 0 : __real_rt_dir_sync(path);
	if (injector.ended != NULL)
		injector.ended(true);
	return struck ? injector.rc : rc;
}

/* A failed open has no effect, or its file would have no owner. */
int __real_rt_file_open(struct rt_file **out, const char *path, unsigned flags);
int __wrap_rt_file_open(struct rt_file **out, const char *path, unsigned flags);
int __wrap_rt_file_open(struct rt_file **out, const char *path, unsigned flags)
{
	if (strikes(false) && !injector.lie)
		return injector.rc;
	int rc = __real_rt_file_open(out, path, flags);
	if (injector.ended != NULL)
		injector.ended(false);
	return rc;
}

static void inject(uint64_t fail_at, int rc, bool after)
{
	memset(&injector, 0, sizeof(injector));
	injector.fail_at = fail_at;
	injector.rc = rc;
	injector.after = after;
}

static const int errors[] = {-EIO, -ENOSPC, -EROFS, -ENODEV, -ENOMEM};

/* --- the script ------------------------------------------------------------------------------- */

struct sweep {
	uint64_t fail_at;
	int rc;
	bool after;
	bool lie;
	uint64_t
		crash_at; /* for the sweep of recoveries: the wait of the script at which power is cut */
	bool hit;
};

/* Checks the state of the disk after one error. */
static void check_state(struct script *sc, struct store *s, const struct sweep *sw)
{
	struct store_info info;
	store_info(s, &info);
	switch (sw->rc) {
	case -ENODEV:
		CHECK(info.state == STORE_FAILED);
		break;
	case -ENOSPC:
		CHECK(info.state == STORE_FULL || info.state == STORE_ONLINE);
		break;
	case -ENOMEM:
		CHECK(info.state == STORE_ONLINE);
		break;
	default:
		CHECK(info.state == STORE_SUSPECT || info.io_errors == 0);
		break;
	}
}

/* After a failed put the chunk does not exist: its name might not survive. */
static void check_failed_put(struct script *sc, struct store *s)
{
	struct chunk_stat st;
	bool was_put = !sc->before[sc->rc_chunk].exists && sc->after[sc->rc_chunk].exists;
	if (was_put)
		CHECK(store_stat(s, script_id(sc->rc_chunk), &st) != 0);
}

/* After the probe pause the disk must work again, unless it is missing. */
static void check_works_again(struct script *sc, struct store *s, const struct sweep *sw)
{
	struct chunk_id id = {.block = 999, .index = 1};
	rt_sleep_ns(11 * NS_PER_S);
	int rc = text_put(s, id, 9, 10000, false, 0);
	if (sw->rc == -ENODEV) {
		CHECK(rc == -ENODEV);
		return;
	}
	CHECK(rc == 0);
	CHECK(text_get(s, id, 9, 0, 10000, 0) == 0);
	CHECK(store_delete(s, id) == 0);
}

static void live_with_failure(struct script *sc, uint64_t life)
{
	struct sweep *sw = sc->ctx;
	struct store *s = script_open(sc, life);
	CHECK(s != NULL);
	if (life == 1) {
		inject(sw->fail_at, sw->rc, sw->after);
		script_play(sc, s);
		sw->hit = injector.hit;
		inject(0, 0, false);
		if (sw->hit && sc->rc != 0) {
			check_state(sc, s, sw);
			check_failed_put(sc, s);
			script_look(sc, s);
			check_works_again(sc, s, sw);
			script_look(sc, s);
		}
	} else {
		sc->may_fail = false;
		script_look(sc, s);
	}
	store_close(s);
}

static void one_call_fails(uint64_t n, int rc, bool after, bool *hit)
{
	struct sweep sw = {.fail_at = n, .rc = rc, .after = after};
	struct script sc = {.seed = n,
			    .what = err_name(rc),
			    .number = n,
			    .may_fail = true,
			    .live = live_with_failure,
			    .ctx = &sw};
	struct sim_config config;
	sim_config_init(&config, sc.seed, 0);
	script_begin(&sc, &config);
	script_finish(&sc);
	CHECK(sc.done || sw.hit);
	/*
	 * Two power cuts: after the first the states are seen, after the second they must be the
	 * same.
	 */
	for (int i = 0; i < 2; i++) {
		sim_node_crash(sc.node, true);
		script_finish(&sc);
	}
	script_end(&sc);
	*hit = sw.hit;
}

static void every_call_of_every_operation_fails_once(void **state)
{
	(void)state;
	uint64_t runs = 0;
	for (size_t e = 0; e < 2 * ARRAY_LEN(errors); e++) {
		bool hit = true;
		for (uint64_t n = 1; hit; n++, runs++)
			one_call_fails(n, errors[e / 2], e % 2 == 1, &hit);
	}
	print_message("  %llu runs\n", (unsigned long long)runs);
	assert_true(runs > 500);
}

/* --- opening and recovery --------------------------------------------------------------------- */

/*
 * Life 1 loses power in the script; life 2 opens and checks with one failure; later lives run
 * without.
 */
static void live_with_failing_recovery(struct script *sc, uint64_t life)
{
	struct sweep *sw = sc->ctx;
	inject(0, 0, false);
	sc->may_fail = life == 2;
	sc->may_lie = life == 2 && sw->lie;
	if (life == 2) {
		inject(sw->fail_at, sw->rc, sw->after);
		injector.lie = sw->lie;
	}
	struct store *s = script_open(sc, life);
	if (s != NULL && life == 1) {
		sim_node_crash_at(sc->node, sw->crash_at, true);
		script_play(sc, s);
	} else if (s != NULL) {
		script_look(sc, s);
	}
	if (life == 2)
		sw->hit = injector.hit;
	store_close(s);
}

static bool recovery_fails(struct sweep *sw)
{
	struct script sc = {.seed = sw->crash_at,
			    .what = sw->lie ? "lie in recovery at call" : "call of recovery",
			    .number = sw->fail_at,
			    .live = live_with_failing_recovery,
			    .ctx = sw};
	struct sim_config config;
	sim_config_init(&config, sc.seed, 0);
	script_begin(&sc, &config);
	script_finish(&sc);
	bool crashed = sim_node_lives(sc.node) > 1;
	sim_node_crash_at(sc.node, 0, false);
	for (int i = 0; i < 2; i++) {
		sim_node_crash(sc.node, true);
		script_finish(&sc);
	}
	script_end(&sc);
	return crashed;
}

static void every_call_of_recovery_fails_once(void **state)
{
	(void)state;
	uint64_t runs = 0;
	for (size_t e = 0; e < 2 * ARRAY_LEN(errors); e++) {
		bool crashed = true;
		for (uint64_t at = 1 + e; crashed; at += 7) {
			struct sweep sw = {.crash_at = at, .hit = true, .after = e % 2 == 1};
			sw.rc = errors[e / 2];
			for (sw.fail_at = 1; crashed && sw.hit; sw.fail_at++, runs++)
				crashed = recovery_fails(&sw);
		}
	}
	print_message("  %llu runs\n", (unsigned long long)runs);
	assert_true(runs > 1000);
}

/* One wrong read must not make recovery roll back an acknowledged append. */
static void one_wrong_read_in_recovery_rolls_nothing_back(void **state)
{
	(void)state;
	uint64_t runs = 0;
	bool crashed = true;
	for (uint64_t at = 1; crashed; at += 1) {
		struct sweep sw = {.crash_at = at, .lie = true, .hit = true};
		for (sw.fail_at = 1; crashed && sw.hit; sw.fail_at++, runs++)
			crashed = recovery_fails(&sw);
	}
	print_message("  %llu runs\n", (unsigned long long)runs);
	assert_true(runs > 1000);
}

/* --- formatting ------------------------------------------------------------------------------- */

static void live_formatting(struct script *sc, uint64_t life)
{
	struct sweep *sw = sc->ctx;
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	struct store *s;
	inject(life == 1 ? sw->fail_at : 0, sw->rc, sw->after);
	int rc = store_dir_format("/d0", &super);
	if (life == 1) {
		sw->hit = injector.hit;
		CHECK(rc == 0 || sw->hit);
	} else {
		CHECK(rc == 0 || rc == -EEXIST);
		CHECK(store_dir_open("/d0", &options, &s) == 0);
		CHECK(text_put(s, script_id(0), 1, 10, false, 0) == 0 ||
		      text_get(s, script_id(0), 1, 0, 10, 0) == 0);
		store_close(s);
	}
	inject(0, 0, false);
}

static void every_call_of_formatting_fails_once(void **state)
{
	(void)state;
	for (unsigned after = 0; after < 2; after++) {
		bool hit = true;
		for (uint64_t n = 1; hit; n++) {
			struct sweep sw = {.fail_at = n, .rc = -EIO, .after = after != 0};
			struct script sc = {.seed = n,
					    .what = "call of format",
					    .number = n,
					    .live = live_formatting,
					    .ctx = &sw};
			struct sim_config config;
			sim_config_init(&config, sc.seed, 0);
			script_begin(&sc, &config);
			script_finish(&sc);
			for (int i = 0; i < 2; i++) {
				sim_node_crash(sc.node, true);
				script_finish(&sc);
			}
			script_end(&sc);
			hit = sw.hit;
			assert_true(n < 200);
		}
	}
}

/* --- a failed fdatasync ----------------------------------------------------------------------- */

static void fail_sync(struct store *s)
{
	const struct chunk_id id = {.block = 1, .index = 1};
	struct chunk_stat st;
	struct store_info info;
	CHECK_EQ(text_put(s, id, 1, 5000, true, 100000), 0);
	/* Calls of an append of less than a page: the slot, then the sync. */
	inject(2, -EIO, false);
	CHECK_EQ(text_append(s, id, 1, 1, 5000, 100), -EIO);
	CHECK(injector.was_sync);
	inject(0, 0, false);
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_SUSPECT);
	CHECK_EQ(store_stat(s, id, &st), 0);
	CHECK_EQ(st.len, 5000);
	CHECK_EQ(text_append(s, id, 1, 1, 5000, 100), -EROFS);
	CHECK_EQ(rt_sleep_ns(11 * NS_PER_S), 0);
	/*
	 * The first caller finds that the disk is online again; the next one loads the chunk as
	 * after a crash.
	 */
	CHECK_EQ(text_append(s, id, 1, 1, 5000, 100), -EIO);
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_ONLINE);
	CHECK_EQ(text_get(s, id, 1, 0, 5000, 0), 0);
	CHECK_EQ(store_fence(s, id, 2), 0);
	CHECK_EQ(store_stat(s, id, &st), 0);
	CHECK(st.len == 5000 || st.len == 5100);
	CHECK_EQ(text_append(s, id, 1, 1, st.len, 100), -ESTALE);
	CHECK_EQ(text_append(s, id, 2, 1, st.len, 100), 0);
	CHECK_EQ(store_seal(s, id, 2, st.len + 100), 0);
	CHECK_EQ(text_get(s, id, 1, 0, st.len + 100, 0), 0);
	CHECK_EQ(text_put(s, (struct chunk_id){.block = 2}, 1, 5000, true, 100000), 0);
	CHECK_EQ(store_delete(s, id), 0);
}

static void a_chunk_whose_sync_failed_takes_no_change_until_it_is_loaded_again(void **state)
{
	(void)state;
	fixture_run(FIXTURE_DIR_SIM, fail_sync);
}

static void fail_get(struct store *s, uint64_t block, enum store_state after)
{
	struct store_info info;
	inject(1, -EIO, false);
	CHECK_EQ(text_get(s, (struct chunk_id){.block = block}, 1, 0, 5000, 0), -EIO);
	store_info(s, &info);
	CHECK_EQ(info.state, after);
}

/* Ten ranges of a disk may fail within an hour; how often each is tried does not count. */
static void fail_often(struct store *s)
{
	for (uint64_t i = 1; i <= 11; i++)
		CHECK_EQ(text_put(s, (struct chunk_id){.block = i}, 1, 5000, false, 0), 0);
	for (uint64_t i = 1; i <= 10; i++)
		fail_get(s, i, STORE_SUSPECT);
	for (uint64_t i = 1; i <= 10; i++)
		fail_get(s, 3, STORE_SUSPECT);
	fail_get(s, 11, STORE_FAILED);
	CHECK_EQ(text_get(s, (struct chunk_id){.block = 1}, 1, 0, 5000, 0), -EIO);
	CHECK_EQ(store_control(s, STORE_ONLINE), -EIO);
	inject(0, 0, false);
}

static void a_disk_with_many_errors_is_failed(void **state)
{
	(void)state;
	fixture_run(FIXTURE_DIR_SIM, fail_often);
}

/* --- a sync that others wait for ---------------------------------------------------------------- */

/*
 * Two puts into one directory, and a reader whose deadline passes while it checks that directory.
 */
static struct {
	struct rt_fiber *reader;
	bool reader_waits, first_synced;
	struct rt_cond go_on;
	struct chunk_id ids[3];
	int rc[2];
} late;

/*
 * The reader continues when the first sync has ended, as does the put that waits for the next one.
 */
static void late_ended(bool sync)
{
	rt_shield_enter();
	if (sync && !late.first_synced) {
		late.first_synced = true;
		CHECK_EQ(rt_sleep_ns(2 * NS_PER_S), 0);
		CHECK(late.reader_waits);
		rt_cond_broadcast(&late.go_on);
	} else if (rt_self() == late.reader && !late.reader_waits) {
		late.reader_waits = true;
		CHECK_EQ(rt_cond_wait(&late.go_on), 0);
	}
	rt_shield_leave();
}

struct late_put {
	struct store *s;
	unsigned number;
};

static void late_put(void *arg)
{
	const struct late_put *p = arg;
	late.rc[p->number] = text_put(p->s, late.ids[p->number], 1, 5000, false, 0);
}

static void read_late(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	struct store *s;
	CHECK_EQ(store_dir_format(path, &super), 0);
	CHECK_EQ(store_dir_open(path, &options, &s), 0);
	struct late_put puts[2] = {{.s = s, .number = 0}, {.s = s, .number = 1}};
	struct rt_group g;
	struct chunk_stat st;
	memset(&late, 0, sizeof(late));
	rt_cond_init(&late.go_on);
	late.reader = rt_self();
	for (uint64_t block = 1, n = 0; n < ARRAY_LEN(late.ids); block++) {
		struct chunk_id id = {.block = block};
		if (chunk_fan(id, super.fan_bits) == 0)
			late.ids[n++] = id;
	}
	inject(0, 0, false);
	injector.ended = late_ended;
	rt_group_init(&g);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(rt_group_spawn(&g, "put", late_put, &puts[i]), 0);
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 2), 0);
	}
	rt_deadline_set(rt_now_ns() + NS_PER_S / 2);
	int rc = store_stat(s, late.ids[2], &st);
	CHECK(rc == -ENOENT || rc == -ETIME);
	rt_deadline_set(RT_NEVER);
	rt_group_join(&g);
	inject(0, 0, false);
	CHECK(late.first_synced);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(late.rc[i], 0);
		CHECK_EQ(text_get(s, late.ids[i], 1, 0, 5000, 0), 0);
	}
	store_close(s);
}

static void a_late_reader_does_not_fail_a_shared_directory_sync(void **state)
{
	(void)state;
	/* The seed decides which of the two is first. */
	for (uint64_t seed = 1; seed <= 16; seed++)
		fixture_in_sim_dir(seed, read_late);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void open_with_many(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	uint64_t calls[2];
	CHECK_EQ(store_dir_format(path, &super), 0);
	for (unsigned round = 0; round < 2; round++) {
		struct store *s;
		inject(0, 0, false);
		CHECK_EQ(store_dir_open(path, &options, &s), 0);
		calls[round] = injector.calls;
		for (uint32_t i = 0; round == 0 && i < 300; i++)
			CHECK_EQ(text_put(s, (struct chunk_id){.block = i, .index = i}, i, 100,
					  false, 0),
				 0);
		store_close(s);
	}
	/* The number of calls is equal: memory and time do not grow with the number of chunks. */
	CHECK_EQ(calls[1], calls[0]);
}

static void opening_reads_no_chunk(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, open_with_many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_of_every_operation_fails_once),
		cmocka_unit_test(every_call_of_recovery_fails_once),
		cmocka_unit_test(one_wrong_read_in_recovery_rolls_nothing_back),
		cmocka_unit_test(every_call_of_formatting_fails_once),
		cmocka_unit_test(
			a_chunk_whose_sync_failed_takes_no_change_until_it_is_loaded_again),
		cmocka_unit_test(a_disk_with_many_errors_is_failed),
		cmocka_unit_test(a_late_reader_does_not_fail_a_shared_directory_sync),
		cmocka_unit_test(opening_reads_no_chunk),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
