// SPDX-License-Identifier: Apache-2.0
/*
 * Making one block whole.
 *
 *   look    which chunks are missing, damaged, on lost disks, or to be moved
 *   read    the cheapest chunks that suffice, whole, and compute (stripe/stripe.h). A chunk that cannot be read,
 *           or does not have the record's checksum, counts as lost and is reported
 *   check   the results against the record's checksum where it has one
 *   put     each result on a disk of cluster_choose, with the other chunks as kept ones, on the block's media unless
 *           that has no room; a damaged or missing one
 *           where it is, when its disk is well and no other keeps the block as far apart
 *   record  meta_block_replace: from this moment readers look there; the old chunk is deleted after it
 *
 * Two janitors on the same block choose the same disks: one finds the other's chunk there, and puts its own, of the
 * same bytes, in its place as a whole: what it found may be an old one that somebody is about to delete, and he means
 * that put. Whose record change comes second is told so, and what it put is an orphan unless the record names it:
 * nobody deletes what another may have found. A block that was deleted, laid out anew, or has let a chunk go since it
 * was read, refuses the change (release_count in meta.h).
 *
 * Pools. A column of an mlec is a chunk on a pool: here it is read and written whole. What pools.c brings
 * to a pool are ranges of a column, computed from the same ranges of others.
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
#define COST_DOUBTFUL 100000u /* reported as damaged: only when nothing else will do */

/* --- looking ---------------------------------------------------------------------------------- */

static void look_fini(struct look *l)
{
	free(l->cost);
	free(l->bad);
	l->cost = NULL; /* a mending whose look failed is emptied as a whole */
	l->bad = NULL;
}

/* Nothing on the disk `without` counts as good; 0: none. */
static int look_init(struct janitor *j, const struct meta_block *b, uint64_t without,
		     struct look *l)
{
	struct encoding enc;
	memset(l, 0, sizeof(*l));
	if (encoding_parse(b->encoding, &enc, NULL, 0) < 0 || shape_init(&l->shape, &enc) < 0 ||
	    b->chunk_count != (size_t)l->shape.n || b->length == 0)
		return -EBADMSG;
	l->chunk_len = shape_chunk_len(&l->shape, b->length);
	int rc = codecs_get(&j->fabric.codecs, &l->shape, &l->codec);
	if (rc < 0)
		return rc;
	l->cost = calloc((size_t)l->shape.n, sizeof(*l->cost));
	l->bad = calloc((size_t)l->shape.n, sizeof(*l->bad));
	if (l->cost == NULL || l->bad == NULL) {
		look_fini(l);
		return -ENOMEM;
	}
	for (int i = 0; i < l->shape.n; i++) {
		const struct meta_chunk *c = &b->chunks[i];
		bool lost = c->disk == 0 || c->disk == without;
		enum disk_fate fate = lost ? DISK_LOST : disk_fate(j, c->disk);
		l->cost[i] = fate == DISK_LOST ? CHUNK_LOST : disk_cost(&j->fabric, c->disk);
		if (c->damaged && l->cost[i] != CHUNK_LOST)
			l->cost[i] = COST_DOUBTFUL;
		if (c->damaged || fate == DISK_LOST || fate == DISK_DRAINING)
			l->bad[l->bad_count++] = i;
	}
	return 0;
}

int block_damage(struct janitor *j, const struct meta_block *b, struct damage *out)
{
	struct look l;
	*out = (struct damage){0};
	int rc = look_init(j, b, 0, &l);
	if (rc < 0)
		return rc;
	AUTO_FREE int *lost = calloc((size_t)l.shape.n, sizeof(*lost));
	struct code_health h = {0};
	rc = lost == NULL ? -ENOMEM : 0;
	for (int i = 0; rc == 0 && i < l.shape.n; i++)
		if (l.cost[i] >= COST_DOUBTFUL)
			lost[out->lost++] = i;
	out->bad = l.bad_count;
	if (rc == 0)
		rc = code_health(l.codec, lost, out->lost, &h);
	out->more = h.tolerated ? h.more : -1;
	look_fini(&l);
	return rc;
}

/* --- the source -------------------------------------------------------------------------------- */

static struct mending *mending_of(struct stripe *s)
{
	return container_of(s, struct mending, stripe);
}

/* What the chunk has of a range: short data chunks end early. */
static struct store_range range_within(const struct mending *m, int chunk, size_t i)
{
	uint64_t len = shape_stored_len(&m->look.shape, chunk, m->block.length);
	struct store_range r = m->ranges[i];
	r.len = r.off >= len ? 0 : min_u64(r.len, len - r.off);
	return r;
}

/* Bytes of the chunk that this is about. With ranges: their sum, one after the other. As they ascend, what
 * lacks of a short chunk lacks at the end of these bytes, too. */
static uint64_t stored_len(const struct mending *m, int chunk)
{
	uint64_t sum = 0;
	if (m->ranges == NULL)
		return shape_stored_len(&m->look.shape, chunk, m->block.length);
	for (size_t i = 0; i < m->range_count; i++)
		sum += range_within(m, chunk, i).len;
	return sum;
}

