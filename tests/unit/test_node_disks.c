// SPDX-License-Identifier: Apache-2.0
/* Disks of a node that are missing or swapped, or vanish and return; pools that lose members. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/log.h"
#include "node_fixture.h"
#include "rpc/context.h"
#include "rt/file.h"
#include "rt/pool.h"
#include "store/dir.h"

static const struct chunk_id one = {.block = 7, .index = 1};

/* --- disks that are not what they should be --------------------------------------------------- */

static void come_late(struct node_fixture *fx)
{
	CHECK_EQ(fixture_put(fx, 3, one, 1, 100, false, 0), -ENODEV);
	CHECK_EQ(fixture_put(fx, 1, one, 1, 100, false, 0), 0);
	struct super who = {.cluster = {1, 2}, .node = 3, .disk = 3, .fan_bits = 1};
	CHECK_EQ(rt_mkdir(fx->paths[GONE]), 0);
	CHECK_EQ(store_dir_format(fx->paths[GONE], &who), 0);
	fixture_await_state(fx, 3, STORE_ONLINE);
	CHECK_EQ(fixture_put(fx, 3, one, 1, 100, false, 0), 0);
}

static void an_absent_disk_is_opened_when_its_folder_appears(void **state)
{
	(void)state;
	node_fixture_run_everywhere(come_late);
}

/* Three folders contain disks that do not belong there, and one contains other files. */
static void wrong_disks(const char *path)
{
	struct node_fixture fx;
	struct super who = {.cluster = {1, 2}, .node = 3, .disk = 2, .fan_bits = 1};
	char file[320];
	struct rt_file *f;
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	CHECK_EQ(rt_mkdir(fx.paths[GONE]), 0);
	CHECK_EQ(store_dir_format(fx.paths[D1], &who), 0); /* disk 2 in the slot of disk 1 */
	who.cluster[1] = 99;
	CHECK_EQ(store_dir_format(fx.paths[D2], &who), 0); /* a disk of another cluster */
	snprintf(file, sizeof(file), "%s/thesis.tex", fx.paths[GONE]);
	CHECK_EQ(rt_file_open(&f, file, RT_WRITE | RT_CREATE), 0);
	rt_file_close(f);
	CHECK_EQ(fixture_start(&fx), 0);
	CHECK_EQ(fixture_put(&fx, 1, one, 1, 100, false, 0), -ENODEV);
	CHECK(strstr(fx.call.error, "holds disk 2 of node 3, not disk 1") != NULL);
	CHECK_EQ(fixture_put(&fx, 2, one, 1, 100, false, 0), -ENODEV);
	CHECK(strstr(fx.call.error, "another cluster") != NULL);
	CHECK_EQ(fixture_put(&fx, 3, one, 1, 100, false, 0), -ENODEV);
	CHECK(strstr(fx.call.error, "no superblock") != NULL);
	CHECK_EQ(fixture_put(&fx, 10, one, 1, 100, false, 0), 0);
	fixture_stop(&fx);
	CHECK_EQ(rt_file_open(&f, file, RT_READ), 0);
	rt_file_close(f);
}

static void a_disk_in_the_wrong_slot_or_of_another_cluster_is_refused(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, wrong_disks);
}

static void vanish(struct node_fixture *fx)
{
	enum store_state after;
	CHECK_EQ(fixture_put(fx, 2, one, 1, 5000, false, 0), 0);
	fixture_take_away(fx, D2);
	/* A chunk on an unreachable disk must not give -ENOENT. */
	CHECK_EQ(fixture_get(fx, 2, (struct chunk_id){8, 8}, 1, 0, 10), -ENODEV);
	fixture_await_state(fx, 2, STORE_FAILED);
	CHECK_EQ(fixture_put(fx, 2, (struct chunk_id){9, 9}, 1, 5000, false, 0), -ENODEV);
	CHECK_EQ(fixture_put(fx, 1, one, 1, 5000, false, 0), 0);
	CHECK_EQ(node_control(&fx->call, 2, STORE_ONLINE, &after), -ENODEV);
	CHECK_EQ(fixture_get(fx, 1, one, 1, 0, 5000), 0);
}

static void a_disk_whose_folder_vanishes_fails_and_others_serve(void **state)
{
	(void)state;
	node_fixture_run_everywhere(vanish);
}

