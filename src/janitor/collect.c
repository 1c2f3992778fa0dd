// SPDX-License-Identifier: Apache-2.0
/*
 * Garbage collection. Garbage that crashed operations left is found only by reading every object:
 * those kinds are walked once per epoch, all other kinds in every round.
 *
 * A set of dead chunks is forgotten when all of them are deleted. A lost disk counts as empty: if it
 * comes back, its chunks are orphans. Chunk names are shared by all tenants, so a chunk that is listed
 * as dead and has the label of another tenant or block is kept.
 *
 * While disks are full, a round first deletes the dead chunks that are on them, of all shares. Their sets stay listed:
 * the walk that follows finds these chunks missing, deletes the other chunks of the sets, and forgets the sets.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "janitor/impl.h"
#include "janitor/notes.h"
#include "node/label.h"
#include "rt/rt.h"

#define DEAD_MAX 64      /* sets of dead chunks that are in memory at a time */
#define DELETE_BATCH 128 /* chunks deleted by one request */

static bool is_seldom(enum meta_gc_kind kind)
{
	return kind == META_GC_DIRS || kind == META_GC_ORPHANS || kind == META_GC_OWNERS;
}

/* Returns the grace period of this epoch: that of the options, or a shorter one if an operator ordered it. */
static uint64_t grace_now(struct janitor *j, struct meta_call *m, uint64_t epoch)
{
	struct meta_note found[2];
	struct arena a;
	uint64_t until = 0;
	bool end;
	if (j->opts.grace_ns <= META_GRACE_MIN)
		return j->opts.grace_ns;
	arena_init(&a, MIB);
	int64_t n = meta_client_note_list(m, COLLECT_FAMILY, "", &a, found, ARRAY_LEN(found), &end);
	for (int64_t i = 0; i < n; i++)
		if (strcmp(found[i].name, COLLECT_NOTE) == 0)
			until = collect_until(found[i].text);
	arena_fini(&a);
	return epoch < until ? META_GRACE_MIN : j->opts.grace_ns;
}

/* Reads the epoch, and advances it if this janitor has seen it for a whole grace period. */
static int epoch_look(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	struct meta_gc_state state = {0};
	uint64_t epoch;
	int rc = meta_client_gc_epoch(&m, &epoch, &j->partitions);
	if (rc == 0)
		rc = meta_client_gc_state(&m, &state);
	if (rc < 0)
		return rc;
	j->stats.held = state.held;
	if (epoch != j->epoch || state.held) {
		j->epoch = epoch;
		j->epoch_ns = rt_now_ns();
		return 0;
	}
	if (rt_now_ns() - j->epoch_ns < grace_now(j, &m, epoch))
		return 0;
	rc = meta_client_gc_advance(&m, epoch);
	if (rc < 0)
		return rc;
	j->stats.epochs++;
	j->epoch = epoch + 1;
	j->epoch_ns = rt_now_ns();
	return 0;
}

/* --- dead chunks ------------------------------------------------------------------------------ */

struct dead_one {
	uint64_t disk;
	struct chunk_id id;
	size_t set;
	uint32_t tenant;
	uint64_t block;
};

static int by_disk(const void *a, const void *b)
{
	const struct dead_one *x = a, *y = b;
	return x->disk < y->disk ? -1 : x->disk > y->disk;
}

/* Returns whether the label of a chunk matches its entry in the list of dead chunks. A chunk
 * without a label, or with an unreadable one, matches by its name. */
static bool is_listed(const struct dead_one *d, int rc, const struct chunk_stat *st)
{
	uint32_t tenant;
	uint64_t block;
	if (rc != 0 || label_read(st->label, &tenant, &block) < 0)
		return true;
	if (tenant == d->tenant && block == d->block)
		return true;
	log_warn("dead_chunk_of_another", "disk=%016lx block=%016lx index=%u tenant=%u", d->disk,
		 d->id.block, d->id.index, tenant);
	return false;
}

/* Deletes those of n chunks that match their entries; rcs[i] is 0, or -ENOENT for a chunk that is
 * missing or does not match. */
