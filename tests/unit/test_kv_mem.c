// SPDX-License-Identifier: Apache-2.0
/*
 * The engine in memory: the suite of all engines, in the real and in the simulated world, and the
 * faults of this engine.
 */
#include "kv_suite_main.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "kv/mem.h"
#include "kv/skip.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "rt/sim.h"
#include "sim_test.h"

/* --- the suite -------------------------------------------------------------------------------- */

struct suite_run {
	const struct kv_case *test;
	uint64_t seed;
	uint64_t latency_ns;
};

static void suite_body(void *arg)
{
	const struct suite_run *run = arg;
	struct kv_mem *m =
		kv_mem_new(&(struct kv_mem_options){.seed = run->seed,
						    .latency_min_ns = run->latency_ns / 4,
						    .latency_max_ns = run->latency_ns});
	CHECK(m != NULL);
	struct kv_suite s = {
		.partition = kv_suite_partition(run->seed, 0), .seed = run->seed, .weight = 20};
	CHECK_EQ(kv_mem_open(&s.kv, m), 0);
	run->test->run(&s);
	kv_close(s.kv);
	kv_mem_free(m);
}

static void suite_case(void **state)
{
	struct suite_run run = {.test = *state, .seed = 1};
	assert_int_equal(rt_real_run(NULL, suite_body, &run), 0);
	run.latency_ns = 100 * NS_PER_US;
	for (run.seed = 1; run.seed <= 10; run.seed++)
		sim_test_once(&(struct sim_test){.seed = run.seed}, suite_body, &run);
}

/* --- faults: a node of clients on a service that loses requests ---------------------------------- */

struct fixture {
	uint64_t seed;
	struct kv_mem *mem;
	struct kv_clients clients;
};

static void lossy_body(void *arg)
{
	struct fixture *fx = arg;
	struct kv *kv[3];
	for (size_t i = 0; i < ARRAY_LEN(kv); i++)
		CHECK_EQ(kv_mem_open(&kv[i], fx->mem), 0);
	fx->clients = (struct kv_clients){.kv = kv,
					  .store_count = ARRAY_LEN(kv),
					  .partition = 7,
					  .seed = fx->seed,
					  .clients = 6,
					  .ops_each = 30};
	kv_clients_run(&fx->clients);
	kv_mem_calm(fx->mem);
	CHECK(kv_clients_final_read(&fx->clients));
	for (size_t i = 0; i < ARRAY_LEN(kv); i++)
		kv_close(kv[i]);
}

static void fixture_run(struct fixture *fx, const struct kv_mem_options *options)
{
	fx->mem = kv_mem_new(options);
	sim_test_once(&(struct sim_test){.seed = fx->seed}, lossy_body, fx);
	kv_mem_free(fx->mem);
}

static void histories_with_lost_messages_are_linearizable(void **state)
{
	(void)state;
	uint64_t unknown = 0;
	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct fixture fx = {.seed = seed};
		fixture_run(&fx, &(struct kv_mem_options){.seed = seed,
							  .latency_min_ns = NS_PER_US,
							  .latency_max_ns = NS_PER_MS,
							  .timeout_ns = 5 * NS_PER_MS,
							  .request_lost = 0.03,
							  .reply_lost = 0.03,
							  .late = 0.03});
		assert_true(kv_clients_check(&fx.clients));
		unknown += fx.clients.unknown;
		history_fini(&fx.clients.history);
	}
	assert_true(unknown > 500);
}

/* --- each fate by itself ---------------------------------------------------------------------- */

struct fate_case {
	enum kv_mem_fate fate;
	int rc;
	bool there_now;
	bool there_in_the_end;
};

static void fate_body(void *arg)
{
	const struct fate_case *f = arg;
	struct kv_mem *m = kv_mem_new(&(struct kv_mem_options){.seed = 3});
	struct kv *kv;
	CHECK(m != NULL);
	CHECK_EQ(kv_mem_open(&kv, m), 0);
	struct kv_write w = {.kind = KV_PUT, .key = kv_text("a"), .value = kv_text("1")};
	kv_mem_fail_at(m, 1, f->fate);
	CHECK(kv_mem_fail_pending(m));
	CHECK_EQ(kv_txn(kv, 1, &(struct kv_txn){.writes = &w, .write_count = 1}, NULL), f->rc);
	CHECK(!kv_mem_fail_pending(m));
	CHECK_EQ(kv_mem_keys(m), f->there_now);
	for (int i = 0; i < 30; i++)
		CHECK(kv_is(kv, 2, "x", NULL));
	CHECK_EQ(kv_is(kv, 1, "a", "1"), f->there_in_the_end);
	kv_close(kv);
	kv_mem_free(m);
}

