// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which blocks to repair and in which order: the blocks that tolerate the fewest further losses first.
 *
 * A round
 *
 *   1. takes the leases of the shares that no other janitor has, and walks each share once
 *      (repair_queue.h)
 *   2. repairs, over all shares, the blocks that tolerate no further loss
 *   3. gives the leases of the shares beyond its part back, so that other janitors have work
 *      too: if 12 shares have degraded blocks and 3 janitors live, it keeps 4
 *   4. repairs the other blocks of the shares it keeps, most degraded first, and gives these
 *      leases back
 *   5. takes shares of 3 that are free again, up to its part, and goes on with 4 until none is
 *      left. Another janitor may have had such a share since, so the records of its blocks are read
 *      again.
 *
 *     example   one disk of 1000 is lost, rs:9+6: its blocks tolerate 5 further losses,
 *               and step 2 has nothing to do. A second disk fails in step 4: the round begins
 *               again, and the blocks that both disks had come first.
 *
 * Invariants
 *   I1  a block is repaired under the lease of its share. The lease saves work and protects
 *       nothing
 *   I2  in a round each row of the reverse index and each Block record is read at most once,
 *       except after a restart, for blocks whose record did not fit into memory, got older than
 *       RECORD_AGE_NS or changed, and for shares of step 5
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/rng.h"
#include "janitor/repair_queue.h"
#include "rt/rt.h"

#define MAP_CHECK_NS NS_PER_S /* time between two checks of whether further disks are lost */
#define STARTS_MAX 16         /* largest number of restarts of one round */
#define RECORD_AGE_NS (600 * NS_PER_S)

/* result of round_run: the set of lost disks is another one than at the begin of the round */
#define ROUND_RESTART 1

enum share_state {
	/*
	 * the share has no work left, or another janitor has its lease, or an error ended the work
	 */
	SHARE_DONE,
	SHARE_HELD,    /* the share was walked, and this janitor has its lease */
	SHARE_YIELDED, /* the share was walked, and its lease was given back for other janitors */
};

struct repair_round {
	struct janitor *j;
	struct repair_queue queue;
	enum share_state shares[JANITOR_SHARES];
	size_t next, end; /* items that workers take: [next, end) of the queue */
	/* number of shares that were skipped because another janitor has their lease */
	unsigned busy;
	/* largest number of shares to work on at the same time, while other janitors live */
	unsigned part;
	/* number of those items that are in shares held by this janitor and that no worker has
	 * taken */
	size_t waiting;
	uint64_t lost; /* value of lost_mark() at the begin of the round */
	uint64_t checked_ns;
	bool complete; /* all shares were walked */
	bool outdated; /* the set of lost disks is another one than at the begin of the round */
	bool stop;     /* the round must end: cancelled or no memory; rc has the error */
	int rc;        /* the first error of a request to the metadata service */
};

/* Returns a number that differs for different sets of lost disks. */
static uint64_t lost_mark(struct janitor *j)
{
	uint64_t sum = 0;
	map_for_each(&j->fabric.map->disks, it)
		if (disk_fate(j, it.key) == DISK_LOST)
			sum += mix_u64(it.key);
	return sum;
}

static bool is_outdated(struct repair_round *r)
{
	if (r->outdated || rt_now_ns() - r->checked_ns < MAP_CHECK_NS)
		return r->outdated;
	r->checked_ns = rt_now_ns();
	if (janitor_map(r->j) == 0)
		r->outdated = lost_mark(r->j) != r->lost;
	return r->outdated;
}

/* --- shares ------------------------------------------------------------------------------------ */

static const char *lease_name(unsigned share, char out[32])
{
	snprintf(out, 32, "repair/%u", share);
	return out;
}

/* Remembers the first error. One share may fail alone; r->stop is set by an error that ends
 * the round. */
static void round_note(struct repair_round *r, int rc)
{
	if (!share_next(rc, &r->rc))
		r->stop = true;
}

