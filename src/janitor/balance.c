// SPDX-License-Identifier: Apache-2.0
/*
 * Rebalancing: misplaced chunks return to the media of their block, chunks that share a rack are spread over more racks,
 * new disks fill up, full disks empty.
 *
 * A chunk is misplaced if it is on a disk of another media than its block: repair found no room, or an operator changed
 * the media of a disk. It goes to the next disk of the block's shuffle that is of the media, unless a rack or node then
 * has more chunks of the block than before and than its code can lose. All other moves are between disks of
 * the block's media, so that no chunk becomes misplaced by them and balancing ends.
 *
 * A chunk that shares its rack with another chunk of its block, because no other rack was available
 * when it was put, goes to the next disk of the block's shuffle in a rack with fewer of them.
 *
 * The disks of a block follow from its id and the map (cluster_choose). When disks are added, the
 * choice of some blocks changes: these are the chunks that a new disk would have got had it been there.
 * So the rules are
 *
 *   1. a chunk on disk D that is not in its block's choice goes to a disk T of the choice that holds no
 *      chunk of the block, if the fill of D exceeds that of T by `spread` of the mean
 *   2. a chunk on a disk whose fill exceeds the mean by three times that goes to the next disk of its
 *      block's shuffle, if the fill of that is below the mean
 *
 * and in both cases D is not emptier than T afterwards, and the block does not get more chunks in T's
 * rack than it had in D's. By rule 1 blocks come to lie where they would be written today: the number of
 * copysets stays small, a chunk moves once for a change of the map, and without a change nothing moves.
 * Rule 2 evens out the effects of chance and deletions. Each move evens out two disks, so balancing ends.
 *
 *   example   8 disks hold 100 GB each, a ninth is added: one of 9 chunks has it in its choice now; these
 *             chunks move, and every disk has 89 GB
 *
 * A move copies the chunk, changes the record and deletes the old chunk. Readers and repair use the old
 * chunk before the change of the record and the new one after it; at that moment both are complete. The
 * record refuses the change if it was changed since it was read, or if the new chunk was swept as an
 * orphan because this janitor was paused; a copy that is left is an orphan.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cluster/choose.h"
#include "code/shape.h"
#include "janitor/impl.h"
#include "node/label.h"
#include "rt/rt.h"

#define COPY_TIMEOUT_NS (60 * NS_PER_S)
#define FAR 3 /* rule 2: multiple of `spread` by which a disk's fill must exceed the mean */
#define BLOCK_ARENA ((size_t)(256 * KIB))

/* --- choosing ------------------------------------------------------------------------------------- */

static double fill_of(const struct janitor *j, uint64_t disk)
{
	const struct cluster_disk *d = cluster_disk(j->fabric.map, disk);
	return d == NULL ? -1 : stats_fill(&j->sums, d);
}

/* Returns the mean fill and deviation of the disks of the block's media. */
static const struct stats_balance *balance_of(const struct janitor *j, const struct meta_block *b)
{
	return &j->balance[media_of(b)];
}

static bool is_misplaced(const struct janitor *j, const struct meta_block *b, size_t i)
{
	const struct cluster_disk *d = cluster_disk(j->fabric.map, b->chunks[i].disk);
	return d != NULL && d->media != media_of(b);
}

static size_t in_rack(const struct janitor *j, const struct meta_block *b, uint32_t rack,
		      size_t but)
{
	size_t n = 0;
	for (size_t i = 0; i < b->chunk_count; i++) {
		const struct cluster_node *node = cluster_node_of(j->fabric.map, b->chunks[i].disk);
		n += i != but && node != NULL && node->rack == rack;
	}
	return n;
}

static size_t on_node(const struct janitor *j, const struct meta_block *b, uint64_t node,
		      size_t but)
{
	size_t n = 0;
	for (size_t i = 0; i < b->chunk_count; i++) {
		const struct cluster_disk *d = cluster_disk(j->fabric.map, b->chunks[i].disk);
		n += i != but && d != NULL && d->node == node;
	}
	return n;
}

