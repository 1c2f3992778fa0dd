// SPDX-License-Identifier: Apache-2.0
/*
 * The engine on RocksDB: the suite of all engines, restarts, the lock against a second owner,
 * crashes, a failed disk, the row cache.
 */
#include "kv_suite_main.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "rocks_fixture.h"

/*
 * RocksDB is a shared library, so its calls of the C library's sync functions reach the two
 * functions below.
 */
static atomic_uint syncs;

int fdatasync(int fd)
{
	atomic_fetch_add(&syncs, 1);
	return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	atomic_fetch_add(&syncs, 1);
	return (int)syscall(SYS_fsync, fd);
}

static void suite_body(void *arg)
{
	struct fixture *p = arg;
	struct kv_suite s = {.partition = kv_suite_partition(1, 0), .seed = 1, .weight = 8};
	CHECK_EQ(open_there(p, &s.kv), 0);
	p->test->run(&s);
	kv_close(s.kv);
}

static void suite_case(void **state)
{
	struct fixture p;
	fixture_make(&p);
	p.test = *state;
	in_fiber(&p, suite_body);
	fixture_remove(&p);
}

/* --- restarts ---------------------------------------------------------------------------- */

static void fill_body(void *arg)
{
	struct kv *kv;
	CHECK_EQ(open_there(arg, &kv), 0);
	fill_some(kv, 0, MANY);
	kv_close(kv);
}

static void find_body(void *arg)
{
	struct kv *kv;
	uint64_t keys;
	CHECK_EQ(open_there(arg, &kv), 0);
	for (unsigned n = 0; n < MANY; n += 97)
		CHECK(has(kv, n));
	CHECK_EQ(kv_rocksdb_verify(kv, &keys), 0);
	CHECK_EQ(keys, MANY);
	kv_close(kv);
}

static void contents_and_versions_survive_a_restart(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	in_fiber(&p, fill_body);
	in_fiber(&p, find_body);
	in_fiber(&p, find_body);
	fixture_remove(&p);
}

static void only_existing_body(void *arg)
{
	struct fixture *p = arg;
	struct kv *kv;
	p->rc = kv_rocksdb_open(&kv,
				&(struct kv_rocksdb_options){.dir = p->dir, .only_existing = true});
	if (p->rc == 0)
		kv_close(kv);
}

static void opening_what_must_exist_makes_nothing(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	in_fiber(&p, only_existing_body);
	CHECK_EQ(p.rc, -ENOENT);
	CHECK(access(p.dir, F_OK) != 0);
	in_fiber(&p, fill_body);
	in_fiber(&p, only_existing_body);
	CHECK_EQ(p.rc, 0);
	in_fiber(&p, find_body);
	fixture_remove(&p);
}

static int put_early(struct kv *kv, uint64_t partition, unsigned n)
{
	struct kv_write w = {.key = kv_bytes(&n, sizeof(n)), .value = kv_text("early")};
	return kv_txn(kv, partition,
		      &(struct kv_txn){.writes = &w, .write_count = 1, .early = true}, NULL);
}

static void check_is(struct kv *kv, uint64_t partition, struct kv_bytes key, const char *value)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_get(kv, partition, &key, 1, &rows), 0);
	CHECK_EQ(rows.row[0].found, value != NULL);
	CHECK(value == NULL || kv_equal(rows.row[0].value, kv_text(value)));
}

/*
 * Alternates transactions that are acknowledged before and after a sync. Each one, and each read,
 * also of cached keys, sees all transactions before it. A restart after a synced one keeps them
 * all.
 */
static void early_body(void *arg)
{
	struct kv *kv;
	CHECK_EQ(open_there(arg, &kv), 0);
	for (unsigned n = 0; n < 100; n++) {
		struct kv_bytes key = kv_bytes(&n, sizeof(n));
		check_is(kv, 7, key, NULL);
		CHECK_EQ(put_early(kv, 7, n), 0);
		check_is(kv, 7, key, "early");
		struct kv_check seen = {.kind = KV_EQUALS, .key = key, .value = kv_text("early")};
		struct kv_write next = {.key = key, .value = kv_text("synced")};
		CHECK_EQ(kv_txn(kv, 7, &(struct kv_txn){&seen, 1, &next, 1, n % 3 == 0}, NULL), 0);
		check_is(kv, 7, key, "synced");
	}
	kv_must_put(kv, 8, kv_text("last"), kv_text(""));
	kv_close(kv);
	CHECK_EQ(open_there(arg, &kv), 0);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_scan(kv, 7, &(struct kv_range){0}, &rows), 0);
	CHECK_EQ(rows.count, 100);
	for (size_t i = 0; i < rows.count; i++)
		CHECK(kv_equal(rows.row[i].value, kv_text("synced")));
	kv_close(kv);
}

