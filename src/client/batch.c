// SPDX-License-Identifier: Apache-2.0
/*
 * Batched reads: many ranges of many files in one call.
 *
 * The files are looked up, many in one request (batch_open.c), then the block records that are still missing. Then all ranges of blocks are read together as
 * independent ranges (block_tier.h), which the disk tier serves with few requests.
 *
 *     ranges     a: file 7        b: file 9      c: file 12     ...      in the order of the caller
 *     parts      block 1, 2       block 1        block 5                 ranges of blocks
 *
 * Files that are being written, large ranges, and ranges of files with many extents are opened and read one by one.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/hash.h"
#include "client/batch.h"
#include "client/near.h"

#define RANGES_AT_ONCE 64
#define RANGE_BYTES BLOCK_RANGE_SMALL /* larger ranges are read one by one */
#define WINDOW_RANGES 8192            /* number of ranges that are processed together */
#define ARENA_BYTES (64 * MIB)

/* The bytes of one block that a range of the batch needs. */
struct part {
	/* range of the block to read; its block is NULL if the block was deleted */
	struct block_range range;
	struct iovec iov;
	size_t owner;   /* index of the batch's range that the part belongs to */
	uint64_t block; /* id of the block */
};

/* The state of a range while it is read. */
struct range_state {
	/* the range's parts are [first, first + count); count 0: the range is read by itself
	 * or has ended */
	size_t first, count;
	size_t left;             /* number of parts that have not ended */
	struct batch_file *file; /* file of a range that names one by id or path; NULL: none */
	bool resolved;           /* the range has its parts, or was read by itself */
	bool batched;            /* the range is read as parts, together with other ranges */
	int rc;                  /* the first error of a part */
};

struct batch {
	struct call *call;
	struct engine_range *ranges; /* ranges of the current window */
	size_t count, next;
	void (*done)(void *ctx, struct engine_range *r);
	void *ctx;
	int rc;
	char why[FABRIC_ERROR_MAX];
	struct range_state *states;
	struct part *parts; /* parts of all ranges, in the order of the ranges */
	size_t part_count, part_capacity;
	struct batch_file *files; /* files that ranges name by id or path, each once */
	size_t file_count;
	struct arena arena; /* memory of the block records */
	struct map blocks;  /* block id -> struct meta_block */
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
	else if (r->prep != NULL && r->prep->got == TERRANE_PREP_RAW)
		near_read(r->prep, (uint64_t)result, r->crc);
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
	return call_fail(c, -EINVAL, "a range names no file");
}

