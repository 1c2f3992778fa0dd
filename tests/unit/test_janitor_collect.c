// SPDX-License-Identifier: Apache-2.0
/* Collection and orphans against a simulated cluster: real nodes, real metadata, the real client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "janitor/notes.h"
#include "janitor_fixture.h"
#include "meta/meta.h"
#include "meta/schema.h"
#include "node/label.h"

CLIENT_TEST(deleted_data_is_gone_from_disks_and_quota_exact_after_the_grace, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/stays", 1, TEXT_BYTES, "rs:2+1"), 0);
	size_t before = chunks_everywhere(&jf);
	CHECK_EQ(used_bytes(&jf), TEXT_BYTES);
	CHECK_EQ(write_text(&jf, "/goes", 2, TEXT_BYTES, "r2"), 0);
	CHECK_EQ(used_bytes(&jf), 2 * TEXT_BYTES);
	size_t with = chunks_everywhere(&jf);
	CHECK(with > before);
	CHECK_EQ(remove_path(&jf, "/goes"), 0);
	/* Nothing is deleted within the grace period. */
	collect_for(j, GRACE_NS - 5 * NS_PER_S);
	CHECK_EQ(chunks_everywhere(&jf), with);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(chunks_everywhere(&jf), before);
	CHECK_EQ(used_bytes(&jf), TEXT_BYTES);
	CHECK_EQ(waiting_bytes(&jf), 0);
	CHECK_EQ(read_text(&jf, "/stays", 1, TEXT_BYTES), 0);
	CHECK_EQ(stats_of(j).chunks_deleted, with - before);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(deleted_data_does_not_count_for_the_quota_while_it_waits, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(meta_client_tenant_set_quota(&jf.root, 1, 2 * TEXT_BYTES), 0);
	CHECK_EQ(write_text(&jf, "/goes", 1, TEXT_BYTES, "r2"), 0);
	CHECK_EQ(write_text(&jf, "/moves", 2, TEXT_BYTES, "r2"), 0);
	CHECK_EQ(write_text(&jf, "/more", 3, TEXT_BYTES, "r2"), -EDQUOT);
	size_t with = chunks_everywhere(&jf);
	struct call c;
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_mkdir(&c, "/d", 0), 0);
	/* The blocks of a file that moves to another directory get a second owner, and the first one leaves. */
	CHECK_EQ(engine_rename(&c, "/moves", "/d/moved"), 0);
	CHECK_EQ(remove_path(&jf, "/goes"), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(used_bytes(&jf), TEXT_BYTES);
	CHECK_EQ(waiting_bytes(&jf), TEXT_BYTES);
	CHECK(chunks_everywhere(&jf) >= with);
	CHECK_EQ(write_text(&jf, "/more", 3, TEXT_BYTES, "r2"), 0);
	CHECK_EQ(write_text(&jf, "/again", 4, TEXT_BYTES, "r2"), -EDQUOT);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(used_bytes(&jf), 2 * TEXT_BYTES);
	CHECK_EQ(waiting_bytes(&jf), 0);
	CHECK_EQ(read_text(&jf, "/d/moved", 2, TEXT_BYTES), 0);
	CHECK_EQ(remove_path(&jf, "/d/moved"), 0);
	CHECK_EQ(remove_path(&jf, "/more"), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(used_bytes(&jf), 0);
	CHECK_EQ(waiting_bytes(&jf), 2 * TEXT_BYTES);
	/* What the refused writes left on disks belongs to the sweep for orphans. */
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(waiting_bytes(&jf), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* With a grace period of a day, an order frees everything within COLLECT_EPOCHS of the shortest grace period. */
CLIENT_TEST(an_order_to_collect_shortens_the_grace_until_all_is_free, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	o.grace_ns = 24 * (3600 * NS_PER_S);
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/goes", 1, TEXT_BYTES, "r2"), 0);
	CHECK_EQ(remove_path(&jf, "/goes"), 0);
	collect_for(j, 4 * META_GRACE_MIN);
	CHECK_EQ(waiting_bytes(&jf), TEXT_BYTES);
	uint64_t epoch, partitions;
	CHECK_EQ(meta_client_gc_epoch(&jf.root, &epoch, &partitions), 0);
	struct meta_note note = {.name = COLLECT_NOTE};
	char text[64];
	snprintf(text, sizeof(text), "{\"until\": %lu}", epoch + COLLECT_EPOCHS);
	note.text = text;
	CHECK_EQ(meta_client_note_put(&jf.root, &note), 0);
	collect_for(j, (COLLECT_EPOCHS + 1) * (META_GRACE_MIN + 60 * NS_PER_S));
	CHECK_EQ(chunks_everywhere(&jf), 0);
	CHECK_EQ(waiting_bytes(&jf), 0);
	uint64_t after;
	CHECK_EQ(meta_client_gc_epoch(&jf.root, &after, &partitions), 0);
	CHECK_EQ(after, epoch + COLLECT_EPOCHS);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(what_a_writer_still_appends_to_is_not_collected, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	struct terrane_options t = {
		.encoding = "r3", .block_bytes = 1 * MIB, .timeout_ms = 3600 * 1000};
	struct call c;
	engine_call(jf.engine, &c, &t);
	struct efile *f;
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &t, &f), 0);
	uint8_t bytes[1000];
	for (uint64_t i = 0; i < 20; i++) {
		fixture_fill(5, i * sizeof(bytes), bytes, sizeof(bytes));
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
	rt_background();
	collect_for(j, 4 * GRACE_NS);
	CHECK_EQ(read_text(&jf, "/log", 5, 20 * sizeof(bytes)), 0);
	CHECK_EQ(stats_of(j).chunks_deleted, 0);
	CHECK_EQ(stats_of(j).orphans_deleted, 0);
	CHECK(stats_of(j).epochs > 10);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void put_orphan(struct janitor_fixture *jf, uint64_t disk, struct chunk_id id,
		       uint32_t tenant, uint64_t block)
{
	struct call c;
	call_init(&c, engine_fabric(jf->engine));
	struct disk_use u;
	struct node_put p = {.epoch = 1};
	label_make(p.label, tenant, block, rt_random_u64());
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 10 * NS_PER_S;
	int rc = node_put(&u.node, disk, id, &p);
	disk_end(&c, &u, rc, 0);
	CHECK_EQ(rc, 0);
}

/* Chunk names are shared by tenants: a chunk with a name that is listed as dead may belong to
 * another tenant. */
CLIENT_TEST(a_chunk_listed_as_dead_with_a_label_of_another_tenant_stays, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/goes", 2, 1000, "r2"), 0);
	struct meta_on_disk on = {0};
	uint64_t disk = 1;
	while (blocks_on(&jf, disk, &on) == 0)
		disk += 10;
	struct chunk_id id = {on.block, on.index};
	chunk_drop(&jf, disk, id);
	put_orphan(&jf, disk, id, 7, on.block);
	CHECK_EQ(remove_path(&jf, "/goes"), 0);
	collect_for(j, 14 * GRACE_NS);
	struct chunk_id left[4];
	CHECK_EQ(chunks_everywhere(&jf), 1);
	CHECK_EQ(chunks_on(&jf, disk, left, ARRAY_LEN(left)), 1);
	CHECK(chunk_id_equal(left[0], id));
	CHECK_EQ(stats_of(j).chunks_deleted, 1);
	CHECK_EQ(used_bytes(&jf), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * A repair has put a chunk and has not changed the record yet. Long ago the janitor has seen an
 * orphan of the same name on that disk.
 */
CLIENT_TEST(a_chunk_that_comes_back_has_its_whole_grace, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	o.orphan_ns = 10 * NS_PER_S;
	struct janitor *j = hire(&o);
	struct chunk_id id = {77, 0};
	put_orphan(&jf, 1, id, 1, 77);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	chunk_drop(&jf, 1, id);
	collect_for(j, 4 * GRACE_NS);
	put_orphan(&jf, 1, id, 1, 77);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), 1);
	for (int i = 0; i < 24; i++) {
		collect_for(j, 2 * o.orphan_ns);
		CHECK_EQ(janitor_orphans(j), 0);
	}
	CHECK_EQ(chunks_everywhere(&jf), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void sweep_fiber(void *arg)
{
	struct round *r = arg;
	r->rc = janitor_orphans(r->j);
	r->done = true;
}

/* A sweep that lasts for several epochs lists a chunk that was just put. */
CLIENT_TEST(a_sweep_that_lasts_for_epochs_does_not_shorten_the_grace, 4, 1)
{
	enum { OLD = 300, NEW = 100 };
	const uint64_t FIRST = 1ULL << 60;
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	o.deletes_per_s = 20;
	struct janitor *j = hire(&o);
	for (uint64_t i = 0; i < OLD; i++)
		put_orphan(&jf, 1, (struct chunk_id){FIRST + i, 0}, 1, FIRST + i);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	epochs_pass(&jf, 2);
	struct round r = {.j = j};
	CHECK_EQ(rt_spawn(NULL, "sweep", sweep_fiber, &r), 0);
	while (stats_of(j).orphans_deleted < 30)
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 10), 0);
	epochs_pass(&jf, 2);
	for (uint64_t i = OLD; i < OLD + NEW; i++)
		put_orphan(&jf, 1, (struct chunk_id){FIRST + i, 0}, 1, FIRST + i);
	CHECK(!r.done);
	while (!r.done)
		CHECK_EQ(rt_sleep_ns(NS_PER_S / 10), 0);
	CHECK_EQ(r.rc, 0);
	CHECK(stats_of(j).orphans_seen > OLD);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), NEW);
	epochs_pass(&jf, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(janitor_orphans(j), 0);
	epochs_pass(&jf, 2);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* A writer puts chunks in one epoch and creates its record two epochs later, as if it had been
 * paused. */
CLIENT_TEST(a_block_whose_record_comes_epochs_late_is_not_committed, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/a", 1, 1000, "r2"), 0);
	size_t chunks = chunks_everywhere(&jf);
	epochs_pass(&jf, 1);
	CHECK_EQ(write_text(&jf, "/b", 2, 1000, "r2"), 0);
	epochs_pass(&jf, 2);
	CHECK_EQ(write_text(&jf, "/c", 3, 1000, "r2"), -ETIMEDOUT);
	CHECK_EQ(chunks_everywhere(&jf), 2 * chunks);
	/* A writer whose epoch is old creates the record first. */
	epochs_pass(&jf, 2);
	CHECK_EQ(rt_sleep_ns(60 * NS_PER_S), 0);
	CHECK_EQ(write_text(&jf, "/c", 3, 1000, "r2"), 0);
	CHECK_EQ(read_text(&jf, "/a", 1, 1000), 0);
	CHECK_EQ(read_text(&jf, "/b", 2, 1000), 0);
	CHECK_EQ(read_text(&jf, "/c", 3, 1000), 0);
	janitor_fixture_close(&jf);
}

/* Janitors that take turns sweep a disk seldom. */
CLIENT_TEST(an_orphan_that_is_seldom_seen_is_deleted_too, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	o.orphan_ns = 1 * NS_PER_S;
	struct janitor *j = hire(&o);
	put_orphan(&jf, 1, (struct chunk_id){77, 0}, 1, 77);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	collect_for(j, 4 * GRACE_NS);
	CHECK_EQ(chunks_everywhere(&jf), 1);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * The client does not know the number of its tenant, as if the request for it at the start had
 * failed.
 */
CLIENT_TEST(a_client_that_does_not_know_its_tenant_asks_before_it_writes, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	engine_fabric(jf.engine)->tenant = 0;
	CHECK_EQ(write_text(&jf, "/f", 2, 1000, "r2"), 0);
	CHECK_EQ(check_whole(&jf), 1);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(orphans_are_deleted_at_the_second_sweep, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/f", 1, TEXT_BYTES, "rs:2+1"), 0);
	size_t before = chunks_everywhere(&jf);
	struct meta_on_disk on;
	CHECK(blocks_on(&jf, 1, &on) > 0);
	/* an orphan of a block that does not exist */
	put_orphan(&jf, 1, (struct chunk_id){777, 0}, 1, 777);
	put_orphan(&jf, 1, (struct chunk_id){on.block, 9}, 1,
		   on.block); /* an orphan whose block exists and has no such chunk */
	put_orphan(&jf, 11, (struct chunk_id){888, 0}, 0, 0); /* a chunk without a label */
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), before + 3);
	collect_for(j, GRACE_NS + 20 * NS_PER_S);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), before + 3);
	collect_for(j, 2 * GRACE_NS);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), before + 1);
	CHECK_EQ(stats_of(j).orphans_deleted, 2);
	CHECK(check_whole(&jf) > 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void unreadable_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/f", 1, 1000, "r3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t before = chunks_everywhere(&jf);
	struct meta_on_disk on;
	uint64_t disk = 1;
	while (blocks_on(&jf, disk, &on) == 0)
		disk += 10;
	block_spoil(&jf, &on);
	/*
	 * Two orphans: one before and one after the chunk with the unreadable label in the order of
	 * the list.
	 */
	put_orphan(&jf, disk, (struct chunk_id){77, 0}, 1, 77);
	put_orphan(&jf, disk, (struct chunk_id){UINT64_MAX, 0}, 1, UINT64_MAX);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), before + 2);
	epochs_pass(&jf, 2);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), before);
	epochs_pass(&jf, 2);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), before);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void a_record_that_cannot_be_read_keeps_its_chunks_and_no_others(void **state)
{
	(void)state;
	fixture_run_faulty(4, unreadable_body);
}

