// SPDX-License-Identifier: Apache-2.0
#include "node_box.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "rt/file.h"
#include "rt/pool.h"
#include "rt/rt.h"

static const char *const folder_names[BOX_FOLDERS] = {"d1", "d2", "gone", "m0", "m1", "m2",
						      "m3", "m4", "c0",   "c1", "c2", "s0"};
static const uint64_t folder_disks[BOX_FOLDERS] = {1,   2,   3,   100, 101, 102,
						   103, 104, 110, 111, 112, 119};

void box_init(struct node_box *b, const char *root, const char *listen)
{
	*b = (struct node_box){0};
	snprintf(b->root, sizeof(b->root), "%s", root);
	for (size_t i = 0; i < BOX_FOLDERS; i++) {
		snprintf(b->paths[i], sizeof(b->paths[i]), "%s/%s", root, folder_names[i]);
		b->folders[i] = (struct node_folder){.disk = folder_disks[i], .path = b->paths[i]};
	}
	for (size_t i = 0; i < 3; i++)
		b->specs[i] = (struct node_disk_spec){
			.disk = i + 1, .folders = &b->folders[i], .folder_count = 1};
	b->specs[3] = (struct node_disk_spec){
		.disk = 10,
		.pool = true,
		.folders = &b->folders[3],
		.folder_count = 5,
		.shape = {.k = 2, .p = 1, .place = PLACE_DECLUSTERED, .piece_bytes = 4096}};
	b->specs[4] = (struct node_disk_spec){
		.disk = 11,
		.pool = true,
		.folders = &b->folders[8],
		.folder_count = 3,
		.spares = &b->folders[11],
		.spare_count = 1,
		.shape = {.k = 2, .p = 1, .place = PLACE_CLUSTERED, .piece_bytes = 4096}};
	for (size_t i = 0; i < BOX_DISKS; i++)
		b->specs[i].sched = &sched_nvme;
	b->options = (struct node_serve_options){
		.listen = listen,
		.disks = {.cluster = {1, 2},
			  .node = 3,
			  .disks = b->specs,
			  .disk_count = BOX_DISKS,
			  .format = true,
			  .fan_bits = 2,
			  .probe_ns = 100 * NS_PER_MS,
			  .give_up_ns = 300 * NS_PER_MS},
		.pool_bytes = BOX_POOL_BYTES,
		.ctx = b,
	};
	rt_cond_init(&b->ready_or_ended);
}

void box_make_folders(struct node_box *b)
{
	for (size_t i = 0; i < BOX_FOLDERS; i++)
		if (i != 2)
			CHECK_EQ(rt_mkdir(b->paths[i]), 0);
}

static int box_ready(void *ctx, struct node *n, const char *addr)
{
	struct node_box *b = ctx;
	b->node = n;
	snprintf(b->addr, sizeof(b->addr), "%s", addr);
	rt_cond_broadcast(&b->ready_or_ended);
	return 0;
}

static void box_ending(void *ctx)
{
	struct node_box *b = ctx;
	b->node = NULL;
}

static void box_serve(void *arg)
{
	struct node_box *b = arg;
	b->options.ready = box_ready;
	b->options.ended = box_ending;
	b->served = node_serve(&b->options);
	b->ended = true;
	rt_cond_broadcast(&b->ready_or_ended);
}

int box_start(struct node_box *b)
{
	b->ended = false;
	int rc = rt_spawn(&b->server, "node", box_serve, b);
	while (rc == 0 && b->node == NULL && !b->ended)
		rc = rt_cond_wait(&b->ready_or_ended);
	if (rc == 0 && b->ended)
		rc = b->served;
	if (rc != 0)
		return rc;
	rt_pool_init(&b->pool, BOX_POOL_BYTES);
	rc = rpc_channel_open(&b->channel, b->addr,
			      &(struct rpc_channel_options){.pool = &b->pool});
	b->call = (struct node_call){.channel = b->channel, .timeout_ns = 60 * NS_PER_S};
	return rc;
}

void box_stop(struct node_box *b)
{
	if (b->channel != NULL) {
		rpc_channel_close(b->channel);
		rt_pool_fini(&b->pool);
	}
	b->channel = NULL;
	if (b->server != NULL) {
		rt_cancel(b->server);
		rt_join(b->server);
	}
	b->server = NULL;
}

/* --- the two worlds --------------------------------------------------------------------------- */

/* The fixtures of stores take a body without an argument. */
static void (*box_body)(struct node_box *b);
static const char *box_listen;

static void box_in_dir(const char *path)
{
	struct node_box b;
	box_init(&b, path, box_listen);
	box_make_folders(&b);
	CHECK_EQ(box_start(&b), 0);
	box_body(&b);
	box_stop(&b);
	CHECK_EQ(b.served, -ECANCELED);
}

