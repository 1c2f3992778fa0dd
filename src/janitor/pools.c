// SPDX-License-Identifier: Apache-2.0
/*
 * Pools that have lost more than their code bears. A pool repairs itself while it can, and lists the local
 * stripes that it cannot: of which chunk, which rows, and how many of them must be brought. These bytes are
 * computed from the same bytes of other columns, in other racks, and handed in; the pool does the rest and
 * writes the result only when the chunk has its checksum again.
 *
 *     column 3 of a block, a chunk on this pool, 4+2, piece 128 KiB; stripe 9 lost rows 0, 2 and 5
 *
 *     R_MIN   row 0 of stripe 9: 128 KiB are rebuilt from KN other columns; the pool then lacks two rows,
 *             which its own code brings back
 *     R_HYB   rows 0 and 2 (row 5 is a parity, which the pool computes)
 *     R_ALL   the whole column, on another pool
 *
 * R_FCO would also bring the lost rows of stripes that the pool can mend: a pool of ours has begun with those
 * before anybody hears of a loss, so R_FCO is R_HYB here. With R_ALL the losses are reported as damage of the
 * chunk, and repair makes the column anew.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/log.h"
#include "client/label.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define NODE_TIMEOUT_NS (60 * NS_PER_S)
#define TENANTS_PAGE 64
#define BLOCK_ARENA ((size_t)(256 * KIB))

/* The losses of one chunk, and what is brought for them. */
struct patient {
	struct janitor *j;
	struct errand errand;
	uint64_t disk;
	const struct store_pool_loss *losses;
	size_t count;
	uint32_t tenant;
	struct meta_block block;
	struct node_piece_run *runs;
	size_t run_count;
	struct rpc_slice data;
};

static bool row_lost(const struct store_pool_loss *l, uint32_t row)
{
	return (l->lost[row / 32] >> row % 32 & 1) != 0;
}

/* The bytes of the chunk that a data row has of a stripe, as pool.h says: all stripes but the last have whole
 * pieces; those of the last are as long as they must be, in pages. */
static struct store_range piece_at(const struct store_pool_loss *l, uint64_t stripe, uint32_t row)
{
	uint64_t whole = (uint64_t)l->piece_bytes * l->k;
	uint64_t rest = l->chunk_len % whole;
	uint64_t piece = l->piece_bytes;
	if (rest > 0 && stripe == l->chunk_len / whole)
		piece = min_u64(piece, ((rest + l->k - 1) / l->k + 4095) / 4096 * 4096);
	uint64_t off = stripe * whole + row * piece;
	uint64_t left = off < l->chunk_len ? l->chunk_len - off : 0;
	return (struct store_range){.off = off, .len = min_u64(piece, left)};
}

/* How many of the lost data rows of a stripe to bring. */
static uint32_t rows_wanted(const struct janitor *j, const struct store_pool_loss *l)
{
	return j->opts.method == JANITOR_R_MIN ? l->need : l->k;
}

static uint64_t bytes_wanted(const struct patient *p)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < p->count; i++) {
		const struct store_pool_loss *l = &p->losses[i];
		uint32_t taken = 0;
		for (uint32_t row = 0; row < l->k && taken < rows_wanted(p->j, l); row++) {
			if (!row_lost(l, row))
				continue;
			taken++;
			for (uint64_t s = 0; s < l->stripes; s++)
				bytes += piece_at(l, l->first_stripe + s, row).len;
		}
	}
	return bytes;
}

/* --- whose chunk it is ------------------------------------------------------------------------ */

static int block_of(struct patient *p, uint32_t tenant, uint64_t block, struct arena *a)
{
	struct chunk_id id = p->losses[0].id;
	errand_init(p->j, &p->errand, tenant);
	struct meta_call m = errand_meta(p->j, &p->errand);
	int rc = meta_client_block_get(&m, &block, 1, a, &p->block);
	p->tenant = tenant;
	if (rc < 0)
		return rc;
	bool there = p->block.state == META_BLOCK_SEALED && p->block.chunk_block == id.block &&
		     id.index < p->block.chunk_count && p->block.chunks[id.index].disk == p->disk;
	return there ? 0 : -ENOENT;
}

