// SPDX-License-Identifier: Apache-2.0
/* Handlers for blocks. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta/gc.h"
#include "meta/service_impl.h"
#include "rt/rt.h"

/* A response ends with the block that brings it to this size, so it exceeds this size by at most one block. */
#define REPLY_ENOUGH ((size_t)(960 * KIB))

static int block_begin(struct rpc_request *r, const meta_msg_block *m, struct meta_ctx *ctx,
		       struct meta_block *b)
{
	int rc = meta_wire_block_get(&r->arena, m, b);
	return rc < 0 ? rc : ms_begin(r, ctx, SERVICE_BLOCK, b->id, 1);
}

int ms_handle_block_allocate(struct rpc_request *r)
{
	const Terrane__Meta__BlockAllocateRequest *q = rpc_body(r);
	Terrane__Meta__BlockAllocateResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_block b = {0};
	int rc = block_begin(r, q->block, &ctx, &b);
	if (rc == 0) {
		b.writer = ms_block_writer(r, ctx.tenant);
		rc = meta_block_allocate(ms_meta(r), &ctx, &b);
	}
	if (rc == 0)
		rc = meta_gc_epoch(ms_meta(r), &p->gc_epoch);
	p->alloc_id = b.alloc_id;
	return ms_end(r, rc);
}

int ms_handle_block_commit(struct rpc_request *r)
{
	const Terrane__Meta__BlockCommitRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_block b = {0};
	struct meta_owner *owners = NULL;
	if (q->n_owners > META_OWNERS_MAX)
		return rpc_fail(r, -EINVAL, "%zu owners in one request, at most %d are allowed",
				q->n_owners, META_OWNERS_MAX);
	int rc = meta_wire_owners_get(&r->arena, q->owners, q->n_owners, &owners);
	if (rc == 0)
		rc = block_begin(r, q->block, &ctx, &b);
	/* Background services may exceed the quota: compaction frees more than it writes, so it must work for a tenant
	 * at its limit. */
	b.over_quota = strncmp(rt_context()->tenant, META_SYSTEM ":", sizeof(META_SYSTEM)) == 0;
	if (rc == 0)
		rc = meta_block_commit(ms_meta(r), &ctx, &b, owners, q->n_owners);
	return ms_end(r, rc);
}

int ms_handle_block_own(struct rpc_request *r)
{
	const Terrane__Meta__BlockOwnRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_owner *owners = NULL;
	if (q->n_owners > META_OWNERS_MAX)
		return rpc_fail(r, -EINVAL, "%zu owners in one request, at most %d are allowed",
				q->n_owners, META_OWNERS_MAX);
	int rc = meta_wire_owners_get(&r->arena, q->owners, q->n_owners, &owners);
	if (rc == 0)
		rc = ms_begin(r, &ctx, SERVICE_BLOCK, q->block, 1 + q->n_owners / 16);
	if (rc == 0)
		rc = meta_block_own(ms_meta(r), &ctx, q->block, owners, q->n_owners);
	return ms_end(r, rc);
}

int ms_handle_block_extend(struct rpc_request *r)
{
	const Terrane__Meta__BlockExtendRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_BLOCK, q->block, 1);
	if (rc == 0)
		rc = meta_block_extend(ms_meta(r), &ctx, q->block, q->epoch, q->old_length,
				       q->length, q->crc);
	return ms_end(r, rc);
}

int ms_handle_block_fence(struct rpc_request *r)
{
	const Terrane__Meta__BlockFenceRequest *q = rpc_body(r);
	Terrane__Meta__BlockFenceResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_block b = {0};
	int rc = ms_begin(r, &ctx, SERVICE_BLOCK, q->block, 1);
	if (rc == 0)
		rc = meta_block_fence(ms_meta(r), &ctx, q->block, q->epoch, &r->arena, &b);
	if (rc < 0 && (rc != -EROFS || b.state == 0))
		return ms_end(r, rc);
	p->sealed = rc == -EROFS;
	p->block = rpc_alloc(r, sizeof(*p->block));
	return p->block == NULL ? -ENOMEM : ms_block_set(r, &ctx, p->block, &b, 0);
}

int ms_handle_block_seal(struct rpc_request *r)
{
	const Terrane__Meta__BlockSealRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_BLOCK, q->block, 1);
	if (rc == 0)
		rc = meta_block_seal(ms_meta(r), &ctx, q->block, q->epoch, q->length,
				     q->chunk_length, q->crc);
	return ms_end(r, rc);
}

