// SPDX-License-Identifier: Apache-2.0
/* Rebuilding the chunks of one block.
 *
 *   state   find the chunks that are missing, damaged, on lost disks, or to be moved
 *   read    read the cheapest sufficient set of chunks completely, and compute the others
 *           (stripe/stripe.h). A chunk that is unreadable or does not match the record's checksum
 *           counts as lost and is reported
 *   check   compare the results with the record's checksums, where it has them
 *   put     put each result on a disk that cluster_choose returns with the other chunks as kept
 *           ones, on the block's media unless that has no room. A damaged or missing chunk is
 *           rebuilt in place if its disk is online and no other disk spreads the block as far
 *   record  meta_block_replace: from now on readers use the new chunk; the old one is deleted after
 *
 * Two janitors that rebuild the same block choose the same disks. The second finds the chunk of the
 * first and atomically replaces it by its own put of the same bytes, because the chunk that it found
 * may be an old one that another janitor is about to delete; such a delete names the label of the
 * old put. The record change of the second is refused, and its put is an orphan unless the record
 * names that chunk. So neither deletes a chunk that the other may have found. The metadata refuses
 * the change too if the block was deleted, re-encoded, or has released a chunk since its record was
 * read (release_count in meta.h).
 *
 * Pools. A column of an MLEC block is a chunk on a pool, and is read and written completely here.
 * pools_patch.c sends ranges of a column to a pool: pieces_rebuild computes them from the same
 * ranges of the other columns.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "client/chunks.h"
#include "cluster/choose.h"
#include "code/health.h"
#include "janitor/rebuild_impl.h"
#include "rt/rt.h"

#define READ_TIMEOUT_NS (30 * NS_PER_S)
#define COST_DOUBTFUL 100000u /* chunk reported as damaged: read only if no other source suffices */

/* --- the state of the block
 * ---------------------------------------------------------------------------------- */

static void block_state_fini(struct block_state *st)
{
	free(st->cost);
	free(st->bad);
	/* clear the pointers: rebuild_fini calls this again after block_state_init failed */
	st->cost = NULL;
	st->bad = NULL;
}

/* Fills st from the block's record and the states of its disks. Treats chunks on the disk
 * `without` as lost; 0: no such disk. -EBADMSG: the record is invalid. */
static int block_state_init(struct janitor *j, const struct meta_block *b, uint64_t without,
			    struct block_state *st)
{
	struct encoding enc;
	memset(st, 0, sizeof(*st));
	if (encoding_parse(b->encoding, &enc, NULL, 0) < 0 || shape_init(&st->shape, &enc) < 0 ||
	    b->chunk_count != (size_t)st->shape.n || b->length == 0)
		return -EBADMSG;
	st->chunk_len = shape_chunk_len(&st->shape, b->length);
	int rc = codecs_get(&j->fabric.codecs, &st->shape, &st->codec);
	if (rc < 0)
		return rc;
	st->cost = calloc((size_t)st->shape.n, sizeof(*st->cost));
	st->bad = calloc((size_t)st->shape.n, sizeof(*st->bad));
	if (st->cost == NULL || st->bad == NULL) {
		block_state_fini(st);
		return -ENOMEM;
	}
	for (int i = 0; i < st->shape.n; i++) {
		const struct meta_chunk *c = &b->chunks[i];
		bool lost = c->disk == 0 || c->disk == without;
		enum disk_fate fate = lost ? DISK_LOST : disk_fate(j, c->disk);
		st->cost[i] = fate == DISK_LOST ? CHUNK_LOST : disk_cost(&j->fabric, c->disk);
		if (c->damaged && st->cost[i] != CHUNK_LOST)
			st->cost[i] = COST_DOUBTFUL;
		if (c->damaged || fate == DISK_LOST || fate == DISK_DRAINING)
			st->bad[st->bad_count++] = i;
	}
	return 0;
}

int block_damage(struct janitor *j, const struct meta_block *b, struct damage *out)
{
	struct block_state st;
	*out = (struct damage){0};
	int rc = block_state_init(j, b, 0, &st);
	if (rc < 0)
		return rc;
	AUTO_FREE int *lost = calloc((size_t)st.shape.n, sizeof(*lost));
	struct code_health h = {0};
	rc = lost == NULL ? -ENOMEM : 0;
	for (int i = 0; rc == 0 && i < st.shape.n; i++)
		if (st.cost[i] >= COST_DOUBTFUL)
			lost[out->lost++] = i;
	out->bad = st.bad_count;
	if (rc == 0)
		rc = code_health(st.codec, lost, out->lost, &h);
	out->more = h.tolerated ? h.more : -1;
	block_state_fini(&st);
	return rc;
}

