// SPDX-License-Identifier: Apache-2.0
#include "dataset/packing.h"

#include <assert.h>
#include <errno.h>

#include "base/base.h"

int packing_init(struct packing *p, const char *encoding, uint64_t block_bytes)
{
	struct encoding e;
	char why[ENCODING_WHY_MAX];
	int rc = encoding_parse(encoding, &e, why, sizeof(why));
	if (rc == 0)
		rc = shape_init(&p->shape, &e);
	if (rc < 0 || block_bytes < SHAPE_UNIT)
		return -EINVAL;
	p->block_bytes = block_bytes;
	p->chunk_bytes = shape_chunk_len(&p->shape, block_bytes);
	return 0;
}

/* Bytes from `in` to the end of its chunk, in a block of block_bytes that is cut into chunks of chunk_bytes. */
static uint64_t chunk_left(uint64_t in, uint64_t block_bytes, uint64_t chunk_bytes)
{
	assert(in < block_bytes && chunk_bytes > 0);
	return min_u64(chunk_bytes - in % chunk_bytes, block_bytes - in);
}

uint64_t packing_next(const struct packing *p, uint64_t at, uint64_t size)
{
	if (size > p->chunk_bytes)
		return at;
	/* The last chunk of a block may be shorter than the others: skip it if it is too short. */
	for (;;) {
		uint64_t left = chunk_left(at % p->block_bytes, p->block_bytes, p->chunk_bytes);
		if (left >= size)
			return at;
		at += left;
	}
}

/* Places the samples of the last block, which begin at `at` in it, with chunks of chunk_bytes. Returns their end, or
 * UINT64_MAX if it does not fit into k chunks. */
static uint64_t tail_try(const struct packing *p, uint64_t at, uint64_t chunk_bytes,
			 const uint64_t *sizes, uint64_t n, uint64_t *offsets)
{
	uint64_t room = chunk_bytes * (uint64_t)p->shape.k;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t size = sizes[i];
		if (size <= chunk_bytes && at % chunk_bytes + size > chunk_bytes)
			at += chunk_bytes - at % chunk_bytes;
		if (at > room || size > room - at)
			return UINT64_MAX;
		offsets[i] = at;
		at += size;
	}
	return at;
}

static uint64_t round_up(uint64_t n)
{
	return (n + SHAPE_UNIT - 1) / SHAPE_UNIT * SHAPE_UNIT;
}

/* Places the samples of the last block again. Returns the length of the block. */
static uint64_t tail_place(const struct packing *p, uint64_t at, const uint64_t *sizes, uint64_t n,
			   uint64_t *offsets)
{
	uint64_t sum = at, chunk = SHAPE_UNIT, k = (uint64_t)p->shape.k;
	for (uint64_t i = 0; i < n; i++) {
		sum += sizes[i];
		if (sizes[i] <= p->chunk_bytes)
			chunk = max_u64(chunk, round_up(sizes[i]));
	}
	chunk = max_u64(chunk, round_up((sum + k - 1) / k));
	for (; chunk < p->chunk_bytes; chunk += max_u64(SHAPE_UNIT, round_up(chunk / 64))) {
		uint64_t end = tail_try(p, at, chunk, sizes, n, offsets);
		if (end != UINT64_MAX)
			return max_u64(end, k * (chunk - SHAPE_UNIT) + 1);
	}
	return UINT64_MAX;
}

uint64_t packing_all(const struct packing *p, const uint64_t *sizes, uint64_t n, uint64_t *offsets)
{
	uint64_t at = 0;
	assert(n > 0);
	for (uint64_t i = 0; i < n; i++) {
		offsets[i] = packing_next(p, at, sizes[i]);
		at = offsets[i] + sizes[i];
	}
	if (p->shape.copies || at % p->block_bytes == 0)
		return at; /* a block in copies is one chunk, of any length */
	uint64_t base = at - at % p->block_bytes, first = n;
	while (first > 0 && offsets[first - 1] >= base)
		first--;
	uint64_t before = first > 0 ? offsets[first - 1] + sizes[first - 1] : 0;
	uint64_t spill = before > base ? before - base : 0;
	uint64_t tail = tail_place(p, spill, sizes + first, n - first, offsets + first);
	if (tail != UINT64_MAX) {
		for (uint64_t i = first; i < n; i++)
			offsets[i] += base;
		return base + tail;
	}
	/* The chunks of a full block are the smallest that hold them. */
	at = before;
	for (uint64_t i = first; i < n; i++) {
		offsets[i] = packing_next(p, max_u64(at, base), sizes[i]);
		at = offsets[i] + sizes[i];
	}
	return base + p->block_bytes;
}

bool packing_in_one_chunk(const struct packing *p, uint64_t length, uint64_t offset, uint64_t size)
{
	uint64_t base = offset - offset % p->block_bytes;
	uint64_t chunk = shape_chunk_len(&p->shape, min_u64(p->block_bytes, length - base));
	uint64_t in = offset - base;
	assert(offset <= length && size <= length - offset);
	return size == 0 || (in + size <= p->block_bytes && in / chunk == (in + size - 1) / chunk);
}