void box_run(enum box_world world, void (*body)(struct node_box *b))
{
	box_body = body;
	box_listen = world == BOX_REAL ? "127.0.0.1:0" : "n1:7000";
	if (world == BOX_REAL)
		fixture_in_real_dir(box_in_dir);
	else
		fixture_in_sim_dir(1, box_in_dir);
}

void box_run_everywhere(void (*body)(struct node_box *b))
{
	box_run(BOX_SIM, body);
	box_run(BOX_REAL, body);
}

/* --- texts ------------------------------------------------------------------------------------ */

struct slice box_text(struct node_box *b, uint64_t text, uint64_t off, uint64_t len)
{
	struct slice s = {0};
	if (len == 0)
		return s;
	CHECK_EQ(rt_pool_get(&b->pool, len, &s.buf), 0);
	text_fill(text, off, s.buf->data, len);
	s.len = len;
	s.crc = text_crc(text, off, len);
	return s;
}

int box_put(struct node_box *b, uint64_t disk, struct chunk_id id, uint64_t text, uint64_t len,
	    bool open, uint64_t capacity)
{
	struct node_put p = {.data = box_text(b, text, 0, len), .open = open, .capacity = capacity};
	int rc = node_put(&b->call, disk, id, &p);
	buf_unref(p.data.buf);
	return rc;
}

int box_append(struct node_box *b, uint64_t disk, struct chunk_id id, uint64_t epoch, uint64_t text,
	       uint64_t off, uint64_t len)
{
	struct slice s = box_text(b, text, off, len);
	int rc = node_append(&b->call, disk, id, epoch, off, s);
	buf_unref(s.buf);
	return rc;
}

int box_get(struct node_box *b, uint64_t disk, struct chunk_id id, uint64_t text, uint64_t off,
	    uint64_t len)
{
	struct slice s;
	int rc = node_get_one(&b->call, disk, id, off, len, NULL, &s);
	if (rc == 0) {
		CHECK_EQ(s.len, len);
		CHECK(len == 0 || text_is(text, off, s.buf->data + s.offset, len));
		CHECK_EQ(s.crc, len == 0 ? 0 : text_crc(text, off, len));
	}
	buf_unref(s.buf);
	return rc;
}

/* --- disks and pools -------------------------------------------------------------------------- */

enum store_state box_state(struct node_box *b, uint64_t disk)
{
	AUTO_REPLY struct rpc_reply reply;
	CHECK_EQ(node_disks(&b->call, disk, &reply), 0);
	return (enum store_state)NODE_DISKS(&reply)->disks[0]->state;
}

void box_await_state(struct node_box *b, uint64_t disk, enum store_state want)
{
	for (int i = 0; i < 1000; i++) {
		if (box_state(b, disk) == want)
			return;
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	}
	CHECK(!"the disk never gets there");
}

struct box_pool box_look(struct node_box *b, uint64_t disk)
{
	AUTO_REPLY struct rpc_reply reply;
	CHECK_EQ(node_disks(&b->call, disk, &reply), 0);
	const Terrane__Node__PoolInfo *p = NODE_DISKS(&reply)->disks[0]->pool;
	CHECK(p != NULL);
	return (struct box_pool){.down = p->n_down,
				 .rebuilds = p->rebuilds,
				 .rows = p->rebuilt_rows,
				 .lost = p->lost_chunks,
				 .rebuilding = p->rebuilding};
}

struct box_pool box_await_rebuild(struct node_box *b, uint64_t disk, uint64_t rebuilds)
{
	for (int i = 0; i < 1000; i++) {
		struct box_pool l = box_look(b, disk);
		if (l.rebuilds > rebuilds && !l.rebuilding)
			return l;
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	}
	CHECK(!"the pool is never rebuilt");
	return (struct box_pool){0};
}

void box_move(struct node_box *b, int folder, const char *from, const char *to)
{
	char a[320], z[320];
	snprintf(a, sizeof(a), "%s/%s", b->paths[folder], from);
	snprintf(z, sizeof(z), "%s/%s", b->paths[folder], to);
	CHECK_EQ(rt_rename(a, z), 0);
}

void box_take_away(struct node_box *b, int folder)
{
	box_move(b, folder, "superblock", "away");
}

void box_bring_back(struct node_box *b, int folder)
{
	box_move(b, folder, "away", "superblock");
}

void box_fill(struct node_box *b, uint64_t disk, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(box_put(b, disk, (struct chunk_id){100 + i, i}, i, 20000 + i, false, 0),
			 0);
}

int box_count_bad(struct node_box *b, uint64_t disk, uint32_t n)
{
	int bad = 0;
	for (uint32_t i = 0; i < n; i++)
		bad += box_get(b, disk, (struct chunk_id){100 + i, i}, i, 0, 20000 + i) != 0;
	return bad;
}
