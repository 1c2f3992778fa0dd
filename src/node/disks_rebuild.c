// SPDX-License-Identifier: Apache-2.0
/* Rebuilds of pools. They run in the background as Bronze traffic, and never while the disk is
 * being closed. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/log.h"
#include "node/disks_impl.h"

#define RETRY_NS (60 * NS_PER_S)       /* pause after a rebuild with errors */
#define LOST_RETRY_NS (600 * NS_PER_S) /* pause after a rebuild that found lost chunks */
#define CHUNK_GUESS_BYTES (1 * MIB)
#define BUSY_PAUSE_NS (20 * NS_PER_MS)
#define PARALLEL_MIN 8
#define PARALLEL_MAX 128

/*
 * Waits until the rate limits let the rebuild of the next chunk start. Each chunk that starts is
 * charged in advance the cost of the last one, so that waiting chunks do not all start together.
 * charge_rate corrects the advance charge.
 */
static int await_rate(struct node_disk *d, uint64_t *paid_ns)
{
	struct node_rebuild *b = &d->rebuild;
	uint64_t now = rt_now_ns(), start = max_u64(b->next_ns, now);

	*paid_ns = b->last_cost_ns;
	b->next_ns = start + *paid_ns;
	return start > now ? rt_sleep_ns(start - now) : 0;
}

/*
 * Returns the bytes that each member moves for each rebuilt byte. A chunk that lacks w rows has k
 * rows read and w written. In a clustered pool each member has at most one of them, so the busiest
 * member moves one row for w rebuilt ones. In other pools they are spread over all members.
 */
static double member_load(const struct node_disk *d, double lacking)
{
	const struct store_pool_shape *s = &d->spec->shape;
	double members = d->spec->folder_count;

	return s->place == PLACE_CLUSTERED ? 1 / lacking
					   : (s->k + lacking) / lacking / (members - lacking);
}

static double cost_ns(double bytes, uint64_t bytes_per_s)
{
	return bytes_per_s == 0 ? 0 : bytes / (double)bytes_per_s * (double)NS_PER_S;
}

/*
 * Charges the progress since the last call to the rate limits, and takes back the advance charge
 * paid_ns. Chunks run in parallel: charged_rows and charged_bytes make sure that no progress is
 * charged twice.
 */
static void charge_rate(struct node_disk *d, uint64_t paid_ns)
{
	const struct node_disks_options *o = &d->owner->options;
	struct node_rebuild *b = &d->rebuild;
	assert(b->progress.bytes >= b->charged_bytes && b->progress.rebuilt >= b->charged_rows);
	double moved = (double)(b->progress.bytes - b->charged_bytes);
	double rows = (double)(b->progress.rebuilt - b->charged_rows);

	b->next_ns -= min_u64(paid_ns, b->next_ns);
	if (rows <= 0) {
		b->last_cost_ns = 0; /* chunks without lost rows are not delayed */
		return;
	}
	b->charged_bytes = b->progress.bytes;
	b->charged_rows = b->progress.rebuilt;
	double cost = cost_ns(moved, o->rebuild_bytes_per_s);
	double at_members = cost_ns(moved * member_load(d, rows), o->rebuild_member_bytes_per_s);
	b->last_cost_ns = (uint64_t)(cost > at_members ? cost : at_members);
	b->next_ns = max_u64(b->next_ns, rt_now_ns()) + b->last_cost_ns;
}

/* Runs the rebuild of one chunk when the rate limits allow it, as a Bronze request of the disk. */
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
	uint64_t paid_ns;
	int rc = await_rate(d, &paid_ns);

	while (rc == 0 && (rc = sched_begin(d->sched, &r, &t)) == -EAGAIN)
		rc = rt_sleep_ns(BUSY_PAUSE_NS);
	if (rc != 0)
		return rc;
	work(arg);
	charge_rate(d, paid_ns);
	return sched_next(&t, 0);
}

/*
 * Returns the number of chunks to rebuild at a time. Each chunk keeps k + 1 members busy, and by
 * chance some members have several chunks and others none: about three for each member are needed
 * to keep nearly all busy.
 */
static uint32_t rebuild_parallel(const struct node_disk *d)
{
	uint32_t wanted = d->owner->options.rebuild_parallel;

	if (wanted != 0)
		return wanted;
	return (uint32_t)min_u64(max_u64(3UL * d->spec->folder_count, PARALLEL_MIN), PARALLEL_MAX);
}

static void rebuild_once(struct node_disk *d)
{
	struct node_rebuild *b = &d->rebuild;

	assert(b->running && d->users > 0 && d->pool != NULL);
	b->repeat = false;
	b->charged_rows = b->charged_bytes = 0;
	store_pool_set_pace(d->pool, rebuild_pace, d);
	b->last_rc = store_pool_rebuild(d->pool, rebuild_parallel(d), &b->progress);
	b->ended++;
	b->rows += b->progress.rebuilt;
	b->bytes += b->progress.bytes;
	b->retry_ns = rt_now_ns() + (b->last_rc == -ENODATA ? LOST_RETRY_NS : RETRY_NS);
	/* The rebuild was cancelled because the disk is being reopened: the next rebuild starts
	 * without a pause. */
	if (b->last_rc == -ECANCELED)
		b->retry_ns = 0;
	log_info("rebuild_ended",
		 "disk=%" PRIu64 " err=%s rows=%" PRIu64 " failed=%" PRIu64 " lost=%" PRIu64,
		 d->spec->disk, err_name(b->last_rc), b->progress.rebuilt, b->progress.failed,
		 b->progress.lost);
}

static void rebuild_main(void *arg)
{
	struct node_disk *d = arg;
	struct node_rebuild *b = &d->rebuild;

	rt_background();
	do {
		rebuild_once(d);
	} while (b->repeat && !b->stopping && !rt_cancelled());
	assert(b->running);
	b->running = false;
	rt_cond_broadcast(&b->changed);
	node_disk_done(d);
}

/* Joins the fiber of the last rebuild. Called before the next one starts or when it is stopped. */
static void rebuild_join(struct node_disk *d)
{
	struct rt_fiber *f = d->rebuild.fiber;

	assert(f == NULL || f != rt_self());

	d->rebuild.fiber = NULL;
	if (f != NULL)
		rt_join(f);
}

int node_pool_start_rebuild(struct node_disk *d)
{
	struct node_rebuild *b = &d->rebuild;

	if (!d->spec->pool)
		return -EOPNOTSUPP;
	if (b->running && !b->stopping) {
		b->repeat = true;
		return 0;
	}
	if (!b->running)
		rebuild_join(d);
	/* rebuild_join may have waited, so the state may have changed. */
	if (d->closing || b->stopping)
		return -EAGAIN;
	if (b->running || d->store == NULL)
		return d->store != NULL ? 0 : -ENODEV;
	assert(b->fiber == NULL && !d->closing);
	b->running = true;
	/* The fiber counts as a user of the disk. */
	d->users++;
	int rc = rt_spawn(&b->fiber, "node-rebuild", rebuild_main, d);
	if (rc != 0) {
		b->running = false;
		node_disk_done(d);
	}
	return rc;
}

void rebuild_when_due(struct node_disk *d)
{
	if (store_pool_rebuild_due(d->pool) && !d->rebuild.running &&
	    rt_now_ns() >= d->rebuild.retry_ns)
		(void)node_pool_start_rebuild(d);
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
