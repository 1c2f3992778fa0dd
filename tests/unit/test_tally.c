// SPDX-License-Identifier: Apache-2.0
/* The tally store on a simulated disk: what it promises in tally.h, crash by crash. */
#include <errno.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"
#include "base/rng.h"
#include "rpc_fixture.h"
#include "rt/file.h"
#include "rt/sim.h"
#include "tally/log.h"
#include "tally/tally.h"

#define SEED 1

/* --- one node, one disk ---------------------------------------------------------------------- */

struct box {
	struct sim_config config;
	struct sim *sim;
	struct sim_node *node;
	struct sim_disk *disk;
	void (*fn)(struct box *b);
	void *arg;
	struct tally_options options;
	struct tally *store;
	struct buf_pool pool;
	bool ended;
};

static void box_main(void *arg)
{
	struct box *b = arg;
	b->fn(b);
	b->ended = true;
}

static bool box_ended(void *arg)
{
	struct box *b = arg;
	return b->ended && !sim_node_running(b->node);
}

static void box_open(struct box *b, uint64_t seed)
{
	*b = (struct box){.options = {.dir = "/disk", .compact_min_bytes = 64 * KIB}};
	sim_config_init(&b->config, seed, 0);
	b->config.restart_min_ns = NS_PER_MS;
	b->config.restart_max_ns = NS_PER_MS;
}

static void box_build(struct box *b)
{
	b->sim = sim_open(&b->config);
	CHECK(b->sim != NULL);
	b->node = sim_node_add(b->sim, "node", 0);
	b->disk = sim_disk_add(b->node, "disk", 64 * MIB);
	buf_pool_init(&b->pool, 64 * MIB);
}

/* Runs fn as the node's process until it has returned. */
static void box_run(struct box *b, void (*fn)(struct box *b))
{
	b->fn = fn;
	b->ended = false;
	sim_node_start(b->node, box_main, b);
	CHECK(sim_run_until(b->sim, box_ended, b, 3600 * NS_PER_S));
}

static void box_close(struct box *b)
{
	sim_close(b->sim);
	buf_pool_fini(&b->pool);
}

static void simple(void (*fn)(struct box *b))
{
	struct box b;
	box_open(&b, SEED);
	box_build(&b);
	box_run(&b, fn);
	box_close(&b);
}

static struct tally_change change(uint64_t client, uint64_t seq, const char *name)
{
	return (struct tally_change){.client_id = client, .seq = seq, .name = name};
}

static int add(struct box *b, uint64_t client, uint64_t seq, const char *name, int64_t delta,
	       int64_t *value)
{
	struct tally_change c = change(client, seq, name);
	return tally_add(b->store, &c, delta, value);
}

/* A blob of bytes made from version. */
static struct buf *blob_of(struct box *b, size_t len, uint64_t version)
{
	struct buf *data = NULL;
	struct rng rng;
	CHECK_RC(buf_get(&b->pool, len, &data), 0);
	rng_init(&rng, version);
	rng_fill(&rng, data->data, len);
	return data;
}

static int put(struct box *b, uint64_t client, uint64_t seq, const char *name, size_t len,
	       uint64_t version)
{
	struct tally_change c = change(client, seq, name);
	AUTO_BUF struct buf *data = blob_of(b, len, version);
	return tally_put(b->store, &c, data, len, crc32c(0, data->data, len));
}

/* The blob must be that version, if the process lives long enough to read it. */
static int read_blob(struct box *b, const char *name, size_t len, uint64_t version)
{
	struct tally_blob blob;
	AUTO_BUF struct buf *want = blob_of(b, len, version);
	AUTO_BUF struct buf *got = blob_of(b, len, 0);
	CHECK_RC(tally_blob_find(b->store, name, &blob), 0);
	CHECK(blob.len == len);
	int rc = tally_blob_read(&blob, got->data);
	CHECK(rc < 0 || memcmp(got->data, want->data, len) == 0);
	tally_blob_release(&blob);
	return rc;
}

static void check_blob(struct box *b, const char *name, size_t len, uint64_t version)
{
	CHECK_RC(read_blob(b, name, len, version), 0);
}

static void check_value(struct box *b, const char *name, int64_t want)
{
	int64_t value = -1;
	CHECK_RC(tally_get(b->store, name, &value), 0);
	CHECK(value == want);
}

static void open_store(struct box *b)
{
	CHECK_RC(tally_open(&b->store, &b->options), 0);
}

static void close_store(struct box *b)
{
	tally_close(b->store);
	b->store = NULL;
}

static void reopen_store(struct box *b)
{
	close_store(b);
	open_store(b);
}

