// SPDX-License-Identifier: Apache-2.0
/* The cluster map in the store: registration, heartbeats, silent nodes, several servers, lost responses. Each test runs in
 * the simulator, and tests without crashes also in the real world. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/log.h"
#include "check.h"
#include "kv/mem.h"
#include "meta/map.h"
#include "meta/map_impl.h"
#include "meta_api/node.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "sim_test.h"

#define TIB (1024 * GIB)

static const struct cluster_id some_id = {.high = 7, .low = 9};

/*
 * Options for simulated time. In real time no node becomes suspect, because a busy machine could
 * delay heartbeats.
 */
static struct meta_map_options fast = {
	.beat_ns = 20 * NS_PER_MS,
	.watch_ns = 10 * NS_PER_MS,
	.suspect_ns = 2 * NS_PER_S,
	.failed_ns = 6 * NS_PER_S,
};

struct fixture {
	struct kv_mem *mem;
	struct kv *kv[2];
	struct meta_map *map[2];
	void (*test)(struct fixture *fixture);
	uint64_t seed;
};

static void fixture_main(void *arg)
{
	struct fixture *fixture = arg;
	fixture->mem = kv_mem_new(&(struct kv_mem_options){.seed = fixture->seed,
							   .latency_min_ns = 10 * NS_PER_US,
							   .latency_max_ns = 300 * NS_PER_US,
							   .timeout_ns = 2 * NS_PER_MS});
	CHECK(fixture->mem != NULL);
	for (size_t i = 0; i < 2; i++)
		CHECK_EQ(kv_mem_open(&fixture->kv[i], fixture->mem), 0);
	CHECK_EQ(meta_map_open(&fixture->map[0], fixture->kv[0], &fast), -ENOENT);
	CHECK_EQ(meta_map_format(fixture->kv[0], some_id, PLACE_DECLUSTERED), 0);
	CHECK_EQ(meta_map_format(fixture->kv[1], some_id, PLACE_DECLUSTERED), -EEXIST);
	for (size_t i = 0; i < 2; i++)
		CHECK_EQ(meta_map_open(&fixture->map[i], fixture->kv[i], &fast), 0);
	fixture->test(fixture);
	for (size_t i = 0; i < 2; i++) {
		meta_map_close(fixture->map[i]);
		kv_close(fixture->kv[i]);
	}
	kv_mem_free(fixture->mem);
}

struct fixture_test {
	void (*fn)(struct fixture *fixture);
	/*
	 * runs in simulated time only: real time would be too long, or a busy machine could change
	 * the result
	 */
	bool sim_only;
};

static void fixture_run(void **state)
{
	const struct fixture_test *t = *state;
	struct fixture fixture = {.test = t->fn, .seed = 1};
	fast.suspect_ns = 3600 * NS_PER_S;
	fast.failed_ns = 7200 * NS_PER_S;
	if (!t->sim_only)
		assert_int_equal(rt_real_run(NULL, fixture_main, &fixture), 0);
	fast.suspect_ns = 2 * NS_PER_S;
	fast.failed_ns = 6 * NS_PER_S;
	for (fixture.seed = 1; fixture.seed <= 5; fixture.seed++)
		sim_test_once(&(struct sim_test){.seed = fixture.seed}, fixture_main, &fixture);
}

static const struct meta_map_disk two_disks[] = {
	{.id = 11, .capacity_bytes = TIB},
	{.id = 12, .capacity_bytes = 2 * TIB},
};

static struct meta_map_node a_node(uint64_t id)
{
	return (struct meta_map_node){.id = id,
				      .incarnation = 100 + id,
				      .name = "alpha",
				      .rack = "left",
				      .addr = "alpha:7000",
				      .disks = two_disks,
				      .disk_count = ARRAY_LEN(two_disks)};
}

static bool disk_is(struct meta_map *m, uint64_t id, enum cluster_state state)
{
	const struct cluster *c = meta_map_cluster(m);
	const struct cluster_disk *d = cluster_disk(c, id);
	return d != NULL && cluster_disk_state(c, d) == state;
}

/* Waits until the map of a server has the disk in this state. */
static void await(struct meta_map *m, uint64_t disk, enum cluster_state state)
{
	for (int i = 0; i < 120000 && !disk_is(m, disk, state); i++)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	CHECK(disk_is(m, disk, state));
}

