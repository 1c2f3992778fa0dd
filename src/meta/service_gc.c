// SPDX-License-Identifier: Apache-2.0
/*
 * Handlers for the background services. One request walks over many partitions, and ends early if these partitions have
 * many rows: so an idle cluster needs few requests, and in a busy cluster each request is short.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta/gc.h"
#include "meta/service_impl.h"
#include "rt/rt.h"

#define WALK_PARTITIONS 256 /* largest number of partitions that one request covers */
#define WALK_ROWS 256       /* number of rows after which a request ends */
#define CHUNKS_MAX 128      /* largest number of sets of dead chunks in one response */
#define BLOCKS_MAX 128      /* largest number of blocks in one response */

typedef Terrane__Meta__GcCursor msg_cursor;

/* --- walks ------------------------------------------------------------------------------------ */

struct walk {
	enum meta_gc_kind kind; /* kind of garbage; determines the layer */
	uint64_t index, end;
	struct meta_gc_cursor at;
	unsigned partitions; /* number of partitions completed in this request */
};

static int walk_begin(struct rpc_request *r, struct walk *w, uint64_t index, uint64_t end,
		      const msg_cursor *at)
{
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	*w = (struct walk){.kind = META_GC_BLOCKS, .index = index, .end = end};
	if (index > end || end > meta_gc_partitions(ms_meta(r)))
		return rpc_fail(r, -EINVAL, "partitions %lu to %lu were requested of %lu", index,
				end, meta_gc_partitions(ms_meta(r)));
	if (at == NULL)
		return 0;
	if (at->key.len > sizeof(w->at.key))
		return -EINVAL;
	w->at.end = at->end;
	w->at.len = (uint16_t)at->key.len;
	if (at->key.len > 0)
		memcpy(w->at.key, at->key.data, at->key.len);
	return 0;
}

/* Goes to the next partition with rows if the present partition is complete. Sets *more to whether this request is
 * to read from partition w->index. */
static int walk_next(struct rpc_request *r, struct walk *w, bool *more)
{
	*more = false;
	assert(w->index <= w->end && w->at.len <= sizeof(w->at.key));
	if (w->index < w->end && w->at.end) {
		w->index++;
		w->partitions++;
		memset(&w->at, 0, sizeof(w->at));
	}
	if (w->partitions >= WALK_PARTITIONS)
		return 0;
	int rc = w->at.len == 0 ? meta_gc_skip(ms_meta(r), w->kind, &w->index, w->end) : 0;
	*more = rc == 0 && w->index < w->end;
	return rc;
}

static int walk_reply(struct rpc_request *r, const struct walk *w, uint64_t *index,
		      msg_cursor **out)
{
	*index = w->index;
	if (w->at.len == 0)
		return 0;
	msg_cursor *m = rpc_alloc(r, sizeof(*m));
	uint8_t *key = rpc_alloc(r, w->at.len);
	if (m == NULL || key == NULL)
		return -ENOMEM;
	terrane__meta__gc_cursor__init(m);
	memcpy(key, w->at.key, w->at.len);
	m->key = (ProtobufCBinaryData){.len = w->at.len, .data = key};
	m->end = w->at.end;
	*out = m;
	return 0;
}

static size_t within(uint32_t asked, size_t most)
{
	return asked == 0 || asked > most ? most : asked;
}

/* --- collection ------------------------------------------------------------------------------- */

