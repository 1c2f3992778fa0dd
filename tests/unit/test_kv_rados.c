// SPDX-License-Identifier: Apache-2.0
/*
 * The engine on a real RADOS cluster. scripts/rados.sh starts one and passes it in the environment, in the stage
 * "rados" of ./dev test. Without a cluster this program is skipped (exit 77).
 */
#include "kv_suite_main.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "kv/rados.h"
#include "omap_fixture.h"
#include "rt/real.h"
#include "rt/rt.h"

/* Differs in each run, so that several runs can use one cluster. */
static uint64_t run_id(void)
{
	return (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
}

static struct kv_rados_options options(void)
{
	return (struct kv_rados_options){.conf = getenv("TERRANE_RADOS_CONF"), .pool = "terrane"};
}

struct fixture {
	const struct kv_case *test;
	size_t index;
	struct kv *kv[2];
	struct omap_faults faults[2];
	uint64_t partition;
};

static void servers_open(struct fixture *fx, double faults)
{
	for (size_t i = 0; i < ARRAY_LEN(fx->kv); i++) {
		struct kv_rados_options o = options();
		struct omap *below;
		fx->faults[i] = (struct omap_faults){.seed = 7 + i,
						     .timeout_ns = 5 * NS_PER_MS,
						     .late_max_ns = 30 * NS_PER_MS,
						     .request_lost = faults,
						     .reply_lost = faults,
						     .late = faults,
						     .resent = faults};
		CHECK_EQ(rados_omap_open(&below, &o), 0);
		CHECK_EQ(kv_omap_open_take(&fx->kv[i], omap_lossy_take(below, &fx->faults[i]),
					   &(struct kv_omap_options){0}),
			 0);
	}
}

static void servers_close(struct fixture *fx)
{
	for (size_t i = 0; i < ARRAY_LEN(fx->kv); i++)
		kv_close(fx->kv[i]);
}

/* --- the suite -------------------------------------------------------------------------------- */

static void suite_body(void *arg)
{
	struct fixture *fx = arg;
	struct kv_rados_options o = options();
	struct kv_suite s = {.partition = kv_suite_partition(run_id(), fx->index),
			     .seed = 1 + fx->index,
			     .weight = 2};
	CHECK_EQ(kv_rados_open(&s.kv, &o), 0);
	fx->test->run(&s);
	kv_close(s.kv);
}

static void suite_case(void **state)
{
	struct fixture fx = {.test = *state};
	fx.index = (size_t)(fx.test - kv_suite_cases);
	assert_int_equal(rt_real_run(NULL, suite_body, &fx), 0);
}

/* --- writes lost, late and repeated on the way to a real cluster ---------------------------------------- */

static void lossy_body(void *arg)
{
	struct fixture *fx = arg;
	servers_open(fx, 0.07);
	for (unsigned i = 0; i < 6; i++) {
		struct kv_clients c = {.kv = fx->kv,
				       .store_count = 2,
				       .partition = kv_suite_partition(run_id(), 100 + i),
				       .seed = i,
				       .clients = 8,
				       .ops_each = 30};
		kv_clients_run(&c);
		CHECK(kv_clients_final_read(&c));
		CHECK_EQ(c.unknown, 0);
		CHECK(kv_clients_check(&c));
		CHECK(c.applied > 0);
		history_fini(&c.history);
	}
	CHECK(fx->faults[0].struck + fx->faults[1].struck > 20);
	servers_close(fx);
}

static void lost_answers_from_a_cluster_leave_no_transaction_in_doubt(void **state)
{
	(void)state;
	struct fixture fx = {0};
	assert_int_equal(rt_real_run(NULL, lossy_body, &fx), 0);
}

/* --- an OSD dies while writes go on ------------------------------------------------------------- */

static void script(const char *verb, const char *osd)
{
	const char *path = getenv("TERRANE_RADOS_SCRIPT");
	const char *dir = getenv("TERRANE_RADOS_DIR");
	CHECK(path != NULL && dir != NULL);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", path, verb, dir, osd, (char *)NULL);
		_exit(127);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
}

#define WRITERS 24
#define PARTITIONS 12

struct outage {
	struct kv *kv;
	uint64_t partition;
	bool stop;
	uint64_t acknowledged
		[WRITERS]; /* last acknowledged number of each writer, under its own key */
	uint64_t unknown;
	uint64_t longest_ns;
};

struct writer {
	struct outage *all;
	unsigned number;
};

static int count_once(struct writer *w, uint64_t n)
{
	char key[16];
	snprintf(key, sizeof(key), "w%u", w->number);
	uint64_t next = n + 1;
	struct kv_check check = {.kind = n > 0 ? KV_EQUALS : KV_ABSENT,
				 .key = kv_text(key),
				 .value = kv_bytes(&n, n > 0 ? sizeof(n) : 0)};
	struct kv_write put = {
		.kind = KV_PUT, .key = kv_text(key), .value = kv_bytes(&next, sizeof(next))};
	uint64_t start = rt_now_ns();
	int rc = kv_txn(w->all->kv, w->all->partition + w->number % PARTITIONS,
			&(struct kv_txn){&check, 1, &put, 1, false}, NULL);
	w->all->longest_ns = max_u64(w->all->longest_ns, rt_now_ns() - start);
	return rc;
}

static void writer_main(void *arg)
{
	struct writer *w = arg;
	while (!w->all->stop) {
		int rc = count_once(w, w->all->acknowledged[w->number]);
		if (rc == 0)
			w->all->acknowledged[w->number]++;
		else
			w->all->unknown++;
		/* No other client writes to this key, so the check of the transaction holds. */
		CHECK(rc == 0);
	}
}

static uint64_t total(const struct outage *o)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < WRITERS; i++)
		sum += o->acknowledged[i];
	return sum;
}

