// SPDX-License-Identifier: Apache-2.0
/* Pools that lost more than they can mend, against a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "janitor_lab.h"

#define COLUMN_BYTES ((uint64_t)(448 * KIB) + 123)

static void pool_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	CHECK_EQ(write_text(&l, "/f", 3, COLUMN_BYTES, "mlec:2+1/2+1"), 0);
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
	CHECK_EQ(read_text(&l, "/f", 3, COLUMN_BYTES), 0);
	janitor_close(j);
	lab_close(&l);
}

static void the_columns_of_a_lost_pool_are_made_anew(void **state)
{
	(void)state;
	cbox_run_pools(6, pool_body);
}

/* What a pool lists. */
struct toll {
	uint64_t lost;      /* bytes of data rows that must be brought, */
	uint64_t lost_data; /* that failed in stripes that are lost, */
	uint64_t failed;    /* and in all */
};

static uint64_t sum_rows(const struct store_pool_loss *l, bool need)
{
	uint32_t rows = 0;
	for (uint32_t r = 0; r < l->k; r++)
		rows += l->lost[0] >> r & 1;
	return (uint64_t)(need ? l->need : rows) * l->stripes * l->piece_bytes;
}

/* Two members of a pool that bears one are given up. */
static struct toll lose_members(struct lab *l, uint64_t disk)
{
	struct call c;
	call_init(&c, engine_fabric(l->engine));
	struct disk_use u;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 60 * NS_PER_S;
	CHECK_EQ(node_pool_fail(&u.node, disk, 0), 0);
	CHECK_EQ(node_pool_fail(&u.node, disk, 1), 0);
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
		for (int64_t i = 0; i < n; i++)
			t.failed += sum_rows(&losses[i], false);
	CHECK_EQ(n, 0);
	disk_end(&c, &u, 0, 0);
	return t;
}

/* What the pool can do by itself is done. */
static void settle(struct lab *l, uint64_t disk)
{
	struct call c;
	call_init(&c, engine_fabric(l->engine));
	struct disk_use u;
	CHECK_EQ(disk_begin(&c, disk, &u), 0);
	u.node.timeout_ns = 60 * NS_PER_S;
	CHECK_EQ(node_pool_rebuild(&u.node, disk, true), 0);
	disk_end(&c, &u, 0, 0);
}

static void write_columns(struct lab *l)
{
	for (uint64_t i = 0; i < 4; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(write_text(l, path, i, COLUMN_BYTES,
				    l->box->outside ? "mlec:2+1/3+1" : "mlec:2+1/2+1"),
			 0);
	}
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
}

static void read_columns(struct lab *l)
{
	for (uint64_t i = 0; i < 4; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%lu", i);
		CHECK_EQ(read_text(l, path, i, COLUMN_BYTES), 0);
	}
}

/* No more than the method says has crossed; stripes at the end of a chunk are short. */
static void check_toll(const struct janitor_stats *s, const struct toll *t,
		       enum janitor_method method)
{
	uint64_t most = method == JANITOR_R_MIN   ? t->lost
			: method == JANITOR_R_HYB ? t->lost_data
						  : t->failed;
	CHECK(s->pool_patches > 0);
	CHECK(s->pool_patch_bytes <= most && s->pool_patch_bytes * 10 >= most * 8);
	/* From two other columns, of which the last may be short. */
	CHECK(s->repair_read_bytes > s->pool_patch_bytes);
	CHECK(s->repair_read_bytes <= 2 * s->pool_patch_bytes);
	/* It stands in no rack. */
	CHECK_EQ(s->repair_cross_bytes, s->repair_read_bytes + s->repair_written_bytes);
}

static void check_record(struct janitor *j, enum janitor_method method)
{
	struct janitor_repair r[JANITOR_REPAIRS_MAX];
	CHECK_EQ(janitor_repairs(j, r), 1);
	CHECK(r[0].pool && r[0].disk == 21 && r[0].method == method && r[0].end_ns != 0);
	CHECK(r[0].total > 0 && r[0].done == r[0].total);
	CHECK_EQ(r[0].cross_bytes, stats_of(j).repair_cross_bytes);
	/* Chunks are few here: the planner counts k of k + p failed rows as data. */
	uint64_t cross = r[0].cross_bytes, predicted = r[0].predicted_bytes;
	bool by_row = method == JANITOR_R_HYB || method == JANITOR_R_FCO;
	CHECK(cross * 10 <= predicted * (by_row ? 15 : 10));
	CHECK(cross * 10 >= predicted * (by_row ? 5 : 7));
}

static void pools_lost(struct client_box *b, enum janitor_method method)
{
	struct lab l;
	lab_open(&l, b);
	write_columns(&l);
	size_t blocks = check_whole(&l), on = blocks_on(&l, 21, NULL);
	struct toll t = lose_members(&l, 21);
	CHECK(t.lost > 0);
	if (b->outside)
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
		CHECK_EQ(blocks_on(&l, 21, NULL), 0);
	} else {
		check_toll(&s, &t, method);
		CHECK_EQ(s.chunks_repaired, 0);
	}
	check_record(j, method);
	settle(&l, 21);
	/* Nothing is left of it. */
	CHECK_EQ(janitor_pools(j), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).repair_written_bytes, s.repair_written_bytes);
	CHECK_EQ(check_whole(&l), blocks);
	read_columns(&l);
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

static void r_fco_body(struct client_box *b)
{
	pools_lost(b, JANITOR_R_FCO);
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

static void a_catastrophic_pool_gets_all_that_failed_by_r_fco(void **state)
{
	(void)state;
	cbox_run_outside_pools(6, r_fco_body);
}

static void a_catastrophic_pool_is_made_anew_by_r_all(void **state)
{
	(void)state;
	cbox_run_outside_pools(6, r_all_body);
}

/* As many racks as columns: there is no other pool for them. */
static void in_place_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	write_columns(&l);
	size_t blocks = check_whole(&l), on = blocks_on(&l, 21, NULL);
	(void)lose_members(&l, 21);
	struct janitor_options o = quick();
	o.method = JANITOR_R_ALL;
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_pools(j), 0);
	CHECK_EQ(stats_of(j).failed + stats_of(j).no_room, 0);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&l, 21, NULL), on);
	settle(&l, 21);
	CHECK_EQ(check_whole(&l), blocks);
	read_columns(&l);
	janitor_close(j);
	lab_close(&l);
}

static void r_all_makes_columns_anew_in_their_pool_when_there_is_no_other(void **state)
{
	(void)state;
	cbox_run_outside_pools(3, in_place_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_columns_of_a_lost_pool_are_made_anew),
		cmocka_unit_test(a_catastrophic_pool_is_patched_with_what_r_min_says),
		cmocka_unit_test(a_catastrophic_pool_is_patched_with_what_r_hyb_says),
		cmocka_unit_test(a_catastrophic_pool_gets_all_that_failed_by_r_fco),
		cmocka_unit_test(a_catastrophic_pool_is_made_anew_by_r_all),
		cmocka_unit_test(r_all_makes_columns_anew_in_their_pool_when_there_is_no_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