/* --- reading -------------------------------------------------------------------------------- */

static struct rebuild *rebuild_of(struct stripe *s)
{
	return container_of(s, struct rebuild, stripe);
}

/* Cuts range number i at the stored length of the chunk: data chunks at the end of a block may
 * be shorter than the others. */
static struct store_range range_within(const struct rebuild *rb, int chunk, size_t i)
{
	assert(i < rb->range_count && chunk >= 0 && chunk < rb->state.shape.n);
	uint64_t len = shape_stored_len(&rb->state.shape, chunk, rb->block.length);
	struct store_range r = rb->ranges[i];
	r.len = r.off >= len ? 0 : min_u64(r.len, len - r.off);
	return r;
}

/* Returns how many bytes of the chunk are read or rebuilt: its stored length, or the sum of
 * its ranges. The ranges ascend, so the bytes that a short chunk lacks are at the end of the
 * concatenated ranges too. */
static uint64_t stored_len(const struct rebuild *rb, int chunk)
{
	uint64_t sum = 0;
	if (rb->ranges == NULL)
		return shape_stored_len(&rb->state.shape, chunk, rb->block.length);
	for (size_t i = 0; i < rb->range_count; i++)
		sum += range_within(rb, chunk, i).len;
	return sum;
}

/* Returns whether crc equals the CRC that the record stores for the chunk; true also if the
 * record stores none (0). A replica has the CRC of the block, which appends update; an encoded
 * chunk has a CRC of its own. */
static bool is_recorded(const struct rebuild *rb, int chunk, uint32_t crc)
{
	uint32_t want = rb->state.shape.copies ? rb->block.crc : rb->block.chunks[chunk].crc;
	return want == 0 || crc == want;
}

static int ranges_get(const struct rebuild *rb, struct node_call *c, uint64_t disk, int chunk,
		      struct slice *out)
{
	AUTO_FREE struct node_range *list = calloc(rb->range_count, sizeof(*list));
	size_t n = 0;
	if (list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < rb->range_count; i++) {
		struct store_range r = range_within(rb, chunk, i);
		if (r.len > 0)
			list[n++] =
				(struct node_range){.id = {rb->block.chunk_block, (uint32_t)chunk},
						    .off = r.off,
						    .len = r.len};
	}
	int rc = node_get(c, disk, list, n, NULL, out);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = list[i].rc;
	return rc;
}

/* The transfer of one chunk, on any loop of the fabric. Of rb that loop reads only what does not change while fetches
 * run: the ranges, the shape and the block's length. Chunks of the record may change, because a fetch whose plan was
 * replaced still runs while results are put. */
struct fetching {
	const struct rebuild *rb;
	uint64_t disk;
	int chunk;
	uint64_t len;
	struct slice got;
	int rc;
};

static void fetch_there(struct call *c, void *arg)
{
	struct fetching *f = arg;
	const struct rebuild *rb = f->rb;
	struct chunk_id id = {rb->block.chunk_block, (uint32_t)f->chunk};
	struct disk_use u;
	f->rc = disk_begin(c, f->disk, &u);
	if (f->rc < 0)
		return;
	u.node.timeout_ns = READ_TIMEOUT_NS;
	f->rc = rb->ranges != NULL ? ranges_get(rb, &u.node, f->disk, f->chunk, &f->got)
				   : node_get_one(&u.node, f->disk, id, 0, f->len, NULL, &f->got);
	disk_end(c, &u, f->rc, 0);
}

static int rebuild_fetch(struct stripe *s, struct stripe_fetch *f)
{
	struct rebuild *rb = rebuild_of(s);
	struct fetching get = {.rb = rb,
			       .disk = rb->block.chunks[f->chunk].disk,
			       .chunk = f->chunk,
			       .len = f->len};
	assert(f->off == 0 && f->len == stored_len(rb, f->chunk));
	int rc = pace_disk(rb->j, get.disk, f->len);
	if (rc == 0)
		rc = fabric_run(&rb->request.call, f->len, fetch_there, &get);
	if (rc == 0) {
		rc = get.rc;
		/* plans are made at home, by the home fabric's costs of disks */
		disk_note(&rb->j->fabric, get.disk, rc);
	}
	if (rc == 0 && (get.got.buf == NULL || get.got.len != f->len))
		rc = -EPROTO;
	/* The node verified the chunk's own checksum, but the record has another one: the
	 * chunk holds other bytes than the record describes. */
	if (rc == 0 && rb->ranges == NULL && !is_recorded(rb, f->chunk, get.got.crc))
		rc = -EBADMSG;
	if (rc != 0) {
		buf_unref(get.got.buf);
		return rc;
	}
	f->got = chunk_bytes_take(&get.got);
	moved_note(rb->j, rb->repair, get.disk, f->len, false);
	return 0;
}

