// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests of background services. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta_client/impl.h"
#include "rt/rt.h"

/* --- walks -------------------------------------------------------------------------------------- */

static void cursor_to_wire(const struct meta_walk *w, Terrane__Meta__GcCursor *m)
{
	assert(w->index <= w->end && w->at.len <= sizeof(w->at.key));
	terrane__meta__gc_cursor__init(m);
	m->key = (ProtobufCBinaryData){.len = w->at.len, .data = (uint8_t *)w->at.key};
	m->end = w->at.end;
}

static int walk_from_wire(struct meta_call *c, struct meta_walk *w, uint64_t index,
			  const Terrane__Meta__GcCursor *m)
{
	if (index < w->index || index > w->end || (m != NULL && m->key.len > sizeof(w->at.key)))
		return mc_response_error(c, -EINVAL);
	w->index = index;
	memset(&w->at, 0, sizeof(w->at));
	if (m == NULL)
		return 0;
	w->at.end = m->end;
	w->at.len = (uint16_t)m->key.len;
	if (m->key.len > 0)
		memcpy(w->at.key, m->key.data, m->key.len);
	return 0;
}

/* --- collection --------------------------------------------------------------------------------- */

int meta_client_gc_epoch(struct meta_call *c, uint64_t *epoch, uint64_t *partitions)
{
	Terrane__Meta__GcEpochRequest q = TERRANE__META__GC_EPOCH_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_gc_epoch, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__GcEpochResponse *p = reply.message;
	*epoch = p->epoch;
	*partitions = p->partitions;
	return p->epoch == 0 || p->partitions == 0 ? mc_response_error(c, -EINVAL) : 0;
}

