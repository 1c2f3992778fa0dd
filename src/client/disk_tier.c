// SPDX-License-Identifier: Apache-2.0
/*
 * The disks as the last tier of block reads.
 *
 * The parts of one read are cut into pieces of a few MiB: this bounds the memory of a piece and the cost of a
 * reconstruction. Several pieces are read at a time, each with hedges, reconstruction and fresh locations (locate.c).
 *
 * Independent ranges are small. Their cost is round trips and disk seeks, not bytes. So the parts on one disk are
 * read together, in the order of their positions, a few MiB per request:
 *
 *     ranges     block 7      block 9      block 7      ...      in the order of the caller
 *     parts      range, disk, chunk, offset                      sorted by disk and position
 *     jobs       disk 3: 200 parts   disk 5: 180 parts   ...     one request each
 *
 * A part that fails in its job, or whose disk is known to be unreachable, is read by itself with hedges,
 * reconstruction and fresh locations (block_fetch). Neighbouring parts of one chunk are then joined to a run that is
 * read at once, with the bytes between them: reconstructing a chunk range by range would cost k reads and one unit of
 * the budget for each range.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "client/engine_impl.h"
#include "client/near.h"
#include "cluster/cluster.h"
#include "code/plan.h"

#define PIECE_BYTES (4 * MIB)
#define PIECES_AT_ONCE 16
#define JOBS_AT_ONCE 16
#define JOB_PARTS 512
#define JOB_BYTES (4 * MIB)
/* timeout of a job's request; then each part is read by itself, with hedges */
#define JOB_TIMEOUT_NS NS_PER_S
#define RUN_BYTES (4 * MIB)        /* length of the longest run */
#define RUN_GAPS_BYTES (512 * KIB) /* the most bytes between the parts of a run */
/* parts of a chunk with this cost or more are read by themselves */
#define COST_SINGLE_MIN 200u
#define COST_JITTER 16u
#define PLACINGS_BYTES ((size_t)(16 * MIB))
#define CANCELLED "the read was cancelled"

static_assert(BLOCK_RANGE_SMALL <= JOB_BYTES, "a part fits into a job");

/* A list of items that several fibers process, and the first error of any item. */
struct work {
	const struct block_read *read;
	void (*one)(struct work *w, size_t i);
	size_t count, next;
	bool stop; /* stop at the first error instead of processing the remaining items */
	int rc;
	char why[FABRIC_ERROR_MAX];
};

static void work_note(struct work *w, int rc, const char *why)
{
	assert(rc < 0);
	if (w->rc != 0)
		return;
	w->rc = rc;
	snprintf(w->why, sizeof(w->why), "%s", why);
}

static void work_fiber(void *arg)
{
	struct work *w = arg;
	while (w->next < w->count && !(w->stop && w->rc != 0) && !rt_cancelled())
		w->one(w, w->next++);
}

/* Processes all items with up to `width` fibers. Returns the first error, with its text in the
 * call. */
static int work_run(struct work *w, size_t width)
{
	assert(w->next == 0 && w->rc == 0 && width > 0);
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 1; i < w->count && i < width; i++)
		if (rt_group_spawn(&g, "read", work_fiber, w) < 0)
			break; /* no memory for another fiber: the fibers that run do the work */
	work_fiber(w);
	rt_group_join(&g);
	if (w->rc == 0 && w->next < w->count)
		work_note(w, -ECANCELED, CANCELLED);
	return w->rc == 0 ? 0 : call_fail(w->read->call, w->rc, "%s", w->why);
}

/* --- parts of one read ------------------------------------------------------------------------ */

struct piece {
	struct block_range *range;
	uint64_t at, len; /* offset and length in the range */
	uint32_t crc;
};

struct pieces {
	struct work work;
	struct piece *list;
};

static void piece_one(struct work *w, size_t i)
{
	struct piece *p = &container_of(w, struct pieces, work)->list[i];
	struct block_range *r = p->range;
	struct call c = *w->read->call;
	struct sink sink = sink_from(&r->sink, p->at);
	int rc = r->rc;
	if (rc == 0)
		rc = block_fetch(&c, r->block, r->off + p->at, p->len, &sink, &p->crc);
	if (rc < 0)
		work_note(w, rc, c.error);
	if (rc < 0 && r->rc == 0)
		r->rc = rc;
}

