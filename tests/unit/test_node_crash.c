// SPDX-License-Identifier: Apache-2.0
/*
 * The process of a storage node crashes at each of its waits, one per run, with and without loss of
 * power, while a client on another machine sends requests. Acknowledged changes must be intact. A
 * change in doubt must be executed completely or not at all, and stat must tell the client which,
 * as node.proto says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "node_fixture.h"
#include "rt/call.h"
#include "rt/file.h"
#include "rt/pool.h"
#include "rt/sim.h"

enum { FIRST = 6000, MORE = 9000, SEALED = 14000, CAPACITY = 65536 };

/* State of the test, outside of the simulated process, so that it survives crashes. */
struct crash {
	struct sim *sim;
	struct sim_node *server;
	struct sim_node *client;
	bool pool;
	unsigned loops; /* of the node; its disk is on the last, its listener on the first */
	bool done;
	bool checked;
	uint64_t seed;
};

/* --- the node --------------------------------------------------------------------------------- */

static void server_main(void *arg)
{
	struct crash *c = arg;
	struct node_folder folders[3] = {{11, "/d0/a"}, {12, "/d0/b"}, {13, "/d0/c"}};
	struct node_disk_spec spec = {
		.disk = 1,
		.folders = folders,
		.folder_count = c->pool ? 3 : 1,
		.pool = c->pool,
		.sched = &sched_nvme,
		.shape = {.k = 2, .p = 1, .place = PLACE_CLUSTERED, .piece_bytes = 4096}};
	struct node_serve_options o = {
		.listen = "n1:7000",
		.disks = {.cluster = {1, 2},
			  .node = 3,
			  .disks = &spec,
			  .disk_count = 1,
			  .format = true,
			  .fan_bits = 1,
			  .probe_ns = 3600 * NS_PER_S},
		.pool_bytes = NODE_POOL_MIN,
	};
	for (int i = 0; i < 3; i++) {
		int rc = rt_mkdir(folders[i].path);
		if (rc == 0)
			rc = rt_dir_sync("/d0");
		if (rc != 0 && rc != -EEXIST)
			return;
	}
	struct rt_team team;
	if (rt_team_open(&team, c->loops) != 0)
		return;
	o.team = &team;
	o.first_loop = c->loops - 1;
	(void)node_serve(&o);
	rt_team_close(&team);
}

/* --- the client ------------------------------------------------------------------------------- */

static const struct chunk_id grown = {.block = 5, .index = 1};
static const struct chunk_id whole = {.block = 6, .index = 2};
static const struct chunk_id brief = {.block = 7, .index = 3};

/* Returns whether the outcome is unknown: the connection or the response was lost. */
static bool in_doubt(int rc)
{
	return rc == -ECONNRESET || rc == -ETIME || rc == -ECONNREFUSED || rc == -ETIMEDOUT ||
	       rc == -ESHUTDOWN || rc == -EHOSTUNREACH || rc == -EPIPE || rc == -ECANCELED ||
	       rc == -EIO;
}

/* Repeats stat until the node answers. Also returns -ENOENT. */
static int look(struct node_fixture *fx, struct chunk_id id, struct chunk_stat *st)
{
	for (int tries = 0; tries < 1000; tries++) {
		int rc = node_stat_one(&fx->call, 1, id, st);
		/* -ENODEV: the disk is being opened. */
		if (!in_doubt(rc) && rc != -ENODEV)
			return rc;
		CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
	}
	CHECK(!"the node never answers");
	return -ETIME;
}

/* Repeats the change until it is executed. */
static void put_until(struct node_fixture *fx, struct chunk_id id, uint64_t text, uint64_t len,
		      bool open)
{
	struct chunk_stat st;
	for (;;) {
		int rc = fixture_put(fx, 1, id, text, len, open, open ? CAPACITY : 0);
		CHECK(rc == 0 || in_doubt(rc) || rc == -EEXIST || rc == -EALREADY || rc == -ENODEV);
		int is = look(fx, id, &st);
		CHECK(rc != 0 || is == 0);
		if (is == 0) {
			CHECK(st.len == len && st.crc == text_crc(text, 0, len));
			return;
		}
		CHECK_EQ(is, -ENOENT);
	}
}

static void append_until(struct node_fixture *fx, struct chunk_id id, uint64_t text, uint64_t off,
			 uint64_t len)
{
	struct chunk_stat st;
	for (;;) {
		int rc = fixture_append(fx, 1, id, 1, text, off, len);
		CHECK(rc == 0 || in_doubt(rc) || rc == -ERANGE || rc == -ENODEV);
		CHECK_EQ(look(fx, id, &st), 0);
		CHECK(st.len == off || st.len == off + len);
		CHECK_EQ(st.crc, text_crc(text, 0, st.len));
		CHECK(rc != 0 || st.len == off + len);
		if (st.len == off + len)
			return;
	}
}

