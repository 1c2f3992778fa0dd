// SPDX-License-Identifier: Apache-2.0
/* The background services against a simulated cluster: real nodes, real metadata, the real client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/label.h"
#include "client_box.h"
#include "janitor/janitor.h"
#include "meta/meta_client.h"
#include "meta/wire.h"

#define GRACE_NS (60 * NS_PER_S)
#define TEXT_BYTES ((uint64_t)(200 * KIB) + 123)

static const char *const META_ADDRS[] = {"meta:7100"};

struct lab {
	struct client_box *box;
	struct engine *engine;
	struct rpc_pool pool;
	struct meta_client *client;
	struct meta_call root;
};

/* --- helpers ---------------------------------------------------------------------------------- */

static void lab_open(struct lab *l, struct client_box *b)
{
	*l = (struct lab){.box = b};
	rt_deadline_set(RT_NEVER);
	CHECK_EQ(cbox_engine_open(b, &(struct fabric_options){0}, &l->engine), 0);
	rpc_pool_init(&l->pool, 16 * MIB);
	struct meta_client_options o = {.addrs = META_ADDRS,
					.addr_count = 1,
					.tenant = META_SYSTEM,
					.channel = {.pool = &l->pool}};
	CHECK_EQ(meta_client_open(&l->client, &o), 0);
	l->root = (struct meta_call){.client = l->client};
}

static void lab_close(struct lab *l)
{
	rt_deadline_set(RT_NEVER);
	meta_client_close(l->client);
	rpc_pool_fini(&l->pool);
	engine_close(l->engine);
}

static struct janitor_options quick(void)
{
	return (struct janitor_options){
		.addrs = META_ADDRS,
		.addr_count = 1,
		.grace_ns = GRACE_NS,
		.lease_ns = 20 * NS_PER_S,
		.delay_ns = 30 * NS_PER_S,
		.disk_bytes_per_s = 1000000000000,
		.rack_bytes_per_s = 1000000000000,
	};
}

static struct janitor *hire(const struct janitor_options *o)
{
	struct janitor *j;
	rt_deadline_set(RT_NEVER);
	CHECK_EQ(janitor_open(&j, o), 0);
	return j;
}

static struct janitor_stats stats_of(const struct janitor *j)
{
	struct janitor_stats s;
	janitor_stats(j, &s);
	return s;
}

static int write_text(struct lab *l, const char *path, uint64_t text, uint64_t len,
		      const char *encoding)
{
	struct terrane_options o = {.encoding = encoding, .block_bytes = 64 * KIB};
	struct call c;
	engine_call(l->engine, &c, &o);
	struct efile *f;
	int rc = engine_create(&c, path, 0, &o, &f);
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	cbox_fill(text, 0, bytes, len);
	struct iovec iov = {bytes, len};
	if (rc == 0) {
		rc = engine_append(&c, f, &iov, 1, NULL);
		rc = rc == 0 ? engine_file_close(&c, f) : (engine_file_discard(f), rc);
	}
	free(bytes);
	rt_deadline_set(RT_NEVER);
	return rc;
}

static int read_text(struct lab *l, const char *path, uint64_t text, uint64_t len)
{
	struct call c;
	engine_call(l->engine, &c, NULL);
	struct efile *f;
	int64_t rc = engine_file_open(&c, path, &f);
	if (rc == 0) {
		uint8_t *bytes = malloc(len);
		CHECK(bytes != NULL);
		struct iovec iov = {bytes, len};
		uint32_t crc;
		rc = engine_preadv(&c, f, &iov, 1, 0, &crc);
		CHECK(rc < 0 || (rc == (int64_t)len && cbox_same(text, 0, bytes, len)));
		free(bytes);
		CHECK_EQ(engine_file_close(&c, f), 0);
	}
	rt_deadline_set(RT_NEVER);
	return rc < 0 ? (int)rc : 0;
}

static int remove_path(struct lab *l, const char *path)
{
	struct call c;
	engine_call(l->engine, &c, NULL);
	int rc = engine_remove(&c, path);
	rt_deadline_set(RT_NEVER);
	return rc;
}

