// SPDX-License-Identifier: Apache-2.0
/* Chooses disks for rebuilt chunks, puts the chunks there, changes the block's record and
 * deletes the old chunks. rebuild.c has the theory. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/log.h"
#include "cluster/choose.h"
#include "janitor/rebuild_impl.h"
#include "node/label.h"
#include "rt/rt.h"

#define PUT_TIMEOUT_NS (60 * NS_PER_S)
#define DELETE_TIMEOUT_NS (10 * NS_PER_S)
#define SPARE_DISKS 3

static bool is_useless(int64_t rc)
{
	return rc == -ENOENT || rc == -EBADMSG || rc == -ENODATA;
}

/*
 * Returns 1 if the disk has the chunk with the same bytes as `data`, 0 if not, or an error. Makes
 * the node scan the chunk, because a stat does not read its bytes.
 */
static int chunk_is(struct janitor *j, struct node_call *c, uint64_t disk, struct chunk_id id,
		    const struct slice *data)
{
	struct chunk_stat st;
	struct store_range bad;
	int rc = node_stat_one(c, disk, id, &st);
	if (rc == 0 && (!st.sealed || st.len != data->len || st.crc != data->crc))
		return 0;
	if (rc == 0)
		rc = pace_local(j, disk, data->len);
	int64_t found = rc == 0 ? node_scan(c, disk, id, &bad, 1) : rc;
	if (found > 0 || is_useless(found))
		return 0;
	return found == 0 ? 1 : (int)found;
}

/* The transfer of one chunk, on any loop of the fabric. */
struct putting {
	uint64_t disk;
	struct chunk_id id;
	struct node_put put;
	bool replaces; /* the disk may replace a chunk of the same name */
	bool met;
	int rc;
};

static void put_there(struct call *c, void *arg)
{
	struct putting *p = arg;
	struct disk_use u;
	p->rc = disk_begin(c, p->disk, &u);
	if (p->rc < 0)
		return;
	u.node.timeout_ns = PUT_TIMEOUT_NS;
	p->rc = node_put(&u.node, p->disk, p->id, &p->put);
	/*
	 * The disk has a chunk of this name: another janitor has put it and was interrupted, or is
	 * still working.
	 */
	p->met = p->rc == -EEXIST;
	if (p->met && p->replaces) {
		p->put.replace = true;
		p->rc = node_put(&u.node, p->disk, p->id, &p->put);
	}
	disk_end(c, &u, p->rc == -EEXIST ? 0 : p->rc, 0);
}

int chunk_put(struct janitor *j, struct call *call, uint64_t disk, struct chunk_id id,
	      const struct node_put *p, bool *met)
{
	const struct cluster_disk *d = cluster_disk(j->fabric.map, disk);
	struct putting w = {.disk = disk,
			    .id = id,
			    .put = *p,
			    .replaces = d != NULL && !d->pool}; /* d is valid until the next wait */
	int rc = pace_disk(j, disk, p->data.len);
	if (rc == 0)
		rc = fabric_run(call, p->data.len, put_there, &w);
	*met = w.met;
	return rc == 0 ? w.rc : rc;
}

/* Puts a rebuilt chunk on a disk. in_place: atomically replaces the damaged chunk that the
 * disk holds. */
static int target_put(struct rebuild *rb, int chunk, uint64_t disk, bool in_place)
{
	struct node_put p = {
		.data = rb->chunk[chunk], .epoch = rb->block.epoch, .replace = in_place};
	label_make(p.label, rb->tenant, rb->block.id, rt_random_u64());
	int rc = chunk_put(rb->j, &rb->request.call, disk,
			   (struct chunk_id){rb->block.chunk_block, (uint32_t)chunk}, &p, &rb->met);
	if (rc == 0)
		moved_note(rb->j, rb->repair, disk, rb->chunk[chunk].len, true);
	return rc;
}

