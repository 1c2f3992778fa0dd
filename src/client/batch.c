// SPDX-License-Identifier: Apache-2.0
/*
 * Batched reads: many ranges of many files in one call.
 *
 * Small reads cost round trips and disk turns, not bytes. So a batch is turned around: all files
 * are looked up, all their blocks in a few requests, and then everything that one disk has of it is
 * asked for together, in the order in which it lies there, a few MiB at a time:
 *
 *     ranges     a: file 7      b: file 9      c: file 12     ...      as the caller gave them
 *     parts      block, chunk, bytes, disk                             sorted by disk and place
 *     jobs       disk 3: 200 parts   disk 5: 180 parts   ...           one request each
 *
 * A part that fails in its job, or whose disk is known to be away, is read with all that a single read
 * does about it (hedge, rebuild, fresh locations). Neighbours in one chunk are read in one go then, with
 * what lies between them: rebuilding a chunk file by file would cost k reads and a turn of the budget for
 * each. Files that are still written, large ranges and ranges of long files are read by themselves.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "client/batch.h"
#include "code/plan.h"

#define RANGES_AT_ONCE 64
#define JOBS_AT_ONCE 16
#define JOB_PARTS 512
#define JOB_BYTES (4 * MIB)
#define RANGE_BYTES (1 * MIB)   /* larger ones are read by themselves */
#define JOB_TIMEOUT_NS NS_PER_S /* then each part tries by itself, and hedges */
#define RUN_BYTES (4 * MIB)     /* of a chunk, read in one go */
#define RUN_GAPS (512 * KIB)    /* of it, that nobody asked for */
#define WINDOW_RANGES 8192      /* looked at together */
#define ARENA_BYTES (64 * MIB)

struct part {
	size_t range;
	uint64_t block;
	uint64_t off, len; /* in the block */
	uint64_t to;       /* in the range */
	const struct meta_block *record;
	uint64_t disk; /* 0: by itself */
	struct chunk_id chunk;
	uint64_t chunk_off;
	uint32_t crc;
};

struct job {
	size_t first, count; /* of the sorted parts */
	size_t turn;         /* the how many-th of its disk */
};

/* What is known of a range on its way. */
struct state {
	size_t first, count; /* of the parts in their order; count 0: read by itself, or done */
	size_t left;         /* of them, under way */
	bool fast;           /* there are some */
	int rc;              /* why it will not be whole */
};

struct batch {
	struct call *call;
	struct engine_range *ranges; /* of the window */
	size_t count, next;
	void (*done)(void *ctx, struct engine_range *r);
	void *ctx;
	int rc;
	char why[FABRIC_ERROR_MAX];
	struct state *states;
	struct part *parts; /* by range */
	size_t part_count, part_capacity;
	struct part **sorted;
	size_t sorted_count;
	struct job *jobs;
	size_t job_count;
	struct arena arena; /* records of blocks */
	struct map blocks;  /* id -> struct meta_block */
};

/* --- ranges ----------------------------------------------------------------------------------- */

static void batch_note(struct batch *b, int rc, const char *why)
{
	if (b->rc != 0)
		return;
	b->rc = rc;
	snprintf(b->why, sizeof(b->why), "%s", why);
}

static void range_end(struct batch *b, struct engine_range *r, int64_t result, const char *why)
{
	r->result = result;
	if (result < 0)
		batch_note(b, (int)result, why);
	if (b->done != NULL)
		b->done(b->ctx, r);
}

static int range_open(struct call *c, struct engine_range *r, struct efile **out)
{
	*out = r->file;
	if (r->file != NULL)
		return 0;
	if (r->id != 0)
		return engine_file_open_id(c, r->id, out);
	if (r->path != NULL)
		return engine_file_open(c, r->path, out);
	return call_fail(c, -EINVAL, "a range of no file");
}

