// SPDX-License-Identifier: Apache-2.0
/* Two metadata servers on one store and a client, over the network, in the real world and in the simulator. */
#ifndef TESTS_META_SERVICE_FIXTURE_H
#define TESTS_META_SERVICE_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "auth/credentials.h"
#include "base/arena.h"
#include "base/base.h"
#include "base/log.h"
#include "check.h"
#include "kv/mem.h"
#include "meta/service.h"
#include "meta_api/id.h"
#include "meta_client/meta_client.h"
#include "rt/call.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "secure/secure.h"
#include "sim_test.h"

#define SERVERS 2

struct server {
	struct fixture *fixture;
	unsigned index;
	struct kv *kv;
	struct rt_fiber *fiber;
	char addr[RT_ADDR_MAX];
	bool ready;
	struct meta_service *service;
	int health; /* result of meta_service_health when the server ended */
	int rc;
};

struct fixture {
	bool sim;
	unsigned loops;    /* of each server */
	uint64_t rate;     /* option partition_rate of the servers */
	uint64_t watch_ns; /* of the second server; 0: as for the first */
	uint64_t usage_ns;
	bool secured; /* the servers authenticate; all clients of the fixture have the identity "admin" */
	struct credentials *credentials; /* of the metadata servers, with the root of all secrets */
	struct secure_self admin;
	struct kv_mem *mem;
	struct server servers[SERVERS];
	struct rt_pool pool;
	struct meta_client *client; /* client of tenant "default" */
	struct meta_client *system;
	struct meta_client *first_only; /* of "system"; knows only the first server */
	struct meta_call call, root;    /* calls made with `client` and with `system` */
	struct arena arena;
	void (*test)(struct fixture *fixture);
};

/* --- fixture ------------------------------------------------------------------------------------ */

static inline int on_ready(void *ctx, const char *addr, struct meta_service *s)
{
	struct server *server = ctx;
	server->service = s;
	snprintf(server->addr, sizeof(server->addr), "%s", addr);
	server->ready = true;
	return 0;
}

static inline void on_ended(void *ctx)
{
	struct server *server = ctx;
	server->health = meta_service_health(server->service);
}

static inline void serve(void *arg)
{
	struct server *s = arg;
	struct meta_serve_options o = {
		.listen = s->addr,
		.root = s->fixture->credentials,
		.map = {.beat_ns = 20 * NS_PER_MS,
			.watch_ns = 10 * NS_PER_MS,
			.suspect_ns = 3600 * NS_PER_S,
			.failed_ns = 7200 * NS_PER_S},
		.partition_rate = s->fixture->rate,
		.partition_burst = 10,
		.usage_ns = s->fixture->usage_ns,
		.ready = on_ready,
		.ended = on_ended,
		.ctx = s,
	};
	if (s->index == 1 && s->fixture->watch_ns != 0)
		o.map.watch_ns = s->fixture->watch_ns;
	meta_options_init(&o.meta);
	o.meta.partition_bits = 6;
	rt_deadline_set(RT_NEVER);
	struct rt_team team;
	CHECK_EQ(rt_team_open(&team, s->fixture->loops), 0);
	o.team = &team;
	s->rc = meta_serve(s->kv, &o);
	rt_team_close(&team);
}

static inline void server_start(struct server *s)
{
	s->ready = false;
	CHECK_EQ(rt_spawn(&s->fiber, "server", serve, s), 0);
	while (!s->ready)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
}

static inline void server_stop(struct server *s)
{
	rt_cancel(s->fiber);
	rt_join(s->fiber);
	s->fiber = NULL;
	CHECK_EQ(s->rc, -ECANCELED);
}

static inline struct meta_client *open_client_as(struct fixture *fixture, const char *tenant,
						 const struct secure_self *self)
{
	struct meta_client *c = NULL;
	const char *addrs[SERVERS] = {fixture->servers[0].addr, fixture->servers[1].addr};
	CHECK_EQ(meta_client_open(&c,
				  &(struct meta_client_options){
					  .addrs = addrs,
					  .addr_count = SERVERS,
					  .tenant = tenant,
					  .channel = {.pool = &fixture->pool, .self = self},
					  .timeout_ns = (fixture->sim ? 20 : 120) * NS_PER_S,
					  .try_ns = (fixture->sim ? 1 : 30) * NS_PER_S}),
		 0);
	return c;
}

static inline struct meta_client *open_client(struct fixture *fixture, const char *tenant)
{
	return open_client_as(fixture, tenant, fixture->secured ? &fixture->admin : NULL);
}

#define FIXTURE_IDENTITIES "admin janitor node-7 cache-9"

/* Makes the credentials of an identity from the root. */
static inline struct credentials *credentials_of(const struct fixture *fixture, const char *name,
						 uint32_t version)
{
	struct credentials *c = credentials_new();
	CHECK(c != NULL);
	c->cluster_high = 1;
	c->cluster_low = 2;
	c->version = version;
	snprintf(c->identity, sizeof(c->identity), "%s", name);
	CHECK_EQ(secure_identity_secret(fixture->credentials->secret, name, version, c->secret), 0);
	return c;
}

static inline void fixture_secure(struct fixture *fixture)
{
	struct credentials *root = credentials_new();
	CHECK(root != NULL);
	root->cluster_high = 1;
	root->cluster_low = 2;
	root->version = 1;
	snprintf(root->identity, sizeof(root->identity), "meta");
	memset(root->secret, 0x5a, sizeof(root->secret));
	fixture->credentials = root;
	fixture->admin.credentials = credentials_of(fixture, "admin", 1);
}

