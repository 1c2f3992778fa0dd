// SPDX-License-Identifier: Apache-2.0
/*
 * Members of pools: give up, replace and return.
 *
 * The keeper returns a present member at any time, because that loses nothing. Giving up a member,
 * or replacing it by a spare, rebuilds its rows elsewhere. That is right if the disk is lost and no
 * more members are out than the code tolerates. If more are out, the disks probably did not fail:
 * something they share did, and the pool needs each of them again.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "node/disks_impl.h"

/* --- by order --------------------------------------------------------------------------------- */

/* Starts a rebuild. Returns 0 also for -EAGAIN: the rebuild stays due, and the keeper starts it
 * later. */
static int start_rebuild(struct node_disk *d)
{
	int rc = node_pool_start_rebuild(d);

	return rc == -EAGAIN ? 0 : rc;
}

static int members_lock(struct node_disk *d)
{
	return rt_mutex_lock(&d->members);
}

static void members_unlock(struct node_disk *d)
{
	rt_mutex_unlock(&d->members);
}

static int give_up(struct node_disk *d, uint32_t member)
{
	assert(rt_mutex_held(&d->members));
	int rc = store_pool_give_up(d->pool, member);

	return rc != 0 ? rc : start_rebuild(d);
}

int node_pool_give_up(struct node_disk *d, uint32_t member)
{
	if (!d->spec->pool)
		return -EOPNOTSUPP;
	int rc = members_lock(d);
	if (rc != 0)
		return rc;
	rc = give_up(d, member);
	if (rc == 0) {
		assert(member < d->spec->folder_count);
		d->slots[member].ordered_out = true;
		d->slots[member].may_return = false;
	}
	members_unlock(d);
	return rc;
}

/* Exchanges the folders of two slots. */
static void slots_swap(struct node_slot *slot, struct node_slot *other)
{
	const struct node_folder *old = slot->folder;
	uint64_t created = slot->created_wall_ns;

	slot->folder = other->folder;
	slot->created_wall_ns = other->created_wall_ns;
	other->folder = old;
	other->created_wall_ns = created;
}

/*
 * Updates the slots after the pool took the store of the slot `from` as the store of this member.
 */
static void member_joined(struct node_disk *d, uint32_t member, struct node_slot *from)
{
	struct node_slot *slot = &d->slots[member];

	assert(member < d->spec->folder_count && rt_mutex_held(&d->members));
	assert(!slot->changing);

	if (from != slot)
		slots_swap(slot, from);
	from->store = NULL;
	slot->store = NULL;
	slot->trouble[0] = 0;
	slot->down_ns = 0;
	slot->state = STORE_ONLINE;
	slot->swapped = slot->vanished = slot->may_return = slot->ordered_out = false;
}

/* Replaces a member by the disk in the folder of `from`, which must be empty: else -ENOTEMPTY. */
static int put_in_place(struct node_disk *d, uint32_t member, struct node_slot *from)
{
	assert(!d->slots[member].changing && rt_mutex_held(&d->members));
	int rc = slot_open(d, from);

	if (rc != 0)
		return rc;
	int empty = store_is_empty(from->store);
	d->slots[member].changing = true;
	if (empty == 1)
		rc = store_pool_replace_take(d->pool, member, from->store);
	else
		rc = empty == 0 ? -ENOTEMPTY : empty;
	d->slots[member].changing = false;
	if (rc != 0) {
		slot_close(from);
		return rc;
	}
	member_joined(d, member, from);
	return 0;
}

static int renew_from_spares(struct node_disk *d, uint32_t member)
{
	int rc = -ENOENT;

	for (uint32_t i = 0; rc != 0 && i < d->spec->spare_count; i++)
		rc = put_in_place(d, member, &d->spares[i]);
	if (rc != 0)
		return rc == -ENOMEM || rc == -ECANCELED || rc == -ETIME ? rc : -ENOENT;
	return start_rebuild(d);
}