static int part_add(struct batch *b, const struct part *p)
{
	if (b->part_count == b->part_capacity) {
		size_t capacity = b->part_capacity == 0 ? 256 : 2 * b->part_capacity;
		struct part *more = realloc(b->parts, capacity * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		b->parts = more;
		b->part_capacity = capacity;
	}
	b->parts[b->part_count++] = *p;
	return 0;
}

/* The parts of a range that can go with others. Nothing waits here, so they stand together. */
static int range_parts(struct batch *b, size_t i, const struct efile_extents *x)
{
	const struct engine_range *r = &b->ranges[i];
	struct state *s = &b->states[i];
	uint64_t end = min_u64(r->offset + r->len, x->size);
	uint64_t at = 0;
	s->first = b->part_count;
	for (size_t k = 0; k < x->count && at < end; k++) {
		uint64_t from = max_u64(at, r->offset);
		uint64_t to = min_u64(at + x->extents[k].length, end);
		if (from < to) {
			struct part p = {.range = i,
					 .block = x->extents[k].block,
					 .off = x->extents[k].offset + (from - at),
					 .len = to - from,
					 .to = from - r->offset};
			int rc = part_add(b, &p);
			if (rc < 0) {
				b->part_count = s->first; /* of a range that failed none is read */
				return rc;
			}
		}
		at += x->extents[k].length;
	}
	s->count = b->part_count - s->first;
	s->fast = true;
	return 0;
}

/* Looks a range up. What cannot go with others is read here and now. */
static void range_look(struct batch *b, size_t i)
{
	struct engine_range *r = &b->ranges[i];
	struct call c = *b->call;
	struct efile *f = NULL;
	int64_t rc = range_open(&c, r, &f);
	if (rc < 0) {
		range_end(b, r, rc, c.error);
		return;
	}
	struct efile_extents x;
	bool fast = r->len <= RANGE_BYTES && r->offset <= META_FILE_MAX && efile_extents(f, &x);
	if (fast) {
		rc = range_parts(b, i, &x);
	} else {
		struct iovec iov = {r->buf, r->len};
		rc = engine_preadv(&c, f, &iov, 1, r->offset, &r->crc);
	}
	if (r->file == NULL)
		engine_file_discard(f);
	if (!fast || rc < 0 || b->states[i].count == 0)
		range_end(b, r, rc, c.error);
	if (fast && rc < 0)
		b->states[i] = (struct state){0};
}

static void look_fiber(void *arg)
{
	struct batch *b = arg;
	while (b->next < b->count && !rt_cancelled())
		range_look(b, b->next++);
}

/* --- blocks ----------------------------------------------------------------------------------- */

static int u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static int blocks_page(struct batch *b, const uint64_t *ids, size_t n)
{
	struct meta_block *records = arena_alloc(&b->arena, n * sizeof(*records));
	if (records == NULL)
		return -ENOMEM;
	struct meta_call m = call_meta(b->call);
	int rc = meta_client_block_get(&m, ids, n, &b->arena, records);
	if (rc < 0)
		return call_meta_fail(b->call, &m, rc, "the blocks of the batch");
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (records[i].state != 0)
			rc = map_put(&b->blocks, ids[i], &records[i]);
	return rc;
}

static int blocks_look(struct batch *b)
{
	AUTO_FREE uint64_t *ids = malloc((b->part_count + 1) * sizeof(*ids));
	if (ids == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < b->part_count; i++)
		ids[i] = b->parts[i].block;
	qsort(ids, b->part_count, sizeof(*ids), u64_compare);
	size_t n = 0;
	for (size_t i = 0; i < b->part_count; i++)
		if (n == 0 || ids[n - 1] != ids[i])
			ids[n++] = ids[i];
	int rc = 0;
	for (size_t at = 0; rc == 0 && at < n; at += META_BATCH_MAX)
		rc = blocks_page(b, ids + at, min_u64(META_BATCH_MAX, n - at));
	return rc;
}

/* The disk that has the part, when one chunk has all of it and nothing speaks against it. */
static void part_place(struct batch *b, struct part *p)
{
	p->record = map_get(&b->blocks, p->block);
	struct encoding enc;
	struct shape s;
	const struct meta_block *r = p->record;
	if (r == NULL || encoding_parse(r->encoding, &enc, NULL, 0) < 0 || shape_init(&s, &enc) < 0)
		return;
	if (r->chunk_count != (size_t)s.n || p->off >= r->length || p->len > r->length - p->off)
		return;
	uint64_t chunk_len = shape_chunk_len(&s, r->length);
	int first = s.copies ? 0 : encoding_data_chunk(&s.net, (int)(p->off / chunk_len));
	int last = s.copies ? s.n - 1 : first;
	p->chunk_off = s.copies ? p->off : p->off % chunk_len;
	if (p->chunk_off + p->len > chunk_len)
		return;
	uint32_t best = CHUNK_LOST;
	for (int i = first; i <= last; i++) {
		const struct meta_chunk *chunk = &r->chunks[i];
		uint32_t cost = chunk->disk == 0 || chunk->damaged
					? CHUNK_LOST
					: disk_cost(b->call->fabric, chunk->disk);
		if (s.copies && cost < CHUNK_LOST)
			cost += (uint32_t)(rt_random_u64() % 16);
		if (cost >= best)
			continue;
		best = cost;
		p->disk = chunk->disk;
		p->chunk = (struct chunk_id){r->chunk_block, (uint32_t)i};
	}
	if (!s.copies && best >= 200)
		p->disk = 0; /* worth a plan of its own */
}

/* --- parts ------------------------------------------------------------------------------------ */

/* One part has come, or will not (rc, why). The range is told when nothing of it is under way any more: its
 * memory is the user's again then. */
static void part_end(struct batch *b, const struct part *p, int rc, const char *why)
{
	struct state *s = &b->states[p->range];
	struct engine_range *r = &b->ranges[p->range];
	if (rc < 0 && s->rc == 0) {
		s->rc = rc;
		batch_note(b, rc, why);
	}
	if (--s->left > 0)
		return;
	uint64_t got = 0;
	r->crc = 0;
	for (size_t i = s->first; i < s->first + s->count; i++) {
		r->crc = crc32c_combine(r->crc, b->parts[i].crc, b->parts[i].len);
		got += b->parts[i].len;
	}
	b->call->fabric->stats.read_bytes += s->rc < 0 ? 0 : got;
	s->fast = false;
	range_end(b, r, s->rc < 0 ? s->rc : (int64_t)got, why);
}

static void part_done(struct batch *b, const struct part *p)
{
	part_end(b, p, 0, "");
}

/* By itself. */
static void part_alone(struct batch *b, struct part *p)
{
	struct call c = *b->call;
	struct iovec iov = {(uint8_t *)b->ranges[p->range].buf + p->to, p->len};
	struct sink sink = {.iov = &iov, .n = 1};
	int rc = b->states[p->range].rc; /* for one that has failed already nothing is read */
	if (rc == 0)
		rc = p->record == NULL
			     ? call_fail(&c, -ENOENT, "a block of the file is gone")
			     : stripe_fetch(&c, p->record, p->off, p->len, &sink, &p->crc);
	part_end(b, p, rc, c.error);
}

/* Bytes of the part, fetched with others: to the user's memory, and compared there. */
static bool part_take(struct batch *b, struct part *p, const uint8_t *bytes, uint32_t crc)
{
	uint8_t *to = (uint8_t *)b->ranges[p->range].buf + p->to;
	memcpy(to, bytes, p->len);
	fabric_tamper(b->call->fabric, TAMPER_HANDED_OUT, to, p->len);
	if (crc32c(0, to, p->len) != crc)
		return false;
	p->crc = crc;
	budget_earn(&b->call->fabric->budget);
	return true;
}

/* --- runs ------------------------------------------------------------------------------------- */

/* What of a chunk is read in one go, with all that lies between its parts. */
struct run {
	struct part **parts;
	size_t count;
	uint64_t gaps; /* bytes that nobody asked for */
	struct iovec *iov;
	int iovs;
	uint8_t *waste;
};

/* Takes in one part more, when it lies behind the others and not far from them. */
static bool run_add(struct run *r, struct part *next)
{
	const struct part *first = r->parts[0], *last = r->parts[r->count - 1];
	uint64_t end = last->off + last->len;
	bool near = next->record != NULL && next->record == first->record &&
		    next->chunk.block != 0 && next->chunk.index == last->chunk.index &&
		    next->off >= end && next->off + next->len - first->off <= RUN_BYTES &&
		    r->gaps + (next->off - end) <= RUN_GAPS;
	if (near) {
		r->gaps += next->off - end;
		r->count++;
	}
	return near;
}

/* The users' memory, piece by piece as it lies in the chunk, and some for what is between. */
static int run_lay_out(struct batch *b, struct run *r)
{
	r->iov = malloc(2 * r->count * sizeof(*r->iov));
	r->waste = malloc(r->gaps + 1);
	if (r->iov == NULL || r->waste == NULL)
		return -ENOMEM;
	uint64_t at = r->parts[0]->off, wasted = 0;
	for (size_t i = 0; i < r->count; i++) {
		const struct part *p = r->parts[i];
		if (p->off > at) {
			r->iov[r->iovs++] = (struct iovec){r->waste + wasted, p->off - at};
			wasted += p->off - at;
		}
		uint8_t *to = (uint8_t *)b->ranges[p->range].buf + p->to;
		r->iov[r->iovs++] = (struct iovec){to, p->len};
		at = p->off + p->len;
	}
	return 0;
}

/* Gives each part its checksum, taken where its bytes are now. With what is between they make the run's. */
static int run_check(struct run *r, uint32_t want)
{
	uint32_t all = 0;
	struct part **next = r->parts;
	for (int i = 0; i < r->iovs; i++) {
		const struct iovec *v = &r->iov[i];
		uint32_t crc = crc32c(0, v->iov_base, v->iov_len);
		all = crc32c_combine(all, crc, v->iov_len);
		bool wasted = (uint8_t *)v->iov_base >= r->waste &&
			      (uint8_t *)v->iov_base < r->waste + r->gaps;
		if (!wasted)
			(*next++)->crc = crc;
	}
	return all == want ? 0 : -EBADMSG;
}

/* In one go. Where that fails each stands for itself. */
static void run_read(struct batch *b, struct run *r)
{
	const struct part *first = r->parts[0], *last = r->parts[r->count - 1];
	struct call c = *b->call;
	uint32_t crc = 0;
	int rc = r->count > 1 ? run_lay_out(b, r) : -EINVAL;
	if (rc == 0) {
		struct sink sink = {.iov = r->iov, .n = r->iovs};
		rc = stripe_fetch(&c, first->record, first->off, last->off + last->len - first->off,
				  &sink, &crc);
	}
	if (rc == 0)
		rc = run_check(r, crc);
	free(r->iov);
	free(r->waste);
	for (size_t i = 0; i < r->count; i++) {
		if (rc == 0)
			part_done(b, r->parts[i]);
		else
			part_alone(b, r->parts[i]);
	}
}

/* Parts in their order on the disk. */
static void runs_read(struct batch *b, struct part **parts, size_t n)
{
	for (size_t at = 0; at < n && !rt_cancelled();) {
		struct run r = {.parts = parts + at, .count = 1};
		while (at + r.count < n && run_add(&r, parts[at + r.count]))
			;
		at += r.count;
		run_read(b, &r);
	}
}

/* --- jobs ------------------------------------------------------------------------------------- */

static int part_order(const void *a, const void *b)
{
	const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;
	if (x->disk != y->disk)
		return x->disk < y->disk ? -1 : 1;
	if (x->chunk.block != y->chunk.block)
		return x->chunk.block < y->chunk.block ? -1 : 1;
	if (x->chunk.index != y->chunk.index)
		return x->chunk.index < y->chunk.index ? -1 : 1;
	return x->chunk_off < y->chunk_off ? -1 : x->chunk_off > y->chunk_off;
}

static int job_order(const void *a, const void *b)
{
	const struct job *x = a, *y = b;
	if (x->turn != y->turn)
		return x->turn < y->turn ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* Cuts the sorted parts into jobs, so that all disks begin at once. */
static int jobs_make(struct batch *b)
{
	b->sorted = malloc((b->part_count + 1) * sizeof(*b->sorted));
	b->jobs = calloc(b->part_count + 1, sizeof(*b->jobs));
	if (b->sorted == NULL || b->jobs == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < b->part_count; i++) {
		part_place(b, &b->parts[i]);
		b->sorted[b->sorted_count++] = &b->parts[i];
	}
	qsort(b->sorted, b->sorted_count, sizeof(struct part *), part_order);
	uint64_t bytes = 0;
	for (size_t i = 0; i < b->sorted_count; i++) {
		const struct part *p = b->sorted[i];
		struct job *j = b->job_count > 0 ? &b->jobs[b->job_count - 1] : NULL;
		bool same = j != NULL && b->sorted[j->first]->disk == p->disk;
		/* Of no disk: a job for each chunk, whose runs are read one after the other. */
		if (same && p->disk == 0)
			same = b->sorted[i - 1]->chunk.block == p->chunk.block &&
			       b->sorted[i - 1]->chunk.index == p->chunk.index;
		if (same && j->count < JOB_PARTS && bytes + p->len <= JOB_BYTES) {
			j->count++;
			bytes += p->len;
			continue;
		}
		b->jobs[b->job_count++] =
			(struct job){.first = i, .count = 1, .turn = same ? j->turn + 1 : 0};
		bytes = p->len;
	}
	qsort(b->jobs, b->job_count, sizeof(*b->jobs), job_order);
	return 0;
}

static int job_get(struct batch *b, const struct job *j, struct node_range *ranges,
		   struct slice *got)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < j->count; i++) {
		const struct part *p = b->sorted[j->first + i];
		ranges[i] = (struct node_range){.id = p->chunk, .off = p->chunk_off, .len = p->len};
		bytes += p->len;
	}
	struct disk_use u;
	uint64_t disk = b->sorted[j->first]->disk;
	struct call c = *b->call;
	int rc = disk_begin(&c, disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = JOB_TIMEOUT_NS;
	c.fabric->stats.chunk_reads += j->count;
	rc = node_get(&u.node, disk, ranges, j->count, NULL, got);
	disk_end(&c, &u, rc, bytes);
	if (rc == 0 && got->buf != NULL)
		fabric_tamper(c.fabric, TAMPER_RECEIVED, got->buf->data + got->offset, bytes);
	return rc;
}

static void job_run(struct batch *b, const struct job *j)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < j->count; i++)
		bytes += b->sorted[j->first + i]->len;
	AUTO_FREE struct node_range *ranges = calloc(j->count + 1, sizeof(*ranges));
	struct slice got = {0};
	bool asked = b->sorted[j->first]->disk != 0 && ranges != NULL &&
		     gate_enter(&b->call->fabric->reads, bytes) == 0;
	bool here = asked && job_get(b, j, ranges, &got) == 0 && got.buf != NULL;
	uint64_t at = 0;
	size_t bad = 0;
	for (size_t i = 0; i < j->count; i++) {
		struct part *p = b->sorted[j->first + i];
		bool well = here && ranges[i].rc == 0 &&
			    part_take(b, p, got.buf->data + got.offset + at, ranges[i].crc);
		at += p->len;
		if (well)
			part_done(b, p);
		else
			b->sorted[j->first + bad++] = p; /* those before it are done with */
	}
	buf_unref(got.buf);
	if (asked)
		gate_leave(&b->call->fabric->reads, bytes);
	runs_read(b, &b->sorted[j->first], bad);
}