void chunk_see(struct janitor *j, uint64_t disk, struct chunk_id id, struct chunk_seen *out)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct disk_use u;
	struct chunk_stat st;
	*out = (struct chunk_seen){.rc = disk_begin(&e.call, disk, &u)};
	if (out->rc < 0)
		return;
	u.node.timeout_ns = DELETE_TIMEOUT_NS;
	out->rc = node_stat_one(&u.node, disk, id, &st);
	disk_end(&e.call, &u, is_useless(out->rc) ? 0 : out->rc, 0);
	if (out->rc == 0)
		memcpy(out->label, st.label, sizeof(out->label));
}

int chunk_delete(struct janitor *j, uint64_t disk, struct chunk_id id,
		 const struct chunk_seen *seen)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct disk_use u;
	int rc = seen->rc == 0 || is_useless(seen->rc) ? disk_begin(&e.call, disk, &u) : seen->rc;
	if (rc < 0)
		return rc;
	u.node.timeout_ns = DELETE_TIMEOUT_NS;
	rc = node_delete_as(&u.node, disk, id, seen->rc == 0 ? seen->label : NULL);
	disk_end(&e.call, &u, rc == -ESTALE ? 0 : rc, 0);
	return rc == -ENOENT ? 0 : rc;
}

/* Stores disk `to` as the chunk's place in the block's record, then deletes the old chunk. */
static int record_replace(struct rebuild *rb, int chunk, uint64_t to)
{
	assert(to != 0 && chunk >= 0 && chunk < rb->state.shape.n);
	struct meta_call c = tenant_call_meta(rb->j, &rb->request);
	uint64_t from = rb->block.chunks[chunk].disk;
	struct chunk_id id = {rb->block.chunk_block, (uint32_t)chunk};
	struct meta_place p = {.chunk_block = id.block,
			       .index = id.index,
			       .crc = rb->chunk[chunk].crc,
			       .from = from,
			       .to = to,
			       .release_count = rb->block.release_count};
	/* Read the label of the old chunk while the record still names it. A chunk with
	 * another label was put later by another janitor and must not be deleted. */
	struct chunk_seen old = {.rc = -ENODEV};
	if (from != 0 && from != to && disk_fate(rb->j, from) != DISK_LOST)
		chunk_see(rb->j, from, id, &old);
	if (bug_planted(BUG_DELETE_FIRST))
		(void)chunk_delete(rb->j, from, id, &old);
	int rc = meta_client_block_replace(&c, rb->block.id, &p);
	/*
	 * The metadata refused the change: either the record names the new chunk already, because
	 * another janitor changed it, or the new chunk is an orphan.
	 */
	if (rc == -ENOENT || rc == -ESTALE || rc == -EEXIST || rc == -EINVAL)
		rb->j->stats.overtaken++;
	if (rc < 0)
		return rc;
	if (rb->met)
		rb->j->stats.overtaken++;
	else if (rb->have[chunk])
		rb->j->stats.chunks_moved++;
	else
		rb->j->stats.chunks_repaired++;
	rb->j->stats.repaired_ns = rt_wall_ns();
	rb->block.chunks[chunk] = (struct meta_chunk){.disk = to, .crc = p.crc};
	rb->block.release_count += from != 0;
	(void)chunk_delete(rb->j, from, id, &old);
	return 0;
}

/* --- choosing disks
 * ------------------------------------------------------------------------------------- */

/* Reports whether a chunk can be rebuilt in place: it was reported damaged or missing, and its
 * disk is online. */
static bool may_stay(const struct rebuild *rb, int chunk)
{
	const struct meta_chunk *c = &rb->block.chunks[chunk];
	return c->disk != 0 && c->damaged && disk_fate(rb->j, c->disk) == DISK_ONLINE;
}

/* Which chunks need a disk: the entries of state.bad from index `first` on; if `stay` is set,
 * without those that can be rebuilt in place. `media` is the media of the disks. */
struct choosing_for {
	int first;
	bool stay;
	enum cluster_media media;
};

