// SPDX-License-Identifier: Apache-2.0
/*
 * Open files and reads.
 *
 * A read is cut at the ends of extents into ranges of blocks (block_tier.h), each with its part of the user's memory.
 * The checksum of the read is combined from those of the ranges.
 *
 * The bytes of a sealed file never change, so its extents are kept with the open file. The extents of a file that is
 * being written are fetched for each read, so that a reader sees all bytes that were acknowledged before.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "client/batch.h"
#include "client/engine_impl.h"
#include "placement/outcome.h"

#define WINDOW_EXTENTS 512 /* extents fetched by one request */
#define ARENA_BYTES (8 * MIB)

struct reader {
	struct efile base;
	bool sealed;
	uint64_t size;
	uint64_t mtime_ns;
	/* All extents of a sealed file with at most WINDOW_EXTENTS of them; else NULL. */
	struct meta_extent *extents;
	size_t extent_count;
	/* reads of a file whose blocks have a placement, not told to the metadata service yet */
	uint64_t reads, read_bytes;
};

static const struct efile_ops reader_ops;

static struct reader *reader_of(struct efile *f)
{
	assert(f->ops == &reader_ops);
	return container_of(f, struct reader, base);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void reader_discard(struct efile *f)
{
	struct reader *r = reader_of(f);
	free(r->extents);
	free(r);
}

static int reader_close(struct call *c, struct efile *f)
{
	const struct reader *r = reader_of(f);
	call_file_used(c, f->id, r->reads, r->read_bytes);
	reader_discard(f);
	return 0;
}

static int reader_stat(struct call *c, struct efile *f, struct terrane_stat *out);

static const struct efile_ops reader_ops = {
	.close = reader_close,
	.discard = reader_discard,
	.stat = reader_stat,
};

static int reader_new(struct call *c, const struct meta_file *file, const struct meta_extent *x,
		      size_t n, struct efile **out)
{
	struct reader *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	r->base = (struct efile){
		.ops = &reader_ops, .engine = call_engine(c), .id = file->id, .dir = file->dir};
	r->sealed = file->sealed;
	r->size = file->size;
	r->mtime_ns = file->mtime_ns;
	if (file->sealed && n == file->extent_count && n > 0) {
		r->extents = malloc(n * sizeof(*x));
		if (r->extents == NULL) {
			free(r);
			return -ENOMEM;
		}
		memcpy(r->extents, x, n * sizeof(*x));
		r->extent_count = n;
	}
	*out = &r->base;
	return 0;
}

int engine_file_open(struct call *c, const char *path, struct efile **out)
{
	struct arena a;
	arena_init(&a, ARENA_BYTES);
	struct meta_opened opened;
	struct meta_call m = call_meta(c);
	int rc = meta_client_open_path(&m, META_ROOT, meta_name(path), WINDOW_EXTENTS, &a, &opened);
	if (rc < 0)
		call_meta_fail(c, &m, rc, path);
	else if (opened.entry.kind != META_FILE)
		rc = call_fail(c, -EISDIR, "%.100s: is a directory", path);
	else
		rc = reader_new(c, &opened.file, opened.extents, opened.extent_count, out);
	arena_fini(&a);
	return rc;
}

int engine_file_open_id(struct call *c, uint64_t id, struct efile **out)
{
	struct arena a;
	arena_init(&a, ARENA_BYTES);
	struct meta_file file;
	struct meta_part part = {.max = WINDOW_EXTENTS};
	struct meta_call m = call_meta(c);
	int rc = meta_client_file_get(&m, id, &part, &a, &file);
	if (rc < 0)
		call_meta_fail(c, &m, rc, "cannot read the file record");
	else
		rc = reader_new(c, &file, part.extents, part.count, out);
	arena_fini(&a);
	return rc;
}

uint64_t engine_file_id(const struct efile *f)
{
	return f->id;
}

bool engine_file_writes(const struct efile *f)
{
	return f->ops->append != NULL;
}

bool efile_extents(const struct efile *f, struct efile_extents *out)
{
	if (f->ops != &reader_ops)
		return false;
	const struct reader *r = container_of(f, struct reader, base);
	*out = (struct efile_extents){r->extents, r->extent_count, r->size};
	return r->sealed && (r->extents != NULL || r->size == 0);
}

/* --- extents ---------------------------------------------------------------------------------- */

/* Consecutive extents of a file and the records of their blocks. */
struct window {
	struct arena arena;
	struct meta_extent *extents;
	size_t count;
	uint64_t start;            /* file offset of the first extent */
	bool last;                 /* the window includes the last extent of the file */
	struct meta_block *blocks; /* one record per extent */
};

static void window_fini(struct window *w)
{
	arena_fini(&w->arena);
}

/* Selects the extents of a sealed file that overlap [off, off + len). */
static void window_of_sealed(const struct reader *r, struct window *w, uint64_t off, uint64_t len)
{
	assert(r->sealed && r->extents != NULL);
	uint64_t start = 0;
	size_t i = 0;
	while (i < r->extent_count && start + r->extents[i].length <= off)
		start += r->extents[i++].length;
	w->start = start;
	w->extents = r->extents + i;
	while (i + w->count < r->extent_count && w->count < WINDOW_EXTENTS && start < off + len)
		start += w->extents[w->count++].length;
	w->last = i + w->count == r->extent_count;
}

static int window_blocks(struct call *c, struct window *w)
{
	if (w->count == 0)
		return 0;
	uint64_t *ids = arena_alloc(&w->arena, w->count * sizeof(*ids));
	w->blocks = arena_alloc(&w->arena, w->count * sizeof(*w->blocks));
	if (ids == NULL || w->blocks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < w->count; i++)
		ids[i] = w->extents[i].block;
	struct meta_call m = call_meta(c);
	int rc = meta_client_block_get(&m, ids, w->count, &w->arena, w->blocks);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, "cannot read the block records of the file");
	for (size_t i = 0; i < w->count; i++) {
		if (w->extents[i].open)
			w->extents[i].length = w->blocks[i].state != 0 ? w->blocks[i].length : 0;
		else if (w->blocks[i].state == 0)
			return call_fail(c, -ENOENT, "block %016llx of the file was deleted",
					 (unsigned long long)ids[i]);
	}
	return 0;
}

