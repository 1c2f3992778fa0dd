// SPDX-License-Identifier: Apache-2.0
/*
 * Lists the chunks of disks page by page, and deletes those that no record names (orphans).
 *
 * A chunk's label names its tenant and block (node/label.h). A chunk that no record names may belong
 * to a write or repair whose record is not changed yet. So it is remembered with the collector's
 * epoch, and deleted if it is still an orphan two epochs later: at least one grace period lies
 * between. A chunk without a label is counted and kept. For a chunk whose label is unreadable the
 * records that name the disk are searched (blank.c).
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/hash.h"
#include "base/log.h"
#include "janitor/impl.h"
#include "node/label.h"
#include "rt/rt.h"

#define NODE_TIMEOUT_NS (30 * NS_PER_S)
#define ORPHAN_FIBERS 4
/* collector epochs after which an orphan that was not seen again is forgotten */
#define FORGET_EPOCHS 16

int64_t page_list(struct disk_page *s, size_t max)
{
	assert(max > 0);
	struct disk_use u;
	int64_t n = disk_begin(&s->request.call, s->disk, &u);
	if (n < 0)
		return n;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	n = node_list(&u.node, s->disk, &s->at, s->ids, min_u64(max, DISK_PAGE_MAX));
	disk_end(&s->request.call, &u, n < 0 ? (int)n : 0, 0);
	return n;
}

int page_stat(struct disk_page *s, size_t n)
{
	assert(n > 0 && n <= DISK_PAGE_MAX);
	struct disk_use u;
	int rc = disk_begin(&s->request.call, s->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	rc = node_stat(&u.node, s->disk, s->ids, n, s->stat, s->rcs);
	disk_end(&s->request.call, &u, rc, 0);
	return rc;
}

/* State of one call of some_disks, shared by its fibers. */
struct round {
	struct janitor *j;
	const char *what;
	disk_fn fn;
	uint64_t arg;
	const uint64_t *ids;
	size_t n, next;
	int rc;
};

static int disk_do(struct round *r, struct disk_page *s, uint64_t disk)
{
	struct janitor *j = r->j;
	enum disk_fate fate = disk_fate(j, disk);
	if (fate != DISK_ONLINE && fate != DISK_DRAINING)
		return 0;
	memset(s, 0, sizeof(*s));
	s->j = j;
	s->disk = disk;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &s->request, 0);
	snprintf(s->lease, sizeof(s->lease), "%s/%016lx", r->what, disk);
	int rc = lease_take(j, s->lease);
	if (rc < 0)
		return rc == -EBUSY ? 0 : rc;
	rc = r->fn(s, r->arg);
	if (rc < 0 && rc != -ECANCELED && rc != -EBUSY)
		log_warn("janitor_disk", "what=%s disk=%016lx rc=%d", r->what, disk, rc);
	if (rc != -ECANCELED && rc != -EBUSY)
		lease_drop(j, s->lease);
	return rc == -ECANCELED ? rc : 0;
}

static void round_fiber(void *arg)
{
	struct round *r = arg;
	AUTO_FREE struct disk_page *s = malloc(sizeof(*s));
	if (s == NULL)
		r->rc = -ENOMEM;
	const size_t n = r->n;
	assert(r->next <= r->n && r->fn != NULL);
	while (r->rc == 0 && n > 0 && r->next < n) {
		uint64_t disk = r->ids[(r->next++ + r->j->holder % n) % n];
		int rc = disk_do(r, s, disk);
		if (r->rc == 0)
			r->rc = rc;
	}
}

int each_disk(struct janitor *j, const char *what, unsigned fibers, disk_fn fn, uint64_t arg)
{
	int rc = janitor_map(j);
	if (rc < 0)
		return rc;
	size_t n;
	AUTO_FREE uint64_t *ids = disk_ids(j, &n);
	return ids == NULL ? -ENOMEM : some_disks(j, what, fibers, fn, arg, ids, n);
}

int some_disks(struct janitor *j, const char *what, unsigned fibers, disk_fn fn, uint64_t arg,
	       const uint64_t *ids, size_t n)
{
	struct round r = {.j = j, .what = what, .fn = fn, .arg = arg, .ids = ids, .n = n};
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 1; i < fibers && i < r.n; i++)
		if (rt_group_spawn(&g, what, round_fiber, &r) < 0)
			break;
	round_fiber(&r);
	if (r.rc < 0)
		rt_group_cancel(&g);
	rt_group_join(&g);
	return r.rc;
}

/* --- what should be there ------------------------------------------------------------------------ */