CLIENT_TEST(chunks_too_damaged_to_say_whose_they_are_go_when_no_block_wants_them, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/f", 1, TEXT_BYTES, "rs:2+1"), 0);
	size_t before = chunks_everywhere(&jf);
	struct meta_on_disk on;
	CHECK(blocks_on(&jf, 1, &on) > 0);
	put_orphan(&jf, 1, (struct chunk_id){777, 0}, 1, 777);
	put_orphan(&jf, 1, (struct chunk_id){888, 0}, 1, 888);
	/* After a restart the node has no headers in memory. */
	fixture_do(fx, fixture_kill_node, 1);
	fixture_ruin(fx, 1, (struct chunk_id){777, 0});
	fixture_ruin(fx, 1, (struct chunk_id){on.block, on.index});
	fixture_do(fx, fixture_start_node, 1);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(chunks_everywhere(&jf), before + 2);
	for (int i = 0; i < 3; i++) {
		collect_for(j, GRACE_NS + 20 * NS_PER_S);
		CHECK_EQ(janitor_orphans(j), 0);
	}
	/* A chunk that a record names stays, until scrub reports it. */
	CHECK_EQ(chunks_everywhere(&jf), before);
	CHECK_EQ(stats_of(j).orphans_deleted, 2);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 1);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 1);
	(void)check_whole(&jf);
	CHECK_EQ(read_text(&jf, "/f", 1, TEXT_BYTES), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* A janitor that lives for 20 s never sees an epoch for a whole grace period, so it advances
 * none. */
CLIENT_TEST(janitors_that_come_and_go_or_are_many_do_not_shorten_the_grace, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/goes", 1, TEXT_BYTES, "r2"), 0);
	size_t with = chunks_everywhere(&jf);
	CHECK_EQ(remove_path(&jf, "/goes"), 0);
	struct janitor_options o = quick();
	uint64_t epoch, now, partitions;
	CHECK_EQ(meta_client_gc_epoch(&jf.root, &epoch, &partitions), 0);
	for (int i = 0; i < 40; i++) {
		struct janitor *j = hire(&o);
		CHECK_EQ(janitor_collect(j), 0);
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
		CHECK_EQ(janitor_collect(j), 0);
		CHECK_EQ(janitor_orphans(j), 0);
		janitor_close(j);
	}
	CHECK_EQ(meta_client_gc_epoch(&jf.root, &now, &partitions), 0);
	CHECK_EQ(now, epoch);
	CHECK_EQ(chunks_everywhere(&jf), with);
	/* Ten janitors at once advance epochs no faster than one. */
	struct janitor *all[10];
	for (int i = 0; i < 10; i++)
		all[i] = hire(&o);
	uint64_t begin_ns = rt_now_ns();
	while (rt_now_ns() - begin_ns < 5 * GRACE_NS) {
		for (int i = 0; i < 10; i++)
			CHECK_EQ(janitor_collect(all[i]), 0);
		CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	}
	CHECK_EQ(meta_client_gc_epoch(&jf.root, &now, &partitions), 0);
	CHECK(now > epoch && now <= epoch + 5);
	for (int i = 0; i < 10; i++)
		janitor_close(all[i]);
	janitor_fixture_close(&jf);
}

/*
 * A writer keeps its block pending for several grace periods while collectors run. The chunks stay
 * until the record is collected. The commit succeeds, or it fails and leaves nothing.
 */
static void slow_writer_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_collect(j), 0);
	struct meta_call m = {.client = jf.client};
	struct meta_chunk chunks[2] = {{.disk = 1}, {.disk = 11}};
	struct meta_block k = {.id = 4711,
			       .epoch = 1,
			       .capacity = 1000,
			       .encoding = "r2",
			       .chunk_count = 2,
			       .chunks = chunks};
	const struct context *before = act_for_tenant();
	CHECK_EQ(meta_client_block_allocate(&m, &k, &(uint64_t){0}), 0);
	rt_context_leave(before);
	for (uint32_t i = 0; i < 2; i++) {
		struct call c;
		struct disk_use u;
		struct node_put p = {.epoch = 1};
		call_init(&c, engine_fabric(jf.engine));
		label_make(p.label, 1, 4711, 1);
		CHECK_EQ(disk_begin(&c, chunks[i].disk, &u), 0);
		u.node.timeout_ns = 10 * NS_PER_S;
		CHECK_EQ(node_put(&u.node, u.disk, (struct chunk_id){4711, i}, &p), 0);
		disk_end(&c, &u, 0, 0);
	}
	/* Less than a grace period has passed, so nothing is deleted. */
	for (int i = 0; i < 11; i++) {
		CHECK_EQ(janitor_collect(j), 0);
		CHECK_EQ(janitor_orphans(j), 0);
		CHECK_EQ(rt_sleep_ns(GRACE_NS / 12), 0);
	}
	CHECK_EQ(chunks_everywhere(&jf), 2);
	struct meta_walk w = {.end = 1 << META_PARTITION_BITS};
	size_t pending = 0;
	while (w.index < w.end) {
		struct meta_on_disk on[8];
		int64_t n = meta_client_disk_blocks(&jf.root, 1, &w, on, 8);
		CHECK(n >= 0);
		pending += (size_t)n;
	}
	CHECK_EQ(pending, 1);
	/* A writer that never commits: its chunks are deleted with the record, not as orphans. */
	for (int i = 0; i < 3; i++) {
		collect_for(j, 4 * GRACE_NS);
		CHECK_EQ(janitor_orphans(j), 0);
	}
	CHECK_EQ(chunks_everywhere(&jf), 0);
	CHECK_EQ(stats_of(j).chunks_deleted, 2);
	CHECK_EQ(stats_of(j).orphans_deleted, 0);
	CHECK_EQ(used_bytes(&jf), 0);
	struct meta_owner owner = {.file = 99, .bytes = 0};
	k.state = META_BLOCK_SEALED;
	before = act_for_tenant();
	CHECK_EQ(meta_client_block_commit(&m, &k, &owner, 1), -ENOENT);
	rt_context_leave(before);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void