static int part_add(struct batch *b, const struct part *p)
{
	assert(p->owner < b->count);
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

/* Adds the parts of a range. Does not wait, so the parts of a range are consecutive. */
static int range_parts(struct batch *b, size_t i, const struct efile_extents *x)
{
	const struct engine_range *r = &b->ranges[i];
	struct range_state *s = &b->states[i];
	uint64_t end = min_u64(r->offset + r->len, x->size);
	uint64_t at = 0;
	assert(s->count == 0 && !s->batched); /* a range is resolved once */
	s->first = b->part_count;
	for (size_t k = 0; k < x->count && at < end; k++) {
		uint64_t from = max_u64(at, r->offset);
		uint64_t to = min_u64(at + x->extents[k].length, end);
		if (from < to) {
			struct part p = {.range = {.off = x->extents[k].offset + (from - at),
						   .len = to - from},
					 .iov = {(uint8_t *)r->buf + (from - r->offset), to - from},
					 .owner = i,
					 .block = x->extents[k].block};
			int rc = part_add(b, &p);
			if (rc < 0) {
				b->part_count = s->first; /* parts of a failed range are not read */
				return rc;
			}
		}
		at += x->extents[k].length;
	}
	s->count = b->part_count - s->first;
	s->batched = true;
	if (s->count == 1) {
		struct block_range *whole = &b->parts[s->first].range;
		whole->prep = r->prep;
		whole->sha256 = whole->len == r->len ? r->sha256 : NULL;
	}
	return 0;
}

/* Looks up a range and adds its parts. A range that cannot be batched is read here. */
static void range_resolve(struct batch *b, size_t i)
{
	struct engine_range *r = &b->ranges[i];
	struct call c = *b->call;
	struct efile *f = NULL;
	b->states[i].resolved = true;
	int64_t rc = range_open(&c, r, &f);
	if (rc < 0) {
		range_end(b, r, rc, c.error);
		return;
	}
	struct efile_extents x;
	bool batched = r->len <= RANGE_BYTES && r->offset <= META_FILE_MAX && efile_extents(f, &x);
	if (batched) {
		rc = range_parts(b, i, &x);
	} else {
		struct iovec iov = {r->buf, r->len};
		rc = engine_preadv(&c, f, &iov, 1, r->offset, &r->crc);
	}
	if (r->file == NULL)
		(void)engine_file_close(&c, f);
	if (!batched || rc < 0 || b->states[i].count == 0)
		range_end(b, r, rc, c.error);
	if (batched && rc < 0)
		b->states[i] = (struct range_state){.resolved = true};
}

static void resolve_fiber(void *arg)
{
	struct batch *b = arg;
	while (b->next < b->count && !rt_cancelled()) {
		size_t i = b->next++;
		if (!b->states[i].resolved)
			range_resolve(b, i);
	}
}

/* --- files ------------------------------------------------------------------------------------ */

/* Sets *out to the file of that name, adding it if it is new. */
static int file_of(struct batch *b, struct map *known, const struct engine_range *r,
		   struct batch_file **out)
{
	struct meta_file_name name = {.id = r->id};
	if (r->id == 0)
		name.path = meta_name(r->path);
	uint64_t key = r->id != 0 ? r->id : hash64(name.path.text, name.path.len, 1);
	*out = map_get(known, key);
	bool same = *out != NULL && (*out)->name.id == name.id &&
		    (*out)->name.path.len == name.path.len &&
		    (name.id != 0 ||
		     memcmp((*out)->name.path.text, name.path.text, name.path.len) == 0);
	if (same)
		return 0;
	/* Two names have the same key: the second is not in the map and may be added more than once. */
	bool hidden = *out != NULL;
	assert(b->file_count < b->count); /* at most one file for each range */
	*out = &b->files[b->file_count++];
	**out = (struct batch_file){.name = name};
	return hidden ? 0 : map_put(known, key, *out);
}

/* Opens the files that ranges name by id or path. */
static int files_open(struct batch *b)
{
	struct map known;
	int rc = 0;
	b->files = calloc(b->count, sizeof(*b->files));
	if (b->files == NULL)
		return -ENOMEM;
	map_init(&known, b->count);
	for (size_t i = 0; rc == 0 && i < b->count; i++) {
		const struct engine_range *r = &b->ranges[i];
		if (r->file == NULL && (r->id != 0 || r->path != NULL))
			rc = file_of(b, &known, r, &b->states[i].file);
	}
	map_fini(&known);
	if (rc == 0 && b->file_count > 0)
		batch_files_open(b->call, &b->arena, &b->blocks, b->files, b->file_count);
	return rc;
}

/* Adds the parts of a range whose file is open or known, or ends the range with the error of the lookup. Does not
 * wait. */
static void range_quick(struct batch *b, size_t i)
{
	struct engine_range *r = &b->ranges[i];
	struct range_state *s = &b->states[i];
	struct efile_extents x;
	if (s->file != NULL && s->file->rc < 0) {
		s->resolved = true;
		range_end(b, r, s->file->rc, "cannot look up the files of the batch");
		return;
	}
	if (r->len > RANGE_BYTES || r->offset > META_FILE_MAX)
		return;
	if (s->file != NULL && s->file->known)
		x = s->file->extents;
	else if (r->file == NULL || !efile_extents(r->file, &x))
		return;
	s->resolved = true;
	int rc = range_parts(b, i, &x);
	if (rc < 0 || s->count == 0)
		range_end(b, r, rc, err_text(rc));
	if (rc < 0)
		*s = (struct range_state){.resolved = true};
}

/* --- blocks ----------------------------------------------------------------------------------- */

static int u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static int blocks_page(struct batch *b, const uint64_t *ids, size_t n)
{
	assert(n > 0 && n <= META_BATCH_MAX);
	struct meta_block *records = arena_alloc(&b->arena, n * sizeof(*records));
	if (records == NULL)
		return -ENOMEM;
	struct meta_call m = call_meta(b->call);
	int rc = meta_client_block_get(&m, ids, n, &b->arena, records);
	if (rc < 0)
		return call_meta_fail(b->call, &m, rc,
				      "cannot read the block records of the batch");
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (records[i].state != 0)
			rc = map_put(&b->blocks, ids[i], &records[i]);
	return rc;
}

static int blocks_resolve(struct batch *b)
{
	AUTO_FREE uint64_t *ids = malloc((b->part_count + 1) * sizeof(*ids));
	if (ids == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < b->part_count; i++)
		ids[i] = b->parts[i].block;
	qsort(ids, b->part_count, sizeof(*ids), u64_compare);
	size_t n = 0;
	for (size_t i = 0; i < b->part_count; i++)
		if ((n == 0 || ids[n - 1] != ids[i]) && map_get(&b->blocks, ids[i]) == NULL)
			ids[n++] = ids[i];
	int rc = 0;
	for (size_t at = 0; rc == 0 && at < n; at += META_BATCH_MAX)
		rc = blocks_page(b, ids + at, min_u64(META_BATCH_MAX, n - at));
	return rc;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Counts the read of a range whose blocks have a placement. */
static void placed_count(struct batch *b, size_t i, uint64_t bytes)
{
	const struct range_state *s = &b->states[i];
	const struct meta_block *block = b->parts[s->first].range.block;
	if (block == NULL || block->placement == META_PLACEMENT_NONE)
		return;
	if (b->ranges[i].file != NULL) {
		efile_read_count(b->ranges[i].file, bytes);
	} else if (s->file != NULL) {
		s->file->reads++;
		s->file->read_bytes += bytes;
	}
}

/* Notes the end of a part. Its range ends after the last part: only then does nothing write to the
 * user's memory. After an error the parts that have not begun are skipped. */
static void part_done(void *ctx, struct block_range *range, const char *why)
{
	struct batch *b = ctx;
	const struct part *p = container_of(range, struct part, range);
	struct range_state *s = &b->states[p->owner];
	struct engine_range *r = &b->ranges[p->owner];
	assert(s->left > 0);
	if (range->rc < 0 && s->rc == 0) {
		s->rc = range->rc;
		batch_note(b, range->rc, why);
		for (size_t i = s->first; i < s->first + s->count; i++)
			b->parts[i].range.rc = range->rc;
	}
	if (--s->left > 0)
		return;
	uint64_t got = 0;
	r->crc = 0;
	for (size_t i = s->first; i < s->first + s->count; i++) {
		const struct block_range *part = &b->parts[i].range;
		r->crc = crc32c_combine(r->crc, part->crc, near_bytes(part));
		got += near_bytes(part);
	}
	b->call->fabric->shared->stats.read_bytes += s->rc < 0 ? 0 : got;
	s->batched = false;
	if (s->rc == 0)
		placed_count(b, p->owner, got);
	range_end(b, r, s->rc < 0 ? s->rc : (int64_t)got, why);
}

static int parts_read(struct batch *b)
{
	AUTO_FREE struct block_range **ranges = calloc(b->part_count + 1, sizeof(*ranges));
	struct call c = *b->call;
	struct block_read read = {
		.call = &c, .ranges = ranges, .independent = true, .done = part_done, .ctx = b};
	if (ranges == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < b->part_count; i++) {
		struct part *p = &b->parts[i];
		p->range.block = map_get(&b->blocks, p->block);
		p->range.sink = (struct sink){.iov = &p->iov, .n = 1};
		if (p->range.block != NULL)
			ranges[read.count++] = &p->range;
		else
			block_range_end(&read, &p->range, -ENOENT,
					"a block of the file was deleted");
	}
	/* part_done handles the error of each part. */
	(void)blocks_read(&read);
	return 0;
}

/* --- the batch -------------------------------------------------------------------------------- */

/* Prepares the ranges with an operation, and ends those whose operation is invalid. */
static void preps_begin(struct batch *b)
{
	for (size_t i = 0; i < b->count; i++) {
		struct engine_range *r = &b->ranges[i];
		if (r->prep == NULL)
			continue;
		near_clear(r->prep);
		if (near_valid(r->prep))
			continue;
		b->states[i].resolved = true;
		range_end(b, r, -EINVAL, "the operation of a range has values out of range");
	}
}

static void ranges_resolve(struct batch *b)
{
	struct rt_group g;
	size_t waiting = 0;
	for (size_t i = 0; i < b->count; i++) {
		if (!b->states[i].resolved)
			range_quick(b, i);
		waiting += !b->states[i].resolved;
	}
	if (waiting == 0)
		return;
	rt_group_init(&g);
	b->next = 0;
	for (size_t i = 1; i < waiting && i < RANGES_AT_ONCE; i++)
		if (rt_group_spawn(&g, "batch", resolve_fiber, b) < 0)
			break; /* no memory for another fiber: the fibers that run do the work */
	resolve_fiber(b);
	rt_group_join(&g);
}

static int window_run(struct batch *b)
{
	assert(b->count > 0 && b->count <= WINDOW_RANGES);
	b->states = calloc(b->count, sizeof(*b->states));
	if (b->states == NULL) {
		for (size_t i = 0; i < b->count; i++)
			range_end(b, &b->ranges[i], -ENOMEM, err_text(-ENOMEM));
		return -ENOMEM;
	}
	preps_begin(b);
	int rc = files_open(b);
	if (rc == 0)
		ranges_resolve(b);
	if (rc == 0 && b->part_count > 0)
		rc = blocks_resolve(b);
	for (size_t i = 0; i < b->count; i++)
		b->states[i].left = b->states[i].count;
	if (rc == 0)
		rc = parts_read(b);
	/* End the ranges that were not read because the batch failed or was cancelled. */
	int late = rc < 0 ? rc : -ECANCELED;
	for (size_t i = 0; i < b->count; i++)
		if (!b->states[i].resolved || (b->states[i].batched && b->states[i].count > 0))
			range_end(b, &b->ranges[i], late, b->call->error);
	for (size_t i = 0; i < b->file_count; i++)
		call_file_used(b->call, b->files[i].id, b->files[i].reads, b->files[i].read_bytes);
	return rc;
}

static void window_free(struct batch *b)
{
	free(b->states);
	free(b->files);
	free(b->parts);
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
