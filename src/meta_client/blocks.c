// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests for blocks. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "meta_client/impl.h"

/* Removes a block from the client's cache, because a request may have changed its chunks. */
static void cache_drop(const struct meta_call *c, uint64_t block)
{
	if (mc_cache(c) != NULL)
		mc_cache_drop_block(mc_cache(c), block);
}

static int block_message(struct meta_call *c, struct arena *a, meta_msg_block *m,
			 const struct meta_block *b)
{
	if (b->chunk_count > META_CHUNKS_MAX)
		return mc_fail(c, -EINVAL);
	int rc = meta_wire_block_set(a, m, b);
	return rc < 0 ? mc_fail(c, rc) : 0;
}

int meta_client_block_allocate(struct meta_call *c, struct meta_block *b, uint64_t *gc_epoch)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	Terrane__Meta__BlockAllocateRequest q = TERRANE__META__BLOCK_ALLOCATE_REQUEST__INIT;
	meta_msg_block m;
	q.block = &m;
	int rc = block_message(c, &a, &m, b);
	if (rc < 0)
		return rc;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_block_allocate, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__BlockAllocateResponse *p = reply.message;
	*gc_epoch = p->gc_epoch;
	b->alloc_id = p->alloc_id;
	return p->gc_epoch == 0 ? mc_response_error(c, -EINVAL) : 0;
}

int meta_client_block_commit(struct meta_call *c, const struct meta_block *b,
			     const struct meta_owner *owners, size_t n)
{
	if (n > META_OWNERS_MAX)
		return mc_fail(c, -EINVAL);
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	Terrane__Meta__BlockCommitRequest q = TERRANE__META__BLOCK_COMMIT_REQUEST__INIT;
	meta_msg_block m;
	q.block = &m;
	q.n_owners = n;
	q.owners = meta_wire_owners(&a, owners, n);
	if (q.owners == NULL)
		return mc_fail(c, -ENOMEM);
	int rc = block_message(c, &a, &m, b);
	return rc < 0 ? rc : mc_call_status(c, &meta_type_block_commit, &q.base);
}

int meta_client_block_own(struct meta_call *c, uint64_t block, const struct meta_owner *owners,
			  size_t n)
{
	if (n > META_OWNERS_MAX)
		return mc_fail(c, -EINVAL);
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	Terrane__Meta__BlockOwnRequest q = TERRANE__META__BLOCK_OWN_REQUEST__INIT;
	q.block = block;
	q.n_owners = n;
	q.owners = meta_wire_owners(&a, owners, n);
	if (q.owners == NULL)
		return mc_fail(c, -ENOMEM);
	return mc_call_status(c, &meta_type_block_own, &q.base);
}

int meta_client_block_extend(struct meta_call *c, uint64_t block, uint64_t epoch,
			     uint64_t old_length, uint64_t length, uint32_t crc)
{
	Terrane__Meta__BlockExtendRequest q = TERRANE__META__BLOCK_EXTEND_REQUEST__INIT;
	q.block = block;
	q.epoch = epoch;
	q.old_length = old_length;
	q.length = length;
	q.crc = crc;
	return mc_call_status(c, &meta_type_block_extend, &q.base);
}

int meta_client_block_fence(struct meta_call *c, uint64_t block, uint64_t epoch,
			    struct arena *arena, struct meta_block *out)
{
	Terrane__Meta__BlockFenceRequest q = TERRANE__META__BLOCK_FENCE_REQUEST__INIT;
	q.block = block;
	q.epoch = epoch;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_block_fence, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__BlockFenceResponse *p = reply.message;
	rc = mc_response_error(c, meta_wire_block_get(arena, p->block, out));
	return rc == 0 && p->sealed ? mc_fail(c, -EROFS) : rc;
}

int meta_client_block_seal(struct meta_call *c, uint64_t block, uint64_t epoch, uint64_t length,
			   uint64_t chunk_length, uint32_t crc)
{
	Terrane__Meta__BlockSealRequest q = TERRANE__META__BLOCK_SEAL_REQUEST__INIT;
	q.block = block;
	q.epoch = epoch;
	q.length = length;
	q.chunk_length = chunk_length;
	q.crc = crc;
	return mc_call_status(c, &meta_type_block_seal, &q.base);
}

int meta_client_block_replace(struct meta_call *c, uint64_t block, const struct meta_place *p)
{
	Terrane__Meta__BlockReplaceRequest q = TERRANE__META__BLOCK_REPLACE_REQUEST__INIT;
	q.block = block;
	q.chunk_block = p->chunk_block;
	q.index = p->index;
	q.from = p->from;
	q.to = p->to;
	q.crc = p->crc;
	q.release_count = p->release_count;
	int rc = mc_call_status(c, &meta_type_block_replace, &q.base);
	cache_drop(c, block);
	return rc;
}

int meta_client_block_report(struct meta_call *c, uint64_t block, uint64_t chunk_block,
			     uint32_t index, uint64_t disk)
{
	Terrane__Meta__BlockReportRequest q = TERRANE__META__BLOCK_REPORT_REQUEST__INIT;
	q.block = block;
	q.index = index;
	q.disk = disk;
	q.chunk_block = chunk_block;
	int rc = mc_call_status(c, &meta_type_block_report, &q.base);
	cache_drop(c, block);
	return rc;
}

