// SPDX-License-Identifier: Apache-2.0
/* Chunks that were made anew: where they go, and what becomes of the old ones. */
#include <errno.h>
#include <stdlib.h>

#include "base/bug.h"
#include "base/log.h"
#include "client/label.h"
#include "janitor/rebuild_impl.h"
#include "rt/rt.h"

#define PUT_TIMEOUT_NS (60 * NS_PER_S)
#define SPARE_DISKS 3

static int target_put(struct mending *m, int chunk, uint64_t disk)
{
	struct disk_use u;
	int rc = pace_disk(m->j, disk, m->chunk[chunk].len);
	if (rc == 0)
		rc = disk_begin(&m->errand.call, disk, &u);
	if (rc < 0)
		return rc;
	struct chunk_id id = {m->block.chunk_block, (uint32_t)chunk};
	struct node_put p = {.data = m->chunk[chunk], .epoch = m->block.epoch};
	label_make(p.label, m->tenant, m->block.id);
	u.node.timeout_ns = PUT_TIMEOUT_NS;
	rc = node_put(&u.node, disk, id, &p);
	m->met = rc == -EEXIST;
	if (rc == -EEXIST) {
		/* Left by a repair that was interrupted, or made by another that goes on. */
		struct chunk_stat st;
		rc = node_stat_one(&u.node, disk, id, &st);
		if (rc == 0 &&
		    !(st.sealed && st.len == m->chunk[chunk].len && st.crc == m->chunk[chunk].crc))
			rc = -EEXIST;
	}
	disk_end(&m->errand.call, &u, rc, 0);
	if (rc == 0)
		moved_note(m->j, m->repair, disk, m->chunk[chunk].len, true);
	return rc;
}

int chunk_delete(struct janitor *j, uint64_t disk, struct chunk_id id)
{
	struct errand e;
	errand_init(j, &e, 0);
	struct disk_use u;
	int rc = disk_begin(&e.call, disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = 10 * NS_PER_S;
	rc = node_delete_one(&u.node, disk, id);
	disk_end(&e.call, &u, rc, 0);
	return rc == -ENOENT ? 0 : rc;
}

/* The record did not take the new place. Whether the chunk there is in use is for the record to say. */
static int replace_refused(struct mending *m, int chunk, uint64_t to, int rc)
{
	struct arena a;
	arena_init(&a, BLOCK_ARENA);
	struct meta_call c = errand_meta(m->j, &m->errand);
	struct meta_block now;
	bool mine = true;
	int asked = meta_client_block_get(&c, &m->block.id, 1, &a, &now);
	if (asked == 0 && now.state != 0 && now.chunk_block == m->block.chunk_block)
		mine = now.chunks[chunk].disk != to;
	arena_fini(&a);
	if (asked == 0 && mine)
		(void)chunk_delete(m->j, to,
				   (struct chunk_id){m->block.chunk_block, (uint32_t)chunk});
	m->j->stats.overtaken++;
	return rc;
}

static int replace(struct mending *m, int chunk, uint64_t to)
{
	struct meta_call c = errand_meta(m->j, &m->errand);
	uint64_t from = m->block.chunks[chunk].disk;
	if (bug_planted(BUG_DELETE_FIRST) && from != 0)
		(void)chunk_delete(m->j, from,
				   (struct chunk_id){m->block.chunk_block, (uint32_t)chunk});
	int rc = meta_client_block_replace(&c, m->block.id, m->block.chunk_block, (uint32_t)chunk,
					   from, to, m->chunk[chunk].crc);
	if (rc == -ENOENT || rc == -ESTALE || rc == -EEXIST || rc == -EINVAL)
		return replace_refused(m, chunk, to, rc);
	if (rc < 0)
		return rc; /* not known: either the record has it, or it is an orphan */
	if (m->met)
		m->j->stats.overtaken++;
	else if (m->have[chunk])
		m->j->stats.chunks_moved++;
	else
		m->j->stats.chunks_repaired++;
	m->block.chunks[chunk] = (struct meta_chunk){.disk = to, .crc = m->chunk[chunk].crc};
	if (from != 0 && from != to && disk_fate(m->j, from) != DISK_LOST)
		(void)chunk_delete(m->j, from,
				   (struct chunk_id){m->block.chunk_block, (uint32_t)chunk});
	return 0;
}

/* Disks for the bad chunks. Those that hold chunks, good or bad, get no other. */
static int targets_choose(struct mending *m, struct cluster_choice *out)
{
	uint64_t kept[META_CHUNKS_MAX], excluded[META_CHUNKS_MAX];
	size_t kept_count = 0, excluded_count = 0;
	for (int i = 0, b = 0; i < m->look.shape.n; i++) {
		bool bad = b < m->look.bad_count && m->look.bad[b] == i;
		uint64_t disk = m->block.chunks[i].disk;
		b += bad;
		if (disk == 0 || cluster_disk(m->j->fabric.map, disk) == NULL)
			continue;
		if (bad)
			excluded[excluded_count++] = disk;
		else
			kept[kept_count++] = disk;
	}
	struct cluster_want want = {.encoding = m->look.shape.encoding,
				    .block = m->block.chunk_block,
				    .extra = SPARE_DISKS,
				    .excluded = excluded,
				    .excluded_count = excluded_count,
				    .kept = kept,
				    .kept_count = kept_count};
	int rc = cluster_choose(m->j->fabric.map, &want, out);
	return rc == -ENOSPC && out->count > 0 ? 0 : rc;
}

/* R_ALL where the column has no other place to go: its pool gets all of it, and writes what it lacks. */
static int put_in_place(struct mending *m, int chunk)
{
	struct chunk_id id = {m->block.chunk_block, (uint32_t)chunk};
	uint64_t disk = m->block.chunks[chunk].disk;
	if (disk != m->pool->disk)
		return -ENOSPC;
	int rc = pool_column_patch(m->j, m->pool, id, &m->chunk[chunk]);
	return rc == 0 ? replace(m, chunk, disk) : rc;
}

int chunks_put(struct mending *m)
{
	AUTO_FREE struct cluster_choice *choice = malloc(sizeof(*choice));
	if (choice == NULL)
		return -ENOMEM;
	int rc = targets_choose(m, choice);
	uint32_t next = 0;
	if (rc == -ENOSPC && m->pool != NULL && m->look.bad_count == 1)
		return put_in_place(m, m->look.bad[0]);
	for (int i = 0; rc == 0 && i < m->look.bad_count; i++) {
		uint64_t to = 0;
		int put = -ENOSPC;
		while (put < 0 && put != -ECANCELED && put != -ETIME && next < choice->count) {
			to = choice->disk[next++];
			put = target_put(m, m->look.bad[i], to);
		}
		rc = put == -ECANCELED || put == -ETIME ? put : put < 0 ? -ENOSPC : 0;
		if (rc == 0)
			rc = replace(m, m->look.bad[i], to);
	}
	return rc;
}
