// SPDX-License-Identifier: Apache-2.0
/*
 * Making one block whole.
 *
 *   look    which chunks are missing, damaged, on lost disks, or to be moved
 *   read    the cheapest chunks that suffice (code/plan.h), whole; what cannot be read, or does not have its
 *           checksum, counts as lost, is reported, and a new plan uses what has come already
 *   compute and check: inputs against the checksums they came with after they were used, the results by
 *           plan_verify, and against the record's checksum where it has one
 *   put     each result on a disk of cluster_choose, with the other chunks as kept ones; a damaged or missing one
 *           where it is, when its disk is well and no other keeps the block as far apart
 *   record  meta_block_replace: from this moment readers look there; the old chunk is deleted after it
 *
 * Two janitors on the same block choose the same disks: one finds the other's chunk there, and puts its own, of the
 * same bytes, in its place as a whole: what it found may be an old one that somebody is about to delete, and he means
 * that put. Whose record change comes second is told so, and what it put is an orphan unless the record names it:
 * nobody deletes what another may have found. A block that was deleted, laid out anew, or has let a chunk go since it
 * was read, refuses the change (drops in meta.h).
 *
 * Pools. A column of an mlec is a chunk on a pool: here it is read and written whole. What pools.c brings
 * to a pool are ranges of a column, computed from the same ranges of others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/log.h"
#include "cluster/choose.h"
#include "code/health.h"
#include "janitor/rebuild_impl.h"
#include "rt/rt.h"

#define READ_TIMEOUT_NS (30 * NS_PER_S)
#define REPLANS_MAX 64
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

/* --- reading ---------------------------------------------------------------------------------- */

struct source {
	struct mending *m;
	int chunk;
	int rc;
};

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
static bool is_recorded(const struct mending *m, int chunk)
{
	uint32_t want = m->look.shape.copies ? m->block.crc : m->block.chunks[chunk].crc;
	return want == 0 || m->chunk[chunk].crc == want;
}

static int ranges_get(struct mending *m, struct node_call *c, uint64_t disk, int chunk)
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
	int rc = node_get(c, disk, list, n, NULL, &m->chunk[chunk]);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = list[i].rc;
	return rc;
}

static void source_fiber(void *arg)
{
	struct source *s = arg;
	struct mending *m = s->m;
	uint64_t disk = m->block.chunks[s->chunk].disk;
	uint64_t len = stored_len(m, s->chunk);
	struct disk_use u;
	s->rc = pace_disk(m->j, disk, len);
	if (s->rc == 0)
		s->rc = disk_begin(&m->request.call, disk, &u);
	if (s->rc < 0)
		return;
	u.node.timeout_ns = READ_TIMEOUT_NS;
	struct chunk_id id = {m->block.chunk_block, (uint32_t)s->chunk};
	s->rc = m->ranges != NULL
			? ranges_get(m, &u.node, disk, s->chunk)
			: node_get_one(&u.node, disk, id, 0, len, NULL, &m->chunk[s->chunk]);
	if (s->rc == 0 && m->chunk[s->chunk].len != len)
		s->rc = -EPROTO;
	/* Whole by itself, and not what was written. */
	if (s->rc == 0 && m->ranges == NULL && !is_recorded(m, s->chunk))
		s->rc = -EBADMSG;
	disk_end(&m->request.call, &u, s->rc, 0);
	if (s->rc == 0)
		moved_note(m->j, m->repair, disk, len, false);
}

/* Reported for good only when the chunk itself is at fault. */
static void source_bad(struct mending *m, const struct source *s)
{
	m->look.cost[s->chunk] = CHUNK_LOST;
	m->j->stats.sources_bad++;
	buf_unref(m->chunk[s->chunk].buf);
	m->chunk[s->chunk] = (struct slice){0};
	if (s->rc != -EBADMSG && s->rc != -ENOENT && s->rc != -ERANGE)
		return;
	struct meta_call c = tenant_call_meta(m->j, &m->request);
	(void)meta_client_block_report(&c, m->block.id, m->block.chunk_block, (uint32_t)s->chunk,
				       m->block.chunks[s->chunk].disk);
}