static void early_writes_are_seen_at_once_and_kept_with_later_ones(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	in_fiber(&p, early_body);
	fixture_remove(&p);
}

/* Eight transactions wait together and are committed two by two, in this order. */
static const struct {
	bool early;
	unsigned syncs; /* number of syncs of the log when the transaction is acknowledged */
} mixed[] = {{false, 1}, {false, 1}, {true, 2}, {false, 2},
	     {false, 3}, {true, 3},  {true, 3}, {true, 3}};

struct mixed_put {
	struct kv *kv;
	unsigned number;
	unsigned syncs; /* number of syncs when the transaction returned */
};

static void mixed_fiber(void *arg)
{
	struct mixed_put *p = arg;
	struct kv_write w = {.key = kv_bytes(&p->number, sizeof(p->number)), .value = kv_text("")};
	struct kv_txn t = {.writes = &w, .write_count = 1, .early = mixed[p->number].early};
	CHECK_EQ(kv_txn(p->kv, 7, &t, NULL), 0);
	p->syncs = syncs;
}

static void mixed_body(void *arg)
{
	const struct fixture *p = arg;
	struct kv *kv;
	struct mixed_put put[ARRAY_LEN(mixed)];
	struct rt_group g;
	CHECK_EQ(kv_rocksdb_open(&kv,
				 &(struct kv_rocksdb_options){.dir = p->dir, .batch_txns_max = 2}),
		 0);
	rt_group_init(&g);
	uint64_t batches = kv->stats.batches;
	unsigned before = syncs;
	for (unsigned i = 0; i < ARRAY_LEN(mixed); i++) {
		put[i] = (struct mixed_put){.kv = kv, .number = i};
		CHECK_EQ(rt_group_spawn(&g, "put", mixed_fiber, &put[i]), 0);
	}
	rt_group_join(&g);
	CHECK_EQ(kv->stats.batches - batches, ARRAY_LEN(mixed) / 2);
	for (unsigned i = 0; i < ARRAY_LEN(mixed); i++)
		CHECK_EQ(put[i].syncs - before, mixed[i].syncs);
	kv_close(kv);
}

static void a_commit_is_synced_if_any_of_its_transactions_is_not_early(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	in_fiber(&p, mixed_body);
	fixture_remove(&p);
}

static void old_version_body(void *arg)
{
	struct fixture *p = arg;
	for (unsigned round = 0; round < 4; round++) {
		struct kv *kv;
		CHECK_EQ(open_there(p, &kv), 0);
		AUTO_KV_ROWS struct kv_rows rows = {0};
		CHECK_EQ(kv_scan(kv, 5, &(struct kv_range){0}, &rows), 0);
		uint64_t before = rows.version;
		kv_must_put(kv, 5, kv_text("k"), kv_bytes(&round, sizeof(round)));
		CHECK_EQ(kv_scan(kv, 5, &(struct kv_range){0}, &rows), 0);
		CHECK(rows.version > before && before >= p->numbers[0]);
		p->numbers[0] = rows.version;
		struct kv_check stale = {.kind = KV_VERSION, .version = before};
		kv_close(kv);
		CHECK_EQ(open_there(p, &kv), 0);
		CHECK_EQ(kv_txn(kv, 5, &(struct kv_txn){.checks = &stale, .check_count = 1}, NULL),
			 -ESTALE);
		kv_close(kv);
	}
}

static void a_version_from_before_a_restart_never_matches_a_later_state(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	in_fiber(&p, old_version_body);
	fixture_remove(&p);
}

/* --- one owner -------------------------------------------------------------------------------- */

static void open_twice(void *arg)
{
	struct kv *kv;
	struct kv *second;
	CHECK_EQ(open_there(arg, &kv), 0);
	CHECK_EQ(open_there(arg, &second), -EBUSY);
	kv_close(kv);
	CHECK_EQ(open_there(arg, &kv), 0);
	kv_close(kv);
}

/*
 * Starts this program again in another role. A fork without exec would have RocksDB's state without
 * its threads.
 */
