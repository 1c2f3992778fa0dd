// SPDX-License-Identifier: Apache-2.0
/*
 * Compaction: copies the bytes that files still use of shared blocks to one new block.
 *
 *   gather   finds the owners of each block, and their extents in it
 *   copy     copies those bytes, each piece once even if several files share it, to a new block that has all those
 *            files as owners
 *   remap    changes each file's extent, if it is still the gathered one: one transaction on the file
 *
 * The old blocks are not changed. Readers that hold a file's old extents read the old blocks until the grace period
 * ends. The collector finds that no file has an extent there any more and deletes them. If a file was deleted or
 * changed since gather, its remap is refused; the collector finds that the file uses nothing of the new block. The
 * same holds if compaction stops at any point.
 *
 * Files that are being written, that are removed, or that have more than FILE_EXTENTS_MAX extents are skipped: they
 * keep their blocks.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "client/engine_impl.h"

#define OWNERS_PAGE 256
#define EXTENTS_PAGE 64
#define FILE_EXTENTS_MAX 1024
#define PIECES_MAX 65536

/* An extent of a file that moves to the new block. */
struct piece {
	uint64_t file;
	uint64_t offset; /* offset in the file in bytes */
	struct meta_extent was;
	uint64_t at; /* offset in the new block */
};

struct compaction {
	struct call *call;
	struct piece *piece;
	size_t count, cap;
	const struct meta_block *block; /* records of the n blocks to compact */
	size_t n;
	struct shape shape;
	uint64_t bytes; /* length of the new block */
	struct engine_compacted *out;
};

static int piece_add(struct compaction *k, const struct piece *p)
{
	assert(k->count <= k->cap);
	if (k->count == k->cap) {
		size_t cap = k->cap == 0 ? 256 : k->cap * 2;
		struct piece *all = cap > PIECES_MAX ? NULL : realloc(k->piece, cap * sizeof(*all));
		if (all == NULL)
			return cap > PIECES_MAX ? -EFBIG : -ENOMEM;
		k->piece = all;
		k->cap = cap;
	}
	k->piece[k->count++] = *p;
	return 0;
}

/* --- gather ------------------------------------------------------------------------------------- */

static int gather_file(struct compaction *k, uint64_t block, uint64_t file)
{
	int rc = 0;
	uint64_t at = 0;
	for (bool more = true; rc == 0 && more;) {
		struct arena a;
		struct meta_file f;
		struct meta_part part = {.offset = at, .max = EXTENTS_PAGE};
		struct meta_call m = call_meta(k->call);
		arena_init(&a, MIB);
		rc = meta_client_file_get(&m, file, &part, &a, &f);
		bool skip =
			rc == 0 && (f.removed || !f.sealed || f.extent_count > FILE_EXTENTS_MAX);
		at = part.first_offset;
		for (size_t i = 0; rc == 0 && !skip && i < part.count; i++) {
			const struct meta_extent *x = part.extents;
			struct piece p = {.file = file, .offset = at, .was = x[i]};
			at += x[i].length;
			if (x[i].block == block && !x[i].open)
				rc = piece_add(k, &p);
		}
		more = rc == 0 && !skip && part.count == EXTENTS_PAGE && at < f.size;
		arena_fini(&a);
	}
	return rc == -ENOENT ? 0 : rc;
}

static int gather_block(struct compaction *k, uint64_t block)
{
	AUTO_FREE struct meta_owner *owners = calloc(OWNERS_PAGE, sizeof(*owners));
	uint64_t after = 0;
	int64_t n = owners == NULL ? -ENOMEM : OWNERS_PAGE;
	while (n == OWNERS_PAGE) {
		struct meta_call m = call_meta(k->call);
		n = meta_client_block_owners(&m, block, after, owners, OWNERS_PAGE);
		for (int64_t i = 0; i < n; i++) {
			int rc = gather_file(k, block, owners[i].file);
			if (rc < 0)
				return rc;
			after = owners[i].file;
		}
	}
	return n < 0 ? (int)n : 0;
}

static int by_place(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	if (x->was.block != y->was.block)
		return x->was.block < y->was.block ? -1 : 1;
	if (x->was.offset != y->was.offset)
		return x->was.offset < y->was.offset ? -1 : 1;
	return (x->was.length > y->was.length) - (x->was.length < y->was.length);
}

static bool is_same(const struct piece *x, const struct piece *y)
{
	return by_place(x, y) == 0;
}

/* Assigns offsets in the new block, in the order of the old positions. Files that share a piece
 * share its copy. */
static void lay_out(struct compaction *k)
{
	k->bytes = 0;
	if (k->count > 0)
		qsort(k->piece, k->count, sizeof(*k->piece), by_place);
	for (size_t i = 0; i < k->count; i++) {
		if (i > 0 && is_same(&k->piece[i - 1], &k->piece[i])) {
			k->piece[i].at = k->piece[i - 1].at;
			continue;
		}
		k->piece[i].at = k->bytes;
		k->bytes += k->piece[i].was.length;
	}
}

/* Gathers the extents in all sealed blocks that have the encoding and media of the first
 * sealed block; the other blocks are skipped. */
