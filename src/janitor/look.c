// SPDX-License-Identifier: Apache-2.0
/*
 * What is on the disks, page by page, and which of it no record knows.
 *
 * A chunk's label names its tenant and block (client/label.h). One that no record wants may belong
 * to a write or repair that has not told the metadata yet, so it is remembered with the epoch, and deleted when
 * it is still unwanted two epochs later: at least one whole grace lies between. A chunk without a label is
 * counted and left alone; of one that is too damaged to tell, the blocks are asked (blank.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/hash.h"
#include "base/log.h"
#include "client/label.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define NODE_TIMEOUT_NS (30 * NS_PER_S)
#define ORPHAN_FIBERS 4
#define FORGET_EPOCHS 16 /* without having been seen: somebody else has deleted it */

int64_t shelf_list(struct shelf *s, size_t max)
{
	struct disk_use u;
	int64_t n = disk_begin(&s->errand.call, s->disk, &u);
	if (n < 0)
		return n;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	n = node_list(&u.node, s->disk, &s->at, s->ids, min_u64(max, SHELF_MAX));
	disk_end(&s->errand.call, &u, n < 0 ? (int)n : 0, 0);
	return n;
}

int shelf_stat(struct shelf *s, size_t n)
{
	struct disk_use u;
	int rc = disk_begin(&s->errand.call, s->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	rc = node_stat(&u.node, s->disk, s->ids, n, s->stat, s->rcs);
	disk_end(&s->errand.call, &u, rc, 0);
	return rc;
}

/* Disks on the way through, shared by a few fibers. */
struct round {
	struct janitor *j;
	const char *what;
	shelf_fn fn;
	uint64_t arg;
	const uint64_t *ids;
	size_t n, next;
	int rc;
};

static int disk_do(struct round *r, struct shelf *s, uint64_t disk)
{
	struct janitor *j = r->j;
	enum disk_fate fate = disk_fate(j, disk);
	if (fate != DISK_WELL && fate != DISK_EMPTYING)
		return 0;
	memset(s, 0, sizeof(*s));
	s->j = j;
	s->disk = disk;
	errand_init(j, &s->errand, 0);
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
	AUTO_FREE struct shelf *s = malloc(sizeof(*s));
	if (s == NULL)
		r->rc = -ENOMEM;
	const size_t n = r->n;
	while (r->rc == 0 && n > 0 && r->next < n) {
		uint64_t disk = r->ids[(r->next++ + r->j->holder % n) % n];
		int rc = disk_do(r, s, disk);
		if (r->rc == 0)
			r->rc = rc;
	}
}

int each_disk(struct janitor *j, const char *what, unsigned fibers, shelf_fn fn, uint64_t arg)
{
	int rc = janitor_map(j);
	if (rc < 0)
		return rc;
	size_t n;
	AUTO_FREE uint64_t *ids = disk_ids(j, &n);
	return ids == NULL ? -ENOMEM : some_disks(j, what, fibers, fn, arg, ids, n);
}

int some_disks(struct janitor *j, const char *what, unsigned fibers, shelf_fn fn, uint64_t arg,
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

static int records_get(struct shelf *s, const struct meta_on_disk *on, size_t n, records_fn fn,
		       void *ctx)
{
	struct errand e;
	errand_init(s->j, &e, on[0].tenant);
	struct meta_call m = errand_meta(s->j, &e);
	struct meta_block b[RECORDS_MAX];
	uint64_t ids[RECORDS_MAX];
	struct arena a;
	arena_init(&a, 4 * MIB);
	for (size_t i = 0; i < n; i++)
		ids[i] = on[i].block;
	int rc = meta_client_block_get(&m, ids, n, &a, b);
	if (rc == 0)
		rc = fn(s, on, b, n, ctx);
	arena_fini(&a);
	return rc;
}

int records_of_disk(struct shelf *s, records_fn fn, void *ctx)
{
	struct meta_call m = errand_meta(s->j, &s->errand);
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

static uint64_t sighting_key(const struct shelf *s, struct chunk_id id)
{
	uint64_t parts[3] = {s->disk, id.block, id.index};
	return hash64(parts, sizeof(parts), 0);
}

void orphan_forget(struct shelf *s, struct chunk_id id)
{
	free(map_remove(&s->j->sightings, sighting_key(s, id)));
}

/* A janitor that stood still may be epochs late: a sighting that is older than the look would shorten the grace. */
static int sighting_epoch(struct shelf *s)
{
	struct meta_call m = errand_meta(s->j, &s->errand);
	return meta_client_gc_epoch(&m, &s->epoch, &s->j->partitions);
}

static int sighting_add(struct shelf *s, uint64_t key, uint64_t put)
{
	struct janitor *j = s->j;
	struct sighting *new = malloc(sizeof(*new));
	if (new == NULL)
		return -ENOMEM;
	j->stats.orphans_seen++;
	*new = (struct sighting){.epoch = s->epoch, .last_epoch = s->epoch, .put = put};
	if (map_put(&j->sightings, key, new) < 0)
		free(new); /* too many at once: seen another time */
	return 0;
}

/* Whether a damaged chunk is whole now: a repair has put it anew. */
static int blank_is_mended(struct shelf *s, struct chunk_id id, bool *mended)
{
	s->ids[0] = id;
	int rc = shelf_stat(s, 1);
	*mended = s->rcs[0] == 0;
	return rc;
}

/* Asked again, because many may have waited for their turn: a repair or move may have met it meanwhile. */
static int orphan_delete(struct shelf *s, struct chunk_id id, const struct meta_found_chunk *f,
			 const uint8_t *label)
{
	struct janitor *j = s->j;
	struct chunk_seen seen = {.rc = label == NULL ? -EBADMSG : 0};
	if (label != NULL)
		memcpy(seen.label, label, sizeof(seen.label));
	bool wanted = true;
	int rc = pacer_wait(&j->deletes, 1, j->opts.deletes_per_s);
	struct meta_call m = errand_meta(j, &s->errand);
	if (rc == 0)
		rc = f == NULL ? blank_is_mended(s, id, &wanted)
			       : meta_client_chunk_give_up(&m, s->disk, f, &wanted);
	if (rc < 0 || wanted)
		return rc;
	rc = chunk_delete(j, s->disk, id, &seen);
	j->stats.orphans_deleted += rc == 0;
	return rc == -ESTALE ? 0 : rc; /* put anew meanwhile */
}

/* f and label: NULL, it has no label that can be read. Then it is not one that has just been put. */
static int orphan_seen(struct shelf *s, struct chunk_id id, const struct meta_found_chunk *f,
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
	/* Not the one that was seen then: that was deleted, and this has come since. */
	if (old->put != put)
		*old = (struct sighting){.epoch = s->epoch, .put = put};
	old->last_epoch = s->epoch;
	if (s->epoch < old->epoch + 2)
		return 0;
	int rc = orphan_delete(s, id, f, label);
	if (rc == 0)
		free(map_remove(&j->sightings, key));
	if (rc != -EIO)
		return rc;
	/* A pool may not be able to delete one of its chunks until it has a new drive. Others it can. */
	log_warn("orphan", "disk=%016lx chunk=%016lx.%u rc=%d", s->disk, id.block, id.index, rc);
	return 0;
}

static int orphans_page(struct shelf *s, size_t n)
{
	size_t count = 0;
	int rc = shelf_stat(s, n);
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
	struct meta_call m = errand_meta(s->j, &s->errand);
	rc = meta_client_chunks_wanted(&m, s->disk, s->found, count, s->wanted);
	if (rc == 0)
		rc = sighting_epoch(s);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct chunk_id id = s->ids[s->place[i]];
		if (!s->wanted[i])
			rc = orphan_seen(s, id, &s->found[i], s->stat[s->place[i]].label);
		else
			orphan_forget(s, id);
	}
	return rc;
}

static int orphans_disk(struct shelf *s, uint64_t unused)
{
	(void)unused;
	int64_t n;
	int rc = 0;
	do {
		n = shelf_list(s, SHELF_MAX);
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

/* What has not been seen for long is there no more. It may be a whole disk's, deleted by others. */
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
	struct errand e;
	errand_init(j, &e, 0);
	struct meta_call m = errand_meta(j, &e);
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