static size_t chunks_on(struct lab *l, uint64_t disk, struct chunk_id *out, size_t max)
{
	struct call c;
	call_init(&c, engine_fabric(l->engine));
	struct disk_use u;
	struct store_cursor at = {0};
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 10 * NS_PER_S;
	int64_t n = node_list(&u.node, disk, &at, out, max);
	disk_end(&c, &u, n < 0 ? (int)n : 0, 0);
	CHECK(n >= 0);
	return (size_t)n;
}

static size_t chunks_everywhere(struct lab *l)
{
	struct chunk_id ids[512];
	size_t n = 0;
	for (unsigned i = 0; i < l->box->node_count; i++)
		n += chunks_on(l, 10 * i + 1, ids, ARRAY_LEN(ids));
	return n;
}

static uint64_t used_bytes(struct lab *l)
{
	struct meta_tenant t;
	CHECK_EQ(meta_client_tenant_get(&l->root, 1, NULL, &t), 0);
	return t.used_bytes;
}

/* How many blocks have a chunk there, as the metadata knows it. */
static size_t blocks_on(struct lab *l, uint64_t disk, struct meta_on_disk *first)
{
	size_t n = 0;
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_on_disk on[32];
		int64_t got = meta_client_disk_blocks(&l->root, disk, &w, on, ARRAY_LEN(on));
		CHECK(got >= 0);
		if (n == 0 && got > 0 && first != NULL)
			*first = on[0];
		n += (size_t)got;
	}
	return n;
}

/* Every chunk of every sealed block is where its record says, whole, and has its label. */
static size_t check_whole(struct lab *l)
{
	struct arena a;
	arena_init(&a, 64 * MIB);
	size_t blocks = 0;
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t n = meta_client_blocks(&l->root, &w, &a, at, ARRAY_LEN(at));
		CHECK(n >= 0);
		for (int64_t i = 0; i < n; i++, blocks++) {
			const struct meta_block *b = &at[i].block;
			for (size_t k = 0; k < b->chunk_count; k++) {
				struct call c;
				call_init(&c, engine_fabric(l->engine));
				struct disk_use u;
				struct chunk_stat st;
				struct store_range bad[4];
				struct chunk_id id = {b->chunk_block, (uint32_t)k};
				uint32_t tenant;
				uint64_t block;
				CHECK(b->chunks[k].disk != 0 && !b->chunks[k].damaged);
				CHECK_EQ(disk_begin(&c, b->chunks[k].disk, &u), 0);
				u.node.timeout_ns = 10 * NS_PER_S;
				CHECK_EQ(node_stat_one(&u.node, u.disk, id, &st), 0);
				CHECK_EQ(node_scan(&u.node, u.disk, id, bad, 4), 0);
				disk_end(&c, &u, 0, 0);
				CHECK_EQ(label_read(st.label, &tenant, &block), 0);
				CHECK(tenant == at[i].tenant && block == b->id);
			}
		}
	}
	arena_fini(&a);
	return blocks;
}

static void collect_for(struct janitor *j, uint64_t time_ns)
{
	uint64_t end_ns = rt_now_ns() + time_ns;
	while (rt_now_ns() < end_ns) {
		CHECK_EQ(janitor_collect(j), 0);
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	}
}

static void fresh_map(struct lab *l)
{
	struct cluster *map;
	CHECK_EQ(meta_client_map(&l->root, 0, &map), 0);
	CHECK_EQ(rt_sleep_ns(3 * NS_PER_S), 0);
	/* The engine looks when it is asked for something. */
	struct call c;
	engine_call(l->engine, &c, NULL);
	struct terrane_stat st;
	(void)engine_stat(&c, "/", &st);
	rt_deadline_set(RT_NEVER);
}

/* --- collection ------------------------------------------------------------------------------- */

static void collection_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&l, "/stays", 1, TEXT_BYTES, "rs:2+1"), 0);
	size_t before = chunks_everywhere(&l);
	CHECK_EQ(used_bytes(&l), TEXT_BYTES);
	CHECK_EQ(write_text(&l, "/goes", 2, TEXT_BYTES, "r2"), 0);
	CHECK_EQ(used_bytes(&l), 2 * TEXT_BYTES);
	size_t with = chunks_everywhere(&l);
	CHECK(with > before);
	CHECK_EQ(remove_path(&l, "/goes"), 0);
	/* Within the grace nothing of it is touched. */
	collect_for(j, GRACE_NS - 5 * NS_PER_S);
	CHECK_EQ(chunks_everywhere(&l), with);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(chunks_everywhere(&l), before);
	CHECK_EQ(used_bytes(&l), TEXT_BYTES);
	CHECK_EQ(read_text(&l, "/stays", 1, TEXT_BYTES), 0);
	CHECK_EQ(stats_of(j).chunks_deleted, with - before);
	janitor_close(j);
	lab_close(&l);
}

