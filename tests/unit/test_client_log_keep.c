// SPDX-License-Identifier: Apache-2.0
/* Logs that stay open while replicas of their open block are lost, against a simulated cluster
 * with a janitor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/arena.h"
#include "client/engine_impl.h"
#include "janitor/stats.h"
#include "janitor_fixture.h"
#include "meta/meta.h"

#define BLOCK (256 * KIB)
#define LINE 100u
#define SOON_NS (60 * NS_PER_S) /* a block that lacks a replica must have ended after this time */

struct writer {
	struct janitor_fixture *jf;
	struct efile *file;
	uint64_t at; /* number of acknowledged bytes; they are those of text 1 */
};

static int append(struct writer *w)
{
	struct call c;
	uint8_t line[LINE];
	struct iovec iov = {line, LINE};
	engine_call(w->jf->engine, &c, NULL);
	fixture_fill(1, w->at, line, LINE);
	int rc = engine_append(&c, w->file, &iov, 1, NULL);
	w->at += rc == 0 ? LINE : 0;
	rt_background();
	return rc;
}

/* Appends a line every ten seconds; each must be acknowledged. */
static void write_for(struct writer *w, uint64_t time_ns)
{
	uint64_t end_ns = rt_now_ns() + time_ns;
	while (rt_now_ns() < end_ns) {
		CHECK_EQ(append(w), 0);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	}
}

static void writer_open(struct writer *w, struct janitor_fixture *jf)
{
	struct terrane_options o = {.block_bytes = BLOCK};
	struct call c;
	*w = (struct writer){.jf = jf};
	engine_call(jf->engine, &c, &o);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &o, &w->file), 0);
	CHECK_EQ(append(w), 0);
}

static void writer_close(struct writer *w)
{
	struct call c;
	engine_call(w->jf->engine, &c, NULL);
	CHECK_EQ(read_text(w->jf, "/log", 1, w->at), 0);
	CHECK_EQ(engine_file_close(&c, w->file), 0);
	CHECK_EQ(read_text(w->jf, "/log", 1, w->at), 0);
	rt_background();
}

/* The state of all blocks; all belong to the log. */
struct count {
	size_t open, ended;
	size_t lacking;  /* chunks that are missing or reported as damaged */
	uint64_t disks;  /* the sum of those of the open block, */
	uint64_t one;    /* the id of one disk of the open block */
	uint64_t length; /* length of all blocks in bytes */
	uint64_t block;  /* id of the open block */
};

static struct count count_blocks(struct janitor_fixture *jf)
{
	struct count n = {0};
	struct arena a;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(NULL);
	arena_init(&a, 4 * MIB);
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t got = meta_client_blocks(&jf->root, &w, &a, at, ARRAY_LEN(at));
		CHECK(got >= 0);
		for (int64_t i = 0; i < got; i++) {
			const struct meta_block *b = &at[i].block;
			bool open = b->state == META_BLOCK_OPEN;
			n.open += open;
			n.ended += b->state == META_BLOCK_SEALED;
			n.length += b->length;
			n.block = open ? b->id : n.block;
			for (size_t k = 0; k < b->chunk_count; k++) {
				n.lacking += b->chunks[k].disk == 0 || b->chunks[k].damaged;
				n.disks += open ? b->chunks[k].disk : 0;
				n.one = open ? b->chunks[k].disk : n.one;
			}
		}
	}
	arena_fini(&a);
	return n;
}

/* --- a writer at work -------------------------------------------------------------------------- */