static void obey(struct node_fixture *fx)
{
	enum store_state after;
	CHECK_EQ(fixture_put(fx, 1, one, 1, 5000, false, 0), 0);
	CHECK_EQ(node_control(&fx->call, 1, STORE_DRAINING, &after), 0);
	CHECK_EQ(after, STORE_DRAINING);
	CHECK_EQ(fixture_put(fx, 1, (struct chunk_id){8, 1}, 1, 100, false, 0), -EROFS);
	CHECK_EQ(fixture_get(fx, 1, one, 1, 0, 5000), 0);
	CHECK_EQ(node_control(&fx->call, 1, STORE_ONLINE, &after), 0);
	CHECK_EQ(fixture_put(fx, 1, (struct chunk_id){8, 1}, 1, 100, false, 0), 0);
	CHECK_EQ(node_control(&fx->call, 1, STORE_FAILED, &after), 0);
	CHECK_EQ(after, STORE_FAILED);
	CHECK_EQ(fixture_get(fx, 1, one, 1, 0, 5000), -EIO);
	/* The disk is reopened with all its chunks. */
	CHECK_EQ(node_control(&fx->call, 1, STORE_ONLINE, &after), 0);
	CHECK_EQ(after, STORE_ONLINE);
	CHECK_EQ(fixture_get(fx, 1, one, 1, 0, 5000), 0);
	CHECK_EQ(fixture_get(fx, 1, (struct chunk_id){8, 1}, 1, 0, 100), 0);
}

static void orders_change_the_state_of_a_disk(void **state)
{
	(void)state;
	node_fixture_run_everywhere(obey);
}

/* --- pools ------------------------------------------------------------------------------------ */

static void lose_member(struct node_fixture *fx)
{
	enum { N = 30 };
	fixture_fill(fx, 10, N);
	CHECK_EQ(fixture_look(fx, 10).down, 0);
	fixture_take_away(fx, M1);
	struct fixture_pool l = fixture_await_rebuild(fx, 10, 0);
	CHECK(l.rows > 0 && l.lost == 0 && l.down == 1);
	CHECK_EQ(fixture_count_bad(fx, 10, N), 0);
	/* The rebuild has ended, so the pool tolerates another loss. */
	fixture_take_away(fx, M3);
	l = fixture_await_rebuild(fx, 10, l.rebuilds);
	CHECK(l.lost == 0 && l.down == 2);
	CHECK_EQ(fixture_count_bad(fx, 10, N), 0);
}

static void a_declustered_pool_repairs_itself(void **state)
{
	(void)state;
	node_fixture_run_everywhere(lose_member);
}

static void use_spare(const char *path)
{
	enum { N = 12 };
	struct node_fixture fx;
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	CHECK_EQ(fixture_start(&fx), 0);
	fixture_fill(&fx, 11, N);
	fixture_take_away(&fx, C1);
	struct fixture_pool l = fixture_await_rebuild(&fx, 11, 0);
	CHECK(l.rows > 0 && l.down == 0 && l.lost == 0);
	CHECK_EQ(fixture_count_bad(&fx, 11, N), 0);
	fixture_stop(&fx);
	/* The configuration still names the disk as a spare; the pool's records make it a
	 * member. */
	CHECK_EQ(fixture_start(&fx), 0);
	CHECK_EQ(fixture_look(&fx, 11).down, 0);
	CHECK_EQ(fixture_count_bad(&fx, 11, N), 0);
	/* The loss of another member shows that this member has its rows. */
	fixture_take_away(&fx, C0);
	CHECK_EQ(fixture_count_bad(&fx, 11, N), 0);
	fixture_stop(&fx);
}

static void a_spare_takes_the_place_of_a_clustered_member(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, use_spare);
}

