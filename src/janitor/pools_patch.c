// SPDX-License-Identifier: Apache-2.0
/* Computes lost rows of one chunk of a pool from other columns and sends them to the pool.
 * pools.c says which rows. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "code/repair_count.h"
#include "code/shape.h"
#include "janitor/impl.h"
#include "node/label.h"
#include "rt/rt.h"

#define NODE_TIMEOUT_NS (60 * NS_PER_S)
#define TENANTS_PAGE 64
#define BLOCK_ARENA ((size_t)(256 * KIB))

/* The losses of one chunk, and the ranges that are sent for them. */
struct pool_patch {
	struct janitor *j;
	struct tenant_call request;
	const struct pool_case *pool;
	uint64_t disk;
	const struct store_pool_loss *losses;
	size_t count;
	uint32_t tenant;
	struct meta_block block;
	struct node_piece_run *runs;
	size_t run_count;
	struct slice data;
};

static bool row_lost(const struct store_pool_loss *l, uint32_t row)
{
	return (l->lost[row / 32] >> row % 32 & 1) != 0;
}

/* Returns the range of the chunk that a data row holds of a stripe (pool.h): all stripes but the
 * last have full pieces; the pieces of the last are as long as needed, in pages. */
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

/* Returns how many of the lost data rows of a stripe to send. */
static uint32_t rows_wanted(const struct janitor *j, const struct store_pool_loss *l)
{
	return j->opts.method == JANITOR_R_MIN ? l->need : l->k;
}

/*
 * Returns the number of rows that are sent, and in *bytes their total length. The rows of a short
 * chunk may be empty.
 */
static uint64_t wanted(const struct pool_patch *p, uint64_t *bytes)
{
	uint64_t rows = 0;
	*bytes = 0;
	for (size_t i = 0; i < p->count; i++) {
		const struct store_pool_loss *l = &p->losses[i];
		uint32_t taken = 0;
		for (uint32_t row = 0; row < l->k && taken < rows_wanted(p->j, l); row++) {
			if (!row_lost(l, row))
				continue;
			taken++;
			for (uint64_t s = 0; s < l->stripes; s++)
				*bytes += piece_at(l, l->first_stripe + s, row).len;
		}
		rows += taken;
	}
	return rows;
}

/* --- the block of the chunk ------------------------------------------------------------------------ */

static int block_of(struct pool_patch *p, uint32_t tenant, uint64_t block, struct arena *a)
{
	struct chunk_id id = p->losses[0].id;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(p->j, &p->request, tenant);
	struct meta_call m = tenant_call_meta(p->j, &p->request);
	int rc = meta_client_block_get(&m, &block, 1, a, &p->block);
	p->tenant = tenant;
	if (rc < 0)
		return rc;
	bool there = p->block.state == META_BLOCK_SEALED && p->block.chunk_block == id.block &&
		     id.index < p->block.chunk_count && p->block.chunks[id.index].disk == p->disk;
	return there ? 0 : -ENOENT;
}

static int block_find(struct pool_patch *p, struct arena *a)
{
	assert(p->count > 0 && p->losses != NULL);
	struct chunk_id id = p->losses[0].id;
	struct chunk_stat st;
	struct disk_use u;
	uint32_t tenant, after = 0;
	uint64_t block;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(p->j, &p->request, 0);
	int rc = disk_begin(&p->request.call, p->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	rc = node_stat_one(&u.node, p->disk, id, &st);
	disk_end(&p->request.call, &u, rc, 0);
	if (rc == 0 && label_read(st.label, &tenant, &block) == 0)
		return block_of(p, tenant, block, a);
	for (;;) {
		struct meta_tenant t[TENANTS_PAGE];
		struct meta_call m = tenant_call_meta(p->j, &p->request);
		int64_t n = meta_client_tenant_list(&m, after, t, TENANTS_PAGE);
		if (n <= 0)
			return n < 0 ? (int)n : -ENOENT;
		for (int64_t i = 0; i < n; i++)
			if (block_of(p, t[i].id, id.block, a) == 0)
				return 0;
		after = t[n - 1].id;
	}
}

/* --- sending rows --------------------------------------------------------------------------------- */

/* Adds the byte range of one row of a loss to the list of ranges. */
static int row_bring(struct pool_patch *p, const struct store_pool_loss *l, uint32_t row)
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
	p->run_count++;
	if (run->len == 0)
		return 0;
	struct slice got = {0};
	const struct pieces_want want = {.tenant = p->tenant,
					 .block = &p->block,
					 .chunk = (int)l->id.index,
					 .ranges = ranges,
					 .range_count = n,
					 .repair = p->pool->repair};
	int rc = pieces_rebuild(p->j, &want, &got);
	if (rc < 0)
		return rc;
	assert(got.len == run->len && p->data.len + run->len <= p->data.buf->cap);
	run->crc = got.crc;
	uint8_t *to = p->data.buf->data + p->data.len;
	memcpy(to, got.buf->data + got.offset, run->len);
	buf_unref(got.buf);
	p->data.crc = crc32c_combine(p->data.crc, run->crc, run->len);
	p->data.len += run->len;
	return 0;
}