static pid_t start_role(const char *role, const char *dir, int *out)
{
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl("/proc/self/exe", "test_kv_rocksdb", role, dir, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	*out = fds[0];
	return pid;
}

static void open_while_owned(void *arg)
{
	struct fixture *p = arg;
	struct kv *kv;
	p->rc = open_there(p, &kv);
	if (p->rc == 0)
		kv_close(kv);
}

static void the_folder_has_one_owner(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	log_set_level(LOG_OFF);
	in_fiber(&p, open_twice);
	int out;
	pid_t pid = start_role("count", p.dir, &out);
	char line[32];
	assert_true(read(out, line, sizeof(line)) > 0); /* the child has opened the store */
	in_fiber(&p, open_while_owned);
	assert_int_equal(p.rc, -EBUSY);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(out);
	in_fiber(&p, open_while_owned);
	assert_int_equal(p.rc, 0);
	log_set_level(LOG_INFO);
	fixture_remove(&p);
}

/* --- killed while writing --------------------------------------------------------------------- */

struct counting {
	struct kv *kv;
	unsigned id;
};

/* Each fiber raises its own number by one, on the condition of the old one, and prints acknowledged numbers. */
static void count_fiber(void *arg)
{
	struct counting *c = arg;
	char key[16];
	snprintf(key, sizeof(key), "count%u", c->id);
	uint64_t partition = c->id % 3;
	uint64_t n = 0;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes name = kv_text(key);
	CHECK_EQ(kv_get(c->kv, partition, &name, 1, &rows), 0);
	if (rows.row[0].found)
		memcpy(&n, rows.row[0].value.data, sizeof(n));
	for (;;) {
		uint64_t next = n + 1;
		struct kv_check check = {.kind = n > 0 ? KV_EQUALS : KV_ABSENT,
					 .key = name,
					 .value = kv_bytes(&n, n > 0 ? sizeof(n) : 0)};
		struct kv_write w[] = {
			{.kind = KV_PUT, .key = name, .value = kv_bytes(&next, sizeof(next))}};
		CHECK_EQ(kv_txn(c->kv, partition, &(struct kv_txn){&check, 1, w, 1, false}, NULL),
			 0);
		n = next;
		uint64_t said[2] = {c->id, n};
		CHECK_EQ(write(STDOUT_FILENO, said, sizeof(said)), sizeof(said));
	}
}

#define COUNTERS 12

static void count_role(void *arg)
{
	struct fixture p = {0};
	snprintf(p.dir, sizeof(p.dir), "%s", (const char *)arg);
	struct counting c[COUNTERS];
	struct kv *kv;
	CHECK_EQ(open_there(&p, &kv), 0);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < COUNTERS; i++) {
		c[i] = (struct counting){kv, i};
		CHECK_EQ(rt_group_spawn(&g, "count", count_fiber, &c[i]), 0);
	}
	rt_group_join(&g);
}

static void counts_body(void *arg)
{
	struct fixture *p = arg;
	const uint64_t *acknowledged = p->acknowledged;
	struct kv *kv;
	CHECK_EQ(open_there(p, &kv), 0);
	for (unsigned i = 0; i < COUNTERS; i++) {
		char key[16];
		snprintf(key, sizeof(key), "count%u", i);
		AUTO_KV_ROWS struct kv_rows rows = {0};
		struct kv_bytes name = kv_text(key);
		CHECK_EQ(kv_get(kv, i % 3, &name, 1, &rows), 0);
		uint64_t n = 0;
		if (rows.row[0].found)
			memcpy(&n, rows.row[0].value.data, sizeof(n));
		/* Only the transaction under way at the kill may be stored without an acknowledgement. */
		CHECK(n >= acknowledged[i] && n <= acknowledged[i] + 1);
	}
	kv_close(kv);
}

static void read_until_killed(pid_t pid, int out, unsigned lines, uint64_t *acknowledged)
{
	uint64_t said[2];
	while (read(out, said, sizeof(said)) == sizeof(said)) {
		assert_true(said[0] < COUNTERS);
		acknowledged[said[0]] = said[1];
		if (lines > 0 && --lines == 0)
			kill(pid, SIGKILL);
	}
	waitpid(pid, NULL, 0);
	close(out);
}