/* Reads what the plan wants and is not here. 1: some failed, plan again. */
static int sources_read(struct mending *m)
{
	struct source all[META_CHUNKS_MAX];
	int n = 0;
	struct rt_group g;
	rt_group_init(&g);
	int rc = 0;
	for (int i = 0; rc == 0 && i < m->plan->n_reads; i++) {
		int chunk = m->plan->reads[i].chunk;
		bool again = false;
		for (int k = 0; k < n; k++)
			again = again || all[k].chunk == chunk;
		if (m->have[chunk] || again)
			continue;
		if (stored_len(m, chunk) == 0) {
			m->have[chunk] = true;
			continue;
		}
		all[n] = (struct source){.m = m, .chunk = chunk};
		rc = rt_group_spawn(&g, "source", source_fiber, &all[n]);
		n += rc == 0;
	}
	if (rc < 0)
		rt_group_cancel(&g);
	rt_group_join(&g);
	bool failed = false;
	for (int i = 0; i < n; i++) {
		if (all[i].rc == -ECANCELED || all[i].rc == -ETIME)
			rc = all[i].rc;
		m->have[all[i].chunk] = all[i].rc == 0;
		if (all[i].rc < 0)
			source_bad(m, &all[i]);
		failed = failed || all[i].rc < 0;
	}
	return rc < 0 ? rc : failed ? 1 : 0;
}

/* What the plan says will cross, for the first plan: those that follow pay for sources that were bad. */
static void predict(struct mending *m)
{
	uint64_t reads = 0, writes = 0;
	for (int i = 0; i < m->look.shape.n; i++) {
		bool read = false;
		for (int r = 0; r < m->plan->n_reads; r++)
			read = read || m->plan->reads[r].chunk == i;
		if (read && rack_crosses(m->j, m->block.chunks[i].disk))
			reads += stored_len(m, i);
	}
	for (int i = 0; i < m->look.bad_count; i++)
		writes += stored_len(m, m->look.bad[i]);
	if (m->repair != NULL)
		m->repair->predicted_bytes += reads + writes;
}

static int sources_gather(struct mending *m)
{
	int rc = 1;
	for (int tries = 0; rc == 1 && tries < REPLANS_MAX; tries++) {
		plan_close(m->plan);
		m->plan = NULL;
		rc = plan_rebuild(m->look.codec, m->look.chunk_len, m->look.cost, m->look.bad,
				  m->look.bad_count, &m->plan);
		if (rc == 0 && tries == 0 && m->ranges == NULL)
			predict(m);
		if (rc == 0)
			rc = sources_read(m);
	}
	return rc == 1 ? -ENODATA : rc;
}

/* --- computing -------------------------------------------------------------------------------- */

static int slot_open(struct mending *m, int chunk, bool output)
{
	uint64_t len = stored_len(m, chunk);
	struct slice *s = &m->chunk[chunk];
	if (m->sg[chunk].iov != NULL || len == 0)
		return 0;
	if (output && s->buf == NULL) {
		int rc = rt_pool_get(&m->j->fabric.pool, len, &s->buf);
		if (rc < 0)
			return rc;
		s->offset = 0;
		s->len = len;
		memset(s->buf->data, 0, len);
	}
	if (s->buf == NULL)
		return -EBADMSG;
	m->iov[chunk] = (struct iovec){s->buf->data + s->offset, len};
	m->sg[chunk] = (struct sg){&m->iov[chunk], 1};
	return 0;
}

static bool is_computed(const struct mending *m, int chunk)
{
	return !m->have[chunk] && m->chunk[chunk].buf != NULL;
}