/* Takes the lease of a share. Returns whether this janitor has the lease now. */
static bool share_take(struct repair_round *r, unsigned share)
{
	char name[32];
	assert(r->shares[share] != SHARE_HELD);
	int rc = lease_take(r->j, lease_name(share, name));
	r->shares[share] = rc == 0 ? SHARE_HELD : SHARE_DONE;
	r->busy += rc == -EBUSY;
	if (rc < 0 && rc != -EBUSY)
		round_note(r, rc);
	return rc == 0;
}

static void share_leave(struct repair_round *r, unsigned share, enum share_state next)
{
	char name[32];
	assert(r->shares[share] == SHARE_HELD && next != SHARE_HELD);
	r->shares[share] = next;
	lease_drop(r->j, lease_name(share, name));
}

/* Renews the leases that are due. A share whose lease was lost, or cannot be renewed, is left
 * alone. */
static void shares_keep(struct repair_round *r)
{
	char name[32];
	for (unsigned i = 0; i < JANITOR_SHARES && !r->stop; i++) {
		if (r->shares[i] != SHARE_HELD)
			continue;
		int rc = lease_keep(r->j, lease_name(i, name));
		if (rc == 0)
			continue;
		/*
		 * lease_keep waits, and another worker may have changed the share's state in the
		 * meantime.
		 */
		if (r->shares[i] == SHARE_HELD)
			r->shares[i] = SHARE_DONE;
		if (rc != -EBUSY)
			round_note(r, rc);
	}
}

static unsigned shares_in(const struct repair_round *r, enum share_state state)
{
	unsigned n = 0;
	for (unsigned i = 0; i < JANITOR_SHARES; i++)
		n += r->shares[i] == state;
	return n;
}

/* Divides the number of shares with work by the number of live janitors, keeps that many
 * shares and gives the leases of the other shares back. */
static void shares_yield(struct repair_round *r)
{
	unsigned janitors = 1 + r->j->others, held = shares_in(r, SHARE_HELD);
	r->part = (held + r->busy + janitors - 1) / janitors;
	assert(r->part > 0 || held == 0);
	held = 0;
	for (unsigned i = 0; i < JANITOR_SHARES; i++) {
		unsigned share = share_turn(r->j, i);
		if (r->shares[share] == SHARE_HELD && ++held > r->part)
			share_leave(r, share, SHARE_YIELDED);
	}
	for (size_t i = 0; i < r->queue.count; i++) {
		struct repair_item *it = &r->queue.list[i];
		if (r->shares[it->share] == SHARE_YIELDED && !it->taken)
			repair_queue_drop_record(&r->queue, it);
	}
}

static void shares_take_again(struct repair_round *r)
{
	unsigned part = r->part;
	for (unsigned i = 0; i < JANITOR_SHARES && part > 0 && !r->stop; i++) {
		unsigned share = share_turn(r->j, i);
		if (r->shares[share] == SHARE_YIELDED && share_take(r, share))
			part--;
	}
}

static void shares_leave(struct repair_round *r)
{
	for (unsigned i = 0; i < JANITOR_SHARES && !r->stop; i++)
		if (r->shares[i] == SHARE_HELD)
			share_leave(r, i, SHARE_DONE);
}

/* --- finding ----------------------------------------------------------------------------------- */

static void share_walk_once(struct repair_round *r, unsigned share, bool look)
{
	if (!share_take(r, share)) {
		r->complete = false;
		return;
	}
	int rc = repair_queue_walk(&r->queue, share, look);
	if (rc < 0) {
		r->complete = false;
		round_note(r, rc);
	}
	shares_keep(r);
	if (!r->stop && r->shares[share] == SHARE_HELD &&
	    repair_queue_count_share(&r->queue, share) == 0)
		share_leave(r, share, SHARE_DONE);
}

/* --- repairing --------------------------------------------------------------------------------- */

static void note_failure(struct janitor *j, const struct repair_item *it, int rc)
{
	j->stats.no_room += rc == -ENOSPC;
	j->stats.lost_blocks += rc == -ENODATA;
	j->stats.failed += rc != -ENOSPC && rc != -ENODATA && rc != -EAGAIN;
	j->round_stuck.no_room += rc == -ENOSPC;
	j->round_stuck.lost += rc == -ENODATA;
	log_warn("repair", "tenant=%u block=%016lx rc=%d", it->tenant, it->block, rc);
}

