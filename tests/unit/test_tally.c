// SPDX-License-Identifier: Apache-2.0
/* The tally store: what it keeps, and its limits. Crashes and damage are in test_tally_crash.c. */
#include <errno.h>
#include <string.h>

#include "tally_box.h"

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
	box_run_once(everything_is_there_after_reopening_fn);
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
	box_run_once(a_change_is_applied_once_fn);
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
	box_run_once(changes_that_wait_together_share_a_sync_fn);
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
	box_run_once(a_cancelled_change_does_no_harm_fn);
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
	struct tally_change c = {.client_id = 1, .seq = 2, .name = "a"};
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
	box_run_once(what_is_too_large_is_refused_fn);
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
	box_run_once(sessions_are_bounded_and_idle_ones_make_room_fn);
}

static void an_ended_session_makes_room_fn(struct box *b)
{
	int64_t value = 0;
	struct tally_stat stat;
	b->options.session_max = 4;
	open_store(b);
	CHECK_RC(tally_end(b->store, 99), 0); /* nobody knows it: it has ended */
	for (uint64_t client = 1; client <= 20; client++) {
		CHECK_RC(add(b, client, 1, "a", 1, &value), 0);
		CHECK_RC(add(b, client, 2, "a", 1, &value), 0);
		CHECK_RC(tally_end(b->store, client), 0);
		if (client == 10)
			reopen_store(b);
	}
	CHECK_RC(add(b, 100, 1, "a", 1, &value), 0);
	for (unsigned i = 0; i < 2; i++) {
		tally_stat(b->store, &stat);
		CHECK(stat.sessions == 1);
		CHECK_RC(add(b, 100, 1, "a", 1, &value), 0);
		check_value(b, "a", 41);
		reopen_store(b);
	}
	close_store(b);
}

static void an_ended_session_makes_room(void **state)
{
	box_run_once(an_ended_session_makes_room_fn);
}

/* Recovery forgets whom the log says, not whom a limit or a clock would. */
static void reopening_forgets_nobody_fn(struct box *b)
{
	int64_t value = 0;
	b->options.session_max = 8;
	b->options.session_idle_ns = 10 * NS_PER_S;
	open_store(b);
	for (uint64_t client = 1; client <= 8; client++)
		CHECK_RC(add(b, client, 1, "a", 1, &value), 0);
	CHECK_RC(rt_sleep_ns(11 * NS_PER_S), 0);
	CHECK_RC(add(b, 9, 1, "a", 1, &value), 0); /* instead of 1 */
	b->options.session_max = 2;
	for (unsigned i = 0; i < 2; i++) {
		reopen_store(b);
		for (uint64_t client = 2; client <= 9; client++) {
			CHECK_RC(add(b, client, 1, "a", 1, &value), 0);
			CHECK((uint64_t)value == client);
		}
		CHECK_RC(add(b, 1, 1, "a", 1, &value), -EBUSY);
		check_value(b, "a", 9);
	}
	close_store(b);
}

static void reopening_forgets_nobody(void **state)
{
	box_run_once(reopening_forgets_nobody_fn);
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
	box_run_once(one_store_at_a_time_has_the_directory_fn);
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
	box_run_once(the_log_stays_short_by_compaction_fn);
}

static void a_retry_across_compaction_and_restart_is_applied_once_fn(struct box *b)
{
	int64_t value = 0;
	struct tally_stat stat = {0};
	open_store(b);
	CHECK_RC(add(b, 1, 7, "count", 5, &value), 0);
	CHECK_RC(add(b, 3, 1, "big", INT64_MAX, &value), 0);
	CHECK_RC(add(b, 3, 2, "big", 1, &value), -ERANGE);
	for (uint64_t i = 1; stat.compactions < 2; i++) {
		CHECK_RC(put(b, 2, i, "blob", 4000, i), 0);
		tally_stat(b->store, &stat);
	}
	for (unsigned i = 0; i < 3; i++) {
		CHECK_RC(add(b, 1, 7, "count", 5, &value), 0);
		CHECK(value == 5);
		CHECK_RC(add(b, 1, 6, "count", 5, &value), -ESTALE);
		CHECK_RC(add(b, 3, 2, "big", 1, &value), -ERANGE);
		check_value(b, "count", 5);
		reopen_store(b);
	}
	close_store(b);
}

static void a_retry_across_compaction_and_restart_is_applied_once(void **state)
{
	box_run_once(a_retry_across_compaction_and_restart_is_applied_once_fn);
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
		cmocka_unit_test(an_ended_session_makes_room),
		cmocka_unit_test(reopening_forgets_nobody),
		cmocka_unit_test(one_store_at_a_time_has_the_directory),
		cmocka_unit_test(the_log_stays_short_by_compaction),
		cmocka_unit_test(a_retry_across_compaction_and_restart_is_applied_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