CLIENT_TEST(a_block_that_lost_a_copy_is_ended_and_repaired_under_its_writer, 4, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	writer_open(&w, &jf);
	struct count before = count_blocks(&jf);
	CHECK_EQ(before.open, 1);
	CHECK_EQ(before.lacking, 0);
	fixture_do(fx, fixture_kill_node, before.one);
	write_for(&w, SOON_NS);
	struct count after = count_blocks(&jf);
	CHECK_EQ(after.ended, 1);
	CHECK_EQ(after.open, 1);
	CHECK_EQ(after.lacking, 1); /* the block that the log has ended lacks one replica */
	CHECK(after.block != before.block);
	CHECK_EQ(after.length, w.at);
	/* The block has all replicas again, while the writer appends. */
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(check_whole(&jf), 2);
	write_for(&w, 10 * SOON_NS);
	after = count_blocks(&jf);
	CHECK(after.ended == 1 && after.open == 1);
	writer_close(&w);
	CHECK_EQ(check_whole(&jf), 2);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_block_that_began_with_too_few_copies_is_ended_when_there_are_disks, 3, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	/* The map says that all three disks are online. */
	fixture_do(fx, fixture_cut_node, 1);
	writer_open(&w, &jf);
	CHECK_EQ(count_blocks(&jf).lacking, 1);
	fixture_do(fx, fixture_heal, 0);
	write_for(&w, SOON_NS);
	struct count n = count_blocks(&jf);
	CHECK(n.ended == 1 && n.open == 1 && n.lacking == 1);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(check_whole(&jf), 2);
	writer_close(&w);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* --- no disk to spare -------------------------------------------------------------------------- */

CLIENT_TEST(a_block_is_not_ended_while_the_next_could_not_have_more_copies, 3, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	writer_open(&w, &jf);
	fixture_do(fx, fixture_kill_node, 1);
	write_for(&w, 20 * SOON_NS);
	struct count n = count_blocks(&jf);
	CHECK(n.open == 1 && n.ended == 0);
	/* The disk is online again, without the appends it missed. */
	fixture_do(fx, fixture_start_node, 1);
	write_for(&w, SOON_NS);
	n = count_blocks(&jf);
	CHECK(n.open == 1 && n.ended == 1 && n.lacking == 1);
	writer_close(&w);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(blocks_that_stay_short_are_ended_ever_more_rarely, 3, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	writer_open(&w, &jf);
	/* Only the writer knows of the failures. After 20 s, 40 s and so on: five ends take more
	 * than ten minutes. */
	fixture_do(fx, fixture_cut_node, 1);
	write_for(&w, 12 * SOON_NS);
	struct count n = count_blocks(&jf);
	CHECK(n.ended >= 3 && n.ended <= 5);
	fixture_do(fx, fixture_heal, 0);
	write_for(&w, 12 * SOON_NS);
	size_t ended = count_blocks(&jf).ended;
	write_for(&w, 12 * SOON_NS);
	CHECK_EQ(count_blocks(&jf).ended, ended);
	/* After a block with all replicas the limit is back at its first value. */
	fixture_do(fx, fixture_cut_node, 1);
	write_for(&w, SOON_NS);
	CHECK_EQ(count_blocks(&jf).ended, ended + 1);
	fixture_do(fx, fixture_heal, 0);
	writer_close(&w);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_block_that_could_not_be_ended_is_tried_again_as_soon_as_before, 4, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	writer_open(&w, &jf);
	uint64_t lost = count_blocks(&jf).one;
	lose_disk(&jf, lost);
	/* The map has enough disks; the writer reaches none of them and can end no block. */
	for (uint64_t disk = 1; disk <= 31; disk += 10)
		fixture_do(fx, fixture_cut_node, disk);
	CHECK_EQ(rt_sleep_ns(10 * SOON_NS), 0);
	struct count n = count_blocks(&jf);
	CHECK(n.open == 1 && n.ended == 0 && n.lacking == 0);
	fixture_do(fx, fixture_heal, 0);
	CHECK_EQ(rt_sleep_ns(SOON_NS / 2), 0);
	n = count_blocks(&jf);
	CHECK(n.open == 0 && n.ended == 1);
	CHECK_EQ(append(&w), 0);
	writer_close(&w);
	janitor_fixture_close(&jf);
}

/* --- a writer that waits ----------------------------------------------------------------------- */

CLIENT_TEST(a_writer_that_waits_ends_its_block_when_a_disk_is_lost_drained_or_replaced, 7, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	writer_open(&w, &jf);
	struct count n = count_blocks(&jf);
	for (size_t ended = 1; ended <= 3; ended++) {
		uint64_t disk = n.one;
		if (ended == 1) { /* an operator marks the disk as gone or draining */
			lose_disk(&jf, disk);
		} else if (ended == 2) {
			CHECK_EQ(meta_client_want_disk(&jf.root, disk, CLUSTER_DRAINING), 0);
		} else {
			fixture_do(fx, fixture_kill_node, disk);
			CHECK_EQ(rt_sleep_ns(2 * NS_PER_S), 0);
			fixture_do(fx, fixture_new_drives, disk);
		}
		CHECK_EQ(rt_sleep_ns(SOON_NS), 0);
		n = count_blocks(&jf);
		CHECK_EQ(n.open, 0);
		CHECK_EQ(n.ended, ended);
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK_EQ(check_whole(&jf), ended);
		CHECK(ended == 3 || blocks_on(&jf, disk, NULL) == 0);
		CHECK_EQ(read_text(&jf, "/log", 1, w.at), 0);
		CHECK_EQ(append(&w), 0);
		n = count_blocks(&jf);
	}
	writer_close(&w);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* The log checks its block after ten seconds, while the block still waits for nodes to begin it. */
CLIENT_TEST(a_block_that_has_not_begun_is_not_looked_at, 5, 1)
{
	struct janitor_fixture jf;
	struct terrane_options o = {.block_bytes = BLOCK};
	struct call c;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct writer w = {.jf = &jf};
	engine_call(jf.engine, &c, &o);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &o, &w.file), 0);
	uint64_t opened_ns = rt_now_ns();
	for (unsigned i = 0; i < 5; i++)
		fixture_do(fx, fixture_cut_node, 10 * i + 1);
	CHECK_EQ(rt_sleep_ns(opened_ns + 8 * NS_PER_S - rt_now_ns()), 0);
	CHECK_EQ(append(&w), -ENOSPC);
	CHECK(rt_now_ns() - opened_ns > 11 * NS_PER_S);
	engine_call(jf.engine, &c, NULL);
	(void)engine_file_close(&c, w.file);
	rt_background();
	janitor_fixture_close(&jf);
}

CLIENT_TEST(a_node_that_is_silent_for_a_while_costs_a_waiting_writer_nothing, 5, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	writer_open(&w, &jf);
	struct count n = count_blocks(&jf);
	/* While a node is offline for a short time the log keeps its open block. */
	fixture_do(fx, fixture_kill_node, n.one);
	CHECK_EQ(rt_sleep_ns(10 * SOON_NS), 0);
	fixture_do(fx, fixture_start_node, n.one);
	CHECK_EQ(rt_sleep_ns(SOON_NS), 0);
	CHECK(count_blocks(&jf).open == 1 && count_blocks(&jf).ended == 0);
	CHECK_EQ(append(&w), 0);
	CHECK_EQ(rt_sleep_ns(SOON_NS), 0);
	CHECK(count_blocks(&jf).open == 1 && count_blocks(&jf).ended == 0);
	/* When a node stays offline the log ends the block. */
	fixture_do(fx, fixture_kill_node, n.one);
	CHECK_EQ(rt_sleep_ns(20 * SOON_NS), 0);
	CHECK(count_blocks(&jf).open == 0 && count_blocks(&jf).ended == 1);
	writer_close(&w);
	janitor_fixture_close(&jf);
}

/* --- a writer that dies ------------------------------------------------------------------------- */

static struct stats survey(struct janitor_fixture *jf, struct janitor *j)
{
	struct stats s, counted;
	stats_init(&s);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_load(&jf->root, &s), 0);
	counted = s;
	stats_fini(&s);
	return counted;
}