/* Returns whether the block is spread over racks and nodes at least as well with chunk i on disk
 * `to`. */
static bool keeps_spread(const struct janitor *j, const struct meta_block *b, size_t i, uint64_t to)
{
	const struct cluster_node *from = cluster_node_of(j->fabric.map, b->chunks[i].disk);
	const struct cluster_node *there = cluster_node_of(j->fabric.map, to);
	if (from == NULL || there == NULL)
		return false;
	return in_rack(j, b, there->rack, i) <= in_rack(j, b, from->rack, i) &&
	       on_node(j, b, there->id, i) <= on_node(j, b, from->id, i);
}

static bool holds(const struct meta_block *b, uint64_t disk)
{
	for (size_t i = 0; i < b->chunk_count; i++)
		if (b->chunks[i].disk == disk)
			return true;
	return false;
}

static bool chosen(const struct cluster_choice *c, uint64_t disk)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->disk[i] == disk)
			return true;
	return false;
}

/* Returns whether disk `from` is still at least as full as disk `to` after the move. Each such
 * move makes the fills more even, so balancing ends. */
static bool evens_out(const struct janitor *j, const struct meta_block *b, uint64_t from,
		      uint64_t to)
{
	const struct cluster_disk *d = cluster_disk(j->fabric.map, from);
	const struct cluster_disk *t = cluster_disk(j->fabric.map, to);
	double chunk = (double)b->chunk_length;
	if (d == NULL || t == NULL || stats_share(d) <= 0 || stats_share(t) <= 0)
		return false;
	return fill_of(j, to) + chunk / stats_share(t) <= fill_of(j, from) - chunk / stats_share(d);
}

/* Returns whether the disks of the block are uneven enough to look for a move. */
static bool is_uneven(const struct janitor *j, const struct meta_block *b)
{
	const struct stats_balance *balance = balance_of(j, b);
	double slack = balance->mean * j->opts.spread_percent / 100;
	double most = 0;
	if (balance->mean <= 0 || j->sums.parts < JANITOR_SHARES)
		return false;
	for (size_t i = 0; i < b->chunk_count; i++)
		if (!is_misplaced(j, b, i))
			most = fmax(most, fill_of(j, b->chunks[i].disk));
	return most > balance->least + slack &&
	       (balance->least < balance->mean - slack || most > balance->mean + FAR * slack);
}

struct move {
	size_t index;
	uint64_t to;
};

static bool move_to_choice(struct janitor *j, const struct meta_block *b,
			   const struct encoding *enc, struct cluster_choice *choice,
			   struct move *out)
{
	double slack = balance_of(j, b)->mean * j->opts.spread_percent / 100;
	struct cluster_want want = {
		.encoding = *enc, .block = b->chunk_block, .media = media_of(b)};
	if (cluster_choose(j->fabric.map, &want, choice) < 0)
		return false;
	for (size_t i = 0; i < b->chunk_count; i++) {
		uint64_t from = b->chunks[i].disk;
		if (from == 0 || b->chunks[i].damaged || chosen(choice, from) ||
		    is_misplaced(j, b, i) || disk_fate(j, from) != DISK_ONLINE)
			continue;
		for (uint32_t k = 0; k < choice->count; k++) {
			uint64_t to = choice->disk[k];
			if (holds(b, to) || fill_of(j, from) <= fill_of(j, to) + slack ||
			    !evens_out(j, b, from, to) || !keeps_spread(j, b, i, to))
				continue;
			*out = (struct move){i, to};
			return true;
		}
	}
	return false;
}

/* Returns the next disk of the block's shuffle that may hold chunk i; 0: no disk is left, or
 * the chunk may not move. */