/* Returns the running repair of the first lost disk that the item has a chunk on; NULL: no
 * repair of that disk is running. */
static struct janitor_repair *repair_of(struct repair_round *r, const struct repair_item *it)
{
	return it->disks == 0
		       ? NULL
		       : repair_under_way(r->j, r->queue.disks[__builtin_ctzll(it->disks)], false);
}

/* Adds the result of an item to the progress of each lost disk that the block had a chunk on. */
static void note_progress(struct repair_round *r, const struct repair_item *it, int rc)
{
	for (uint64_t bits = it->disks; bits != 0; bits &= bits - 1) {
		int d = __builtin_ctzll(bits);
		assert((size_t)d < r->queue.disk_count);
		struct janitor_repair *at = repair_under_way(r->j, r->queue.disks[d], false);
		r->queue.repaired[d] += rc == 0;
		if (at == NULL)
			continue;
		at->done += rc == 0;
		at->failed += rc < 0;
	}
}

/* Takes the next item whose share this janitor holds; NULL: no item is left. */
static struct repair_item *item_take(struct repair_round *r)
{
	assert(r->end <= r->queue.count);
	while (r->next < r->end) {
		struct repair_item *it = &r->queue.list[r->next++];
		if (it->taken || r->shares[it->share] != SHARE_HELD)
			continue;
		it->taken = true;
		r->waiting -= r->waiting > 0;
		return it;
	}
	r->waiting = 0;
	return NULL;
}

static void item_repair(struct repair_round *r, struct repair_item *it)
{
	struct janitor *j = r->j;
	if (rt_now_ns() - r->queue.begin_ns >= RECORD_AGE_NS)
		repair_queue_drop_record(&r->queue, it);
	struct repair_work w = {.tenant = it->tenant,
				.block = it->block,
				.record = it->record,
				.repair = repair_of(r, it)};
	int rc = block_repair(j, &w);
	repair_queue_drop_record(&r->queue, it);
	if (rc == -ECANCELED) {
		round_note(r, rc);
		return;
	}
	if (rc < 0)
		note_failure(j, it, rc);
	note_progress(r, it, rc);
	j->stats.blocks_waiting = r->waiting;
	shares_keep(r);
}

static void repair_worker(void *arg)
{
	struct repair_round *r = arg;
	struct repair_item *it;
	/*
	 * is_outdated comes first, because it waits: other workers may take the remaining items in
	 * the meantime.
	 */
	while (!is_outdated(r) && !r->stop && (it = item_take(r)) != NULL)
		item_repair(r, it);
}

/* Repairs those of the first `end` items of the queue whose share this janitor holds. */
static void items_repair(struct repair_round *r, size_t end)
{
	struct rt_group g;
	r->next = 0;
	r->end = end;
	r->waiting = 0;
	for (size_t i = 0; i < end; i++)
		r->waiting +=
			!r->queue.list[i].taken && r->shares[r->queue.list[i].share] == SHARE_HELD;
	rt_group_init(&g);
	for (size_t i = 0; i < r->j->opts.parallel && i < r->waiting; i++)
		if (rt_group_spawn(&g, "repair", repair_worker, r) < 0)
			break;
	rt_group_join(&g);
	r->j->stats.blocks_waiting = 0;
}

/* --- progress ---------------------------------------------------------------------------------- */

/*
 * Repairs of disks begin when blocks are found there, and end when none is left, or the disk has
 * come back. What other janitors repaired, or users deleted, counts as done. Which blocks are left
 * in shares of other janitors is not known: a repair does not end in such a round.
 */
