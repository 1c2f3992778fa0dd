// SPDX-License-Identifier: Apache-2.0
/*
 * Encodes a block into chunks with checksums, and verifies data, parities and checksums.
 *
 * The order of the steps finds every flipped bit. (1) The checksums of the data chunks are computed over the block.
 * Combined they must give the checksum that came with the user's bytes. (2) Parities are computed, then their
 * checksums. (3) codec_verify compares data and parities. After (1) and (2) each chunk travels with its checksum, which the node compares. So a
 * bit that flips earlier is found in (1) or (3), and one that flips later by the node.
 */
#ifndef CLIENT_ENCODE_H
#define CLIENT_ENCODE_H

#include "base/slice.h"
#include "client/fabric.h"
#include "code/shape.h"

struct coded {
	int n;
	struct slice *chunk; /* n chunks; buf NULL: an empty chunk */
};

/* Encodes the first len bytes of data, whose CRC-32C is crc. Waits; large blocks are encoded on
 * the offload pool. -EBADMSG: bits flipped since crc was taken; -ENOMEM, -EINVAL. */
int coded_make(struct call *c, const struct shape *s, struct buf *data, uint64_t len, uint32_t crc,
	       struct coded *out);
void coded_free(struct coded *c);

/* Returns the memory in bytes that the parities of a block of len bytes take. */
uint64_t coded_parity_bytes(const struct shape *s, uint64_t len);

#endif
