// SPDX-License-Identifier: Apache-2.0
/* Chunks that were made anew: where they go, and what becomes of the old ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/log.h"
#include "client/label.h"
#include "cluster/choose.h"
#include "janitor/rebuild_impl.h"
#include "rt/rt.h"

#define PUT_TIMEOUT_NS (60 * NS_PER_S)
#define DELETE_TIMEOUT_NS (10 * NS_PER_S)
#define SPARE_DISKS 3

static bool is_useless(int64_t rc)
{
	return rc == -ENOENT || rc == -EBADMSG || rc == -ENODATA;
}

/* Whether the chunk has these bytes on its disk, 1 or 0, or why that is not known. What it says of itself proves
 * nothing of what can be read. */
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

int chunk_put(struct janitor *j, struct call *call, uint64_t disk, struct chunk_id id,
	      const struct node_put *p, bool *met)
{
	const struct cluster_disk *d = cluster_disk(j->fabric.map, disk);
	bool replaces = d != NULL && !d->pool; /* d holds until the next wait */
	struct disk_use u;
	struct node_put again = *p;
	*met = false;
	int rc = pace_disk(j, disk, p->data.len);
	if (rc == 0)
		rc = disk_begin(call, disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = PUT_TIMEOUT_NS;
	rc = node_put(&u.node, disk, id, p);
	/* Left by somebody who was interrupted, or made by another who goes on. */
	*met = rc == -EEXIST;
	if (*met && replaces) {
		again.replace = true;
		rc = node_put(&u.node, disk, id, &again);
	}
	disk_end(call, &u, rc == -EEXIST ? 0 : rc, 0);
	return rc;
}

/* In place: what is there is of no use, and goes when this is there. */
static int target_put(struct mending *m, int chunk, uint64_t disk, bool in_place)
{
	struct node_put p = {.data = m->chunk[chunk], .epoch = m->block.epoch, .replace = in_place};
	label_make(p.label, m->tenant, m->block.id, rt_random_u64());
	int rc = chunk_put(m->j, &m->request.call, disk,
			   (struct chunk_id){m->block.chunk_block, (uint32_t)chunk}, &p, &m->met);
	if (rc == 0)
		moved_note(m->j, m->repair, disk, m->chunk[chunk].len, true);
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

static int replace(struct mending *m, int chunk, uint64_t to)
{
	struct meta_call c = tenant_call_meta(m->j, &m->request);
	uint64_t from = m->block.chunks[chunk].disk;
	struct chunk_id id = {m->block.chunk_block, (uint32_t)chunk};
	struct meta_place p = {.chunk_block = id.block,
			       .index = id.index,
			       .crc = m->chunk[chunk].crc,
			       .from = from,
			       .to = to,
			       .release_count = m->block.release_count};
	/* Seen while the record names it: what comes there afterwards is another's. */
	struct chunk_seen old = {.rc = -ENODEV};
	if (from != 0 && from != to && disk_fate(m->j, from) != DISK_LOST)
		chunk_see(m->j, from, id, &old);
	if (bug_planted(BUG_DELETE_FIRST))
		(void)chunk_delete(m->j, from, id, &old);
	int rc = meta_client_block_replace(&c, m->block.id, &p);
	/* Refused, or not known: either the record has it by another's doing, or it is an orphan. */
	if (rc == -ENOENT || rc == -ESTALE || rc == -EEXIST || rc == -EINVAL)
		m->j->stats.overtaken++;
	if (rc < 0)
		return rc;
	if (m->met)
		m->j->stats.overtaken++;
	else if (m->have[chunk])
		m->j->stats.chunks_moved++;
	else
		m->j->stats.chunks_repaired++;
	m->j->stats.repaired_ns = rt_wall_ns();
	m->block.chunks[chunk] = (struct meta_chunk){.disk = to, .crc = p.crc};
	m->block.release_count += from != 0;
	(void)chunk_delete(m->j, from, id, &old);
	return 0;
}

/* --- where ------------------------------------------------------------------------------------- */

/* Whether a chunk can be made anew where it is: it is damaged or not there, and its disk is well. */
static bool may_stay(const struct mending *m, int chunk)
{
	const struct meta_chunk *c = &m->block.chunks[chunk];
	return c->disk != 0 && c->damaged && disk_fate(m->j, c->disk) == DISK_ONLINE;
}

/* What is chosen: disks for the bad chunks from number `first` of the list on, or with `stay` for those of them that
 * cannot stay. */
struct choosing_for {
	int first;
	bool stay;
	enum cluster_media media;
};

/* Disks that hold chunks, good or bad, get no other. */
static int choose(struct mending *m, const struct choosing_for *f, struct cluster_choice *out)
{
	uint64_t kept[META_CHUNKS_MAX], excluded[META_CHUNKS_MAX];
	size_t kept_count = 0, excluded_count = 0;
	for (int i = 0, b = 0; i < m->look.shape.n; i++) {
		bool bad = b < m->look.bad_count && m->look.bad[b] == i;
		uint64_t disk = m->block.chunks[i].disk;
		b += bad;
		bad = bad && b > f->first;
		if (disk == 0 || cluster_disk(m->j->fabric.map, disk) == NULL)
			continue;
		if (bad && !(f->stay && may_stay(m, i)))
			excluded[excluded_count++] = disk;
		else
			kept[kept_count++] = disk;
	}
	struct cluster_want want = {.encoding = m->look.shape.encoding,
				    .block = m->block.chunk_block,
				    .media = f->media,
				    .extra = SPARE_DISKS,
				    .excluded = excluded,
				    .excluded_count = excluded_count,
				    .kept = kept,
				    .kept_count = kept_count};
	int rc = cluster_choose(m->j->fabric.map, &want, out);
	return rc == -ENOSPC ? 0 : rc;
}

static bool spreads_better(const struct cluster_choice *a, const struct cluster_choice *b)
{
	return a->racks != b->racks ? a->racks > b->racks : a->nodes > b->nodes;
}

/* Another disk is as good as the one that let a chunk rot, or better; but not when it is in a rack, or on a node,
 * that has one of the block already. *stay: which of the two. */
static int targets_choose(struct mending *m, struct cluster_choice *out, bool *stay)
{
	AUTO_FREE struct cluster_choice *in_place = malloc(sizeof(*in_place));
	bool any = false;
	for (int i = 0; i < m->look.bad_count; i++)
		any = any || may_stay(m, m->look.bad[i]);
	struct choosing_for how = {.media = media_of(&m->block)};
	*stay = false;
	int rc = in_place == NULL ? -ENOMEM : choose(m, &how, out);
	if (rc < 0 || !any)
		return rc;
	how.stay = true;
	rc = choose(m, &how, in_place);
	*stay = rc == 0 && spreads_better(in_place, out);
	if (*stay)
		*out = *in_place;
	return rc;
}

/* A pool writes what it lacks of the column. One that is there as a whole, and is not this one, goes first. */
static int pool_put_in_place(struct mending *m, int chunk, uint64_t disk)
{
	struct chunk_id id = {m->block.chunk_block, (uint32_t)chunk};
	struct pool_case own = {.disk = disk, .repair = m->repair};
	const struct pool_case *pool = m->pool != NULL && m->pool->disk == disk ? m->pool : &own;
	int rc = pool == &own ? pool_case_shape(m->j, &own) : 0;
	if (rc == 0)
		rc = pool_column_patch(m->j, pool, id, &m->chunk[chunk]);
	struct disk_use u;
	struct chunk_seen old;
	if (rc == 0 && pool != &own)
		return 0;
	chunk_see(m->j, disk, id, &old);
	if (rc == 0) {
		rc = disk_begin(&m->request.call, disk, &u);
		if (rc < 0)
			return rc;
		u.node.timeout_ns = PUT_TIMEOUT_NS;
		int is = chunk_is(m->j, &u.node, disk, id, &m->chunk[chunk]);
		disk_end(&m->request.call, &u, is < 0 ? is : 0, 0);
		rc = is > 0 ? 0 : is == 0 ? -EBADMSG : is;
	}
	if (rc != -ENOENT && rc != -EBADMSG)
		return rc;
	rc = chunk_delete(m->j, disk, id, &old);
	return rc == 0 ? target_put(m, chunk, disk, false) : rc;
}

static int put_in_place(struct mending *m, int chunk)
{
	uint64_t disk = m->block.chunks[chunk].disk;
	const struct cluster_disk *d = cluster_disk(m->j->fabric.map, disk);
	if (d == NULL)
		return -ENOSPC;
	m->met = false; /* elsewhere, if it was: a pool that patches does not say */
	int rc = d->pool ? pool_put_in_place(m, chunk, disk) : target_put(m, chunk, disk, true);
	return rc == 0 ? replace(m, chunk, disk) : rc;
}

static bool ends_search(int rc)
{
	return rc == 0 || rc == -ECANCELED || rc == -ETIME;
}

/* Tries the disks of the choice from *next on. -ENOSPC: none took the chunk. */
static int put_on_choice(struct mending *m, int chunk, const struct cluster_choice *choice,
			 uint32_t *next)
{
	int rc = -ENOSPC;
	while (!ends_search(rc) && *next < choice->count) {
		uint64_t to = choice->disk[(*next)++];
		rc = target_put(m, chunk, to, false);
		if (rc == 0)
			return replace(m, chunk, to);
	}
	return ends_search(rc) ? rc : -ENOSPC;
}

/* Durability before placement: no disk of the block's media took the chunk, so it goes to the other media. Rebalance
 * brings it back (balance.c). */
static int put_on_other_media(struct mending *m, int at)
{
	AUTO_FREE struct cluster_choice *choice = malloc(sizeof(*choice));
	bool flash = media_of(&m->block) == CLUSTER_MEDIA_FLASH;
	const struct choosing_for how = {.first = at,
					 .media = flash ? CLUSTER_MEDIA_DISK : CLUSTER_MEDIA_FLASH};
	uint32_t next = 0;
	int rc = choice == NULL ? -ENOMEM : choose(m, &how, choice);
	return rc < 0 ? rc : put_on_choice(m, m->look.bad[at], choice, &next);
}

/* Places number `at` of the bad chunks. */
static int chunk_place(struct mending *m, int at, const struct cluster_choice *choice,
		       uint32_t *next, bool stay)
{
	int chunk = m->look.bad[at];
	bool may = may_stay(m, chunk) || (m->pool != NULL && m->pool->disk != 0 &&
					  m->block.chunks[chunk].disk == m->pool->disk);
	if (stay && may_stay(m, chunk))
		return put_in_place(m, chunk);
	int rc = put_on_choice(m, chunk, choice, next);
	if (rc == -ENOSPC && may)
		return put_in_place(m, chunk);
	return rc == -ENOSPC ? put_on_other_media(m, at) : rc;
}

int chunks_put(struct mending *m)
{
	AUTO_FREE struct cluster_choice *choice = malloc(sizeof(*choice));
	if (choice == NULL)
		return -ENOMEM;
	bool stay;
	int rc = targets_choose(m, choice, &stay);
	uint32_t next = 0;
	for (int i = 0; rc == 0 && i < m->look.bad_count; i++)
		rc = chunk_place(m, i, choice, &next, stay);
	return rc;
}
