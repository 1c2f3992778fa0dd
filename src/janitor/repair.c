// SPDX-License-Identifier: Apache-2.0
/*
 * Which blocks to repair, in which order: those that bear the least further losses first.
 *
 * Shares of the partitions are gone through twice, first for what bears none. A share's list is sorted when all of
 * it is known; when that is too long, the neediest that can be helped stay, and the others come with
 * the next round. A disk that is lost while all this goes on changes what blocks bear: then everything is
 * looked at anew, from the beginning.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/rng.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define PAGE 64
#define LOOK_NS NS_PER_S /* between looks at which disks are lost */
#define STARTS_MAX 16    /* of a round */

struct patient {
	uint64_t disk; /* that it was found by; 0: by its record */
	uint32_t tenant;
	int more; /* -1: may be beyond help */
	uint64_t block;
};

struct ward {
	struct janitor *j;
	char lease[32];
	struct patient *list;
	size_t count, cap, next;
	uint64_t lost; /* mark of the disks that were lost when the round began */
	uint64_t looked_ns;
	bool outdated; /* others are now */
	bool urgent;   /* only what bears no further loss: all come again */
	int rc;        /* of the metadata, or the lease */
};

/* The same for the same set of disks. */
static uint64_t lost_mark(struct janitor *j)
{
	uint64_t sum = 0;
	map_for_each(&j->fabric.map->disks, it)
		if (disk_fate(j, it.key) == DISK_LOST)
			sum += mix_u64(it.key);
	return sum;
}

static bool is_outdated(struct ward *w)
{
	if (w->outdated || rt_now_ns() - w->looked_ns < LOOK_NS)
		return w->outdated;
	w->looked_ns = rt_now_ns();
	if (janitor_map(w->j) == 0)
		w->outdated = lost_mark(w->j) != w->lost;
	return w->outdated;
}

static int ward_judge(struct ward *w);

/* The neediest stay. What may be beyond help stands before them, and goes first: it is found again in
 * every round, so that in none there would be a place for what can be helped. */
static void ward_cut(struct ward *w, size_t max)
{
	size_t hopeless = 0;
	while (hopeless < w->count && w->list[hopeless].more < 0)
		hopeless++;
	size_t others = min_u64(w->count - hopeless, max);
	size_t stay = min_u64(hopeless, max - others);
	for (size_t i = 0; i < others; i++)
		w->list[stay + i] = w->list[hopeless + i];
	w->count = stay + others;
}

static int ward_add(struct ward *w, uint32_t tenant, uint64_t block, int more, uint64_t disk)
{
	if (w->count >= w->j->opts.list_max) {
		int rc = ward_judge(w);
		if (rc < 0)
			return rc;
		ward_cut(w, w->j->opts.list_max / 2);
	}
	if (w->count == w->cap) {
		size_t cap = w->cap == 0 ? 256 : w->cap * 2;
		struct patient *list = realloc(w->list, cap * sizeof(*list));
		if (list == NULL)
			return -ENOMEM;
		w->list = list;
		w->cap = cap;
	}
	w->list[w->count++] = (struct patient){disk, tenant, more, block};
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct patient *x = a, *y = b;
	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	return x->block < y->block ? -1 : x->block > y->block;
}

static int by_need(const void *a, const void *b)
{
	const struct patient *x = a, *y = b;
	return x->more != y->more ? (x->more < y->more ? -1 : 1) : by_name(a, b);
}

/* --- who --------------------------------------------------------------------------------------- */

/* Blocks with a chunk on a disk that is lost or to be emptied. */
static int find_by_disks(struct ward *w, unsigned share, const uint64_t *disks, size_t n)
{
	struct errand e;
	errand_init(w->j, &e, 0);
	struct meta_call m = errand_meta(w->j, &e);
	int rc = 0;
	for (size_t d = 0; rc == 0 && d < n; d++) {
		for (struct meta_walk at = share_walk(w->j, share); rc == 0 && at.index < at.end;) {
			struct meta_on_disk on[PAGE];
			int64_t got = meta_client_disk_blocks(&m, disks[d], &at, on, PAGE);
			rc = got < 0 ? (int)got : 0;
			for (int64_t i = 0; rc == 0 && i < got; i++)
				rc = ward_add(w, on[i].tenant, on[i].block, 0, disks[d]);
		}
	}
	return rc;
}

/* Blocks whose record says that something is missing. */
static int find_by_records(struct ward *w, unsigned share)
{
	struct errand e;
	errand_init(w->j, &e, 0);
	struct meta_call m = errand_meta(w->j, &e);
	int rc = 0;
	for (struct meta_walk at = share_walk(w->j, share); rc == 0 && at.index < at.end;) {
		struct meta_block_at found[PAGE];
		struct arena a;
		arena_init(&a, 4 * MIB);
		int64_t n = meta_client_blocks(&m, &at, &a, found, PAGE);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			struct damage d;
			if (found[i].block.state == META_BLOCK_SEALED &&
			    block_damage(w->j, &found[i].block, &d) == 0 && d.bad > 0)
				rc = ward_add(w, found[i].tenant, found[i].block.id, d.more, 0);
		}
		arena_fini(&a);
	}
	return rc;
}