static uint64_t next_disk(struct janitor *j, const struct meta_block *b, const struct encoding *enc,
			  struct cluster_choice *choice, size_t i)
{
	uint64_t from = b->chunks[i].disk, kept[META_CHUNKS_MAX];
	size_t n = 0;
	if (from == 0 || b->chunks[i].damaged || disk_fate(j, from) != DISK_ONLINE ||
	    b->chunk_count > META_CHUNKS_MAX)
		return 0;
	for (size_t k = 0; k < b->chunk_count; k++)
		if (k != i && b->chunks[k].disk != 0)
			kept[n++] = b->chunks[k].disk;
	struct cluster_want want = {.encoding = *enc,
				    .block = b->chunk_block,
				    .media = media_of(b),
				    .excluded = &from,
				    .excluded_count = 1,
				    .kept = kept,
				    .kept_count = n};
	(void)cluster_choose(j->fabric.map, &want, choice);
	return choice->count > 0 ? choice->disk[0] : 0;
}

/* Returns the next disk of the block's shuffle that may hold chunk i in a move that evens out
 * fills; 0: none. A column of an mlec block stays in its network pool. */
static uint64_t another_disk(struct janitor *j, const struct meta_block *b,
			     const struct encoding *enc, struct cluster_choice *choice, size_t i)
{
	return enc->kind == ENCODING_MLEC ? 0 : next_disk(j, b, enc, choice, i);
}

/* Returns whether misplaced chunk i may go to disk `to`, a disk of the block's media. */
static bool may_return(const struct janitor *j, const struct meta_block *b,
		       const struct encoding *enc, size_t i, uint64_t to)
{
	const struct cluster_node *there = cluster_node_of(j->fabric.map, to);
	if (keeps_spread(j, b, i, to))
		return true;
	return there != NULL && in_rack(j, b, there->rack, i) < cluster_tolerance(enc) &&
	       on_node(j, b, there->id, i) < cluster_tolerance(enc);
}

static bool move_to_media(struct janitor *j, const struct meta_block *b, const struct encoding *enc,
			  struct cluster_choice *choice, struct move *out)
{
	for (size_t i = 0; i < b->chunk_count; i++) {
		uint64_t to = is_misplaced(j, b, i) ? next_disk(j, b, enc, choice, i) : 0;
		if (to != 0 && may_return(j, b, enc, i, to)) {
			*out = (struct move){i, to};
			return true;
		}
	}
	return false;
}

static bool move_to_next(struct janitor *j, const struct meta_block *b, const struct encoding *enc,
			 struct cluster_choice *choice, struct move *out)
{
	double mean = balance_of(j, b)->mean;
	double far = mean * (1 + FAR * j->opts.spread_percent / 100.0);
	for (size_t i = 0; i < b->chunk_count; i++) {
		uint64_t from = b->chunks[i].disk, to;
		if (is_misplaced(j, b, i) || fill_of(j, from) <= far ||
		    (to = another_disk(j, b, enc, choice, i)) == 0)
			continue;
		if (fill_of(j, to) < mean && evens_out(j, b, from, to) &&
		    keeps_spread(j, b, i, to)) {
			*out = (struct move){i, to};
			return true;
		}
	}
	return false;
}

/* Moves a chunk that shares its rack with another chunk of the block to a rack with fewer of
 * them. Each such move leaves fewer chunks in one rack, so balancing ends. */
static bool move_apart(struct janitor *j, const struct meta_block *b, const struct encoding *enc,
		       struct cluster_choice *choice, struct move *out)
{
	for (size_t i = 0; i < b->chunk_count; i++) {
		const struct cluster_node *from = cluster_node_of(j->fabric.map, b->chunks[i].disk);
		size_t together = from == NULL ? 0 : in_rack(j, b, from->rack, i);
		uint64_t to = together > 0 ? another_disk(j, b, enc, choice, i) : 0;
		const struct cluster_node *there =
			to != 0 ? cluster_node_of(j->fabric.map, to) : NULL;
		if (there != NULL && in_rack(j, b, there->rack, i) < together) {
			*out = (struct move){i, to};
			return true;
		}
	}
	return false;
}