/* Whether a whole chunk has the record's checksum, where there is one. Copies have that of the block, which
 * appends keep; chunks of codes have their own. */
static bool is_recorded(const struct mending *m, int chunk, uint32_t crc)
{
	uint32_t want = m->look.shape.copies ? m->block.crc : m->block.chunks[chunk].crc;
	return want == 0 || crc == want;
}

static int ranges_get(struct mending *m, struct node_call *c, uint64_t disk, int chunk,
		      struct slice *out)
{
	AUTO_FREE struct node_range *list = calloc(m->range_count, sizeof(*list));
	size_t n = 0;
	if (list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < m->range_count; i++) {
		struct store_range r = range_within(m, chunk, i);
		if (r.len > 0)
			list[n++] =
				(struct node_range){.id = {m->block.chunk_block, (uint32_t)chunk},
						    .off = r.off,
						    .len = r.len};
	}
	int rc = node_get(c, disk, list, n, NULL, out);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = list[i].rc;
	return rc;
}

static int mending_fetch(struct stripe *s, struct stripe_fetch *f)
{
	struct mending *m = mending_of(s);
	uint64_t disk = m->block.chunks[f->chunk].disk;
	struct chunk_id id = {m->block.chunk_block, (uint32_t)f->chunk};
	struct slice got = {0};
	struct disk_use u;
	assert(f->off == 0 && f->len == stored_len(m, f->chunk));
	int rc = pace_disk(m->j, disk, f->len);
	if (rc == 0)
		rc = disk_begin(&m->request.call, disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = READ_TIMEOUT_NS;
	rc = m->ranges != NULL ? ranges_get(m, &u.node, disk, f->chunk, &got)
			       : node_get_one(&u.node, disk, id, 0, f->len, NULL, &got);
	if (rc == 0 && (got.buf == NULL || got.len != f->len))
		rc = -EPROTO;
	/* The chunk agrees with its own checksum, but it is not what was written. */
	if (rc == 0 && m->ranges == NULL && !is_recorded(m, f->chunk, got.crc))
		rc = -EBADMSG;
	disk_end(&m->request.call, &u, rc, 0);
	if (rc < 0) {
		buf_unref(got.buf);
		return rc;
	}
	f->got = chunk_bytes_take(&got);
	moved_note(m->j, m->repair, disk, f->len, false);
	return 0;
}

/* The chunk is lost for this repair; it is reported only if the chunk itself is at fault. */
static int mending_judge(struct stripe *s, const struct stripe_fetch *f, uint32_t *cost)
{
	struct mending *m = mending_of(s);
	if (f->rc == -ECANCELED || f->rc == -ETIME)
		return f->rc;
	*cost = CHUNK_LOST;
	m->j->stats.sources_bad++;
	if (f->rc != -EBADMSG && f->rc != -ENOENT && f->rc != -ERANGE)
		return 0;
	struct meta_call c = tenant_call_meta(m->j, &m->request);
	(void)meta_client_block_report(&c, m->block.id, m->block.chunk_block, (uint32_t)f->chunk,
				       m->block.chunks[f->chunk].disk);
	return 0;
}

/* What the plan says will cross, for the first plan: those that follow pay for sources that were bad. */
static void predict(struct mending *m, const struct plan *p)
{
	uint64_t reads = 0, writes = 0;
	for (int i = 0; i < m->look.shape.n; i++) {
		bool read = false;
		for (int r = 0; r < p->n_reads; r++)
			read = read || p->reads[r].chunk == i;
		if (read && rack_crosses(m->j, m->block.chunks[i].disk))
			reads += stored_len(m, i);
	}
	for (int i = 0; i < m->look.bad_count; i++)
		writes += stored_len(m, m->look.bad[i]);
	if (m->repair != NULL)
		m->repair->predicted_bytes += reads + writes;
}

static int mending_plan(struct stripe *s, const uint32_t *cost, struct plan **out)
{
	struct mending *m = mending_of(s);
	int rc = plan_rebuild(m->look.codec, m->look.chunk_len, cost, m->look.bad,
			      m->look.bad_count, out);
	if (rc == 0 && !m->predicted && m->ranges == NULL)
		predict(m, *out);
	m->predicted = true;
	return rc;
}

static int mending_memory(struct stripe *s, uint64_t len, struct stripe_bytes *out)
{
	return chunk_memory(&mending_of(s)->j->fabric, len, out);
}

static const struct stripe_ops mending_ops = {
	.plan = mending_plan,
	.fetch = mending_fetch,
	.judge = mending_judge,
	.memory = mending_memory,
	.release = chunk_release,
};

/* --- the whole -------------------------------------------------------------------------------- */

/* Moves a wanted chunk from the stripe to m->chunk. */
static int chunk_make(struct mending *m, int chunk)
{
	struct stripe_bytes bytes;
	bool computed;
	int rc = stripe_take(&m->stripe, chunk, &bytes, &computed);
	if (rc < 0)
		return rc;
	m->have[chunk] = !computed;
	m->chunk[chunk] = chunk_slice_take(&bytes);
	if (m->ranges != NULL || bytes.len == 0 || is_recorded(m, chunk, bytes.crc))
		return 0;
	log_error("repair_mismatch", "block=%016lx chunk=%d", m->block.id, chunk);
	return -EBADMSG;
}

/* Reads and computes; the wanted chunks are in m->chunk then. */
static int chunks_make(struct mending *m)
{
	int n = m->look.shape.n;
	assert(m->look.bad_count > 0);
	int rc = stripe_init(&m->stripe, &mending_ops, n);
	m->begun = true;
	m->chunk = calloc((size_t)n, sizeof(*m->chunk));
	m->have = calloc((size_t)n, sizeof(*m->have));
	if (rc < 0 || m->chunk == NULL || m->have == NULL)
		return -ENOMEM;
	for (int i = 0; i < n; i++) {
		m->stripe.cost[i] = m->look.cost[i];
		m->stripe.stored[i] = stored_len(m, i);
	}
	uint64_t bytes =
		((uint64_t)m->look.shape.k + (uint64_t)m->look.bad_count) * m->look.chunk_len;
	rc = gate_enter(&m->j->fabric.writes, bytes);
	if (rc < 0)
		return rc;
	m->gate_bytes = bytes;
	rc = stripe_gather(&m->stripe);
	if (rc == 0)
		rc = stripe_compute(&m->stripe);
	for (int i = 0; rc == 0 && i < m->look.bad_count; i++)
		rc = chunk_make(m, m->look.bad[i]);
	return rc;
}

static void mending_fini(struct mending *m)
{
	if (m->begun)
		stripe_fini(&m->stripe);
	for (int i = 0; m->chunk != NULL && i < m->look.shape.n; i++)
		buf_unref(m->chunk[i].buf);
	free(m->chunk);
	free(m->have);
	gate_leave(&m->j->fabric.writes, m->gate_bytes);
	look_fini(&m->look);
}

/* As block_repair; an error also when the record has changed since it was read. */
static int block_repair_once(struct janitor *j, const struct repair_work *w,
			     const struct meta_block *record)
{
	struct arena a;
	arena_init(&a, BLOCK_ARENA);
	AUTO_FREE struct mending *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	m->j = j;
	m->tenant = w->tenant;
	m->pool = w->pool;
	m->repair = w->repair;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &m->request, w->tenant);
	struct meta_call c = tenant_call_meta(j, &m->request);
	int rc = 0;
	if (record != NULL)
		m->block = *record;
	else
		rc = meta_client_block_get(&c, &w->block, 1, &a, &m->block);
	if (rc == 0 && m->block.state == META_BLOCK_OPEN)
		rc = -EAGAIN;
	if (rc == 0 && m->block.state == META_BLOCK_SEALED && m->block.length > 0) {
		rc = look_init(j, &m->block, w->pool != NULL ? w->pool->disk : 0, &m->look);
		bool bad = rc == 0 && m->look.bad_count > 0;
		if (bad)
			rc = chunks_make(m);
		if (bad && rc == 0)
			rc = chunks_put(m);
		mending_fini(m);
	}
	arena_fini(&a);
	return rc;
}