/* Marks a chunk that could not be read as lost for this rebuild. Reports the chunk to the
 * metadata only if it is damaged, missing or short, not if its disk is unreachable. */
static int rebuild_judge(struct stripe *s, const struct stripe_fetch *f, uint32_t *cost)
{
	struct rebuild *rb = rebuild_of(s);
	if (f->rc == -ECANCELED || f->rc == -ETIME)
		return f->rc;
	*cost = CHUNK_LOST;
	rb->j->stats.sources_bad++;
	if (f->rc != -EBADMSG && f->rc != -ENOENT && f->rc != -ERANGE)
		return 0;
	struct meta_call c = tenant_call_meta(rb->j, &rb->request);
	(void)meta_client_block_report(&c, rb->block.id, rb->block.chunk_block, (uint32_t)f->chunk,
				       rb->block.chunks[f->chunk].disk);
	return 0;
}

/* Adds to the repair's predicted bytes what the plan reads from other racks and what it
 * writes. Called only for the first plan: later plans replace sources that failed. */
static void predict(struct rebuild *rb, const struct plan *p)
{
	uint64_t reads = 0, writes = 0;
	for (int i = 0; i < rb->state.shape.n; i++) {
		bool read = false;
		for (int r = 0; r < p->n_reads; r++)
			read = read || p->reads[r].chunk == i;
		if (read && rack_crosses(rb->j, rb->block.chunks[i].disk))
			reads += stored_len(rb, i);
	}
	for (int i = 0; i < rb->state.bad_count; i++)
		writes += stored_len(rb, rb->state.bad[i]);
	if (rb->repair != NULL)
		rb->repair->predicted_bytes += reads + writes;
}

static int rebuild_plan(struct stripe *s, const uint32_t *cost, struct plan **out)
{
	struct rebuild *rb = rebuild_of(s);
	int rc = plan_rebuild(rb->state.codec, rb->state.chunk_len, cost, rb->state.bad,
			      rb->state.bad_count, out);
	if (rc == 0 && !rb->predicted && rb->ranges == NULL)
		predict(rb, *out);
	rb->predicted = true;
	return rc;
}

static int rebuild_memory(struct stripe *s, uint64_t len, struct stripe_bytes *out)
{
	return chunk_memory(&rebuild_of(s)->j->fabric, len, out);
}

static const struct stripe_ops rebuild_ops = {
	.plan = rebuild_plan,
	.fetch = rebuild_fetch,
	.judge = rebuild_judge,
	.memory = rebuild_memory,
	.release = chunk_release,
};

/* --- the rebuild
 * -------------------------------------------------------------------------------- */

/* Moves a rebuilt chunk from the stripe to rb->chunk. */
static int chunk_make(struct rebuild *rb, int chunk)
{
	struct stripe_bytes bytes;
	bool computed;
	assert(rb->chunk[chunk].buf == NULL && rb->state.cost != NULL);
	int rc = stripe_take(&rb->stripe, chunk, &bytes, &computed);
	if (rc < 0)
		return rc;
	rb->have[chunk] = !computed;
	rb->chunk[chunk] = chunk_slice_take(&bytes);
	if (rb->ranges != NULL || bytes.len == 0 || is_recorded(rb, chunk, bytes.crc))
		return 0;
	log_error("repair_mismatch", "block=%016lx chunk=%d", rb->block.id, chunk);
	return -EBADMSG;
}

/* Reads the sources and computes the chunks of state.bad; stores their bytes in rb->chunk. */
static int chunks_make(struct rebuild *rb)
{
	int n = rb->state.shape.n;
	assert(rb->state.bad_count > 0 && rb->state.bad_count <= n && !rb->begun);
	int rc = stripe_init(&rb->stripe, &rebuild_ops, n);
	rb->begun = true;
	rb->chunk = calloc((size_t)n, sizeof(*rb->chunk));
	rb->have = calloc((size_t)n, sizeof(*rb->have));
	if (rc < 0 || rb->chunk == NULL || rb->have == NULL)
		return -ENOMEM;
	for (int i = 0; i < n; i++) {
		rb->stripe.cost[i] = rb->state.cost[i];
		rb->stripe.stored[i] = stored_len(rb, i);
	}
	uint64_t bytes =
		((uint64_t)rb->state.shape.k + (uint64_t)rb->state.bad_count) * rb->state.chunk_len;
	rc = gate_enter(&rb->j->fabric.shared->writes, bytes);
	if (rc < 0)
		return rc;
	rb->gate_bytes = bytes;
	rc = stripe_gather(&rb->stripe);
	if (rc == 0)
		rc = stripe_compute(&rb->stripe);
	for (int i = 0; rc == 0 && i < rb->state.bad_count; i++)
		rc = chunk_make(rb, rb->state.bad[i]);
	return rc;
}

