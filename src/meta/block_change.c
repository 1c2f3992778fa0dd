// SPDX-License-Identifier: Apache-2.0
/* The Block layer: changes of committed blocks by appends, fences and seals, and by repair, rebalance and
 * re-encoding. */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "base/bug.h"
#include "meta/block.h"
#include "meta/gc.h"
#include "meta_api/id.h"
#include "rt/rt.h"

/* A change of a committed block. */
struct change {
	struct meta *m;
	uint32_t tenant;
	uint64_t block;
	struct arena *a;
	struct kv_bytes raw; /* record as stored */
	rec_block *rec;      /* record, decoded; the change modifies it */
	struct txn t;
	uint64_t refund;        /* bytes of quota that the change frees */
	uint64_t refund_charge; /* random number of this refund */
	/* Arguments of the operation that makes the change (do_extend, do_replace, ...); each operation uses some of
	 * them. */
	uint64_t epoch;
	uint64_t old_length;
	uint64_t length;
	uint64_t chunk_length;
	uint32_t crc;
	struct meta_place place;
	bool *wanted;
	const struct meta_block *as;
};

/* Callback that changes c->rec. Returns 0: the caller writes the record; META_DONE: there is nothing to write; or
 * an error. */
typedef int (*change_fn)(struct change *c);

static int change_once(struct change *c, change_fn fn)
{
	assert(c->m != NULL && c->a != NULL);
	struct schema_key key = key_id(KEY_BLOCK, c->tenant, c->block);
	int rc = block_read(c->m, c->tenant, c->block, c->a, &c->raw, &c->rec);
	if (rc == 0 && c->rec == NULL)
		rc = -ENOENT;
	if (rc == 0 && c->rec->state == META_BLOCK_PENDING)
		rc = -ENOENT;
	if (rc != 0)
		return rc;
	txn_init(&c->t, c->a);
	txn_equals(&c->t, key, c->raw);
	c->refund = 0;
	rc = fn(c);
	if (rc != 0)
		return rc == META_DONE ? 0 : rc;
	assert(c->rec->state == META_BLOCK_OPEN || c->rec->state == META_BLOCK_SEALED);
	if (c->refund > 0) {
		rec_refund v = TERRANE__REC__REFUND__INIT;
		v.bytes = c->refund;
		c->refund_charge = meta_id();
		txn_put(&c->t, key_ids(KEY_REFUND, c->tenant, c->block, c->refund_charge), &v.base);
	}
	txn_put(&c->t, key, &c->rec->base);
	rc = txn_run(c->m, &c->t, part_of(c->m, META_LAYER_BLOCK, c->tenant, c->block), NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

static int change_in(struct change *c, change_fn fn)
{
	for (unsigned try = 0;; try++) {
		int rc = change_once(c, fn);
		if (rc == 0 && c->refund > 0)
			block_refund(c->m, c->tenant, c->block, c->refund_charge, c->refund);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(c->m, try);
		if (rc != 0)
			return rc;
	}
}

static int change(struct change with, change_fn fn)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	with.a = &a;
	return change_in(&with, fn);
}

/* --- appends ---------------------------------------------------------------------------------- */

static int do_extend(struct change *c)
{
	rec_block *b = c->rec;
	if (b->epoch != c->epoch)
		return -ESTALE;
	if (b->length == c->length && b->crc == c->crc)
		return META_DONE;
	if (b->state == META_BLOCK_SEALED)
		return -EROFS;
	if (b->length != c->old_length)
		return -ERANGE;
	if (c->length > b->capacity)
		return -EFBIG;
	b->length = c->length;
	b->crc = c->crc;
	return 0;
}

int meta_block_extend(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		      uint64_t old_length, uint64_t length, uint32_t crc)
{
	if (length < old_length)
		return -EINVAL;
	struct change c = {.m = m,
			   .tenant = ctx->tenant,
			   .block = block,
			   .epoch = epoch,
			   .old_length = old_length,
			   .length = length,
			   .crc = crc};
	return change(c, do_extend);
}

static int do_fence(struct change *c)
{
	if (c->rec->state == META_BLOCK_SEALED)
		return -EROFS;
	if (c->rec->epoch == c->epoch)
		return META_DONE;
	/* This is a late copy of an old fence request: the writer that has fenced the block since then keeps it. */
	if (c->rec->epoch > c->epoch)
		return -ESTALE;
	c->rec->epoch = c->epoch;
	return 0;
}

int meta_block_fence(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		     struct arena *arena, struct meta_block *out)
{
	if (epoch == 0)
		return -EINVAL;
	struct change c = {
		.m = m, .tenant = ctx->tenant, .block = block, .a = arena, .epoch = epoch};
	int rc = change_in(&c, do_fence);
	if (rc != 0 && rc != -EROFS)
		return rc;
	int copied = block_from_record(block, c.rec, arena, out);
	return copied != 0 ? copied : rc;
}

static int do_seal(struct change *c)
{
	rec_block *b = c->rec;
	if (b->state == META_BLOCK_SEALED)
		return b->length == c->length && b->crc == c->crc ? META_DONE : -ERANGE;
	if (b->epoch != c->epoch)
		return -ESTALE;
	if (c->length < b->length)
		return -ERANGE;
	if (c->length > b->capacity)
		return -EFBIG;
	b->state = META_BLOCK_SEALED;
	b->length = c->length;
	b->chunk_length = c->chunk_length;
	b->crc = c->crc;
	c->refund = b->charged - min_u64(b->charged, c->length);
	assert(c->refund <= b->charged);
	b->charged -= c->refund;
	return 0;
}

int meta_block_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		    uint64_t length, uint64_t chunk_length, uint32_t crc)
{
	struct change c = {.m = m,
			   .tenant = ctx->tenant,
			   .block = block,
			   .epoch = epoch,
			   .length = length,
			   .chunk_length = chunk_length,
			   .crc = crc};
	return change(c, do_seal);
}