static inline void fixture_main(void *arg)
{
	struct fixture *fixture = arg;
	struct cluster_id id = {.high = 1, .low = 2};
	struct meta_options o;
	meta_options_init(&o);
	o.partition_bits = 6;
	if (fixture->secured)
		fixture_secure(fixture);
	fixture->mem = kv_mem_new(&(struct kv_mem_options){
		.seed = 1, .latency_min_ns = NS_PER_US, .latency_max_ns = 2 * NS_PER_US});
	rt_pool_init(&fixture->pool, 16 * MIB);
	for (unsigned i = 0; i < SERVERS; i++) {
		struct server *s = &fixture->servers[i];
		*s = (struct server){.fixture = fixture, .index = i};
		CHECK_EQ(kv_mem_open(&s->kv, fixture->mem), 0);
		if (i == 0) {
			CHECK_EQ(meta_format(s->kv, &o, &id, PLACE_CLUSTERED, "system:1"), -EINVAL);
			CHECK_EQ(meta_format(s->kv, &o, &id, PLACE_CLUSTERED, "default"), 0);
			if (fixture->secured)
				CHECK_EQ(meta_format_identities(s->kv, &o, FIXTURE_IDENTITIES), 0);
		}
		snprintf(s->addr, sizeof(s->addr), fixture->sim ? "n1:%u" : "127.0.0.1:0",
			 7000 + i);
		server_start(s);
	}
	fixture->client = open_client(fixture, "default");
	fixture->system = open_client(fixture, META_SYSTEM);
	fixture->call = (struct meta_call){.client = fixture->client};
	fixture->root = (struct meta_call){.client = fixture->system};
	arena_init(&fixture->arena, 64 * MIB);
	fixture->test(fixture);
	arena_fini(&fixture->arena);
	meta_client_close(fixture->client);
	meta_client_close(fixture->system);
	for (unsigned i = 0; i < SERVERS; i++) {
		if (fixture->servers[i].fiber != NULL)
			server_stop(&fixture->servers[i]);
		kv_close(fixture->servers[i].kv);
	}
	rt_pool_fini(&fixture->pool);
	kv_mem_free(fixture->mem);
	credentials_free(fixture->admin.credentials);
	credentials_free(fixture->credentials);
}

struct fixture_test {
	void (*fn)(struct fixture *fixture);
	bool sim_only; /* runs in simulated time only, because the test depends on durations */
	uint64_t rate;
	uint64_t watch_ns;
	uint64_t usage_ns;
	bool secured;
};

static inline void fixture_run_loops(const struct fixture_test *t, unsigned loops)
{
	struct fixture fixture = {.test = t->fn,
				  .loops = loops,
				  .rate = t->rate,
				  .watch_ns = t->watch_ns,
				  .usage_ns = t->usage_ns,
				  .secured = t->secured},
		       simulated = fixture;
	if (!t->sim_only)
		assert_int_equal(rt_real_run(NULL, fixture_main, &fixture), 0);
	simulated.sim = true;
	sim_test_run(fixture_main, &simulated);
}

static inline void fixture_run(void **state)
{
	fixture_run_loops(*state, 1);
	fixture_run_loops(*state, 3);
}

static inline uint64_t make_dir(struct meta_call *c, uint64_t dir, const char *name)
{
	uint64_t id = meta_id();
	CHECK_EQ(meta_client_mkdir(c, dir, meta_name(name), id, NULL), 0);
	return id;
}

static inline uint64_t make_file(struct meta_call *c, uint64_t dir, const char *name)
{
	int result = -1;
	struct meta_create f = {.name = meta_name(name), .id = meta_id(), .mtime_ns = 5};
	CHECK_EQ(meta_client_create(c, dir, &f, 1, 0, &result), 0);
	CHECK_EQ(result, 0);
	return f.id;
}

/* Defines a test that runs in simulated time only. */
#define TEST_RATE(what, limit)                                                                   \
	{                                                                                        \
		.name = #what, .test_func = fixture_run, .initial_state = &(struct fixture_test) \
		{                                                                                \
			.fn = what, .rate = limit, .sim_only = true                              \
		}                                                                                \
	}
#define TEST_SIM(what) TEST_RATE(what, 0)
#define TEST(what)                                                                               \
	{                                                                                        \
		.name = #what, .test_func = fixture_run, .initial_state = &(struct fixture_test) \
		{                                                                                \
			.fn = what                                                               \
		}                                                                                \
	}
#define TEST_SECURED(what)                                                                       \
	{                                                                                        \
		.name = #what, .test_func = fixture_run, .initial_state = &(struct fixture_test) \
		{                                                                                \
			.fn = what, .secured = true                                              \
		}                                                                                \
	}
#define TEST_USAGE(what)                                                                         \
	{                                                                                        \
		.name = #what, .test_func = fixture_run, .initial_state = &(struct fixture_test) \
		{                                                                                \
			.fn = what, .usage_ns = 20 * NS_PER_MS                                   \
		}                                                                                \
	}
#define TEST_BEHIND(what)                                                                        \
	{                                                                                        \
		.name = #what, .test_func = fixture_run, .initial_state = &(struct fixture_test) \
		{                                                                                \
			.fn = what, .watch_ns = 24ULL * 3600 * NS_PER_S                          \
		}                                                                                \
	}

#endif