static void rebuild_fini(struct rebuild *rb)
{
	if (rb->begun)
		stripe_fini(&rb->stripe);
	for (int i = 0; rb->chunk != NULL && i < rb->state.shape.n; i++)
		buf_unref(rb->chunk[i].buf);
	free(rb->chunk);
	free(rb->have);
	gate_leave(&rb->j->fabric.shared->writes, rb->gate_bytes);
	block_state_fini(&rb->state);
}

/* Repairs the block once, by `record` or, if that is NULL, by the record that it reads.
 * Returns an error if the stored record has changed since. */
static int block_repair_once(struct janitor *j, const struct repair_work *w,
			     const struct meta_block *record)
{
	struct arena a;
	arena_init(&a, BLOCK_ARENA);
	AUTO_FREE struct rebuild *rb = calloc(1, sizeof(*rb));
	if (rb == NULL)
		return -ENOMEM;
	rb->j = j;
	rb->tenant = w->tenant;
	rb->pool = w->pool;
	rb->repair = w->repair;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &rb->request, w->tenant);
	struct meta_call c = tenant_call_meta(j, &rb->request);
	int rc = 0;
	if (record != NULL)
		rb->block = *record;
	else
		rc = meta_client_block_get(&c, &w->block, 1, &a, &rb->block);
	if (rc == 0 && rb->block.state == META_BLOCK_OPEN)
		rc = -EAGAIN;
	if (rc == 0 && rb->block.state == META_BLOCK_SEALED && rb->block.length > 0) {
		rc = block_state_init(j, &rb->block, w->pool != NULL ? w->pool->disk : 0,
				      &rb->state);
		bool bad = rc == 0 && rb->state.bad_count > 0;
		if (bad)
			rc = chunks_make(rb);
		if (bad && rc == 0)
			rc = chunks_put(rb);
		rebuild_fini(rb);
	}
	arena_fini(&a);
	return rc;
}

int block_repair(struct janitor *j, const struct repair_work *w)
{
	int rc = -ESTALE;
	if (w->record != NULL)
		rc = block_repair_once(j, w, w->record);
	/* The record was read earlier and may be stale: its chunks are then missing, or the
	 * metadata refuses the change. Try again with the current record. */
	bool again = rc < 0 && rc != -ECANCELED && rc != -ETIME && rc != -ENOMEM;
	if (again)
		rc = block_repair_once(j, w, NULL);
	/*
	 * If the current record does not fit either, the block was deleted, or another janitor has
	 * repaired it.
	 */
	return rc == -ENOENT || rc == -ESTALE || rc == -EEXIST ? 0 : rc;
}

int pieces_rebuild(struct janitor *j, const struct pieces_want *w, struct slice *out)
{
	if (w->range_count == 0 || w->range_count > NODE_RANGES_MAX)
		return -E2BIG;
	AUTO_FREE struct rebuild *rb = calloc(1, sizeof(*rb));
	if (rb == NULL)
		return -ENOMEM;
	rb->j = j;
	rb->tenant = w->tenant;
	rb->block = *w->block;
	rb->repair = w->repair;
	rb->ranges = w->ranges;
	rb->range_count = w->range_count;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &rb->request, w->tenant);
	int rc = block_state_init(j, w->block, 0, &rb->state);
	if (rc < 0)
		return rc;
	assert(w->chunk >= 0 && w->chunk < rb->state.shape.n);
	rb->state.bad[0] = w->chunk;
	rb->state.bad_count = 1;
	rb->state.cost[w->chunk] = CHUNK_LOST;
	rb->state.chunk_len = stored_len(rb, w->chunk);
	uint64_t asked = 0;
	for (size_t i = 0; i < w->range_count; i++)
		asked += w->ranges[i].len;
	/* The pool that asks for the ranges may have another length of the chunk than the
	 * record. */
	rc = asked == rb->state.chunk_len ? chunks_make(rb) : -EBADMSG;
	if (rc == 0) {
		assert(rb->chunk[w->chunk].len == asked);
		*out = rb->chunk[w->chunk];
		rb->chunk[w->chunk] = (struct slice){0};
	}
	rebuild_fini(rb);
	return rc;
}