static void job_fiber(void *arg)
{
	struct batch *b = arg;
	while (b->next < b->job_count && !rt_cancelled())
		job_run(b, &b->jobs[b->next++]);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void spread(struct batch *b, void (*fn)(void *), size_t work, size_t width)
{
	struct rt_group g;
	rt_group_init(&g);
	b->next = 0;
	for (size_t i = 1; i < work && i < width; i++)
		if (rt_group_spawn(&g, "batch", fn, b) < 0)
			break; /* fewer will do */
	fn(b);
	rt_group_join(&g);
}

static int window_run(struct batch *b)
{
	b->states = calloc(b->count, sizeof(*b->states));
	if (b->states == NULL)
		return -ENOMEM;
	spread(b, look_fiber, b->count, RANGES_AT_ONCE);
	size_t looked = b->next;
	int rc = b->part_count > 0 ? blocks_look(b) : 0;
	if (rc == 0)
		rc = jobs_make(b);
	for (size_t i = 0; i < looked; i++)
		b->states[i].left = b->states[i].count;
	if (rc == 0)
		spread(b, job_fiber, b->job_count, JOBS_AT_ONCE);
	/* What was not come to: the batch was given up. */
	int late = rc < 0 ? rc : -ECANCELED;
	for (size_t i = 0; i < b->count; i++)
		if (i >= looked || (b->states[i].fast && b->states[i].count > 0))
			range_end(b, &b->ranges[i], late, b->call->error);
	return rc;
}

static void window_free(struct batch *b)
{
	free(b->states);
	free(b->parts);
	free(b->sorted);
	free(b->jobs);
	map_fini(&b->blocks);
	arena_fini(&b->arena);
}

int engine_read_batch(struct call *c, struct engine_range *ranges, size_t n,
		      void (*done)(void *ctx, struct engine_range *r), void *ctx)
{
	int rc = 0;
	for (size_t at = 0; at < n; at += WINDOW_RANGES) {
		struct batch b = {.call = c,
				  .ranges = ranges + at,
				  .count = min_u64(WINDOW_RANGES, n - at),
				  .done = done,
				  .ctx = ctx,
				  .rc = rc};
		arena_init(&b.arena, ARENA_BYTES);
		map_init(&b.blocks, (size_t)1 << 20);
		(void)window_run(&b);
		if (b.rc < 0 && rc == 0)
			rc = call_fail(c, b.rc, "%s", b.why);
		window_free(&b);
	}
	return rc;
}