/* Loads a window that begins at or before off. The caller calls window_fini, also after an
 * error. */
static int window_load(struct call *c, struct reader *r, uint64_t off, uint64_t len,
		       struct window *w)
{
	memset(w, 0, sizeof(*w));
	arena_init(&w->arena, ARENA_BYTES);
	if (r->sealed && r->size == 0) {
		w->last = true;
		return 0;
	}
	if (r->extents != NULL) {
		window_of_sealed(r, w, off, len);
		return window_blocks(c, w);
	}
	struct meta_file file;
	struct meta_call m = call_meta(c);
	struct meta_part part = {.offset = off, .max = WINDOW_EXTENTS};
	int rc = meta_client_file_get(&m, r->base.id, &part, &w->arena, &file);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, "cannot read the file record");
	w->extents = part.extents;
	w->count = part.count;
	w->start = part.first_offset;
	rc = window_blocks(c, w);
	uint64_t end = w->start;
	for (size_t i = 0; i < w->count; i++)
		end += w->extents[i].length;
	r->sealed = file.sealed;
	w->last = w->count < WINDOW_EXTENTS || end >= file.size;
	r->size = max_u64(w->last ? end : file.size, file.size);
	return rc;
}

int efile_size(struct call *c, uint64_t file, struct meta_file *out, uint64_t *size)
{
	struct arena a;
	arena_init(&a, ARENA_BYTES);
	struct meta_file f;
	struct meta_part part = {.max = 1};
	struct meta_call m = call_meta(c);
	/* An open extent is the last extent of the file, so request the end of the file. */
	int rc = meta_client_file_get(&m, file, &part, &a, &f);
	if (rc == 0 && !f.sealed && f.size > 0) {
		part = (struct meta_part){.offset = f.size, .max = 2};
		rc = meta_client_file_get(&m, file, &part, &a, &f);
	}
	if (rc < 0)
		call_meta_fail(c, &m, rc, "cannot read the file record");
	*size = rc == 0 ? f.size : 0;
	struct meta_block b;
	const struct meta_extent *last =
		rc == 0 && part.count > 0 ? &part.extents[part.count - 1] : NULL;
	if (last != NULL && last->open) {
		rc = meta_client_block_get(&m, &last->block, 1, &a, &b);
		if (rc == 0 && b.state != 0)
			*size += b.length;
		call_meta_fail(c, &m, rc, "cannot read the record of the last block");
	}
	if (rc == 0 && out != NULL)
		*out = f;
	arena_fini(&a);
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Lists the ranges of blocks in the window that overlap [off, off + len). list NULL: only counts
 * them. */
static size_t window_ranges(const struct window *w, uint64_t off, uint64_t len,
			    const struct sink *sink, struct block_range *list)
{
	assert(w->count == 0 || w->blocks != NULL);
	size_t n = 0;
	uint64_t at = w->start;
	for (size_t i = 0; i < w->count && at < off + len; i++) {
		uint64_t from = max_u64(at, off);
		uint64_t to = min_u64(at + w->extents[i].length, off + len);
		if (from < to && list != NULL)
			list[n] = (struct block_range){.block = &w->blocks[i],
						       .off = w->extents[i].offset + (from - at),
						       .len = to - from,
						       .sink = sink_from(sink, from - off)};
		n += from < to;
		at += w->extents[i].length;
	}
	return n;
}

/* Reads the overlap of the window with [off, off + len). Returns its length. */
static int64_t window_read(struct call *c, const struct window *w, uint64_t off, uint64_t len,
			   const struct sink *sink, uint32_t *crc)
{
	size_t n = window_ranges(w, off, len, sink, NULL);
	if (n == 0)
		return 0;
	AUTO_FREE struct block_range *list = calloc(n, sizeof(*list));
	AUTO_FREE struct block_range **ranges = calloc(n, sizeof(*ranges));
	if (list == NULL || ranges == NULL)
		return -ENOMEM;
	(void)window_ranges(w, off, len, sink, list);
	for (size_t i = 0; i < n; i++)
		ranges[i] = &list[i];
	int rc = blocks_read(&(struct block_read){.call = c, .ranges = ranges, .count = n});
	if (rc < 0)
		return rc;
	int64_t got = 0;
	for (size_t i = 0; i < n; i++) {
		*crc = crc32c_combine(*crc, list[i].crc, list[i].len);
		got += (int64_t)list[i].len;
	}
	return got;
}

/* Counts bytes that were read; `first`: the first ones of a read. */
static void read_count(struct reader *r, uint64_t bytes, bool first)
{
	r->reads += first;
	r->read_bytes += bytes;
}

void efile_read_count(struct efile *f, uint64_t bytes)
{
	if (f->ops == &reader_ops)
		read_count(reader_of(f), bytes, true);
}

int64_t engine_preadv(struct call *c, struct efile *f, const struct iovec *iov, int n,
		      uint64_t offset, uint32_t *crc)
{
	*crc = 0;
	if (f->ops->append != NULL)
		return call_fail(c, -EBADF, "the file is open for writing");
	uint64_t len = iov_bytes(iov, n);
	if (n < 0 || len > INT64_MAX || offset > META_FILE_MAX)
		return call_fail(c, -EINVAL,
				 "the range is invalid: its length or offset is too large");
	AUTO_CONTEXT const struct context *context = NULL;
	int rc = context_of_dir(&context, rt_context(), f->dir);
	if (rc < 0)
		return rc;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(context);
	struct reader *r = reader_of(f);
	uint64_t done = 0;
	while (done < len) {
		struct window w;
		int64_t got = window_load(c, r, offset + done, len - done, &w);
		struct sink sink = {.iov = iov, .n = n, .skip = done};
		if (got == 0)
			got = window_read(c, &w, offset + done, len - done, &sink, crc);
		bool last = w.last;
		if (got > 0 && w.blocks[0].placement != META_PLACEMENT_NONE)
			read_count(r, (uint64_t)got, done == 0);
		window_fini(&w);
		if (got < 0)
			return got;
		done += (uint64_t)got;
		if (last || got == 0)
			break;
	}
	c->fabric->shared->stats.read_bytes += done;
	return (int64_t)done;
}

static int reader_stat(struct call *c, struct efile *f, struct terrane_stat *out)
{
	struct reader *r = reader_of(f);
	if (!r->sealed) {
		int rc = engine_stat_id(c, f->id, out);
		if (rc < 0)
			return rc;
	} else {
		*out = (struct terrane_stat){
			.id = f->id,
			.kind = TERRANE_FILE,
			.sealed = true,
			.size = r->size,
			.mtime_ns = r->mtime_ns,
		};
	}
	struct window w;
	int rc = window_load(c, r, 0, 1, &w);
	if (rc == 0 && w.count > 0) {
		memcpy(out->encoding, w.blocks[0].encoding, sizeof(w.blocks[0].encoding));
		out->media = w.blocks[0].media == CLUSTER_MEDIA_FLASH ? TERRANE_MEDIA_FLASH
								      : TERRANE_MEDIA_DISK;
	}
	window_fini(&w);
	return rc;
}

/* --- all kinds of files ----------------------------------------------------------------------- */

int engine_create(struct call *c, const char *path, unsigned flags, const struct terrane_options *o,
		  struct efile **out)
{
	if ((flags & ~(unsigned)(TERRANE_REPLACE | TERRANE_LOG)) != 0)
		return call_fail(c, -EINVAL, "unknown flags");
	struct dir_slot at;
	AUTO_STRBUF struct strbuf features;
	strbuf_init(&features, (size_t)OUTCOME_FEATURES_BYTES * 2);
	bool log = (flags & TERRANE_LOG) != 0;
	int rc = call_placement(c, o);
	if (rc == 0)
		rc = call_placement_features(c, o, &features);
	if (rc < 0)
		return rc;
	rc = log ? dir_slot_find(c, path, &at)
		 : dir_slot_guess(c, path, (flags & TERRANE_REPLACE) == 0, &at);
	if (rc < 0)
		return rc;
	rc = log ? elog_create(c, &at, flags, o, out)
		 : sealed_writer_create(c, path, &at, flags, o, out);
	if (rc == 0)
		call_place_begin(c, (*out)->id, &features);
	return rc;
}

int engine_append_open(struct call *c, const char *path, const struct terrane_options *o,
		       struct efile **out)
{
	struct meta_entry e;
	struct meta_call m = call_meta(c);
	int rc = meta_client_resolve(&m, META_ROOT, meta_name(path), &e);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, path);
	if (e.kind != META_FILE)
		return call_fail(c, -EISDIR, "%.100s: is a directory", path);
	return elog_open(c, &e, o, out);
}

static int not_for_writing(struct call *c)
{
	return call_fail(c, -EBADF, "the file is open for reading only");
}

int engine_append(struct call *c, struct efile *f, const struct iovec *iov, int n,
		  const uint32_t *crc)
{
	if (n < 0 || iov_bytes(iov, n) > INT64_MAX)
		return call_fail(c, -EINVAL, "the length is invalid: too large");
	return f->ops->append == NULL ? not_for_writing(c) : f->ops->append(c, f, iov, n, crc);
}

int engine_flush(struct call *c, struct efile *f)
{
	return f->ops->flush == NULL ? not_for_writing(c) : f->ops->flush(c, f);
}

int engine_file_close(struct call *c, struct efile *f)
{
	assert(f->engine == call_engine(c));
	return f->ops->close(c, f);
}

void engine_file_poison(struct efile *f, int rc)
{
	if (f->ops->poison != NULL)
		f->ops->poison(f, rc);
}

void engine_file_discard(struct efile *f)
{
	f->ops->discard(f);
}

int engine_file_stat(struct call *c, struct efile *f, struct terrane_stat *out)
{
	return f->ops->stat(c, f, out);
}
