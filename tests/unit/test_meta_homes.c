// SPDX-License-Identifier: Apache-2.0
/* A metadata server on several loops: which loop handles a request. */
#include "meta/service_impl.h"
#include "meta_service_fixture.h"

#define LOOPS 3
#define DIRS 24
#define LOOKUPS 50
#define CLIENTS 6

/* The numbers of requests that each loop has handled. */
struct handled {
	uint64_t of[METHOD_COUNT][LOOPS];
};

static void add_part(struct meta_service *s, void *arg)
{
	struct handled *h = arg;
	for (size_t i = 0; i < METHOD_COUNT; i++)
		h->of[i][s - s->all->parts] = s->methods[i].time.count;
}

static void count(struct fixture *fixture, struct handled *h)
{
	CHECK_EQ(fixture->servers[0].service->all->part_count, LOOPS);
	CHECK_EQ(ms_each_part(fixture->servers[0].service->all, add_part, h), 0);
}

static unsigned loops_of(const struct handled *h, size_t method)
{
	unsigned n = 0;
	for (unsigned i = 0; i < LOOPS; i++)
		n += h->of[method][i] > 0;
	return n;
}

static uint64_t sum_of(const struct handled *h, size_t method)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < LOOPS; i++)
		n += h->of[method][i];
	return n;
}

/* Returns a client of the first server alone, so that it handles all requests. */
static struct meta_client *client_of_first(struct fixture *fixture)
{
	struct meta_client *c = NULL;
	const char *addr = fixture->servers[0].addr;
	CHECK_EQ(meta_client_open(&c,
				  &(struct meta_client_options){.addrs = &addr,
								.addr_count = 1,
								.tenant = "default",
								.channel = {.pool = &fixture->pool},
								.timeout_ns = 120 * NS_PER_S,
								.try_ns = 30 * NS_PER_S}),
		 0);
	return c;
}

static void changes_are_spread_by_directory_and_reads_stay(struct fixture *fixture)
{
	struct meta_client *client = client_of_first(fixture);
	struct meta_call call = {.client = client}, *c = &call;
	struct handled h;
	struct meta_entry e;
	char name[16];
	uint64_t dirs[DIRS];
	for (unsigned i = 0; i < DIRS; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		dirs[i] = make_dir(c, META_ROOT, name);
	}
	for (unsigned i = 0; i < DIRS; i++)
		make_file(c, dirs[i], "f");
	for (unsigned i = 0; i < LOOKUPS; i++)
		CHECK_EQ(meta_client_lookup(c, dirs[i % DIRS], meta_name("f"), &e), 0);
	count(fixture, &h);
	/* All directories are in the root, whose loop makes them; a tenant that is not known yet stays where it is. */
	CHECK_EQ(sum_of(&h, METHOD_mkdir), DIRS);
	CHECK(loops_of(&h, METHOD_mkdir) <= 2);
	CHECK_EQ(sum_of(&h, METHOD_create), DIRS);
	CHECK_EQ(loops_of(&h, METHOD_create), LOOPS);
	CHECK_EQ(sum_of(&h, METHOD_lookup), LOOKUPS);
	CHECK_EQ(loops_of(&h, METHOD_lookup), 1);
	meta_client_close(client);
}

static void the_map_is_served_on_the_first_loop(struct fixture *fixture)
{
	struct handled h;
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct meta_client *client = client_of_first(fixture);
		struct meta_call call = {.client = client};
		struct cluster *map = NULL;
		CHECK_EQ(meta_client_map(&call, 0, &map), 0);
		meta_client_close(client);
	}
	count(fixture, &h);
	CHECK(h.of[METHOD_map_get][0] >= CLIENTS);
	CHECK_EQ(loops_of(&h, METHOD_map_get), 1);
}

static void run(void **state)
{
	fixture_run_loops(*state, LOOPS);
}

#define TEST_LOOPS(what)                                                                 \
	{                                                                                \
		.name = #what, .test_func = run, .initial_state = &(struct fixture_test) \
		{                                                                        \
			.fn = what                                                       \
		}                                                                        \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_LOOPS(changes_are_spread_by_directory_and_reads_stay),
		TEST_LOOPS(the_map_is_served_on_the_first_loop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