static void repairs_note(struct repair_round *r)
{
	const struct repair_queue *q = &r->queue;
	for (size_t d = 0; d < q->disk_count && d < REPAIR_DISKS_MAX; d++) {
		/*
		 * Repaired blocks may exceed the counted ones: a block may have got a chunk on the
		 * disk between the two walks.
		 */
		uint64_t left = q->blocks_on[d] - min_u64(q->repaired[d], q->blocks_on[d]);
		struct janitor_repair *at = repair_under_way(r->j, q->disks[d], false);
		if (left > 0 && at == NULL)
			at = repair_begin(r->j, q->disks[d], false);
		if (at == NULL)
			continue;
		at->total = max_u64(at->total, at->done + left);
		if (left == 0 && r->complete) {
			at->done = at->total;
			repair_end(at);
		}
	}
	for (size_t i = 0; i < JANITOR_REPAIRS_MAX; i++) {
		struct janitor_repair *at = &r->j->repairs[i];
		bool still = at->pool;
		for (size_t d = 0; d < q->disk_count; d++)
			still = still || q->disks[d] == at->disk;
		if (at->disk != 0 && !still)
			repair_end(at);
	}
}

/* --- rounds ------------------------------------------------------------------------------------ */

static void round_repair(struct repair_round *r)
{
	size_t urgent = 0;
	repair_queue_sort(&r->queue);
	while (urgent < r->queue.count && r->queue.list[urgent].more <= 0)
		urgent++;
	items_repair(r, urgent);
	if (r->stop || r->outdated)
		return;
	shares_yield(r);
	while (!r->stop && !r->outdated && shares_in(r, SHARE_HELD) > 0) {
		items_repair(r, r->queue.count);
		if (r->outdated)
			return;
		shares_leave(r);
		shares_take_again(r);
	}
}

/* Runs one round of repair; look: walks all Block records. Returns 0, the first error, or
 * ROUND_RESTART. */
static int round_run(struct janitor *j, bool look)
{
	AUTO_FREE struct repair_round *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	*r = (struct repair_round){.j = j, .lost = lost_mark(j), .complete = true};
	j->round_stuck = (struct stuck){0};
	r->rc = repair_queue_init(&r->queue, j);
	r->stop = r->rc < 0;
	bool any = look || r->queue.disk_count > 0;
	for (unsigned i = 0; any && i < JANITOR_SHARES && !r->stop && !is_outdated(r); i++)
		share_walk_once(r, share_turn(j, i), look);
	/* It is not known which disks have chunks of a block whose record is unreadable. */
	r->complete = r->complete && r->queue.unreadable == 0;
	if (!r->stop && !r->outdated) {
		repairs_note(r);
		round_repair(r);
	}
	if (!r->stop && !r->outdated)
		repairs_note(r);
	if (r->queue.unreadable > 0)
		round_note(r, -EBADMSG);
	shares_leave(r);
	repair_queue_fini(&r->queue);
	return r->rc < 0 ? r->rc : r->outdated ? ROUND_RESTART : 0;
}

/*
 * Updates the counts of blocks that cannot be repaired. Only a round that walks all records (look)
 * may lower them, because only such a round sees every block.
 */
static void stuck_note(struct janitor *j, bool look)
{
	const struct stuck *now = &j->round_stuck;
	j->stuck.lost = look ? now->lost : max_u64(j->stuck.lost, now->lost);
	j->stuck.no_room = look ? now->no_room : max_u64(j->stuck.no_room, now->no_room);
}

int janitor_repair(struct janitor *j, bool look)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	uint64_t epoch, missing = 0;
	int rc = janitor_map(j);
	if (rc == 0)
		rc = meta_client_gc_epoch(&m, &epoch, &j->partitions);
	if (rc == 0)
		rc = drives_look(j, &missing);
	if (rc < 0)
		return rc;
	look = look || missing > 0;
	rc = ROUND_RESTART;
	for (int starts = 0; rc == ROUND_RESTART && starts < STARTS_MAX; starts++)
		rc = round_run(j, look);
	if (rc == 0)
		stuck_note(j, look);
	if (rc == ROUND_RESTART)
		rc = 0; /* the next round continues with the new set of lost disks */
	j->stats.repair_rounds += rc == 0;
	return rc;
}
