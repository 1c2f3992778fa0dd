// SPDX-License-Identifier: Apache-2.0
#include "node_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "rt/call.h"
#include "rt/file.h"
#include "rt/pool.h"
#include "rt/rt.h"

static const char *const folder_names[FIXTURE_FOLDERS] = {"d1", "d2", "gone", "m0", "m1", "m2",
							  "m3", "m4", "c0",   "c1", "c2", "s0"};
static const uint64_t folder_disks[FIXTURE_FOLDERS] = {1,   2,   3,   100, 101, 102,
						       103, 104, 110, 111, 112, 119};

void fixture_init(struct node_fixture *fx, const char *root, const char *listen)
{
	*fx = (struct node_fixture){0};
	snprintf(fx->root, sizeof(fx->root), "%s", root);
	for (size_t i = 0; i < FIXTURE_FOLDERS; i++) {
		snprintf(fx->paths[i], sizeof(fx->paths[i]), "%s/%s", root, folder_names[i]);
		fx->folders[i] =
			(struct node_folder){.disk = folder_disks[i], .path = fx->paths[i]};
	}
	for (size_t i = 0; i < 3; i++)
		fx->specs[i] = (struct node_disk_spec){
			.disk = i + 1, .folders = &fx->folders[i], .folder_count = 1};
	fx->specs[3] = (struct node_disk_spec){
		.disk = 10,
		.pool = true,
		.folders = &fx->folders[3],
		.folder_count = 5,
		.shape = {.k = 2, .p = 1, .place = PLACE_DECLUSTERED, .piece_bytes = 4096}};
	fx->specs[4] = (struct node_disk_spec){
		.disk = 11,
		.pool = true,
		.folders = &fx->folders[8],
		.folder_count = 3,
		.spares = &fx->folders[11],
		.spare_count = 1,
		.shape = {.k = 2, .p = 1, .place = PLACE_CLUSTERED, .piece_bytes = 4096}};
	for (size_t i = 0; i < FIXTURE_DISKS; i++)
		fx->specs[i].sched = &sched_nvme;
	fx->options = (struct node_serve_options){
		.listen = listen,
		.disks = {.cluster = {1, 2},
			  .node = 3,
			  .disks = fx->specs,
			  .disk_count = FIXTURE_DISKS,
			  .format = true,
			  .fan_bits = 2,
			  .probe_ns = 100 * NS_PER_MS,
			  .give_up_ns = 300 * NS_PER_MS},
		.pool_bytes = FIXTURE_POOL_BYTES,
		.prep_cores = 2,
		.ctx = fx,
	};
	rt_cond_init(&fx->ready_or_ended);
}

void fixture_make_folders(struct node_fixture *fx)
{
	for (size_t i = 0; i < FIXTURE_FOLDERS; i++)
		if (i != 2)
			CHECK_EQ(rt_mkdir(fx->paths[i]), 0);
}

static int fixture_ready(void *ctx, struct node *n, const char *addr)
{
	struct node_fixture *fx = ctx;
	fx->node = n;
	snprintf(fx->addr, sizeof(fx->addr), "%s", addr);
	rt_cond_broadcast(&fx->ready_or_ended);
	return 0;
}

static void fixture_ending(void *ctx)
{
	struct node_fixture *fx = ctx;
	fx->node = NULL;
}

static void fixture_serve(void *arg)
{
	struct node_fixture *fx = arg;
	fx->options.ready = fixture_ready;
	fx->options.ended = fixture_ending;
	struct rt_team team;
	fx->served = rt_team_open(&team, fx->loops > 0 ? fx->loops : 1);
	if (fx->served == 0) {
		fx->options.team = &team;
		/* Most tests use the first disk: it is not on the loop that listens. */
		fx->options.first_loop = 1;
		fx->served = node_serve(&fx->options);
		rt_team_close(&team);
	}
	fx->ended = true;
	rt_cond_broadcast(&fx->ready_or_ended);
}

int fixture_start(struct node_fixture *fx)
{
	fx->ended = false;
	int rc = rt_spawn(&fx->server, "node", fixture_serve, fx);
	while (rc == 0 && fx->node == NULL && !fx->ended)
		rc = rt_cond_wait(&fx->ready_or_ended);
	if (rc == 0 && fx->ended)
		rc = fx->served;
	if (rc != 0)
		return rc;
	rt_pool_init(&fx->pool, FIXTURE_POOL_BYTES);
	rc = rpc_channel_open(&fx->channel, fx->addr,
			      &(struct rpc_channel_options){.pool = &fx->pool,
							    .self = fx->self,
							    .server = fx->self != NULL ? 3 : 0});
	fx->call = (struct node_call){.channel = fx->channel, .timeout_ns = 60 * NS_PER_S};
	return rc;
}

void fixture_stop(struct node_fixture *fx)
{
	if (fx->channel != NULL) {
		rpc_channel_close(fx->channel);
		rt_pool_fini(&fx->pool);
	}
	fx->channel = NULL;
	if (fx->server != NULL) {
		rt_cancel(fx->server);
		rt_join(fx->server);
	}
	fx->server = NULL;
}

/* --- the two worlds --------------------------------------------------------------------------- */

/* The fixtures of stores take a body without an argument. */
static void (*fixture_body)(struct node_fixture *fx);
static const char *fixture_listen;
static unsigned fixture_loops;