/* Patches the lost data rows of a loss, from the text. */
static void patch_loss(struct node_fixture *fx, const struct store_pool_loss *l)
{
	struct node_piece_run runs[POOL_ROWS_MAX] = {0};
	struct slice data = {0};
	size_t n = 0;
	CHECK_EQ(rt_pool_get(&fx->pool, 1 * MIB, &data.buf), 0);
	for (uint32_t row = 0; row < l->k; row++) {
		if ((l->lost[row / 32] >> row % 32 & 1) == 0)
			continue;
		struct node_piece_run *run = &runs[n++];
		*run = (struct node_piece_run){
			.row = row, .first_stripe = l->first_stripe, .stripes = l->stripes};
		uint8_t *start = data.buf->data + data.len;
		for (uint64_t s = 0; s < l->stripes; s++) {
			struct store_range r = store_pool_piece(l, l->first_stripe + s, row);
			text_fill(l->id.index, r.off, start + run->len, r.len);
			run->len += r.len;
		}
		run->crc = crc32c(0, start, run->len);
		data.len += run->len;
	}
	data.crc = crc32c(0, data.buf->data, data.len);
	struct node_piece_run wrong = runs[0];
	wrong.crc ^= 1;
	CHECK_EQ(node_pool_patch(
			 &fx->call, 10, l->id, &wrong, 1,
			 (struct slice){.buf = data.buf, .len = wrong.len, .crc = runs[0].crc}),
		 -EBADMSG);
	CHECK_EQ(node_pool_patch(&fx->call, 10, l->id, runs, n, data), 0);
	buf_unref(data.buf);
}

static void lose_two(struct node_fixture *fx)
{
	enum { N = 30 };
	struct store_pool_loss losses[POOL_CHUNK_LOSSES_MAX];
	struct store_cursor at = {0};
	int64_t n;
	unsigned patched = 0;
	fixture_fill(fx, 10, N);
	fixture_take_away(fx, M1);
	fixture_take_away(fx, M3);
	CHECK_EQ(node_pool_fail(&fx->call, 10, 1), 0);
	CHECK_EQ(node_pool_fail(&fx->call, 10, 3), 0);
	struct fixture_pool l = fixture_await_rebuild(fx, 10, 0);
	while (l.down < 2 || l.lost == 0)
		l = fixture_await_rebuild(fx, 10, l.rebuilds);
	CHECK(fixture_count_bad(fx, 10, N) > 0);
	while ((n = node_pool_losses(&fx->call, 10, &at, losses, ARRAY_LEN(losses))) > 0)
		for (int64_t i = 0; i < n; i++, patched++)
			patch_loss(fx, &losses[i]);
	CHECK_EQ(n, 0);
	CHECK(patched > 0);
	CHECK_EQ(fixture_count_bad(fx, 10, N), 0);
	CHECK_EQ(node_pool_rebuild(&fx->call, 10, true), 0);
	CHECK_EQ(fixture_look(fx, 10).lost, 0);
}

static void losses_beyond_the_code_are_listed_and_patched(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, lose_two);
}

/* A rebuild takes as long as its bytes need at the rate limit. */
static void slowly(const char *path)
{
	enum { N = 20 };
	struct node_fixture fx;
	fixture_init(&fx, path, "n1:7000");
	fx.options.disks.rebuild_bytes_per_s = 10 * KIB;
	fx.options.disks.rebuild_parallel = 1;
	fixture_make_folders(&fx);
	CHECK_EQ(fixture_start(&fx), 0);
	fixture_fill(&fx, 10, N);
	CHECK_EQ(node_pool_fail(&fx.call, 10, 2), 0);
	CHECK_EQ(node_pool_fail(&fx.call, 10, 2), -EALREADY);
	uint64_t start = rt_now_ns();
	struct fixture_pool l = {0};
	fx.call.timeout_ns = 600 * NS_PER_S;
	CHECK_EQ(node_pool_rebuild(&fx.call, 10, true), 0);
	l = fixture_look(&fx, 10);
	uint64_t took_s = (rt_now_ns() - start) / NS_PER_S;
	/*
	 * Rows of about 12 KiB each. The pace does not delay the end of the rebuild after the last
	 * row.
	 */
	CHECK(l.rows > 3 && took_s >= l.rows - 2 && took_s <= 2 * l.rows + 2);
	fixture_stop(&fx);
}

static void a_rebuild_stays_within_its_rate_limit(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, slowly);
}

/* --- a cache ---------------------------------------------------------------------------------- */

