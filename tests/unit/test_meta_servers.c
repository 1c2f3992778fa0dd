// SPDX-License-Identifier: Apache-2.0
/* The metadata service and its client: servers that start and end, admission, the map. */
#include "cluster/choose.h"
#include "meta_api/id.h"
#include "meta_api/node.h"
#include "meta_service_fixture.h"

/* --- servers that start and end -------------------------------------------------------------------- */

static void clients_fail_over_between_servers(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_client_stats s;
	char name[16];
	for (unsigned round = 0; round < 6; round++) {
		struct server *down = &fixture->servers[round % SERVERS];
		server_stop(down);
		for (unsigned i = 0; i < 5; i++) {
			snprintf(name, sizeof(name), "f%u-%u", round, i);
			(void)make_file(c, META_ROOT, name);
		}
		server_start(down);
	}
	meta_client_stats(fixture->client, &s);
	CHECK(s.failovers >= 5);
	struct meta_page page;
	CHECK_EQ(
		meta_client_list(c, META_ROOT, &(struct meta_cursor){0}, 0, &fixture->arena, &page),
		0);
	CHECK_EQ(page.count, 30);
}

static int register_node(struct fixture *fixture, uint64_t id, uint64_t first_disk, size_t disks)
{
	static struct meta_map_disk all[META_MAP_NODE_DISKS_MAX];
	char name[16];
	uint64_t beat_ns;
	struct cluster_id cluster;
	CHECK(disks <= ARRAY_LEN(all));
	for (size_t i = 0; i < disks; i++)
		all[i] = (struct meta_map_disk){.id = first_disk + i, .capacity_bytes = 1ULL << 40};
	snprintf(name, sizeof(name), "n%lu", id);
	struct meta_map_node n = {.id = id,
				  .incarnation = 1,
				  .name = name,
				  .rack = name,
				  .addr = "x:1",
				  .disks = all,
				  .disk_count = disks};
	int rc = meta_client_node_register(&fixture->root, &n, &cluster, &beat_ns);
	if (rc == 0)
		CHECK(cluster.high == 1 && cluster.low == 2 && beat_ns == 20 * NS_PER_MS);
	return rc;
}

/* Waits until the server has ended by itself because its store failed. */
static void await_failure(struct server *s)
{
	rt_join(s->fiber);
	s->fiber = NULL;
	CHECK_EQ(s->rc, -EIO);
	CHECK_EQ(s->health, -EIO);
}

static void a_server_whose_store_failed_ends_and_clients_use_another(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	char name[16];
	CHECK_EQ(meta_service_health(fixture->servers[0].service), 0);
	kv_mem_break(fixture->servers[0].kv);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		(void)make_file(c, META_ROOT,
				name); /* must not be -EROFS, which kv returns for a failed store */
		CHECK_EQ(meta_client_mkdir(&(struct meta_call){.client = fixture->client},
					   META_ROOT, meta_name("d"), 5000, NULL),
			 0);
		/* All clients may have changed to the other server already. */
		struct meta_client *own = NULL;
		const char *addr = fixture->servers[0].addr;
		CHECK_EQ(meta_client_open(
				 &own,
				 &(struct meta_client_options){.addrs = &addr,
							       .addr_count = 1,
							       .tenant = "default",
							       .channel = {.pool = &fixture->pool},
							       .timeout_ns = 50 * NS_PER_MS}),
			 0);
		struct meta_call one = {.client = own};
		int rc = meta_client_mkdir(&one, META_ROOT, meta_name("own"), meta_id(), NULL);
		CHECK(rc < 0 && rc != -EROFS && rc != -EEXIST);
		meta_client_close(own);
	}
	await_failure(&fixture->servers[0]);
}

static int remove_none(struct meta_call *c)
{
	return meta_client_remove(c, META_ROOT, meta_name("none"), 777, 0);
}

static int rename_none(struct meta_call *c)
{
	return meta_client_rename(c, META_ROOT, meta_name("none"), meta_name("some"), meta_id(), 0);
}