/* --- what is kept ---------------------------------------------------------------------------- */

static void everything_is_there_after_reopening_fn(struct box *b)
{
	int64_t value = 0;
	open_store(b);
	check_value(b, "nobody", 0);
	CHECK_RC(add(b, 1, 1, "hits", 5, &value), 0);
	CHECK_RC(add(b, 1, 2, "hits", -7, &value), 0);
	CHECK(value == -2);
	CHECK_RC(put(b, 2, 1, "hits", 1000, 42),
		 0); /* a blob with a counter's name is another thing */
	CHECK_RC(put(b, 2, 2, "empty", 0, 0), 0);
	CHECK_RC(put(b, 2, 3, "largest", TALLY_BLOB_MAX, 43), 0);
	for (unsigned i = 0; i < 3; i++) {
		check_value(b, "hits", -2);
		check_blob(b, "hits", 1000, 42);
		check_blob(b, "empty", 0, 0);
		check_blob(b, "largest", TALLY_BLOB_MAX, 43);
		struct tally_blob none;
		CHECK_RC(tally_blob_find(b->store, "none", &none), -ENOENT);
		reopen_store(b);
	}
	struct tally_stat stat;
	tally_stat(b->store, &stat);
	CHECK(stat.counters == 1 && stat.blobs == 3 && stat.sessions == 2 && stat.changes == 5);
	close_store(b);
}

static void everything_is_there_after_reopening(void **state)
{
	simple(everything_is_there_after_reopening_fn);
}

static void a_change_is_applied_once_fn(struct box *b)
{
	int64_t value = 0;
	open_store(b);
	CHECK_RC(add(b, 1, 5, "a", 10, &value), 0);
	for (unsigned i = 0; i < 3; i++) {
		value = 0;
		CHECK_RC(add(b, 1, 5, "a", 10, &value), 0);
		CHECK(value == 10);
		CHECK_RC(add(b, 1, 4, "a", 10, &value), -ESTALE);
		check_value(b, "a", 10);
		reopen_store(b);
	}
	/* A refusal is remembered like a result. */
	CHECK_RC(add(b, 2, 1, "big", INT64_MAX, &value), 0);
	CHECK_RC(add(b, 2, 2, "big", 1, &value), -ERANGE);
	reopen_store(b);
	CHECK_RC(add(b, 2, 2, "big", 1, &value), -ERANGE);
	check_value(b, "big", INT64_MAX);
	close_store(b);
}

static void a_change_is_applied_once(void **state)
{
	simple(a_change_is_applied_once_fn);
}

struct asker {
	struct box *b;
	uint64_t client;
	uint64_t seq;
	int rc;
	int64_t value;
};

static void asker_main(void *arg)
{
	struct asker *a = arg;
	a->rc = add(a->b, a->client, a->seq, "shared", 1, &a->value);
}

static void changes_that_wait_together_share_a_sync_fn(struct box *b)
{
	enum { ASKERS = 100 };
	struct asker askers[ASKERS];
	struct rt_group g;
	rt_group_init(&g);
	open_store(b);
	for (unsigned i = 0; i < ASKERS; i++) {
		/* Twenty clients, and each change is asked for five times at once. */
		askers[i] = (struct asker){.b = b, .client = 1 + i % 20, .seq = 1};
		CHECK_RC(rt_group_spawn(&g, "asker", asker_main, &askers[i]), 0);
	}
	rt_group_join(&g);
	for (unsigned i = 0; i < ASKERS; i++) {
		CHECK_RC(askers[i].rc, 0);
		CHECK(askers[i].value == askers[i % 20].value);
	}
	check_value(b, "shared", 20);
	struct tally_stat stat;
	tally_stat(b->store, &stat);
	CHECK(stat.commits <= 5);
	close_store(b);
}

static void changes_that_wait_together_share_a_sync(void **state)
{
	simple(changes_that_wait_together_share_a_sync_fn);
}

static void a_cancelled_change_does_no_harm_fn(struct box *b)
{
	open_store(b);
	struct asker a = {.b = b, .client = 1, .seq = 1};
	struct rt_fiber *f = NULL;
	CHECK_RC(rt_spawn(&f, "asker", asker_main, &a), 0);
	rt_yield();
	rt_cancel(f);
	rt_join(f);
	CHECK(a.rc == -ECANCELED || a.rc == 0);
	int64_t value = 0;
	CHECK_RC(add(b, 1, 2, "shared", 100, &value), 0);
	CHECK(value == 100 || value == 101);
	close_store(b);
}