static int listed_delete(struct janitor *j, struct node_call *node, const struct dead_one *all,
			 size_t n, int *rcs)
{
	struct chunk_id ids[DELETE_BATCH];
	struct chunk_stat st[DELETE_BATCH];
	const uint8_t *labels[DELETE_BATCH];
	size_t of[DELETE_BATCH], count = 0;
	int done[DELETE_BATCH];
	assert(n > 0 && n <= DELETE_BATCH && all[0].disk == all[n - 1].disk);
	for (size_t i = 0; i < n; i++)
		ids[i] = all[i].id;
	int rc = node_stat(node, all[0].disk, ids, n, st, rcs);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n; i++) {
		if (is_listed(&all[i], rcs[i], &st[i])) {
			of[count] = i;
			labels[count] = rcs[i] == 0 ? st[i].label : NULL;
			ids[count++] = all[i].id;
		}
		rcs[i] = -ENOENT;
	}
	if (count > 0)
		rc = node_delete(node, all[0].disk, ids, labels, count, done);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		rcs[of[i]] = done[i];
		j->stats.chunks_deleted += done[i] == 0;
	}
	return rc;
}

/* Counts and names a chunk that its disk cannot delete: mostly a pool that cannot say whether it has it. */
static void dead_stays(struct janitor *j, const struct dead_one *d, int rc)
{
	j->round_dead++;
	log_warn("dead_chunk_stays", "disk=%016lx chunk=%016lx.%u err=%s", d->disk, d->id.block,
		 d->id.index, err_name(rc));
}

/* Deletes n chunks of one disk. Sets with chunks that could not be deleted are retried in the next
 * round (keep). */
static int disk_delete(struct janitor *j, const struct dead_one *all, size_t n, bool *keep)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	int rcs[DELETE_BATCH];
	assert(n > 0 && n <= DELETE_BATCH && all[n - 1].set < DEAD_MAX);
	if (disk_fate(j, all[0].disk) == DISK_LOST)
		return 0;
	int rc = pacer_wait(&j->deletes, n, j->opts.deletes_per_s);
	struct disk_use u;
	if (rc == 0)
		rc = disk_begin(&e.call, all[0].disk, &u);
	if (rc == 0) {
		u.node.timeout_ns = 30 * NS_PER_S;
		rc = listed_delete(j, &u.node, all, n, rcs);
		disk_end(&e.call, &u, rc, 0);
	}
	for (size_t i = 0; i < n; i++) {
		bool stays = rc == 0 && rcs[i] != 0 && rcs[i] != -ENOENT;
		if (rc != 0 || stays)
			keep[all[i].set] = true;
		if (stays)
			dead_stays(j, &all[i], rcs[i]);
	}
	return rc == -ECANCELED ? rc : 0;
}

/* Lists the chunks of n sets by disk. full: only those on full disks. */
static size_t ones_of(const struct janitor *j, const struct meta_dead_chunks *dead, size_t n,
		      bool full, struct dead_one *out)
{
	size_t count = 0;
	for (size_t s = 0; s < n; s++)
		for (size_t i = 0; i < dead[s].chunk_count; i++)
			if (dead[s].chunks[i].disk != 0 &&
			    (!full || full_is(j, dead[s].chunks[i].disk)))
				out[count++] =
					(struct dead_one){.disk = dead[s].chunks[i].disk,
							  .id = {dead[s].chunk_block, (uint32_t)i},
							  .set = s,
							  .tenant = dead[s].tenant,
							  .block = dead[s].block};
	qsort(out, count, sizeof(*out), by_disk);
	return count;
}

/* Deletes the chunks of n sets and forgets the sets. full: deletes those on full disks, and forgets nothing. */
static int sets_delete(struct janitor *j, struct meta_call *m, const struct meta_dead_chunks *dead,
		       size_t n, bool full)
{
	bool keep[DEAD_MAX] = {0};
	AUTO_FREE struct dead_one *ones = malloc((n * META_CHUNKS_MAX + 1) * sizeof(*ones));
	if (ones == NULL)
		return -ENOMEM;
	size_t count = ones_of(j, dead, n, full, ones);
	int rc = 0;
	for (size_t i = 0, run; rc == 0 && i < count; i += run) {
		for (run = 1;
		     i + run < count && ones[i + run].disk == ones[i].disk && run < DELETE_BATCH;)
			run++;
		rc = disk_delete(j, ones + i, run, keep);
	}
	for (size_t s = 0; rc == 0 && !full && s < n; s++)
		if (!keep[s])
			rc = meta_client_gc_chunks_done(m, dead[s].tenant, dead[s].block,
							dead[s].chunk_block);
	return rc;
}

