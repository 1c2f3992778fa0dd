// SPDX-License-Identifier: Apache-2.0
/*
 * The metadata goes back to a backup while nodes keep what they have: what comes back, what is kept for the operator, and
 * that no number of the time after the backup is taken for one of the time after the restore. A simulated cluster.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "janitor_fixture.h"
#include "kv/mem.h"
#include "meta/gc.h"
#include "meta/map.h"
#include "meta/token_ring.h"

static void go_back(struct client_fixture *fx)
{
	fixture_do(fx, fixture_stop_meta, 0);
	fixture_do(fx, fixture_restore, 0);
}

static void round_of(struct janitor *j)
{
	CHECK_EQ(janitor_collect(j), 0);
	CHECK_EQ(janitor_orphans(j), 0);
}

/* Rounds of collection and sweeps over this many grace periods. */
static void rounds_for(struct janitor *j, unsigned graces)
{
	for (unsigned i = 0; i < graces * 4; i++) {
		round_of(j);
		CHECK_EQ(rt_sleep_ns(GRACE_NS / 3), 0);
	}
}

static struct meta_gc_state state_of(struct janitor_fixture *jf)
{
	struct meta_gc_state s;
	CHECK_EQ(meta_client_gc_state(&jf->root, &s), 0);
	return s;
}