/* The map says that the replica's node is online; only the writer knows that the replica lacks
 * bytes. */
CLIENT_TEST(a_copy_that_only_its_dead_writer_gave_up_counts_as_degraded, 5, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	writer_open(&w, &jf);
	struct count n = count_blocks(&jf);
	fixture_do(fx, fixture_cut_node, n.one);
	CHECK_EQ(append(&w), 0);
	CHECK_EQ(rt_sleep_ns(15 * NS_PER_S), 0);
	/* The log has not ended the block yet. */
	n = count_blocks(&jf);
	CHECK(n.open == 1 && n.ended == 0 && n.lacking == 1);
	engine_file_discard(w.file);
	fixture_do(fx, fixture_heal, 0);
	CHECK_EQ(rt_sleep_ns(SOON_NS), 0);
	struct stats s = survey(&jf, j);
	CHECK(s.degraded_blocks == 1 && s.unreachable_blocks == 0 && s.lost_blocks == 0);
	/* The janitor neither repairs nor reports it until the block is ended. */
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	collect_for(j, 6 * GRACE_NS);
	n = count_blocks(&jf);
	CHECK(n.open == 1 && n.ended == 0 && n.lacking == 1);
	CHECK_EQ(stats_of(j).failed, 0);
	CHECK_EQ(read_text(&jf, "/log", 1, w.at), 0);
	struct call c;
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_append_open(&c, "/log", NULL, &w.file), 0);
	rt_background();
	n = count_blocks(&jf);
	CHECK(n.open == 0 && n.ended == 1 && n.lacking == 1);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(check_whole(&jf), 1);
	CHECK_EQ(survey(&jf, j).degraded_blocks, 0);
	writer_close(&w);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* A replica still lagged when its writer met an error and stopped. */
