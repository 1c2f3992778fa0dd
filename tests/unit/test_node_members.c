// SPDX-License-Identifier: Apache-2.0
/* Members of pools that vanish and return, disks that hang, and empty folders, which must not be
 * formatted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "node/disks_impl.h"
#include "node_fixture.h"
#include "rt/file.h"

#define TICKS_NS (2 * NS_PER_S) /* time of many rounds of the keeper, and of many times give_up */

static void await_down(struct node_fixture *fx, uint64_t disk, size_t want)
{
	for (int i = 0; i < 6000; i++) {
		struct fixture_pool l = fixture_look(fx, disk);
		if (l.down == want && !l.rebuilding)
			return;
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	}
	CHECK(!"the members never get there");
}

static bool has_superblock(const char *folder)
{
	char path[320];
	struct rt_file *f;
	snprintf(path, sizeof(path), "%s/superblock", folder);
	int rc = rt_file_open(&f, path, RT_READ);
	if (rc == 0)
		rt_file_close(f);
	return rc == 0;
}

static bool says(struct node_fixture *fx, const char *line)
{
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, 1 * MIB);
	CHECK_EQ(node_metrics(fx->node, &text), 0);
	return strstr(strbuf_text(&text), line) != NULL;
}

/* --- members that come back ------------------------------------------------------------------- */

/*
 * Three of five members vanish at once although the code tolerates one loss, so the cause is a
 * cable and not the disks. Runs in simulated time, because in real time the first member could be
 * given up before the second one vanishes.
 */
static void away_together(struct node_fixture *fx)
{
	enum { N = 30 };
	static const int away[] = {M0, M2, M3};
	fixture_fill(fx, 10, N);
	for (size_t i = 0; i < ARRAY_LEN(away); i++)
		fixture_take_away(fx, away[i]);
	CHECK_EQ(rt_sleep_ns(TICKS_NS), 0);
	CHECK_EQ(fixture_look(fx, 10).down, 3);
	CHECK(says(fx, "terrane_pool_overdrawn{disk=\"10\"} 1\n"));
	for (size_t i = 0; i < ARRAY_LEN(away); i++)
		fixture_bring_back(fx, away[i]);
	await_down(fx, 10, 0);
	while (!says(fx, "terrane_pool_overdrawn{disk=\"10\"} 0\n"))
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	CHECK_EQ(fixture_count_bad(fx, 10, N), 0);
	/* The rebuild finds that no row is missing. */
	CHECK_EQ(node_pool_rebuild(&fx->call, 10, true), 0);
	fixture_take_away(fx, M1);
	CHECK_EQ(fixture_count_bad(fx, 10, N), 0);
}

static void no_more_members_are_given_up_than_the_code_tolerates(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, away_together);
}

/* The limit applies to each set of a clustered pool. Beyond it no spare is used. */
static void away_clustered(struct node_fixture *fx)
{
	enum { N = 12 };
	fixture_fill(fx, 11, N);
	fixture_take_away(fx, C0);
	fixture_take_away(fx, C2);
	CHECK_EQ(rt_sleep_ns(TICKS_NS), 0);
	CHECK_EQ(fixture_look(fx, 11).down, 2);
	fixture_bring_back(fx, C0);
	fixture_bring_back(fx, C2);
	await_down(fx, 11, 0);
	CHECK_EQ(fixture_count_bad(fx, 11, N), 0);
	/* The spare drive is unused. */
	fixture_take_away(fx, C1);
	struct fixture_pool l = fixture_await_rebuild(fx, 11, fixture_look(fx, 11).rebuilds);
	CHECK(l.down == 0 && l.lost == 0);
	CHECK_EQ(fixture_count_bad(fx, 11, N), 0);
}

static void no_spare_is_used_beyond_the_tolerance_of_the_code(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, away_clustered);
}