static void a_cancelled_change_does_no_harm(void **state)
{
	simple(a_cancelled_change_does_no_harm_fn);
}

/* --- limits ---------------------------------------------------------------------------------- */

static void what_is_too_large_is_refused_fn(struct box *b)
{
	char name[TALLY_NAME_MAX + 2];
	int64_t value = 0;
	memset(name, 'n', sizeof(name));
	name[TALLY_NAME_MAX + 1] = 0;
	b->options.size_max_bytes = 2 * MIB;
	open_store(b);
	CHECK_RC(add(b, 1, 1, name, 1, &value), -ENAMETOOLONG);
	CHECK_RC(add(b, 1, 1, "", 1, &value), -EINVAL);
	CHECK_RC(add(b, 0, 1, "a", 1, &value), -EINVAL);
	CHECK_RC(add(b, 1, 0, "a", 1, &value), -EINVAL);
	CHECK_RC(tally_get(b->store, name, &value), -ENAMETOOLONG);
	name[TALLY_NAME_MAX] = 0;
	CHECK_RC(add(b, 1, 1, name, 1, &value), 0);
	struct tally_change c = change(1, 2, "a");
	CHECK_RC(tally_put(b->store, &c, NULL, TALLY_BLOB_MAX + 1, 0), -EMSGSIZE);
	CHECK_RC(put(b, 1, 2, "b1", TALLY_BLOB_MAX, 1), 0);
	CHECK_RC(put(b, 1, 3, "b2", TALLY_BLOB_MAX, 2), -ENOSPC);
	CHECK_RC(put(b, 1, 3, "b2", 1000, 3), 0);
	reopen_store(b);
	check_blob(b, "b1", TALLY_BLOB_MAX, 1);
	check_blob(b, "b2", 1000, 3);
	close_store(b);
}

static void what_is_too_large_is_refused(void **state)
{
	simple(what_is_too_large_is_refused_fn);
}

static void sessions_are_bounded_and_idle_ones_make_room_fn(struct box *b)
{
	int64_t value = 0;
	b->options.session_max = 4;
	b->options.session_idle_ns = 10 * NS_PER_S;
	open_store(b);
	for (uint64_t client = 1; client <= 4; client++)
		CHECK_RC(add(b, client, 1, "a", 1, &value), 0);
	CHECK_RC(add(b, 5, 1, "a", 1, &value), -EBUSY);
	CHECK_RC(rt_sleep_ns(6 * NS_PER_S), 0);
	CHECK_RC(add(b, 1, 2, "a", 1, &value), 0);
	CHECK_RC(rt_sleep_ns(6 * NS_PER_S), 0);
	CHECK_RC(add(b, 5, 1, "a", 1, &value), 0); /* instead of 2, the longest idle */
	CHECK_RC(add(b, 1, 2, "a", 1, &value), 0);
	CHECK(value == 5);
	reopen_store(b);
	CHECK_RC(add(b, 1, 2, "a", 1, &value), 0);
	check_value(b, "a", 6);
	close_store(b);
}

static void sessions_are_bounded_and_idle_ones_make_room(void **state)
{
	simple(sessions_are_bounded_and_idle_ones_make_room_fn);
}

static void one_store_at_a_time_has_the_directory_fn(struct box *b)
{
	struct tally *second = NULL;
	open_store(b);
	CHECK_RC(tally_open(&second, &b->options), -EBUSY);
	close_store(b);
	open_store(b);
	close_store(b);
}

static void one_store_at_a_time_has_the_directory(void **state)
{
	simple(one_store_at_a_time_has_the_directory_fn);
}

static void the_log_stays_short_by_compaction_fn(struct box *b)
{
	int64_t value = 0;
	struct tally_blob old;
	open_store(b);
	CHECK_RC(put(b, 1, 1, "old", 5000, 7), 0);
	CHECK_RC(tally_blob_find(b->store, "old", &old), 0);
	for (uint64_t i = 2; i < 400; i++) {
		CHECK_RC(put(b, 1, i, "blob", 4000, i), 0);
		CHECK_RC(add(b, 2, i, "count", 1, &value), 0);
	}
	struct tally_stat stat;
	tally_stat(b->store, &stat);
	CHECK(stat.compactions > 5 && stat.log_bytes < 300 * KIB && stat.changes == 797);
	/* Who found a blob in a log that is gone can still read it. */
	AUTO_BUF struct buf *want = blob_of(b, 5000, 7);
	AUTO_BUF struct buf *got = blob_of(b, 5000, 0);
	CHECK_RC(tally_blob_read(&old, got->data), 0);
	CHECK(memcmp(got->data, want->data, 5000) == 0);
	tally_blob_release(&old);
	for (unsigned i = 0; i < 2; i++) {
		check_blob(b, "old", 5000, 7);
		check_blob(b, "blob", 4000, 399);
		check_value(b, "count", 398);
		CHECK_RC(add(b, 2, 399, "count", 1, &value), 0);
		CHECK(value == 398);
		reopen_store(b);
	}
	close_store(b);
}

