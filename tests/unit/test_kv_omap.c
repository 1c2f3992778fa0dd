// SPDX-License-Identifier: Apache-2.0
/*
 * The engine on an object store with faults: a transaction is applied exactly once although requests are lost,
 * late or repeated. test_kv_rados.c runs the same code on RADOS.
 */
#include "kv_suite_main.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "kv/mem.h"
#include "kv/omap_codec.h"
#include "omap_fixture.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "sim_test.h"

#define SERVERS 3

struct fixture {
	uint64_t seed;
	const struct kv_case *test;
	struct kv_mem *mem; /* the stored objects; they survive crashes of the process */
	struct omap_faults faults[SERVERS];
	struct kv_omap_options options;
	struct kv *kv[SERVERS];
	struct kv_clients clients;
	bool done;
};

static void fixture_init(struct fixture *fx, uint64_t seed)
{
	*fx = (struct fixture){.seed = seed};
	for (unsigned i = 0; i < SERVERS; i++)
		fx->faults[i] = (struct omap_faults){.seed = seed * SERVERS + i,
						     .timeout_ns = 20 * NS_PER_MS,
						     .late_max_ns = 100 * NS_PER_MS};
	fx->mem = kv_mem_new(&(struct kv_mem_options){
		.seed = seed, .latency_min_ns = 100 * NS_PER_US, .latency_max_ns = 2 * NS_PER_MS});
	CHECK(fx->mem != NULL);
}

static void fixture_faults(struct fixture *fx, double rate)
{
	for (unsigned i = 0; i < SERVERS; i++) {
		fx->faults[i].request_lost = rate;
		fx->faults[i].reply_lost = rate;
		fx->faults[i].late = rate;
		fx->faults[i].resent = rate;
		fx->faults[i].read_lost = rate;
	}
}

static void servers_open(struct fixture *fx)
{
	for (unsigned i = 0; i < SERVERS; i++) {
		struct kv *kv;
		CHECK_EQ(kv_mem_open(&kv, fx->mem), 0);
		struct omap *o = omap_lossy_take(omap_on_kv_take(kv), &fx->faults[i]);
		CHECK_EQ(kv_omap_open_take(&fx->kv[i], o, &fx->options), 0);
	}
}

static void servers_close(struct fixture *fx)
{
	for (unsigned i = 0; i < SERVERS; i++)
		kv_close(fx->kv[i]);
}

/* Runs body as a simulated process, which may crash and restart. */
static void fixture_run_with(struct fixture *fx, void (*body)(void *), double crash_rate)
{
	sim_test_once(&(struct sim_test){.seed = fx->seed,
					 .crash_rate = crash_rate,
					 .span_ns = 30ULL * 24 * 3600 * NS_PER_S},
		      body, fx);
	assert_true(fx->done);
	kv_mem_free(fx->mem);
}

static void fixture_run(struct fixture *fx, void (*body)(void *))
{
	fixture_run_with(fx, body, 0);
}

/* --- the suite, without and with faults ------------------------------------------------------- */

static void suite_body(void *arg)
{
	struct fixture *fx = arg;
	servers_open(fx);
	struct kv_suite s = {.kv = fx->kv[0],
			     .partition = kv_suite_partition(fx->seed, 0),
			     .seed = fx->seed,
			     .weight = 5};
	fx->test->run(&s);
	servers_close(fx);
	fx->done = true;
}

static void suite_case(void **state)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct fixture fx;
		fixture_init(&fx, seed);
		fx.test = *state;
		/* Lost writes must not show, not even as a result in doubt; reads may fail. */
		fixture_faults(&fx, seed % 2 == 0 ? 0.05 : 0);
		for (unsigned i = 0; i < SERVERS; i++)
			fx.faults[i].read_lost = 0;
		fixture_run(&fx, suite_body);
	}
}

/* --- histories -------------------------------------------------------------------------------- */

static void history_body(void *arg)
{
	struct fixture *fx = arg;
	servers_open(fx);
	fx->clients.kv = fx->kv;
	fx->clients.store_count = SERVERS;
	fx->clients.partition = 7;
	fx->clients.seed = fx->seed;
	kv_clients_run(&fx->clients);
	fixture_faults(fx, 0);
	CHECK(kv_clients_final_read(&fx->clients));
	servers_close(fx);
	fx->done = true;
}