static void deleted_data_is_gone_from_disks_and_quota_exact_after_the_grace(void **state)
{
	(void)state;
	cbox_run_all(4, 1, collection_body);
}

static void append_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	struct terrane_options t = {
		.encoding = "r3", .block_bytes = 1 * MIB, .timeout_ms = 3600 * 1000};
	struct call c;
	engine_call(l.engine, &c, &t);
	struct efile *f;
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &t, &f), 0);
	uint8_t bytes[1000];
	for (uint64_t i = 0; i < 20; i++) {
		cbox_fill(5, i * sizeof(bytes), bytes, sizeof(bytes));
		struct iovec iov = {bytes, sizeof(bytes)};
		CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
		CHECK_EQ(engine_flush(&c, f), 0);
		for (int k = 0; k < 4; k++) {
			CHECK_EQ(rt_sleep_ns(GRACE_NS / 4 + NS_PER_S), 0);
			CHECK_EQ(janitor_collect(j), 0);
		}
		CHECK_EQ(janitor_orphans(j), 0);
	}
	CHECK_EQ(engine_file_close(&c, f), 0);
	rt_deadline_set(RT_NEVER);
	collect_for(j, 4 * GRACE_NS);
	CHECK_EQ(read_text(&l, "/log", 5, 20 * sizeof(bytes)), 0);
	CHECK_EQ(stats_of(j).chunks_deleted, 0);
	CHECK_EQ(stats_of(j).orphans_deleted, 0);
	CHECK(stats_of(j).epochs > 10);
	janitor_close(j);
	lab_close(&l);
}

static void what_a_writer_still_appends_to_is_not_collected(void **state)
{
	(void)state;
	cbox_run_all(4, 1, append_body);
}

static void put_orphan(struct lab *l, uint64_t disk, struct chunk_id id, uint32_t tenant,
		       uint64_t block)
{
	struct call c;
	call_init(&c, engine_fabric(l->engine));
	struct disk_use u;
	struct node_put p = {.epoch = 1};
	label_make(p.label, tenant, block);
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 10 * NS_PER_S;
	int rc = node_put(&u.node, disk, id, &p);
	disk_end(&c, &u, rc, 0);
	CHECK_EQ(rc, 0);
}

/* Names of chunks are not a tenant's own: where one is listed as dead, another's may be by now. */
static void another_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&l, "/goes", 2, 1000, "r2"), 0);
	struct meta_on_disk on = {0};
	uint64_t disk = 1;
	while (blocks_on(&l, disk, &on) == 0)
		disk += 10;
	struct chunk_id id = {on.block, on.index};
	struct call c;
	call_init(&c, engine_fabric(l.engine));
	struct disk_use u;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 10 * NS_PER_S;
	CHECK_EQ(node_delete_one(&u.node, disk, id), 0);
	disk_end(&c, &u, 0, 0);
	put_orphan(&l, disk, id, 7, on.block);
	CHECK_EQ(remove_path(&l, "/goes"), 0);
	collect_for(j, 14 * GRACE_NS);
	struct chunk_id left[4];
	CHECK_EQ(chunks_everywhere(&l), 1);
	CHECK_EQ(chunks_on(&l, disk, left, ARRAY_LEN(left)), 1);
	CHECK(chunk_id_equal(left[0], id));
	CHECK_EQ(stats_of(j).chunks_deleted, 1);
	CHECK_EQ(used_bytes(&l), 0);
	janitor_close(j);
	lab_close(&l);
}

static void a_dead_chunk_with_the_label_of_another_stays(void **state)
{
	(void)state;
	cbox_run_all(4, 1, another_body);
}