static void with_cache(const char *path)
{
	struct node_fixture fx;
	struct node_folder flash = {.disk = 300};
	char place[300];
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, 1 * MIB);
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	snprintf(place, sizeof(place), "%s/flash", path);
	CHECK_EQ(rt_mkdir(place), 0);
	flash.path = place;
	fx.specs[0].flash = &flash;
	fx.specs[0].flash_bytes = 4 * MIB;
	fx.specs[0].flash_write_bytes_per_s = 1 * MIB;
	CHECK_EQ(fixture_start(&fx), 0);
	CHECK_EQ(fixture_put(&fx, 1, one, 1, 50000, false, 0), 0);
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(fixture_get(&fx, 1, one, 1, 0, 50000), 0);
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
	CHECK_EQ(node_metrics(fx.node, &text), 0);
	const char *hits = strstr(strbuf_text(&text), "\nterrane_flash_hits_total{disk=\"1\"} ");
	CHECK(hits != NULL);
	CHECK(strstr(strbuf_text(&text), "\nterrane_flash_hits_total{disk=\"1\"} 0\n") == NULL);
	/* Reads that fill the cache are charged to their own group. */
	CHECK(strstr(strbuf_text(&text),
		     "terrane_disk_bytes_total{disk=\"1\",group=\"flash\",class=\"bronze\"} "
		     "50000\n") != NULL);
	CHECK_EQ(node_delete_one(&fx.call, 1, one), 0);
	CHECK_EQ(fixture_get(&fx, 1, one, 1, 0, 50000), -ENOENT);
	fixture_stop(&fx);
	/* The disk works without the folder of its cache. */
	flash.path = "/d0/none";
	CHECK_EQ(fixture_start(&fx), 0);
	CHECK_EQ(fixture_put(&fx, 1, one, 2, 50000, false, 0), 0);
	CHECK_EQ(fixture_get(&fx, 1, one, 2, 0, 50000), 0);
	fixture_stop(&fx);
}

static void hot_chunks_are_read_from_the_flash_cache(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, with_cache);
}

/* --- what an operator sees -------------------------------------------------------------------- */

static void look_at_metrics(struct node_fixture *fx)
{
	AUTO_STRBUF struct strbuf text;
	AUTO_CONTEXT const struct context *ads = NULL;
	struct context who = {
		.tenant = "ads", .traffic_group = "tr\"ain\n", .traffic_class = TRAFFIC_GOLD};
	CHECK_EQ(context_new(&ads, &who), 0);
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(ads);
	strbuf_init(&text, 1 * MIB);
	CHECK_EQ(fixture_put(fx, 1, one, 1, 5000, false, 0), 0);
	CHECK_EQ(fixture_get(fx, 1, one, 1, 0, 5000), 0);
	CHECK_EQ(node_metrics(fx->node, &text), 0);
	const char *t = strbuf_text(&text);
	CHECK(strstr(t, "terrane_disk_state{disk=\"1\",state=\"online\"} 1\n") != NULL);
	CHECK(strstr(t, "terrane_disk_state{disk=\"3\",state=\"failed\"} 1\n") != NULL);
	CHECK(strstr(t, "terrane_disk_bytes_total{disk=\"1\",group=\"ads/tr_ain_\",class=\"gold\"} "
			"10000\n") != NULL);
	CHECK(strstr(t, "terrane_disk_service_seconds_count{disk=\"1\"") != NULL);
	CHECK(strstr(t, "terrane_pool_rebuilding{disk=\"10\"} 0\n") != NULL);
	CHECK(strstr(t, "terrane_rpc_requests_total{role=\"node\"}") != NULL);
}

static void metrics_have_series_for_disks_groups_and_classes(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, look_at_metrics);
}

/* --- orders that wait --------------------------------------------------------------------------- */

/* A store that executes orders only when the test allows it. */
struct deaf {
	struct store_ops ops;
	const struct store_ops *below;
	bool hangs;
};

static int deaf_control(struct store *s, enum store_state state)
{
	struct deaf *k = container_of(s->ops, struct deaf, ops);
	int rc = k->hangs ? rt_sleep_ns(3600 * NS_PER_S) : 0;
	return rc != 0 ? rc : k->below->control(s, state);
}

struct order {
	struct node_disk *disk;
	enum store_state state;
	uint64_t patience_ns;
	int rc;
};

static void order_main(void *arg)
{
	struct order *o = arg;
	rt_deadline_set(rt_now_ns() + o->patience_ns);
	o->rc = node_disk_control(o->disk, o->state);
}