/* --- chunks and disks ------------------------------------------------------------------------- */

static int do_replace(struct change *c)
{
	rec_block *b = c->rec;
	const struct meta_place *p = &c->place;
	/* The record has another encoding now. A chunk of an old encoding is not the chunk with the same index in
	 * the record, even on the same disk. */
	if (b->chunk_block != p->chunk_block)
		return -ESTALE;
	if (p->index >= b->n_chunks)
		return -EINVAL;
	rec_chunk *chunk = b->chunks[p->index];
	/* The record has disk `to` for this chunk already. Another worker may have moved the chunk, and only one
	 * worker may delete the chunk on disk `from`: so this request succeeds only if there is nothing to delete. */
	if (chunk->disk == p->to && !chunk->damaged)
		return p->from == 0 || p->from == p->to ? META_DONE : -ESTALE;
	if (chunk->disk != p->from || b->release_count != p->release_count)
		return -ESTALE;
	for (uint32_t i = 0; i < b->n_chunks; i++)
		if (p->to != 0 && i != p->index && b->chunks[i]->disk == p->to)
			return -EEXIST;
	chunk->disk = p->to;
	chunk->crc = p->crc;
	chunk->damaged = false;
	b->layout++;
	/* If from is 0, the writer of the block adds a chunk that it could not store before the commit: no chunk
	 * is released. */
	if (p->from != 0)
		b->release_count++;
	rec_on_disk row = TERRANE__REC__ON_DISK__INIT;
	row.index = p->index;
	if (p->from != 0 && p->from != p->to)
		txn_delete(&c->t, key_disk(p->from, c->tenant, c->block));
	if (p->to != 0 && !bug_planted(BUG_INDEX_FORGOTTEN))
		txn_put(&c->t, key_disk(p->to, c->tenant, c->block), &row.base);
	return 0;
}

int meta_block_replace(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		       const struct meta_place *p)
{
	struct change c = {.m = m, .tenant = ctx->tenant, .block = block, .place = *p};
	return change(c, do_replace);
}

static int do_report(struct change *c)
{
	rec_block *b = c->rec;
	const struct meta_place *p = &c->place;
	if (p->index >= b->n_chunks)
		return -EINVAL;
	if (b->chunk_block != p->chunk_block || b->chunks[p->index]->disk != p->from)
		return -ESTALE;
	if (b->chunks[p->index]->damaged || bug_planted(BUG_REPORT_LOST))
		return META_DONE;
	b->chunks[p->index]->damaged = true;
	return 0;
}

int meta_block_report(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		      uint64_t chunk_block, uint32_t index, uint64_t disk)
{
	struct change c = {.m = m,
			   .tenant = ctx->tenant,
			   .block = block,
			   .place = {.chunk_block = chunk_block, .index = index, .from = disk}};
	return change(c, do_report);
}