/* Waits until a server knows the used bytes of a disk. */
static void await_used(struct meta_map *m, uint64_t disk, uint64_t bytes)
{
	const struct cluster *c = meta_map_cluster(m);
	for (int i = 0; i < 120000 && cluster_disk(c, disk)->used_bytes != bytes; i++)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	CHECK_EQ(cluster_disk(c, disk)->used_bytes, bytes);
}

static void beat_for(struct meta_map *m, struct meta_map_node *n, uint64_t span_ns)
{
	uint64_t end_ns = rt_now_ns() + span_ns;
	while (rt_now_ns() < end_ns) {
		CHECK_EQ(meta_map_beat(m, n), 0);
		CHECK_EQ(rt_sleep_ns(fast.beat_ns), 0);
	}
}

/* --- registration ------------------------------------------------------------------------------- */

static void a_node_registers_once_and_other_servers_learn_it(struct fixture *fixture)
{
	struct meta_map_node n = a_node(1);
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	uint64_t version = meta_map_cluster(fixture->map[0])->version;
	CHECK_EQ(version, 2);
	await(fixture->map[1], 12, CLUSTER_ONLINE);
	const struct cluster *c = meta_map_cluster(fixture->map[1]);
	CHECK_EQ(c->version, 2);
	CHECK(c->id.high == 7 && c->id.low == 9);
	const struct cluster_node *seen = cluster_node_of(c, 11);
	CHECK(strcmp(seen->addr, "alpha:7000") == 0 && strcmp(seen->name, "alpha") == 0);
	CHECK(strcmp(cluster_rack(c, seen->rack)->name, "left") == 0);
	/* A second, equal registration changes nothing, at either server. */
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	CHECK_EQ(meta_map_register(fixture->map[1], &n), 0);
	CHECK_EQ(meta_map_cluster(fixture->map[1])->version, 2);
}

static void
a_disk_that_registration_does_not_name_is_failed_until_named_again(struct fixture *fixture)
{
	struct meta_map_node n = a_node(1);
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	n.disk_count = 1;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	CHECK(disk_is(fixture->map[0], 11, CLUSTER_ONLINE));
	CHECK(disk_is(fixture->map[0], 12, CLUSTER_FAILED));
	/* The drive was moved to another machine. */
	struct meta_map_node other = a_node(2);
	other.name = "beta";
	other.disks = &two_disks[1];
	other.disk_count = 1;
	CHECK_EQ(meta_map_register(fixture->map[0], &other), 0);
	CHECK(disk_is(fixture->map[0], 12, CLUSTER_ONLINE));
	CHECK_EQ(cluster_disk(meta_map_cluster(fixture->map[0]), 12)->node, 2);
	/* A node does not get a disk that another online node serves. */
	other.disks = two_disks;
	other.disk_count = 2;
	CHECK_EQ(meta_map_register(fixture->map[0], &other), 0);
	CHECK_EQ(cluster_disk(meta_map_cluster(fixture->map[0]), 11)->node, 1);
}

static void a_disk_that_was_moved_is_taken_when_its_old_node_is_silent(struct fixture *fixture)
{
	struct meta_map_disk own[] = {two_disks[0], {.id = 13, .capacity_bytes = TIB}};
	struct meta_map_node old = a_node(1), fresh = a_node(2);
	fresh.disks = own;
	CHECK_EQ(meta_map_register(fixture->map[0], &old), 0);
	CHECK_EQ(meta_map_register(fixture->map[0], &fresh), 0);
	CHECK(disk_is(fixture->map[0], 13, CLUSTER_ONLINE)); /* its own disk serves at once */
	CHECK_EQ(cluster_disk(meta_map_cluster(fixture->map[0]), 11)->node, 1);
	beat_for(fixture->map[0], &fresh, 2 * fast.suspect_ns);
	CHECK_EQ(cluster_disk(meta_map_cluster(fixture->map[0]), 11)->node, 2);
	CHECK(disk_is(fixture->map[0], 11, CLUSTER_ONLINE));
	CHECK(disk_is(fixture->map[0], 12, CLUSTER_SUSPECT));
}