static int check_inputs(const struct mending *m)
{
	for (int i = 0; i < m->look.shape.n; i++) {
		const struct slice *s = &m->chunk[i];
		if (m->have[i] && s->buf != NULL &&
		    crc32c(0, s->buf->data + s->offset, s->len) != s->crc)
			return -EBADMSG;
	}
	return 0;
}

static int check_result(const struct mending *m, int chunk)
{
	if (m->ranges != NULL || stored_len(m, chunk) == 0 || is_recorded(m, chunk))
		return 0;
	log_error("repair_mismatch", "block=%016lx chunk=%d", m->block.id, chunk);
	return -EBADMSG;
}

struct compute {
	struct mending *m;
	int rc;
};

/* Runs on any thread. */
static void compute_run(void *arg)
{
	struct compute *c = arg;
	struct mending *m = c->m;
	c->rc = plan_run(m->plan, m->sg);
	for (int i = 0; c->rc == 0 && i < m->look.shape.n; i++)
		if (is_computed(m, i))
			m->chunk[i].crc = crc32c(0, m->chunk[i].buf->data, m->chunk[i].len);
	if (c->rc == 0)
		c->rc = plan_verify(m->plan, m->sg);
	if (c->rc == 0)
		c->rc = check_inputs(m);
}

static int compute(struct mending *m)
{
	int rc = 0;
	for (int s = 0; rc == 0 && s < m->plan->n_steps; s++) {
		const struct plan_step *step = &m->plan->steps[s];
		for (int i = 0; rc == 0 && i < (int)step->m.rows; i++)
			rc = slot_open(m, step->out[i], true);
	}
	for (int s = 0; rc == 0 && s < m->plan->n_steps; s++) {
		const struct plan_step *step = &m->plan->steps[s];
		for (int i = 0; rc == 0 && i < (int)step->m.cols; i++)
			rc = slot_open(m, step->in[i], false);
	}
	if (rc == 0 && m->plan->n_steps > 0) {
		struct compute c = {.m = m};
		rc = rt_offload(compute_run, &c);
		if (rc == 0)
			rc = c.rc;
	}
	for (int i = 0; rc == 0 && i < m->look.bad_count; i++)
		rc = check_result(m, m->look.bad[i]);
	return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Reads and computes; what was wanted is in m->chunk then. */
static int chunks_make(struct mending *m)
{
	size_t n = (size_t)m->look.shape.n;
	m->chunk = calloc(n, sizeof(*m->chunk));
	m->have = calloc(n, sizeof(*m->have));
	m->iov = calloc(n, sizeof(*m->iov));
	m->sg = calloc(n, sizeof(*m->sg));
	if (m->chunk == NULL || m->have == NULL || m->iov == NULL || m->sg == NULL)
		return -ENOMEM;
	uint64_t bytes =
		((uint64_t)m->look.shape.k + (uint64_t)m->look.bad_count) * m->look.chunk_len;
	int rc = gate_enter(&m->j->fabric.writes, bytes);
	if (rc < 0)
		return rc;
	m->gate_bytes = bytes;
	rc = sources_gather(m);
	return rc == 0 ? compute(m) : rc;
}

static void mending_fini(struct mending *m)
{
	for (int i = 0; m->chunk != NULL && i < m->look.shape.n; i++)
		buf_unref(m->chunk[i].buf);
	free(m->chunk);
	free(m->have);
	free(m->iov);
	free(m->sg);
	plan_close(m->plan);
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
	tenant_call_init(j, &m->request, w->tenant);
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
	tenant_call_init(j, &m->request, tenant);
	int rc = look_init(j, b, 0, &m->look);
	if (rc < 0)
		return rc;
	m->look.bad[0] = chunk;
	m->look.bad_count = 1;
	m->look.cost[chunk] = CHUNK_LOST;
	m->look.chunk_len = stored_len(m, chunk);
	rc = chunks_make(m);
	if (rc == 0) {
		*out = m->chunk[chunk];
		m->chunk[chunk] = (struct slice){0};
	}
	mending_fini(m);
	return rc;
}