what_a_write_in_flight_has_put_stays_for_the_grace_and_goes_with_its_writer(void **state)
{
	(void)state;
	fixture_run_all(4, 1, slow_writer_body);
}

CLIENT_TEST(old_sightings_are_forgotten_however_many, 4, 1)
{
	enum { MANY = 600 };
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (uint64_t i = 0; i < MANY; i++)
		put_orphan(&jf, 1, (struct chunk_id){(1ULL << 60) + i, 0}, 1, (1ULL << 60) + i);
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(stats_of(j).orphans_seen, MANY);
	epochs_pass(&jf, 20);
	/* The blocks are complete. */
	CHECK_EQ(janitor_orphans(j), 0);
	CHECK_EQ(stats_of(j).orphans_seen, 2 * MANY);
	CHECK_EQ(stats_of(j).orphans_deleted, 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * Two shares fail, so that other shares come after one of them, whichever share the janitor begins
 * with.
 */
static void one_share_body(struct client_fixture *fx)
{
	static const char *const LEASES[] = {"collect/3", "collect/11"};
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	char path[16];
	for (uint64_t i = 0; i < 32; i++) {
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(write_text(&jf, path, i, 1000, "r2"), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(LEASES); i++)
		record_spoil(&jf,
			     schema_partition(META_PARTITION_BITS, META_LAYER_SYSTEM, 0,
					      hash64(LEASES[i], strlen(LEASES[i]), 0), 0),
			     key_text('l', LEASES[i]));
	size_t before = chunks_everywhere(&jf);
	for (uint64_t i = 0; i < 32; i++) {
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(remove_path(&jf, path), 0);
	}
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(janitor_collect(j), -EBADMSG);
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	}
	CHECK_EQ(stats_of(j).rounds, 0);
	/* The name, the file and its block are in three shares. */
	CHECK(chunks_everywhere(&jf) < before / 2);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void collection_goes_on_after_a_share_that_fails(void **state)
{
	(void)state;
	fixture_run_faulty(4, one_share_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deleted_data_is_gone_from_disks_and_quota_exact_after_the_grace),
		cmocka_unit_test(deleted_data_does_not_count_for_the_quota_while_it_waits),
		cmocka_unit_test(an_order_to_collect_shortens_the_grace_until_all_is_free),
		cmocka_unit_test(old_sightings_are_forgotten_however_many),
		cmocka_unit_test(collection_goes_on_after_a_share_that_fails),
		cmocka_unit_test(a_chunk_listed_as_dead_with_a_label_of_another_tenant_stays),
		cmocka_unit_test(a_chunk_that_comes_back_has_its_whole_grace),
		cmocka_unit_test(an_orphan_that_is_seldom_seen_is_deleted_too),
		cmocka_unit_test(a_sweep_that_lasts_for_epochs_does_not_shorten_the_grace),
		cmocka_unit_test(a_block_whose_record_comes_epochs_late_is_not_committed),
		cmocka_unit_test(a_client_that_does_not_know_its_tenant_asks_before_it_writes),
		cmocka_unit_test(what_a_writer_still_appends_to_is_not_collected),
		cmocka_unit_test(orphans_are_deleted_at_the_second_sweep),
		cmocka_unit_test(a_record_that_cannot_be_read_keeps_its_chunks_and_no_others),
		cmocka_unit_test(
			chunks_too_damaged_to_say_whose_they_are_go_when_no_block_wants_them),
		cmocka_unit_test(janitors_that_come_and_go_or_are_many_do_not_shorten_the_grace),
		cmocka_unit_test(
			what_a_write_in_flight_has_put_stays_for_the_grace_and_goes_with_its_writer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