static void a_disk_that_heartbeats_do_not_name_is_failed(struct fixture *fixture)
{
	struct meta_map_node n = a_node(1);
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	CHECK_EQ(meta_map_beat(fixture->map[0], &n), 0);
	n.disk_count = 1;
	CHECK_EQ(meta_map_beat(fixture->map[0], &n), 0);
	CHECK(disk_is(fixture->map[0], 11, CLUSTER_ONLINE));
	CHECK(disk_is(fixture->map[0], 12, CLUSTER_FAILED));
	n.disk_count = 2;
	CHECK_EQ(meta_map_beat(fixture->map[1], &n), 0);
	CHECK(disk_is(fixture->map[1], 12, CLUSTER_ONLINE));
}

static void
a_second_node_of_the_same_id_is_refused_while_the_first_is_online(struct fixture *fixture)
{
	const struct meta_map_disk foreign[] = {{.id = 21, .capacity_bytes = TIB}};
	struct meta_map_node n = a_node(1), twin = a_node(1);
	twin.incarnation = 999;
	twin.disks = foreign;
	twin.disk_count = 1;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	await(fixture->map[1], 11, CLUSTER_ONLINE);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(meta_map_register(fixture->map[0], &twin), -EBUSY);
		CHECK_EQ(meta_map_register(fixture->map[1], &twin), -EBUSY);
		beat_for(fixture->map[0], &n, fast.suspect_ns / 4);
	}
	CHECK(disk_is(fixture->map[1], 11, CLUSTER_ONLINE));
	CHECK(disk_is(fixture->map[1], 12, CLUSTER_ONLINE));
	/* The same node may restart at once. If a disk is missing, it must wait for suspect_ns. */
	n.incarnation++;
	CHECK_EQ(meta_map_register(fixture->map[1], &n), 0);
	n.incarnation++;
	n.disk_count = 1;
	CHECK_EQ(meta_map_register(fixture->map[1], &n), -EBUSY);
	await(fixture->map[1], 11, CLUSTER_SUSPECT);
	CHECK_EQ(meta_map_register(fixture->map[1], &n), 0);
	CHECK(disk_is(fixture->map[1], 12, CLUSTER_FAILED));
}

static void invalid_registrations_change_nothing(struct fixture *fixture)
{
	struct meta_map *m = fixture->map[0];
	char long_name[CLUSTER_NAME_MAX + 2];
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	struct meta_map_disk twins[2] = {{.id = 5}, {.id = 5}}, zero = {.id = 0};
	struct meta_map_disk shape = {.id = 5, .local = {.k = 0, .p = 3}};
	struct meta_map_node n = a_node(0);
	CHECK_EQ(meta_map_register(m, &n), -EINVAL);
	n = a_node(1);
	n.incarnation = 0;
	CHECK_EQ(meta_map_register(m, &n), -EINVAL);
	n = a_node(1);
	n.name = "";
	CHECK_EQ(meta_map_register(m, &n), -EINVAL);
	n.name = long_name;
	CHECK_EQ(meta_map_register(m, &n), -ENAMETOOLONG);
	n = a_node(1);
	n.disks = twins;
	CHECK_EQ(meta_map_register(m, &n), -EINVAL);
	n.disk_count = 1;
	n.disks = &zero;
	CHECK_EQ(meta_map_register(m, &n), -EINVAL);
	n.disks = &shape;
	CHECK_EQ(meta_map_register(m, &n), -EINVAL);
	n = a_node(1);
	CHECK_EQ(meta_map_beat(m, &n), -ENOENT);
	CHECK_EQ(meta_map_cluster(m)->version, 1);
}

static void pools_get_positions_in_their_rack(struct fixture *fixture)
{
	const struct meta_map_disk pools[] = {{.id = 21, .local = {.k = 4, .p = 2}},
					      {.id = 22, .local = {.k = 4, .p = 2}}};
	const struct meta_map_disk more[] = {{.id = 31, .local = {.k = 4, .p = 2}}};
	struct meta_map_node n = a_node(1);
	n.disks = pools;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	n = a_node(2);
	n.name = "beta";
	n.disks = more;
	n.disk_count = 1;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	const struct cluster *c = meta_map_cluster(fixture->map[0]);
	CHECK_EQ(cluster_disk(c, 21)->position, 0);
	CHECK_EQ(cluster_disk(c, 22)->position, 1);
	CHECK_EQ(cluster_disk(c, 31)->position, 2);
}