/* The disk fails while it is open, and returns long before give_up_ns. */
static void come_back(const char *path)
{
	enum { N = 30 };
	struct node_fixture fx;
	fixture_init(&fx, path, "n1:7000");
	fx.options.disks.give_up_ns = 3600 * NS_PER_S;
	fixture_make_folders(&fx);
	CHECK_EQ(fixture_start(&fx), 0);
	fixture_fill(&fx, 10, N);
	fixture_take_away(&fx, M1);
	await_down(&fx, 10, 1);
	fixture_bring_back(&fx, M1);
	await_down(&fx, 10, 0);
	CHECK_EQ(fixture_count_bad(&fx, 10, N), 0);
	/* The disk must have its chunks. */
	CHECK_EQ(fixture_look(&fx, 10).rows, 0);
	/* The same holds for a disk that is no pool. */
	fixture_take_away(&fx, D1);
	fixture_await_state(&fx, 1, STORE_FAILED);
	fixture_bring_back(&fx, D1);
	fixture_await_state(&fx, 1, STORE_ONLINE);
	fixture_stop(&fx);
}

static void a_disk_that_failed_because_its_folder_vanished_is_reopened(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, come_back);
}

/* The folder is back for a moment, while the keeper waits for the lock of the members. */
static void flap(const char *path)
{
	struct node_fixture fx;
	struct node_disks set;
	struct node_disk *d;
	fixture_init(&fx, path, "n1:7000");
	fx.options.disks.give_up_ns = 3600 * NS_PER_S;
	fixture_make_folders(&fx);
	CHECK_EQ(node_disks_open(&set, &fx.options.disks), 0);
	CHECK_EQ(node_disk_use(&set, 10, &d), 0);
	CHECK_EQ(rt_mutex_lock(&d->members), 0);
	fixture_take_away(&fx, M1);
	while (!d->slots[1].vanished || list_empty(&d->members.waiters))
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	/* The superblock of the disk is readable, but the disk cannot be opened. */
	fixture_bring_back(&fx, M1);
	fixture_move(&fx, M1, "tmp", "lost");
	rt_mutex_unlock(&d->members);
	CHECK_EQ(rt_sleep_ns(TICKS_NS), 0);
	CHECK(store_pool_member(d->pool, 1) == NULL);
	CHECK(!store_pool_given_up(d->pool, 1));
	node_disk_done(d);
	node_disks_close(&set);
}

static void a_member_that_cannot_be_opened_again_is_not_given_up_at_once(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, flap);
}

static void given_up_and_back(struct node_fixture *fx)
{
	enum { N = 30, MORE = 20 };
	fixture_fill(fx, 10, N);
	fixture_take_away(fx, M1);
	struct fixture_pool l = fixture_await_rebuild(fx, 10, 0);
	CHECK(l.down == 1 && l.rows > 0);
	/*
	 * Rows of these chunks were rebuilt on other members and must be written to this member
	 * again.
	 */
	for (uint32_t i = N; i < N + MORE; i++)
		CHECK_EQ(fixture_put(fx, 10, (struct chunk_id){100 + i, i}, i, 20000 + i, false, 0),
			 0);
	CHECK_EQ(node_delete_one(&fx->call, 10, (struct chunk_id){100, 0}), 0);
	fixture_bring_back(fx, M1);
	await_down(fx, 10, 0);
	CHECK_EQ(node_pool_rebuild(&fx->call, 10, true), 0);
	CHECK_EQ(fixture_get(fx, 10, (struct chunk_id){100, 0}, 0, 0, 20000), -ENOENT);
	CHECK_EQ(fixture_count_bad(fx, 10, N + MORE), 1);
	fixture_take_away(fx, M3);
	CHECK_EQ(fixture_count_bad(fx, 10, N + MORE), 1);
}

static void a_member_given_up_while_absent_returns(void **state)
{
	(void)state;
	node_fixture_run_everywhere(given_up_and_back);
}

static void order_members(struct node_fixture *fx)
{
	enum { N = 30 };
	enum store_state after;
	fixture_fill(fx, 10, N);
	CHECK_EQ(node_pool_fail(&fx->call, 10, 2), 0);
	CHECK_EQ(node_pool_fail(&fx->call, 10, 4), 0);
	CHECK_EQ(rt_sleep_ns(TICKS_NS), 0);
	/* A member that an operator gave up returns only by an operator's order. */
	CHECK_EQ(fixture_look(fx, 10).down, 2);
	CHECK_EQ(node_control(&fx->call, 10, STORE_ONLINE, &after), 0);
	CHECK_EQ(after, STORE_ONLINE);
	await_down(fx, 10, 0);
	CHECK_EQ(node_pool_rebuild(&fx->call, 10, true), 0);
	CHECK_EQ(fixture_count_bad(fx, 10, N), 0);
}