static void nothing_acknowledged_is_lost_when_killed(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	uint64_t acknowledged[COUNTERS] = {0};
	for (unsigned round = 0; round < 8; round++) {
		int out;
		pid_t pid = start_role("count", p.dir, &out);
		read_until_killed(pid, out, 1 + round * 200, acknowledged);
		p.acknowledged = acknowledged;
		in_fiber(&p, counts_body);
	}
	assert_true(acknowledged[0] > 10);
	fixture_remove(&p);
}

/* --- a disk that fails under the log ---------------------------------------------------------- */

static void fail_role(void *arg)
{
	struct fixture p = {0};
	snprintf(p.dir, sizeof(p.dir), "%s", (const char *)arg);
	log_set_level(LOG_OFF);
	signal(SIGXFSZ, SIG_IGN);
	struct kv *kv;
	CHECK_EQ(open_there(&p, &kv), 0);
	fill_some(kv, 0, 1000);
	struct rlimit none = {.rlim_cur = 1000, .rlim_max = 1000};
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
	struct kv_write w = {.kind = KV_PUT, .key = kv_text("lost"), .value = kv_text("x")};
	struct kv_txn t = {.writes = &w, .write_count = 1};
	CHECK(kv_unknown(kv_txn(kv, 1, &t, NULL)));
	CHECK_EQ(kv_txn(kv, 1, &t, NULL), -EROFS);
	CHECK_EQ(kv_txn(kv, 2, &t, NULL), -EROFS);
	CHECK(kv_health(kv) < 0);
	CHECK(has(kv, 0) && has(kv, 999));
	kv_close(kv);
	/* checks no leaks, because kv_close does not free the store after a failed sync */
	_exit(42);
}

static void after_failure_body(void *arg)
{
	struct kv *kv;
	CHECK_EQ(open_there(arg, &kv), 0);
	CHECK(has(kv, 0) && has(kv, 999));
	kv_must_put(kv, 1, kv_text("again"), kv_text("x"));
	kv_close(kv);
}

static void a_failed_log_write_ends_transactions_until_a_restart(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	int out;
	int status;
	pid_t pid = start_role("fail", p.dir, &out);
	waitpid(pid, &status, 0);
	close(out);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
	in_fiber(&p, after_failure_body);
	fixture_remove(&p);
}

/* --- group commit, hot reads on the loop ---------------------------------------- */

struct putter {
	struct kv *kv;
	unsigned number;
};

static void put_fiber(void *arg)
{
	struct putter *p = arg;
	for (unsigned i = 0; i < 50; i++)
		kv_must_put(p->kv, (uint64_t)p->number * 31, kv_text("k"), kv_bytes(&i, sizeof(i)));
}

static void sharing_body(void *arg)
{
	struct kv *kv;
	struct putter p[64];
	CHECK_EQ(open_there(arg, &kv), 0);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = (struct putter){kv, i};
		CHECK_EQ(rt_group_spawn(&g, "put", put_fiber, &p[i]), 0);
	}
	rt_group_join(&g);
	CHECK_EQ(kv->stats.txns, 3200);
	CHECK(kv->stats.batches * 8 < kv->stats.txns);
	for (uint64_t i = 0; i < 64; i++) {
		AUTO_KV_ROWS struct kv_rows rows = {0};
		struct kv_bytes keys[] = {kv_text("k"), kv_text("none")};
		CHECK_EQ(kv_get(kv, i * 31, keys, 2, &rows), 0);
		CHECK(rows.row[0].found && !rows.row[1].found);
	}
	CHECK_EQ(kv->stats.reads_offloaded, 0);
	fill_some(kv, 0,
		  /*
		   * more rows than fit in one block of a table, because opening may read the only
		   * block of a table
		   */
		  4000);
	kv_close(kv);
	CHECK_EQ(open_there(arg, &kv), 0);
	/* Now the row is in a table: the first read fetches its block from the file, the second finds it cached. */
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes keys[] = {kv_text("k"), kv_text("none")};
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(kv_get(kv, 31, keys, 2, &rows), 0);
		CHECK(rows.row[0].found);
		CHECK_EQ(kv_get(kv, 31, keys, 1, &rows), 0);
		CHECK_EQ(kv->stats.reads_offloaded, 1);
	}
	kv_close(kv);
}

static void commits_are_shared_and_hot_reads_stay_on_the_loop(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	in_fiber(&p, sharing_body);
	fixture_remove(&p);
}

/* --- the row cache ------------------------------------------------------------------------------ */

#define TURNS 300