/* Positions of flash pools and of disk pools are counted apart: else a flash pool would leave a gap in a network pool of
 * disks. */
static void pools_of_flash_get_positions_of_their_own(struct fixture *fixture)
{
	const struct meta_map_disk mixed[] = {
		{.id = 21, .local = {.k = 4, .p = 2}},
		{.id = 22, .local = {.k = 4, .p = 2}, .media = CLUSTER_MEDIA_FLASH},
		{.id = 23, .local = {.k = 4, .p = 2}}};
	struct meta_map_disk more[] = {{.id = 31, .local = {.k = 4, .p = 2}}};
	struct meta_map_node n = a_node(1);
	n.disks = mixed;
	n.disk_count = 3;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	n = a_node(2);
	n.name = "beta";
	n.disks = more;
	n.disk_count = 1;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	const struct cluster *c = meta_map_cluster(fixture->map[0]);
	CHECK_EQ(cluster_disk(c, 21)->position, 0);
	CHECK_EQ(cluster_disk(c, 22)->position, 0);
	CHECK_EQ(cluster_disk_media(c, 22), CLUSTER_MEDIA_FLASH);
	CHECK_EQ(cluster_disk(c, 31)->position, 2);
	/* The node's configuration now gives the disk another media. */
	more[0].media = CLUSTER_MEDIA_FLASH;
	n.incarnation++;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	CHECK_EQ(cluster_disk_media(c, 31), CLUSTER_MEDIA_FLASH);
	CHECK_EQ(cluster_disk(c, 31)->position, 1);
	CHECK_EQ(cluster_disk(c, 22)->position, 0);
}

/* --- heartbeats --------------------------------------------------------------------------------- */

static void
a_silent_node_is_suspect_then_failed_and_online_with_a_heartbeat(struct fixture *fixture)
{
	struct meta_map_node n = a_node(1);
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	beat_for(fixture->map[0], &n, 2 * fast.suspect_ns);
	CHECK(disk_is(fixture->map[0], 11, CLUSTER_ONLINE));
	CHECK(disk_is(fixture->map[1], 11,
		      /* this server has received no heartbeat of the node itself */
		      CLUSTER_ONLINE));
	uint64_t silent_ns = rt_now_ns();
	await(fixture->map[1], 11, CLUSTER_SUSPECT);
	CHECK(rt_now_ns() - silent_ns >= fast.suspect_ns / 2);
	await(fixture->map[0], 11, CLUSTER_SUSPECT);
	await(fixture->map[0], 11, CLUSTER_FAILED);
	CHECK_EQ(meta_map_beat(fixture->map[1], &n), 0);
	CHECK(disk_is(fixture->map[1], 11, CLUSTER_ONLINE));
	await(fixture->map[0], 11, CLUSTER_ONLINE);
}

/* Overwrites a node's stored BeatRecord with bytes that cannot be decoded. */
static void damage_beat(struct fixture *fixture, uint64_t node)
{
	struct map_key key = map_key(MAP_KEY_BEAT, node);
	struct kv_write w = {.kind = KV_PUT,
			     .key = kv_bytes(key.bytes, key.len),
			     .value = kv_text("\xff\xff\xff")};
	struct kv_txn txn = {.writes = &w, .write_count = 1};
	CHECK_EQ(kv_txn(fixture->kv[0], map_partition(), &txn, NULL), 0);
}

static void an_unreadable_heartbeat_does_not_stop_the_states_of_other_nodes(struct fixture *fixture)
{
	static const struct meta_map_disk other[] = {{.id = 21, .capacity_bytes = TIB}};
	struct meta_map_node n = a_node(1), bad = a_node(2);
	bad.disks = other;
	bad.disk_count = 1;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	CHECK_EQ(meta_map_register(fixture->map[0], &bad), 0);
	beat_for(fixture->map[0], &n, 10 * fast.beat_ns);
	damage_beat(fixture, 2);
	damage_beat(fixture, 3); /* no map has node 3 */
	await(fixture->map[1], 11, CLUSTER_SUSPECT);
	await(fixture->map[1], 21, CLUSTER_FAILED);
	await(fixture->map[1], 11, CLUSTER_FAILED);
	/* A server starts with unreadable records, and a heartbeat replaces them. */
	meta_map_close(fixture->map[0]);
	CHECK_EQ(meta_map_open(&fixture->map[0], fixture->kv[0], &fast), 0);
	CHECK_EQ(meta_map_beat(fixture->map[0], &bad), 0);
	await(fixture->map[1], 21, CLUSTER_ONLINE);
}