/* n of one tenant: those that are whole, pending or gone drop out. Returns how many are left in out. */
static int64_t patients_judge(struct ward *w, const struct patient *p, size_t n,
			      struct patient *out)
{
	struct errand e;
	errand_init(w->j, &e, p[0].tenant);
	struct meta_call m = errand_meta(w->j, &e);
	struct meta_block b[PAGE];
	struct patient sick[PAGE] = {0};
	uint64_t ids[PAGE];
	int64_t count = 0;
	struct arena a;
	arena_init(&a, 4 * MIB);
	for (size_t i = 0; i < n; i++)
		ids[i] = p[i].block;
	int rc = meta_client_block_get(&m, ids, n, &a, b);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct damage d = {0};
		w->j->stats.open_blocks += b[i].state == META_BLOCK_OPEN;
		if (b[i].state != META_BLOCK_SEALED || block_damage(w->j, &b[i], &d) < 0 ||
		    d.bad == 0)
			continue;
		sick[count] = p[i];
		sick[count++].more = d.more;
	}
	arena_fini(&a);
	for (int64_t i = 0; i < count; i++)
		out[i] = sick[i];
	return rc < 0 ? rc : count;
}

/* Each once, with its need, in the order of that. */
static int ward_judge(struct ward *w)
{
	size_t n = 0, left = 0;
	if (w->count == 0)
		return 0;
	qsort(w->list, w->count, sizeof(*w->list), by_name);
	for (size_t i = 0; i < w->count; i++)
		if (n == 0 || by_name(&w->list[n - 1], &w->list[i]) != 0)
			w->list[n++] = w->list[i];
	for (size_t i = 0, run; i < n; i += run) {
		for (run = 1;
		     run < PAGE && i + run < n && w->list[i + run].tenant == w->list[i].tenant;)
			run++;
		int64_t sick = patients_judge(w, w->list + i, run, w->list + left);
		if (sick < 0)
			return (int)sick;
		left += (size_t)sick;
	}
	w->count = left;
	if (left > 0)
		qsort(w->list, w->count, sizeof(*w->list), by_need);
	return 0;
}

/* --- doing ------------------------------------------------------------------------------------- */

static void note_result(struct ward *w, const struct patient *p, int rc)
{
	struct janitor *j = w->j;
	if (rc == 0 || rc == -ECANCELED)
		return;
	j->stats.no_room += rc == -ENOSPC;
	j->stats.lost_blocks += rc == -ENODATA;
	j->stats.failed += rc != -ENOSPC && rc != -ENODATA && rc != -EAGAIN;
	j->round_stuck.no_room += !w->urgent && rc == -ENOSPC;
	j->round_stuck.lost += !w->urgent && rc == -ENODATA;
	log_warn("repair", "tenant=%u block=%016lx rc=%d", p->tenant, p->block, rc);
}

static void nurse(void *arg)
{
	struct ward *w = arg;
	/* The look may wait while others take what is left: it comes first. */
	while (!is_outdated(w) && w->rc == 0 && w->next < w->count) {
		const struct patient p = w->list[w->next++];
		struct janitor_repair *r =
			p.disk != 0 ? repair_under_way(w->j, p.disk, false) : NULL;
		int rc = block_repair(w->j, p.tenant, p.block, NULL, r);
		note_result(w, &p, rc);
		if (r != NULL) {
			r->done += rc == 0;
			r->failed += rc < 0 && rc != -ECANCELED;
		}
		w->j->stats.blocks_waiting = w->count - w->next;
		if (rc == -ECANCELED)
			w->rc = rc;
		else if (w->rc == 0)
			w->rc = lease_keep(w->j, w->lease);
	}
}

static int ward_work(struct ward *w)
{
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < w->j->opts.parallel && i < w->count; i++)
		if (rt_group_spawn(&g, "repair", nurse, w) < 0)
			break;
	rt_group_join(&g);
	w->j->stats.blocks_waiting = 0;
	return w->rc;
}

/* 1: another disk was lost meanwhile. */
static int share_repair(struct janitor *j, unsigned share, const uint64_t *disks, size_t n,
			bool look, bool urgent, uint64_t lost)
{
	struct ward w = {.j = j, .lost = lost, .urgent = urgent};
	snprintf(w.lease, sizeof(w.lease), "repair/%u", share);
	int rc = lease_take(j, w.lease);
	if (rc < 0)
		return rc == -EBUSY ? 0 : rc;
	rc = find_by_disks(&w, share, disks, n);
	if (rc == 0 && look)
		rc = find_by_records(&w, share);
	if (rc == 0)
		rc = ward_judge(&w);
	while (rc == 0 && urgent && w.count > 0 && w.list[w.count - 1].more > 0)
		w.count--;
	if (rc == 0)
		rc = lease_keep(j, w.lease);
	if (rc == 0)
		rc = ward_work(&w);
	free(w.list);
	if (rc == 0)
		lease_drop(j, w.lease);
	return rc == -EBUSY ? 0 : rc < 0 ? rc : w.outdated;
}