/* A server that holds a copy of the request may still execute it after the state that caused the refusal changed. */
static void a_change_refused_after_a_lost_try_is_in_doubt(struct fixture *fixture)
{
	static int (*const ops[])(struct meta_call *) = {remove_none, rename_none};
	struct meta_call *c = &fixture->call;
	for (size_t k = 0; k < ARRAY_LEN(ops); k++) {
		int rc = 0;
		/*
		 * The servers themselves, and the lookup before a rename, also make calls of the
		 * store.
		 */
		for (uint64_t i = 0; i < 200 && rc != -ETIME; i++) {
			kv_mem_fail_at(fixture->mem, 1 + i % 4, KV_MEM_REQUEST_LOST);
			rc = ops[k](c);
			CHECK(rc == -ENOENT || rc == -ETIME);
			CHECK_EQ(c->in_doubt, rc == -ETIME);
		}
		CHECK_EQ(rc, -ETIME);
		kv_mem_fail_at(fixture->mem, 0, KV_MEM_FINE);
		CHECK_EQ(ops[k](c), -ENOENT);
		CHECK(!c->in_doubt);
	}
}

static void a_store_that_fails_during_a_heartbeat_ends_the_server(struct fixture *fixture)
{
	CHECK_EQ(register_node(fixture, 1, 10, 2), 0);
	kv_mem_break(fixture->servers[0].kv);
	kv_mem_break(fixture->servers[1].kv);
	struct meta_map_disk disks[] = {{.id = 10, .capacity_bytes = 1ULL << 40},
					{.id = 11, .capacity_bytes = 1ULL << 40}};
	struct meta_map_node n = {.id = 1, .incarnation = 1, .disks = disks, .disk_count = 2};
	uint64_t beat_ns;
	/* The caller gets no error: the heartbeat is written later. */
	CHECK_EQ(meta_client_node_beat(&fixture->root, &n, &beat_ns), 0);
	while (fixture->servers[0].health == 0 && fixture->servers[1].health == 0)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	await_failure(&fixture->servers[fixture->servers[0].health != 0 ? 0 : 1]);
}

static void without_a_server_a_call_ends_at_its_time_limit(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_entry e;
	for (unsigned i = 0; i < SERVERS; i++)
		server_stop(&fixture->servers[i]);
	c->timeout_ns = 200 * NS_PER_MS;
	uint64_t begin_ns = rt_now_ns();
	int rc = meta_client_lookup(c, META_ROOT, meta_name("x"), &e);
	CHECK(rc == -ECONNREFUSED || rc == -ETIME);
	CHECK(!c->in_doubt && c->error[0] != 0);
	CHECK(rt_now_ns() - begin_ns >= 150 * NS_PER_MS);
	/* A client with the option `impatient` fails at once. */
	struct meta_client *hasty = NULL;
	const char *addr = fixture->servers[0].addr;
	CHECK_EQ(meta_client_open(&hasty,
				  &(struct meta_client_options){.addrs = &addr,
								.addr_count = 1,
								.tenant = "default",
								.channel = {.pool = &fixture->pool},
								.impatient = true}),
		 0);
	struct meta_call h = {.client = hasty};
	begin_ns = rt_now_ns();
	CHECK_EQ(meta_client_lookup(&h, META_ROOT, meta_name("x"), &e), -ECONNREFUSED);
	CHECK(rt_now_ns() - begin_ns < 5 * NS_PER_S || !fixture->sim);
	meta_client_close(hasty);
}

/* --- admission ---------------------------------------------------------------------------------- */

static void a_hot_directory_slows_down_and_loses_nothing(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_client_stats s;
	struct meta_entry e;
	uint64_t hot = make_dir(c, META_ROOT, "hot");
	(void)make_file(c, hot, "f");
	uint64_t begin_ns = rt_now_ns();
	for (int i = 0; i < 60; i++)
		CHECK_EQ(meta_client_lookup(c, hot, meta_name("f"), &e), 0);
	/* A rate of 100 per second and a burst of 10 at each of the two servers. */
	CHECK(rt_now_ns() - begin_ns >= 200 * NS_PER_MS);
	meta_client_stats(fixture->client, &s);
	CHECK(s.busy > 0);
	/* A client that does not wait gets an error text. */
	struct meta_client *hasty = NULL;
	const char *addr = fixture->servers[0].addr;
	CHECK_EQ(meta_client_open(&hasty,
				  &(struct meta_client_options){.addrs = &addr,
								.addr_count = 1,
								.tenant = "default",
								.channel = {.pool = &fixture->pool},
								.busy_max = 1,
								.timeout_ns = 10 * NS_PER_MS}),
		 0);
	struct meta_call h = {.client = hasty};
	int rc = 0;
	for (int i = 0; i < 1000 && rc == 0; i++)
		rc = meta_client_lookup(&h, hot, meta_name("f"), &e);
	CHECK(rc == -EAGAIN && strstr(h.error, "directory") != NULL);
	CHECK(!h.in_doubt);
	/* Other directories are not limited. */
	uint64_t cold = make_dir(c, META_ROOT, "cold");
	CHECK_EQ(meta_client_lookup(c, cold, meta_name("f"), &e), -ENOENT);
	meta_client_close(hasty);
}