int meta_client_gc_state(struct meta_call *c, struct meta_gc_state *out)
{
	Terrane__Meta__GcEpochRequest q = TERRANE__META__GC_EPOCH_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	*out = (struct meta_gc_state){0};
	int rc = mc_call(c, &meta_type_gc_epoch, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__GcEpochResponse *p = reply.message;
	if (p->epoch == 0 || p->restored > p->epoch || strlen(p->why) > META_GC_WHY_MAX)
		return mc_response_error(c, -EINVAL);
	out->epoch = p->epoch;
	out->restored = p->restored;
	out->held = p->held;
	memcpy(out->why, p->why, strlen(p->why) + 1);
	return 0;
}

int meta_client_gc_hold(struct meta_call *c, bool held, const char *why)
{
	Terrane__Meta__GcHoldRequest q = TERRANE__META__GC_HOLD_REQUEST__INIT;
	q.held = held;
	q.why = (char *)why;
	return mc_call_status(c, &meta_type_gc_hold, &q.base);
}

int meta_client_backup(struct meta_call *c, const struct meta_backup_request *want,
		       struct meta_backup *out)
{
	Terrane__Meta__BackupRequest q = TERRANE__META__BACKUP_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	assert(want->id != 0);
	q.id = want->id;
	q.dir = (char *)want->dir;
	q.keep = want->keep;
	int rc = mc_call(c, &meta_type_backup, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__BackupResponse *p = reply.message;
	if (p->error > 0)
		return mc_response_error(c, -EINVAL);
	*out = (struct meta_backup){.running = p->running,
				    .rc = p->error,
				    .number = p->number,
				    .made_s = p->made_s,
				    .bytes = p->bytes,
				    .files = p->files};
	return 0;
}

int meta_client_gc_advance(struct meta_call *c, uint64_t epoch)
{
	Terrane__Meta__GcAdvanceRequest q = TERRANE__META__GC_ADVANCE_REQUEST__INIT;
	q.epoch = epoch;
	return mc_call_status(c, &meta_type_gc_advance, &q.base);
}

int meta_client_gc_step(struct meta_call *c, enum meta_gc_kind kind, uint64_t epoch,
			struct meta_walk *w, struct meta_gc_counts *counts)
{
	assert(kind < META_GC_KINDS && epoch != 0);
	Terrane__Meta__GcStepRequest q = TERRANE__META__GC_STEP_REQUEST__INIT;
	Terrane__Meta__GcCursor at;
	cursor_to_wire(w, &at);
	q.kind = kind;
	q.epoch = epoch;
	q.index = w->index;
	q.end = w->end;
	q.at = &at;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_gc_step, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__GcStepResponse *p = reply.message;
	counts->seen += p->seen;
	counts->marked += p->marked;
	counts->collected += p->collected;
	counts->left += p->left;
	return walk_from_wire(c, w, p->index, p->at);
}

static int dead_chunks_from_wire(const Terrane__Meta__DeadChunks *m, struct arena *arena,
				 struct meta_dead_chunks *out)
{
	*out = (struct meta_dead_chunks){.tenant = m->tenant,
					 .block = m->block,
					 .chunk_block = m->chunk_block,
					 .chunk_count = m->n_disks};
	out->chunks = arena_alloc(arena, (m->n_disks + 1) * sizeof(*out->chunks));
	if (out->chunks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_disks; i++)
		out->chunks[i] = (struct meta_chunk){.disk = m->disks[i]};
	return 0;
}

int64_t meta_client_gc_chunks(struct meta_call *c, uint64_t epoch, struct meta_walk *w,
			      struct arena *arena, struct meta_dead_chunks *out, size_t max)
{
	Terrane__Meta__GcChunksRequest q = TERRANE__META__GC_CHUNKS_REQUEST__INIT;
	Terrane__Meta__GcCursor at;
	cursor_to_wire(w, &at);
	q.epoch = epoch;
	q.index = w->index;
	q.end = w->end;
	q.at = &at;
	q.max = (uint32_t)min_u64(max, META_PAGE_MAX);
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_gc_chunks, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__GcChunksResponse *p = reply.message;
	if (p->n_dead > max)
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; rc == 0 && i < p->n_dead; i++)
		rc = p->dead[i]->n_disks > META_CHUNKS_MAX
			     ? -EINVAL
			     : dead_chunks_from_wire(p->dead[i], arena, &out[i]);
	if (rc < 0)
		return mc_response_error(c, rc);
	rc = walk_from_wire(c, w, p->index, p->at);
	return rc < 0 ? rc : (int64_t)p->n_dead;
}

int meta_client_gc_chunks_done(struct meta_call *c, uint32_t tenant, uint64_t block,
			       uint64_t chunk_block)
{
	Terrane__Meta__GcChunksDoneRequest q = TERRANE__META__GC_CHUNKS_DONE_REQUEST__INIT;
	q.tenant = tenant;
	q.block = block;
	q.chunk_block = chunk_block;
	return mc_call_status(c, &meta_type_gc_chunks_done, &q.base);
}

static int chunks_request(struct meta_call *c, uint64_t disk, const struct meta_found_chunk *chunks,
			  size_t n, bool give_up, bool *wanted)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	Terrane__Meta__ChunksWantedRequest q = TERRANE__META__CHUNKS_WANTED_REQUEST__INIT;
	Terrane__Meta__FoundChunk *all = arena_alloc(&a, (n + 1) * sizeof(*all));
	q.chunks = arena_alloc(&a, (n + 1) * sizeof(Terrane__Meta__FoundChunk *));
	if (n > META_PAGE_MAX || all == NULL || q.chunks == NULL)
		return mc_fail(c, n > META_PAGE_MAX ? -EINVAL : -ENOMEM);
	for (size_t i = 0; i < n; i++) {
		terrane__meta__found_chunk__init(&all[i]);
		all[i].tenant = chunks[i].tenant;
		all[i].block = chunks[i].block;
		all[i].chunk_block = chunks[i].chunk_block;
		all[i].index = chunks[i].index;
		q.chunks[i] = &all[i];
	}
	q.n_chunks = n;
	q.disk = disk;
	q.give_up = give_up;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_chunks_wanted, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__ChunksWantedResponse *p = reply.message;
	if (p->n_wanted != n)
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; i < n; i++)
		wanted[i] = p->wanted[i];
	return 0;
}

