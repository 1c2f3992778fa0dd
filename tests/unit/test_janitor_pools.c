// SPDX-License-Identifier: Apache-2.0
/* Pools that lost more than their code tolerates, in a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "janitor_fixture.h"
#include "meta/meta.h"

#define COLUMN_BYTES ((uint64_t)(448 * KIB) + 123)

static void pool_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, COLUMN_BYTES, "mlec:2+1/2+1"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = blocks_on(&jf, 21, NULL);
	CHECK(on > 0);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	(void)check_whole(&jf);
	CHECK_EQ(read_text(&jf, "/f", 3, COLUMN_BYTES), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void the_columns_of_a_lost_pool_are_rebuilt(void **state)
{
	(void)state;
	fixture_run_pools(6, pool_body);
}

/* The losses and failures that a pool lists. */
struct toll {
	uint64_t lost;      /* bytes of data rows that must be sent */
	uint64_t lost_data; /* bytes of failed data rows in lost stripes */
	uint64_t failed;    /* bytes of all failed rows of the pool */
	/* the part of these bytes that is in the last stripes of chunks, which may be short */
	uint64_t ends;
};

static uint64_t sum_rows(const struct store_pool_loss *l, bool need)
{
	uint32_t rows = 0;
	for (uint32_t r = 0; r < l->k; r++)
		rows += l->lost[0] >> r & 1;
	return (uint64_t)(need ? l->need : rows) * l->stripes * l->piece_bytes;
}

/* Removes members of a pool that tolerates the loss of one. */
static struct toll lose_some(struct janitor_fixture *jf, uint64_t disk, uint32_t members)
{
	struct call c;
	call_init(&c, engine_fabric(jf->engine));
	struct disk_use u;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 60 * NS_PER_S;
	for (uint32_t m = 0; m < members; m++)
		CHECK_EQ(node_pool_fail(&u.node, disk, m), 0);
	CHECK_EQ(node_pool_rebuild(&u.node, disk, true), -ENODATA);
	struct store_pool_loss losses[64];
	struct store_cursor at = {0};
	struct toll t = {0};
	int64_t n;
	while ((n = node_pool_losses(&u.node, disk, &at, losses, ARRAY_LEN(losses))) > 0)
		for (int64_t i = 0; i < n; i++) {
			t.lost += sum_rows(&losses[i], true);
			t.lost_data += sum_rows(&losses[i], false);
		}
	CHECK_EQ(n, 0);
	at = (struct store_cursor){0};
	while ((n = node_pool_failures(&u.node, disk, &at, losses, ARRAY_LEN(losses))) > 0)
		for (int64_t i = 0; i < n; i++) {
			t.failed += sum_rows(&losses[i], false);
			t.ends += sum_rows(&losses[i], false) / losses[i].stripes;
		}
	CHECK_EQ(n, 0);
	disk_end(&c, &u, 0, 0);
	return t;
}

static struct toll lose_members(struct janitor_fixture *jf, uint64_t disk)
{
	return lose_some(jf, disk, 2);
}

/* Wait until the pool has rebuilt the rows that it can. */
static void settle(struct janitor_fixture *jf, uint64_t disk)
{
	struct call c;
	call_init(&c, engine_fabric(jf->engine));
	struct disk_use u;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 60 * NS_PER_S;
	CHECK_EQ(node_pool_rebuild(&u.node, disk, true), 0);
	disk_end(&c, &u, 0, 0);
}

static void write_as(struct janitor_fixture *jf, const char *encoding)
{
	for (uint64_t i = 0; i < 4; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(write_text(jf, path, i, COLUMN_BYTES, encoding), 0);
	}
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
}

static void write_columns(struct janitor_fixture *jf)
{
	write_as(jf, jf->cluster->outside ? "mlec:2+1/3+1" : "mlec:2+1/2+1");
}

static void read_columns(struct janitor_fixture *jf)
{
	for (uint64_t i = 0; i < 4; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(read_text(jf, path, i, COLUMN_BYTES), 0);
	}
}

