// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stddef.h>
#include <stdint.h>

struct buf;

/* Part of a buffer with its checksum. The checksum is computed once, where the data enters the
 * system, and is passed on with it. */
struct slice {
	struct buf *buf; /* NULL: the slice is empty */
	size_t offset;
	size_t len;
	uint32_t crc; /* CRC-32C of the len bytes of the slice */
};

/* Returns a slice of all bytes of a buffer; computes their checksum. */
struct slice slice_of(struct buf *b);

#endif