static void each_fault_applies_the_transaction_or_not(void **state)
{
	(void)state;
	struct fate_case cases[] = {
		{KV_MEM_FINE, 0, true, true},
		{KV_MEM_REQUEST_LOST, -ETIMEDOUT, false, false},
		{KV_MEM_REPLY_LOST, -ETIMEDOUT, true, true},
		{KV_MEM_LATE, -ETIMEDOUT, false, true},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(rt_real_run(NULL, fate_body, &cases[i]), 0);
}

/* --- crashes ---------------------------------------------------------------------------------- */

struct crash {
	struct kv_mem *mem;
	struct sim_node *node;
	uint64_t acknowledged; /* number of acknowledged writes; survives crashes of the process */
	uint64_t tried;
	bool ended;
};

/* Writes 1, 2, 3, ... under "n", each on the condition that the previous number is there. */
static void count_main(void *arg)
{
	struct crash *c = arg;
	struct kv *kv;
	if (kv_mem_open(&kv, c->mem) != 0)
		return;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes key = kv_text("n");
	uint64_t n = 0;
	if (kv_get(kv, 1, &key, 1, &rows) != 0)
		goto out;
	if (rows.row[0].found)
		memcpy(&n, rows.row[0].value.data, sizeof(n));
	CHECK(n >= c->acknowledged && n <= c->tried);
	while (n < 300) {
		uint64_t next = n + 1;
		struct kv_check check = {.kind = n > 0 ? KV_EQUALS : KV_ABSENT,
					 .key = key,
					 .value = kv_bytes(&n, n > 0 ? sizeof(n) : 0)};
		struct kv_write w = {
			.kind = KV_PUT, .key = key, .value = kv_bytes(&next, sizeof(next))};
		c->tried = max_u64(c->tried, next);
		int rc = kv_txn(kv, 1, &(struct kv_txn){&check, 1, &w, 1, false}, NULL);
		if (rt_cancelled())
			goto out;
		/*
		 * A request from before the crash may be applied later; it wrote the same number.
		 */
		CHECK(rc == 0 || rc == -ESTALE);
		n = next;
		c->acknowledged = n;
	}
	c->ended = true;
out:
	kv_close(kv);
}

static void contents_survive_crashes_and_late_requests_may_be_applied(void **state)
{
	(void)state;
	uint64_t lives = 0;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct crash c = {
			.mem = kv_mem_new(&(struct kv_mem_options){.seed = seed,
								   .latency_min_ns = NS_PER_US,
								   .latency_max_ns = NS_PER_MS})};
		struct sim_config config;
		sim_config_init(&config, seed, 0);
		config.rate[SIM_CRASH_AT_WAIT] = 0.01;
		struct sim *s = sim_open(&config);
		c.node = sim_node_add(s, "n", 0);
		sim_node_start(c.node, count_main, &c);
		sim_run(s, 3600 * NS_PER_S);
		assert_true(c.ended);
		lives += sim_node_lives(c.node);
		sim_close(s);
		kv_mem_free(c.mem);
	}
	assert_true(lives > 100);
}

/* --- the ordered map ------------------------------------------------------------------ */

static void skip_list_keeps_order_and_count(void **state)
{
	(void)state;
	struct skip s;
	struct rng r;
	skip_init(&s, 1);
	rng_init(&r, 2);
	bool there[500] = {false};
	size_t count = 0;
	for (unsigned step = 0; step < 20000; step++) {
		unsigned k = (unsigned)rng_below(&r, 500);
		uint8_t key[2] = {(uint8_t)(k >> 8), (uint8_t)k};
		if (rng_below(&r, 2) == 0) {
			assert_int_equal(skip_put(&s, kv_bytes(key, 2), kv_bytes(&step, 4)), 0);
			assert_true(kv_equal(skip_value(skip_find(&s, kv_bytes(key, 2))),
					     kv_bytes(&step, 4)));
			count += !there[k];
			there[k] = true;
		} else {
			assert_int_equal(skip_delete(&s, kv_bytes(key, 2)), there[k]);
			count -= there[k];
			there[k] = false;
		}
		assert_int_equal(s.count, count);
	}
	const struct skip_node *n = skip_seek(&s, kv_bytes("", 0), false);
	for (unsigned k = 0; k < 500; k++) {
		uint8_t key[2] = {(uint8_t)(k >> 8), (uint8_t)k};
		if (!there[k]) {
			assert_null(skip_find(&s, kv_bytes(key, 2)));
			continue;
		}
		assert_true(kv_equal(skip_key(n), kv_bytes(key, 2)));
		n = skip_next(n);
	}
	assert_null(n);
	skip_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(skip_list_keeps_order_and_count),
		cmocka_unit_test(each_fault_applies_the_transaction_or_not),
		cmocka_unit_test(histories_with_lost_messages_are_linearizable),
		cmocka_unit_test(contents_survive_crashes_and_late_requests_may_be_applied),
	};
	return kv_suite_main("kv on mem", suite_case, tests, ARRAY_LEN(tests));
}
