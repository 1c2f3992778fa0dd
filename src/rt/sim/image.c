// SPDX-License-Identifier: Apache-2.0
#include "rt/sim/disk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The zeros to which all reserved but unwritten blocks point. */
static const uint8_t image_zeros[DISK_BLOCK_BYTES];

static uint8_t *reserved_block(void)
{
	return (uint8_t *)(uintptr_t)image_zeros;
}

static void block_free(uint8_t *block)
{
	if (block != image_zeros)
		free(block);
}

static size_t blocks_of(uint64_t bytes)
{
	return (size_t)((bytes + DISK_BLOCK_BYTES - 1) / DISK_BLOCK_BYTES);
}

void image_fini(struct image *im)
{
	for (size_t b = 0; b < im->slots; b++)
		block_free(im->blocks[b]);
	free(im->blocks);
	memset(im, 0, sizeof(*im));
}

static void image_slots(struct image *im, size_t slots)
{
	if (slots <= im->slots)
		return;
	if (slots < im->slots * 2)
		slots = im->slots * 2;
	im->blocks = sim_need(realloc(im->blocks, slots * sizeof(*im->blocks)));
	memset(im->blocks + im->slots, 0, (slots - im->slots) * sizeof(*im->blocks));
	im->slots = slots;
}

/*
 * Returns block b in a form that can be written; with `whole` the caller overwrites all of it, so
 * the block is not zeroed.
 */
static uint8_t *image_block(struct image *im, size_t b, bool whole)
{
	assert(b < im->slots);
	uint8_t *block = im->blocks[b];
	if (block != NULL && block != image_zeros)
		return block;
	if (block == NULL)
		im->used_blocks++;
	block = sim_need(whole ? malloc(DISK_BLOCK_BYTES) : calloc(1, DISK_BLOCK_BYTES));
	im->blocks[b] = block;
	return block;
}

void image_write(struct image *im, uint64_t offset, const void *data, size_t len)
{
	const uint8_t *from = data;

	if (len == 0)
		return;
	image_slots(im, blocks_of(offset + len));
	im->size_bytes = max_u64(im->size_bytes, offset + len);
	while (len > 0) {
		size_t at = (size_t)(offset % DISK_BLOCK_BYTES);
		size_t n = (size_t)min_u64(len, DISK_BLOCK_BYTES - at);
		uint8_t *block =
			image_block(im, (size_t)(offset / DISK_BLOCK_BYTES), n == DISK_BLOCK_BYTES);
		memcpy(block + at, from, n);
		from += n;
		offset += n;
		len -= n;
	}
}

void image_read(const struct image *im, uint64_t offset, void *data, size_t len)
{
	uint8_t *to = data;

	while (len > 0) {
		size_t at = (size_t)(offset % DISK_BLOCK_BYTES);
		size_t n = (size_t)min_u64(len, DISK_BLOCK_BYTES - at);
		uint64_t b = offset / DISK_BLOCK_BYTES;
		if (b < im->slots && im->blocks[b] != NULL)
			memcpy(to, im->blocks[b] + at, n);
		else
			memset(to, 0, n);
		to += n;
		offset += n;
		len -= n;
	}
}

void image_resize(struct image *im, uint64_t size_bytes)
{
	size_t keep = blocks_of(size_bytes);

	/* Bytes past the end stay zero, so that an image that grows again returns no old bytes. */
	for (size_t b = keep; b < im->slots; b++) {
		if (im->blocks[b] == NULL)
			continue;
		block_free(im->blocks[b]);
		assert(im->used_blocks > 0);
		im->blocks[b] = NULL;
		im->used_blocks--;
	}
	size_t tail = (size_t)(size_bytes % DISK_BLOCK_BYTES);
	if (size_bytes < im->size_bytes && tail != 0 && keep <= im->slots) {
		uint8_t *block = im->blocks[keep - 1];
		if (block != NULL && block != image_zeros)
			memset(block + tail, 0, DISK_BLOCK_BYTES - tail);
	}
	im->size_bytes = size_bytes;
}

void image_reserve(struct image *im, uint64_t offset, uint64_t len)
{
	if (len == 0)
		return;
	size_t end = blocks_of(offset + len);
	image_slots(im, end);
	for (size_t b = (size_t)(offset / DISK_BLOCK_BYTES); b < end; b++) {
		if (im->blocks[b] != NULL)
			continue;
		im->blocks[b] = reserved_block();
		im->used_blocks++;
	}
}

size_t image_holes(const struct image *im, uint64_t offset, uint64_t len)
{
	size_t holes = 0;

	if (len == 0)
		return 0;
	size_t end = blocks_of(offset + len);
	for (size_t b = (size_t)(offset / DISK_BLOCK_BYTES); b < end; b++) {
		if (b >= im->slots)
			return holes + (end - b);
		holes += im->blocks[b] == NULL;
	}
	return holes;
}

void image_copy(struct image *to, const struct image *from)
{
	image_fini(to);
	image_slots(to, from->slots);
	for (size_t b = 0; b < from->slots; b++) {
		uint8_t *block = from->blocks[b];
		if (block != NULL && block != image_zeros) {
			block = sim_need(malloc(DISK_BLOCK_BYTES));
			memcpy(block, from->blocks[b], DISK_BLOCK_BYTES);
		}
		to->blocks[b] = block;
	}
	to->used_blocks = from->used_blocks;
	to->size_bytes = from->size_bytes;
}

void image_flip(struct image *im, uint64_t offset, unsigned bit)
{
	size_t b = (size_t)(offset / DISK_BLOCK_BYTES);

	assert(bit < 8);
	if (offset >= im->size_bytes || b >= im->slots || im->blocks[b] == NULL)
		return;
	uint8_t *block = image_block(im, b, false);
	block[offset % DISK_BLOCK_BYTES] ^= (uint8_t)(1U << bit);
}