int meta_client_block_relayout(struct meta_call *c, const struct meta_block *b)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	Terrane__Meta__BlockRelayoutRequest q = TERRANE__META__BLOCK_RELAYOUT_REQUEST__INIT;
	meta_msg_block m;
	q.block = &m;
	int rc = block_message(c, &a, &m, b);
	if (rc == 0)
		rc = mc_call_status(c, &meta_type_block_relayout, &q.base);
	cache_drop(c, b->id);
	return rc;
}

/* --- reading ------------------------------------------------------------------------------------ */

/* Reads blocks in one request. wanted: NULL, or for each block a byte that its tokens shall open. A response covers at least the first block, and as many blocks as fit into it. Returns
 * the number of blocks that it covers. */
static int64_t blocks_request(struct meta_call *c, const uint64_t *blocks, const uint64_t *wanted,
			      size_t n, struct arena *arena, struct meta_block **out)
{
	assert(n > 0 && n <= META_BATCH_MAX);
	Terrane__Meta__BlockGetRequest q = TERRANE__META__BLOCK_GET_REQUEST__INIT;
	q.n_blocks = n;
	q.blocks = (uint64_t *)blocks;
	q.n_wanted = wanted != NULL ? n : 0;
	q.wanted = (uint64_t *)wanted;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_block_get, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__BlockGetResponse *p = reply.message;
	if (p->covered == 0 || p->covered > n)
		return mc_response_error(c, -EINVAL);
	size_t next = 0; /* index of the next block of the response */
	for (size_t i = 0; rc == 0 && i < p->covered; i++) {
		*out[i] = (struct meta_block){0}; /* state 0: the block does not exist */
		if (next == p->n_blocks || p->blocks[next]->id != blocks[i])
			continue;
		rc = meta_wire_block_get(arena, p->blocks[next++], out[i]);
		if (rc == 0 && mc_cache(c) != NULL)
			mc_cache_put_block(mc_cache(c), out[i]);
	}
	if (rc == 0 && next != p->n_blocks)
		rc = -EINVAL;
	return rc < 0 ? mc_response_error(c, rc) : (int64_t)p->covered;
}

int meta_client_block_get(struct meta_call *c, const uint64_t *blocks, size_t n,
			  struct arena *arena, struct meta_block *out)
{
	if (n == 0 || n > META_BATCH_MAX)
		return mc_fail(c, -EINVAL);
	AUTO_FREE uint64_t *missing = malloc(n * sizeof(*missing));
	AUTO_FREE struct meta_block **places = malloc(n * sizeof(struct meta_block *));
	if (missing == NULL || places == NULL)
		return mc_fail(c, -ENOMEM);
	size_t count = 0;
	struct meta_cache *cache = mc_cache(c);
	c->in_doubt = false;
	c->error[0] = 0;
	for (size_t i = 0; i < n; i++) {
		int rc = cache == NULL ? -ENOENT
				       : mc_cache_get_block(cache, blocks[i], arena, &out[i]);
		if (rc == -ENOMEM)
			return mc_fail(c, rc);
		if (rc == 0)
			continue;
		missing[count] = blocks[i];
		places[count++] = &out[i];
	}
	for (size_t done = 0; done < count;) {
		int64_t got =
			blocks_request(c, missing + done, NULL, count - done, arena, places + done);
		if (got < 0)
			return (int)got;
		assert(got > 0 && (size_t)got <= count - done);
		done += (size_t)got;
	}
	return 0;
}

int meta_client_block_get_for(struct meta_call *c, uint64_t block, uint64_t wanted,
			      struct arena *arena, struct meta_block *out)
{
	int64_t got = blocks_request(c, &block, &wanted, 1, arena, &out);
	if (got < 0)
		return (int)got;
	return out->state == 0 ? mc_fail(c, -ENOENT) : 0;
}

int meta_client_block_refresh(struct meta_call *c, uint64_t block, uint64_t layout,
			      struct arena *arena, struct meta_block *out)
{
	cache_drop(c, block);
	c->client->stats.refreshes++;
	int64_t got = blocks_request(c, &block, NULL, 1, arena, &out);
	if (got < 0)
		return (int)got;
	if (out->state == 0)
		return mc_fail(c, -ENOENT);
	return out->layout == layout ? mc_fail(c, -ESTALE) : 0;
}

int64_t meta_client_block_owners(struct meta_call *c, uint64_t block, uint64_t after,
				 struct meta_owner *out, size_t max)
{
	Terrane__Meta__BlockOwnersRequest q = TERRANE__META__BLOCK_OWNERS_REQUEST__INIT;
	q.block = block;
	q.after = after;
	q.max = (uint32_t)min_u64(max, META_PAGE_MAX);
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_block_owners, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__BlockOwnersResponse *p = reply.message;
	if (p->n_owners > max)
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; i < p->n_owners; i++)
		out[i] = (struct meta_owner){.file = p->owners[i]->file,
					     .bytes = p->owners[i]->bytes};
	return (int64_t)p->n_owners;
}
