// SPDX-License-Identifier: Apache-2.0
/* Logs: quorum appends, taking over, sealing and re-encoding, against a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "client_fixture.h"
#include "kv/kv.h"

#define BLOCK (256 * KIB)

static struct engine *open_engine(struct client_fixture *fx)
{
	struct engine *e;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){.chunk_timeout_ns = 2 * NS_PER_S},
				     &e),
		 0);
	return e;
}

/* Adds bytes [*at, *at + len) of the text. */
static int append(struct engine *e, struct efile *f, uint64_t text, uint64_t *at, uint64_t len)
{
	struct call c;
	engine_call(e, &c, NULL);
	uint8_t *bytes = malloc(len + 1);
	CHECK(bytes != NULL);
	fixture_fill(text, *at, bytes, len);
	struct iovec iov = {bytes, len};
	uint32_t crc = crc32c(0, bytes, len);
	int rc = engine_append(&c, f, &iov, 1, &crc);
	if (rc == 0)
		*at += len;
	free(bytes);
	return rc;
}

static void reads_as(struct engine *e, const char *path, uint64_t text, uint64_t len)
{
	struct call c;
	engine_call(e, &c, NULL);
	struct efile *f;
	CHECK_EQ(engine_file_open(&c, path, &f), 0);
	uint8_t *bytes = malloc(len + 100);
	CHECK(bytes != NULL);
	struct iovec iov = {bytes, len + 100};
	uint32_t crc;
	int64_t got = engine_preadv(&c, f, &iov, 1, 0, &crc);
	if (got < 0)
		fprintf(stderr, "read: %s\n", c.error);
	CHECK_EQ(got, len);
	CHECK(fixture_same(text, 0, bytes, len));
	free(bytes);
	CHECK_EQ(engine_file_close(&c, f), 0);
	struct terrane_stat st;
	CHECK_EQ(engine_stat(&c, path, &st), 0);
	CHECK_EQ(st.size, len);
}

static struct efile *log_new(struct engine *e, const char *path)
{
	struct call c;
	struct efile *f;
	struct terrane_options o = {.block_bytes = BLOCK};
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, path, TERRANE_LOG, &o, &f), 0);
	return f;
}

static int log_close(struct engine *e, struct efile *f)
{
	struct call c;
	engine_call(e, &c, NULL);
	return engine_file_close(&c, f);
}

static struct efile *log_again(struct engine *e, const char *path)
{
	struct call c;
	struct efile *f;
	struct terrane_options o = {.block_bytes = BLOCK};
	engine_call(e, &c, &o);
	int rc = engine_append_open(&c, path, &o, &f);
	if (rc < 0)
		fprintf(stderr, "append_open: %s\n", c.error);
	CHECK_EQ(rc, 0);
	return f;
}

/* --- appending -------------------------------------------------------------------------------- */

CLIENT_TEST(an_append_is_readable_when_it_returns, 6, 1)
{
	static const uint64_t sizes[] = {1,     100, 4095,          1, 4096, 70000,
					 BLOCK, 3,   2 * BLOCK + 5, 0, 9};
	struct engine *writer = open_engine(fx);
	struct engine *reader = open_engine(fx);
	struct efile *f = log_new(writer, "/log");
	uint64_t at = 0;
	reads_as(reader, "/log", 1, 0);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		CHECK_EQ(append(writer, f, 1, &at, sizes[i]), 0);
		reads_as(reader, "/log", 1, at); /* a reader sees every acknowledged byte */
	}
	CHECK_EQ(log_close(writer, f), 0);
	reads_as(reader, "/log", 1, at);
	f = log_again(writer, "/log");
	CHECK_EQ(append(writer, f, 1, &at, 12345), 0);
	reads_as(reader, "/log", 1, at);
	CHECK_EQ(log_close(writer, f), 0);
	engine_close(reader);
	engine_close(writer);
}

#define RECORD 150000 /* a block has room for one record, but not for two */

struct watcher {
	struct engine *e;
	bool stop;
	uint64_t looks;
};

static void watch_main(void *arg)
{
	struct watcher *w = arg;
	struct call c;
	struct terrane_stat st;
	while (!w->stop) {
		engine_call(w->e, &c, NULL);
		CHECK_EQ(engine_stat(&c, "/log", &st), 0);
		CHECK_EQ(st.size % RECORD, 0);
		w->looks++;
	}
}

