// SPDX-License-Identifier: Apache-2.0
/* A metadata store on several loops of a process (meta_share): cache, accounts and admission are those of all loops. */
#include <stdatomic.h>

#include "meta/admit.h"
#include "meta/impl.h"
#include "meta_fixture.h"
#include "rt/call.h"
#include "rt/real.h"

#define LOOPS 3
#define FIBERS 3
#define ROUNDS 40
#define NAMES 24
#define ADMITTED 50

struct stage {
	struct meta_fixture fx;
	size_t cache_bytes;
	struct rt_team team;
	struct rt_port port;
	struct admit admit;
	uint64_t dir; /* sealed, with NAMES names */
	atomic_ulong next_block;
	atomic_ulong retries;
	atomic_uint admitted;
};

struct on_loop {
	struct stage *stage;
	unsigned index;
	void (*body)(struct on_loop *l);
	struct kv *kv;
	struct meta *m;
};

static void loop_main(void *arg)
{
	struct on_loop *l = arg;
	struct meta_stats stats;
	CHECK_EQ(kv_share(&l->kv, l->stage->fx.kv, &l->stage->port), 0);
	CHECK_EQ(meta_share(&l->m, l->kv, l->stage->fx.m), 0);
	l->body(l);
	meta_stats(l->m, &stats);
	atomic_fetch_add(&l->stage->retries, stats.retries);
	meta_close(l->m);
	kv_close(l->kv);
}

static void loop_host(void *arg)
{
	struct on_loop *l = arg;
	CHECK_EQ(rt_call(&l->stage->team.ports[l->index], "loop", loop_main, l), 0);
}

/* Runs the body on all loops at the same time. */
static void on_all_loops(struct stage *s, void (*body)(struct on_loop *l))
{
	struct on_loop loops[LOOPS];
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < LOOPS; i++) {
		loops[i] = (struct on_loop){.stage = s, .index = i, .body = body};
		CHECK_EQ(rt_group_spawn(&g, "host", loop_host, &loops[i]), 0);
	}
	rt_group_join(&g);
}

/* Runs a body as on_all_loops does, on one loop. */
static void on_loop(struct stage *s, unsigned index, void (*body)(struct on_loop *l))
{
	struct on_loop l = {.stage = s, .index = index, .body = body};
	loop_host(&l);
}

/* --- accounts --------------------------------------------------------------------------------------- */

#define CHARGE_BYTES 1000ULL

static void charge(void *arg)
{
	struct on_loop *l = arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t block = 1 + atomic_fetch_add(&l->stage->next_block, 1);
		CHECK_EQ(account_charge(l->m, FIXTURE_TENANT, block, block, CHARGE_BYTES, false),
			 0);
		if (i % 4 == 0) {
			CHECK_EQ(account_uncharge(l->m, FIXTURE_TENANT, block, block), 0);
		} else if (i % 4 == 1) {
			account_settled(l->m, FIXTURE_TENANT, block, block);
		}
	}
}

static void charge_in_fibers(struct on_loop *l)
{
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < FIBERS; i++)
		CHECK_EQ(rt_group_spawn(&g, "charge", charge, l), 0);
	rt_group_join(&g);
}

static void charges_add_up(struct stage *s)
{
	struct meta_tenant t;
	on_all_loops(s, charge_in_fibers);
	CHECK_EQ(meta_tenant_get(s->fx.m, FIXTURE_TENANT, &t), 0);
	CHECK_EQ(t.used_bytes, (uint64_t)LOOPS * FIBERS * (ROUNDS - ROUNDS / 4) * CHARGE_BYTES);
	/* Changes of the account take turns on all loops: no transaction met another. */
	CHECK_EQ(atomic_load(&s->retries), 0);
}

/* --- the cache -------------------------------------------------------------------------------------- */

static void sealed_dir_make(struct stage *s)
{
	struct meta_create files[NAMES];
	char names[NAMES][8];
	int results[NAMES];
	s->dir = meta_id();
	CHECK_EQ(meta_mkdir(s->fx.m, &s->fx.ctx, META_ROOT, meta_name("d"), s->dir, NULL), 0);
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", i);
		files[i] = (struct meta_create){.name = meta_name(names[i]), .id = 1000 + i};
	}
	CHECK_EQ(meta_create(s->fx.m, &s->fx.ctx, s->dir, files, NAMES, 0, results), 0);
	CHECK_EQ(meta_dir_seal(s->fx.m, &s->fx.ctx, s->dir), 0);
}