static void heartbeats_without_news_change_no_version(struct fixture *fixture)
{
	struct meta_map_node n = a_node(1);
	struct meta_map_disk disks[2] = {two_disks[0], two_disks[1]};
	n.disks = disks;
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	for (uint64_t used = 1; used <= 20; used++) {
		disks[0].used_bytes = used * GIB;
		CHECK_EQ(meta_map_beat(fixture->map[0], &n), 0);
		CHECK_EQ(rt_sleep_ns(fast.beat_ns), 0);
	}
	await_used(fixture->map[1], 11, 20 * GIB);
	CHECK_EQ(meta_map_cluster(fixture->map[1])->version, 2);
	disks[0].health = CLUSTER_FULL;
	disks[1].health = CLUSTER_FAILED;
	CHECK_EQ(meta_map_beat(fixture->map[0], &n), 0);
	CHECK_EQ(meta_map_cluster(fixture->map[0])->version, 3);
	CHECK(disk_is(fixture->map[0], 11, CLUSTER_FULL));
	CHECK(disk_is(fixture->map[0], 12, CLUSTER_FAILED));
	disks[0].health = CLUSTER_ONLINE;
	CHECK_EQ(meta_map_beat(fixture->map[0], &n), 0);
	CHECK(disk_is(fixture->map[0], 11, CLUSTER_ONLINE));
	/*
	 * The drive is replaced, then the new drive is offline. The map keeps the creation time of
	 * the new drive.
	 */
	const struct cluster *c = meta_map_cluster(fixture->map[0]);
	for (uint64_t created = 7; created <= 8; created++) {
		disks[0].created_ns = created;
		CHECK_EQ(meta_map_beat(fixture->map[0], &n), 0);
		CHECK_EQ(c->version, created - 2);
		CHECK_EQ(cluster_disk(c, 11)->created_ns, created);
	}
	disks[0].created_ns = 0;
	CHECK_EQ(meta_map_beat(fixture->map[0], &n), 0);
	CHECK_EQ(c->version, 6);
	CHECK_EQ(cluster_disk(c, 11)->created_ns, 8);
}

/* Time in which a server is paused, or cannot reach the store, does not count as silence of nodes. */
static void an_outage_makes_no_node_suspect(struct fixture *fixture)
{
	struct meta_map_node n = a_node(1);
	CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
	beat_for(fixture->map[0], &n, NS_PER_S);
	await(fixture->map[1], 11, CLUSTER_ONLINE);
	uint64_t version = meta_map_cluster(fixture->map[1])->version;
	kv_mem_outage(fixture->mem, true);
	beat_for(fixture->map[0], &n, 2 * fast.failed_ns);
	kv_mem_outage(fixture->mem, false);
	beat_for(fixture->map[0], &n, 2 * fast.suspect_ns);
	for (size_t i = 0; i < 2; i++)
		CHECK_EQ(meta_map_cluster(fixture->map[i])->version, version);
	/* a node that is silent now still becomes suspect */
	await(fixture->map[1], 11, CLUSTER_SUSPECT);
}

#define WIDE_NODES 40