/* Only the bytes that the method requires have crossed racks. */
static void check_toll(const struct janitor_stats *s, const struct toll *t,
		       enum janitor_method method)
{
	uint64_t most = method == JANITOR_R_MIN   ? t->lost
			: method == JANITOR_R_HYB ? t->lost_data
						  : t->failed;
	CHECK(s->pool_patches > 0);
	CHECK(s->pool_patch_bytes <= most && s->pool_patch_bytes + t->ends >= most);
	/* The bytes were read from two other columns, of which the last may be short. */
	CHECK(s->repair_read_bytes > s->pool_patch_bytes);
	CHECK(s->repair_read_bytes <= 2 * s->pool_patch_bytes);
	/* The janitor is in no rack, so all its bytes cross racks. */
	CHECK_EQ(s->repair_cross_bytes, s->repair_read_bytes + s->repair_written_bytes);
}

static void check_record(struct janitor *j, enum janitor_method method)
{
	struct janitor_repair r[JANITOR_REPAIRS_MAX];
	CHECK_EQ(janitor_repairs(j, r), 1);
	CHECK(r[0].pool && r[0].disk == 21 && r[0].method == method && r[0].end_ns != 0);
	CHECK(r[0].total > 0 && r[0].done == r[0].total);
	CHECK_EQ(r[0].cross_bytes, stats_of(j).repair_cross_bytes);
	/* There are few chunks, and the planner counts k of k + p failed rows as data. */
	uint64_t cross = r[0].cross_bytes, predicted = r[0].predicted_bytes;
	bool by_row = method == JANITOR_R_HYB || method == JANITOR_R_FCO;
	CHECK(cross * 10 <= predicted * (by_row ? 15 : 10));
	CHECK(cross * 10 >= predicted * (by_row ? 5 : 7));
}

static void pools_lost(struct client_fixture *fx, enum janitor_method method)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_columns(&jf);
	size_t blocks = check_whole(&jf), on = blocks_on(&jf, 21, NULL);
	struct toll t = lose_members(&jf, 21);
	CHECK(t.lost > 0);
	if (fx->outside)
		CHECK(t.failed > t.lost_data);
	struct janitor_options o = quick();
	o.method = method;
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_pools(j), 0);
	struct janitor_stats s = stats_of(j);
	CHECK_EQ(s.failed, 0);
	if (method == JANITOR_R_ALL) {
		CHECK_EQ(s.pool_patches, 0);
		CHECK_EQ(s.chunks_repaired, on);
		CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	} else {
		check_toll(&s, &t, method);
		CHECK_EQ(s.chunks_repaired, 0);
	}
	check_record(j, method);
	settle(&jf, 21);
	/* The pool holds no chunk. */
	CHECK_EQ(janitor_pools(j), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).repair_written_bytes, s.repair_written_bytes);
	CHECK_EQ(check_whole(&jf), blocks);
	read_columns(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void r_min_body(struct client_fixture *fx)
{
	pools_lost(fx, JANITOR_R_MIN);
}

static void r_hyb_body(struct client_fixture *fx)
{
	pools_lost(fx, JANITOR_R_HYB);
}

static void r_fco_body(struct client_fixture *fx)
{
	pools_lost(fx, JANITOR_R_FCO);
}

static void r_all_body(struct client_fixture *fx)
{
	pools_lost(fx, JANITOR_R_ALL);
}

static void a_catastrophic_pool_is_patched_with_what_r_min_says(void **state)
{
	(void)state;
	fixture_run_wide_pools(6, r_min_body);
}

static void a_catastrophic_pool_is_patched_with_what_r_hyb_says(void **state)
{
	(void)state;
	fixture_run_wide_pools(6, r_hyb_body);
}

static void a_catastrophic_pool_gets_all_that_failed_by_r_fco(void **state)
{
	(void)state;
	fixture_run_outside_pools(6, r_fco_body);
}

static void a_catastrophic_pool_is_rebuilt_by_r_all(void **state)
{
	(void)state;
	fixture_run_outside_pools(6, r_all_body);
}

/* There are as many racks as columns, so no other pool can take a column. */
static void in_place_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_columns(&jf);
	size_t blocks = check_whole(&jf), on = blocks_on(&jf, 21, NULL);
	(void)lose_members(&jf, 21);
	struct janitor_options o = quick();
	o.method = JANITOR_R_ALL;
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_pools(j), 0);
	CHECK_EQ(stats_of(j).failed + stats_of(j).no_room, 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&jf, 21, NULL), on);
	settle(&jf, 21);
	CHECK_EQ(check_whole(&jf), blocks);
	read_columns(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void r_all_rebuilds_columns_in_their_pool_when_there_is_no_other(void **state)
{
	(void)state;
	fixture_run_outside_pools(3, in_place_body);
}

/*
 * Copies the column to the only pool that has no column of the block. False: the column is empty.
 */
static bool leave_elsewhere(struct janitor_fixture *jf, const struct meta_on_disk *on)
{
	struct arena a;
	arena_init(&a, MIB);
	struct meta_block k = block_get(jf, on->block, &a);
	uint64_t free_disk = 1 + 11 + 21 + 31;
	for (size_t i = 0; i < k.chunk_count; i++)
		free_disk -= k.chunks[i].disk;
	bool full = k.length == 64 * KIB; /* a column of the last block may be empty */
	if (full)
		chunk_copy(jf, k.chunks[on->index].disk, free_disk,
			   (struct chunk_id){k.chunk_block, on->index}, 0);
	arena_fini(&a);
	return full;
}

/* The only other pool has the columns already, from an interrupted repair. */
static void leftover_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_columns(&jf);
	size_t on_it = blocks_on(&jf, 21, NULL), left = 0;
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_on_disk on[32];
		int64_t n = meta_client_disk_blocks(&jf.root, 21, &w, on, ARRAY_LEN(on));
		CHECK(n >= 0);
		for (int64_t i = 0; i < n; i++)
			left += leave_elsewhere(&jf, &on[i]);
	}
	CHECK(left > 0);
	(void)lose_members(&jf, 21);
	struct janitor_options o = quick();
	o.method = JANITOR_R_ALL;
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_pools(j), 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), left);
	CHECK_EQ(stats_of(j).overtaken, 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on_it);
	read_columns(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void a_column_rebuilt_in_its_pool_counts_as_repaired(void **state)
{
	(void)state;
	fixture_run_outside_pools(4, leftover_body);
}

/* --- hard cases -------------------------------------------------------------------------------- */

static void pools_fiber(void *arg)
{
	struct round *r = arg;
	rt_background();
	r->rc = janitor_pools(r->j);
	r->done = true;
}

/* Finishes the repair with a janitor without bandwidth limits. */
static void end_well(struct janitor_fixture *jf, size_t blocks)
{
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(janitor_pools(j), 0);
		CHECK_EQ(janitor_repair(j, true), 0);
	}
	CHECK_EQ(stats_of(j).lost_blocks, 0);
	for (uint64_t disk = 21; disk <= 31; disk += 10)
		settle(jf, disk);
	/* A pool cannot list columns of which it has no row. */
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(check_whole(jf), blocks);
	read_columns(jf);
	janitor_close(j);
}