static int block_find(struct patient *p, struct arena *a)
{
	struct chunk_id id = p->losses[0].id;
	struct chunk_stat st;
	struct disk_use u;
	uint32_t tenant, after = 0;
	uint64_t block;
	errand_init(p->j, &p->errand, 0);
	int rc = disk_begin(&p->errand.call, p->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	rc = node_stat_one(&u.node, p->disk, id, &st);
	disk_end(&p->errand.call, &u, rc, 0);
	if (rc == 0 && label_read(st.label, &tenant, &block) == 0)
		return block_of(p, tenant, block, a);
	for (;;) {
		struct meta_tenant t[TENANTS_PAGE];
		errand_init(p->j, &p->errand, 0);
		struct meta_call m = errand_meta(p->j, &p->errand);
		int64_t n = meta_client_tenant_list(&m, after, t, TENANTS_PAGE);
		if (n <= 0)
			return n < 0 ? (int)n : -ENOENT;
		for (int64_t i = 0; i < n; i++)
			if (block_of(p, t[i].id, id.block, a) == 0)
				return 0;
		after = t[n - 1].id;
	}
}

/* --- bringing --------------------------------------------------------------------------------- */

/* One row of the stripes of a loss. */
static int row_bring(struct patient *p, const struct store_pool_loss *l, uint32_t row)
{
	AUTO_FREE struct store_range *ranges = calloc(l->stripes, sizeof(*ranges));
	if (ranges == NULL || p->run_count == NODE_RUNS_MAX)
		return ranges == NULL ? -ENOMEM : -E2BIG;
	struct node_piece_run *run = &p->runs[p->run_count];
	*run = (struct node_piece_run){
		.row = row, .first_stripe = l->first_stripe, .stripes = l->stripes};
	size_t n = 0;
	for (uint64_t s = 0; s < l->stripes; s++) {
		struct store_range r = piece_at(l, l->first_stripe + s, row);
		if (r.len > 0)
			ranges[n++] = r;
		run->len += r.len;
	}
	if (run->len == 0)
		return 0;
	struct rpc_slice got = {0};
	int rc = pieces_rebuild(p->j, p->tenant, &p->block, (int)l->id.index, ranges, n, &got);
	if (rc < 0)
		return rc;
	run->crc = got.crc;
	uint8_t *to = p->data.buf->data + p->data.len;
	memcpy(to, got.buf->data + got.offset, run->len);
	buf_unref(got.buf);
	p->data.crc = crc32c_combine(p->data.crc, run->crc, run->len);
	p->data.len += run->len;
	p->run_count++;
	return 0;
}

static int rows_bring(struct patient *p)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < p->count; i++) {
		const struct store_pool_loss *l = &p->losses[i];
		uint32_t taken = 0;
		for (uint32_t row = 0; rc == 0 && row < l->k && taken < rows_wanted(p->j, l);
		     row++) {
			if (!row_lost(l, row))
				continue;
			taken++;
			rc = row_bring(p, l, row);
		}
	}
	return rc;
}

