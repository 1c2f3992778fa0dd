// SPDX-License-Identifier: Apache-2.0
/* Members of pools that are given up and replaced, and rebuilds. */
#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/log.h"
#include "node/disks_impl.h"

#define RETRY_NS (60 * NS_PER_S) /* before a rebuild that failed in part is tried again */
#define LOST_RETRY_NS (600 * NS_PER_S)
#define CHUNK_GUESS_BYTES (1 * MIB)
#define BUSY_PAUSE_NS (20 * NS_PER_MS)

/* --- rebuilds --------------------------------------------------------------------------------- */

static int await_rate(struct node_disk *d)
{
	uint64_t now = rt_now_ns();

	return d->rebuild.next_ns > now ? rt_sleep_ns(d->rebuild.next_ns - now) : 0;
}

/* What was moved since the last time is paid for before the next chunk. */
static void charge_rate(struct node_disk *d, uint64_t before_bytes)
{
	struct node_rebuild *b = &d->rebuild;
	uint64_t rate = d->owner->options.rebuild_bytes_per_s;
	uint64_t moved = b->progress.bytes - before_bytes;

	if (rate == 0 || moved == 0)
		return;
	uint64_t cost_ns = (uint64_t)((double)moved / (double)rate * (double)NS_PER_S);
	b->next_ns = max_u64(b->next_ns, rt_now_ns()) + cost_ns;
}

/* Around each chunk of a rebuild: Bronze, like any other. */
static int rebuild_pace(void *ctx, void (*work)(void *arg), void *arg)
{
	struct node_disk *d = ctx;
	const struct store_pool_progress *p = &d->rebuild.progress;
	struct sched_request r = {
		.group = REBUILD_GROUP,
		.class = SCHED_BRONZE,
		.kind = SCHED_WRITE,
		.whole = true,
		.bytes = p->rebuilt > 0 ? p->bytes / p->rebuilt : CHUNK_GUESS_BYTES,
	};
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = await_rate(d);

	while (rc == 0 && (rc = sched_begin(d->sched, &r, &t)) == -EAGAIN)
		rc = rt_sleep_ns(BUSY_PAUSE_NS);
	if (rc != 0)
		return rc;
	uint64_t before = p->bytes;
	work(arg);
	charge_rate(d, before);
	return sched_next(&t, 0);
}

static void rebuild_once(struct node_disk *d)
{
	struct node_rebuild *b = &d->rebuild;

	b->again = false;
	store_pool_pace(d->pool, rebuild_pace, d);
	b->last_rc = store_pool_rebuild(d->pool, d->owner->options.rebuild_parallel, &b->progress);
	b->ended++;
	b->rows += b->progress.rebuilt;
	b->bytes += b->progress.bytes;
	b->retry_ns = rt_now_ns() + (b->last_rc == -ENODATA ? LOST_RETRY_NS : RETRY_NS);
	log_info("rebuild_ended",
		 "disk=%" PRIu64 " err=%s rows=%" PRIu64 " failed=%" PRIu64 " lost=%" PRIu64,
		 d->spec->disk, err_name(b->last_rc), b->progress.rebuilt, b->progress.failed,
		 b->progress.lost);
}

static void rebuild_main(void *arg)
{
	struct node_disk *d = arg;
	struct node_rebuild *b = &d->rebuild;

	rt_deadline_set(RT_NEVER);
	do {
		rebuild_once(d);
	} while (b->again && !b->stopping && !rt_cancelled());
	b->running = false;
	rt_cond_broadcast(&b->changed);
}

/* The fiber that ended is joined by whoever starts or stops the next. */
static void rebuild_join(struct node_disk *d)
{
	struct rt_fiber *f = d->rebuild.fiber;

	d->rebuild.fiber = NULL;
	if (f != NULL)
		rt_join(f);
}

int node_pool_start_rebuild(struct node_disk *d)
{
	struct node_rebuild *b = &d->rebuild;

	if (!d->spec->pool)
		return -EOPNOTSUPP;
	if (b->stopping)
		return -ESHUTDOWN;
	b->again = true;
	if (b->running)
		return 0;
	rebuild_join(d);
	if (b->running || d->store == NULL)
		return d->store != NULL ? 0 : -ENODEV;
	b->running = true;
	int rc = rt_spawn(&b->fiber, "node-rebuild", rebuild_main, d);
	if (rc != 0)
		b->running = false;
	return rc;
}

int node_pool_await_rebuild(struct node_disk *d)
{
	int rc = 0;

	while (d->rebuild.running && rc == 0)
		rc = rt_cond_wait(&d->rebuild.changed);
	return rc != 0 ? rc : d->rebuild.last_rc;
}