static int records_get(struct disk_page *s, const struct meta_on_disk *on, size_t n, records_fn fn,
		       void *ctx)
{
	assert(n > 0 && n <= RECORDS_MAX && on[0].tenant == on[n - 1].tenant);
	struct tenant_call e;
	struct meta_block b[RECORDS_MAX];
	uint64_t ids[RECORDS_MAX];
	struct arena a;
	arena_init(&a, 4 * MIB);
	for (size_t i = 0; i < n; i++)
		ids[i] = on[i].block;
	const struct context *before = tenant_call_init(s->j, &e, on[0].tenant);
	struct meta_call m = tenant_call_meta(s->j, &e);
	int rc = meta_client_block_get(&m, ids, n, &a, b);
	rt_context_leave(before);
	if (rc == 0)
		rc = fn(s, on, b, n, ctx);
	arena_fini(&a);
	return rc;
}

int records_of_disk(struct disk_page *s, records_fn fn, void *ctx)
{
	struct meta_call m = tenant_call_meta(s->j, &s->request);
	uint64_t epoch;
	int rc = meta_client_gc_epoch(&m, &epoch, &s->j->partitions);
	for (struct meta_walk w = {.end = s->j->partitions}; rc == 0 && w.index < w.end;) {
		struct meta_on_disk on[RECORDS_MAX];
		int64_t n = meta_client_disk_blocks(&m, s->disk, &w, on, RECORDS_MAX);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0, run; rc == 0 && i < n; i += run) {
			for (run = 1; i + run < n && on[i + run].tenant == on[i].tenant;)
				run++;
			rc = records_get(s, on + i, (size_t)run, fn, ctx);
		}
		if (rc == 0)
			rc = lease_keep(s->j, s->lease);
	}
	return rc;
}

/* --- orphans ---------------------------------------------------------------------------------- */

static uint64_t sighting_key(const struct disk_page *s, struct chunk_id id)
{
	uint64_t parts[3] = {s->disk, id.block, id.index};
	return hash64(parts, sizeof(parts), 0);
}

void orphan_forget(struct disk_page *s, struct chunk_id id)
{
	free(map_remove(&s->j->sightings, sighting_key(s, id)));
}

/* Reads the epoch after the page: a janitor that was paused may be epochs late, and an epoch older
 * than the page would shorten the grace period. */
static int sighting_epoch(struct disk_page *s)
{
	struct meta_call m = tenant_call_meta(s->j, &s->request);
	return meta_client_gc_epoch(&m, &s->epoch, &s->j->partitions);
}

static int sighting_add(struct disk_page *s, uint64_t key, uint64_t put)
{
	struct janitor *j = s->j;
	struct sighting *new = malloc(sizeof(*new));
	if (new == NULL)
		return -ENOMEM;
	j->stats.orphans_seen++;
	*new = (struct sighting){.epoch = s->epoch, .last_epoch = s->epoch, .put = put};
	/* The table is full, so the chunk is not remembered; a later sweep sees it again. */
	if (map_put(&j->sightings, key, new) < 0)
		free(new);
	return 0;
}

/* Sets *intact to whether a damaged chunk is intact now, because a repair has put it again. */
static int blank_is_intact(struct disk_page *s, struct chunk_id id, bool *intact)
{
	s->ids[0] = id;
	int rc = page_stat(s, 1);
	*intact = s->rcs[0] == 0;
	return rc;
}

/* Deletes an orphan. Reads the block's record once more after the wait for the pacer: a repair
 * or move may have stored the chunk's place in the record during the wait. */
static int orphan_delete(struct disk_page *s, struct chunk_id id, const struct meta_found_chunk *f,
			 const uint8_t *label)
{
	struct janitor *j = s->j;
	struct chunk_seen seen = {.rc = label == NULL ? -EBADMSG : 0};
	if (label != NULL)
		memcpy(seen.label, label, sizeof(seen.label));
	bool wanted = true;
	int rc = pacer_wait(&j->deletes, 1, j->opts.deletes_per_s);
	struct meta_call m = tenant_call_meta(j, &s->request);
	if (rc == 0)
		rc = f == NULL ? blank_is_intact(s, id, &wanted)
			       : meta_client_chunk_give_up(&m, s->disk, f, &wanted);
	if (rc < 0 || wanted)
		return rc;
	rc = chunk_delete(j, s->disk, id, &seen);
	j->stats.orphans_deleted += rc == 0;
	/* -ESTALE: the chunk was put again in the meantime and must stay */
	return rc == -ESTALE ? 0 : rc;
}

/* Remembers an orphan, or deletes one that was remembered two epochs ago. f and label are NULL for
 * a chunk with an unreadable label, which no recent put can have. */