/* Gives an order that the store fails, and a second one while the first waits. */
static void order_two(struct node_disk *d, struct deaf *k, enum store_state first,
		      enum store_state second, bool taken)
{
	struct order a = {.disk = d, .state = first, .patience_ns = NS_PER_S};
	struct order b = {.disk = d, .state = second, .patience_ns = 2 * NS_PER_S};
	struct rt_fiber *fa, *fb;
	k->hangs = true;
	CHECK_EQ(rt_spawn(&fa, "order", order_main, &a), 0);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	k->hangs = !taken;
	CHECK_EQ(rt_spawn(&fb, "order", order_main, &b), 0);
	rt_join(fa);
	rt_join(fb);
	CHECK_EQ(a.rc, -ETIME);
	CHECK_EQ(b.rc, taken ? 0 : -ETIME);
}

static void order_deaf(const char *path)
{
	struct node_disk_spec spec = {.disk = 1, .mem = true, .mem_bytes = 64 * MIB};
	struct node_disks_options o = {
		.node = 1, .disks = &spec, .disk_count = 1, .probe_ns = 100 * NS_PER_MS};
	struct node_disks set;
	struct deaf k = {0};
	(void)path;
	CHECK_EQ(node_disks_open(&set, &o), 0);
	struct node_disk *d = &set.disks[0];
	k.below = d->store->ops;
	k.ops = *k.below;
	k.ops.control = deaf_control;
	d->store->ops = &k.ops;
	order_two(d, &k, STORE_DRAINING, STORE_DRAINING, true);
	CHECK_EQ(d->ordered, STORE_DRAINING);
	/* Both orders fail, so the state stays. */
	order_two(d, &k, STORE_ONLINE, STORE_FAILED, false);
	CHECK_EQ(d->ordered, STORE_DRAINING);
	order_two(d, &k, STORE_ONLINE, STORE_FAILED, true);
	CHECK_EQ(d->ordered, STORE_FAILED);
	node_disks_close(&set);
}

static void an_order_that_failed_does_not_undo_a_later_one(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, order_deaf);
}

/* The first order waits for the lock of the members, the second does not. */
static void order_late(const char *path)
{
	struct node_fixture fx;
	struct node_disks set;
	struct store_info info;
	struct rt_fiber *f;
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	CHECK_EQ(node_disks_open(&set, &fx.options.disks), 0);
	struct node_disk *d = node_disk_find(&set, 10);
	struct order a = {.disk = d, .state = STORE_ONLINE, .patience_ns = 60 * NS_PER_S};
	CHECK_EQ(rt_mutex_lock(&d->members), 0);
	CHECK_EQ(rt_spawn(&f, "order", order_main, &a), 0);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	CHECK_EQ(node_disk_control(d, STORE_DRAINING), 0);
	rt_mutex_unlock(&d->members);
	rt_join(f);
	CHECK_EQ(a.rc, -EBUSY);
	CHECK_EQ(d->ordered, STORE_DRAINING);
	node_disk_info(d, &info);
	CHECK_EQ(info.state, STORE_DRAINING);
	node_disks_close(&set);
}

static void an_order_that_waited_does_not_undo_a_later_one(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, order_late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_absent_disk_is_opened_when_its_folder_appears),
		cmocka_unit_test(a_disk_in_the_wrong_slot_or_of_another_cluster_is_refused),
		cmocka_unit_test(a_disk_whose_folder_vanishes_fails_and_others_serve),
		cmocka_unit_test(orders_change_the_state_of_a_disk),
		cmocka_unit_test(a_declustered_pool_repairs_itself),
		cmocka_unit_test(a_spare_takes_the_place_of_a_clustered_member),
		cmocka_unit_test(losses_beyond_the_code_are_listed_and_patched),
		cmocka_unit_test(a_rebuild_stays_within_its_rate_limit),
		cmocka_unit_test(hot_chunks_are_read_from_the_flash_cache),
		cmocka_unit_test(metrics_have_series_for_disks_groups_and_classes),
		cmocka_unit_test(an_order_that_failed_does_not_undo_a_later_one),
		cmocka_unit_test(an_order_that_waited_does_not_undo_a_later_one),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