static int gather(struct compaction *k)
{
	struct encoding enc;
	int rc = 0;
	const char *encoding = NULL;
	enum cluster_media media = CLUSTER_MEDIA_DISK;
	for (size_t i = 0; rc == 0 && i < k->n; i++) {
		const struct meta_block *b = &k->block[i];
		if (b->state != META_BLOCK_SEALED || b->length == 0)
			continue;
		if (encoding == NULL) {
			encoding = b->encoding;
			media = b->media;
		}
		if (strcmp(encoding, b->encoding) == 0 && b->media == media)
			rc = gather_block(k, b->id);
	}
	if (rc == 0 && encoding != NULL &&
	    (encoding_parse(encoding, &enc, NULL, 0) < 0 || shape_init(&k->shape, &enc) < 0))
		rc = -EBADMSG;
	k->call->media = media == CLUSTER_MEDIA_FLASH ? TERRANE_MEDIA_FLASH : TERRANE_MEDIA_DISK;
	lay_out(k);
	return rc;
}

/* --- copy --------------------------------------------------------------------------------------- */

static const struct meta_block *block_of(const struct compaction *k, uint64_t id)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->block[i].id == id)
			return &k->block[i];
	return NULL;
}

static int load(struct compaction *k, struct buf *data, uint32_t *crc)
{
	assert(k->count > 0 && k->bytes <= data->len);
	struct iovec iov = {data->data, k->bytes};
	AUTO_FREE struct block_range *list = calloc(k->count, sizeof(*list));
	AUTO_FREE struct block_range **ranges = calloc(k->count, sizeof(*ranges));
	size_t n = 0;
	if (list == NULL || ranges == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < k->count; i++) {
		const struct piece *p = &k->piece[i];
		if (i > 0 && is_same(&k->piece[i - 1], p))
			continue;
		list[n] = (struct block_range){.block = block_of(k, p->was.block),
					       .off = p->was.offset,
					       .len = p->was.length,
					       .sink = {.iov = &iov, .n = 1, .skip = p->at}};
		if (list[n].block == NULL)
			return -EBADMSG;
		ranges[n] = &list[n];
		n++;
	}
	int rc = blocks_read(&(struct block_read){.call = k->call, .ranges = ranges, .count = n});
	*crc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		*crc = crc32c_combine(*crc, list[i].crc, list[i].len);
	return rc;
}

static int by_file(const void *a, const void *b)
{
	const struct meta_owner *x = a, *y = b;
	return (x->file > y->file) - (x->file < y->file);
}

/* Lists each file once, with the sum of its bytes. */
static size_t owners_of(const struct compaction *k, struct meta_owner *out)
{
	size_t n = 0;
	for (size_t i = 0; i < k->count; i++)
		out[i] = (struct meta_owner){k->piece[i].file, k->piece[i].was.length};
	qsort(out, k->count, sizeof(*out), by_file);
	for (size_t i = 0; i < k->count; i++) {
		if (n > 0 && out[n - 1].file == out[i].file)
			out[n - 1].bytes += out[i].bytes;
		else
			out[n++] = out[i];
	}
	return n;
}

static int copy(struct compaction *k, uint64_t *block)
{
	AUTO_FREE struct meta_owner *owners = calloc(k->count, sizeof(*owners));
	if (owners == NULL)
		return -ENOMEM;
	struct block_new b = {.shape = &k->shape,
			      .len = k->bytes,
			      .gate_bytes = block_gate_bytes(&k->shape, k->bytes),
			      .owners = owners,
			      .owner_count = owners_of(k, owners)};
	int rc = gate_enter(&k->call->fabric->shared->writes, b.gate_bytes);
	if (rc < 0)
		return rc;
	rc = rt_pool_get(&k->call->fabric->shared->pool, k->bytes, &b.data);
	if (rc == 0)
		rc = load(k, b.data, &b.crc);
	if (rc < 0) {
		buf_unref(b.data);
		gate_leave(&k->call->fabric->shared->writes, b.gate_bytes);
		return rc;
	}
	rc = block_create_take(k->call, &b);
	*block = b.id;
	return rc;
}

/* --- remap --------------------------------------------------------------------------------------- */

static int remap(struct compaction *k, uint64_t block)
{
	assert(block != 0);
	for (size_t i = 0; i < k->count; i++) {
		const struct piece *p = &k->piece[i];
		struct meta_extent now = {.block = block, .offset = p->at, .length = p->was.length};
		struct meta_call m = call_meta(k->call);
		int rc = meta_client_file_remap(&m, p->file, p->offset, &p->was, &now);
		if (rc == -ENOENT || rc == -ESTALE)
			k->out->overtaken++;
		else if (rc < 0)
			return call_meta_fail(k->call, &m, rc,
					      "cannot remap a file of a compacted block");
		else
			k->out->extents++;
	}
	return 0;
}

int engine_compact(struct call *c, const struct meta_block *b, size_t n,
		   struct engine_compacted *out)
{
	struct compaction k = {.call = c, .block = b, .n = n, .out = out};
	uint64_t block = 0;
	*out = (struct engine_compacted){0};
	if (n == 0 || n > ENGINE_COMPACT_MAX)
		return call_fail(c, -EINVAL, "compaction takes 1 to %d blocks", ENGINE_COMPACT_MAX);
	c->ignore_spread = true;
	int rc = gather(&k);
	if (rc == 0 && k.bytes > ENGINE_BLOCK_MAX)
		rc = call_fail(c, -EFBIG,
			       "the used bytes of these blocks do not fit into one block: compact "
			       "fewer at once");
	if (rc == 0 && k.count > 0)
		rc = copy(&k, &block);
	if (rc == 0 && k.count > 0) {
		out->bytes = k.bytes;
		rc = remap(&k, block);
	}
	free(k.piece);
	return rc;
}
