// SPDX-License-Identifier: Apache-2.0
/* What happens by itself: disks that come back, are probed, or are no longer what they were. */
#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/log.h"
#include "node/disks_impl.h"
#include "store/dir.h"

/* A folder that was swapped under an open disk: what is written there would be another disk's. */
static bool folder_is_ours(const struct node_disks *set, const struct node_folder *f)
{
	struct super is;
	int rc = store_dir_identify(f->path, &is);

	/* That it cannot be read now is for the store to find out. */
	if (rc != 0)
		return rc != -ENOENT && rc != -ENOTDIR;
	return is.cluster[0] == set->options.cluster[0] &&
	       is.cluster[1] == set->options.cluster[1] && is.node == set->options.node &&
	       is.disk == f->disk;
}

static void store_keep(struct node_disk *d, struct store *s, const struct node_folder *f)
{
	struct store_info info;

	store_info(s, &info);
	if (info.state == STORE_SUSPECT)
		(void)store_control(s, STORE_ONLINE);
	if (info.state != STORE_FAILED && !folder_is_ours(d->owner, f)) {
		log_error("disk_swapped", "disk=%" PRIu64 " path=%s", f->disk, LOG_QUOTE(f->path));
		(void)store_control(s, STORE_FAILED);
	}
}

static void disk_keep(struct node_disk *d)
{
	struct node_disk *used;

	if (d->store == NULL && d->ordered != STORE_FAILED && !d->closing)
		(void)disk_reopen(d);
	if (d->spec->mem || node_disk_use(d->owner, d->spec->disk, &used) != 0)
		return;
	for (uint32_t m = 0; m < d->spec->folder_count; m++) {
		struct store *s = d->spec->pool ? store_pool_member(d->pool, m) : d->store;
		if (s != NULL)
			store_keep(d, s, d->slots[m].folder);
	}
	node_disk_done(d);
	if (d->spec->pool)
		pool_keep(d, rt_now_ns());
}

static void expire_reservations(struct node_disk *d)
{
	struct sched_reservation r;

	while (sched_expired(d->sched, &r))
		if (d->store != NULL)
			(void)store_reserve(d->store, -(int64_t)r.bytes);
}

void keeper_main(void *arg)
{
	struct node_disks *set = arg;
	uint64_t tick_ns = min_u64(set->options.probe_ns, NS_PER_S);
	uint64_t next_ns = rt_now_ns();

	rt_deadline_set(RT_NEVER);
	while (!set->closing) {
		bool probe = rt_now_ns() >= next_ns;
		for (size_t i = 0; i < set->count && !rt_cancelled(); i++) {
			expire_reservations(&set->disks[i]);
			if (probe)
				disk_keep(&set->disks[i]);
		}
		if (probe)
			next_ns = rt_now_ns() + set->options.probe_ns;
		if (rt_sleep_ns(tick_ns) != 0)
			return;
	}
}