CLIENT_TEST(deleted_files_come_back_and_later_ones_are_kept_until_the_hold_ends, 5, 1)
{
	struct janitor_fixture jf;
	struct janitor_options o = quick();
	janitor_fixture_open(&jf, fx);
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/deleted", 1, TEXT_BYTES, "rs:2+1"), 0);
	CHECK_EQ(write_text(&jf, "/stays", 2, TEXT_BYTES, "r2"), 0);
	size_t named = chunks_everywhere(&jf);
	uint64_t epoch = state_of(&jf).epoch;
	fixture_do(fx, fixture_backup, 0);
	CHECK_EQ(remove_path(&jf, "/deleted"), 0);
	CHECK_EQ(write_text(&jf, "/later", 3, TEXT_BYTES, "r2"), 0);
	rounds_for(j, 2);
	size_t all = chunks_everywhere(&jf);
	CHECK(all > named);
	janitor_close(j);
	go_back(fx);
	j = hire(&o);
	struct meta_gc_state s = state_of(&jf);
	CHECK_EQ(s.epoch, epoch + META_GC_JUMP);
	CHECK(s.held && s.restored == s.epoch && strcmp(s.why, "restored") == 0);
	CHECK_EQ(read_text(&jf, "/deleted", 1, TEXT_BYTES), 0);
	CHECK_EQ(read_text(&jf, "/stays", 2, TEXT_BYTES), 0);
	CHECK_EQ(read_text(&jf, "/later", 3, TEXT_BYTES), -ENOENT);
	/* Held: nothing that is deleted now, or that no record names, is collected. */
	CHECK_EQ(remove_path(&jf, "/stays"), 0);
	rounds_for(j, 14);
	CHECK_EQ(chunks_everywhere(&jf), all);
	CHECK(stats_of(j).held && stats_of(j).orphans_seen > 0);
	CHECK_EQ(state_of(&jf).epoch, s.epoch);
	/* Released: the chunks of what is in no file go, and nothing else. */
	CHECK_EQ(meta_client_gc_hold(&jf.root, false, ""), 0);
	rounds_for(j, 1);
	CHECK_EQ(chunks_everywhere(&jf), all);
	rounds_for(j, 14);
	CHECK(chunks_everywhere(&jf) < named);
	CHECK_EQ(read_text(&jf, "/deleted", 1, TEXT_BYTES), 0);
	CHECK(check_whole(&jf) > 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(chunks_that_were_moved_after_the_backup_are_found_missing_and_rebuilt, 6, 1)
{
	struct janitor_fixture jf;
	struct janitor_options o = quick();
	struct meta_on_disk first;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	fixture_do(fx, fixture_backup, 0);
	struct janitor *j = hire(&o);
	lose_disk(&jf, 11);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&jf, 11, &first), 0);
	janitor_close(j);
	/* The drive was thrown away; by the restored map the disk is as it was. */
	fixture_do(fx, fixture_kill_node, 11);
	go_back(fx);
	fixture_do(fx, fixture_new_drives, 11);
	j = hire(&o);
	read_all(&jf);
	for (int i = 0; i < 6; i++) {
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	}
	/* A put that finds the chunk of the time after the backup replaces it, and counts as overtaken. */
	CHECK(stats_of(j).damage_found > 0);
	CHECK(stats_of(j).chunks_repaired + stats_of(j).overtaken >= stats_of(j).damage_found);
	CHECK(check_whole(&jf) > 0);
	CHECK_EQ(meta_client_gc_hold(&jf.root, false, ""), 0);
	rounds_for(j, 14);
	CHECK(check_whole(&jf) > 0);
	read_all(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* --- numbers ------------------------------------------------------------------------------------ */

/* One walk of collection by a worker that believes in this epoch. Returns the number of rows that it deleted. */
static uint64_t walk_with(struct janitor_fixture *jf, uint64_t epoch)
{
	struct meta_gc_counts n = {0};
	uint64_t now, partitions;
	CHECK_EQ(meta_client_gc_epoch(&jf->root, &now, &partitions), 0);
	for (unsigned kind = 0; kind < META_GC_KINDS; kind++)
		for (struct meta_walk w = {.end = partitions}; w.index < w.end;)
			CHECK_EQ(meta_client_gc_step(&jf->root, (enum meta_gc_kind)kind, epoch, &w,
						     &n),
				 0);
	return n.collected;
}

CLIENT_TEST(a_collector_of_before_the_restore_ends_no_grace_period, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/marked", 1, TEXT_BYTES, "r2"), 0);
	CHECK_EQ(write_text(&jf, "/x", 2, TEXT_BYTES, "r2"), 0);
	uint64_t epoch = state_of(&jf).epoch;
	CHECK_EQ(remove_path(&jf, "/marked"), 0);
	CHECK_EQ(walk_with(&jf, epoch), 0); /* marks */
	fixture_do(fx, fixture_backup, 0);
	for (uint64_t i = 0; i < 20; i++)
		CHECK_EQ(meta_client_gc_advance(&jf.root, epoch + i), 0);
	uint64_t later = state_of(&jf).epoch;
	CHECK_EQ(later, epoch + 20);
	go_back(fx);
	CHECK_EQ(remove_path(&jf, "/x"), 0);
	/* Neither what was marked before the backup nor what is marked now is collected, by any epoch, while it is held. */
	CHECK_EQ(walk_with(&jf, later), 0);
	CHECK_EQ(walk_with(&jf, UINT64_MAX), 0);
	uint64_t now = state_of(&jf).epoch;
	CHECK_EQ(meta_client_gc_advance(&jf.root, now), 0);
	CHECK_EQ(state_of(&jf).epoch, now);
	CHECK_EQ(meta_client_gc_hold(&jf.root, false, ""), 0);
	CHECK_EQ(walk_with(&jf, UINT64_MAX), 0);
	CHECK_EQ(meta_client_gc_advance(&jf.root, now), 0);
	CHECK_EQ(walk_with(&jf, UINT64_MAX), 0);
	CHECK_EQ(meta_client_gc_advance(&jf.root, now + 1), 0);
	CHECK(walk_with(&jf, UINT64_MAX) > 0);
	janitor_fixture_close(&jf);
}

static uint64_t token_generation(struct janitor_fixture *jf)
{
	struct meta *m;
	struct meta_options o;
	struct token_ring ring;
	struct kv *kv;
	meta_options_init(&o);
	CHECK_EQ(kv_mem_open(&kv, jf->cluster->kv), 0);
	CHECK_EQ(meta_open(&m, kv, &o), 0);
	CHECK_EQ(token_ring_read(m, &ring), 0);
	meta_close(m);
	kv_close(kv);
	return ring.issuing;
}

static struct cluster *map_of(struct janitor_fixture *jf)
{
	struct cluster *map;
	fresh_map(jf);
	CHECK_EQ(meta_client_map(&jf->root, 0, &map), 0);
	return map;
}

CLIENT_TEST(the_map_and_the_keys_get_numbers_that_were_never_used, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	uint64_t version = map_of(&jf)->version, keys = token_generation(&jf);
	fixture_do(fx, fixture_backup, 0);
	/* A change that the restored map does not know: this client has later records than the server. */
	CHECK_EQ(meta_client_want_disk(&jf.root, 11, CLUSTER_DRAINING), 0);
	CHECK(map_of(&jf)->version > version);
	CHECK_EQ(cluster_disk(map_of(&jf), 11)->wanted, CLUSTER_DRAINING);
	go_back(fx);
	CHECK(map_of(&jf)->version >= version + META_MAP_JUMP);
	CHECK_EQ(cluster_disk(map_of(&jf), 11)->wanted, CLUSTER_ONLINE);
	CHECK_EQ(token_generation(&jf), keys + TOKEN_RESTORE_JUMP);
	/* The map goes on from there. */
	CHECK_EQ(meta_client_want_disk(&jf.root, 11, CLUSTER_DRAINING), 0);
	CHECK_EQ(cluster_disk(map_of(&jf), 11)->wanted, CLUSTER_DRAINING);
	janitor_fixture_close(&jf);
}

/* --- logs --------------------------------------------------------------------------------------- */

static int append(struct engine *e, struct efile *f, uint64_t at, uint64_t len)
{
	uint8_t bytes[1000];
	struct call c;
	engine_call(e, &c, NULL);
	CHECK(len <= sizeof(bytes));
	fixture_fill(5, at, bytes, len);
	struct iovec iov = {bytes, len};
	uint32_t crc = crc32c(0, bytes, len);
	return engine_append(&c, f, &iov, 1, &crc);
}

static void log_reads(struct engine *e, uint64_t len)
{
	struct call c;
	struct efile *f;
	uint8_t bytes[4000];
	struct iovec iov = {bytes, sizeof(bytes)};
	uint32_t crc;
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/log", &f), 0);
	CHECK_EQ(engine_preadv(&c, f, &iov, 1, 0, &crc), len);
	CHECK(fixture_same(5, 0, bytes, len));
	CHECK_EQ(engine_file_close(&c, f), 0);
}

CLIENT_TEST(a_writer_of_before_the_restore_is_fenced_and_its_log_goes_on, 4, 1)
{
	struct janitor_fixture jf;
	struct call c;
	struct efile *f, *again;
	struct terrane_options o = {.block_bytes = 256 * KIB};
	janitor_fixture_open(&jf, fx);
	engine_call(jf.engine, &c, &o);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &o, &f), 0);
	CHECK_EQ(append(jf.engine, f, 0, 1000), 0);
	fixture_do(fx, fixture_backup, 0);
	CHECK_EQ(append(jf.engine, f, 1000, 1000), 0);
	go_back(fx);
	/* What it appends now is not acknowledged. */
	CHECK(append(jf.engine, f, 2000, 1000) < 0);
	CHECK_EQ(fx->report.open_blocks, 1);
	engine_call(jf.engine, &c, &o);
	CHECK_EQ(engine_append_open(&c, "/log", &o, &again), 0);
	CHECK_EQ(append(jf.engine, again, 1000, 500), 0);
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_file_close(&c, again), 0);
	log_reads(jf.engine, 1500);
	(void)engine_file_close(&c, f);
	log_reads(jf.engine, 1500);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_log_that_was_closed_after_the_backup_is_read_as_of_the_backup, 4, 1)
{
	struct janitor_fixture jf;
	struct call c;
	struct efile *f, *again;
	struct terrane_options o = {.block_bytes = 256 * KIB};
	janitor_fixture_open(&jf, fx);
	engine_call(jf.engine, &c, &o);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &o, &f), 0);
	CHECK_EQ(append(jf.engine, f, 0, 1000), 0);
	fixture_do(fx, fixture_backup, 0);
	CHECK_EQ(append(jf.engine, f, 1000, 1000), 0);
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_file_close(&c, f), 0);
	go_back(fx);
	log_reads(jf.engine, 1000);
	engine_call(jf.engine, &c, &o);
	/* Its replicas are sealed with bytes that the record does not have, so nobody can append: operations.md. */
	CHECK_EQ(engine_append_open(&c, "/log", &o, &again), -ENODATA);
	log_reads(jf.engine, 1000);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			deleted_files_come_back_and_later_ones_are_kept_until_the_hold_ends),
		cmocka_unit_test(
			chunks_that_were_moved_after_the_backup_are_found_missing_and_rebuilt),
		cmocka_unit_test(a_collector_of_before_the_restore_ends_no_grace_period),
		cmocka_unit_test(the_map_and_the_keys_get_numbers_that_were_never_used),
		cmocka_unit_test(a_writer_of_before_the_restore_is_fenced_and_its_log_goes_on),
		cmocka_unit_test(a_log_that_was_closed_after_the_backup_is_read_as_of_the_backup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