static void histories_with_losses_are_linearizable_and_nothing_is_in_doubt(void **state)
{
	(void)state;
	uint64_t struck = 0;
	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct fixture fx;
		fixture_init(&fx, seed);
		fx.clients.clients = 3 + seed % 8;
		fx.clients.ops_each = 25;
		fx.options.batch_txns_max = seed % 5 == 0 ? 1 : 0;
		fx.options.parts_max = seed % 3 == 0 ? 1 : 0;
		fixture_faults(&fx, seed % 2 == 0 ? 0.05 : 0.2);
		fixture_run(&fx, history_body);
		assert_int_equal(fx.clients.unknown, 0);
		assert_true(kv_clients_check(&fx.clients));
		for (unsigned i = 0; i < SERVERS; i++)
			struck += fx.faults[i].struck;
		history_fini(&fx.clients.history);
	}
	assert_true(struck > 5000);
}

/* --- many partitions, few with state in memory -------------------------------------------------------- */

#define PARTITIONS 10
#define ROUNDS 60

static void forget_body(void *arg)
{
	struct fixture *fx = arg;
	servers_open(fx);
	struct rng r;
	rng_init(&r, fx->seed);
	uint64_t count[PARTITIONS] = {0};
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t p = rng_below(&r, PARTITIONS);
		struct kv *kv = fx->kv[rng_below(&r, SERVERS)];
		uint64_t next = count[p] + 1;
		struct kv_check check = {.kind = count[p] > 0 ? KV_EQUALS : KV_ABSENT,
					 .key = kv_text("n"),
					 .value = kv_bytes(&count[p], count[p] > 0 ? 8 : 0)};
		struct kv_write w = {
			.kind = KV_PUT, .key = kv_text("n"), .value = kv_bytes(&next, 8)};
		CHECK_EQ(kv_txn(kv, p, &(struct kv_txn){&check, 1, &w, 1, false}, NULL), 0);
		count[p] = next;
	}
	servers_close(fx);
	fx->done = true;
}

static void evicted_partitions_can_be_used_again(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct fixture fx;
		fixture_init(&fx, seed);
		fx.options.parts_max = 2;
		fixture_faults(&fx, 0.1);
		for (unsigned i = 0; i < SERVERS; i++)
			fx.faults[i].read_lost = 0;
		fixture_run(&fx, forget_body);
	}
}

/* --- crashes ---------------------------------------------------------------------------------- */

static void crash_body(void *arg)
{
	struct fixture *fx = arg;
	servers_open(fx);
	fx->clients.kv = fx->kv;
	fx->clients.store_count = SERVERS;
	fx->clients.partition = 7;
	fx->clients.seed = fx->seed;
	kv_clients_run(&fx->clients);
	while (!rt_cancelled() && !fx->done)
		fx->done = kv_clients_final_read(&fx->clients);
	servers_close(fx);
}

static void histories_with_crashing_servers_are_linearizable(void **state)
{
	(void)state;
	unsigned runs = 0;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct fixture fx;
		fixture_init(&fx, seed);
		fx.clients.clients = 4;
		fx.clients.ops_each = 15;
		fixture_faults(&fx, 0.05);
		fixture_run_with(&fx, crash_body, 0.002);
		assert_true(kv_clients_check(&fx.clients));
		runs += fx.clients.runs;
		history_fini(&fx.clients.history);
	}
	assert_true(runs > 130);
}

/* --- a store that cannot be reached ------------------------------------------------------------- */

static int put_one(struct kv *kv, const char *key)
{
	struct kv_write w = {.kind = KV_PUT, .key = kv_text(key), .value = kv_text("v")};
	return kv_txn(kv, 1, &(struct kv_txn){.writes = &w, .write_count = 1}, NULL);
}