/* A path costs a query in each directory that it goes through, not in the one where it begins. */
static void only_the_directory_that_is_hot_by_path_slows_down(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_entry e;
	uint64_t a = make_dir(c, META_ROOT, "a"), hot = make_dir(c, a, "hot");
	(void)make_file(c, hot, "f");
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0); /* the pause refills the limits of all partitions */
	struct meta_client *hasty = NULL;
	const char *addr = fixture->servers[0].addr;
	CHECK_EQ(meta_client_open(&hasty,
				  &(struct meta_client_options){.addrs = &addr,
								.addr_count = 1,
								.tenant = "default",
								.channel = {.pool = &fixture->pool},
								.busy_max = 1,
								.timeout_ns = 10 * NS_PER_MS}),
		 0);
	struct meta_call h = {.client = hasty};
	int rc = 0;
	for (int i = 0; i < 1000 && rc == 0; i++)
		rc = meta_client_resolve(&h, a, meta_name("hot/f"), &e);
	CHECK(rc == -EAGAIN && strstr(h.error, "directory") != NULL);
	/* During the wait the bucket got one or two tokens, not all ten. */
	rc = 0;
	for (int i = 0; i < 4 && rc == 0; i++)
		rc = meta_client_lookup(&h, hot, meta_name("f"), &e);
	CHECK_EQ(rc, -EAGAIN);
	meta_client_close(hasty);
}

/* --- the map ------------------------------------------------------------------------------------ */

static struct cluster *await_version(struct fixture *fixture, uint64_t version)
{
	struct cluster *map = NULL;
	do
		CHECK_EQ(meta_client_map(&fixture->call, 0, &map), 0);
	while (map->version < version && rt_sleep_ns(NS_PER_MS) == 0);
	return map;
}

static void clients_get_changes_of_the_map(struct fixture *fixture)
{
	struct cluster *map = NULL;
	CHECK_EQ(meta_client_map(&fixture->call, 0, &map), 0);
	CHECK(map->version == 1 && map->network_place == PLACE_CLUSTERED && map->id.low == 2);
	for (uint64_t i = 1; i <= 4; i++)
		CHECK_EQ(register_node(fixture, i, 10 * i, 2), 0);
	map = await_version(fixture, 5);
	CHECK_EQ(map_count(&map->disks), 8);
	struct cluster_want want = {.block = 5};
	struct cluster_choice choice;
	CHECK_EQ(encoding_parse("r3", &want.encoding, NULL, 0), 0);
	CHECK_EQ(cluster_choose(map, &want, &choice), 0);
	CHECK_EQ(choice.racks, 3);
	/* Within max_age the client sends no request. */
	struct meta_client_stats before, after;
	meta_client_stats(fixture->client, &before);
	CHECK_EQ(meta_client_map(&fixture->call, 3600 * NS_PER_S, &map), 0);
	meta_client_stats(fixture->client, &after);
	CHECK_EQ(before.calls, after.calls);
	CHECK_EQ(meta_client_want_disk(&fixture->call, 20, CLUSTER_DRAINING), -EPERM);
	CHECK_EQ(meta_client_want_disk(&fixture->root, 20, CLUSTER_DRAINING), 0);
	CHECK_EQ(meta_client_weigh_disk(&fixture->root, 21, 10), 0);
	CHECK_EQ(meta_client_want_node(&fixture->root, 3, CLUSTER_DRAINING), 0);
	map = await_version(fixture, 8);
	CHECK_EQ(cluster_disk_state(map, cluster_disk(map, 20)), CLUSTER_DRAINING);
	CHECK_EQ(cluster_disk_state(map, cluster_disk(map, 30)), CLUSTER_DRAINING);
	CHECK_EQ(cluster_disk(map, 21)->weight, 10);
	struct meta_map_disk used = {.id = 40, .used_bytes = 12345, .capacity_bytes = 1ULL << 40};
	struct meta_map_node n = {.id = 4, .incarnation = 1, .disks = &used, .disk_count = 1};
	uint64_t beat_ns;
	CHECK_EQ(meta_client_node_beat(&fixture->call, &n, &beat_ns), -EPERM);
	CHECK_EQ(meta_client_node_beat(&fixture->root, &n, &beat_ns), 0);
	do
		CHECK_EQ(meta_client_map_usage(&fixture->call, &map), 0);
	while (cluster_disk(map, 40)->used_bytes != 12345 && rt_sleep_ns(NS_PER_MS) == 0);
	n.incarnation = 2;
	CHECK_EQ(meta_client_node_beat(&fixture->root, &n, &beat_ns), -ESTALE);
	n.id = 77;
	CHECK_EQ(meta_client_node_beat(&fixture->root, &n, &beat_ns), -ENOENT);
}