static void orphan_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&l, "/f", 1, TEXT_BYTES, "rs:2+1"), 0);
	size_t before = chunks_everywhere(&l);
	struct meta_on_disk on;
	CHECK(blocks_on(&l, 1, &on) > 0);
	put_orphan(&l, 1, (struct chunk_id){777, 0}, 1, 777); /* of a block that is not */
	put_orphan(&l, 1, (struct chunk_id){on.block, 9}, 1,
		   on.block);                                /* of one that has no such */
	put_orphan(&l, 11, (struct chunk_id){888, 0}, 0, 0); /* whose it is nobody knows */
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&l), before + 3);
	collect_for(j, GRACE_NS + 20 * NS_PER_S);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&l), before + 3);
	collect_for(j, 2 * GRACE_NS);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&l), before + 1);
	CHECK_EQ(stats_of(j).orphans_deleted, 2);
	CHECK(check_whole(&l) > 0);
	janitor_close(j);
	lab_close(&l);
}

static void chunks_that_no_record_knows_go_after_two_looks(void **state)
{
	(void)state;
	cbox_run_all(4, 1, orphan_body);
}

/* --- repair ----------------------------------------------------------------------------------- */

static const char *const ENCODINGS[] = {"r3", "rs:3+2", "lrc:2+2+1"};

static void write_all(struct lab *l)
{
	for (size_t i = 0; i < ARRAY_LEN(ENCODINGS); i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%zu", i);
		CHECK_EQ(write_text(l, path, i, TEXT_BYTES, ENCODINGS[i]), 0);
	}
	/* Chunks that were late are recorded by now. */
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
}

static void read_all(struct lab *l)
{
	for (size_t i = 0; i < ARRAY_LEN(ENCODINGS); i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%zu", i);
		CHECK_EQ(read_text(l, path, i, TEXT_BYTES), 0);
	}
}

static void lose_disk(struct lab *l, uint64_t disk)
{
	CHECK_EQ(meta_client_want_disk(&l->root, disk, CLUSTER_GONE), 0);
	fresh_map(l);
}

static void failed_disk_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&l);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	size_t blocks = check_whole(&l);
	size_t on = blocks_on(&l, 21, NULL);
	CHECK(on > 0);
	lose_disk(&l, 21);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(stats_of(j).failed + stats_of(j).no_room + stats_of(j).lost_blocks, 0);
	CHECK_EQ(check_whole(&l), blocks);
	read_all(&l);
	janitor_close(j);
	lab_close(&l);
}

static void the_blocks_of_a_failed_disk_are_whole_again(void **state)
{
	(void)state;
	cbox_run_all(8, 1, failed_disk_body);
}

static void silent_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&l);
	size_t on = blocks_on(&l, 31, NULL);
	CHECK(on > 0);
	cbox_do(b, cbox_kill_node, 31);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	/* Suspicion first. */
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(rt_sleep_ns(25 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&l, 31, NULL), 0);
	(void)check_whole(&l);
	read_all(&l);
	janitor_close(j);
	lab_close(&l);
}

static void a_silent_node_is_repaired_after_the_delay_and_not_before(void **state)
{
	(void)state;
	cbox_run_all(8, 1, silent_body);
}

static void drain_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	write_all(&l);
	size_t on = blocks_on(&l, 41, NULL);
	struct chunk_id ids[256];
	CHECK(on > 0);
	CHECK_EQ(meta_client_want_node(&l.root, 5, CLUSTER_DRAINING), 0);
	fresh_map(&l);
	CHECK_EQ(janitor_repair(j, false), 0);
	CHECK_EQ(stats_of(j).chunks_moved, on);
	CHECK_EQ(stats_of(j).chunks_repaired, 0);
	CHECK_EQ(blocks_on(&l, 41, NULL), 0);
	CHECK_EQ(chunks_on(&l, 41, ids, ARRAY_LEN(ids)), 0);
	(void)check_whole(&l);
	read_all(&l);
	janitor_close(j);
	lab_close(&l);
}

static void a_draining_node_is_emptied_by_copying(void **state)
{
	(void)state;
	cbox_run_all(8, 1, drain_body);
}

struct round {
	struct janitor *j;
	bool done;
	int rc;
};

static void repair_fiber(void *arg)
{
	struct round *r = arg;
	rt_deadline_set(RT_NEVER);
	r->rc = janitor_repair(r->j, true);
	r->done = true;
}