static void lookup_all(struct on_loop *l)
{
	struct stage *s = l->stage;
	for (unsigned i = 0; i < NAMES; i++) {
		char name[8];
		struct meta_entry e;
		snprintf(name, sizeof(name), "f%u", (i + 7 * l->index) % NAMES);
		CHECK_EQ(meta_lookup(l->m, &s->fx.ctx, s->dir, meta_name(name), &e), 0);
		CHECK_EQ(e.id, 1000 + (i + 7 * l->index) % NAMES);
	}
}

static void lookup_all_in_the_cache(struct on_loop *l)
{
	struct meta_stats stats;
	lookup_all(l);
	meta_stats(l->m, &stats);
	CHECK_EQ(stats.cache_misses, 0);
	CHECK(stats.cache_hits >= NAMES && stats.cache_bytes > 0);
}

static void one_loop_fills_the_cache_of_all(struct stage *s)
{
	sealed_dir_make(s);
	on_loop(s, 1, lookup_all);
	on_all_loops(s, lookup_all_in_the_cache);
}

static void lookup_often(struct on_loop *l)
{
	struct meta_stats stats;
	for (unsigned i = 0; i < ROUNDS / 4; i++)
		lookup_all(l);
	meta_stats(l->m, &stats);
	CHECK(stats.cache_misses > 0 && stats.cache_bytes <= l->stage->cache_bytes);
}

static void loops_evict_what_others_cached(struct stage *s)
{
	sealed_dir_make(s);
	on_all_loops(s, lookup_often);
}

/* --- admission -------------------------------------------------------------------------------------- */

static void ask(struct on_loop *l)
{
	for (unsigned i = 0; i < ADMITTED; i++)
		if (admit_ask(&l->stage->admit, 7, 1, 5 * NS_PER_S) == 0)
			atomic_fetch_add(&l->stage->admitted, 1);
}

static void a_rate_is_that_of_all_loops(struct stage *s)
{
	CHECK_EQ(admit_init(&s->admit, 1000, ADMITTED), 0);
	on_all_loops(s, ask);
	CHECK_EQ(atomic_load(&s->admitted), ADMITTED);
	CHECK_EQ(atomic_load(&s->admit.refused), (LOOPS - 1) * ADMITTED);
	admit_fini(&s->admit);
}

/* --- in both worlds --------------------------------------------------------------------------------- */

struct test {
	void (*body)(struct stage *s);
	size_t cache_bytes;
};

static void test_main(void *arg)
{
	const struct test *t = arg;
	struct stage s = {.fx = fixture_of(NULL), .cache_bytes = t->cache_bytes};
	s.fx.options.cache_bytes = t->cache_bytes;
	s.fx.mem = kv_mem_new(&(struct kv_mem_options){.seed = 1, .latency_max_ns = NS_PER_US});
	CHECK(s.fx.mem != NULL);
	fixture_open(&s.fx);
	CHECK_EQ(meta_tenant_create(s.fx.m,
				    &(struct meta_tenant){.id = FIXTURE_TENANT, .name = "seven"}),
		 0);
	CHECK_EQ(rt_team_open(&s.team, LOOPS), 0);
	rt_port_init(&s.port, rt_loop_self());
	t->body(&s);
	rt_port_close(&s.port);
	rt_team_close(&s.team);
	fixture_close(&s.fx);
	kv_mem_free(s.fx.mem);
}

static void in_both_worlds(void **state)
{
	assert_int_equal(rt_real_run(NULL, test_main, *state), 0);
	sim_test_run_with(&(struct sim_test){.seeds = 5}, test_main, *state);
}

#define TEST(what, cache)                                                                   \
	{                                                                                   \
		.name = #what, .test_func = in_both_worlds, .initial_state = &(struct test) \
		{                                                                           \
			what, cache                                                         \
		}                                                                           \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(charges_add_up, 1 * MIB),
		TEST(one_loop_fills_the_cache_of_all, 16 * MIB),
		TEST(loops_evict_what_others_cached, 2 * KIB),
		TEST(a_rate_is_that_of_all_loops, 1 * MIB),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
