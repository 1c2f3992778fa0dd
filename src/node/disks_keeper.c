// SPDX-License-Identifier: Apache-2.0
/*
 * Automatic work: reopens disks whose folder is present again, probes suspect disks, and marks
 * disks failed whose folder holds another disk. Each disk has a keeper, and each check of a folder
 * runs in its own fiber, so that a device that hangs delays neither other disks nor other members
 * of its pool.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/log.h"
#include "node/disks_impl.h"
#include "store/dir.h"

#define CHECK_PATIENCE_NS (1 * NS_PER_S)

/* --- one folder ------------------------------------------------------------------------------- */

int slot_is_ours(const struct node_slot *slot)
{
	const struct node_disks_options *o = &slot->disk->owner->options;
	struct super is;
	int rc = store_dir_identify(slot->folder->path, &is);

	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	if (rc != 0)
		return rc;
	return is.cluster[0] == o->cluster[0] && is.cluster[1] == o->cluster[1] &&
	       is.node == o->node && is.disk == slot->folder->disk &&
	       (slot->created_wall_ns == 0 || slot->created_wall_ns == is.created_wall_ns);
}

/*
 * Reports whether a failed store failed because its device is missing, and not because of errors.
 */
static bool device_missing(struct store *s)
{
	struct chunk_stat st;

	return store_stat(s, (struct chunk_id){0}, &st) == -ENODEV;
}

static void store_keep(struct node_slot *slot, struct store *s)
{
	struct store_info info;

	store_info(s, &info);
	if (info.state == STORE_SUSPECT && store_control(s, STORE_ONLINE) == 0)
		info.state = STORE_ONLINE;
	/* The folder was swapped under an open disk: writes would go to another disk. An error
	 * of the check is ignored, because the store detects unreadable folders itself. */
	if (info.state != STORE_FAILED && slot_is_ours(slot) == 0) {
		log_error("disk_swapped", "disk=%" PRIu64 " path=%s", slot->folder->disk,
			  LOG_QUOTE(slot->folder->path));
		(void)store_control(s, STORE_FAILED);
		slot->swapped = true;
		info.state = STORE_FAILED;
	}
	slot->vanished = info.state == STORE_FAILED && (slot->swapped || device_missing(s));
	slot->state = info.state;
}

static void check_main(void *arg)
{
	struct node_slot *slot = arg;
	struct node_disk *d = slot->disk, *used;
	uint32_t m = (uint32_t)(slot - d->slots);

	assert(m < d->spec->folder_count);

	rt_background();
	if (node_disk_use(d->owner, d->spec->disk, &used) == 0) {
		struct store *s = d->store;
		/* While a member is being replaced, its folder may not be that of the disk that the
		 * pool uses for it. */
		if (d->spec->pool)
			s = slot->changing ? NULL : store_pool_member_use(d->pool, m);
		if (s != NULL)
			store_keep(slot, s);
		if (s != NULL && d->spec->pool) {
			if (slot->state != STORE_FAILED)
				(void)store_pool_record_repair(d->pool, m);
			store_pool_member_done(d->pool, m);
		}
		node_disk_done(d);
	}
	assert(slot->checking);
	slot->checking = false;
	rt_cond_broadcast(&d->checked);
}

static void check_start(struct node_disk *d, struct node_slot *slot)
{
	if (slot->checking)
		return;
	slot->checking = true;
	slot->checking_ns = rt_now_ns();
	if (rt_group_spawn(&d->owner->helpers, "node-check", check_main, slot) != 0)
		slot->checking = false;
}

/* Returns the time until which the keeper waits for running checks, set by the check that started
 * last; 0: there is no check to wait for. */
static uint64_t checks_until_ns(const struct node_disk *d)
{
	uint64_t now = rt_now_ns(), until = 0;

	for (uint32_t m = 0; m < d->spec->folder_count; m++) {
		uint64_t end = d->slots[m].checking_ns + CHECK_PATIENCE_NS;
		if (d->slots[m].checking && end > now)
			until = max_u64(until, end);
	}
	return until;
}

/* Checks all folders in parallel. A folder that hangs keeps its last state. */
static int check_all(struct node_disk *d)
{
	uint64_t until;
	int rc = 0;

	for (uint32_t m = 0; m < d->spec->folder_count; m++)
		check_start(d, &d->slots[m]);
	while ((until = checks_until_ns(d)) != 0 && (rc == 0 || rc == -ETIME)) {
		uint64_t before = rt_deadline_narrow(until);
		rc = rt_cond_wait(&d->checked);
		rt_deadline_set(before);
	}
	return rc == -ETIME ? 0 : rc;
}

/* --- one disk --------------------------------------------------------------------------------- */

/* Reports whether a disk that failed because its folder was missing has the same folder again. */
static bool folder_is_back(struct node_disk *d)
{
	return !d->spec->pool && d->slots[0].vanished && !d->slots[0].checking &&
	       slot_is_ours(&d->slots[0]) == 1;
}

static void disk_keep(struct node_disk *d)
{
	struct node_disk *used;
	bool reopen = false;

	if (d->ordered != STORE_FAILED && !d->closing && (d->store == NULL || folder_is_back(d)))
		(void)disk_reopen(d);
	if (d->spec->mem || d->store == NULL || check_all(d) != 0)
		return;
	if (!d->spec->pool || node_disk_use(d->owner, d->spec->disk, &used) != 0)
		return;
	if (d->ordered != STORE_FAILED)
		reopen = pool_keep(d);
	node_disk_done(d);
	if (reopen)
		(void)disk_reopen(d);
}

static void expire_reservations(struct node_disk *d)
{
	struct sched_reservation r;

	while (sched_expired(d->sched, &r)) {
		assert(r.bytes <= STORE_CHUNK_MAX);
		if (d->store != NULL)
			(void)store_reserve(d->store, -(int64_t)r.bytes);
	}
}

void keeper_main(void *arg)
{
	struct node_disk *d = arg;
	uint64_t probe_ns = d->owner->options.probe_ns;
	uint64_t next_ns = rt_now_ns();

	rt_background();
	while (!d->owner->closing && !rt_cancelled()) {
		expire_reservations(d);
		if (rt_now_ns() >= next_ns) {
			disk_keep(d);
			next_ns = rt_now_ns() + probe_ns;
		}
		if (rt_sleep_ns(min_u64(probe_ns, NS_PER_S)) != 0)
			return;
	}
}