CLIENT_TEST(an_append_is_seen_whole_or_not_at_all_also_where_a_block_ends, 6, 1)
{
	struct watcher w = {.e = open_engine(fx)};
	struct engine *writer = open_engine(fx);
	struct efile *f = log_new(writer, "/log");
	struct rt_fiber *fiber;
	uint64_t at = 0;
	CHECK_EQ(rt_spawn(&fiber, "watcher", watch_main, &w), 0);
	for (int i = 0; i < 12; i++) {
		CHECK_EQ(append(writer, f, 1, &at, RECORD), 0);
	}
	w.stop = true;
	rt_join(fiber);
	CHECK(w.looks > 12);
	reads_as(w.e, "/log", 1, at);
	CHECK_EQ(log_close(writer, f), 0);
	engine_close(writer);
	engine_close(w.e);
}

/* --- taking over ------------------------------------------------------------------------------ */

CLIENT_TEST(a_new_writer_fences_the_old_one, 6, 1)
{
	struct engine *old = open_engine(fx);
	struct engine *new = open_engine(fx);
	struct efile *f = log_new(old, "/log");
	uint64_t at = 0;
	CHECK_EQ(append(old, f, 1, &at, 5000), 0);
	struct efile *g = log_again(new, "/log");
	/* The old writer can append nothing more. */
	uint64_t unused = at;
	CHECK_EQ(append(old, f, 2, &unused, 100), -ESTALE);
	CHECK_EQ(append(old, f, 2, &unused, 100), -ESTALE);
	reads_as(new, "/log", 1, at);
	CHECK_EQ(append(new, g, 1, &at, 70000), 0);
	reads_as(old, "/log", 1, at);
	CHECK_EQ(log_close(old, f), -ESTALE);
	CHECK_EQ(append(new, g, 1, &at, 1), 0);
	CHECK_EQ(log_close(new, g), 0);
	reads_as(old, "/log", 1, at);
	engine_close(new);
	engine_close(old);
}

CLIENT_TEST(a_log_goes_on_after_its_writer_is_gone, 6, 1)
{
	/* A crashed writer leaves its block open; the next writer continues from there. */
	struct engine *e = open_engine(fx);
	uint64_t at = 0;
	for (int i = 0; i < 4; i++) {
		struct efile *f = i == 0 ? log_new(e, "/log") : log_again(e, "/log");
		CHECK_EQ(append(e, f, 1, &at, 1000), 0);
		CHECK_EQ(append(e, f, 1, &at, 50000), 0);
		engine_file_discard(f);
		reads_as(e, "/log", 1, at);
	}
	engine_close(e);
}

/* --- commits in doubt ------------------------------------------------------------------------- */

/* A metadata store that executes a call but answers it, and all later calls, with -EIO. */
static struct {
	const struct kv_ops *well;
	struct kv_ops ops;
	/* number of calls until now, and of the call that fails; 0: none */
	uint64_t calls, fail_at;
} sick;

static bool fails_now(void)
{
	return ++sick.calls >= sick.fail_at && sick.fail_at != 0;
}

static int sick_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		    struct kv_rows *rows)
{
	return fails_now() ? -EIO : sick.well->get(kv, partition, keys, n, rows);
}

static int sick_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
		     struct kv_rows *rows)
{
	return fails_now() ? -EIO : sick.well->scan(kv, partition, range, rows);
}

static int sick_txn(struct kv *kv, uint64_t partition, const struct kv_txn *t, size_t *failed)
{
	bool fails = fails_now();
	if (fails && sick.calls > sick.fail_at)
		return -EIO;
	int rc = sick.well->txn(kv, partition, t, failed);
	return fails ? -EIO : rc;
}

static void fall_sick(struct client_fixture *fx, uint64_t fail_at)
{
	memset(&sick, 0, sizeof(sick));
	sick.well = fx->store->ops;
	sick.ops = *sick.well;
	sick.ops.get = sick_get;
	sick.ops.scan = sick_scan;
	sick.ops.txn = sick_txn;
	sick.fail_at = fail_at;
	fx->store->ops = &sick.ops;
}

static uint64_t fail_at;
static int unknown_rc;
static bool was_done;

static void unknown_body(struct client_fixture *fx)
{
	struct engine *e = open_engine(fx);
	struct efile *f = log_new(e, "/log");
	uint64_t at = 0;
	CHECK_EQ(append(e, f, 1, &at, 5000), 0);
	fall_sick(fx, fail_at);
	unknown_rc = append(e, f, 1, &at, 3000);
	sick.fail_at = 0;
	rt_background();
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	uint64_t unused = at;
	if (unknown_rc < 0)
		CHECK_EQ(append(e, f, 2, &unused, 100), unknown_rc);
	engine_file_discard(f);
	f = log_again(e, "/log");
	struct call c;
	struct terrane_stat st;
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_stat(&c, "/log", &st), 0);
	was_done = st.size == 8000;
	CHECK(was_done || (st.size == 5000 && unknown_rc < 0));
	at = st.size;
	CHECK_EQ(append(e, f, 1, &at, 100), 0);
	CHECK_EQ(log_close(e, f), 0);
	reads_as(e, "/log", 1, at);
	engine_close(e);
}

