// SPDX-License-Identifier: Apache-2.0
/*
 * Re-encoding: gives the blocks of a sealed file another encoding, usually Reed-Solomon instead of replicas, or other
 * media. A block is read, compared with the checksum of its record, encoded and written under a new chunk_block. Then
 * its record is changed in one transaction, if no other client changed it since. The old chunks become garbage with that
 * transaction, not before, so the record always names chunks that exist. If the client was suspended before it for so
 * long that a janitor has deleted the new chunks as orphans, the change is refused (release_count in meta.h).
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "client/engine_impl.h"

#define REENCODE_PAGE 64

static int block_load(struct call *c, const struct meta_block *b, struct buf *data)
{
	assert(b->length <= data->len);
	struct iovec iov = {data->data, b->length};
	struct block_range range = {.block = b, .len = b->length, .sink = {.iov = &iov, .n = 1}};
	struct block_range *ranges = &range;
	int rc = blocks_read(&(struct block_read){.call = c, .ranges = &ranges, .count = 1});
	if (rc == 0 && range.crc != b->crc)
		rc = call_fail(c, -EBADMSG,
			       "block %016llx does not match the checksum of its record",
			       (unsigned long long)b->id);
	return rc;
}

static int block_reencode(struct call *c, const struct meta_block *b, const struct shape *to,
			  enum cluster_media media)
{
	struct meta_chunk chunks[META_CHUNKS_MAX] = {0};
	uint64_t gate_bytes = block_gate_bytes(to, b->length);
	int rc = gate_enter(&c->fabric->shared->writes, gate_bytes);
	if (rc < 0)
		return rc;
	struct buf *data = NULL;
	struct coded coded = {0};
	rc = rt_pool_get(&c->fabric->shared->pool, b->length, &data);
	if (rc == 0)
		rc = block_load(c, b, data);
	if (rc == 0)
		rc = coded_make(c, to, data, b->length, b->crc, &coded);
	buf_unref(data);
	if (rc < 0) {
		gate_leave(&c->fabric->shared->writes, gate_bytes);
		return rc;
	}
	struct meta_block next = *b;
	next.chunk_block = meta_id();
	next.epoch = 1;
	next.chunk_length = shape_chunk_len(to, b->length);
	next.media = media;
	next.chunk_count = (size_t)to->n;
	next.chunks = chunks;
	next.tokens = NULL; /* those of the old chunks */
	memset(next.encoding, 0, sizeof(next.encoding));
	encoding_print(&to->encoding, next.encoding);
	rc = block_place_take(c, to, &next, b->release_count + 1, &coded, gate_bytes);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	rc = meta_client_block_relayout(&m, &next);
	return call_meta_fail(c, &m, rc, "cannot commit a re-encoded block");
}

static bool is_laid_out(const struct meta_block *b, const struct shape *to,
			enum cluster_media media)
{
	char want[ENCODING_TEXT_MAX];
	encoding_print(&to->encoding, want);
	return b->length == 0 || (b->media == media && strcmp(b->encoding, want) == 0);
}

/* Re-encodes a block unless it has the encoding and media already. to NULL: keeps its encoding.
 * Media: the call's, or the block's own if the call names none. */
static int block_lay_out(struct call *c, const struct meta_block *b, const struct shape *to)
{
	struct shape own;
	struct encoding enc;
	if (to == NULL &&
	    (encoding_parse(b->encoding, &enc, NULL, 0) < 0 || shape_init(&own, &enc) < 0))
		return call_fail(c, -EBADMSG, "block %016llx has an invalid encoding",
				 (unsigned long long)b->id);
	to = to == NULL ? &own : to;
	enum cluster_media media = c->media == TERRANE_MEDIA_DEFAULT ? b->media : call_media(c);
	int rc = is_laid_out(b, to, media) ? 0 : block_reencode(c, b, to, media);
	if (call_may_fall_back(c, media, rc))
		rc = is_laid_out(b, to, CLUSTER_MEDIA_DISK)
			     ? 0
			     : block_reencode(c, b, to, CLUSTER_MEDIA_DISK);
	return rc;
}

static int page_reencode(struct call *c, const struct meta_extent *x, size_t n,
			 const struct shape *to, struct arena *a)
{
	for (size_t i = 0; i < n; i++) {
		struct meta_block b;
		struct meta_call m = call_meta(c);
		int rc = meta_client_block_get(&m, &x[i].block, 1, a, &b);
		if (rc == 0 && b.state == 0)
			rc = -ENOENT;
		if (rc < 0)
			return call_meta_fail(c, &m, rc, "cannot read a block record of the file");
		/* A shared block may have been re-encoded with another of its files. */
		rc = block_lay_out(c, &b, to);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int engine_block_reencode(struct call *c, const struct meta_block *b, const char *encoding)
{
	struct terrane_options o = {.encoding = encoding};
	struct shape to;
	int rc = engine_shape(c, &o, &to);
	if (rc < 0)
		return rc;
	if (b->state != META_BLOCK_SEALED)
		return call_fail(c, -EBUSY, "the block is not sealed");
	return block_lay_out(c, b, &to);
}

int efile_reencode(struct call *c, uint64_t file, const struct shape *to)
{
	uint64_t at = 0;
	int rc = 0;
	for (bool more = true; rc == 0 && more;) {
		struct arena a;
		arena_init(&a, 4 * MIB);
		struct meta_file f;
		struct meta_part part = {.offset = at, .max = REENCODE_PAGE};
		struct meta_call m = call_meta(c);
		rc = meta_client_file_get(&m, file, &part, &a, &f);
		call_meta_fail(c, &m, rc, "cannot read the file record");
		if (rc == 0)
			rc = page_reencode(c, part.extents, part.count, to, &a);
		at = part.first_offset;
		for (size_t i = 0; rc == 0 && i < part.count; i++)
			at += part.extents[i].length;
		more = rc == 0 && part.count == REENCODE_PAGE && at < f.size;
		arena_fini(&a);
	}
	return rc;
}