static void two_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	write_all(&l);
	size_t on = blocks_on(&l, 21, NULL);
	lose_disk(&l, 21);
	struct janitor_options o = quick();
	struct round r[2] = {{.j = hire(&o)}, {.j = hire(&o)}};
	struct rt_fiber *fibers[2];
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rt_spawn(&fibers[i], "janitor", repair_fiber, &r[i]), 0);
	for (int i = 0; i < 2; i++)
		rt_join(fibers[i]);
	/* Who came to a share second passed it by. */
	CHECK_EQ(janitor_repair(r[0].j, true), 0);
	CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	CHECK_EQ(stats_of(r[0].j).chunks_repaired + stats_of(r[1].j).chunks_repaired, on);
	CHECK_EQ(r[0].rc, 0);
	CHECK_EQ(r[1].rc, 0);
	(void)check_whole(&l);
	read_all(&l);
	for (int i = 0; i < 2; i++)
		janitor_close(r[i].j);
	lab_close(&l);
}

static void two_janitors_at_once_repair_each_chunk_once(void **state)
{
	(void)state;
	cbox_run_all(8, 1, two_body);
}

/* A janitor so slow that its leases run out while it works: nothing renews them between two pieces. */
static void expiry_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	write_all(&l);
	size_t on = blocks_on(&l, 21, NULL);
	lose_disk(&l, 21);
	struct janitor_options slow = quick();
	slow.lease_ns = 2 * NS_PER_S;
	slow.disk_bytes_per_s = 20000; /* 20% of it: 64 KiB take 16 s */
	slow.parallel = 1;
	struct janitor_options o = quick();
	o.lease_ns = 2 * NS_PER_S;
	struct round r[2] = {{.j = hire(&slow)}, {.j = hire(&o)}};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r[0]), 0);
	/* The quick one takes over what the slow one's lease covered, and does it all. */
	for (int i = 0; i < 40 && blocks_on(&l, 21, NULL) > 0; i++) {
		CHECK_EQ(rt_sleep_ns(2500 * NS_PER_MS), 0);
		CHECK_EQ(janitor_repair(r[1].j, false), 0);
	}
	CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	rt_join(fiber);
	CHECK_EQ(r[0].rc, 0);
	CHECK(stats_of(r[0].j).overtaken > 0); /* both were at the same block */
	CHECK(stats_of(r[1].j).chunks_repaired > 0);
	CHECK_EQ(stats_of(r[0].j).chunks_repaired + stats_of(r[1].j).chunks_repaired, on);
	(void)check_whole(&l);
	read_all(&l);
	for (int i = 0; i < 2; i++)
		janitor_close(r[i].j);
	lab_close(&l);
}

static void a_lease_that_expires_in_the_middle_of_a_repair_does_no_harm(void **state)
{
	(void)state;
	cbox_run_all(8, 1, expiry_body);
}

static void second_failure_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	write_all(&l);
	lose_disk(&l, 21);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 2000000;
	struct round r = {.j = hire(&o)};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
	while (stats_of(r.j).chunks_repaired == 0)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	CHECK(!r.done);
	cbox_do(b, cbox_kill_node, 51);
	CHECK_EQ(meta_client_want_disk(&l.root, 51, CLUSTER_GONE), 0);
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	fresh_map(&l);
	CHECK_EQ(janitor_repair(r.j, true), 0);
	CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	CHECK_EQ(blocks_on(&l, 51, NULL), 0);
	(void)check_whole(&l);
	read_all(&l);
	CHECK_EQ(stats_of(r.j).lost_blocks, 0);
	janitor_close(r.j);
	lab_close(&l);
}

static void a_second_failure_during_a_repair_is_repaired_too(void **state)
{
	(void)state;
	cbox_run_all(9, 1, second_failure_body);
}

static struct meta_block block_get(struct lab *l, uint64_t block, struct arena *a)
{
	struct meta_block b;
	struct rpc_context who;
	rpc_context_init(&who);
	who.tenant = META_SYSTEM ":1";
	struct meta_call c = {.client = l->client, .context = &who};
	CHECK_EQ(meta_client_block_get(&c, &block, 1, a, &b), 0);
	return b;
}