static int do_give_up(struct change *c)
{
	const struct meta_place *p = &c->place;
	*c->wanted = block_names_chunk(c->rec, p->chunk_block, p->index, p->from);
	if (*c->wanted)
		return META_DONE;
	c->rec->release_count++;
	return 0;
}

int meta_chunk_give_up(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		       uint64_t chunk_block, uint32_t index, uint64_t disk, bool *wanted)
{
	struct change c = {.m = m,
			   .tenant = ctx->tenant,
			   .block = block,
			   .wanted = wanted,
			   .place = {.chunk_block = chunk_block, .index = index, .from = disk}};
	int rc = change(c, do_give_up);
	if (rc != -ENOENT)
		return rc;
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes raw;
	rec_block *rec;
	rc = block_read(m, ctx->tenant, block, &a, &raw, &rec);
	/* Either the block is pending, or it was committed during this call: in both cases its chunk is wanted. */
	*wanted = rc == 0 && rec != NULL;
	return rc;
}

/* Replaces encoding and chunks of the record by those of c->as, and turns the old chunks into dead chunks. */
static int do_relayout(struct change *c)
{
	rec_block *b = c->rec;
	const struct meta_block *as = c->as;
	if (b->chunk_block == as->chunk_block)
		return META_DONE;
	if (b->state != META_BLOCK_SEALED)
		return -EBUSY;
	if (b->release_count != as->release_count)
		return -ESTALE;
	/* chunk_block must be new: chunks with the same chunk_block may still be waiting for their deletion. */
	struct schema_key dead = key_ids(KEY_DEAD_CHUNKS, c->tenant, c->block, as->chunk_block);
	struct reads r;
	int rc = meta_read(c->m, part_of(c->m, META_LAYER_BLOCK, c->tenant, c->block), &dead, 1,
			   c->a, &r);
	if (rc != 0 || r.value[0].data != NULL)
		return rc != 0 ? rc : -EEXIST;
	rec_dead_chunks z = TERRANE__REC__DEAD_CHUNKS__INIT;
	z.encoding = b->encoding;
	z.chunks = b->chunks;
	z.n_chunks = b->n_chunks;
	txn_put(&c->t, key_ids(KEY_DEAD_CHUNKS, c->tenant, c->block, b->chunk_block), &z.base);
	for (uint32_t i = 0; i < b->n_chunks; i++)
		if (b->chunks[i]->disk != 0)
			txn_delete(&c->t, key_disk(b->chunks[i]->disk, c->tenant, c->block));
	rc = block_chunks_set(b, as->chunks, as->chunk_count, c->a);
	if (rc != 0)
		return rc;
	assert(b->n_chunks == as->chunk_count && b->chunk_block != as->chunk_block);
	for (uint32_t i = 0; i < b->n_chunks; i++) {
		rec_on_disk row = TERRANE__REC__ON_DISK__INIT;
		row.index = i;
		if (b->chunks[i]->disk != 0)
			txn_put(&c->t, key_disk(b->chunks[i]->disk, c->tenant, c->block),
				&row.base);
	}
	b->encoding = (char *)as->encoding;
	if (b->placement != META_PLACEMENT_NONE && b->media != as->media)
		b->moved_s = (uint32_t)(rt_wall_ns() / NS_PER_S);
	b->media = as->media;
	b->chunk_block = as->chunk_block;
	b->chunk_length = as->chunk_length;
	b->layout++;
	b->release_count++;
	return 0;
}

int meta_block_relayout(struct meta *m, const struct meta_ctx *ctx, const struct meta_block *b)
{
	if (b->chunk_block <= META_ROOT || b->chunk_count == 0 ||
	    b->chunk_count > META_CHUNKS_MAX || b->encoding[0] == '\0' ||
	    memchr(b->encoding, 0, sizeof(b->encoding)) == NULL || !cluster_media_valid(b->media))
		return -EINVAL;
	for (size_t i = 0; i < b->chunk_count; i++)
		for (size_t j = 0; j < i; j++)
			if (b->chunks[i].disk != 0 && b->chunks[i].disk == b->chunks[j].disk)
				return -EINVAL;
	struct change c = {.m = m, .tenant = ctx->tenant, .block = b->id, .as = b};
	return change(c, do_relayout);
}