CLIENT_TEST(a_copy_that_is_behind_when_its_writer_leaves_is_reported, 5, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	writer_open(&w, &jf);
	fixture_do(fx, fixture_cut_node, count_blocks(&jf).one);
	CHECK_EQ(append(&w), 0);
	CHECK_EQ(count_blocks(&jf).lacking, 0);
	engine_file_discard(w.file);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	struct count n = count_blocks(&jf);
	CHECK(n.open == 1 && n.lacking == 1);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(who_reaches_no_copy_says_nothing_against_any, 3, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	writer_open(&w, &jf);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	for (uint64_t disk = 1; disk <= 21; disk += 10)
		fixture_do(fx, fixture_cut_node, disk);
	CHECK(append(&w) < 0);
	CHECK_EQ(rt_sleep_ns(2 * SOON_NS), 0);
	engine_file_discard(w.file);
	CHECK_EQ(rt_sleep_ns(SOON_NS), 0);
	struct count n = count_blocks(&jf);
	CHECK(n.open == 1 && n.ended == 0 && n.lacking == 0);
	fixture_do(fx, fixture_heal, 0);
	CHECK_EQ(rt_sleep_ns(SOON_NS), 0);
	CHECK_EQ(read_text(&jf, "/log", 1, LINE), 0);
	janitor_fixture_close(&jf);
}

/* --- another writer ---------------------------------------------------------------------------- */

CLIENT_TEST(a_writer_that_was_fenced_reports_nothing_of_its_block, 5, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	writer_open(&w, &jf);
	struct count n = count_blocks(&jf);
	lose_disk(&jf, n.one);
	struct call c;
	struct efile *taker;
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_append_open(&c, "/log", NULL, &taker), 0);
	rt_background();
	/* The new writer could not end the lost replica. */
	n = count_blocks(&jf);
	CHECK(n.open == 0 && n.ended == 1 && n.lacking == 1);
	/* The old writer tries to end the block. It is fenced and reports no replica. */
	CHECK_EQ(rt_sleep_ns(SOON_NS), 0);
	n = count_blocks(&jf);
	CHECK(n.open == 0 && n.ended == 1 && n.lacking == 1);
	CHECK_EQ(append(&w), -ESTALE);
	engine_file_discard(w.file);
	w.file = taker;
	write_for(&w, SOON_NS);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(check_whole(&jf), 2);
	writer_close(&w);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* A report of a fenced writer arrives late. */
CLIENT_TEST(a_report_of_a_copy_is_nothing_when_the_block_was_fenced_or_ended, 5, 1)
{
	struct janitor_fixture jf;
	struct writer w;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	writer_open(&w, &jf);
	struct count n = count_blocks(&jf);
	struct arena a;
	struct meta_block block;
	struct call c;
	arena_init(&a, MIB);
	engine_own_call(jf.engine, &c);
	struct meta_call m = call_meta(&c);
	CHECK_EQ(meta_client_block_fence(&m, n.block, 2, &a, &block), 0);
	elog_replica_report(jf.engine, n.block, 1, 0, block.chunks[0].disk);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	CHECK_EQ(count_blocks(&jf).lacking, 0);
	engine_file_discard(w.file);
	CHECK_EQ(engine_append_open(&c, "/log", NULL, &w.file), 0);
	CHECK_EQ(count_blocks(&jf).ended, 1);
	elog_replica_report(jf.engine, n.block, 3, 0, block.chunks[0].disk);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	CHECK_EQ(count_blocks(&jf).lacking, 0);
	arena_fini(&a);
	writer_close(&w);
	janitor_fixture_close(&jf);
}

/* --- a writer that takes over ------------------------------------------------------------------- */

CLIENT_TEST(who_takes_over_ends_also_copies_on_disks_that_are_new_to_it, 3, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	for (int i = 0; i < 4; i++)
		fixture_do(fx, fixture_add_node, 0);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	/* Another client writes to a disk that the map of the first client lacks, and crashes. */
	struct janitor_fixture other = jf;
	struct writer w;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &other.engine), 0);
	writer_open(&w, &other);
	struct count n = count_blocks(&jf);
	CHECK(n.lacking == 0 && n.disks > 1 + 11 + 21);
	engine_file_discard(w.file);
	engine_close(other.engine);
	struct call c;
	w.jf = &jf;
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_append_open(&c, "/log", NULL, &w.file), 0);
	rt_background();
	n = count_blocks(&jf);
	CHECK(n.open == 0 && n.ended == 1 && n.lacking == 0);
	CHECK_EQ(append(&w), 0);
	writer_close(&w);
	CHECK_EQ(check_whole(&jf), 2);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_that_lost_a_copy_is_ended_and_repaired_under_its_writer),
		cmocka_unit_test(
			a_block_that_began_with_too_few_copies_is_ended_when_there_are_disks),
		cmocka_unit_test(a_block_is_not_ended_while_the_next_could_not_have_more_copies),
		cmocka_unit_test(a_block_that_has_not_begun_is_not_looked_at),
		cmocka_unit_test(blocks_that_stay_short_are_ended_ever_more_rarely),
		cmocka_unit_test(
			a_writer_that_waits_ends_its_block_when_a_disk_is_lost_drained_or_replaced),
		cmocka_unit_test(a_node_that_is_silent_for_a_while_costs_a_waiting_writer_nothing),
		cmocka_unit_test(a_block_that_could_not_be_ended_is_tried_again_as_soon_as_before),
		cmocka_unit_test(a_copy_that_only_its_dead_writer_gave_up_counts_as_degraded),
		cmocka_unit_test(a_copy_that_is_behind_when_its_writer_leaves_is_reported),
		cmocka_unit_test(who_reaches_no_copy_says_nothing_against_any),
		cmocka_unit_test(a_writer_that_was_fenced_reports_nothing_of_its_block),
		cmocka_unit_test(a_report_of_a_copy_is_nothing_when_the_block_was_fenced_or_ended),
		cmocka_unit_test(who_takes_over_ends_also_copies_on_disks_that_are_new_to_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