static bool move_of(struct janitor *j, const struct meta_block *b, struct move *out)
{
	struct encoding enc;
	AUTO_FREE struct cluster_choice *choice = malloc(sizeof(*choice));
	if (choice == NULL || b->state != META_BLOCK_SEALED || b->length == 0 ||
	    encoding_parse(b->encoding, &enc, NULL, 0) < 0)
		return false;
	if (move_to_media(j, b, &enc, choice, out) || move_apart(j, b, &enc, choice, out))
		return true;
	if (!is_uneven(j, b))
		return false;
	return move_to_choice(j, b, &enc, choice, out) || move_to_next(j, b, &enc, choice, out);
}

bool balance_wants(struct janitor *j, const struct meta_block_at *b)
{
	struct move m;
	return move_of(j, &b->block, &m);
}

/* --- moving ------------------------------------------------------------------------------------ */

struct moving {
	struct janitor *j;
	struct jobs *jobs;
	struct tenant_call request;
	uint32_t tenant;
	struct meta_block block;
	struct move move;
	struct slice data;
};

static struct chunk_id id_of(const struct moving *m)
{
	return (struct chunk_id){m->block.chunk_block, (uint32_t)m->move.index};
}

/* The transfer of one chunk, on any loop of the fabric. */
struct copying {
	struct moving *m;
	uint64_t disk, len;
	uint32_t want; /* checksum that the record has; 0: none */
	int rc;
};

static void copy_there(struct call *c, void *arg)
{
	struct copying *g = arg;
	struct slice *data = &g->m->data;
	struct disk_use u;
	g->rc = disk_begin(c, g->disk, &u);
	if (g->rc < 0)
		return;
	u.node.timeout_ns = COPY_TIMEOUT_NS;
	g->rc = node_get_one(&u.node, g->disk, id_of(g->m), 0, g->len, NULL, data);
	if (g->rc == 0 && (data->len != g->len || (g->want != 0 && data->crc != g->want)))
		g->rc = -EBADMSG;
	disk_end(c, &u, g->rc, 0);
}

static int copy_get(struct moving *m)
{
	assert(m->move.index < m->block.chunk_count && m->data.buf == NULL);
	struct encoding enc;
	struct shape shape;
	const struct meta_chunk *from = &m->block.chunks[m->move.index];
	if (encoding_parse(m->block.encoding, &enc, NULL, 0) < 0 || shape_init(&shape, &enc) < 0 ||
	    m->block.chunk_count != (size_t)shape.n)
		return -EBADMSG;
	uint64_t len = shape_stored_len(&shape, (int)m->move.index, m->block.length);
	uint32_t want = shape.copies ? m->block.crc : from->crc;
	struct copying get = {.m = m, .disk = from->disk, .len = len, .want = want};
	int rc = len == 0 ? 0 : pace_disk(m->j, from->disk, len);
	if (rc < 0 || len == 0)
		return rc;
	rc = fabric_run(&m->request.call, len, copy_there, &get);
	if (rc == 0)
		rc = get.rc;
	struct meta_call c = tenant_call_meta(m->j, &m->request);
	if (rc == -EBADMSG || rc == -ENOENT)
		(void)meta_client_block_report(&c, m->block.id, m->block.chunk_block,
					       (uint32_t)m->move.index, from->disk);
	return rc;
}

static int copy_put(struct moving *m)
{
	assert(m->move.to != 0 && !holds(&m->block, m->move.to));
	struct node_put p = {.data = m->data, .epoch = m->block.epoch};
	bool met;
	label_make(p.label, m->tenant, m->block.id, rt_random_u64());
	return chunk_put(m->j, &m->request.call, m->move.to, id_of(m), &p, &met);
}

