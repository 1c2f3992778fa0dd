// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stddef.h>
#include <stdint.h>

struct buf;

/* Part of a buffer with its checksum, which is computed once, where the data comes in, and then
 * travels with it. */
struct slice {
	struct buf *buf; /* NULL: nothing */
	size_t offset;
	size_t len;
	uint32_t crc; /* CRC-32C of the part */
};

/* Returns all of a buffer, with its checksum computed here. */
struct slice slice_of(struct buf *b);

#endif