static int orphan_seen(struct disk_page *s, struct chunk_id id, const struct meta_found_chunk *f,
		       const uint8_t *label)
{
	struct janitor *j = s->j;
	uint64_t put = label == NULL ? 0 : label_put(label);
	uint64_t key = sighting_key(s, id);
	struct sighting *old = map_get(&j->sightings, key);
	if (bug_planted(BUG_ORPHAN_AT_ONCE))
		return orphan_delete(s, id, f, label);
	if (old == NULL)
		return sighting_add(s, key, put);
	/*
	 * Another put number: the chunk that was seen earlier was deleted, and a chunk of the same
	 * name was put since. A jump of the epoch: the metadata was restored from a backup, so the
	 * grace period begins again.
	 */
	if (old->put != put || s->epoch - old->epoch >= META_GC_JUMP)
		*old = (struct sighting){.epoch = s->epoch, .put = put};
	old->last_epoch = s->epoch;
	if (s->epoch < old->epoch + 2)
		return 0;
	int rc = orphan_delete(s, id, f, label);
	if (rc == 0)
		free(map_remove(&j->sightings, key));
	if (rc != -EIO)
		return rc;
	/* Continue with the next orphan: a pool with a failed drive may be unable to delete
	 * this chunk and still able to delete others. */
	log_warn("orphan", "disk=%016lx chunk=%016lx.%u rc=%d", s->disk, id.block, id.index, rc);
	return 0;
}

static int orphans_page(struct disk_page *s, size_t n)
{
	size_t count = 0;
	assert(n <= DISK_PAGE_MAX);
	int rc = page_stat(s, n);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct meta_found_chunk f = {.chunk_block = s->ids[i].block,
					     .index = s->ids[i].index};
		if (s->rcs[i] == -EBADMSG || s->rcs[i] == -ENODATA)
			blanks_add(s, s->ids[i]);
		if (s->rcs[i] < 0)
			continue;
		if (label_read(s->stat[i].label, &f.tenant, &f.block) < 0) {
			s->j->stats.unlabelled++;
			continue;
		}
		s->place[count] = i;
		s->found[count++] = f;
	}
	if (rc < 0 || count == 0)
		return rc;
	struct meta_call m = tenant_call_meta(s->j, &s->request);
	rc = meta_client_chunks_wanted(&m, s->disk, s->found, count, s->wanted);
	if (rc == 0)
		rc = sighting_epoch(s);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct chunk_id id = s->ids[s->place[i]];
		assert(s->place[i] < n && s->found[i].chunk_block == id.block);
		if (!s->wanted[i])
			rc = orphan_seen(s, id, &s->found[i], s->stat[s->place[i]].label);
		else
			orphan_forget(s, id);
	}
	return rc;
}

static int orphans_disk(struct disk_page *s, uint64_t unused)
{
	(void)unused;
	int64_t n;
	int rc = 0;
	do {
		n = page_list(s, DISK_PAGE_MAX);
		if (n > 0)
			rc = orphans_page(s, (size_t)n);
		if (rc == 0)
			rc = lease_keep(s->j, s->lease);
	} while (rc == 0 && n > 0);
	if (n < 0)
		rc = (int)n;
	if (rc == 0 && s->blank_count > 0)
		rc = records_of_disk(s, blanks_wanted, NULL);
	if (rc == 0 && s->blank_count > 0)
		rc = sighting_epoch(s);
	for (size_t i = 0; rc == 0 && i < s->blank_count; i++)
		rc = orphan_seen(s, s->blanks[i], NULL, NULL);
	return rc;
}

/* Forgets orphans that were not seen for FORGET_EPOCHS: other janitors have deleted them. */
static int sightings_forget(struct janitor *j)
{
	AUTO_FREE uint64_t *old = malloc((map_count(&j->sightings) + 1) * sizeof(*old));
	size_t n = 0;
	if (old == NULL)
		return -ENOMEM;
	map_for_each(&j->sightings, it) {
		const struct sighting *s = it.value;
		if (s->last_epoch + FORGET_EPOCHS < j->epoch)
			old[n++] = it.key;
	}
	for (size_t i = 0; i < n; i++)
		free(map_remove(&j->sightings, old[i]));
	return 0;
}

int janitor_orphans(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	uint64_t epoch;
	int rc = meta_client_gc_epoch(&m, &epoch, &j->partitions);
	if (rc < 0)
		return rc;
	if (epoch != j->epoch) {
		j->epoch = epoch;
		j->epoch_ns = rt_now_ns();
	}
	rc = sightings_forget(j);
	return rc < 0 ? rc : each_disk(j, "orphans", ORPHAN_FIBERS, orphans_disk, 0);
}