int block_repair(struct janitor *j, const struct repair_work *w)
{
	int rc = -ESTALE;
	if (w->record != NULL)
		rc = block_repair_once(j, w, w->record);
	/* A record that was read earlier may be out of date: then its chunks cannot be read, or its change is refused. */
	bool again = rc < 0 && rc != -ECANCELED && rc != -ETIME && rc != -ENOMEM;
	if (again)
		rc = block_repair_once(j, w, NULL);
	/* The block was deleted, or another janitor was faster: nothing is left to do. */
	return rc == -ENOENT || rc == -ESTALE || rc == -EEXIST ? 0 : rc;
}

int pieces_rebuild(struct janitor *j, uint32_t tenant, const struct meta_block *b, int chunk,
		   const struct store_range *ranges, size_t n, struct janitor_repair *repair,
		   struct slice *out)
{
	if (n == 0 || n > NODE_RANGES_MAX)
		return -E2BIG;
	AUTO_FREE struct mending *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	m->j = j;
	m->tenant = tenant;
	m->block = *b;
	m->repair = repair;
	m->ranges = ranges;
	m->range_count = n;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &m->request, tenant);
	int rc = look_init(j, b, 0, &m->look);
	if (rc < 0)
		return rc;
	m->look.bad[0] = chunk;
	m->look.bad_count = 1;
	m->look.cost[chunk] = CHUNK_LOST;
	m->look.chunk_len = stored_len(m, chunk);
	uint64_t asked = 0;
	for (size_t i = 0; i < n; i++)
		asked += ranges[i].len;
	/* The pool and the record may disagree about the length of the chunk. */
	rc = asked == m->look.chunk_len ? chunks_make(m) : -EBADMSG;
	if (rc == 0) {
		*out = m->chunk[chunk];
		m->chunk[chunk] = (struct slice){0};
	}
	mending_fini(m);
	return rc;
}