static void fixture_in_dir(const char *path)
{
	struct node_fixture fx;
	fixture_init(&fx, path, fixture_listen);
	fx.loops = fixture_loops;
	fixture_make_folders(&fx);
	CHECK_EQ(fixture_start(&fx), 0);
	fixture_body(&fx);
	fixture_stop(&fx);
	CHECK_EQ(fx.served, -ECANCELED);
}

static void fixture_run_on(enum fixture_world world, unsigned loops,
			   void (*body)(struct node_fixture *fx))
{
	fixture_body = body;
	fixture_loops = loops;
	fixture_listen = world == FIXTURE_REAL ? "127.0.0.1:0" : "n1:7000";
	if (world == FIXTURE_REAL)
		fixture_in_real_dir(fixture_in_dir);
	else
		fixture_in_sim_dir(1, fixture_in_dir);
}

void node_fixture_run(enum fixture_world world, void (*body)(struct node_fixture *fx))
{
	fixture_run_on(world, 1, body);
}

void node_fixture_run_everywhere(void (*body)(struct node_fixture *fx))
{
	for (unsigned loops = 1; loops <= 3; loops += 2) {
		fixture_run_on(FIXTURE_SIM, loops, body);
		fixture_run_on(FIXTURE_REAL, loops, body);
	}
}

/* --- texts ------------------------------------------------------------------------------------ */

struct slice fixture_text(struct node_fixture *fx, uint64_t text, uint64_t off, uint64_t len)
{
	struct slice s = {0};
	if (len == 0)
		return s;
	CHECK_EQ(rt_pool_get(&fx->pool, len, &s.buf), 0);
	text_fill(text, off, s.buf->data, len);
	s.len = len;
	s.crc = text_crc(text, off, len);
	return s;
}

int fixture_put(struct node_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t text,
		uint64_t len, bool open, uint64_t capacity)
{
	struct node_put p = {
		.data = fixture_text(fx, text, 0, len), .open = open, .capacity = capacity};
	int rc = node_put(&fx->call, disk, id, &p);
	buf_unref(p.data.buf);
	return rc;
}

int fixture_append(struct node_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t epoch,
		   uint64_t text, uint64_t off, uint64_t len)
{
	struct slice s = fixture_text(fx, text, off, len);
	int rc = node_append(&fx->call, disk, id, epoch, off, s);
	buf_unref(s.buf);
	return rc;
}

int fixture_get(struct node_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t text,
		uint64_t off, uint64_t len)
{
	struct slice s;
	int rc = node_get_one(&fx->call, disk, id, off, len, NULL, &s);
	if (rc == 0) {
		CHECK_EQ(s.len, len);
		CHECK(len == 0 || text_is(text, off, s.buf->data + s.offset, len));
		CHECK_EQ(s.crc, len == 0 ? 0 : text_crc(text, off, len));
	}
	buf_unref(s.buf);
	return rc;
}

/* --- disks and pools -------------------------------------------------------------------------- */

enum store_state fixture_state(struct node_fixture *fx, uint64_t disk)
{
	AUTO_REPLY struct rpc_reply reply;
	CHECK_EQ(node_disks(&fx->call, disk, &reply), 0);
	return (enum store_state)NODE_DISKS(&reply)->disks[0]->state;
}

void fixture_await_state(struct node_fixture *fx, uint64_t disk, enum store_state want)
{
	for (int i = 0; i < 6000; i++) {
		if (fixture_state(fx, disk) == want)
			return;
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	}
	CHECK(!"the disk never gets there");
}

struct fixture_pool fixture_look(struct node_fixture *fx, uint64_t disk)
{
	AUTO_REPLY struct rpc_reply reply;
	CHECK_EQ(node_disks(&fx->call, disk, &reply), 0);
	const Terrane__Node__PoolInfo *p = NODE_DISKS(&reply)->disks[0]->pool;
	CHECK(p != NULL);
	return (struct fixture_pool){.down = p->n_down,
				     .rebuilds = p->rebuilds,
				     .rows = p->rebuilt_rows,
				     .lost = p->lost_chunks,
				     .rebuilding = p->rebuilding};
}

struct fixture_pool fixture_await_rebuild(struct node_fixture *fx, uint64_t disk, uint64_t rebuilds)
{
	for (int i = 0; i < 6000; i++) {
		struct fixture_pool l = fixture_look(fx, disk);
		if (l.rebuilds > rebuilds && !l.rebuilding)
			return l;
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	}
	CHECK(!"the pool is never rebuilt");
	return (struct fixture_pool){0};
}

void fixture_move(struct node_fixture *fx, int folder, const char *from, const char *to)
{
	char a[320], z[320];
	snprintf(a, sizeof(a), "%s/%s", fx->paths[folder], from);
	snprintf(z, sizeof(z), "%s/%s", fx->paths[folder], to);
	CHECK_EQ(rt_rename(a, z), 0);
}

void fixture_take_away(struct node_fixture *fx, int folder)
{
	fixture_move(fx, folder, "superblock", "away");
}

void fixture_bring_back(struct node_fixture *fx, int folder)
{
	fixture_move(fx, folder, "away", "superblock");
}

void fixture_fill(struct node_fixture *fx, uint64_t disk, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(fixture_put(fx, disk, (struct chunk_id){100 + i, i}, i, 20000 + i, false,
				     0),
			 0);
}

int fixture_count_bad(struct node_fixture *fx, uint64_t disk, uint32_t n)
{
	int bad = 0;
	for (uint32_t i = 0; i < n; i++)
		bad += fixture_get(fx, disk, (struct chunk_id){100 + i, i}, i, 0, 20000 + i) != 0;
	return bad;
}