/*
 * Counts the columns that a pool lists as lost, the columns that it lists as failed, and the
 * columns that records report as damaged.
 */
static size_t listed(struct janitor_fixture *jf, uint64_t disk, bool lost, uint64_t *blocks,
		     size_t max)
{
	struct call c;
	call_init(&c, engine_fabric(jf->engine));
	struct disk_use u;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	struct store_pool_loss losses[64];
	struct store_cursor at = {0};
	size_t count = 0;
	int64_t n;
	while ((n = lost ? node_pool_losses(&u.node, disk, &at, losses, ARRAY_LEN(losses))
			 : node_pool_failures(&u.node, disk, &at, losses, ARRAY_LEN(losses))) > 0)
		for (int64_t i = 0; i < n; i++)
			if (count == 0 || blocks[count - 1] != losses[i].id.block) {
				CHECK(count < max);
				blocks[count++] = losses[i].id.block;
			}
	CHECK_EQ(n, 0);
	disk_end(&c, &u, 0, 0);
	return count;
}

static size_t reported(struct janitor_fixture *jf, const uint64_t *blocks, size_t n, uint64_t disk)
{
	struct arena a;
	size_t count = 0;
	arena_init(&a, 1 * MIB);
	for (size_t i = 0; i < n; i++) {
		struct meta_block b = block_get(jf, blocks[i], &a);
		for (size_t k = 0; k < b.chunk_count; k++)
			count += b.chunks[k].disk == disk && b.chunks[k].damaged;
	}
	arena_fini(&a);
	return count;
}

/* As many racks as columns and one of them silent: nothing can be computed for a pool that lost
 * more than its code tolerates. The columns that it can still read must stay. */