static void rotten_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	CHECK_EQ(write_text(&l, "/f", 3, TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct arena a;
	arena_init(&a, MIB);
	struct meta_on_disk on;
	CHECK(blocks_on(&l, 21, &on) > 0);
	struct meta_block k = block_get(&l, on.block, &a);
	/* A chunk that the cheapest plan would read. */
	uint32_t rotten = on.index == 0 ? 1 : 0;
	cbox_flip(b, k.chunks[rotten].disk, (struct chunk_id){k.chunk_block, rotten}, 100);
	lose_disk(&l, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	CHECK(stats_of(j).sources_bad > 0);
	/* It was reported, so the next look mends it too. */
	CHECK_EQ(janitor_repair(j, true), 0);
	(void)check_whole(&l);
	CHECK_EQ(read_text(&l, "/f", 3, TEXT_BYTES), 0);
	CHECK_EQ(stats_of(j).failed + stats_of(j).lost_blocks, 0);
	arena_fini(&a);
	janitor_close(j);
	lab_close(&l);
}

static void a_rotten_source_is_read_around_and_mended(void **state)
{
	(void)state;
	cbox_run_all(8, 1, rotten_body);
}

static void deleted_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	struct janitor_options o = quick();
	struct janitor *collector = hire(&o);
	CHECK_EQ(janitor_collect(collector), 0);
	write_all(&l);
	lose_disk(&l, 21);
	size_t on = blocks_on(&l, 21, NULL);
	o.disk_bytes_per_s = 4000; /* 20%: a chunk of 64 KiB takes 80 s */
	o.parallel = 16;
	struct round r = {.j = hire(&o)};
	for (size_t i = 0; i < ARRAY_LEN(ENCODINGS); i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%zu", i);
		CHECK_EQ(remove_path(&l, path), 0);
	}
	/* To the point where the blocks go next; then the repair begins, and they go while it reads. */
	struct rt_fiber *fiber = NULL;
	int rounds = 0;
	while (blocks_on(&l, 21, NULL) == on) {
		CHECK_EQ(janitor_collect(collector), 0);
		if (stats_of(collector).epochs == 5 && ++rounds == 6)
			CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	}
	CHECK(fiber != NULL && !r.done);
	while (!r.done) {
		CHECK_EQ(janitor_collect(collector), 0);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	}
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	CHECK(stats_of(r.j).overtaken > 0);
	/* What it had put is taken away again, by it or as an orphan. */
	for (int i = 0; i < 3; i++) {
		collect_for(collector, 3 * GRACE_NS);
		CHECK_EQ(janitor_orphans(collector), 0);
	}
	collect_for(collector, 6 * GRACE_NS);
	size_t left = 0;
	struct chunk_id ids[256];
	for (unsigned i = 0; i < b->node_count; i++)
		left += i == 2 ? 0 : chunks_on(&l, 10 * i + 1, ids, ARRAY_LEN(ids));
	CHECK_EQ(left, 0);
	CHECK_EQ(used_bytes(&l), 0);
	CHECK_EQ(stats_of(r.j).failed, 0);
	janitor_close(r.j);
	janitor_close(collector);
	lab_close(&l);
}

static void a_block_deleted_while_it_is_repaired_leaves_nothing(void **state)
{
	(void)state;
	cbox_run_all(8, 1, deleted_body);
}

static void back_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	write_all(&l);
	size_t blocks = check_whole(&l), on = blocks_on(&l, 31, NULL);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 20000; /* 20% of it: what a disk does twice waits for 5 s and more */
	o.parallel = 1;
	struct round r = {.j = hire(&o)};
	CHECK_EQ(janitor_repair(r.j, false), 0);
	cbox_do(b, cbox_kill_node, 31);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(r.j, false), 0);
	CHECK_EQ(rt_sleep_ns(35 * NS_PER_S), 0);
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "janitor", repair_fiber, &r), 0);
	while (stats_of(r.j).chunks_repaired == 0)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	cbox_do(b, cbox_start_node, 31);
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	fresh_map(&l);
	/* Some were made anew, the rest is where it was. */
	size_t stayed = blocks_on(&l, 31, NULL);
	CHECK(stayed > 0 && stayed < on);
	CHECK_EQ(stayed + stats_of(r.j).chunks_repaired, on);
	CHECK_EQ(check_whole(&l), blocks);
	read_all(&l);
	/* And what was made anew is not there twice for ever. */
	struct janitor *j = hire(&(struct janitor_options){
		.addrs = META_ADDRS, .addr_count = 1, .grace_ns = GRACE_NS});
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	collect_for(j, 3 * GRACE_NS);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(stats_of(j).orphans_deleted, on - stayed);
	CHECK_EQ(check_whole(&l), blocks);
	janitor_close(j);
	janitor_close(r.j);
	lab_close(&l);
}