static int rows_bring(struct pool_patch *p)
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

/* Returns the bytes that each member reads or writes for the patch: a row of the chunk, if there
 * are as many members as rows. */
static uint64_t member_bytes(const struct pool_patch *p)
{
	const struct store_pool_loss *l = &p->losses[0];
	uint64_t row = (l->chunk_len + l->k - 1) / l->k;
	if (p->pool->clustered || p->pool->members <= l->k + l->lost_rows)
		return row;
	return row * (l->k + l->lost_rows) / (p->pool->members - l->lost_rows);
}

/* Returns the bytes that will cross racks for these losses, as the planner of code/ predicts. */
static uint64_t predicted_bytes(const struct pool_patch *p)
{
	static const enum repair_method as[] = {REPAIR_MIN, REPAIR_HYB, REPAIR_FCO, REPAIR_ALL};
	struct encoding enc;
	struct shape shape;
	struct layout l;
	double chunks = 0;
	if (encoding_parse(p->block.encoding, &enc, NULL, 0) < 0 || shape_init(&shape, &enc) < 0)
		return 0;
	struct layout_spec spec = {
		.net = {shape.k, shape.n - shape.k},
		.local = {(int)p->pool->k, (int)p->pool->p},
		.racks = (uint32_t)shape.n,
		.enclosures = 1,
		.disks = p->pool->k + p->pool->p,
		.slots = 1,
	};
	if (layout_init(&l, &spec, NULL, 0) < 0)
		return 0;
	struct repair_policy policy = {.method = as[p->j->opts.method],
				       .site = rack_crosses(p->j, p->disk) ? REPAIR_AT_SERVER
									   : REPAIR_AT_RACK,
				       .parity_inside = true};
	for (size_t i = 0; i < p->count; i++) {
		double count[ENCODING_STRIPE_MAX + 1] = {0};
		struct repair_estimate e;
		/*
		 * If the code tolerates this loss, plan for one stripe with too many lost rows:
		 * losses of other chunks have shown that the pool has such stripes.
		 */
		count[p->losses[i].lost_rows] = (double)p->losses[i].stripes;
		bool borne = p->losses[i].lost_rows <= p->pool->p;
		if (borne)
			count[p->pool->p + 1] = 1;
		repair_counts_cost(&l, &policy, count, &e);
		chunks += e.cross_reads + e.cross_writes;
		count[p->losses[i].lost_rows] = 0;
		if (borne) {
			repair_counts_cost(&l, &policy, count, &e);
			chunks -= e.cross_reads + e.cross_writes;
		}
	}
	return (uint64_t)(chunks * p->losses[0].piece_bytes);
}