static void away_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_columns(&jf);
	size_t blocks = check_whole(&jf);
	(void)lose_members(&jf, 21);
	uint64_t lost[64], failed[64];
	size_t lost_count = listed(&jf, 21, true, lost, ARRAY_LEN(lost));
	size_t failed_count = listed(&jf, 21, false, failed, ARRAY_LEN(failed));
	CHECK(lost_count > 0 && failed_count > lost_count);
	fixture_do(fx, fixture_kill_node, 11);
	struct janitor_options o = quick();
	o.method = JANITOR_R_FCO;
	struct janitor *j = hire(&o);
	(void)janitor_pools(j);
	size_t said = reported(&jf, failed, failed_count, 21);
	CHECK(said > 0 && said <= lost_count);
	CHECK_EQ(reported(&jf, lost, lost_count, 21), said);
	fixture_do(fx, fixture_start_node, 11);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	fresh_map(&jf);
	CHECK_EQ(janitor_pools(j), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	settle(&jf, 21);
	CHECK_EQ(check_whole(&jf), blocks);
	read_columns(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void readable_columns_stay_when_nothing_can_be_sent_to_their_pool(void **state)
{
	(void)state;
	fixture_run_outside_pools(3, away_body);
}

/*
 * Pool 21 lost more than its code tolerates. Starts its repair at this rate in another fiber, and
 * returns when the first chunk was patched.
 */
static struct rt_fiber *bring_begin(struct janitor_fixture *jf, uint64_t disk_bytes_per_s,
				    struct round *r, size_t *blocks)
{
	struct rt_fiber *fiber;
	write_as(jf, "mlec:2+2/2+1");
	*blocks = check_whole(jf);
	CHECK(lose_some(jf, 21, 3).lost > 0);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = disk_bytes_per_s;
	o.parallel = 1;
	*r = (struct round){.j = hire(&o)};
	CHECK_EQ(rt_spawn(&fiber, "pools", pools_fiber, r), 0);
	while (stats_of(r->j).pool_patches == 0)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	CHECK(!r->done);
	return fiber;
}

/*
 * A second pool loses more than its code tolerates while the first pool is patched, partly from
 * columns of the second.
 */
static void second_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct round r;
	size_t blocks;
	janitor_fixture_open(&jf, fx);
	struct rt_fiber *fiber = bring_begin(&jf, 20000, &r, &blocks);
	CHECK(lose_some(&jf, 31, 3).lost > 0);
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	CHECK(stats_of(r.j).sources_bad > 0);
	CHECK_EQ(stats_of(r.j).lost_blocks, 0);
	end_well(&jf, blocks);
	janitor_close(r.j);
	janitor_fixture_close(&jf);
}

static void a_second_failure_during_the_repair_of_a_pool_is_repaired_too(void **state)
{
	(void)state;
	fixture_run_wide_pools(4, second_body);
}

/* The node of the pool is silent for a while during the repair. */
static void gone_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct round r;
	struct janitor_repair at[JANITOR_REPAIRS_MAX];
	size_t blocks;
	janitor_fixture_open(&jf, fx);
	struct rt_fiber *fiber = bring_begin(&jf, 200000, &r, &blocks);
	fixture_do(fx, fixture_kill_node, 21);
	rt_join(fiber);
	CHECK_EQ(r.rc, 0);
	CHECK(janitor_repairs(r.j, at) == 1 && at[0].end_ns == 0);
	CHECK_EQ(janitor_pools(r.j), 0);
	CHECK(janitor_repairs(r.j, at) == 1 && at[0].end_ns == 0);
	fixture_do(fx, fixture_start_node, 21);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	/* a patch may still fail because the node has just started */
	for (int i = 0; i < 10 && at[0].end_ns == 0; i++) {
		CHECK_EQ(janitor_pools(r.j), 0);
		CHECK_EQ(janitor_repairs(r.j, at), 1);
	}
	CHECK(at[0].end_ns != 0);
	end_well(&jf, blocks);
	janitor_close(r.j);
	janitor_fixture_close(&jf);
}

static void the_repair_of_a_silent_pool_has_not_ended(void **state)
{
	(void)state;
	fixture_run_wide_pools(4, gone_body);
}