/* Waits until this number of further writes is acknowledged. */
static void progress(struct outage *o, uint64_t more)
{
	uint64_t goal = total(o) + more;
	uint64_t end = rt_now_ns() + 60 * NS_PER_S;
	while (total(o) < goal) {
		CHECK(rt_now_ns() < end);
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	}
}

/* During writes the stored number may be one more than the acknowledged one. */
static void all_there(struct outage *o)
{
	for (unsigned i = 0; i < WRITERS; i++) {
		char key[16];
		uint64_t before = o->acknowledged[i];
		snprintf(key, sizeof(key), "w%u", i);
		AUTO_KV_ROWS struct kv_rows rows = {0};
		struct kv_bytes name = kv_text(key);
		CHECK_EQ(kv_get(o->kv, o->partition + i % PARTITIONS, &name, 1, &rows), 0);
		uint64_t n = 0;
		CHECK_EQ(rows.row[0].value.len, sizeof(n));
		memcpy(&n, rows.row[0].value.data, sizeof(n));
		CHECK(n >= before && n <= o->acknowledged[i] + !o->stop);
	}
}

static void outage_body(void *arg)
{
	struct outage *o = arg;
	struct kv_rados_options ro = options();
	struct writer w[WRITERS];
	CHECK_EQ(kv_rados_open(&o->kv, &ro), 0);
	o->partition = kv_suite_partition(run_id(), 200);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){o, i};
		CHECK_EQ(rt_group_spawn(&g, "writer", writer_main, &w[i]), 0);
	}
	progress(o, 300);
	script("osd-kill", "1");
	progress(o, 300); /* two of the three OSDs run */
	all_there(o);
	script("osd-start", "1");
	progress(o, 300);
	script("osd-kill", "2");
	progress(o, 300);
	script("osd-start", "2");
	progress(o, 100);
	o->stop = true;
	rt_group_join(&g);
	all_there(o);
	kv_close(o->kv);
	CHECK_EQ(kv_rados_open(&o->kv, &ro), 0);
	all_there(o);
	kv_close(o->kv);
}

