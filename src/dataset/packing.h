// SPDX-License-Identifier: Apache-2.0
/*
 * Where samples go in a file, so that a sample that fits into a chunk is in one chunk, and its read goes to one disk.
 *
 * A file is a sequence of blocks of block_bytes, the last one shorter. The encoding cuts a block into k data chunks
 * (code/shape.h). A sample that would cross the end of a chunk begins at the next chunk instead; the gap is padding.
 * Samples that are larger than a chunk follow one another without gaps.
 *
 * The chunks of the last block follow from its length. So its samples are placed again, with the smallest chunks that
 * hold them, and the block is padded to the length that has these chunks.
 *
 *     rs:4+2, blocks of 64 MiB (chunks of 16 MiB), three samples of 110 KB: 330 KB in chunks of 84 KiB would cross. The
 *     chunk must be 112 KiB: samples at 0, 112 KiB, 224 KiB, and 3 * 112 KiB + 1 .. 4 * 112 KiB bytes in the block.
 */
#ifndef DATASET_PACKING_H
#define DATASET_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "code/shape.h"

struct packing {
	struct shape shape;
	uint64_t block_bytes;
	uint64_t chunk_bytes; /* of a full block */
};

/* Prepares placing for an encoding as text. -EINVAL: no encoding, or no such block size. */
int packing_init(struct packing *p, const char *encoding, uint64_t block_bytes);

/* Returns the offset of a sample that follows bytes up to `at`, in full blocks. */
uint64_t packing_next(const struct packing *p, uint64_t at, uint64_t size);

/* Computes the offsets of all samples of a file and returns the length of the file. */
uint64_t packing_all(const struct packing *p, const uint64_t *sizes, uint64_t n, uint64_t *offsets);

/* Returns whether a range of a file of `length` bytes lies in one chunk. */
bool packing_in_one_chunk(const struct packing *p, uint64_t length, uint64_t offset, uint64_t size);

#endif