/* Cuts a range into pieces that end at multiples of PIECE_BYTES in the block. list NULL: only
 * counts them. */
static size_t range_cut(struct block_range *r, struct piece *list)
{
	size_t n = 0;
	for (uint64_t at = 0, len; at < r->len; at += len, n++) {
		len = min_u64(r->len - at, PIECE_BYTES - (r->off + at) % PIECE_BYTES);
		if (list != NULL)
			list[n] = (struct piece){.range = r, .at = at, .len = len};
	}
	return n;
}

static int pieces_cut(struct pieces *k)
{
	const struct block_read *b = k->work.read;
	size_t n = 0;
	for (size_t i = 0; i < b->count; i++)
		n += range_cut(b->ranges[i], NULL);
	k->list = calloc(n + 1, sizeof(*k->list));
	if (k->list == NULL)
		return call_fail(b->call, -ENOMEM, "no memory for a read of %zu pieces", n);
	for (size_t i = 0; i < b->count; i++)
		k->work.count += range_cut(b->ranges[i], k->list + k->work.count);
	assert(k->work.count == n);
	return 0;
}

static int parts_read(const struct block_read *b)
{
	struct pieces k = {.work = {.read = b, .one = piece_one, .stop = true}};
	int rc = pieces_cut(&k);
	if (rc == 0)
		rc = work_run(&k.work, PIECES_AT_ONCE);
	struct piece *p = k.list;
	for (size_t i = 0; i < b->count; i++) {
		struct block_range *r = b->ranges[i];
		r->crc = 0;
		for (; rc == 0 && p < k.list + k.work.count && p->range == r; p++)
			r->crc = crc32c_combine(r->crc, p->crc, p->len);
		block_range_end(b, r, r->rc < 0 ? r->rc : rc, b->call->error);
	}
	free(k.list);
	return rc;
}

/* --- jobs of independent ranges --------------------------------------------------------------- */

struct part {
	struct block_range *range;
	bool near;     /* the node of the disk is asked for an operation on it (near.h) */
	uint64_t disk; /* disk that the part is read from; 0: the part is read by itself */
	/* block 0: several chunks have a piece of the part, or its record is invalid */
	struct chunk_id chunk;
	uint64_t chunk_off;
	const uint8_t *token; /* of the chunk; NULL: there is none */
};

struct job {
	size_t first, count; /* parts [first, first + count) */
	size_t round;        /* index among the jobs of its disk */
};

struct independent {
	struct work work; /* list of work whose items are jobs */
	struct part *parts;
	struct job *jobs;
};

/* The shape of a block that independent ranges are read of. */
struct placing {
	const struct meta_block *block;
	bool valid; /* the record of the block is valid */
	struct shape shape;
	uint64_t chunk_len;
};

/* The blocks of a read, so that the record of each is interpreted once and not for each of its ranges. */
struct placings {
	struct arena arena;
	struct map by_id;      /* block id -> struct placing */
	struct placing single; /* for a block that cannot be added */
};

static void placing_init(struct placing *g, const struct meta_block *b)
{
	struct encoding enc;
	*g = (struct placing){.block = b};
	g->valid = encoding_parse(b->encoding, &enc, NULL, 0) == 0 &&
		   shape_init(&g->shape, &enc) == 0 && b->chunk_count == (size_t)g->shape.n &&
		   b->length > 0;
	if (g->valid)
		g->chunk_len = shape_chunk_len(&g->shape, b->length);
}

/* Returns the placing of a block, valid until the next call. */
static const struct placing *placing_of(struct placings *all, const struct meta_block *b)
{
	struct placing *g = map_get(&all->by_id, b->id);
	if (g != NULL && g->block == b)
		return g;
	bool known = g != NULL; /* by another record of the block */
	g = known ? NULL : arena_alloc(&all->arena, sizeof(*g));
	if (g == NULL || map_put(&all->by_id, b->id, g) < 0)
		g = &all->single;
	placing_init(g, b);
	return g;
}