static void down_body(void *arg)
{
	struct fixture *fx = arg;
	servers_open(fx);
	struct kv *kv = fx->kv[0];
	CHECK_EQ(put_one(kv, "a"), 0);
	fx->faults[0].down = true;
	uint64_t start = rt_now_ns();
	CHECK_EQ(put_one(kv, "b"), -ETIMEDOUT); /* the write was sent, so its outcome is unknown */
	CHECK_EQ(put_one(kv, "c"), -EHOSTUNREACH);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_scan(kv, 1, &(struct kv_range){0}, &rows), -EHOSTUNREACH);
	CHECK(rt_now_ns() - start < 3 * fx->options.settle_ns);
	fx->faults[0].down = false;
	CHECK_EQ(put_one(kv, "d"), 0);
	CHECK(kv_is(kv, 1, "a", "v") && kv_is(kv, 1, "b", NULL) && kv_is(kv, 1, "c", NULL));
	CHECK(kv_is(fx->kv[1], 1, "d", "v"));
	servers_close(fx);
	fx->done = true;
}

static void a_store_that_is_down_is_an_error_in_bounded_time(void **state)
{
	(void)state;
	struct fixture fx;
	fixture_init(&fx, 1);
	fx.options.settle_ns = NS_PER_S;
	fixture_run(&fx, down_body);
}

/*
 * The answer of a write is lost, and the write is applied only after its transaction has returned
 * -ETIMEDOUT.
 */
static void late_body(void *arg)
{
	struct fixture *fx = arg;
	servers_open(fx);
	fx->faults[0].late = 1;
	fx->faults[0].read_lost = 1;
	CHECK_EQ(put_one(fx->kv[0], "a"), -ETIMEDOUT);
	fx->faults[0].late = 0;
	fx->faults[0].read_lost = 0;
	CHECK(kv_is(fx->kv[0], 1, "a", NULL));
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	CHECK(kv_is(fx->kv[0], 1, "a", "v"));
	CHECK_EQ(put_one(fx->kv[0], "b"), 0);
	servers_close(fx);
	fx->done = true;
}

static void a_write_in_doubt_that_is_done_later_breaks_no_later_one(void **state)
{
	(void)state;
	struct fixture fx;
	fixture_init(&fx, 2);
	fx.options.settle_ns = NS_PER_S;
	for (unsigned i = 0; i < SERVERS; i++)
		fx.faults[i].late_max_ns = 5 * NS_PER_S;
	fixture_run(&fx, late_body);
}

/* --- records of servers ------------------------------------------------------------------ */

static void expire_body(void *arg)
{
	struct fixture *fx = arg;
	servers_open(fx);
	CHECK_EQ(put_one(fx->kv[0], "a"), 0);
	CHECK_EQ(put_one(fx->kv[1], "b"), 0);
	CHECK_EQ(kv_mem_keys(fx->mem), 4); /* two rows, and a record of each of two writers */
	CHECK_EQ(rt_sleep_ns(8ULL * 24 * 3600 * NS_PER_S), 0);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_scan(fx->kv[2], 1, &(struct kv_range){0}, &rows), 0);
	CHECK_EQ(rows.count, 2);
	struct kv_check check = {.kind = KV_VERSION, .version = rows.version};
	struct kv_write w = {.kind = KV_DELETE, .key = kv_text("a")};
	CHECK_EQ(kv_txn(fx->kv[2], 1, &(struct kv_txn){&check, 1, &w, 1, false}, NULL), 0);
	CHECK_EQ(kv_mem_keys(fx->mem), 2); /* one row, and the record of the last writer */
	/* The server whose record was removed can write again. */
	CHECK_EQ(put_one(fx->kv[0], "c"), 0);
	CHECK_EQ(put_one(fx->kv[0], "c"), 0);
	CHECK_EQ(kv_mem_keys(fx->mem), 4);
	servers_close(fx);
	fx->done = true;
}

static void expired_records_of_servers_are_removed(void **state)
{
	(void)state;
	struct fixture fx;
	fixture_init(&fx, 1);
	fixture_run(&fx, expire_body);
}

/* --- group commit -------------------------------------------------------------------------------- */

struct putter {
	struct kv *kv;
	unsigned number;
	int rc;
	uint64_t done;
};

static void put_fiber(void *arg)
{
	struct putter *p = arg;
	char key[16];
	snprintf(key, sizeof(key), "k%u", p->number);
	struct kv_check check = {.kind = KV_ABSENT, .key = kv_text(key)};
	struct kv_write w = {.kind = KV_PUT, .key = kv_text(key), .value = kv_text("v")};
	int rc = kv_txn(p->kv, 3, &(struct kv_txn){&check, 1, &w, 1, false}, NULL);
	CHECK_EQ(rc, p->number % 10 == 0 ? -ESTALE : 0);
}