/* A source column is valid by its own checksums and has other bytes than the record describes. */
static void rotten_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_as(&jf, "mlec:2+2/2+1");
	size_t blocks = check_whole(&jf), spoilt = 0;
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	/* a first round, in which the janitor notes the drives */
	CHECK_EQ(janitor_repair(j, true), 0);
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_on_disk on[32];
		int64_t n = meta_client_disk_blocks(&jf.root, 21, &w, on, ARRAY_LEN(on));
		CHECK(n >= 0);
		for (int64_t i = 0; i < n; i++) {
			struct arena a;
			arena_init(&a, MIB);
			struct meta_block k = block_get(&jf, on[i].block, &a);
			/* Replace a column that the cheapest plan reads. */
			uint32_t other = on[i].index == 0 ? 1 : 0;
			uint64_t disk = k.chunks[other].disk;
			struct chunk_id id = {k.chunk_block, other};
			/* the column of the last block may be empty */
			bool full = k.length == 64 * KIB;
			if (full)
				chunk_copy(&jf, disk, disk, id, 4);
			spoilt += full;
			arena_fini(&a);
		}
	}
	CHECK(spoilt > 4 && lose_some(&jf, 21, 3).lost > 0);
	CHECK_EQ(janitor_pools(j), 0);
	/*
	 * The pool refuses bytes that do not belong to its column, so these columns are rebuilt
	 * completely from others.
	 */
	uint64_t refused = stats_of(j).failed;
	CHECK(refused > 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(janitor_repair(j, true), 0);
	CHECK(stats_of(j).sources_bad > 0);
	CHECK_EQ(stats_of(j).failed, refused);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	end_well(&jf, blocks);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void a_damaged_source_column_is_left_out_and_repaired(void **state)
{
	(void)state;
	fixture_run_wide_pools(6, rotten_body);
}

/* The lease of a slow janitor expires, and another repairs the same pool at the same time. */
static void two_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_columns(&jf);
	size_t blocks = check_whole(&jf);
	CHECK(lose_members(&jf, 21).lost > 0);
	struct janitor_options o = quick();
	o.lease_ns = 2 * NS_PER_S;
	struct janitor_options slow = o;
	slow.disk_bytes_per_s = 4000;
	slow.parallel = 2;
	struct round r[2] = {{.j = hire(&slow)}, {.j = hire(&o)}};
	struct rt_fiber *fiber;
	CHECK_EQ(rt_spawn(&fiber, "pools", pools_fiber, &r[0]), 0);
	while (stats_of(r[0].j).pool_patches == 0)
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	for (int i = 0; i < 40 && stats_of(r[1].j).pool_patches == 0; i++) {
		CHECK_EQ(rt_sleep_ns(2500 * NS_PER_MS), 0);
		CHECK_EQ(janitor_pools(r[1].j), 0);
	}
	rt_join(fiber);
	CHECK_EQ(r[0].rc, 0);
	for (int i = 0; i < 2; i++) {
		CHECK(stats_of(r[i].j).pool_patches > 0);
		CHECK_EQ(stats_of(r[i].j).failed + stats_of(r[i].j).lost_blocks, 0);
	}
	settle(&jf, 21);
	CHECK_EQ(check_whole(&jf), blocks);
	read_columns(&jf);
	for (int i = 0; i < 2; i++)
		janitor_close(r[i].j);
	janitor_fixture_close(&jf);
}

static void two_janitors_on_a_pool_do_no_harm(void **state)
{
	(void)state;
	fixture_run_wide_pools(6, two_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_columns_of_a_lost_pool_are_rebuilt),
		cmocka_unit_test(a_catastrophic_pool_is_patched_with_what_r_min_says),
		cmocka_unit_test(a_catastrophic_pool_is_patched_with_what_r_hyb_says),
		cmocka_unit_test(a_catastrophic_pool_gets_all_that_failed_by_r_fco),
		cmocka_unit_test(a_catastrophic_pool_is_rebuilt_by_r_all),
		cmocka_unit_test(r_all_rebuilds_columns_in_their_pool_when_there_is_no_other),
		cmocka_unit_test(a_column_rebuilt_in_its_pool_counts_as_repaired),
		cmocka_unit_test(the_repair_of_a_silent_pool_has_not_ended),
		cmocka_unit_test(readable_columns_stay_when_nothing_can_be_sent_to_their_pool),
		cmocka_unit_test(a_second_failure_during_the_repair_of_a_pool_is_repaired_too),
		cmocka_unit_test(a_damaged_source_column_is_left_out_and_repaired),
		cmocka_unit_test(two_janitors_on_a_pool_do_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