/* Chooses disks for the chunks that f selects. Excludes every disk that already holds a chunk
 * of the block, readable or not. Finding too few disks is no error: out->count is then
 * smaller. */
static int choose(struct rebuild *rb, const struct choosing_for *f, struct cluster_choice *out)
{
	uint64_t kept[META_CHUNKS_MAX], excluded[META_CHUNKS_MAX];
	size_t kept_count = 0, excluded_count = 0;
	for (int i = 0, b = 0; i < rb->state.shape.n; i++) {
		bool bad = b < rb->state.bad_count && rb->state.bad[b] == i;
		uint64_t disk = rb->block.chunks[i].disk;
		b += bad;
		bad = bad && b > f->first;
		if (disk == 0 || cluster_disk(rb->j->fabric.map, disk) == NULL)
			continue;
		if (bad && !(f->stay && may_stay(rb, i)))
			excluded[excluded_count++] = disk;
		else
			kept[kept_count++] = disk;
	}
	assert(kept_count + excluded_count <= META_CHUNKS_MAX);
	assert(f->first >= 0 && f->first < rb->state.bad_count);
	struct cluster_want want = {.encoding = rb->state.shape.encoding,
				    .block = rb->block.chunk_block,
				    .media = f->media,
				    .extra = SPARE_DISKS,
				    .excluded = excluded,
				    .excluded_count = excluded_count,
				    .kept = kept,
				    .kept_count = kept_count};
	int rc = cluster_choose(rb->j->fabric.map, &want, out);
	return rc == -ENOSPC ? 0 : rc;
}

static bool spreads_better(const struct cluster_choice *a, const struct cluster_choice *b)
{
	return a->racks != b->racks ? a->racks > b->racks : a->nodes > b->nodes;
}

/* Chooses new disks for the chunks of state.bad. Sets *stay if rebuilding them in place, where
 * possible, spreads the block over more racks or nodes; *out then has disks only for the
 * remaining chunks. */
static int targets_choose(struct rebuild *rb, struct cluster_choice *out, bool *stay)
{
	AUTO_FREE struct cluster_choice *in_place = malloc(sizeof(*in_place));
	bool any = false;
	for (int i = 0; i < rb->state.bad_count; i++)
		any = any || may_stay(rb, rb->state.bad[i]);
	struct choosing_for how = {.media = media_of(&rb->block)};
	*stay = false;
	int rc = in_place == NULL ? -ENOMEM : choose(rb, &how, out);
	if (rc < 0 || !any)
		return rc;
	how.stay = true;
	rc = choose(rb, &how, in_place);
	*stay = rc == 0 && spreads_better(in_place, out);
	if (*stay)
		*out = *in_place;
	return rc;
}

/* Sends a rebuilt column to the pool that held it; the pool writes the rows that it lacks. If
 * the pool has a complete chunk with other bytes, deletes that chunk first and puts the
 * column. */
static int pool_put_in_place(struct rebuild *rb, int chunk, uint64_t disk)
{
	struct chunk_id id = {rb->block.chunk_block, (uint32_t)chunk};
	struct pool_case own = {.disk = disk, .repair = rb->repair};
	const struct pool_case *pool = rb->pool != NULL && rb->pool->disk == disk ? rb->pool : &own;
	int rc = pool == &own ? pool_case_shape(rb->j, &own) : 0;
	if (rc == 0)
		rc = pool_column_patch(rb->j, pool, id, &rb->chunk[chunk]);
	struct disk_use u;
	struct chunk_seen old;
	if (rc == 0 && pool != &own)
		return 0;
	chunk_see(rb->j, disk, id, &old);
	if (rc == 0) {
		rc = disk_begin(&rb->request.call, disk, &u);
		if (rc < 0)
			return rc;
		u.node.timeout_ns = PUT_TIMEOUT_NS;
		int is = chunk_is(rb->j, &u.node, disk, id, &rb->chunk[chunk]);
		disk_end(&rb->request.call, &u, is < 0 ? is : 0, 0);
		rc = is > 0 ? 0 : is == 0 ? -EBADMSG : is;
	}
	if (rc != -ENOENT && rc != -EBADMSG)
		return rc;
	rc = chunk_delete(rb->j, disk, id, &old);
	return rc == 0 ? target_put(rb, chunk, disk, false) : rc;
}