static void combine_body(void *arg)
{
	struct fixture *fx = arg;
	struct putter p[200];
	servers_open(fx);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		char key[16];
		snprintf(key, sizeof(key), "k%u", i);
		if (i % 10 == 0)
			kv_must_put(fx->kv[1], 3, kv_text(key), kv_text("before"));
	}
	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = (struct putter){.kv = fx->kv[0], .number = i};
		CHECK_EQ(rt_group_spawn(&g, "put", put_fiber, &p[i]), 0);
	}
	rt_group_join(&g);
	CHECK_EQ(fx->kv[0]->stats.txns, 200);
	CHECK(fx->kv[0]->stats.batches <= 6);
	servers_close(fx);
	fx->done = true;
}

static void waiting_transactions_share_a_commit_and_get_their_own_results(void **state)
{
	(void)state;
	struct fixture fx;
	fixture_init(&fx, 1);
	fixture_run(&fx, combine_body);
}

/* --- a request that is cancelled after a commit has taken it ------------------------------------- */

static void slow_put(void *arg)
{
	struct putter *p = arg;
	char key[16];
	snprintf(key, sizeof(key), "k%u", p->number);
	p->rc = put_one(p->kv, key);
}

/* Cancels client 3 at a random moment: before the commit takes its request, during the commit, or after it. */
static void cancel_body(void *arg)
{
	struct fixture *fx = arg;
	struct putter p[6];
	struct rt_fiber *f[6];
	servers_open(fx);
	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = (struct putter){.kv = fx->kv[0], .number = i, .rc = 1};
		CHECK_EQ(rt_spawn(&f[i], "put", slow_put, &p[i]), 0);
	}
	CHECK_EQ(rt_sleep_ns(fx->seed * 100 * NS_PER_US), 0);
	rt_cancel(f[3]);
	for (unsigned i = 0; i < ARRAY_LEN(p); i++)
		rt_join(f[i]);
	for (unsigned i = 0; i < ARRAY_LEN(p); i++)
		CHECK(p[i].rc == 0 || (i == 3 && p[i].rc == -ECANCELED));
	CHECK(kv_is(fx->kv[0], 1, "k3", p[3].rc == 0 ? "v" : NULL));
	fx->clients.applied += p[3].rc == 0;
	servers_close(fx);
	fx->done = true;
}

static void a_request_in_a_commit_stays_until_its_end(void **state)
{
	(void)state;
	uint64_t applied = 0;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct fixture fx;
		fixture_init(&fx, seed);
		fixture_run(&fx, cancel_body);
		applied += fx.clients.applied;
	}
	assert_true(applied > 10);
}

/* --- versions, with concurrent servers ----------------------------------------------------------- */

static void version_count(void *arg)
{
	struct putter *p = arg;
	for (unsigned i = 0; i < 20; i++) {
		AUTO_KV_ROWS struct kv_rows rows = {0};
		struct kv_bytes key = kv_text("n");
		CHECK_EQ(kv_get(p->kv, 1, &key, 1, &rows), 0);
		uint64_t n = 0;
		if (rows.row[0].found)
			memcpy(&n, rows.row[0].value.data, sizeof(n));
		n++;
		struct kv_check check = {.kind = KV_VERSION, .version = rows.version};
		struct kv_write w = {.kind = KV_PUT, .key = key, .value = kv_bytes(&n, sizeof(n))};
		int rc = kv_txn(p->kv, 1, &(struct kv_txn){&check, 1, &w, 1, false}, NULL);
		CHECK(rc == 0 || rc == -ESTALE);
		p->done += rc == 0;
	}
}

static void version_body(void *arg)
{
	struct fixture *fx = arg;
	struct putter p[6];
	servers_open(fx);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = (struct putter){.kv = fx->kv[i % SERVERS]};
		CHECK_EQ(rt_group_spawn(&g, "count", version_count, &p[i]), 0);
	}
	rt_group_join(&g);
	uint64_t done = 0;
	for (unsigned i = 0; i < ARRAY_LEN(p); i++)
		done += p[i].done;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes key = kv_text("n");
	CHECK_EQ(kv_get(fx->kv[0], 1, &key, 1, &rows), 0);
	CHECK(kv_equal(rows.row[0].value, kv_bytes(&done, sizeof(done))));
	servers_close(fx);
	fx->done = true;
}