static int patch(struct pool_patch *p)
{
	struct disk_use u;
	int rc = pace_pool(p->j, p->disk, p->data.len, member_bytes(p));
	if (rc == 0)
		rc = disk_begin(&p->request.call, p->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	rc = node_pool_patch(&u.node, p->disk, p->losses[0].id, p->runs, p->run_count, p->data);
	disk_end(&p->request.call, &u, rc, 0);
	if (rc < 0)
		return rc;
	p->j->stats.pool_patches++;
	p->j->stats.pool_patch_bytes += p->data.len;
	moved_note(p->j, p->pool->repair, p->disk, p->data.len, true);
	/* A reader may have reported the chunk as damaged since then: clear the report. */
	struct meta_call m = tenant_call_meta(p->j, &p->request);
	const struct meta_chunk *c = &p->block.chunks[p->losses[0].id.index];
	struct meta_place same = {.chunk_block = p->block.chunk_block,
				  .index = p->losses[0].id.index,
				  .crc = c->crc,
				  .from = p->disk,
				  .to = p->disk,
				  .release_count = p->block.release_count};
	if (c->damaged)
		(void)meta_client_block_replace(&m, p->block.id, &same);
	return 0;
}

int pool_column_patch(struct janitor *j, const struct pool_case *c, struct chunk_id id,
		      const struct slice *column)
{
	struct store_pool_loss whole = {
		.id = id, .chunk_len = column->len, .k = c->k, .piece_bytes = c->piece_bytes};
	AUTO_FREE struct node_piece_run *runs = calloc(c->k, sizeof(*runs));
	struct slice data = {.len = column->len, .crc = 0};
	uint64_t stripe_bytes = (uint64_t)c->k * c->piece_bytes, at = 0;
	if (runs == NULL || stripe_bytes == 0)
		return runs == NULL ? -ENOMEM : -EINVAL;
	/* An empty chunk needs no bytes: the pool rebuilds it from the label of any row. */
	if (column->len == 0)
		return 0;
	int rc = rt_pool_get(&j->fabric.shared->pool, column->len, &data.buf);
	if (rc < 0)
		return rc;
	uint64_t stripes = (column->len + stripe_bytes - 1) / stripe_bytes;
	for (uint32_t row = 0; row < c->k; row++) {
		struct node_piece_run *run = &runs[row];
		run->row = row;
		run->stripes = stripes;
		for (uint64_t s = 0; s < stripes; s++) {
			struct store_range r = piece_at(&whole, s, row);
			memcpy(data.buf->data + at + run->len,
			       column->buf->data + column->offset + r.off, r.len);
			run->len += r.len;
		}
		run->crc = crc32c(0, data.buf->data + at, run->len);
		data.crc = crc32c_combine(data.crc, run->crc, run->len);
		at += run->len;
	}
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct disk_use u;
	rc = pace_pool(j, c->disk, column->len, column->len / c->k);
	if (rc == 0)
		rc = disk_begin(&e.call, c->disk, &u);
	if (rc == 0) {
		u.node.timeout_ns = NODE_TIMEOUT_NS;
		rc = node_pool_patch(&u.node, c->disk, id, runs, c->k, data);
		disk_end(&e.call, &u, rc, 0);
	}
	if (rc == 0)
		moved_note(j, c->repair, c->disk, column->len, true);
	buf_unref(data.buf);
	return rc;
}

static int report(struct pool_patch *p)
{
	struct meta_call m = tenant_call_meta(p->j, &p->request);
	return meta_client_block_report(&m, p->block.id, p->losses[0].id.block,
					p->losses[0].id.index, p->disk);
}

/* Returns whether the pool has so few rows of the chunk that the chunk is unreadable. */
static bool is_lost(const struct pool_patch *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->losses[i].open || p->losses[i].lost_rows > p->pool->p)
			return true;
	return false;
}

static int chunk_patch(struct pool_patch *p, struct arena *a)
{
	int rc = block_find(p, a);
	uint64_t bytes;
	if (rc < 0 || wanted(p, &bytes) == 0)
		return rc;
	AUTO_RT_CONTEXT const struct context *before =
		tenant_call_init(p->j, &p->request, p->tenant);
	if (p->pool->repair != NULL)
		p->pool->repair->predicted_bytes += predicted_bytes(p);
	p->runs = calloc(NODE_RUNS_MAX, sizeof(*p->runs));
	rc = p->runs == NULL ? -ENOMEM : 0;
	if (rc == 0 && bytes > 0)
		rc = rt_pool_get(&p->j->fabric.shared->pool, bytes, &p->data.buf);
	if (rc == 0)
		rc = rows_bring(p);
	if (rc == 0)
		rc = patch(p);
	/* The chunk cannot be patched: rebuild it on another disk or pool. */
	if (rc < 0 && rc != -ECANCELED && rc != -ENOENT && is_lost(p))
		(void)report(p);
	return rc;
}

int pool_chunk_patch(struct janitor *j, const struct pool_case *c,
		     const struct store_pool_loss *losses, size_t n)
{
	struct pool_patch p = {.j = j, .pool = c, .disk = c->disk, .losses = losses, .count = n};
	struct arena a;
	arena_init(&a, BLOCK_ARENA);
	int rc = chunk_patch(&p, &a);
	free(p.runs);
	buf_unref(p.data.buf);
	arena_fini(&a);
	return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
}