/* Two keys are always written together, with a number that grows. */
struct turns {
	struct kv *kv;
	uint32_t begun;
	uint32_t seen; /* the largest number read; a read that starts later must not return less */
	bool done;
};

static uint32_t number_in(const struct kv_row *row)
{
	uint32_t n = 0;
	CHECK(row->found && row->value.len == sizeof(n));
	memcpy(&n, row->value.data, sizeof(n));
	return n;
}

static void turns_write(void *arg)
{
	struct turns *t = arg;
	for (uint32_t n = 1; n <= TURNS; n++) {
		struct kv_write w[2] = {
			{KV_PUT, kv_text("a"), kv_bytes(&n, sizeof(n))},
			{KV_PUT, kv_text("b"), kv_bytes(&n, sizeof(n))},
		};
		t->begun = n;
		CHECK_EQ(kv_txn(t->kv, 9, &(struct kv_txn){.writes = w, .write_count = 2}, NULL),
			 0);
		t->seen = n;
	}
	t->done = true;
}

static void turns_saw(struct turns *t, uint32_t before, uint32_t n)
{
	CHECK(n >= before && n <= t->begun);
	t->seen = n > t->seen ? n : t->seen;
}

static void turns_get(void *arg)
{
	struct turns *t = arg;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes keys[] = {kv_text("a"), kv_text("none"), kv_text("b")};
	for (size_t i = 0; !t->done; i++) {
		uint32_t before = t->seen;
		CHECK_EQ(kv_get(t->kv, 9, keys, i % 2 == 0 ? 1 : 3, &rows), 0);
		turns_saw(t, before, number_in(&rows.row[0]));
		CHECK(rows.count == 1 ||
		      (!rows.row[1].found && number_in(&rows.row[2]) == number_in(&rows.row[0])));
		rt_yield();
	}
}

/* Scans do not use the row cache: they may return a commit before its writer has the result. */
static void turns_scan(void *arg)
{
	struct turns *t = arg;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	while (!t->done) {
		uint32_t before = t->seen;
		CHECK_EQ(kv_scan(t->kv, 9, &(struct kv_range){0}, &rows), 0);
		CHECK_EQ(rows.count, 2);
		turns_saw(t, before, number_in(&rows.row[0]));
		CHECK_EQ(number_in(&rows.row[0]), number_in(&rows.row[1]));
	}
}

static void rows_body(void *arg)
{
	struct turns t = {0};
	uint32_t zero = 0;
	CHECK_EQ(open_there(arg, &t.kv), 0);
	kv_must_put(t.kv, 9, kv_text("a"), kv_bytes(&zero, sizeof(zero)));
	kv_must_put(t.kv, 9, kv_text("b"), kv_bytes(&zero, sizeof(zero)));
	struct rt_group g;
	rt_group_init(&g);
	CHECK_EQ(rt_group_spawn(&g, "write", turns_write, &t), 0);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(rt_group_spawn(&g, "get", turns_get, &t), 0);
		CHECK_EQ(rt_group_spawn(&g, "scan", turns_scan, &t), 0);
	}
	rt_group_join(&g);
	CHECK(t.kv->stats.rows_kept > 0);
	kv_close(t.kv);
}

static void the_row_cache_never_returns_an_old_row(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	in_fiber(&p, rows_body);
	fixture_remove(&p);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "count") == 0)
		return rt_real_run(NULL, count_role, argv[2]);
	if (argc == 3 && strcmp(argv[1], "fail") == 0)
		return rt_real_run(NULL, fail_role, argv[2]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contents_and_versions_survive_a_restart),
		cmocka_unit_test(opening_what_must_exist_makes_nothing),
		cmocka_unit_test(a_version_from_before_a_restart_never_matches_a_later_state),
		cmocka_unit_test(early_writes_are_seen_at_once_and_kept_with_later_ones),
		cmocka_unit_test(a_commit_is_synced_if_any_of_its_transactions_is_not_early),
		cmocka_unit_test(the_folder_has_one_owner),
		cmocka_unit_test(nothing_acknowledged_is_lost_when_killed),
		cmocka_unit_test(a_failed_log_write_ends_transactions_until_a_restart),
		cmocka_unit_test(commits_are_shared_and_hot_reads_stay_on_the_loop),
		cmocka_unit_test(the_row_cache_never_returns_an_old_row),
	};
	return kv_suite_main("kv on rocksdb", suite_case, tests, ARRAY_LEN(tests));
}