/* 40 nodes with 512 disks each: their heartbeats need more than one transaction. */
static void the_heartbeats_of_many_nodes_with_many_disks_are_all_written(struct fixture *fixture)
{
	static struct meta_map_disk disks[WIDE_NODES][META_MAP_NODE_DISKS_MAX];
	struct meta_map_node nodes[WIDE_NODES];
	for (uint64_t i = 0; i < WIDE_NODES; i++) {
		for (uint64_t d = 0; d < META_MAP_NODE_DISKS_MAX; d++)
			disks[i][d] = (struct meta_map_disk){.id = ~(i << 32 | d),
							     .capacity_bytes = TIB,
							     .used_bytes = 7 * GIB + i};
		nodes[i] = a_node(i + 1);
		nodes[i].disks = disks[i];
		nodes[i].disk_count = META_MAP_NODE_DISKS_MAX;
		CHECK_EQ(meta_map_register(fixture->map[0], &nodes[i]), 0);
	}
	await(fixture->map[1], disks[WIDE_NODES - 1][0].id, CLUSTER_ONLINE);
	for (uint64_t i = 0; i < WIDE_NODES; i++)
		CHECK_EQ(meta_map_beat(fixture->map[0], &nodes[i]), 0);
	CHECK_EQ(rt_sleep_ns(4 * fast.beat_ns), 0);
	const struct cluster *c = meta_map_cluster(fixture->map[1]);
	for (uint64_t i = 0; i < WIDE_NODES; i++)
		CHECK_EQ(cluster_disk(c, disks[i][99].id)->used_bytes, 7 * GIB + i);
}

static void an_older_process_of_a_node_is_fenced(struct fixture *fixture)
{
	struct meta_map_node old = a_node(1), fresh = a_node(1);
	fresh.incarnation = 999;
	CHECK_EQ(meta_map_register(fixture->map[0], &old), 0);
	CHECK_EQ(meta_map_beat(fixture->map[1], &old), 0); /* this server reads the new map first */
	CHECK_EQ(meta_map_register(fixture->map[1], &fresh), 0);
	CHECK_EQ(meta_map_beat(fixture->map[1], &old), -ESTALE);
	CHECK_EQ(meta_map_beat(fixture->map[1], &fresh), 0);
}

/* --- operators ---------------------------------------------------------------------------------- */

static void a_wanted_state_survives_restarts_and_gone_is_final(struct fixture *fixture)
{
	struct meta_map *m = fixture->map[0];
	struct meta_map_node n = a_node(1);
	CHECK_EQ(meta_map_register(m, &n), 0);
	CHECK_EQ(meta_map_want_disk(m, 11, CLUSTER_DRAINING), 0);
	CHECK_EQ(meta_map_want_disk(m, 77, CLUSTER_DRAINING), -ENOENT);
	CHECK_EQ(meta_map_want_disk(m, 11, CLUSTER_FAILED), -EINVAL);
	n.incarnation++;
	CHECK_EQ(meta_map_register(m, &n), 0);
	CHECK(disk_is(m, 11, CLUSTER_DRAINING));
	CHECK_EQ(meta_map_weigh_disk(m, 12, 500), 0);
	CHECK_EQ(meta_map_weigh_disk(m, 12, CLUSTER_WEIGHT_MAX + 1), -EINVAL);
	CHECK_EQ(cluster_disk(meta_map_cluster(m), 12)->weight, 500);
	CHECK_EQ(meta_map_want_disk(m, 11, CLUSTER_GONE), 0);
	CHECK_EQ(meta_map_want_disk(m, 11, CLUSTER_ONLINE), -EPERM);
	CHECK_EQ(meta_map_want_node(m, 1, CLUSTER_GONE), 0);
	CHECK_EQ(meta_map_register(m, &n), -EPERM);
	CHECK(disk_is(m, 12, CLUSTER_GONE));
}

/* --- concurrent registrations, lost responses ----------------------------------------------------- */

#define CROWD 24

struct member {
	struct fixture *fixture;
	uint64_t id;
};

static void register_member(void *arg)
{
	struct member *w = arg;
	struct meta_map_disk disk = {.id = 1000 + w->id, .capacity_bytes = TIB};
	char name[16], rack[16];
	snprintf(name, sizeof(name), "n%lu", w->id);
	snprintf(rack, sizeof(rack), "r%lu", w->id % 5);
	struct meta_map_node n = {.id = w->id,
				  .incarnation = 1,
				  .name = name,
				  .rack = rack,
				  .addr = "x:1",
				  .disks = &disk,
				  .disk_count = 1};
	int rc;
	do
		rc = meta_map_register(w->fixture->map[w->id % 2], &n);
	while (rc == -EAGAIN || rc == -ETIMEDOUT);
	CHECK_EQ(rc, 0);
}