/* Chooses the disk and chunk of a part, if one chunk has all of it and its cost is low enough. */
static void part_place(const struct fabric *f, struct placings *all, struct part *p)
{
	const struct block_range *range = p->range;
	const struct meta_block *r = range->block;
	const struct placing *g = placing_of(all, r);
	if (!g->valid || range->off >= r->length || range->len > r->length - range->off ||
	    !meta_block_opens(r, range->off, range->len))
		return;
	uint64_t chunk_len = g->chunk_len;
	int first = g->shape.copies
			    ? 0
			    : encoding_data_chunk(&g->shape.net, (int)(range->off / chunk_len));
	int last = g->shape.copies ? g->shape.n - 1 : first;
	p->chunk_off = g->shape.copies ? range->off : range->off % chunk_len;
	if (p->chunk_off + range->len > chunk_len)
		return;
	uint32_t best = CHUNK_LOST;
	for (int i = first; i <= last; i++) {
		const struct meta_chunk *chunk = &r->chunks[i];
		uint32_t cost =
			chunk->disk == 0 || chunk->damaged ? CHUNK_LOST : disk_cost(f, chunk->disk);
		if (g->shape.copies && cost < CHUNK_LOST)
			cost += (uint32_t)(rt_random_u64() % COST_JITTER);
		if (cost >= best)
			continue;
		best = cost;
		p->disk = chunk->disk;
		p->chunk = (struct chunk_id){r->chunk_block, (uint32_t)i};
		p->token = r->tokens != NULL ? r->tokens[i] : NULL;
	}
	if (!g->shape.copies && best >= COST_SINGLE_MIN)
		p->disk = 0;
}

/* Decides whether the part is asked for with its operation, and notes the node that has it. */
static void part_near(const struct fabric *f, struct part *p)
{
	struct terrane_prep *prep = p->range->prep;
	const struct cluster_node *node =
		prep != NULL && p->disk != 0 ? cluster_node_of(f->map, p->disk) : NULL;
	if (node == NULL)
		return;
	prep->node = node->id;
	p->near = prep->form != TERRANE_PREP_RAW;
}

static void parts_place(struct independent *m)
{
	const struct block_read *b = m->work.read;
	struct placings all;
	arena_init(&all.arena, PLACINGS_BYTES);
	map_init(&all.by_id, b->count);
	for (size_t i = 0; i < b->count; i++) {
		assert(b->ranges[i]->len > 0 && b->ranges[i]->len <= BLOCK_RANGE_SMALL);
		m->parts[i].range = b->ranges[i];
		part_place(b->call->fabric, &all, &m->parts[i]);
		part_near(b->call->fabric, &m->parts[i]);
	}
	map_fini(&all.by_id);
	arena_fini(&all.arena);
}

static int part_order(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	if (x->disk != y->disk)
		return x->disk < y->disk ? -1 : 1;
	if (x->near != y->near)
		return x->near ? 1 : -1;
	if (x->chunk.block != y->chunk.block)
		return x->chunk.block < y->chunk.block ? -1 : 1;
	if (x->chunk.index != y->chunk.index)
		return x->chunk.index < y->chunk.index ? -1 : 1;
	return x->chunk_off < y->chunk_off ? -1 : x->chunk_off > y->chunk_off;
}