static enum store_state member_state(struct node_disk *d, uint32_t member)
{
	struct store *s = store_pool_member_use(d->pool, member);
	struct store_info info = {.state = STORE_FAILED};

	if (s != NULL) {
		store_info(s, &info);
		store_pool_member_done(d->pool, member);
	}
	return info.state;
}

int node_pool_renew(struct node_disk *d, uint32_t member)
{
	if (!d->spec->pool)
		return -EOPNOTSUPP;
	if (member >= d->spec->folder_count)
		return -EINVAL;
	int rc = members_lock(d);
	if (rc != 0)
		return rc;
	if (member_state(d, member) != STORE_FAILED)
		rc = -EBUSY;
	else if (store_pool_member(d->pool, member) == NULL &&
		 put_in_place(d, member, &d->slots[member]) == 0)
		rc = start_rebuild(d);
	else
		rc = renew_from_spares(d, member);
	members_unlock(d);
	return rc;
}

/* --- members that return ------------------------------------------------------------------- */

/*
 * Lets the member return to the pool with its disk, which is in the folder of `from`. -ENOENT: the
 * folder has another disk or none; -EAGAIN: the disk must be reopened; -ESTALE: another disk has
 * replaced the member.
 */
static int return_from(struct node_disk *d, uint32_t member, struct node_slot *from)
{
	int ours = slot_is_ours(from);

	if (ours != 1)
		return ours < 0 ? ours : -ENOENT;
	/* The store of a failed member is still open and holds the lock of its folder. */
	int rc = from == &d->slots[member] ? store_pool_close_failed(d->pool, member) : 0;
	uint64_t down_ns = from->down_ns;
	if (rc == 0)
		rc = slot_open(d, from);
	if (rc != 0)
		return rc;
	bool was_out = store_pool_given_up(d->pool, member);
	d->slots[member].changing = true;
	rc = store_pool_return_take(d->pool, member, from->store);
	d->slots[member].changing = false;
	if (rc != 0) {
		slot_close(from);
		from->down_ns = down_ns;
		if (rc == -ESTALE)
			snprintf(from->trouble, sizeof(from->trouble),
				 "another disk has replaced this member");
		return rc;
	}
	member_joined(d, member, from);
	if (was_out)
		d->rebuild.due = d->rebuild.ended + (d->rebuild.running ? 2 : 1);
	(void)start_rebuild(d);
	return 0;
}

/* Lets a member return to the pool, with the disk in its own folder or in the folder of a spare
 * that had replaced it. */
static int member_return(struct node_disk *d, uint32_t member)
{
	int rc = return_from(d, member, &d->slots[member]);

	for (uint32_t i = 0; rc != 0 && rc != -EAGAIN && i < d->spec->spare_count; i++)
		if (store_pool_member(d->pool, member) == NULL)
			rc = return_from(d, member, &d->spares[i]) == 0 ? 0 : rc;
	return rc;
}

int pool_take_back(struct node_disk *d)
{
	bool again = false;
	int rc = members_lock(d);

	if (rc != 0)
		return rc;
	for (uint32_t m = 0; m < d->spec->folder_count; m++) {
		if (member_state(d, m) != STORE_FAILED)
			continue;
		/* The keeper returns given-up members, one after the other. */
		if (store_pool_given_up(d->pool, m))
			d->slots[m].may_return = true;
		else
			again = member_return(d, m) == -EAGAIN || again;
	}
	rebuild_when_due(d);
	members_unlock(d);
	return again ? -EAGAIN : 0;
}

/* --- the keeper's part ------------------------------------------------------------------------ */

static bool is_down(struct node_disk *d, uint32_t m)
{
	return store_pool_member(d->pool, m) == NULL || d->slots[m].state == STORE_FAILED;
}

/* Counts the members that can share chunks with this one and whose rows are unreachable or not
 * all rebuilt. */