static void a_pool_ordered_online_returns_its_members(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, order_members);
}

/* A spare replaced the disk. Then the disk appears again while the spare is missing. */
static void old_disk(const char *path)
{
	enum { N = 12 };
	struct node_fixture fx;
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	CHECK_EQ(fixture_start(&fx), 0);
	fixture_fill(&fx, 11, N);
	fixture_take_away(&fx, C1);
	struct fixture_pool l = fixture_await_rebuild(&fx, 11, 0);
	CHECK(l.down == 0 && l.lost == 0);
	CHECK_EQ(node_delete_one(&fx.call, 11, (struct chunk_id){100, 0}), 0);
	fixture_stop(&fx);
	fixture_bring_back(&fx, C1);
	fixture_take_away(&fx, S0);
	CHECK_EQ(fixture_start(&fx), 0);
	CHECK_EQ(rt_sleep_ns(TICKS_NS), 0);
	CHECK_EQ(fixture_look(&fx, 11).down, 1);
	CHECK_EQ(fixture_count_bad(&fx, 11, N), 1);
	/* The spare is recognized as the member when it appears. */
	fixture_bring_back(&fx, S0);
	await_down(&fx, 11, 0);
	CHECK_EQ(fixture_count_bad(&fx, 11, N), 1);
	fixture_take_away(&fx, C0);
	CHECK_EQ(fixture_count_bad(&fx, 11, N), 1);
	fixture_stop(&fx);
}

static void a_replaced_disk_does_not_return(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, old_disk);
}

/* --- empty folders ---------------------------------------------------------------------------- */

static void mount_points(const char *path)
{
	enum { N = 12 };
	struct node_fixture fx;
	char away[300];
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	CHECK_EQ(fixture_start(&fx), 0);
	fixture_fill(&fx, 10, N);
	/* The folder appears while the node runs. */
	CHECK_EQ(rt_mkdir(fx.paths[GONE]), 0);
	/* A member is unmounted, which leaves an empty folder. */
	snprintf(away, sizeof(away), "%s/away", path);
	CHECK_EQ(rt_rename(fx.paths[M1], away), 0);
	CHECK_EQ(rt_mkdir(fx.paths[M1]), 0);
	CHECK_EQ(rt_sleep_ns(TICKS_NS), 0);
	CHECK(!has_superblock(fx.paths[GONE]) && !has_superblock(fx.paths[M1]));
	fixture_stop(&fx);
	/*
	 * The folder is not formatted at the next start either, although the option format is
	 * given.
	 */
	CHECK_EQ(fixture_start(&fx), 0);
	CHECK_EQ(rt_sleep_ns(TICKS_NS), 0);
	CHECK(!has_superblock(fx.paths[M1]));
	CHECK_EQ(fixture_count_bad(&fx, 10, N), 0);
	fixture_stop(&fx);
}

static void an_empty_folder_of_a_pool_that_exists_is_never_formatted(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, mount_points);
}

/* --- reservations ------------------------------------------------------------------------------ */

static uint64_t reserved_bytes(struct node_fixture *fx, uint64_t disk)
{
	AUTO_REPLY struct rpc_reply reply;
	CHECK_EQ(node_disks(&fx->call, disk, &reply), 0);
	return NODE_DISKS(&reply)->disks[0]->reserved_bytes;
}