static int put_in_place(struct rebuild *rb, int chunk)
{
	assert(rb->block.chunks[chunk].disk != 0);
	uint64_t disk = rb->block.chunks[chunk].disk;
	const struct cluster_disk *d = cluster_disk(rb->j->fabric.map, disk);
	if (d == NULL)
		return -ENOSPC;
	/* Clear the result of an earlier put, because patching a pool does not set it. */
	rb->met = false;
	int rc = d->pool ? pool_put_in_place(rb, chunk, disk) : target_put(rb, chunk, disk, true);
	return rc == 0 ? record_replace(rb, chunk, disk) : rc;
}

static bool ends_search(int rc)
{
	return rc == 0 || rc == -ECANCELED || rc == -ETIME;
}

/* Puts the chunk on the first disk of the choice, from index *next on, that accepts it;
 * advances *next. -ENOSPC: no disk accepted the chunk. */
static int put_on_choice(struct rebuild *rb, int chunk, const struct cluster_choice *choice,
			 uint32_t *next)
{
	int rc = -ENOSPC;
	while (!ends_search(rc) && *next < choice->count) {
		uint64_t to = choice->disk[(*next)++];
		rc = target_put(rb, chunk, to, false);
		if (rc == 0)
			return record_replace(rb, chunk, to);
	}
	return ends_search(rc) ? rc : -ENOSPC;
}

/* Puts the chunk on a disk of the other media after no disk of the block's own media accepted
 * it: a misplaced chunk is better than a missing one. Rebalancing moves it back (balance.c). */
static int put_on_other_media(struct rebuild *rb, int at)
{
	AUTO_FREE struct cluster_choice *choice = malloc(sizeof(*choice));
	bool flash = media_of(&rb->block) == CLUSTER_MEDIA_FLASH;
	const struct choosing_for how = {.first = at,
					 .media = flash ? CLUSTER_MEDIA_DISK : CLUSTER_MEDIA_FLASH};
	uint32_t next = 0;
	int rc = choice == NULL ? -ENOMEM : choose(rb, &how, choice);
	return rc < 0 ? rc : put_on_choice(rb, rb->state.bad[at], choice, &next);
}

/* Puts the chunk state.bad[at] in place or on a disk of the choice and changes the record. */
static int chunk_place(struct rebuild *rb, int at, const struct cluster_choice *choice,
		       uint32_t *next, bool stay)
{
	assert(at >= 0 && at < rb->state.bad_count);
	int chunk = rb->state.bad[at];
	bool may = may_stay(rb, chunk) || (rb->pool != NULL && rb->pool->disk != 0 &&
					   rb->block.chunks[chunk].disk == rb->pool->disk);
	if (stay && may_stay(rb, chunk))
		return put_in_place(rb, chunk);
	int rc = put_on_choice(rb, chunk, choice, next);
	if (rc == -ENOSPC && may)
		return put_in_place(rb, chunk);
	return rc == -ENOSPC ? put_on_other_media(rb, at) : rc;
}

int chunks_put(struct rebuild *rb)
{
	AUTO_FREE struct cluster_choice *choice = malloc(sizeof(*choice));
	if (choice == NULL)
		return -ENOMEM;
	assert(rb->state.bad_count > 0 && rb->ranges == NULL && rb->begun);
	bool stay;
	int rc = targets_choose(rb, choice, &stay);
	uint32_t next = 0;
	for (int i = 0; rc == 0 && i < rb->state.bad_count; i++)
		rc = chunk_place(rb, i, choice, &next, stay);
	return rc;
}