static void nodes_that_register_at_once_are_all_in_the_map(struct fixture *fixture)
{
	struct rt_group g;
	struct member who[CROWD];
	rt_group_init(&g);
	for (uint64_t i = 0; i < CROWD; i++) {
		who[i] = (struct member){.fixture = fixture, .id = i + 1};
		CHECK_EQ(rt_group_spawn(&g, "member", register_member, &who[i]), 0);
	}
	rt_group_join(&g);
	for (uint64_t i = 1; i <= CROWD; i++) {
		await(fixture->map[0], 1000 + i, CLUSTER_ONLINE);
		await(fixture->map[1], 1000 + i, CLUSTER_ONLINE);
	}
	for (size_t i = 0; i < 2; i++) {
		const struct cluster *c = meta_map_cluster(fixture->map[i]);
		CHECK_EQ(map_count(&c->racks), 5);
		CHECK_EQ(map_count(&c->nodes), CROWD);
		for (uint32_t rack = 1; rack <= 5; rack++)
			CHECK(cluster_rack(c, rack) != NULL);
	}
	CHECK_EQ(meta_map_cluster(fixture->map[0])->version, 1 + CROWD);
}

/*
 * Loses or delays the n-th request or response of a registration, for n = 1, 2, ... Afterwards both
 * servers show the disk online: after the first call or, if that returned -ETIMEDOUT, after a
 * retry.
 */
static void a_lost_response_is_resolved_by_a_retry(struct fixture *fixture)
{
	static const enum kv_mem_fate fates[] = {KV_MEM_REQUEST_LOST, KV_MEM_REPLY_LOST,
						 KV_MEM_LATE};
	uint64_t id = 100;
	for (size_t f = 0; f < ARRAY_LEN(fates); f++)
		for (uint64_t nth = 1;; nth++) {
			id++;
			struct meta_map_disk disk = {.id = id, .capacity_bytes = TIB};
			struct meta_map_node n = a_node(id);
			n.disks = &disk;
			n.disk_count = 1;
			kv_mem_fail_at(fixture->mem, nth, fates[f]);
			int rc = meta_map_register(fixture->map[0], &n);
			CHECK(rc == 0 || rc == -ETIMEDOUT);
			bool met = !kv_mem_fail_pending(fixture->mem);
			kv_mem_fail_at(fixture->mem, 0, KV_MEM_FINE);
			if (rc < 0)
				CHECK_EQ(meta_map_register(fixture->map[0], &n), 0);
			CHECK(disk_is(fixture->map[0], id, CLUSTER_ONLINE));
			await(fixture->map[1], id, CLUSTER_ONLINE);
			if (!met || nth > 12)
				break;
		}
}

#define TEST(what)                                                                               \
	{                                                                                        \
		.name = #what, .test_func = fixture_run, .initial_state = &(struct fixture_test) \
		{                                                                                \
			.fn = what                                                               \
		}                                                                                \
	}
#define TEST_SIM(what)                                                                           \
	{                                                                                        \
		.name = #what, .test_func = fixture_run, .initial_state = &(struct fixture_test) \
		{                                                                                \
			.fn = what, .sim_only = true                                             \
		}                                                                                \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_node_registers_once_and_other_servers_learn_it),
		TEST(a_disk_that_registration_does_not_name_is_failed_until_named_again),
		TEST_SIM(a_disk_that_was_moved_is_taken_when_its_old_node_is_silent),
		TEST(a_disk_that_heartbeats_do_not_name_is_failed),
		TEST_SIM(a_second_node_of_the_same_id_is_refused_while_the_first_is_online),
		TEST(invalid_registrations_change_nothing),
		TEST(pools_get_positions_in_their_rack),
		TEST(pools_of_flash_get_positions_of_their_own),
		TEST_SIM(a_silent_node_is_suspect_then_failed_and_online_with_a_heartbeat),
		TEST_SIM(an_unreadable_heartbeat_does_not_stop_the_states_of_other_nodes),
		TEST(heartbeats_without_news_change_no_version),
		TEST_SIM(an_outage_makes_no_node_suspect),
		TEST_SIM(the_heartbeats_of_many_nodes_with_many_disks_are_all_written),
		TEST(an_older_process_of_a_node_is_fenced),
		TEST(a_wanted_state_survives_restarts_and_gone_is_final),
		TEST(nodes_that_register_at_once_are_all_in_the_map),
		TEST(a_lost_response_is_resolved_by_a_retry),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