static void nothing_acknowledged_is_lost_when_an_osd_is_killed(void **state)
{
	(void)state;
	struct outage o = {0};
	assert_int_equal(rt_real_run(NULL, outage_body, &o), 0);
	assert_int_equal(o.unknown, 0);
	print_message("%llu transactions, the longest took %llu ms\n",
		      (unsigned long long)total(&o),
		      (unsigned long long)(o.longest_ns / NS_PER_MS));
}

/* --- a cluster that cannot be reached ---------------------------------------------------------------- */

static void unreachable_body(void *arg)
{
	char *conf = arg;
	struct kv *kv;
	uint64_t start = rt_now_ns();
	struct kv_rados_options o = {.conf = conf, .pool = "terrane", .connect_timeout_ms = 1500};
	CHECK_EQ(kv_rados_open(&kv, &o), -ETIMEDOUT);
	CHECK(rt_now_ns() - start < 120 * NS_PER_S);
	o.conf = "/no/such/ceph.conf";
	CHECK_EQ(kv_rados_open(&kv, &o), -ENOENT);
	o = options();
	o.pool = "nopool";
	CHECK_EQ(kv_rados_open(&kv, &o), -ENOENT);
}

static void an_unreachable_cluster_is_an_error_in_bounded_time(void **state)
{
	(void)state;
	char path[] = "/tmp/terrane-conf-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	const char text[] = "[global]\nmon host = [v2:127.0.0.1:1]\nauth client required = none\n";
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	log_set_level(LOG_OFF);
	assert_int_equal(rt_real_run(NULL, unreachable_body, path), 0);
	log_set_level(LOG_INFO);
	unlink(path);
}

/* With two of three OSDs down no write succeeds: below the pool's min_size operations wait. */
static void blocked_body(void *arg)
{
	(void)arg;
	struct kv *kv;
	struct kv_rados_options o = options();
	o.op_timeout_ms = 2000;
	o.settle_ms = 3000;
	CHECK_EQ(kv_rados_open(&kv, &o), 0);
	uint64_t p = kv_suite_partition(run_id(), 300);
	kv_must_put(kv, p, kv_text("a"), kv_text("1"));
	script("osd-kill", "0");
	script("osd-kill", "1");
	struct kv_write w = {.kind = KV_PUT, .key = kv_text("b"), .value = kv_text("2")};
	struct kv_txn t = {.writes = &w, .write_count = 1};
	uint64_t start = rt_now_ns();
	CHECK_EQ(kv_txn(kv, p, &t, NULL), -ETIMEDOUT);
	CHECK_EQ(kv_txn(kv, p, &t, NULL), -EHOSTUNREACH);
	CHECK(rt_now_ns() - start < 120 * NS_PER_S);
	script("osd-start", "0");
	script("osd-start", "1");
	int rc = -EHOSTUNREACH;
	for (unsigned i = 0; i < 30 && rc != 0; i++)
		rc = kv_txn(kv, p, &t, NULL);
	CHECK_EQ(rc, 0);
	CHECK(kv_is(kv, p, "a", "1") && kv_is(kv, p, "b", "2"));
	kv_close(kv);
}

static void a_cluster_with_too_few_osds_is_an_error_in_bounded_time(void **state)
{
	(void)state;
	assert_int_equal(rt_real_run(NULL, blocked_body, NULL), 0);
}

int main(void)
{
	if (getenv("TERRANE_RADOS_CONF") == NULL)
		return 77;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_answers_from_a_cluster_leave_no_transaction_in_doubt),
		cmocka_unit_test(an_unreachable_cluster_is_an_error_in_bounded_time),
		cmocka_unit_test(nothing_acknowledged_is_lost_when_an_osd_is_killed),
		cmocka_unit_test(a_cluster_with_too_few_osds_is_an_error_in_bounded_time),
	};
	return kv_suite_main("kv on rados", suite_case, tests, ARRAY_LEN(tests));
}