static void reserve_and_reopen(struct node_fixture *fx)
{
	uint64_t old, new;
	enum store_state after;
	CHECK_EQ(node_reserve(&fx->call, 1, 1 * MIB, 0, &old), 0);
	CHECK_EQ(reserved_bytes(fx, 1), 1 * MIB);
	CHECK_EQ(node_control(&fx->call, 1, STORE_FAILED, &after), 0);
	CHECK_EQ(node_control(&fx->call, 1, STORE_ONLINE, &after), 0);
	CHECK_EQ(reserved_bytes(fx, 1), 0);
	CHECK_EQ(node_reserve(&fx->call, 1, 2 * MIB, 0, &new), 0);
	CHECK_EQ(node_release(&fx->call, 1, old), -ENOENT);
	CHECK_EQ(reserved_bytes(fx, 1), 2 * MIB);
	CHECK_EQ(rt_sleep_ns(60 * NS_PER_S), 0);
	CHECK_EQ(reserved_bytes(fx, 1), 0);
}

static void reservations_end_when_a_disk_is_reopened(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, reserve_and_reopen);
}

/* --- while others close it --------------------------------------------------------------------- */

static void ask_on(void *arg)
{
	struct node_fixture *fx = arg;
	while (fx->arg != NULL) {
		(void)fixture_look(fx, 10);
		AUTO_STRBUF struct strbuf text;
		strbuf_init(&text, 1 * MIB);
		CHECK_EQ(node_metrics(fx->node, &text), 0);
	}
}

static void ask_meanwhile(struct node_fixture *fx)
{
	struct rt_group g;
	enum store_state after;
	fx->arg = fx;
	rt_group_init(&g);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(rt_group_spawn(&g, "ask", ask_on, fx), 0);
	for (uint32_t i = 0; i < 6; i++) {
		CHECK_EQ(node_pool_fail(&fx->call, 10, i % 5), 0);
		CHECK_EQ(node_control(&fx->call, 10, STORE_FAILED, &after), 0);
		CHECK_EQ(node_control(&fx->call, 10, STORE_ONLINE, &after), 0);
		CHECK_EQ(node_control(&fx->call, 10, STORE_ONLINE, &after), 0);
		await_down(fx, 10, 0);
	}
	fx->arg = NULL;
	rt_group_join(&g);
}

static void states_can_be_read_while_members_are_closed(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, ask_meanwhile);
}

static void reopen_main(void *arg)
{
	CHECK_EQ(disk_reopen(arg), 0);
}

static void rebuild_late(const char *path)
{
	struct node_fixture fx;
	struct node_disks set;
	struct node_disk *d;
	struct rt_fiber *f;
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	CHECK_EQ(node_disks_open(&set, &fx.options.disks), 0);
	CHECK_EQ(node_disk_use(&set, 10, &d), 0);
	CHECK_EQ(rt_spawn(&f, "reopen", reopen_main, d), 0);
	while (!d->closing)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	/* The disk is being closed and waits for this user. A rebuild started now would still
	 * run after the close. */
	CHECK_EQ(node_pool_start_rebuild(d), -EAGAIN);
	CHECK_EQ(node_pool_give_up(d, 2), 0);
	node_disk_done(d);
	rt_join(f);
	/* The rebuild that is due runs after the disk is open again. */
	for (int i = 0; i < 1000 && d->rebuild.ended == 0; i++)
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	CHECK(d->rebuild.ended > 0);
	node_disks_close(&set);
}

static void no_rebuild_starts_while_its_disk_is_being_closed(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, rebuild_late);
}

static bool members_have_records(struct node_disk *d)
{
	struct store_pool_place at;
	for (uint32_t m = 0; m < 5; m++) {
		struct store *s = store_pool_member(d->pool, m);
		if (s == NULL || store_pool_identify(s, &at) != 0)
			return false;
	}
	return true;
}

static void await_records(struct node_disk *d)
{
	for (int i = 0; i < 1000 && !members_have_records(d); i++)
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_MS), 0);
	CHECK(members_have_records(d));
}

static void rot_records(const char *path)
{
	struct node_fixture fx;
	struct node_disks set;
	struct node_disk *d;
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	/* Damages the record of each member in turn, of one just before the node ends, and of
	 * none. */
	for (int life = 0; life < 3; life++) {
		CHECK_EQ(node_disks_open(&set, &fx.options.disks), 0);
		CHECK_EQ(node_disk_use(&set, 10, &d), 0);
		await_records(d);
		for (uint32_t m = 0; life == 0 && m < 5; m++) {
			text_over_records(store_pool_member(d->pool, m));
			await_records(d);
		}
		if (life == 1)
			text_over_records(store_pool_member(d->pool, 3));
		node_disk_done(d);
		node_disks_close(&set);
	}
}