void rebuild_stop(struct node_disk *d)
{
	struct node_rebuild *b = &d->rebuild;

	b->stopping = true;
	if (b->fiber != NULL) {
		rt_cancel(b->fiber);
		rebuild_join(d);
	}
	b->stopping = false;
}

/* --- members ---------------------------------------------------------------------------------- */

int node_pool_give_up(struct node_disk *d, uint32_t member)
{
	if (!d->spec->pool)
		return -EOPNOTSUPP;
	int rc = store_pool_fail(d->pool, member);
	return rc != 0 ? rc : node_pool_start_rebuild(d);
}

/* Puts what is in a folder into the place of a member, when it is empty and ours to use. */
static int put_in_place(struct node_disk *d, uint32_t member, struct node_slot *from)
{
	int rc = slot_open(d, from);

	if (rc != 0)
		return rc;
	int empty = store_is_empty(from->store);
	if (empty == 1)
		rc = store_pool_replace_take(d->pool, member, from->store);
	else
		rc = empty == 0 ? -ENOTEMPTY : empty;
	if (rc != 0) {
		slot_close(from);
		return rc;
	}
	const struct node_folder *old = d->slots[member].folder;
	d->slots[member].folder = from->folder;
	d->slots[member].trouble[0] = 0;
	d->slots[member].down_ns = 0;
	if (from != &d->slots[member])
		from->folder = old;
	from->store = NULL;
	return 0;
}

int node_pool_renew(struct node_disk *d, uint32_t member)
{
	if (!d->spec->pool)
		return -EOPNOTSUPP;
	if (member >= d->spec->folder_count)
		return -EINVAL;
	struct store *now = store_pool_member(d->pool, member);
	if (now != NULL) {
		struct store_info info;
		store_info(now, &info);
		if (info.state != STORE_FAILED)
			return -EBUSY;
	}
	int rc = now == NULL ? put_in_place(d, member, &d->slots[member]) : -EBUSY;
	for (uint32_t i = 0; rc != 0 && i < d->spec->spare_count; i++)
		rc = put_in_place(d, member, &d->spares[i]);
	if (rc != 0)
		return rc == -ENOMEM || rc == -ECANCELED || rc == -ETIME ? rc : -ENOENT;
	return node_pool_start_rebuild(d);
}

/* --- the keeper's part ------------------------------------------------------------------------ */

/* A member that was absent and has come: with its record it joins when the pool is opened again, empty
 * it takes the member's place. Returns whether the pool is to be opened again. */
static bool member_came(struct node_disk *d, uint32_t m)
{
	struct node_slot *slot = &d->slots[m];

	if (slot_open(d, slot) != 0)
		return false;
	int empty = store_is_empty(slot->store);
	slot_close(slot);
	if (empty == 1 && d->owner->options.format)
		(void)node_pool_renew(d, m);
	return empty == 0;
}

static void member_gone(struct node_disk *d, uint32_t m, uint64_t now_ns)
{
	struct node_slot *slot = &d->slots[m];

	if (slot->down_ns == 0)
		slot->down_ns = now_ns;
	if (now_ns - slot->down_ns < d->owner->options.give_up_ns)
		return;
	if (d->spec->spare_count > 0 && node_pool_renew(d, m) == 0)
		return;
	if (d->spec->shape.place != PLACE_CLUSTERED && !store_pool_given_up(d->pool, m))
		(void)node_pool_give_up(d, m);
}

static bool member_is_down(struct node_disk *d, uint32_t m)
{
	struct store *s = store_pool_member(d->pool, m);
	struct store_info info = {.state = STORE_FAILED};

	if (s != NULL)
		store_info(s, &info);
	return info.state == STORE_FAILED;
}

void pool_keep(struct node_disk *d, uint64_t now_ns)
{
	struct node_disk *used;
	bool reopen = false;

	if (node_disk_use(d->owner, d->spec->disk, &used) != 0)
		return;
	for (uint32_t m = 0; m < d->spec->folder_count; m++) {
		if (!member_is_down(d, m)) {
			d->slots[m].down_ns = 0;
			continue;
		}
		bool given_up = store_pool_given_up(d->pool, m);
		bool absent = store_pool_member(d->pool, m) == NULL;
		if (absent && !given_up && member_came(d, m))
			reopen = true;
		else if (member_is_down(d, m) && (!given_up || d->spec->spare_count > 0))
			member_gone(d, m, now_ns);
	}
	if (store_pool_rebuild_due(d->pool) && !d->rebuild.running &&
	    rt_now_ns() >= d->rebuild.retry_ns)
		(void)node_pool_start_rebuild(d);
	node_disk_done(d);
	if (reopen)
		(void)disk_reopen(d);
}