int ms_handle_block_replace(struct rpc_request *r)
{
	const Terrane__Meta__BlockReplaceRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_place p = {.chunk_block = q->chunk_block,
			       .index = q->index,
			       .crc = q->crc,
			       .from = q->from,
			       .to = q->to,
			       .release_count = q->release_count};
	int rc = ms_begin(r, &ctx, SERVICE_BLOCK, q->block, 1);
	if (rc == 0)
		rc = meta_block_replace(ms_meta(r), &ctx, q->block, &p);
	return ms_end(r, rc);
}

int ms_handle_block_report(struct rpc_request *r)
{
	const Terrane__Meta__BlockReportRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_BLOCK, q->block, 1);
	if (rc == 0)
		rc = meta_block_report(ms_meta(r), &ctx, q->block, q->chunk_block, q->index,
				       q->disk);
	return ms_end(r, rc);
}

int ms_handle_block_relayout(struct rpc_request *r)
{
	const Terrane__Meta__BlockRelayoutRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_block b = {0};
	int rc = block_begin(r, q->block, &ctx, &b);
	if (rc == 0)
		rc = meta_block_relayout(ms_meta(r), &ctx, &b);
	return ms_end(r, rc);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Puts the blocks that exist into the response, in the order of the request. The response covers at least the first
 * block, and as many as it can carry. Missing blocks are left out: the client limits the memory of a response by its
 * length, and an empty block takes much memory for its two bytes. */
static int blocks_reply(struct rpc_request *r, const struct meta_ctx *ctx,
			const struct meta_block *blocks, size_t n)
{
	const Terrane__Meta__BlockGetRequest *q = rpc_body(r);
	Terrane__Meta__BlockGetResponse *p = rpc_reply_body(r);
	meta_msg_block *all = rpc_alloc(r, n * sizeof(*all));
	p->blocks = rpc_alloc(r, n * sizeof(meta_msg_block *));
	if (all == NULL || p->blocks == NULL)
		return -ENOMEM;
	assert(n > 0);
	size_t bytes = 0;
	for (; p->covered < n && bytes < REPLY_ENOUGH; p->covered++) {
		size_t i = p->covered;
		if (blocks[i].state == 0)
			continue;
		int rc = ms_block_set(r, ctx, &all[i], &blocks[i],
				      q->n_wanted > 0 ? q->wanted[i] : 0);
		if (rc == -EACCES)
			continue; /* like a block that does not exist */
		if (rc < 0)
			return rc;
		bytes += 8 + terrane__meta__block__get_packed_size(&all[i]);
		p->blocks[p->n_blocks++] = &all[i];
	}
	assert(p->covered > 0 && p->n_blocks <= p->covered);
	return 0;
}

int ms_handle_block_get(struct rpc_request *r)
{
	const Terrane__Meta__BlockGetRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	if (q->n_blocks == 0 || q->n_blocks > META_BATCH_MAX)
		return rpc_fail(r, -EINVAL, "%zu blocks in one request, 1 to %d are allowed",
				q->n_blocks, META_BATCH_MAX);
	if (q->n_wanted != 0 && q->n_wanted != q->n_blocks)
		return rpc_fail(r, -EINVAL, "%zu offsets for %zu blocks", q->n_wanted, q->n_blocks);
	struct meta_block *blocks = rpc_alloc(r, q->n_blocks * sizeof(*blocks));
	if (blocks == NULL)
		return -ENOMEM;
	int rc = ms_enter(r, &ctx);
	for (size_t i = 0; rc == 0 && i < q->n_blocks; i++)
		rc = ms_admit(r, &ctx, SERVICE_BLOCK, q->blocks[i], 1);
	if (rc == 0)
		rc = meta_block_get(ms_meta(r), &ctx, q->blocks, q->n_blocks, &r->arena, blocks);
	return rc < 0 ? ms_end(r, rc) : blocks_reply(r, &ctx, blocks, q->n_blocks);
}

int ms_handle_block_owners(struct rpc_request *r)
{
	const Terrane__Meta__BlockOwnersRequest *q = rpc_body(r);
	Terrane__Meta__BlockOwnersResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	size_t max = q->max == 0 || q->max > META_PAGE_MAX ? META_PAGE_MAX : q->max;
	struct meta_owner *owners = rpc_alloc(r, max * sizeof(*owners));
	if (owners == NULL)
		return -ENOMEM;
	int rc = ms_begin(r, &ctx, SERVICE_BLOCK, q->block, 1 + max / 64);
	int64_t n =
		rc < 0 ? rc : meta_block_owners(ms_meta(r), &ctx, q->block, q->after, owners, max);
	if (n < 0)
		return ms_end(r, (int)n);
	assert((size_t)n <= max);
	p->owners = meta_wire_owners(&r->arena, owners, (size_t)n);
	p->n_owners = p->owners == NULL ? 0 : (size_t)n;
	return p->owners == NULL ? -ENOMEM : 0;
}