static void a_disk_that_comes_back_while_it_is_repaired_keeps_what_is_left(void **state)
{
	(void)state;
	cbox_run_all(8, 1, back_body);
}

static void flap_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	write_all(&l);
	size_t blocks = check_whole(&l);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (int i = 0; i < 4; i++) {
		cbox_do(b, cbox_kill_node, 31);
		for (int k = 0; k < 5; k++) {
			CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
			CHECK_EQ(janitor_repair(j, true), 0);
		}
		cbox_do(b, cbox_start_node, 31);
		for (int k = 0; k < 3; k++) {
			CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
			CHECK_EQ(janitor_repair(j, true), 0);
		}
	}
	CHECK_EQ(stats_of(j).chunks_repaired + stats_of(j).chunks_moved, 0);
	fresh_map(&l);
	CHECK_EQ(check_whole(&l), blocks);
	janitor_close(j);
	lab_close(&l);
}

static void what_flaps_within_the_delay_costs_nothing(void **state)
{
	(void)state;
	cbox_run_all(8, 1, flap_body);
}

static void no_room_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	CHECK_EQ(write_text(&l, "/f", 3, TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&l, 21, NULL);
	lose_disk(&l, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK(stats_of(j).no_room > 0);
	CHECK_EQ(stats_of(j).failed, 0);
	CHECK_EQ(blocks_on(&l, 21, NULL), on);
	CHECK_EQ(read_text(&l, "/f", 3, TEXT_BYTES), 0);
	janitor_close(j);
	lab_close(&l);
}

static void without_room_a_block_stays_as_it_is(void **state)
{
	(void)state;
	cbox_run_all(5, 1, no_room_body);
}

static void pool_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	CHECK_EQ(write_text(&l, "/f", 3, TEXT_BYTES, "mlec:2+1/2+1"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&l, 21, NULL);
	CHECK(on > 0);
	lose_disk(&l, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	(void)check_whole(&l);
	CHECK_EQ(read_text(&l, "/f", 3, TEXT_BYTES), 0);
	janitor_close(j);
	lab_close(&l);
}

static void the_columns_of_a_lost_pool_are_made_anew(void **state)
{
	(void)state;
	cbox_run_pools(6, pool_body);
}

/* Two members of a pool that bears one are given up; returns what the pool then lists as lost, in bytes of
 * data rows that must be brought. */
static uint64_t lose_members(struct lab *l, uint64_t disk)
{
	struct call c;
	call_init(&c, engine_fabric(l->engine));
	struct disk_use u;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 60 * NS_PER_S;
	CHECK_EQ(node_pool_fail(&u.node, disk, 0), 0);
	CHECK_EQ(node_pool_fail(&u.node, disk, 1), 0);
	(void)node_pool_rebuild(&u.node, disk, true);
	struct store_pool_loss losses[64];
	struct store_cursor at = {0};
	uint64_t bytes = 0;
	int64_t n;
	while ((n = node_pool_losses(&u.node, disk, &at, losses, ARRAY_LEN(losses))) > 0)
		for (int64_t i = 0; i < n; i++)
			bytes += losses[i].need * losses[i].stripes * losses[i].piece_bytes;
	CHECK_EQ(n, 0);
	disk_end(&c, &u, 0, 0);
	return bytes;
}

static void pools_lost(struct client_box *b, enum janitor_method method)
{
	struct lab l;
	lab_open(&l, b);
	for (uint64_t i = 0; i < 4; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(write_text(&l, path, i, TEXT_BYTES, "mlec:2+1/2+1"), 0);
	}
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t blocks = check_whole(&l);
	uint64_t need = lose_members(&l, 21);
	CHECK(need > 0);
	struct janitor_options o = quick();
	o.method = method;
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_pools(j), 0);
	struct janitor_stats s = stats_of(j);
	CHECK_EQ(s.failed, 0);
	if (method == JANITOR_R_ALL) {
		CHECK_EQ(s.pool_patches, 0);
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK(stats_of(j).chunks_repaired > 0);
		CHECK(stats_of(j).repair_written_bytes > need);
	} else {
		CHECK(s.pool_patches > 0);
		/* No more than the method says has crossed. */
		if (method == JANITOR_R_MIN)
			CHECK(s.pool_patch_bytes <= need);
		/* From two other columns, of which the last may be short. */
		CHECK(s.repair_read_bytes > s.pool_patch_bytes);
		CHECK(s.repair_read_bytes <= 2 * s.pool_patch_bytes);
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK_EQ(stats_of(j).chunks_repaired, 0);
	}
	CHECK_EQ(check_whole(&l), blocks);
	for (uint64_t i = 0; i < 4; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(read_text(&l, path, i, TEXT_BYTES), 0);
	}
	janitor_close(j);
	lab_close(&l);
}

static void r_min_body(struct client_box *b)
{
	pools_lost(b, JANITOR_R_MIN);
}

static void r_hyb_body(struct client_box *b)
{
	pools_lost(b, JANITOR_R_HYB);
}

static void r_all_body(struct client_box *b)
{
	pools_lost(b, JANITOR_R_ALL);
}

static void a_catastrophic_pool_is_patched_with_what_r_min_says(void **state)
{
	(void)state;
	cbox_run_wide_pools(6, r_min_body);
}

static void a_catastrophic_pool_is_patched_with_what_r_hyb_says(void **state)
{
	(void)state;
	cbox_run_wide_pools(6, r_hyb_body);
}

static void a_catastrophic_pool_is_made_anew_by_r_all(void **state)
{
	(void)state;
	cbox_run_wide_pools(6, r_all_body);
}

/* --- scrub ------------------------------------------------------------------------------------ */

static void scrub_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	write_all(&l);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 0);
	CHECK_EQ(stats_of(j).scrubbed_chunks, chunks_everywhere(&l));
	struct chunk_id ids[256];
	size_t rotten = 0;
	for (uint64_t disk = 1; disk <= 11; disk += 10) {
		CHECK(chunks_on(&l, disk, ids, ARRAY_LEN(ids)) > 0);
		cbox_flip(b, disk, ids[0], 7);
		rotten++;
	}
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, rotten);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, rotten);
	(void)check_whole(&l);
	read_all(&l);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, rotten);
	janitor_close(j);
	lab_close(&l);
}