static void damaged_records_of_a_pool_are_repaired(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, rot_records);
}

/* --- while a member is exchanged --------------------------------------------------------------- */

/* A member whose close takes long. */
struct slow_close {
	struct store_ops ops;
	const struct store_ops *below;
	bool hangs, closing;
};

static void slow_close(struct store *s)
{
	struct slow_close *k = container_of(s->ops, struct slow_close, ops);
	for (k->closing = true; k->hangs;)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	s->ops = k->below;
	store_close(s);
}

static void renew_main(void *arg)
{
	CHECK_EQ(node_pool_renew(arg, 1), 0);
}

/* Waits until a check of member 1 that began after this call has ended. */
static void await_look(struct node_disk *d)
{
	uint64_t now_ns = rt_now_ns();
	while (d->slots[1].checking_ns <= now_ns || d->slots[1].checking)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
}

static void renew_slowly(const char *path)
{
	struct node_fixture fx;
	struct node_disks set;
	struct node_disk *d;
	struct rt_fiber *f;
	struct store_info info;
	struct slow_close k = {.hangs = true};
	fixture_init(&fx, path, "n1:7000");
	fx.options.disks.give_up_ns = 3600 * NS_PER_S;
	fx.options.disks.probe_ns = NS_PER_S;
	fixture_make_folders(&fx);
	CHECK_EQ(node_disks_open(&set, &fx.options.disks), 0);
	CHECK_EQ(node_disk_use(&set, 11, &d), 0);
	struct store *old = store_pool_member(d->pool, 1);
	k.below = old->ops;
	k.ops = *old->ops;
	k.ops.close = slow_close;
	old->ops = &k.ops;
	fixture_take_away(&fx, C1);
	/* The keeper's round has ended: in the next one it checks the folders before it waits
	 * for the lock. */
	while (d->slots[1].down_ns == 0 || d->members.owner != NULL)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	CHECK_EQ(rt_spawn(&f, "renew", renew_main, d), 0);
	while (!k.closing)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	/* At this moment the pool has the spare's store, and the slots are not exchanged yet. */
	await_look(d);
	k.hangs = false;
	rt_join(f);
	await_look(d);
	store_info(store_pool_member(d->pool, 1), &info);
	CHECK_EQ(info.state, STORE_ONLINE);
	CHECK_EQ(d->slots[1].folder->disk, 119);
	CHECK_EQ(d->slots[1].state, STORE_ONLINE);
	node_disk_done(d);
	node_disks_close(&set);
}

static void a_spare_is_not_checked_against_the_folder_of_the_member_it_replaces(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, renew_slowly);
}

/* The spare that replaced a member appears when the pool is reopened, while a fiber hangs in a
 * check of the slot. */
static void swap_under_look(const char *path)
{
	struct node_fixture fx;
	struct node_disks set;
	struct node_disk *d;
	fixture_init(&fx, path, "n1:7000");
	fx.options.disks.give_up_ns = 3600 * NS_PER_S;
	fx.options.disks.probe_ns = NS_PER_S;
	fixture_make_folders(&fx);
	CHECK_EQ(node_disks_open(&set, &fx.options.disks), 0);
	CHECK_EQ(node_disk_use(&set, 11, &d), 0);
	fixture_take_away(&fx, C1);
	while (d->slots[1].down_ns == 0 || d->members.owner != NULL)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	CHECK_EQ(node_pool_renew(d, 1), 0);
	node_disk_done(d);
	node_disks_close(&set);
	fixture_take_away(&fx, S0);
	fx.options.disks.probe_ns = 3600 * NS_PER_S;
	CHECK_EQ(node_disks_open(&set, &fx.options.disks), 0);
	CHECK_EQ(node_disk_use(&set, 11, &d), 0);
	node_disk_done(d);
	CHECK_EQ(d->slots[1].folder->disk, 111);
	d->slots[1].checking = true;
	fixture_bring_back(&fx, S0);
	CHECK_EQ(disk_reopen(d), 0);
	CHECK_EQ(d->slots[1].folder->disk, 119);
	/*
	 * The fiber clears `checking` in the slot of the member; in the slot of the spare no fiber
	 * would ever clear it.
	 */
	CHECK(d->slots[1].checking && !d->spares[0].checking);
	d->slots[1].checking = false;
	node_disks_close(&set);
}