static void seal_until(struct node_fixture *fx, struct chunk_id id, uint64_t text, uint64_t len)
{
	struct chunk_stat st;
	for (;;) {
		int rc = node_seal(&fx->call, 1, id, 1, len, NULL);
		CHECK(rc == 0 || in_doubt(rc) || rc == -ENODEV);
		CHECK_EQ(look(fx, id, &st), 0);
		CHECK(rc != 0 || st.sealed);
		if (st.sealed) {
			CHECK(st.len == len && st.crc == text_crc(text, 0, len));
			return;
		}
	}
}

static void delete_until(struct node_fixture *fx, struct chunk_id id)
{
	struct chunk_stat st;
	for (;;) {
		int rc = node_delete_one(&fx->call, 1, id);
		CHECK(rc == 0 || in_doubt(rc) || rc == -ENOENT || rc == -ENODEV);
		int is = look(fx, id, &st);
		CHECK(rc != 0 || is == -ENOENT);
		if (is == -ENOENT)
			return;
	}
}

static void check_bytes(struct node_fixture *fx, struct chunk_id id, uint64_t text, uint64_t len)
{
	int rc;
	while (in_doubt(rc = fixture_get(fx, 1, id, text, 0, len)) || rc == -ENODEV)
		CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
	CHECK_EQ(rc, 0);
}

static void client_main(void *arg)
{
	struct crash *c = arg;
	struct node_fixture fx = {0};
	struct chunk_stat st;
	rt_pool_init(&fx.pool, FIXTURE_POOL_BYTES);
	CHECK_EQ(rpc_channel_open(&fx.channel, "n1:7000",
				  &(struct rpc_channel_options){.pool = &fx.pool}),
		 0);
	fx.call = (struct node_call){.channel = fx.channel, .timeout_ns = 2 * NS_PER_S};
	if (!c->done) {
		put_until(&fx, grown, 1, FIRST, true);
		append_until(&fx, grown, 1, FIRST, MORE);
		put_until(&fx, whole, 2, 20000, false);
		put_until(&fx, brief, 3, 100, false);
		seal_until(&fx, grown, 1, SEALED);
		delete_until(&fx, brief);
	}
	/* The chunk is still missing after another loss of power. */
	CHECK_EQ(look(&fx, brief, &st), -ENOENT);
	check_bytes(&fx, grown, 1, SEALED);
	check_bytes(&fx, whole, 2, 20000);
	if (c->done)
		c->checked = true;
	c->done = true;
	rpc_channel_close(fx.channel);
	rt_pool_fini(&fx.pool);
}

static bool client_ended(void *arg)
{
	struct crash *c = arg;
	return !sim_node_running(c->client);
}

/* --- the sweep -------------------------------------------------------------------------------- */

static bool crash_once(uint64_t nth, bool pool, unsigned loops, bool power)
{
	struct sim_config config;
	struct crash c = {.pool = pool, .loops = loops};
	sim_config_init(&config, 1000 + nth, 0);
	c.sim = sim_open(&config);
	CHECK(c.sim != NULL);
	c.server = sim_node_add(c.sim, "n1", 0);
	c.client = sim_node_add(c.sim, "n2", 0);
	sim_disk_add(c.server, "d0", 64 * MIB);
	sim_node_start(c.server, server_main, &c);
	sim_node_start(c.client, client_main, &c);
	sim_node_crash_at(c.server, nth, power);
	if (!sim_run_until(c.sim, client_ended, &c, 3600 * NS_PER_S)) {
		fprintf(stderr, "stuck: nth %llu pool %d loops %u power %d\n",
			(unsigned long long)nth, pool, loops, power);
		sim_trace_print(c.sim, stderr, 60);
		abort();
	}
	CHECK(c.done);
	bool crashed = sim_node_lives(c.server) > 1;
	sim_node_crash_at(c.server, 0, false);
	sim_node_crash(c.server, true);
	sim_node_start(c.client, client_main, &c);
	CHECK(sim_run_until(c.sim, client_ended, &c, 3600 * NS_PER_S));
	CHECK(c.checked);
	sim_node_stop(c.server);
	sim_close(c.sim);
	return crashed;
}

static void sweep(bool pool, unsigned loops)
{
	for (int power = 0; power < 2; power++) {
		uint64_t nth = 1;
		while (crash_once(nth, pool, loops, power == 1))
			nth++;
		CHECK(nth > 100);
	}
}

static void a_node_that_crashes_at_any_wait_loses_no_acknowledged_change(void **state)
{
	(void)state;
	sweep(false, 1);
	sweep(false, 3);
}

static void a_pool_that_crashes_at_any_wait_loses_no_acknowledged_change(void **state)
{
	(void)state;
	sweep(true, 1);
	sweep(true, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_that_crashes_at_any_wait_loses_no_acknowledged_change),
		cmocka_unit_test(a_pool_that_crashes_at_any_wait_loses_no_acknowledged_change),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