static void scrubbing_finds_what_rotted_and_it_is_repaired(void **state)
{
	(void)state;
	cbox_run_all(8, 1, scrub_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deleted_data_is_gone_from_disks_and_quota_exact_after_the_grace),
		cmocka_unit_test(a_dead_chunk_with_the_label_of_another_stays),
		cmocka_unit_test(what_a_writer_still_appends_to_is_not_collected),
		cmocka_unit_test(chunks_that_no_record_knows_go_after_two_looks),
		cmocka_unit_test(the_blocks_of_a_failed_disk_are_whole_again),
		cmocka_unit_test(a_silent_node_is_repaired_after_the_delay_and_not_before),
		cmocka_unit_test(a_draining_node_is_emptied_by_copying),
		cmocka_unit_test(two_janitors_at_once_repair_each_chunk_once),
		cmocka_unit_test(a_lease_that_expires_in_the_middle_of_a_repair_does_no_harm),
		cmocka_unit_test(a_second_failure_during_a_repair_is_repaired_too),
		cmocka_unit_test(a_rotten_source_is_read_around_and_mended),
		cmocka_unit_test(a_block_deleted_while_it_is_repaired_leaves_nothing),
		cmocka_unit_test(a_disk_that_comes_back_while_it_is_repaired_keeps_what_is_left),
		cmocka_unit_test(what_flaps_within_the_delay_costs_nothing),
		cmocka_unit_test(without_room_a_block_stays_as_it_is),
		cmocka_unit_test(the_columns_of_a_lost_pool_are_made_anew),
		cmocka_unit_test(a_catastrophic_pool_is_patched_with_what_r_min_says),
		cmocka_unit_test(a_catastrophic_pool_is_patched_with_what_r_hyb_says),
		cmocka_unit_test(a_catastrophic_pool_is_made_anew_by_r_all),
		cmocka_unit_test(scrubbing_finds_what_rotted_and_it_is_repaired),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