static uint64_t *disks_to_empty(struct janitor *j, size_t *n)
{
	size_t count = 0;
	uint64_t *ids = disk_ids(j, &count);
	*n = 0;
	for (size_t i = 0; ids != NULL && i < count; i++) {
		enum disk_fate fate = disk_fate(j, ids[i]);
		if (fate == DISK_LOST || fate == DISK_EMPTYING)
			ids[(*n)++] = ids[i];
	}
	return ids;
}

/* How many blocks the metadata has there. */
static int64_t blocks_there(struct janitor *j, uint64_t disk)
{
	struct errand e;
	errand_init(j, &e, 0);
	struct meta_call m = errand_meta(j, &e);
	int64_t sum = 0, n = 0;
	for (struct meta_walk at = {.end = j->partitions}; n >= 0 && at.index < at.end;) {
		struct meta_on_disk on[PAGE];
		n = meta_client_disk_blocks(&m, disk, &at, on, PAGE);
		sum += n > 0 ? n : 0;
	}
	return n < 0 ? n : sum;
}

/* Repairs begin when there is something to do, and end when there is nothing left. */
static int repairs_note(struct janitor *j)
{
	size_t n = 0;
	AUTO_FREE uint64_t *disks = disks_to_empty(j, &n);
	if (disks == NULL)
		return -ENOMEM;
	int64_t left = 0;
	for (size_t i = 0; left >= 0 && i < n; i++) {
		struct janitor_repair *r = repair_under_way(j, disks[i], false);
		left = blocks_there(j, disks[i]);
		if (left > 0 && r == NULL)
			r = repair_begin(j, disks[i], false);
		if (left > 0 && r != NULL)
			r->total = max_u64(r->total, r->done + (uint64_t)left);
		/* Also what others did, or was deleted, is done. */
		if (left == 0 && r != NULL)
			r->done = r->total;
		if (left == 0)
			repair_end(r);
	}
	/* One that came back needs none. */
	for (size_t i = 0; i < JANITOR_REPAIRS_MAX; i++) {
		struct janitor_repair *r = &j->repairs[i];
		bool still = r->pool;
		for (size_t k = 0; k < n; k++)
			still = still || disks[k] == r->disk;
		if (r->disk != 0 && !still)
			repair_end(r);
	}
	return left < 0 ? (int)left : 0;
}

/* First everywhere what bears no further loss. With all well there is nothing to go through twice. 1: others are
 * lost now than at the beginning. */
static int shares_repair(struct janitor *j, bool look)
{
	uint64_t lost = lost_mark(j);
	int first = 0;
	j->round_stuck = (struct stuck){0};
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < JANITOR_SHARES; i++) {
			size_t n = 0;
			AUTO_FREE uint64_t *disks = disks_to_empty(j, &n);
			if (disks == NULL)
				return -ENOMEM;
			if (lost_mark(j) != lost)
				return 1;
			if (n == 0 && (!look || pass == 0))
				continue;
			int rc = share_repair(j, share_turn(j, i), disks, n, look, pass == 0, lost);
			if (rc > 0)
				return rc;
			if (!share_next(rc, &first) || !share_next(janitor_map(j), &first))
				return first;
		}
	}
	return first;
}

/* What only a look finds is not better because a round went without. */
static void stuck_note(struct janitor *j, bool look)
{
	const struct stuck *now = &j->round_stuck;
	j->stuck.lost = look ? now->lost : max_u64(j->stuck.lost, now->lost);
	j->stuck.no_room = look ? now->no_room : max_u64(j->stuck.no_room, now->no_room);
}

int janitor_repair(struct janitor *j, bool look)
{
	struct errand e;
	errand_init(j, &e, 0);
	struct meta_call m = errand_meta(j, &e);
	uint64_t epoch, missing = 0;
	int shown = 0, rc = janitor_map(j);
	if (rc == 0)
		rc = meta_client_gc_epoch(&m, &epoch, &j->partitions);
	/* It counts over all shares: one that fails is said at the end. */
	if (rc == 0 && !share_next(repairs_note(j), &shown))
		rc = shown;
	if (rc == 0)
		rc = drives_look(j, &missing);
	if (rc < 0)
		return rc;
	look = look || missing > 0;
	for (int starts = 0; starts == 0 || (rc == 1 && starts < STARTS_MAX); starts++)
		rc = shares_repair(j, look);
	if (rc == 0)
		stuck_note(j, look);
	if (rc > 0)
		rc = 0; /* the next round goes on */
	if (rc == 0)
		rc = repairs_note(j);
	j->stats.repair_rounds += rc == 0;
	return rc;
}