int meta_client_chunks_wanted(struct meta_call *c, uint64_t disk,
			      const struct meta_found_chunk *chunks, size_t n, bool *wanted)
{
	return chunks_request(c, disk, chunks, n, false, wanted);
}

int meta_client_chunk_give_up(struct meta_call *c, uint64_t disk, const struct meta_found_chunk *f,
			      bool *wanted)
{
	return chunks_request(c, disk, f, 1, true, wanted);
}

/* --- blocks of a disk --------------------------------------------------------------------------- */

int64_t meta_client_disk_blocks(struct meta_call *c, uint64_t disk, struct meta_walk *w,
				struct meta_on_disk *out, size_t max)
{
	Terrane__Meta__DiskBlocksRequest q = TERRANE__META__DISK_BLOCKS_REQUEST__INIT;
	Terrane__Meta__GcCursor at;
	cursor_to_wire(w, &at);
	q.disk = disk;
	q.index = w->index;
	q.end = w->end;
	q.at = &at;
	q.max = (uint32_t)min_u64(max, META_PAGE_MAX);
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_disk_blocks, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__DiskBlocksResponse *p = reply.message;
	if (p->n_blocks > max)
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; i < p->n_blocks; i++)
		out[i] = (struct meta_on_disk){.tenant = p->blocks[i]->tenant,
					       .block = p->blocks[i]->block,
					       .index = p->blocks[i]->index};
	rc = walk_from_wire(c, w, p->index, p->at);
	return rc < 0 ? rc : (int64_t)p->n_blocks;
}

int64_t meta_client_blocks(struct meta_call *c, struct meta_walk *w, struct arena *arena,
			   struct meta_block_at *out, size_t max)
{
	Terrane__Meta__BlocksRequest q = TERRANE__META__BLOCKS_REQUEST__INIT;
	Terrane__Meta__GcCursor at;
	cursor_to_wire(w, &at);
	q.index = w->index;
	q.end = w->end;
	q.at = &at;
	q.max = (uint32_t)min_u64(max, META_PAGE_MAX);
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_blocks, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__BlocksResponse *p = reply.message;
	if (p->n_blocks > max)
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; rc == 0 && i < p->n_blocks; i++) {
		rc = meta_wire_block_get(arena, p->blocks[i]->block, &out[i].block);
		out[i].tenant = p->blocks[i]->tenant;
		out[i].owned_bytes = p->blocks[i]->owned_bytes;
	}
	if (rc < 0)
		return mc_response_error(c, rc);
	rc = walk_from_wire(c, w, p->index, p->at);
	return rc < 0 ? rc : (int64_t)p->n_blocks;
}

/* --- leases ------------------------------------------------------------------------------------- */

int meta_client_lease_take(struct meta_call *c, struct meta_lease *l)
{
	assert(l->holder != 0 && l->duration_ns != 0);
	Terrane__Meta__LeaseRequest q = TERRANE__META__LEASE_REQUEST__INIT;
	q.name = l->name;
	q.holder = l->holder;
	q.duration_ns = l->duration_ns;
	if (l->seen_ns != 0) {
		q.seen_turn = l->seen_turn;
		q.seen_for_ns = rt_now_ns() - l->seen_ns + 1;
	}
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_lease, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__LeaseResponse *p = reply.message;
	if (!p->busy) {
		l->turn = p->turn;
		l->seen_ns = 0;
		return 0;
	}
	if (l->seen_ns == 0 || l->seen_turn != p->turn) {
		l->seen_turn = p->turn;
		l->seen_ns = rt_now_ns();
	}
	return mc_fail(c, -EBUSY);
}

int meta_client_lease_drop(struct meta_call *c, const struct meta_lease *l)
{
	assert(l->holder != 0);
	Terrane__Meta__LeaseRequest q = TERRANE__META__LEASE_REQUEST__INIT;
	q.name = (char *)l->name;
	q.holder = l->holder;
	q.drop = true;
	return mc_call_status(c, &meta_type_lease, &q.base);
}