static void versions_hold_between_servers(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct fixture fx;
		fixture_init(&fx, seed);
		fixture_faults(&fx, 0.05);
		for (unsigned i = 0; i < SERVERS; i++)
			fx.faults[i].read_lost = 0;
		fixture_run(&fx, version_body);
	}
}

/* --- the codec -------------------------------------------------------------------------------- */

static void escaped_keys_keep_order_and_prefixes(void **state)
{
	(void)state;
	static const uint8_t odd[] = {0x00, 0x01, 0x02, 0x6b, 0xff};
	struct rng r;
	rng_init(&r, 5);
	for (unsigned round = 0; round < 20000; round++) {
		uint8_t raw[2][8];
		char text[2][17];
		struct kv_bytes key[2];
		struct kv_bytes escaped[2];
		for (unsigned i = 0; i < 2; i++) {
			size_t len = 1 + (size_t)rng_below(&r, 8);
			for (size_t j = 0; j < len; j++)
				raw[i][j] = odd[rng_below(&r, sizeof(odd))];
			key[i] = kv_bytes(raw[i], len);
			omap_key_encode(text[i], key[i]);
			escaped[i] = kv_bytes(text[i], omap_key_len(key[i]));
			assert_null(memchr(text[i], 0, escaped[i].len));
			uint8_t back[KV_KEY_MAX];
			size_t back_len;
			assert_int_equal(omap_key_decode(escaped[i], back, &back_len), 0);
			assert_true(kv_equal(kv_bytes(back, back_len), key[i]));
		}
		int want = kv_compare(key[0], key[1]);
		int got = kv_compare(escaped[0], escaped[1]);
		assert_true((want < 0) == (got < 0) && (want > 0) == (got > 0));
		assert_int_equal(kv_has_prefix(escaped[0], escaped[1]),
				 kv_has_prefix(key[0], key[1]));
	}
}

static void foreign_keys_and_values_do_not_decode(void **state)
{
	(void)state;
	uint8_t out[KV_KEY_MAX];
	size_t len;
	static const struct kv_bytes bad_keys[] = {
		{"", 0},      {"k", 1},     {"x1", 2},        {"t00", 3},
		{"ka\0b", 4}, {"k\001", 2}, {"k\001\003", 3}, {"k\001\000", 3},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad_keys); i++)
		assert_int_equal(omap_key_decode(bad_keys[i], out, &len), -EBADMSG);
	char big[OMAP_KEY_MAX + 1];
	memset(big, 'k', sizeof(big));
	assert_int_equal(omap_key_decode(kv_bytes(big, KV_KEY_MAX + 2), out, &len), -EBADMSG);
	assert_int_equal(omap_key_decode(kv_bytes(big, KV_KEY_MAX + 1), out, &len), 0);
	struct kv_bytes value;
	assert_int_equal(omap_value_decode(kv_bytes("", 0), &value), -EBADMSG);
	assert_int_equal(omap_value_decode(kv_bytes("\2x", 2), &value), -EBADMSG);
	assert_int_equal(omap_value_decode(kv_bytes("\1x", 2), &value), 0);
	struct omap_record record;
	assert_int_equal(omap_record_decode(kv_bytes("\1", 1), &record), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escaped_keys_keep_order_and_prefixes),
		cmocka_unit_test(foreign_keys_and_values_do_not_decode),
		cmocka_unit_test(histories_with_losses_are_linearizable_and_nothing_is_in_doubt),
		cmocka_unit_test(evicted_partitions_can_be_used_again),
		cmocka_unit_test(histories_with_crashing_servers_are_linearizable),
		cmocka_unit_test(a_store_that_is_down_is_an_error_in_bounded_time),
		cmocka_unit_test(a_write_in_doubt_that_is_done_later_breaks_no_later_one),
		cmocka_unit_test(expired_records_of_servers_are_removed),
		cmocka_unit_test(a_request_in_a_commit_stays_until_its_end),
		cmocka_unit_test(versions_hold_between_servers),
		cmocka_unit_test(waiting_transactions_share_a_commit_and_get_their_own_results),
	};
	return kv_suite_main("kv on objects", suite_case, tests, ARRAY_LEN(tests));
}
