// SPDX-License-Identifier: Apache-2.0
/* One store on several loops (kv_share): its promises hold for the transactions and reads of all loops together. */
#include <errno.h>
#include <stdatomic.h>

#include "kv/mem.h"
#include "rocks_fixture.h"
#include "rt/call.h"
#include "sim_test.h"

#ifdef __SANITIZE_THREAD__
/* RocksDB is not built for the thread sanitizer, which would not see how its threads synchronise. */
const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
	return "called_from_lib:librocksdb.so\n";
}
#endif

#define LOOPS 3
#define ROUNDS 150
#define FIBERS 3

struct store {
	struct kv *kv;
	struct kv_mem *mem; /* NULL: RocksDB */
	struct kv_ops ops;  /* copy, if its reads stay on the loop of the store */
	struct rt_team team;
	struct rt_port port;
	/* A pair of keys is always written together, with a number that grows. */
	atomic_uint begun, seen;
	atomic_bool done;
	atomic_uint stale; /* increments that found another value than they had read */
};

struct on_loop {
	struct store *store;
	unsigned index;
	struct kv *kv;
};

/* --- pairs: no read is old or torn ------------------------------------------------------------------- */

static uint32_t number_in(const struct kv_row *row)
{
	uint32_t n = 0;
	CHECK(row->found && row->value.len == sizeof(n));
	memcpy(&n, row->value.data, sizeof(n));
	return n;
}

static void pair_put(struct kv *kv, uint32_t n)
{
	struct kv_write w[2] = {
		{KV_PUT, kv_text("a"), kv_bytes(&n, sizeof(n))},
		{KV_PUT, kv_text("b"), kv_bytes(&n, sizeof(n))},
	};
	CHECK_EQ(kv_txn(kv, 9, &(struct kv_txn){.writes = w, .write_count = 2}, NULL), 0);
}

static void pairs_write(struct on_loop *l)
{
	for (uint32_t n = 1; n <= ROUNDS; n++) {
		atomic_store(&l->store->begun, n);
		pair_put(l->kv, n);
		atomic_store(&l->store->seen, n);
	}
	atomic_store(&l->store->done, true);
}

static void saw(struct store *s, uint32_t before, uint32_t n)
{
	CHECK(n >= before && n <= atomic_load(&s->begun));
	uint32_t seen = atomic_load(&s->seen);
	while (seen < n && !atomic_compare_exchange_weak(&s->seen, &seen, n))
		;
}

static void pairs_read(struct on_loop *l)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes keys[] = {kv_text("a"), kv_text("none"), kv_text("b")};
	for (size_t i = 0; !atomic_load(&l->store->done); i++) {
		uint32_t before = atomic_load(&l->store->seen);
		CHECK_EQ(kv_get(l->kv, 9, keys, i % 2 == 0 ? 1 : 3, &rows), 0);
		saw(l->store, before, number_in(&rows.row[0]));
		CHECK(rows.count == 1 ||
		      (!rows.row[1].found && number_in(&rows.row[2]) == number_in(&rows.row[0])));
		if (i % 16 == 0) {
			before = atomic_load(&l->store->seen);
			CHECK_EQ(kv_scan(l->kv, 9, &(struct kv_range){0}, &rows), 0);
			CHECK_EQ(rows.count, 2);
			saw(l->store, before, number_in(&rows.row[0]));
			CHECK_EQ(number_in(&rows.row[0]), number_in(&rows.row[1]));
		}
		(void)rt_yield();
	}
}

/* --- increments: each is counted once --------------------------------------------------------------- */

static void increment(void *arg)
{
	struct on_loop *l = arg;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes key = kv_text("sum");
	for (unsigned i = 0; i < ROUNDS;) {
		CHECK_EQ(kv_get(l->kv, 10, &key, 1, &rows), 0);
		uint32_t old = number_in(&rows.row[0]), next = old + 1;
		struct kv_check c = {
			.kind = KV_EQUALS, .key = key, .value = kv_bytes(&old, sizeof(old))};
		struct kv_write w = {KV_PUT, key, kv_bytes(&next, sizeof(next))};
		/* Early transactions take another way through the engine. */
		struct kv_txn t = {&c, 1, &w, 1, i % 2 == 0};
		size_t failed = 99;
		int rc = kv_txn(l->kv, 10, &t, &failed);
		CHECK(rc == 0 || (rc == -ESTALE && failed == 0));
		i += rc == 0;
		if (rc != 0)
			atomic_fetch_add(&l->store->stale, 1);
	}
}