static void the_log_stays_short_by_compaction(void **state)
{
	simple(the_log_stays_short_by_compaction_fn);
}

/* --- crashes --------------------------------------------------------------------------------- */

/* Known outside the simulated memory. */
struct sweep {
	uint64_t added; /* acknowledged: 1, 2, ... in order */
	uint64_t put;   /* the highest version acknowledged */
	uint64_t lives;
	uint64_t completed;
};

enum { SWEEP_CHANGES = 24, SWEEP_BLOB = 3000 };

/* Adds and puts in turn, over a compaction; started again after the crash, it checks what it finds
 * and asks again for what was not acknowledged. */
static void sweep_fn(struct box *b)
{
	struct sweep *w = b->arg;
	int64_t value = 0;
	w->lives++;
	b->options.compact_min_bytes = 16 * KIB;
	int rc = tally_open(&b->store, &b->options);
	if (rc == 0) {
		CHECK_RC(tally_get(b->store, "count", &value), 0);
		CHECK((uint64_t)value == w->added || (uint64_t)value == w->added + 1);
		struct tally_blob blob;
		rc = tally_blob_find(b->store, "blob", &blob);
		CHECK(rc == 0 || w->put == 0);
		if (rc == 0)
			tally_blob_release(&blob);
		rc = 0;
	}
	for (uint64_t i = w->put + 1; i <= SWEEP_CHANGES && rc == 0; i++) {
		rc = add(b, 1, i, "count", 1, &value);
		if (rc == 0) {
			CHECK((uint64_t)value == i);
			w->added = i;
			rc = put(b, 2, i, "blob", SWEEP_BLOB, i);
		}
		if (rc == 0) {
			w->put = i;
			check_value(b, "count", (int64_t)i);
		}
	}
	if (rc == 0)
		rc = read_blob(b, "blob", SWEEP_BLOB, SWEEP_CHANGES);
	CHECK(rc == 0 || rc == -ECANCELED || rc == -EIO);
	if (rc == 0) {
		check_value(b, "count", SWEEP_CHANGES);
		/* The first time the power is cut now, to see that all of it was synced. */
		if (++w->completed == 1)
			CHECK_RC(rt_sleep_ns(1000 * NS_PER_S), -ECANCELED);
	}
	tally_close(b->store);
	b->store = NULL;
}

static bool sweep_completed(void *arg)
{
	return ((struct sweep *)arg)->completed > 0;
}

static bool sweep_ended(void *arg)
{
	struct box *b = arg;
	return ((struct sweep *)b->arg)->completed > 1 && !sim_node_running(b->node);
}

static bool sweep_once(uint64_t nth, bool power)
{
	struct box b;
	struct sweep w = {0};
	box_open(&b, SEED + nth);
	box_build(&b);
	b.arg = &w;
	b.fn = sweep_fn;
	sim_node_start(b.node, box_main, &b);
	sim_node_crash_at(b.node, nth, power);
	CHECK(sim_run_until(b.sim, sweep_completed, &w, 600 * NS_PER_S));
	bool crashed = w.lives > 1;
	sim_node_crash_at(b.node, 0, false);
	sim_node_crash(b.node, true);
	CHECK(sim_run_until(b.sim, sweep_ended, &b, 600 * NS_PER_S));
	CHECK(w.added == SWEEP_CHANGES && w.completed == 2);
	CHECK(w.lives == (crashed ? 3 : 2));
	box_close(&b);
	return crashed;
}

/* Crash at the n-th wait, for every n until a run meets no crash. */
static void a_crash_at_any_wait_loses_nothing(void **state)
{
	for (unsigned power = 0; power < 2; power++) {
		uint64_t nth = 1;
		while (sweep_once(nth, power == 1))
			nth++;
		CHECK(nth > 100);
	}
}

/* --- damage ---------------------------------------------------------------------------------- */

static void damage_prepare_fn(struct box *b)
{
	int64_t value = 0;
	open_store(b);
	CHECK_RC(add(b, 1, 1, "a", 1, &value), 0);
	CHECK_RC(put(b, 1, 2, "blob", 600, 5), 0);
	CHECK_RC(add(b, 1, 3, "a", 2, &value), 0);
	close_store(b);
}

