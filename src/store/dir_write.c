// SPDX-License-Identifier: Apache-2.0
/*
 * Writing pages and slots. If the pieces of a payload are aligned pages and start on a page of the
 * chunk, they are written without copying; other payloads are written through a buffer of at most
 * DIR_WINDOW_BYTES.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/dir_impl.h"

void *dir_pages_alloc(uint64_t bytes)
{
	uint64_t whole = (bytes + CHUNK_PAGE_BYTES - 1) / CHUNK_PAGE_BYTES * CHUNK_PAGE_BYTES;
	return aligned_alloc(CHUNK_PAGE_BYTES, whole > 0 ? whole : CHUNK_PAGE_BYTES);
}

/* A list of buffers that are written to consecutive offsets of a file. */
struct page_out {
	struct rt_file *file;
	uint64_t at;
	uint64_t bytes;
	int n;
	struct iovec iov[RT_IOV_MAX];
};

static int out_flush(struct dir_store *d, struct page_out *o)
{
	if (o->n == 0)
		return 0;
	int rc = dir_note(d, rt_file_writev(o->file, o->iov, o->n, o->at));
	o->at += o->bytes;
	o->bytes = 0;
	o->n = 0;
	return rc;
}

static int out_add(struct dir_store *d, struct page_out *o, const void *bytes, uint64_t len)
{
	int rc = o->n == RT_IOV_MAX ? out_flush(d, o) : 0;

	assert(len % CHUNK_PAGE_BYTES == 0);
	if (rc == 0 && len > 0) {
		o->iov[o->n++] = (struct iovec){
			.iov_base = (void *)(uintptr_t)bytes,
			.iov_len = len,
		};
		o->bytes += len;
	}
	return rc;
}

/*
 * Returns whether the pieces of a payload can be written without copying. The last piece may have
 * any length: the bytes that fill no page become the tail.
 */
static bool pieces_are_pages(const struct store_data *data)
{
	for (int i = 0; i < data->n; i++) {
		uint64_t bits = (uint64_t)(uintptr_t)data->iov[i].iov_base;
		if (i < data->n - 1)
			bits |= data->iov[i].iov_len;
		if (bits % CHUNK_PAGE_BYTES != 0)
			return false;
	}
	return true;
}

static int pages_direct(struct dir_store *d, struct page_out *o, const struct store_data *data,
			uint64_t left)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < data->n && left > 0; i++) {
		uint64_t part = min_u64(left, data->iov[i].iov_len);
		rc = out_add(d, o, data->iov[i].iov_base, part);
		left -= part;
	}
	return rc != 0 ? rc : out_flush(d, o);
}

static int pages_copied(struct dir_store *d, struct page_out *o, const struct chunk_head *h,
			const struct store_data *data, uint64_t left)
{
	uint64_t window = min_u64(left, DIR_WINDOW_BYTES);
	uint64_t tail_len = h->len % CHUNK_PAGE_BYTES;
	AUTO_FREE uint8_t *copy = dir_pages_alloc(window);
	uint64_t off = 0;
	int rc = 0;

	assert(left > 0 && left % CHUNK_PAGE_BYTES == 0);
	if (copy == NULL)
		return -ENOMEM;
	memcpy(copy, h->tail, tail_len);
	while (rc == 0 && left > 0) {
		uint64_t part = min_u64(left, window);
		store_data_copy(data, off, copy + tail_len, part - tail_len);
		off += part - tail_len;
		left -= part;
		tail_len = 0;
		rc = out_add(d, o, copy, part);
		if (rc == 0)
			rc = out_flush(d, o);
	}
	return rc;
}

int dir_pages_write(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		    const struct store_data *data, const uint8_t *before)
{
	uint64_t start = chunk_paged(h->len);
	uint64_t left = chunk_paged(h->len + data->len) - start;
	struct page_out o = {.file = f, .at = CHUNK_SLOTS_BYTES + start};

	assert(before == NULL || h->len == 0);
	if (before != NULL) {
		o.at = 0;
		out_add(d, &o, before, CHUNK_SLOTS_BYTES);
	}
	if (left == 0)
		return out_flush(d, &o);
	if (h->len == start && pieces_are_pages(data))
		return pages_direct(d, &o, data, left);
	return pages_copied(d, &o, h, data, left);
}

int dir_slot_write(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		   unsigned slot)
{
	AUTO_FREE uint8_t *bytes = dir_pages_alloc(CHUNK_SLOT_BYTES);
	/* No reader reads the tail page when it holds no bytes, so write the head alone. */
	size_t len = h->len % CHUNK_PAGE_BYTES == 0 ? CHUNK_PAGE_BYTES : CHUNK_SLOT_BYTES;

	assert(slot < 2);
	if (bytes == NULL)
		return -ENOMEM;
	chunk_slot_encode(h, bytes);
	return dir_note(d, rt_file_write(f, bytes, len, (uint64_t)slot * CHUNK_SLOT_BYTES));
}

int dir_settle(struct dir_store *d, struct dir_chunk *c)
{
	assert(rt_mutex_held(&c->lock));
	if (c->settled || c->frozen || c->read_only)
		return 0;
	const struct chunk_head *h = &c->head->h;
	int rc = dir_slot_write(d, c->file, h, 1 - chunk_slot_of(h->seq));
	c->settled = rc == 0;
	return rc;
}