static void loop_main(void *arg)
{
	struct on_loop *l = arg;
	struct store *s = l->store;
	CHECK_EQ(kv_share(&l->kv, s->kv, &s->port), 0);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < FIBERS; i++)
		CHECK_EQ(rt_group_spawn(&g, "increment", increment, l), 0);
	if (l->index == 1)
		pairs_write(l);
	else
		pairs_read(l);
	rt_group_join(&g);
	uint64_t writers = l->index == 1 ? FIBERS + 1 : FIBERS;
	CHECK_EQ(l->kv->stats.txns, writers * ROUNDS + l->kv->stats.refused);
	CHECK_EQ(kv_health(l->kv), 0);
	uint64_t next = 0;
	CHECK_EQ(kv_next_partition(l->kv, 1, 100, &next), 0);
	CHECK_EQ(next, 9);
	kv_close(l->kv);
}

static void loop_host(void *arg)
{
	struct on_loop *l = arg;
	CHECK_EQ(rt_call(&l->store->team.ports[l->index], "loop", loop_main, l), 0);
}

/* Runs loop_main on each loop, each with a store of its own on s->kv. */
static void store_use(struct store *s)
{
	struct on_loop loops[LOOPS];
	uint32_t zero = 0;
	struct kv_write w = {KV_PUT, kv_text("sum"), kv_bytes(&zero, sizeof(zero))};
	CHECK_EQ(rt_team_open(&s->team, LOOPS), 0);
	rt_port_init(&s->port, rt_loop_self());
	pair_put(s->kv, 0);
	CHECK_EQ(kv_txn(s->kv, 10, &(struct kv_txn){.writes = &w, .write_count = 1}, NULL), 0);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < LOOPS; i++) {
		loops[i] = (struct on_loop){.store = s, .index = i};
		CHECK_EQ(rt_group_spawn(&g, "host", loop_host, &loops[i]), 0);
	}
	rt_group_join(&g);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes key = kv_text("sum");
	CHECK_EQ(kv_get(s->kv, 10, &key, 1, &rows), 0);
	CHECK_EQ(number_in(&rows.row[0]), LOOPS * FIBERS * ROUNDS);
	rt_port_close(&s->port);
	struct kv *late = NULL;
	CHECK_EQ(kv_share(&late, s->kv, &s->port), 0);
	CHECK_EQ(kv_txn(late, 10, &(struct kv_txn){.writes = &w, .write_count = 1}, NULL),
		 -EHOSTUNREACH);
	kv_close(late);
	rt_team_close(&s->team);
}

/* --- the engines ------------------------------------------------------------------------------------ */

static void mem_body(void *arg)
{
	const bool *reads_stay = arg;
	struct store s = {.mem = kv_mem_new(&(struct kv_mem_options){
				  .seed = 1, .latency_max_ns = 2 * NS_PER_US})};
	CHECK(s.mem != NULL);
	CHECK_EQ(kv_mem_open(&s.kv, s.mem), 0);
	if (*reads_stay) {
		s.ops = *s.kv->ops;
		s.ops.reads_anywhere = false;
		s.kv->ops = &s.ops;
	}
	store_use(&s);
	kv_close(s.kv);
	kv_mem_free(s.mem);
}

static void memory_serves_all_loops(void **state)
{
	(void)state;
	bool reads_stay = false;
	assert_int_equal(rt_real_run(NULL, mem_body, &reads_stay), 0);
	sim_test_run(mem_body, &reads_stay);
}

static void reads_go_to_the_loop_of_the_store_if_the_engine_wants_them_there(void **state)
{
	(void)state;
	bool reads_stay = true;
	assert_int_equal(rt_real_run(NULL, mem_body, &reads_stay), 0);
	sim_test_run(mem_body, &reads_stay);
}

static void rocks_body(void *arg)
{
	struct store s = {0};
	CHECK_EQ(open_there(arg, &s.kv), 0);
	store_use(&s);
	CHECK(s.kv->stats.batches > 0);
	kv_close(s.kv);
}

static void rocksdb_serves_all_loops(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	assert_int_equal(rt_real_run(NULL, rocks_body, &p), 0);
	fixture_remove(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_serves_all_loops),
		cmocka_unit_test(reads_go_to_the_loop_of_the_store_if_the_engine_wants_them_there),
		cmocka_unit_test(rocksdb_serves_all_loops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