struct damage {
	int rc;
	int64_t value;
};

static void damage_open_fn(struct box *b)
{
	struct damage *d = b->arg;
	d->rc = tally_open(&b->store, &b->options);
	if (d->rc == 0) {
		CHECK_RC(tally_get(b->store, "a", &d->value), 0);
		check_blob(b, "blob", 600, 5);
		close_store(b);
	}
}

/* The log: 64 bytes of header, the first add (72), the put (672), the last add (72). Whatever bit
 * flips before the last record is noticed; the last has nothing behind it that could tell damage
 * from a torn tail. */
static void a_damaged_log_is_refused(void **state)
{
	const uint64_t last = 64 + 72 + 672;
	for (uint64_t offset = 0; offset < last + 72; offset += 5) {
		struct box b;
		struct damage d = {0};
		box_open(&b, SEED);
		box_build(&b);
		b.arg = &d;
		box_run(&b, damage_prepare_fn);
		CHECK_RC(sim_disk_flip(b.disk, "/disk/tally.log", offset, 3), 0);
		box_run(&b, damage_open_fn);
		bool zeroes = (offset >= 64 + 64 + 1 && offset < 64 + 72) ||
			      (offset >= last - 4 && offset < last);
		if (offset < last && !zeroes) {
			CHECK_RC(d.rc, -EBADMSG);
		} else {
			CHECK_RC(d.rc, 0);
			CHECK(d.value == (offset < last + 65 ? 1 : 3) || zeroes);
		}
		box_close(&b);
	}
}

/* A blob that rots while the store is open. */
static void rot_fn(struct box *b)
{
	open_store(b);
	CHECK_RC(put(b, 1, 1, "blob", 600, 5), 0);
	check_blob(b, "blob", 600, 5);
	CHECK_RC(sim_disk_flip(b->disk, "/disk/tally.log", 64 + 68 + 300, 1), 0);
	struct tally_blob blob;
	uint8_t got[600];
	CHECK_RC(tally_blob_find(b->store, "blob", &blob), 0);
	CHECK_RC(tally_blob_read(&blob, got), -EBADMSG);
	tally_blob_release(&blob);
	close_store(b);
}

static void a_rotten_blob_is_not_returned(void **state)
{
	simple(rot_fn);
}

/* --- a failed sync --------------------------------------------------------------------------- */

static void sync_fails_fn(struct box *b)
{
	int64_t value = 0;
	int64_t before = 0;
	uint64_t *failures = b->arg;
	if (tally_open(&b->store, &b->options) < 0)
		return; /* it failed while opening */
	int rc = 0;
	for (uint64_t i = 1; i < 100 && rc == 0; i++) {
		CHECK_RC(tally_get(b->store, "a", &before), 0);
		rc = add(b, 1, i, "a", 1, &value);
	}
	if (rc < 0) {
		++*failures;
		CHECK_RC(rc, -EIO);
		CHECK_RC(tally_wait_failed(b->store), 0);
		CHECK_RC(add(b, 2, 1, "a", 1, &value), -EIO);
		CHECK_RC(add(b, 2, 2, "a", 1, &value), -EIO);
		check_value(b, "a", before);
		struct tally_stat stat;
		tally_stat(b->store, &stat);
		CHECK(stat.failed);
	}
	close_store(b);
}

static void after_a_failed_sync_no_change_is_taken(void **state)
{
	uint64_t failures = 0;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct box b;
		box_open(&b, seed);
		b.config.rate[SIM_DISK_SYNC_FAIL] = 0.05;
		box_build(&b);
		b.arg = &failures;
		box_run(&b, sync_fails_fn);
		box_close(&b);
	}
	CHECK(failures >= 10);
}

int main(void)
{
	log_set_level(LOG_OFF);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_there_after_reopening),
		cmocka_unit_test(a_change_is_applied_once),
		cmocka_unit_test(changes_that_wait_together_share_a_sync),
		cmocka_unit_test(a_cancelled_change_does_no_harm),
		cmocka_unit_test(what_is_too_large_is_refused),
		cmocka_unit_test(sessions_are_bounded_and_idle_ones_make_room),
		cmocka_unit_test(one_store_at_a_time_has_the_directory),
		cmocka_unit_test(the_log_stays_short_by_compaction),
		cmocka_unit_test(a_crash_at_any_wait_loses_nothing),
		cmocka_unit_test(a_damaged_log_is_refused),
		cmocka_unit_test(a_rotten_blob_is_not_returned),
		cmocka_unit_test(after_a_failed_sync_no_change_is_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