static uint32_t members_out(struct node_disk *d, uint32_t member)
{
	uint32_t width = d->spec->shape.k + d->spec->shape.p, n = 0;
	bool sets = d->spec->shape.place == PLACE_CLUSTERED;

	for (uint32_t m = 0; m < d->spec->folder_count; m++) {
		if (sets && m / width != member / width)
			continue;
		n += store_pool_unsettled(d->pool, m) ||
		     (is_down(d, m) && !store_pool_given_up(d->pool, m));
	}
	return n;
}

/* Replaces or gives up a member that has been absent or failed for give_up_ns, if the code
 * tolerates it. */
static void member_expire(struct node_disk *d, uint32_t m)
{
	struct node_slot *slot = &d->slots[m];
	bool was_gone = slot->vanished || store_pool_member(d->pool, m) == NULL;
	/*
	 * Read the clock again: the member may have been found down after the keeper's round began.
	 */
	uint64_t now_ns = rt_now_ns();

	if (slot->down_ns == 0)
		slot->down_ns = now_ns;
	if (now_ns - slot->down_ns < d->owner->options.give_up_ns)
		return;
	if (members_out(d, m) > d->spec->shape.p) {
		if (!d->overdrawn)
			log_error("pool_overdrawn",
				  "pool=%" PRIu64 " member=%" PRIu32 " out=%" PRIu32, d->spec->disk,
				  m, members_out(d, m));
		d->overdrawn = true;
		return;
	}
	if (d->spec->spare_count > 0 && renew_from_spares(d, m) == 0)
		return;
	if (d->spec->shape.place != PLACE_CLUSTERED && !store_pool_given_up(d->pool, m) &&
	    give_up(d, m) == 0)
		slot->may_return = was_gone;
}

/*
 * Reports whether a given-up member may return. After the return, the pool looks for the member's
 * rows on it, so rows that were written elsewhere since are missing until they are rebuilt. So one
 * member returns at a time, only after a rebuild that did all it could, and only while the code
 * tolerates it in addition to the members that are down.
 */
static bool may_take_back(struct node_disk *d)
{
	const struct node_rebuild *b = &d->rebuild;
	uint32_t down = 0;

	for (uint32_t m = 0; m < d->spec->folder_count; m++)
		down += is_down(d, m) && !store_pool_given_up(d->pool, m);
	return down < d->spec->shape.p && b->ended >= b->due &&
	       (b->due == 0 || b->last_rc == 0 ||
		(b->last_rc == -ENODATA && b->progress.failed == 0));
}

/*
 * Reports whether a member that is down should return. A given-up member returns if the keeper gave
 * it up while its folder was missing, or if chunks are lost without it and no operator gave it up.
 */
static bool should_return(struct node_disk *d, uint32_t m)
{
	const struct node_slot *slot = &d->slots[m];

	if (store_pool_given_up(d->pool, m))
		return may_take_back(d) &&
		       (slot->may_return || (!slot->ordered_out && d->rebuild.progress.lost > 0));
	return slot->vanished || store_pool_member(d->pool, m) == NULL;
}

static bool members_keep(struct node_disk *d)
{
	bool reopen = false;

	assert(rt_mutex_held(&d->members));

	for (uint32_t m = 0; m < d->spec->folder_count; m++) {
		if (!is_down(d, m)) {
			d->slots[m].down_ns = 0;
			continue;
		}
		int rc = should_return(d, m) ? member_return(d, m) : -ENOENT;
		reopen = reopen || rc == -EAGAIN;
		if (rc == 0 || rc == -EAGAIN)
			continue;
		if (!store_pool_given_up(d->pool, m) || d->spec->spare_count > 0)
			member_expire(d, m);
	}
	return reopen;
}

bool pool_keep(struct node_disk *d)
{
	bool was_overdrawn = d->overdrawn;

	if (members_lock(d) != 0)
		return false;
	d->overdrawn = false;
	for (uint32_t m = 0; m < d->spec->folder_count; m++)
		d->overdrawn =
			d->overdrawn || (was_overdrawn && members_out(d, m) > d->spec->shape.p);
	bool reopen = members_keep(d);
	rebuild_when_due(d);
	members_unlock(d);
	return reopen;
}