/* The second server reads the map once a day. */
static void a_server_with_an_old_map_does_not_make_a_clients_map_older(struct fixture *fixture)
{
	const char *addr = fixture->servers[0].addr;
	struct cluster *map = NULL;
	CHECK_EQ(meta_client_open(
			 &fixture->first_only,
			 &(struct meta_client_options){.addrs = &addr,
						       .addr_count = 1,
						       .tenant = META_SYSTEM,
						       .channel = {.pool = &fixture->pool}}),
		 0);
	struct meta_call c = {.client = fixture->first_only};
	CHECK_EQ(register_node(fixture, 1, 10, 2), 0);
	/* Both servers know the disks; only the first one knows their wanted state. */
	server_stop(&fixture->servers[1]);
	server_start(&fixture->servers[1]);
	do
		CHECK_EQ(meta_client_map(&c, 0, &map), 0);
	while (map->version < 2 && rt_sleep_ns(NS_PER_MS) == 0);
	CHECK_EQ(meta_client_want_disk(&c, 10, CLUSTER_DRAINING), 0);
	/* A client that has the new map changes to the server with the old one. */
	struct meta_client *both = NULL;
	struct meta_call b = {0};
	for (unsigned i = 0; i < 64; i++) {
		both = open_client(fixture, "default");
		b.client = both;
		CHECK_EQ(meta_client_map(&b, 0, &map), 0);
		if (map->version == 3)
			break;
		meta_client_close(both);
		both = NULL;
	}
	CHECK(both != NULL);
	server_stop(&fixture->servers[0]);
	CHECK_EQ(meta_client_map_usage(&b, &map), 0);
	CHECK_EQ(map->version, 3);
	CHECK_EQ(cluster_disk_state(map, cluster_disk(map, 10)), CLUSTER_DRAINING);
	meta_client_close(both);
	meta_client_close(fixture->first_only);
}

static void a_large_map_is_sent_in_pages(struct fixture *fixture)
{
	for (uint64_t i = 1; i <= 12; i++)
		CHECK_EQ(register_node(fixture, i, 1000 * i, 400), 0);
	/*
	 * A node that was added early and changed late: pages are in the order of versions, so its
	 * disks are in an earlier page than its record.
	 */
	CHECK_EQ(meta_client_want_node(&fixture->root, 1, CLUSTER_DRAINING), 0);
	struct cluster *map = await_version(fixture, 14);
	CHECK_EQ(map->version, 14);
	CHECK_EQ(map_count(&map->disks), 4800);
	CHECK_EQ(map_count(&map->nodes), 12);
	CHECK_EQ(cluster_node(map, 1)->wanted, CLUSTER_DRAINING);
	/* With any deadline a client gets a complete map or none. */
	uint64_t version = 0;
	unsigned tries = 0;
	for (uint64_t time_ns = NS_PER_US; version < 14; time_ns += time_ns / 8 + 1, tries++) {
		struct meta_client *fresh = open_client(fixture, "default");
		struct meta_call c = {.client = fresh};
		rt_deadline_set(rt_now_ns() + time_ns);
		int rc = meta_client_map(&c, 0, &map);
		rt_deadline_set(RT_NEVER);
		version = rc == 0 ? map->version : 0;
		CHECK(version < 14 || map_count(&map->disks) == 4800);
		meta_client_close(fresh);
	}
	CHECK(tries > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(clients_fail_over_between_servers),
		TEST(a_server_whose_store_failed_ends_and_clients_use_another),
		TEST(a_change_refused_after_a_lost_try_is_in_doubt),
		TEST(a_store_that_fails_during_a_heartbeat_ends_the_server),
		TEST(without_a_server_a_call_ends_at_its_time_limit),
		TEST_RATE(a_hot_directory_slows_down_and_loses_nothing, 100),
		TEST_RATE(only_the_directory_that_is_hot_by_path_slows_down, 100),
		TEST(clients_get_changes_of_the_map),
		TEST_BEHIND(a_server_with_an_old_map_does_not_make_a_clients_map_older),
		TEST(a_large_map_is_sent_in_pages),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