static void a_log_whose_commit_is_not_known_goes_on_with_its_next_writer(void **state)
{
	(void)state;
	bool done = false;
	unknown_rc = -EIO;
	for (fail_at = 1; unknown_rc < 0; fail_at++) {
		fixture_run_all(6, 1, unknown_body);
		done = done || (unknown_rc == -EIO && was_done);
	}
	assert_true(done);
}

/* --- lost replicas ---------------------------------------------------------------------------- */

CLIENT_TEST(a_log_goes_on_when_copies_are_lost, 7, 1)
{
	struct engine *e = open_engine(fx);
	struct efile *f = log_new(e, "/log");
	uint64_t at = 0;
	CHECK_EQ(append(e, f, 1, &at, 3000), 0);
	/* After each lost node, the log is read and written. */
	for (uint64_t node = 0; node < 3; node++) {
		fixture_do(fx, fixture_kill_node, 10 * node + 1);
		CHECK_EQ(append(e, f, 1, &at, 3000), 0);
		CHECK_EQ(append(e, f, 1, &at, 100), 0);
		if (node < 2)
			reads_as(e, "/log", 1, at);
	}
	CHECK_EQ(log_close(e, f), 0);
	engine_close(e);
}

CLIENT_TEST(a_silent_copy_does_not_hold_up_appends, 4, 1)
{
	/* A replica that does not answer does not delay the others. */
	struct engine *e = open_engine(fx);
	struct efile *f = log_new(e, "/log");
	uint64_t at = 0;
	CHECK_EQ(append(e, f, 1, &at, 3000), 0);
	for (uint64_t node = 0; node < 4; node++) {
		fixture_do(fx, fixture_cut_node, 10 * node + 1);
		uint64_t start_ns = rt_now_ns();
		CHECK_EQ(append(e, f, 1, &at, 3000), 0);
		CHECK(rt_now_ns() - start_ns < NS_PER_S);
		fixture_do(fx, fixture_heal, 0);
	}
	CHECK_EQ(log_close(e, f), 0);
	reads_as(e, "/log", 1, at);
	engine_close(e);
}

/* --- sealing ---------------------------------------------------------------------------------- */

CLIENT_TEST(a_sealed_log_is_encoded_anew, 7, 1)
{
	struct engine *e = open_engine(fx);
	struct efile *f = log_new(e, "/log");
	uint64_t at = 0;
	CHECK_EQ(append(e, f, 1, &at, 2 * BLOCK + 1000), 0);
	struct call c;
	struct terrane_options o = {.encoding = "rs:4+2"};
	engine_call(e, &c, &o);
	/* Sealing takes the log from the writer that has it open. */
	int rc = engine_seal(&c, "/log", &o);
	if (rc < 0)
		fprintf(stderr, "seal: %s\n", c.error);
	CHECK_EQ(rc, 0);
	CHECK_EQ(append(e, f, 1, &at, 100), -ESTALE);
	engine_file_discard(f);
	reads_as(e, "/log", 1, at);
	struct terrane_stat st;
	CHECK_EQ(engine_stat(&c, "/log", &st), 0);
	CHECK(st.sealed);
	CHECK_EQ(engine_file_open(&c, "/log", &f), 0);
	CHECK_EQ(engine_file_stat(&c, f, &st), 0);
	CHECK(strcmp(st.encoding, "rs:4+2") == 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	CHECK_EQ(engine_append_open(&c, "/log", NULL, &f), -EROFS);
	CHECK_EQ(engine_seal(&c, "/log", NULL), 0);
	/* It now tolerates the loss of any two nodes. */
	fixture_do(fx, fixture_kill_node, 1);
	fixture_do(fx, fixture_kill_node, 11);
	reads_as(e, "/log", 1, at);
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_append_is_readable_when_it_returns),
		cmocka_unit_test(an_append_is_seen_whole_or_not_at_all_also_where_a_block_ends),
		cmocka_unit_test(a_new_writer_fences_the_old_one),
		cmocka_unit_test(a_log_goes_on_after_its_writer_is_gone),
		cmocka_unit_test(a_log_whose_commit_is_not_known_goes_on_with_its_next_writer),
		cmocka_unit_test(a_log_goes_on_when_copies_are_lost),
		cmocka_unit_test(a_silent_copy_does_not_hold_up_appends),
		cmocka_unit_test(a_sealed_log_is_encoded_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