static int patch(struct patient *p)
{
	struct disk_use u;
	int rc = pace_disk(p->j, p->disk, p->data.len);
	if (rc == 0)
		rc = disk_begin(&p->errand.call, p->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	rc = node_pool_patch(&u.node, p->disk, p->losses[0].id, p->runs, p->run_count, p->data);
	disk_end(&p->errand.call, &u, rc, 0);
	if (rc < 0)
		return rc;
	p->j->stats.pool_patches++;
	p->j->stats.pool_patch_bytes += p->data.len;
	p->j->stats.repair_written_bytes += p->data.len;
	return 0;
}

static int report(struct patient *p)
{
	struct meta_call m = errand_meta(p->j, &p->errand);
	return meta_client_block_report(&m, p->block.id, p->losses[0].id.index, p->disk);
}

static int chunk_patch(struct patient *p)
{
	struct arena a;
	arena_init(&a, BLOCK_ARENA);
	int rc = block_find(p, &a);
	uint64_t bytes = bytes_wanted(p);
	if (rc == 0 && p->j->opts.method == JANITOR_R_ALL) {
		rc = report(p);
	} else if (rc == 0 && bytes > 0) {
		p->runs = calloc(NODE_RUNS_MAX, sizeof(*p->runs));
		rc = p->runs == NULL ? -ENOMEM
				     : rpc_pool_get(&p->j->fabric.pool, bytes, &p->data.buf);
		if (rc == 0)
			rc = rows_bring(p);
		if (rc == 0)
			rc = patch(p);
		/* What cannot be patched is made anew elsewhere. */
		if (rc < 0 && rc != -ECANCELED && rc != -ENOENT)
			(void)report(p);
	}
	free(p->runs);
	buf_unref(p->data.buf);
	arena_fini(&a);
	return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}

/* --- all pools -------------------------------------------------------------------------------- */

static int64_t losses_list(struct janitor *j, uint64_t disk, struct store_cursor *at,
			   struct store_pool_loss *out)
{
	struct errand e;
	errand_init(j, &e, 0);
	struct disk_use u;
	int64_t n = disk_begin(&e.call, disk, &u);
	if (n < 0)
		return n;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	n = node_pool_losses(&u.node, disk, at, out, NODE_LOSSES_MAX);
	disk_end(&e.call, &u, n < 0 ? (int)n : 0, 0);
	return n;
}

static int pool_patch(struct janitor *j, uint64_t disk, const char *lease)
{
	AUTO_FREE struct store_pool_loss *losses = calloc(NODE_LOSSES_MAX, sizeof(*losses));
	struct store_cursor at = {0};
	int64_t n = 0;
	int rc = 0;
	if (losses == NULL)
		return -ENOMEM;
	while (rc == 0 && (n = losses_list(j, disk, &at, losses)) > 0) {
		for (int64_t i = 0, run; rc == 0 && i < n; i += run) {
			for (run = 1;
			     i + run < n && chunk_id_equal(losses[i + run].id, losses[i].id);)
				run++;
			struct patient p = {
				.j = j, .disk = disk, .losses = &losses[i], .count = (size_t)run};
			int done = chunk_patch(&p);
			if (done < 0) {
				j->stats.failed++;
				log_warn("pool_patch", "disk=%016lx block=%016lx rc=%d", disk,
					 losses[i].id.block, done);
			}
			rc = done == -ECANCELED ? done : lease_keep(j, lease);
		}
	}
	return rc < 0 ? rc : n < 0 ? (int)n : 0;
}

int janitor_pools(struct janitor *j)
{
	int rc = janitor_map(j);
	size_t n = 0;
	AUTO_FREE uint64_t *ids = rc < 0 ? NULL : disk_ids(j, &n);
	if (ids == NULL)
		return rc < 0 ? rc : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct cluster_disk *d = cluster_disk(j->fabric.map, ids[i]);
		enum disk_fate fate = disk_fate(j, ids[i]);
		if (d == NULL || !d->pool || fate == DISK_LOST || fate == DISK_UNWELL)
			continue;
		char lease[48];
		snprintf(lease, sizeof(lease), "pool/%016lx", ids[i]);
		rc = lease_take(j, lease);
		if (rc == 0) {
			int done = pool_patch(j, ids[i], lease);
			if (done == -ECANCELED)
				rc = done;
			else if (done != -EBUSY)
				lease_drop(j, lease);
		}
		if (rc == -EBUSY)
			rc = 0;
	}
	return rc;
}