static int share_chunks(struct janitor *j, unsigned share, const char *lease, bool full)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	int rc = 0;
	for (struct meta_walk w = share_walk(j, share); rc == 0 && w.index < w.end;) {
		struct meta_dead_chunks dead[DEAD_MAX];
		struct arena a;
		arena_init(&a, 4 * MIB);
		int64_t n = meta_client_gc_chunks(&m, j->epoch, &w, &a, dead, DEAD_MAX);
		rc = n < 0 ? (int)n : sets_delete(j, &m, dead, (size_t)n, full);
		arena_fini(&a);
		if (rc == 0)
			rc = lease_keep(j, lease);
	}
	return rc;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int share_collect(struct janitor *j, unsigned share, bool thorough, const char *lease)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	struct meta_gc_counts n = {0};
	int rc = 0;
	for (unsigned kind = 0; rc == 0 && kind < META_GC_KINDS; kind++) {
		if (is_seldom((enum meta_gc_kind)kind) && !thorough)
			continue;
		for (struct meta_walk w = share_walk(j, share); rc == 0 && w.index < w.end;) {
			rc = meta_client_gc_step(&m, (enum meta_gc_kind)kind, j->epoch, &w, &n);
			if (rc == 0)
				rc = lease_keep(j, lease);
		}
	}
	j->stats.marked += n.marked;
	j->stats.collected += n.collected;
	return rc < 0 ? rc : share_chunks(j, share, lease, false);
}

#define LEASE_TEXT 32

static void lease_name(char out[LEASE_TEXT], unsigned share)
{
	snprintf(out, LEASE_TEXT, "collect/%u", share);
}

/* Deletes the dead chunks of one share that are on full disks. 0 also when another janitor has the share's lease. */
static int share_full(struct janitor *j, unsigned share)
{
	char lease[LEASE_TEXT];
	lease_name(lease, share);
	int rc = lease_take(j, lease);
	if (rc == 0) {
		rc = share_chunks(j, share, lease, true);
		if (rc == 0)
			lease_drop(j, lease);
	}
	return rc == -EBUSY ? 0 : rc;
}

/* Deletes the dead chunks of all shares that are on full disks. Chunks that stay are counted by the walk that follows.
 * Returns whether the round continues: share_next. */
static bool full_first(struct janitor *j, int *first)
{
	uint64_t stay = j->round_dead, deleted = j->stats.chunks_deleted;
	bool goes = true;
	for (unsigned i = 0; goes && j->full_count > 0 && i < JANITOR_SHARES; i++)
		goes = share_next(share_full(j, share_turn(j, i)), first);
	j->round_dead = stay;
	if (j->stats.chunks_deleted > deleted)
		log_info("collect_full_first", "disks=%zu chunks=%lu", j->full_count,
			 j->stats.chunks_deleted - deleted);
	return goes;
}

/* Collects the garbage of one share of the partitions. 0 also when another janitor has the
 * share's lease. */
static int share_round(struct janitor *j, unsigned share)
{
	char lease[LEASE_TEXT];
	uint64_t epoch = j->epoch;
	lease_name(lease, share);
	int rc = lease_take(j, lease);
	if (rc == 0) {
		rc = share_collect(j, share, j->thorough_epoch[share] != epoch, lease);
		if (rc == 0)
			lease_drop(j, lease);
	}
	if (rc == -EBUSY)
		rc = 0;
	if (rc == 0)
		j->thorough_epoch[share] = epoch;
	return rc;
}

int janitor_collect(struct janitor *j)
{
	bool more;
	int first = 0, rc = full_look(j, &more);
	if (rc == 0)
		rc = epoch_look(j);
	if (rc < 0)
		return rc;
	j->round_dead = 0;
	bool goes = full_first(j, &first);
	for (unsigned i = 0; goes && i < JANITOR_SHARES; i++) {
		goes = share_next(share_round(j, share_turn(j, i)), &first);
		if (goes && full_more(j))
			goes = full_first(j, &first);
	}
	if (first == 0)
		j->stats.stuck_dead = j->round_dead;
	j->stats.rounds += first == 0;
	return first;
}