static void a_running_check_stays_with_the_slot_of_a_member(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, swap_under_look);
}

/* --- a disk that hangs ------------------------------------------------------------------------- */

/* A store whose device answers when the test lets it. */
struct stuck {
	struct store base;
	struct store_ops ops;
	struct store *below;
	struct rt_cond go;
	bool hangs;
};

static void stuck_info(struct store *s, struct store_info *out)
{
	struct stuck *k = container_of(s, struct stuck, base);
	while (k->hangs)
		(void)rt_cond_wait(&k->go);
	store_info(k->below, out);
}

static void hang_one(const char *path)
{
	struct node_disk_spec specs[2] = {{.disk = 1, .mem = true, .mem_bytes = 64 * MIB},
					  {.disk = 2, .mem = true, .mem_bytes = 64 * MIB}};
	struct node_disks_options o = {
		.node = 1, .disks = specs, .disk_count = 2, .probe_ns = 100 * NS_PER_MS};
	struct node_disks set;
	struct store_info info;
	struct stuck k = {.hangs = true};
	(void)path;
	CHECK_EQ(node_disks_open(&set, &o), 0);
	struct node_disk *one = &set.disks[0], *two = &set.disks[1];
	node_disk_info(one, &info);
	CHECK_EQ(info.state, STORE_ONLINE);
	uint64_t total = info.total_bytes;
	k.below = one->store;
	k.ops.info = stuck_info;
	k.base.ops = &k.ops;
	rt_cond_init(&k.go);
	one->store = &k.base;
	for (int i = 0; i < 3; i++) {
		uint64_t start = rt_now_ns();
		node_disk_info(one, &info);
		CHECK_EQ(info.state, STORE_SUSPECT);
		CHECK_EQ(info.total_bytes, total);
		/* Only the first request waits for the hanging device. */
		CHECK(rt_now_ns() - start <= (i == 0 ? 1100 : 1) * NS_PER_MS);
		node_disk_info(two, &info);
		CHECK_EQ(info.state, STORE_ONLINE);
		CHECK(rt_now_ns() - start <= (i == 0 ? 1100 : 1) * NS_PER_MS);
	}
	k.hangs = false;
	rt_cond_broadcast(&k.go);
	CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	node_disk_info(one, &info);
	CHECK_EQ(info.state, STORE_ONLINE);
	one->store = k.below;
	node_disks_close(&set);
}

static void a_disk_that_hangs_is_suspect_and_delays_no_other(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, hang_one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_more_members_are_given_up_than_the_code_tolerates),
		cmocka_unit_test(no_spare_is_used_beyond_the_tolerance_of_the_code),
		cmocka_unit_test(a_disk_that_failed_because_its_folder_vanished_is_reopened),
		cmocka_unit_test(a_member_that_cannot_be_opened_again_is_not_given_up_at_once),
		cmocka_unit_test(a_member_given_up_while_absent_returns),
		cmocka_unit_test(a_pool_ordered_online_returns_its_members),
		cmocka_unit_test(a_replaced_disk_does_not_return),
		cmocka_unit_test(an_empty_folder_of_a_pool_that_exists_is_never_formatted),
		cmocka_unit_test(reservations_end_when_a_disk_is_reopened),
		cmocka_unit_test(states_can_be_read_while_members_are_closed),
		cmocka_unit_test(no_rebuild_starts_while_its_disk_is_being_closed),
		cmocka_unit_test(damaged_records_of_a_pool_are_repaired),
		cmocka_unit_test(
			a_spare_is_not_checked_against_the_folder_of_the_member_it_replaces),
		cmocka_unit_test(a_running_check_stays_with_the_slot_of_a_member),
		cmocka_unit_test(a_disk_that_hangs_is_suspect_and_delays_no_other),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