int ms_handle_gc_epoch(struct rpc_request *r)
{
	Terrane__Meta__GcEpochResponse *p = rpc_reply_body(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	p->partitions = meta_gc_partitions(ms_meta(r));
	struct meta_gc_state state;
	rc = meta_gc_state(ms_meta(r), &state);
	p->epoch = state.epoch;
	p->restored = state.restored;
	p->held = state.held;
	if (rc == 0 && state.why[0] != 0) {
		p->why = rpc_alloc(r, sizeof(state.why));
		if (p->why == NULL)
			return -ENOMEM;
		memcpy(p->why, state.why, sizeof(state.why));
	}
	return ms_end(r, rc);
}

int ms_handle_gc_hold(struct rpc_request *r)
{
	const Terrane__Meta__GcHoldRequest *q = rpc_body(r);
	int rc = ms_system(r);
	if (rc == 0 && strlen(q->why) > META_GC_WHY_MAX)
		rc = rpc_fail(r, -EINVAL, "a reason has up to %d bytes", META_GC_WHY_MAX);
	return rc < 0 ? rc : ms_end(r, meta_gc_hold(ms_meta(r), q->held, q->why));
}

int ms_handle_gc_advance(struct rpc_request *r)
{
	const Terrane__Meta__GcAdvanceRequest *q = rpc_body(r);
	int rc = ms_system(r);
	return rc < 0 ? rc : ms_end(r, meta_gc_advance(ms_meta(r), q->epoch));
}

int ms_handle_gc_step(struct rpc_request *r)
{
	const Terrane__Meta__GcStepRequest *q = rpc_body(r);
	Terrane__Meta__GcStepResponse *p = rpc_reply_body(r);
	struct walk w = {0};
	struct meta_gc_counts n = {0};
	int rc = walk_begin(r, &w, q->index, q->end, q->at);
	if (rc == 0 && (q->kind >= META_GC_KINDS || q->epoch == 0))
		rc = -EINVAL;
	if (rc < 0)
		return ms_end(r, rc);
	w.kind = (enum meta_gc_kind)q->kind;
	uint64_t begun_ns = rt_now_ns();
	bool more;
	while ((rc = walk_next(r, &w, &more)) == 0 && more && n.seen < WALK_ROWS) {
		rc = meta_gc_step(ms_meta(r), w.kind, w.index, q->epoch, &w.at, &n);
		if (rc < 0 || rt_now_ns() - begun_ns >= META_GC_STEP_NS)
			break;
	}
	if (rc < 0)
		return ms_end(r, rc);
	p->seen = n.seen;
	p->marked = n.marked;
	p->collected = n.collected;
	p->left = n.left;
	return walk_reply(r, &w, &p->index, &p->at);
}

static Terrane__Meta__DeadChunks *dead_message(struct rpc_request *r,
					       const struct meta_dead_chunks *d)
{
	Terrane__Meta__DeadChunks *m = rpc_alloc(r, sizeof(*m));
	uint64_t *disks = rpc_alloc(r, (d->chunk_count + 1) * sizeof(*disks));
	if (m == NULL || disks == NULL)
		return NULL;
	terrane__meta__dead_chunks__init(m);
	m->tenant = d->tenant;
	m->block = d->block;
	m->chunk_block = d->chunk_block;
	m->n_disks = d->chunk_count;
	m->disks = disks;
	for (size_t i = 0; i < d->chunk_count; i++)
		disks[i] = d->chunks[i].disk;
	return m;
}

int ms_handle_gc_chunks(struct rpc_request *r)
{
	const Terrane__Meta__GcChunksRequest *q = rpc_body(r);
	Terrane__Meta__GcChunksResponse *p = rpc_reply_body(r);
	struct walk w = {0};
	size_t max = within(q->max, CHUNKS_MAX);
	struct meta_dead_chunks *dead = rpc_alloc(r, max * sizeof(*dead));
	p->dead = rpc_alloc(r, max * sizeof(Terrane__Meta__DeadChunks *));
	if (dead == NULL || p->dead == NULL)
		return -ENOMEM;
	int64_t n = walk_begin(r, &w, q->index, q->end, q->at);
	size_t count = 0;
	bool more;
	while (n >= 0 && (n = walk_next(r, &w, &more)) == 0 && more && count < max) {
		n = meta_gc_chunks(ms_meta(r), w.index, q->epoch, &w.at, &r->arena, dead + count,
				   max - count);
		count += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		return ms_end(r, (int)n);
	assert(count <= max);
	for (; p->n_dead < count; p->n_dead++) {
		p->dead[p->n_dead] = dead_message(r, &dead[p->n_dead]);
		if (p->dead[p->n_dead] == NULL)
			return -ENOMEM;
	}
	return walk_reply(r, &w, &p->index, &p->at);
}

int ms_handle_gc_chunks_done(struct rpc_request *r)
{
	const Terrane__Meta__GcChunksDoneRequest *q = rpc_body(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	return ms_end(r, meta_gc_chunks_done(ms_meta(r), q->tenant, q->block, q->chunk_block));
}

int ms_handle_chunks_wanted(struct rpc_request *r)
{
	const Terrane__Meta__ChunksWantedRequest *q = rpc_body(r);
	Terrane__Meta__ChunksWantedResponse *p = rpc_reply_body(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	if (q->n_chunks > META_PAGE_MAX)
		return rpc_fail(r, -EINVAL, "a request names up to %d chunks", META_PAGE_MAX);
	p->wanted = rpc_alloc(r, (q->n_chunks + 1) * sizeof(*p->wanted));
	if (p->wanted == NULL)
		return -ENOMEM;
	int (*ask)(struct meta *, const struct meta_ctx *, uint64_t, uint64_t, uint32_t, uint64_t,
		   bool *) = q->give_up ? meta_chunk_give_up : meta_chunk_wanted;
	for (size_t i = 0; rc == 0 && i < q->n_chunks; i++) {
		const Terrane__Meta__FoundChunk *f = q->chunks[i];
		struct meta_ctx ctx = {.tenant = f->tenant};
		bool wanted = false;
		rc = ask(ms_meta(r), &ctx, f->block, f->chunk_block, f->index, q->disk, &wanted);
		/* All chunks of an unreadable record count as wanted, and the request continues with the other
		 * blocks. */
		bool unreadable = rc == -EBADMSG || rc == -EFBIG;
		p->wanted[i] = wanted || unreadable;
		rc = unreadable ? 0 : rc;
	}
	p->n_wanted = rc == 0 ? q->n_chunks : 0;
	return ms_end(r, rc);
}

/* --- the reverse index, all blocks ------------------------------------------------------------ */

static int on_disk_reply(struct rpc_request *r, const struct meta_on_disk *found, size_t n)
{
	Terrane__Meta__DiskBlocksResponse *p = rpc_reply_body(r);
	Terrane__Meta__OnDisk *all = rpc_alloc(r, (n + 1) * sizeof(*all));
	p->blocks = rpc_alloc(r, (n + 1) * sizeof(Terrane__Meta__OnDisk *));
	if (all == NULL || p->blocks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		terrane__meta__on_disk__init(&all[i]);
		all[i].tenant = found[i].tenant;
		all[i].block = found[i].block;
		all[i].index = found[i].index;
		p->blocks[i] = &all[i];
	}
	p->n_blocks = n;
	return 0;
}

int ms_handle_disk_blocks(struct rpc_request *r)
{
	const Terrane__Meta__DiskBlocksRequest *q = rpc_body(r);
	Terrane__Meta__DiskBlocksResponse *p = rpc_reply_body(r);
	struct walk w = {0};
	size_t max = within(q->max, META_PAGE_MAX);
	struct meta_on_disk *found = rpc_alloc(r, max * sizeof(*found));
	if (found == NULL)
		return -ENOMEM;
	int64_t n = walk_begin(r, &w, q->index, q->end, q->at);
	size_t count = 0;
	bool more;
	while (n >= 0 && (n = walk_next(r, &w, &more)) == 0 && more && count < max) {
		n = meta_disk_blocks(ms_meta(r), w.index, q->disk, &w.at, found + count,
				     max - count);
		count += n > 0 ? (size_t)n : 0;
	}
	int rc = n < 0 ? ms_end(r, (int)n) : on_disk_reply(r, found, count);
	return rc < 0 ? rc : walk_reply(r, &w, &p->index, &p->at);
}

static int blocks_reply(struct rpc_request *r, const struct meta_block_at *found, size_t n)
{
	Terrane__Meta__BlocksResponse *p = rpc_reply_body(r);
	Terrane__Meta__BlockAt *all = rpc_alloc(r, (n + 1) * sizeof(*all));
	meta_msg_block *blocks = rpc_alloc(r, (n + 1) * sizeof(*blocks));
	p->blocks = rpc_alloc(r, (n + 1) * sizeof(Terrane__Meta__BlockAt *));
	if (all == NULL || blocks == NULL || p->blocks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int rc = meta_wire_block_set(&r->arena, &blocks[i], &found[i].block);
		if (rc < 0)
			return rc;
		terrane__meta__block_at__init(&all[i]);
		all[i].tenant = found[i].tenant;
		all[i].owned_bytes = found[i].owned_bytes;
		all[i].block = &blocks[i];
		p->blocks[i] = &all[i];
	}
	p->n_blocks = n;
	return 0;
}

int ms_handle_blocks(struct rpc_request *r)
{
	const Terrane__Meta__BlocksRequest *q = rpc_body(r);
	Terrane__Meta__BlocksResponse *p = rpc_reply_body(r);
	struct walk w = {0};
	size_t max = within(q->max, BLOCKS_MAX);
	struct meta_block_at *found = rpc_alloc(r, max * sizeof(*found));
	if (found == NULL)
		return -ENOMEM;
	int64_t n = walk_begin(r, &w, q->index, q->end, q->at);
	size_t count = 0;
	bool more;
	while (n >= 0 && (n = walk_next(r, &w, &more)) == 0 && more && count < max) {
		n = meta_blocks(ms_meta(r), w.index, &w.at, &r->arena, found + count, max - count);
		count += n > 0 ? (size_t)n : 0;
	}
	int rc = n < 0 ? ms_end(r, (int)n) : blocks_reply(r, found, count);
	return rc < 0 ? rc : walk_reply(r, &w, &p->index, &p->at);
}

/* --- leases ----------------------------------------------------------------------------------- */

/* The request tells for how long the caller has seen the turn of another holder, measured on the caller's clock.
 * This duration is converted to a time of this server's clock. If this server's clock began later than that time,
 * the duration becomes shorter, and the caller waits longer. */
int ms_handle_lease(struct rpc_request *r)
{
	const Terrane__Meta__LeaseRequest *q = rpc_body(r);
	Terrane__Meta__LeaseResponse *p = rpc_reply_body(r);
	struct meta_lease l = {.holder = q->holder, .duration_ns = q->duration_ns};
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	if (strlen(q->name) >= sizeof(l.name))
		return -EINVAL;
	memcpy(l.name, q->name, strlen(q->name) + 1);
	if (q->drop)
		return ms_end(r, meta_lease_drop(ms_meta(r), &l));
	uint64_t now_ns = rt_now_ns();
	if (q->seen_for_ns > 0) {
		l.seen_turn = q->seen_turn;
		l.seen_ns = now_ns > q->seen_for_ns ? now_ns - q->seen_for_ns : 1;
	}
	rc = meta_lease_take(ms_meta(r), &l);
	p->busy = rc == -EBUSY;
	p->turn = p->busy ? l.seen_turn : l.turn;
	return p->busy ? 0 : ms_end(r, rc);
}