static void fill_shift(struct stats *s, uint64_t from, uint64_t to, uint64_t bytes)
{
	assert(from != to);
	struct stats_disk *f = map_get(&s->held, from), *t = map_get(&s->held, to);
	if (f != NULL) {
		f->bytes -= min_u64(f->bytes, bytes);
		f->chunks -= min_u64(f->chunks, 1);
	}
	if (t == NULL) {
		t = calloc(1, sizeof(*t));
		if (t != NULL && map_put(&s->held, to, t) < 0) {
			free(t);
			t = NULL;
		}
	}
	if (t != NULL) {
		t->bytes += bytes;
		t->chunks++;
	}
}

static int chunk_move(struct moving *m)
{
	struct meta_call c = tenant_call_meta(m->j, &m->request);
	uint64_t from = m->block.chunks[m->move.index].disk;
	int rc = copy_get(m);
	if (rc == 0)
		rc = copy_put(m);
	if (rc < 0)
		return rc;
	struct meta_place p = {.chunk_block = m->block.chunk_block,
			       .index = (uint32_t)m->move.index,
			       .crc = m->data.buf != NULL ? m->data.crc
							  : m->block.chunks[m->move.index].crc,
			       .from = from,
			       .to = m->move.to,
			       .release_count = m->block.release_count};
	struct chunk_seen old;
	chunk_see(m->j, from, id_of(m), &old);
	rc = meta_client_block_replace(&c, m->block.id, &p);
	/* If the metadata refused the change or did not answer, the new chunk is either in the
	 * record or an orphan. */
	if (rc == 0) {
		(void)chunk_delete(m->j, from, id_of(m), &old);
		m->j->stats.chunks_balanced++;
		m->j->stats.balanced_bytes += m->data.len;
		fill_shift(&m->j->sums, from, m->move.to, m->block.chunk_length);
		fill_shift(m->jobs->stats, from, m->move.to, m->block.chunk_length);
		m->jobs->changed = true;
	}
	return rc;
}

/* Moves at most one chunk of the block by the rules above. *moved: a chunk was moved, and
 * another call may move more. */
static int block_balance(struct janitor *j, struct jobs *w, const struct job *job, bool *moved)
{
	AUTO_FREE struct moving *m = calloc(1, sizeof(*m));
	struct arena a;
	*moved = false;
	if (m == NULL)
		return -ENOMEM;
	arena_init(&a, BLOCK_ARENA);
	m->j = j;
	m->jobs = w;
	m->tenant = job->tenant;
	AUTO_RT_CONTEXT const struct context *before =
		tenant_call_init(j, &m->request, job->tenant);
	struct meta_call c = tenant_call_meta(j, &m->request);
	int rc = meta_client_block_get(&c, &job->block, 1, &a, &m->block);
	if (rc == 0 && move_of(j, &m->block, &m->move)) {
		assert(m->block.chunks[m->move.index].disk != m->move.to);
		rc = gate_enter(&j->fabric.shared->writes, m->block.chunk_length);
		if (rc == 0) {
			rc = chunk_move(m);
			gate_leave(&j->fabric.shared->writes, m->block.chunk_length);
		}
		*moved = rc == 0;
	}
	buf_unref(m->data.buf);
	arena_fini(&a);
	/* Ignore the error: the block was deleted or changed, or a disk is full or
	 * unreachable. The next survey retries. */
	if (rc < 0 && rc != -ECANCELED && rc != -ENOENT && rc != -ESTALE)
		log_warn("balance", "block=%016lx rc=%d", job->block, rc);
	return rc == -ECANCELED || rc == -ENOMEM ? rc : 0;
}

int balance_run(struct janitor *j, struct jobs *w)
{
	struct job job;
	int rc = 0;
	while (rc == 0 && jobs_next(j, w, &job, &rc)) {
		bool more = true;
		while (rc == 0 && more)
			rc = block_balance(j, w, &job, &more);
	}
	return rc;
}