static int job_order(const void *a, const void *b)
{
	const struct job *x = a, *y = b;
	if (x->round != y->round)
		return x->round < y->round ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorts the parts by position, cuts them into jobs and orders the jobs by round, so that all
 * disks begin at once. */
static int jobs_make(struct independent *m)
{
	const struct block_read *b = m->work.read;
	m->parts = calloc(b->count, sizeof(*m->parts));
	m->jobs = calloc(b->count, sizeof(*m->jobs));
	if (m->parts == NULL || m->jobs == NULL) {
		free(m->parts);
		m->parts = NULL;
		return call_fail(b->call, -ENOMEM, "no memory for a read of %zu ranges", b->count);
	}
	parts_place(m);
	qsort(m->parts, b->count, sizeof(*m->parts), part_order);
	uint64_t bytes = 0;
	for (size_t i = 0; i < b->count; i++) {
		const struct part *p = &m->parts[i];
		struct job *j = m->work.count > 0 ? &m->jobs[m->work.count - 1] : NULL;
		bool same = j != NULL && m->parts[j->first].disk == p->disk;
		/* Parts without a chosen disk get one job per chunk; its runs are read one after
		 * the other. A part of several chunks gets a job of its own. */
		if (same && p->disk == 0)
			same = p->chunk.block != 0 && p[-1].chunk.block == p->chunk.block &&
			       p[-1].chunk.index == p->chunk.index;
		if (same && !p->near && j->count < JOB_PARTS &&
		    bytes + p->range->len <= JOB_BYTES) {
			j->count++;
			bytes += p->range->len;
			continue;
		}
		m->jobs[m->work.count++] =
			(struct job){.first = i, .count = 1, .round = same ? j->round + 1 : 0};
		bytes = p->range->len;
	}
	qsort(m->jobs, m->work.count, sizeof(*m->jobs), job_order);
	return 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

static void part_end(struct work *w, struct part *p, int rc, const char *why)
{
	assert(p->range != NULL);
	if (rc < 0)
		work_note(w, rc, why);
	block_range_end(w->read, p->range, rc, why);
	p->range = NULL; /* the result of the part was reported */
}

static void part_read_single(struct work *w, struct part *p)
{
	struct call c = *w->read->call;
	struct block_range *r = p->range;
	int rc = r->rc;
	if (rc == 0)
		rc = block_fetch(&c, r->block, r->off, r->len, &r->sink, &r->crc);
	part_end(w, p, rc, c.error);
}

/* --- runs ------------------------------------------------------------------------------------- */

/* Parts of a chunk that are read at once, with the bytes between them. */
struct run {
	struct part *parts;
	size_t count;
	uint64_t gaps; /* bytes between the parts */
	struct iovec *iov;
	int iovs;
	uint8_t *gap_memory; /* memory for the bytes between the parts */
};

/* Adds the next part to the run if it follows in the same chunk and the limits of a run allow
 * it. */
static bool run_add(struct run *r)
{
	const struct part *part = &r->parts[r->count];
	const struct block_range *first = r->parts[0].range, *next = part->range;
	const struct block_range *last = r->parts[r->count - 1].range;
	uint64_t end = last->off + last->len;
	bool near = next->block == first->block && part->chunk.block != 0 &&
		    part->chunk.index == r->parts[0].chunk.index && first->rc == 0 &&
		    next->rc == 0 && next->off >= end && next->block->open_count == 0 &&
		    next->off + next->len - first->off <= RUN_BYTES &&
		    r->gaps + (next->off - end) <= RUN_GAPS_BYTES;
	if (near) {
		r->gaps += next->off - end;
		r->count++;
	}
	return near;
}

/* Lists the memory of the run in the order of the chunk: that of the users, and gap_memory
 * between. */
static int run_lay_out(struct run *r)
{
	size_t n = r->count;
	for (size_t i = 0; i < r->count; i++)
		n += (size_t)sink_iov(&r->parts[i].range->sink, 0, r->parts[i].range->len, NULL);
	r->iov = malloc(n * sizeof(*r->iov));
	r->gap_memory = malloc(r->gaps + 1);
	if (r->iov == NULL || r->gap_memory == NULL)
		return -ENOMEM;
	uint64_t at = r->parts[0].range->off, gaps = 0;
	for (size_t i = 0; i < r->count; i++) {
		const struct block_range *p = r->parts[i].range;
		if (p->off > at) {
			r->iov[r->iovs++] = (struct iovec){r->gap_memory + gaps, p->off - at};
			gaps += p->off - at;
		}
		r->iovs += sink_iov(&p->sink, 0, p->len, r->iov + r->iovs);
		at = p->off + p->len;
	}
	assert(gaps == r->gaps && (size_t)r->iovs <= n);
	return 0;
}

/* Sets the checksum of each part, taken of the bytes in its sink. Combined with those of the
 * gaps they must give the checksum of the run. */
static int run_check(struct run *r, uint32_t want)
{
	uint32_t all = 0;
	uint64_t at = r->parts[0].range->off, gaps = 0;
	for (size_t i = 0; i < r->count; i++) {
		struct block_range *p = r->parts[i].range;
		uint64_t gap = p->off - at;
		p->crc = sink_crc(&p->sink, 0, p->len);
		all = crc32c_combine(all, crc32c(0, r->gap_memory + gaps, gap), gap);
		all = crc32c_combine(all, p->crc, p->len);
		gaps += gap;
		at = p->off + p->len;
	}
	assert(gaps == r->gaps);
	return all == want ? 0 : -EBADMSG;
}

/* Reads the run with one request. If that fails each part is read by itself. */
static void run_read(struct work *w, struct run *r)
{
	assert(r->count > 0);
	const struct block_range *first = r->parts[0].range, *last = r->parts[r->count - 1].range;
	struct call c = *w->read->call;
	uint32_t crc = 0;
	int rc = r->count > 1 ? run_lay_out(r) : -EINVAL;
	if (rc == 0) {
		struct sink sink = {.iov = r->iov, .n = r->iovs};
		rc = block_fetch(&c, first->block, first->off, last->off + last->len - first->off,
				 &sink, &crc);
	}
	if (rc == 0)
		rc = run_check(r, crc);
	free(r->iov);
	free(r->gap_memory);
	for (size_t i = 0; i < r->count; i++) {
		if (rc == 0)
			part_end(w, &r->parts[i], 0, "");
		else
			part_read_single(w, &r->parts[i]);
	}
}

/* Joins neighbouring parts to runs and reads these, in their order on the disk. */
static void runs_read(struct work *w, struct part *parts, size_t n)
{
	for (size_t at = 0; at < n && !rt_cancelled();) {
		struct run r = {.parts = parts + at, .count = 1};
		while (at + r.count < n && run_add(&r))
			;
		at += r.count;
		run_read(w, &r);
	}
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* Asks the node of the part's disk for the operation. After any error the part is read as it is stored. */
static void part_ask(struct work *w, struct part *p)
{
	struct call c = *w->read->call;
	struct near_work near = {.range = p->range,
				 .disk = p->disk,
				 .chunk = p->chunk,
				 .off = p->chunk_off,
				 .token = p->token};
	int rc = p->range->rc;
	if (rc == 0)
		rc = fabric_run(&c, p->range->len, near_work, &near);
	if (rc == 0 && near.rc == 0)
		part_end(w, p, 0, "");
	else
		part_read_single(w, p);
}

/* The work of a job on the loop that fetches it. The bytes are received into the user's memory. */
struct job_work {
	struct part *parts;
	size_t count;
	uint64_t bytes;
	struct node_range *ranges; /* count entries; rc 0 after the work: the part has its bytes */
	struct rpc_place *places;  /* memory of the parts, in their order */
	size_t place_count;
};

static void job_work_fini(struct job_work *j)
{
	free(j->ranges);
	free(j->places);
}

/* Lists what a job reads, and the memory for it. */
static int job_work_init(struct job_work *j, struct part *parts, size_t count)
{
	assert(count > 0 && count <= JOB_PARTS);
	*j = (struct job_work){.parts = parts, .count = count};
	size_t places = 0;
	for (size_t i = 0; i < count; i++) {
		j->bytes += parts[i].range->len;
		places += (size_t)sink_iov(&parts[i].range->sink, 0, parts[i].range->len, NULL);
	}
	j->ranges = calloc(count, sizeof(*j->ranges));
	j->places = calloc(places, sizeof(*j->places));
	AUTO_FREE struct iovec *iov = calloc(places, sizeof(*iov));
	if (j->ranges == NULL || j->places == NULL || iov == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct block_range *r = parts[i].range;
		j->ranges[i] = (struct node_range){.id = parts[i].chunk,
						   .off = parts[i].chunk_off,
						   .len = r->len,
						   .token = parts[i].token};
		int n = sink_iov(&r->sink, 0, r->len, iov);
		for (int k = 0; k < n; k++)
			j->places[j->place_count++] =
				(struct rpc_place){.at = iov[k].iov_base, .len = iov[k].iov_len};
	}
	assert(j->place_count == places);
	return 0;
}

static int job_get(struct call *c, const struct job_work *j)
{
	assert(j->count > 0 && j->parts[0].disk != 0);
	struct fabric_stats *st = &c->fabric->shared->stats;
	struct rpc_places into = {.list = j->places, .count = j->place_count};
	struct slice got;
	struct disk_use u;
	uint64_t disk = j->parts[0].disk;
	int rc = disk_begin(c, disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = JOB_TIMEOUT_NS;
	st->chunk_reads += j->count;
	rc = node_get(&u.node, disk, j->ranges, j->count, &into, &got);
	disk_end(c, &u, rc, j->bytes);
	if (rc == 0)
		st->placed_bytes += got.len;
	return rc;
}

/* Fetches the parts of a job, and compares the checksum of each, taken in the user's memory, with the stored one. */
static void job_work(struct call *c, void *arg)
{
	struct job_work *j = arg;
	struct fabric *f = c->fabric;
	int entered = gate_enter(&f->shared->reads, j->bytes);
	int rc = entered < 0 ? entered : job_get(c, j);
	const struct rpc_place *place = j->places;
	for (size_t i = 0; i < j->count; i++) {
		struct node_range *r = &j->ranges[i];
		uint32_t crc = 0;
		for (uint64_t len = 0; len < r->len; len += place->len, place++)
			crc = len == 0 ? place->crc : crc32c_combine(crc, place->crc, place->len);
		if (rc < 0)
			r->rc = rc;
		else if (r->rc == 0 && crc != r->crc)
			r->rc = -EBADMSG;
		if (r->rc == 0)
			budget_earn(&f->shared->budget);
	}
	assert(place == j->places + j->place_count);
	if (entered == 0)
		gate_leave(&f->shared->reads, j->bytes);
}

static void job_one(struct work *w, size_t number)
{
	assert(number < w->count);
	const struct independent *m = container_of(w, struct independent, work);
	const struct job *j = &m->jobs[number];
	struct part *parts = m->parts + j->first;
	struct call c = *w->read->call;
	struct job_work work;
	if (parts[0].near) {
		part_ask(w, &parts[0]);
		return;
	}
	bool asked = job_work_init(&work, parts, j->count) == 0 && parts[0].disk != 0 &&
		     fabric_run(&c, work.bytes, job_work, &work) == 0;
	assert(work.bytes <= JOB_BYTES);
	size_t bad = 0;
	for (size_t i = 0; i < j->count; i++) {
		if (asked && work.ranges[i].rc == 0) {
			parts[i].range->crc = work.ranges[i].crc;
			part_end(w, &parts[i], 0, "");
		} else if (bad++ < i) {
			/* the slot is free: the result of its part was reported */
			parts[bad - 1] = parts[i];
			parts[i].range = NULL;
		}
	}
	job_work_fini(&work);
	runs_read(w, parts, bad);
}

static int independent_read(const struct block_read *b)
{
	struct independent m = {.work = {.read = b, .one = job_one}};
	int rc = jobs_make(&m);
	if (rc == 0)
		rc = work_run(&m.work, JOBS_AT_ONCE);
	for (size_t i = 0; m.parts == NULL && i < b->count; i++)
		block_range_end(b, b->ranges[i], rc, b->call->error);
	for (size_t i = 0; m.parts != NULL && i < b->count; i++) {
		if (m.parts[i].range == NULL)
			continue;
		/* The read was cancelled before the part was begun. */
		block_range_end(b, m.parts[i].range, -ECANCELED, CANCELLED);
		rc = rc == 0 ? call_fail(b->call, -ECANCELED, CANCELLED) : rc;
	}
	free(m.parts);
	free(m.jobs);
	return rc;
}

/* --- the tier --------------------------------------------------------------------------------- */

static int disks_read(struct block_tier *t, const struct block_read *r)
{
	assert(t->below == NULL);
	assert(r->count > 0);
	return r->independent ? independent_read(r) : parts_read(r);
}

static const struct block_tier_ops disks_ops = {.read = disks_read};

void disk_tier_init(struct block_tier *t)
{
	*t = (struct block_tier){.ops = &disks_ops};
}
